"""A model that can be called."""

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from loom_ia.core.model.chunks import ModelChunk
from loom_ia.core.model.exchange import HttpExchange
from loom_ia.core.model.models import ModelSpec
from loom_ia.core.model.request import ModelRequest
from loom_ia.core.ports.artifacts import ArtifactStore

OnExchange: TypeAlias = Callable[[HttpExchange], None]
"""Told of each HTTP exchange when it is over, however it ended."""


@dataclass(frozen=True, slots=True)
class ModelAccess:
    """What a client of a model is given beside its entry of the configuration.

    `api_key` is the key itself, None when the entry names no variable. `artifacts` is where the
    files of a conversation are. `raw_max_bytes` bounds each body of an exchange that is told.
    `path` is where requests go, after the address of the entry; None is where the format has them.
    """

    api_key: str | None = field(default=None, repr=False)
    artifacts: ArtifactStore | None = None
    raw_max_bytes: int = 262_144
    path: str | None = None


class ModelClient(Protocol):
    """One model of the configuration. Streaming is the primitive: an answer is its stream.

    A client makes one attempt: waiting, retrying and falling back are the engine's.
    """

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


class WireModelClient(ModelClient, Protocol):
    """A client of a provider: it has something to set up, and can tell what goes over the wire."""

    async def prepare(self) -> None:
        """Set up what the first call needs, before any clock runs; once is enough."""
        ...

    def observed(self, request: ModelRequest, told: OnExchange) -> AsyncGenerator[ModelChunk, None]:
        """Call the model as `stream` does, telling each HTTP exchange."""
        ...
