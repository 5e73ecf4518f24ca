"""Who asks: what an application says of its own user, kept with the run."""

from loom_ia.core.json import JsonObject
from loom_ia.core.model.base import Value, sparse


class CallerContext(Value):
    """`user_id` and free `metadata` of the caller; the engine carries them and never reads them."""

    user_id: str = sparse("")
    metadata: JsonObject = sparse({})
