"""A model behind the Messages API."""

from typing import TYPE_CHECKING, Any, ClassVar, Final

from loom_ia.adapters.models.anthropic.request import Encoder, with_params
from loom_ia.adapters.models.anthropic.stream import MessagesReader
from loom_ia.adapters.models.client import Reader, WireModel
from loom_ia.adapters.models.files import Contents
from loom_ia.adapters.models.turns import Turn
from loom_ia.core.json import JsonObject
from loom_ia.core.model.request import ModelRequest

if TYPE_CHECKING:
    import httpx2

OFFICIAL: Final = "https://api.anthropic.com"


class AnthropicModel(WireModel):
    """Claude, or any server that speaks as Anthropic does."""

    API: ClassVar[str] = "anthropic"
    PATH: ClassVar[str] = "/v1/messages"
    OWN_KEYS: ClassVar[frozenset[str]] = frozenset(
        {"max_tokens", "messages", "model", "stream", "system", "tool_choice", "tools"}
    )

    def load(self, http: "httpx2.AsyncClient", api_key: str) -> Any:
        """Import the SDK and make its client on `http`."""
        from anthropic import AsyncAnthropic

        sdk: Any = AsyncAnthropic(
            api_key=api_key,
            base_url=self.spec.base_url or OFFICIAL,
            max_retries=0,
            timeout=None,
            http_client=http,
            open_telemetry=False,
        )
        # ANTHROPIC_CUSTOM_HEADERS: it could replace the key, and no argument sets it aside.
        sdk._custom_headers = {}  # noqa: SLF001
        return sdk

    def stream_class(self) -> type[Any]:
        """Give the SDK's class of streams."""
        from anthropic import AsyncStream

        return AsyncStream[object]

    async def body(self, request: ModelRequest) -> JsonObject:
        """Write the body that a request is sent as."""
        return with_params(await super().body(request), request)

    def write(self, request: ModelRequest, turns: list[Turn], contents: Contents) -> JsonObject:
        """Write the body of a request."""
        return Encoder(self.spec, request, contents).body(turns)

    def reader(self) -> Reader:
        """Give what reads the next answer."""
        return MessagesReader()
