"""A model behind Chat Completions."""

from typing import TYPE_CHECKING, Any, ClassVar, Final

from loom_ia.adapters.models.client import Reader, WireModel
from loom_ia.adapters.models.files import Contents
from loom_ia.adapters.models.openai_chat.request import Encoder
from loom_ia.adapters.models.openai_chat.stream import ChatReader
from loom_ia.adapters.models.turns import Turn
from loom_ia.core.json import JsonObject
from loom_ia.core.model.request import ModelRequest

if TYPE_CHECKING:
    import httpx2

OFFICIAL: Final = "https://api.openai.com/v1"


class ChatModel(WireModel):
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

    def load(self, http: "httpx2.AsyncClient", api_key: str) -> Any:
        """Import the SDK and make its client on `http`."""
        from openai import AsyncOpenAI

        return AsyncOpenAI(
            api_key=api_key,
            base_url=self.spec.base_url or OFFICIAL,
            max_retries=0,
            timeout=None,
            http_client=http,
        )

    def stream_class(self) -> type[Any]:
        """Give the SDK's class of streams."""
        from openai import AsyncStream

        return AsyncStream[object]

    def write(self, request: ModelRequest, turns: list[Turn], contents: Contents) -> JsonObject:
        """Write the body of a request."""
        return Encoder(self.spec, request, contents).body(turns)

    def reader(self) -> Reader:
        """Give what reads the next answer."""
        return ChatReader()
