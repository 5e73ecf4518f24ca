"""The SDK of OpenAI, as both of its APIs use it."""

from typing import TYPE_CHECKING, Any, Final

from loom_ia.adapters.models.client import WireModel

if TYPE_CHECKING:
    import httpx2

OFFICIAL: Final = "https://api.openai.com/v1"


class OpenAIModel(WireModel):
    """A model that is called through the SDK of OpenAI."""

    def load(self, http: "httpx2.AsyncClient", api_key: str) -> Any:
        """Import the SDK and make its client on `http`."""
        from openai import AsyncOpenAI

        sdk: Any = AsyncOpenAI(
            api_key=api_key,
            base_url=self.spec.base_url or OFFICIAL,
            max_retries=0,
            timeout=None,
            http_client=http,
        )
        # The variable OPENAI_CUSTOM_HEADERS may replace the key and the host.
        sdk._custom_headers = {}  # noqa: SLF001 -- the SDK reads the variable whatever it is given
        return sdk

    def stream_class(self) -> type[Any]:
        """Give the SDK's class of streams."""
        from openai import AsyncStream

        return AsyncStream[object]
