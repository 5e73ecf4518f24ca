"""A door through which a service that knows nothing of this API begins runs."""

from dataclasses import dataclass
from typing import Final

from loom_ia.core.template import Template

TRIGGER_NAMES: Final = ("payload", "trigger", "delivery")
"""What the templates of a trigger may begin with: what was posted, its name, the delivery's id."""

LONGEST_DELIVERY: Final = 1_024
"""Characters that the id of a delivery may have."""


@dataclass(frozen=True, slots=True)
class Trigger:
    """What a call of the door `name` begins.

    A run of `agent` on `message`, in the session that `session` names, or in one of its own. With
    `needs_delivery`, a call must say which delivery it is.
    """

    name: str
    agent: str
    message: Template
    session: Template | None = None
    needs_delivery: bool = False
