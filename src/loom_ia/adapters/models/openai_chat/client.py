"""A model behind Chat Completions."""

from collections.abc import Mapping
from typing import Any, ClassVar, cast

from loom_ia.adapters.models.client import Reader
from loom_ia.adapters.models.faults import fault_of, model_error
from loom_ia.adapters.models.files import Contents
from loom_ia.adapters.models.openai_chat.request import Encoder
from loom_ia.adapters.models.openai_chat.stream import ChatReader
from loom_ia.adapters.models.openai_sdk import OpenAIModel
from loom_ia.adapters.models.turns import Turn
from loom_ia.core.json import JsonObject
from loom_ia.core.model.models import ModelSpec
from loom_ia.core.model.request import ModelRequest
from loom_ia.core.ports.models import ModelAccess


class ChatModel(OpenAIModel):
    """OpenAI, or any server that is compatible with it."""

    API: ClassVar[str] = "chat"
    PATH: ClassVar[str] = "/chat/completions"
    OWN_KEYS: ClassVar[frozenset[str]] = frozenset(
        {
            "max_completion_tokens",
            "max_tokens",
            "messages",
            "model",
            "n",
            "response_format",
            "stream",
            "tool_choice",
            "tools",
        }
    )

    def __init__(self, spec: ModelSpec, access: ModelAccess | None = None) -> None:
        # A result is a text here: files follow it, whatever the model could take.
        can = spec.capabilities.model_copy(update={"tool_result_media": False})
        super().__init__(spec.model_copy(update={"capabilities": can}), access)

    async def body(self, request: ModelRequest) -> JsonObject:
        """Write the body that a request is sent as; what it says of effort replaces `params`."""
        body = await super().body(request)
        return body if request.effort is None else {**body, "reasoning_effort": request.effort}

    def write(self, request: ModelRequest, turns: list[Turn], contents: Contents) -> JsonObject:
        """Write the body of a request."""
        return Encoder(self.spec, request, contents).body(turns)

    def reader(self) -> Reader:
        """Give what reads the next answer."""
        return ChatReader(self.API)

    def _refuse_error(self, data: Mapping[str, Any]) -> None:
        super()._refuse_error(data)
        # MiniMax says of each answer how it went, and 0 is well.
        how: Any = data.get("base_resp")
        if isinstance(how, dict) and cast("dict[str, Any]", how).get("status_code"):
            raise model_error(self.spec, fault_of(dict(data)), secret=self._access.api_key)
