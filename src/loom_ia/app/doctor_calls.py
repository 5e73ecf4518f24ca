"""The calls of a checkup: each bounded by the timeouts of its model, made again once at most."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final, cast

from loom_ia.app.doctor_faults import (
    Fault,
    Veil,
    media_type_of,
    model_fault,
    no_answer_fault,
    setup_fault,
    unexpected_fault,
)
from loom_ia.core.errors import ConfigError, ModelError
from loom_ia.core.model.chunks import (
    Answer,
    Assembler,
    ModelChunk,
    ReasoningDelta,
    TextDelta,
    ToolArgsDelta,
    UsageReported,
)
from loom_ia.core.model.content import ReasoningBlock
from loom_ia.core.model.exchange import HttpExchange
from loom_ia.core.model.models import Capabilities, ModelSpec
from loom_ia.core.model.request import ModelRequest
from loom_ia.core.model.usage import Usage
from loom_ia.core.ports.models import ModelClient, WireModelClient
from loom_ia.engine.perform.timers import Timers

_LONGEST_WAIT: Final = 5.0
"""Seconds that are waited before a call is made again; who asks for more is not asked again."""


@dataclass(frozen=True, slots=True)
class Heard:
    """An answer, and how it came: in how many pieces, after how many seconds.

    `is_document` tells that it came whole, from a server that does not stream; None when nobody
    knows.
    """

    answer: Answer
    pieces: int
    first_piece_s: float
    seconds: float
    is_document: bool | None

    @property
    def text(self) -> str:
        """What can be read of the answer."""
        return self.answer.message.as_text().strip()

    @property
    def is_cut(self) -> bool:
        """Whether it reached its limit of tokens."""
        return self.answer.stop_reason == "max_tokens"


@dataclass(slots=True)
class Line:
    """The line to one model. It adds up what is consumed, and notes whether thoughts were seen.

    `make` gives a client of an entry; those that were made are closed with the line.
    """

    spec: ModelSpec
    make: Callable[[ModelSpec], ModelClient]
    veil: Veil
    calls: int = 0
    usage: Usage = field(default_factory=Usage)
    cost_usd: float = 0.0
    thoughts: bool = False
    _clients: dict[str, ModelClient] = field(default_factory=dict[str, ModelClient])

    async def ask(self, request: ModelRequest, can: Capabilities) -> Heard | Fault:
        """Call the model as one that `can` do this; a passing fault is tried again once."""
        try:
            client = self._client(can)
        except ConfigError as error:
            return setup_fault(error)
        heard = await self._attempt(client, request)
        wait = self._wait(heard)
        if wait is not None:
            await asyncio.sleep(wait)
            heard = await self._attempt(client, request)
        if isinstance(heard, Heard):
            self._count(heard.answer)
        return heard

    async def close(self) -> None:
        """Let go of the clients."""
        for client in self._clients.values():
            await client.close()

    def _client(self, can: Capabilities) -> ModelClient:
        key = can.model_dump_json()
        if key not in self._clients:
            self._clients[key] = self.make(self.spec.model_copy(update={"capabilities": can}))
        return self._clients[key]

    def _wait(self, heard: Heard | Fault) -> float | None:
        """Give the seconds before another attempt, None when there must be none."""
        rule = self.spec.retry
        if isinstance(heard, Heard) or not heard.is_passing or rule.max_attempts == 1:
            return None
        if heard.retry_after is not None:
            return heard.retry_after if heard.retry_after <= _LONGEST_WAIT else None
        return min(rule.initial_delay, rule.max_delay, _LONGEST_WAIT)

    async def _attempt(self, client: ModelClient, request: ModelRequest) -> Heard | Fault:
        exchanges: list[HttpExchange] = []
        self.calls += 1
        try:
            if (prepare := getattr(client, "prepare", None)) is not None:
                await prepare()
            listener = _Listener(self.spec)
            await listener.hear(_stream(client, request, exchanges))
        except ModelError as error:
            return model_fault(error, _last(exchanges), self.spec, self.veil)
        except Exception as error:  # noqa: BLE001 -- a server may send anything at all
            return unexpected_fault(error, self.veil)
        exchange = _last(exchanges)
        return listener.heard(exchange) or no_answer_fault(exchange, self.spec, self.veil)

    def _count(self, answer: Answer) -> None:
        used = answer.usage or Usage()
        self.usage += used
        if self.spec.pricing is not None:
            self.cost_usd += self.spec.pricing.cost(used)
        thought = any(isinstance(block, ReasoningBlock) for block in answer.blocks)
        self.thoughts = self.thoughts or thought or used.reasoning_tokens > 0


class _Listener:
    """Puts one answer together, and times its pieces."""

    def __init__(self, spec: ModelSpec) -> None:
        self._spec = spec
        self._assembler = Assembler(spec.model, spec.id)
        self._clock = asyncio.get_running_loop().time
        self._start = self._clock()
        self._first: float | None = None
        self._pieces = 0

    async def hear(self, stream: AsyncGenerator[ModelChunk, None]) -> None:
        begun = False
        async with aclosing(stream) as chunks, Timers(self._spec) as timers:
            async for chunk in chunks:
                self._assembler.feed(chunk)
                if begun or not isinstance(chunk, UsageReported):
                    begun = True
                    timers.heard()
                if _is_piece(chunk):
                    self._pieces += 1
                    self._first = self._first or self._clock()

    def heard(self, exchange: HttpExchange | None) -> Heard | None:
        """Give the answer, None when it never ended."""
        answer = self._assembler.answer
        if answer is None:
            return None
        now = self._clock()
        media_type = media_type_of(exchange)
        return Heard(
            answer,
            self._pieces,
            round((self._first or now) - self._start, 3),
            round(now - self._start, 3),
            None if media_type is None else media_type.endswith("json"),
        )


def _is_piece(chunk: ModelChunk) -> bool:
    match chunk:
        case TextDelta(text) | ReasoningDelta(text):
            return bool(text)
        case ToolArgsDelta():
            return True
        case _:
            return False


def _stream(
    client: ModelClient, request: ModelRequest, exchanges: list[HttpExchange]
) -> AsyncGenerator[ModelChunk, None]:
    if hasattr(client, "observed"):
        return cast("WireModelClient", client).observed(request, exchanges.append)
    return client.stream(request)


def _last(exchanges: list[HttpExchange]) -> HttpExchange | None:
    return exchanges[-1] if exchanges else None
