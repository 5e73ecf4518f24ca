"""Models that fail as they are told to, attempt by attempt, and agents that have several."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any, TypeAlias

from loom_ia.core.errors import ModelError, ModelErrorKind
from loom_ia.core.events import Event, ModelFellBack, ModelResponded, ModelRetried, Payload
from loom_ia.core.model import (
    Capabilities,
    ModelChunk,
    ModelRequest,
    ModelSpec,
    Retry,
    Stopped,
    TextDelta,
    ToolArgsDelta,
    ToolCallEnded,
    ToolCallStarted,
    Usage,
    UsageReported,
)
from loom_ia.core.plan import ModelFacts, agent_plan
from loom_ia.engine.breaker import Circuits
from loom_ia.engine.program import Program
from tests.engine.leaping import elapsed
from tests.engine.world import Gate, Hand

Step: TypeAlias = ModelChunk | float | BaseException | Gate
Attempt: TypeAlias = "str | BaseException | Sequence[Step]"

USED = Usage(input_tokens=10, output_tokens=2)


def says(*texts: str, usage: Usage | None = USED) -> list[Step]:
    """Answer in pieces."""
    counted = [UsageReported(usage)] if usage else []
    return [*(TextDelta(text) for text in texts), *counted, Stopped("end")]


def asks(call_id: str = "c1", name: str = "act") -> list[Step]:
    """Ask for a call."""
    call = [ToolCallStarted(call_id, name), ToolArgsDelta(call_id, "{}"), ToolCallEnded(call_id)]
    return [*call, UsageReported(USED), Stopped("tool_use")]


def down(kind: ModelErrorKind = "transient", **more: Any) -> ModelError:
    """Make the error of a provider."""
    return ModelError(kind, "{kind} it is", kind=kind, **more)


class Talker:
    """A model that plays its attempts in order, then says `done`; it notes when each was made.

    In an attempt a number is a silence of so many seconds, a gate a place to wait at, an error is
    raised.
    """

    def __init__(self, *attempts: Attempt, model_id: str = "A", **settings: Any) -> None:
        retry = settings.pop("retry", Retry(initial_delay=0))
        self.spec = ModelSpec(
            id=model_id, sdk="fake", model=f"{model_id}-1", retry=retry, **settings
        )
        self.attempts = list(attempts)
        self.requests: list[ModelRequest] = []
        self.times: list[float] = []

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
        self.requests.append(request)
        self.times.append(elapsed())
        attempt = self.attempts.pop(0) if self.attempts else "done"
        if isinstance(attempt, BaseException):
            raise attempt
        for step in says(attempt) if isinstance(attempt, str) else attempt:
            match step:
                case BaseException():
                    raise step
                case float() | int():
                    await asyncio.sleep(step)
                case Gate():
                    await step.stop()
                case _:
                    yield step

    async def close(self) -> None:
        pass


def windowed(tokens: int | None) -> Capabilities:
    """Give what a model can do whose window is that long."""
    return Capabilities(context_window=tokens)


def chain(
    *models: Talker, tools: Sequence[Hand] = (), circuits: Circuits | None = None, **settings: Any
) -> Program:
    """Make an agent of which the first model leads and the others take over."""
    first, *others = (
        ModelFacts(
            model.spec.id,
            max_tokens=model.spec.max_tokens,
            context_window=model.spec.capabilities.context_window,
        )
        for model in models
    )
    plan = agent_plan(
        name="clerk",
        model=first,
        fallbacks=tuple(others),
        system="Be brief.",
        tools=tuple(tool.spec for tool in tools),
        **settings,
    )
    clients = {model.spec.id: model for model in models}
    hands = {tool.spec.name: tool for tool in tools}
    return Program(plan, clients, hands, circuits=Circuits() if circuits is None else circuits)


def of(events: Sequence[Event], kind: type[Payload]) -> list[Any]:
    """Give the payloads of one type."""
    return [event.payload for event in events if isinstance(event.payload, kind)]


def course(events: Sequence[Event]) -> list[str]:
    """Tell in a word each what became of the models."""
    found: list[str] = []
    for event in events:
        match event.payload:
            case ModelRetried() as fact:
                how = "given up" if fact.final else f"again in {fact.delay_s:g}"
                found.append(f"{fact.model} {fact.attempt} {fact.error_kind}, {how}")
            case ModelFellBack() as fact:
                found.append(f"{fact.from_model} to {fact.to_model}, {fact.reason}")
            case ModelResponded() as fact:
                found.append(f"{fact.model} answers at {fact.attempts}")
            case _ if event.type in {"run.failed", "circuit.opened", "run.cancelled"}:
                name = getattr(event.payload, "error_type", getattr(event.payload, "target", ""))
                found.append(f"{event.type} {name}".strip())
            case _:
                pass
    return found
