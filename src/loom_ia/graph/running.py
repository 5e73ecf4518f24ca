"""One execution of a step: its context, what it asked, and how what it did is told.

Law. What a step asks for is known by its key: what is recorded is given back, and a step that runs
again asks for the same keys in the same order. Whatever a step catches, what it asked pauses it.
"""

import inspect
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from random import random
from typing import Any, Final, Protocol, cast
from uuid import uuid4

from loom_ia.core.errors import CallerError
from loom_ia.core.json import JsonValue
from loom_ia.core.model.tooling import OnUnknown, SideEffects
from loom_ia.core.model.usage import Usage
from loom_ia.core.ports.store import Store
from loom_ia.core.state.calls import EffectPhase, Inquiry
from loom_ia.core.template import one_sentence
from loom_ia.engine.program import Asked, StepWork
from loom_ia.engine.threads import tool_threads
from loom_ia.graph.answers import read_answer, schema_of
from loom_ia.graph.budget import StepBudget
from loom_ia.graph.codec import Codec
from loom_ia.graph.errors import DuplicateKey, NonDeterministicStep, UnknownEffect
from loom_ia.graph.step_definition import accepted, is_async

EFFECT_QUESTION: Final = "effect:"
"""What the key of a question about an effect begins with."""


class Paused(BaseException):
    """A step stands still until somebody answers; never caught but by who runs it."""


class Host(Protocol):
    """What a graph needs of whoever hosts it: models and agents by their names."""

    def model(self, name: str) -> Any: ...
    def agent(self, name: str) -> Any: ...


