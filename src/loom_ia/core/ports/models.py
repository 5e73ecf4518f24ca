"""A model that can be called."""

from collections.abc import AsyncGenerator
from typing import Protocol

from loom_ia.core.model.chunks import ModelChunk
from loom_ia.core.model.models import ModelSpec
from loom_ia.core.model.request import ModelRequest


class ModelClient(Protocol):
    """One model of the configuration. Streaming is the primitive: an answer is its stream."""

    @property
    def spec(self) -> ModelSpec:
        """The entry of the configuration."""
        ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
        """Call the model. The last chunk is `Stopped`; a stream without it was cut.

        Raises `ModelError`, before the first chunk or after some. Leaving the iteration closes
        the call.
        """
        ...

    async def close(self) -> None:
        """Let go of connections; closing twice does nothing."""
        ...
