"""Runs beside each other, under one budget: together they never pass a limit."""

import asyncio
import zlib
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from loom_ia.adapters.journals.memory import MemoryJournal
from loom_ia.app import approvals, runs
from loom_ia.app.instance import Instance
from loom_ia.core.events import Event
from loom_ia.core.events.model import ModelResponded
from loom_ia.core.events.run import RunFailed, RunFinalizing, RunResumed, RunStarted, StepStarted
from loom_ia.core.json import canonical
from loom_ia.core.model import (
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
from loom_ia.core.model.budget import Budget
from loom_ia.core.model.pricing import Pricing
from loom_ia.core.plan import ModelFacts, agent_plan
from loom_ia.core.ports.journal import SequenceConflict
from loom_ia.core.state import RunState, Status
from loom_ia.core.state.questions import open_questions
from loom_ia.engine.program import Program
from loom_ia.tools.subagent import SubagentTool
from tests.engine.world import Ask, Hand, World, results, run, text_of

LONGEST = 1_000
PRICING = Pricing(input=1.0, output=10.0)
READ = 10


@dataclass
class Spender:
    """A model that writes what a test says: `written(request)` tokens, always within its limit.

    `most` is how many of its calls were under way at once.
    """

    name: str
    rounds: int = 0
    asks: Sequence[Ask] = ()
    written: int | Callable[[ModelRequest], int] = 100
    longest: int | None = LONGEST
    under_way: int = 0
    most: int = 0

    def __post_init__(self) -> None:
        self.spec = ModelSpec(
            id=self.name,
            sdk="fake",
            model=self.name,
            max_tokens=self.longest,
            retry=Retry(max_attempts=1),
            pricing=PRICING,
        )
        self.requests: list[ModelRequest] = []

    @property
    def facts(self) -> ModelFacts:
        return ModelFacts(
            self.name, max_tokens=self.longest, longest_answer=self.longest, pricing=PRICING
        )

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
        self.requests.append(request)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        for _ in range(60 + len(self.requests) % 5):
            await asyncio.sleep(0)
        self.under_way -= 1
        rank = sum(message.role == "assistant" for message in request.messages)
        asks = self.asks if rank < self.rounds and request.tool_choice != "none" else ()
        for number, ask in enumerate(asks):
            call_id = f"c{rank}.{number}"
            yield ToolCallStarted(call_id, ask.name)
            yield ToolArgsDelta(call_id, canonical(ask.arguments))
            yield ToolCallEnded(call_id)
        if not asks:
            yield TextDelta(f"{self.name} is done")
        written = self.written if isinstance(self.written, int) else self.written(request)
        yield UsageReported(Usage(input_tokens=READ, output_tokens=written))
        yield Stopped("tool_use" if asks else "end")

    async def close(self) -> None:
        pass


class SlowJournal(MemoryJournal):
    """A journal whose writes take turns of the loop, in which other runs decide."""

    async def append(
        self, batch: Sequence[Event], *, expected: int, sync: bool
    ) -> int | SequenceConflict:
        for _ in range(3):
            await asyncio.sleep(0)
        return await super().append(batch, expected=expected, sync=sync)


def below(model: Spender, hand: Hand, **settings: Any) -> Program:
    """Bind the agent that is asked several times at once."""
    plan = agent_plan(name="writer", model=model.facts, system="", tools=(hand.spec,), **settings)
    return Program(plan, {model.name: model}, {hand.spec.name: hand})


def above(model: Spender, child: Program, **settings: Any) -> Program:
    """Bind the agent that asks."""
    tool = SubagentTool.of("writer", "writes", lambda: child)
    plan = agent_plan(name="clerk", model=model.facts, system="", tools=(tool.spec,), **settings)
    return Program(plan, {model.name: model}, {"writer": tool})


def asked(count: int) -> tuple[Ask, ...]:
    """Ask so many agents at once."""
    return tuple(Ask("writer", {"message": f"write {number}"}) for number in range(count))


async def played(
    children: Spender, count: int, budget: Budget, **settings: Any
) -> tuple[World, RunState, Spender]:
    """Let an agent ask `count` others at once, once, under a budget."""
    world, root = World(SlowJournal()), Spender("root", rounds=1, asks=asked(count))
    child = below(children, Hand())
    state = await run(world.instance(above(root, child, budget=budget, **settings)))
    return world, state, root


def tokens(event: Event) -> int:
    """Give what an answer consumed."""
    assert isinstance(event.payload, ModelResponded)
    return event.payload.usage.total_tokens


async def test_without_a_budget_nothing_is_kept_aside() -> None:
    """No fact says a word more, and all go together."""
    children = Spender("child")
    world, state, _ = await played(children, 5, Budget())
    assert text_of(state) == "root is done"
    assert children.most == 5
    steps = [e.payload for e in await world.events("session-1") if e.type == "step.started"]
    assert all("reserve" not in step.model_dump(mode="json") for step in steps)


async def test_what_fits_goes_together() -> None:
    """A wide limit holds nothing up, and each call of a run below says what it may take."""
    children = Spender("child")
    world, state, _ = await played(children, 5, Budget(max_cost=1.0, max_tokens=100_000))
    assert (text_of(state), children.most) == ("root is done", 5)
    steps = [e for e in await world.events("session-1") if isinstance(e.payload, StepStarted)]
    kept = {e.run_id: e.payload.reserve for e in steps if isinstance(e.payload, StepStarted)}
    assert kept.pop("run-1") is None
    assert len(kept) == 5
    for reserve in kept.values():
        assert reserve is not None
        assert (reserve.calls, reserve.unbounded) == (1, False)
        assert reserve.tokens == LONGEST + round((reserve.cost - 0.01) * 1_000_000)


async def test_what_does_not_fit_waits_for_the_others() -> None:
    """Two worst cases fit beside each other, and in the end all five agents answered."""
    children = Spender("child")
    _, state, root = await played(children, 5, Budget(max_tokens=2_400))
    assert (text_of(state), children.most) == ("root is done", 2)
    assert [text for _, text in results(root.requests[1])] == ["child is done"] * 5


async def test_answers_without_a_known_end_go_one_by_one() -> None:
    """Each may take all that is left."""
    children = Spender("child", longest=None)
    _, state, root = await played(children, 4, Budget(max_cost=1.0))
    assert (text_of(state), children.most) == ("root is done", 1)
    assert [text for _, text in results(root.requests[1])] == ["child is done"] * 4


async def test_calls_are_counted_before_they_are_made() -> None:
    """Three calls are left for five agents: three are made, and two are told of the budget."""
    children = Spender("child")
    world, state, root = await played(children, 5, Budget(max_calls=4))
    assert (text_of(state), len(children.requests)) == ("root is done", 3)
    told = [text for _, text in results(root.requests[1])]
    assert told[:3] == ["child is done"] * 3
    assert all("the budget is used up (max_calls: 4 of 4)" in text for text in told[3:])
    assert root.requests[1].tool_choice == "none"
    failed = [
        e.payload for e in await world.events("session-1") if isinstance(e.payload, RunFailed)
    ]
    assert [fact.error_type for fact in failed] == ["budget", "budget"]


async def test_one_of_those_that_worked_concludes() -> None:
    """Of three agents that are cut in their work, one gives a last answer; the others are told."""
    children = Spender("child", rounds=9, asks=(Ask(),))
    _, state, root = await played(children, 3, Budget(max_calls=7))
    assert text_of(state) == "root is done"
    last = [request.tool_choice for request in children.requests if request.tool_choice == "none"]
    assert len(last) == 1
    assert len(children.requests) == 7  # six that were left, and the last answer
    told = Counter("budget" in text for _, text in results(root.requests[1]))
    assert told == {True: 2, False: 1}


async def test_nobody_is_asked_once_nothing_is_left() -> None:
    """The calls get an error for a result, and no run is opened."""
    children = Spender("child")
    world, state, root = await played(children, 3, Budget(max_calls=1))
    assert (text_of(state), children.requests) == ("root is done", [])
    assert all("max_calls" in text for _, text in results(root.requests[1]))
    started = [e for e in await world.events("session-1") if isinstance(e.payload, RunStarted)]
    assert len(started) == 1


async def test_a_warning_holds_nobody_up() -> None:
    """Limits that are only told bind no run below."""
    children = Spender("child")
    _, _, _ = await played(children, 5, Budget(max_calls=2), on_exceed="warn")
    assert children.most == 5


def the_law_holds(events: Sequence[Event], limit: int) -> None:
    """No answer but last ones begins past the limit; no two that are under way pass it together."""
    spent, kept, last = 0, dict[str, int](), set[str]()
    concluded: list[str] = []
    for event in events:
        payload = event.payload
        if isinstance(payload, RunFinalizing) and payload.reason == "budget":
            last.add(event.run_id)
            concluded.append(event.run_id)
        elif isinstance(payload, StepStarted) and payload.effect == "model_call":
            if event.run_id in last:
                continue
            assert spent < limit
            if payload.reserve is not None:
                together = spent + sum(kept.values()) + payload.reserve.tokens
                assert not kept or together <= limit
                kept[event.run_id] = payload.reserve.tokens
        elif isinstance(payload, ModelResponded):
            kept.pop(event.run_id, None)
            if event.run_id not in last:
                spent += tokens(event)
    assert len(concluded) <= 2
    assert spent <= limit + LONGEST + READ


@settings(max_examples=60, deadline=None)
@given(
    count=st.integers(1, 6),
    rounds=st.integers(0, 3),
    limit=st.integers(200, 9_000),
    seed=st.integers(0, 99),
)
def test_whatever_they_write_the_limit_holds(
    count: int, rounds: int, limit: int, seed: int
) -> None:
    """It is passed by one call at most, the last answers of two runs apart, and nobody is stuck."""

    def written(request: ModelRequest) -> int:
        said = f"{seed}{len(request.messages)}{request.messages[0].as_text()}"
        return zlib.crc32(said.encode()) % LONGEST

    async def play() -> None:
        children = Spender("child", rounds=rounds, asks=(Ask(), Ask()), written=written)
        world, state, _ = await played(children, count, Budget(max_tokens=limit))
        assert text_of(state) == "root is done"
        the_law_holds(await world.events("session-1"), limit)

    asyncio.run(play())


async def test_a_resumed_agent_takes_the_limits_of_its_plan() -> None:
    """A wider budget, given while it waited, lets those that it asked go on; a fact says it."""
    world, hand = World(), Hand(approval="always")
    children = Spender("child", rounds=1, asks=(Ask(),))
    root = Spender("root", rounds=1, asks=asked(2))

    def process(limit: int, worker: str) -> Instance:
        program = above(root, below(children, hand), budget=Budget(max_calls=limit))
        return world.instance(program, worker)

    first = process(3, "worker-1")
    state = await run(first)
    assert (state.status, len(children.requests)) == (Status.WAITING_CHILD, 2)
    second = process(9, "worker-2")
    log, _ = await second.find("run-1")
    for asking in list(open_questions(state, log.state.runs)):
        await approvals.approve(second, approvals.Ruling("run-1", "anna", call_id=asking.id))
    state = await runs.resume(second, "run-1")
    assert text_of(state) == "root is done"
    assert [text for _, text in results(root.requests[-1])] == ["child is done"] * 2
    facts = [e.payload for e in await world.events("session-1") if e.run_id == "run-1"]
    budgets = [fact.budget for fact in facts if isinstance(fact, RunResumed)]
    assert budgets == [Budget(max_calls=9)]
    assert all(not isinstance(fact, RunFinalizing) for fact in facts)