class Execution:
    """The context of one execution; keeps the contract of `StepContext`."""

    def __init__(
        self,
        work: StepWork,
        codec: Codec,
        *,
        graph: str,
        on_unknown: OnUnknown,
        store: Store | None = None,
        budget: StepBudget | None = None,
        host: Host | None = None,
        checks: tuple[Callable[[Usage], object], ...] = (),
    ) -> None:
        call = work.call
        self.run_id = work.run.run_id
        self.graph = graph
        self.step = call.name
        self.occurrence = call.occurrence
        self.attempt = call.attempt
        self.idempotency_key = f"{work.run.run_id}:{call.call_id}"
        self.store = store
        self.budget = budget
        self.pending: list[Asked] = []
        self.unwritten: Exception | None = None
        self._work = work
        self._codec = codec
        self._on_unknown = on_unknown
        self._host = host
        self._checks = checks
        self._asked: set[str] = set()
        self._lots: dict[str, int] = {}
        self._recorded = {e.position: f"e:{e.key}" for e in call.effects}
        self._recorded |= {
            i.position: f"q:{i.key}"
            for i in call.inquiries
            if i.asked == "inside" and not i.key.startswith(EFFECT_QUESTION)
        }
        self._positions = {key: position for position, key in self._recorded.items()}

    @property
    def answer(self) -> Any:
        """What answered the last `Ask` of this occurrence."""
        inquiry = last_answered(self._work.call.inquiries)
        return None if inquiry is None else self._codec.from_json(inquiry.answer)

    @property
    def answered(self) -> bool:
        """Whether an `Ask` of this occurrence was answered, if only by None."""
        return last_answered(self._work.call.inquiries) is not None

    @property
    def usage(self) -> Usage:
        """What the run and those below it consumed."""
        return self._work.usage

    def check_budgets(self, spent: Usage) -> None:
        """Raise what the budget hooks of the graph raise, once what a step spent is counted."""
        for check in self._checks:
            check(self.usage + spent)

    @property
    def is_followed(self) -> bool:
        """Whether somebody reads the pieces of text that the step shows."""
        return self._work.is_followed

    async def effect(
        self,
        key: str,
        fn: Callable[..., Any],
        *,
        side_effects: SideEffects = "none",
        idempotent: bool = False,
    ) -> Any:
        """Call `fn` unless what it gave is recorded: see `StepContext`."""
        _require_effect(self.step, key, side_effects, idempotent)
        position = self._ask(f"e:{key}", key)
        known = self._work.call.effect(key)
        if known is not None and known.done:
            return self._codec.from_json(known.result)
        acts = side_effects != "none" and not idempotent
        if acts and known is not None and known.starts:
            self._require_allowed(key, known.starts)
        declared = None if side_effects == "none" else side_effects
        if acts or side_effects == "irreversible":
            await self._record(key, "started", position, declared)
        try:
            result = await called(fn, f"{self.idempotency_key}:{key}")
        except Exception:
            if acts:  # it ended, badly: it is not an effect whose end nobody saw
                await self._record(key, "failed", position, declared)
            raise
        stored = self._codec.to_json(result, key)
        await self._record(key, "done", position, declared, stored)
        return self._codec.from_json(stored)

    async def _record(
        self,
        key: str,
        phase: EffectPhase,
        position: int,
        side_effects: SideEffects | None,
        result: JsonValue = None,
    ) -> None:
        try:
            await self._work.record(key, phase, position, result, side_effects)
        except Exception as error:
            self.unwritten = error
            raise

    async def interrupt(
        self,
        payload: Any = None,
        *,
        key: str = "ask",
        schema: Any = None,
        expires_in: float | None = None,
    ) -> Any:
        """Give the answer, or pause the step: see `StepContext`."""
        position = self._ask(f"q:{key}", key)
        answered = self._answered(key)
        if answered is not None:
            return read_answer(self._codec.from_json(answered.answer), schema)
        return self._pause(
            Asked(
                key=key,
                asked="inside",
                payload=self._codec.to_json(payload, "payload"),
                answer_schema=schema_of(schema),
                expires_in=expires_in,
                position=position,
            )
        )

    async def approval(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        key: str,
        reason: str = "",
        sentence: str = "",
    ) -> Mapping[str, Any]:
        """Give the decision about a call, or pause the step: see `StepContext`."""
        position = self._ask(f"q:{key}", key)
        answered = self._answered(key)
        if answered is not None:
            return cast("Mapping[str, Any]", self._codec.from_json(answered.answer))
        shown = {"tool": tool, "arguments": dict(arguments)}
        if reason:
            shown["reason"] = reason
        if sentence:
            shown["sentence"] = one_sentence(sentence)
        return self._pause(
            Asked(
                key=key,
                asked="inside",
                kind="approve",
                payload=self._codec.to_json(shown, "payload"),
                tool=tool,
                tool_call_id=key,
                position=position,
            )
        )

    async def now(self) -> datetime:
        """Give the present instant, recorded."""
        return cast("datetime", await self.effect(self._lot("now"), lambda: datetime.now(UTC)))

    async def random(self) -> float:
        """Draw a number from 0 to 1, recorded."""
        return cast("float", await self.effect(self._lot("random"), random))

    async def uuid(self) -> str:
        """Draw a UUID, recorded."""
        return cast("str", await self.effect(self._lot("uuid"), lambda: str(uuid4())))

    def token(self, text: str) -> None:
        """Show a piece of text to whoever follows."""
        self._work.token(text)

    def model(self, name: str) -> Any:
        """Give the client of a model that the host declares."""
        if self._host is None:
            raise CallerError(
                "step {step} asks for the model {name!r}, and models by name need a host: give the "
                "model itself, or run the graph through a Loom",
                step=self.step,
                name=name,
            )
        return self._host.model(name)

    def _lot(self, what: str) -> str:
        self._lots[what] = self._lots.get(what, 0) + 1
        return f"{what}#{self._lots[what]}"

    def _ask(self, mark: str, key: str) -> int:
        """Take the next place for a key; raises when it was taken, or is not the recorded one."""
        if mark in self._asked:
            raise DuplicateKey(
                "step {step} uses the key {key!r} twice: each effect and question needs its own",
                step=self.step,
                key=key,
            )
        position = len(self._asked)
        self._asked.add(mark)
        expected = self._recorded.get(position)
        if expected not in (None, mark) or self._positions.get(mark, position) != position:
            raise NonDeterministicStep(
                "step {step} ran again and asked for {key!r} where it had asked for {expected!r}: "
                "what is recorded must be asked for first, in the same order",
                step=self.step,
                key=key,
                expected=(expected or self._recorded[self._positions[mark]])[2:]
                if expected not in (None, mark)
                else "another key",
            )
        return position

    def _answered(self, key: str) -> Inquiry | None:
        inquiry = self._work.call.inquiry(key)
        return inquiry if inquiry is not None and not inquiry.is_open else None

    def _pause(self, asked: Asked) -> Any:
        self.pending.append(asked)
        raise Paused

    def _require_allowed(self, key: str, starts: int) -> None:
        """Let an effect whose end nobody saw be made again only if a human said so."""
        asked = self._work.call.inquiry(f"{EFFECT_QUESTION}{key}")
        if asked is not None and asked.starts == starts and not asked.is_open:
            answer = asked.answer if isinstance(asked.answer, dict) else {}
            if answer.get("approved") is True:
                return
            reason = answer.get("reason")
            raise CallerError(
                "the effect {key!r} of step {step} was begun, and making it again was refused"
                "{reason}",
                key=key,
                step=self.step,
                reason=f": {reason}" if reason else "",
            )
        if self._on_unknown == "pause":
            self._pause(
                Asked(
                    key=f"{EFFECT_QUESTION}{key}",
                    asked="inside",
                    kind="unknown_effect",
                    payload=self._codec.to_json({"step": self.step, "effect": key}),
                    position=-1,
                    starts=starts,
                )
            )
        unknown = UnknownEffect(
            "nobody saw the end of the effect {key!r} of step {step}, which may not be repeated",
            key=key,
            step=self.step,
        )
        unknown.key, unknown.step = key, self.step
        raise unknown


def _require_effect(step: str, key: str, side_effects: object, idempotent: object) -> None:
    """Refuse the first option of an effect whose value is not accepted, naming those that are."""
    for option, value, is_right, known in (
        (
            "side_effects",
            side_effects,
            side_effects in ("none", "reversible", "irreversible"),
            "'none', 'reversible' or 'irreversible'",
        ),
        ("idempotent", idempotent, isinstance(idempotent, bool), "True or False"),
    ):
        if not is_right:
            raise ValueError(f"step {step}, effect({key!r}, {option}={value!r}): it is {known}")


def last_answered(inquiries: tuple[Inquiry, ...]) -> Inquiry | None:
    """Give the last `Ask` that was answered."""
    asks = (i for i in reversed(inquiries) if i.asked in ("mid", "after") and not i.is_open)
    return next(asks, None)


async def called(fn: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of an author: an async one here, another one in a thread.

    It is given as many of the arguments as it takes by position.
    """
    given = arguments[: accepted(fn, len(arguments))]
    if is_async(fn):
        return await fn(*given)
    result = await tool_threads.run(lambda: fn(*given))
    return await result if inspect.isawaitable(result) else result
