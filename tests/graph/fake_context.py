"""A step context in memory, and the journal behind it: it can crash, pause and be run again.

What is recorded goes through the codec of states, as it does in a real journal.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from loom_ia.core.model.tooling import SideEffects
from loom_ia.core.model.usage import Usage
from loom_ia.core.ports.store import Store
from loom_ia.graph.budget import StepBudget
from loom_ia.graph.codec import Codec

CODEC = Codec()


class Crash(BaseException):
    """The process died."""


class Paused(BaseException):
    """The step waits for somebody."""


@dataclass
class Journal:
    """What is known of one occurrence of a step; `crash_after` effects that are recorded, it dies.

    `order` has the keys in the order in which they were first asked for.
    """

    crash_after: int | None = None
    order: list[str] = field(default_factory=list[str])
    results: dict[str, Any] = field(default_factory=dict[str, Any])
    declared: dict[str, tuple[str, bool]] = field(default_factory=dict[str, tuple[str, bool]])
    questions: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    answers: dict[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])

    def record(self, key: str, result: Any) -> None:
        """Write a result, then die if it was the last one to be written."""
        self.results[key] = CODEC.to_json(result, key)
        if self.crash_after is not None and len(self.results) == self.crash_after:
            self.crash_after = None
            raise Crash


class FakeContext:
    """One execution of the step; raises `AssertionError` when it is not deterministic."""

    run_id = "run-1"
    graph = "agent"
    step = "chat"
    occurrence = 1
    attempt = 1
    idempotency_key = "run-1:chat:1"
    store: Store | None = None
    budget: StepBudget | None = None
    answer: Any = None

    def __init__(
        self,
        journal: Journal | None = None,
        *,
        usage: Usage | None = None,
        models: Mapping[str, Any] | None = None,
    ) -> None:
        self.journal = journal or Journal()
        self.spent = usage or Usage()
        self.models = models or {}
        self.tokens: list[str] = []
        self._asked: list[str] = []

    @property
    def answered(self) -> bool:
        return False

    @property
    def usage(self) -> Usage:
        return self.spent

    async def effect(
        self,
        key: str,
        fn: Callable[..., Any],
        *,
        side_effects: SideEffects = "none",
        idempotent: bool = False,
    ) -> Any:
        self._ask(key)
        journal = self.journal
        if key not in journal.results:
            journal.declared[key] = (side_effects, idempotent)
            takes_key = bool(inspect.signature(fn).parameters)
            result = fn(f"{self.idempotency_key}:{key}") if takes_key else fn()
            journal.record(key, await result if inspect.isawaitable(result) else result)
        return CODEC.from_json(journal.results[key])

    async def interrupt(
        self,
        payload: Any = None,
        *,
        key: str = "ask",
        schema: Any = None,
        expires_in: float | None = None,
    ) -> Any:
        raise AssertionError("a tool loop asks through `approval`")

    async def approval(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        key: str,
        reason: str = "",
        sentence: str = "",
    ) -> Mapping[str, Any]:
        self._ask(f"?{key}")
        if key not in self.journal.answers:
            self.journal.questions[key] = {"tool": tool, "arguments": dict(arguments)}
            raise Paused
        return self.journal.answers[key]

    async def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)

    async def random(self) -> float:
        return 0.5

    async def uuid(self) -> str:
        return "0" * 32

    def token(self, text: str) -> None:
        self.tokens.append(text)

    def model(self, name: str) -> Any:
        return self.models[name]

    def _ask(self, key: str) -> None:
        assert key not in self._asked, f"{key} is asked for twice"
        self._asked.append(key)
        order, rank = self.journal.order, len(self._asked) - 1
        if rank < len(order):
            assert order[rank] == key, f"{key} is asked for where {order[rank]} was"
        else:
            order.append(key)


async def run_to_end(step: Any, state: Any, journal: Journal) -> dict[str, Any]:
    """Run a step again after each crash, until it ends or pauses."""
    while True:
        try:
            return await step(state, FakeContext(journal))
        except Crash:
            continue
