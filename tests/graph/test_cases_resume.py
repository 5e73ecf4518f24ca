"""Going on with a run, from each place where one can stand, and answering what it asks."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypedDict

import pytest
from pydantic import BaseModel

from loom_ia.graph import (
    END,
    AmbiguousAnswer,
    Ask,
    Blocked,
    BudgetExhausted,
    CheckpointFailed,
    CheckpointInfo,
    ExpiredInterrupt,
    Goto,
    Graph,
    GraphChanged,
    GraphEvent,
    HookAborted,
    InvalidAnswer,
    MaxIterationsExceeded,
    MemoryStore,
    MergeError,
    NotSerializable,
    Refused,
    ReservedKey,
    RouteError,
    RunLocked,
    RunNotFound,
    StepContext,
    StepFailed,
    StopReason,
    StoreError,
    UnknownInterrupt,
    UnknownKey,
    add,
    append,
    branch,
    condition,
)

State = Mapping[str, Any]


async def last(g: Graph[Any], store: Any) -> int:
    """Give the place of the last event of the run."""
    return (await g.events("r", store=store))[-1].seq


class Counted:
    """Steps that count how often they were called."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.healthy = False

    def step(self, name: str) -> Any:
        """Make a step that says that it was called."""

        def call(s: State) -> dict[str, Any]:
            self.calls.append(name)
            return {name: 1}

        return call

    def fragile(self, name: str) -> Any:
        """Make a step that fails until all is well."""

        def call(s: State) -> dict[str, Any]:
            self.calls.append(name)
            if not self.healthy:
                raise ValueError("not yet")
            return {name: 1}

        return call

    def take(self) -> list[str]:
        """Give the calls since the last time."""
        calls, self.calls = self.calls, []
        return calls


async def journal(g: Graph[Any], store: Any, run_id: str = "r") -> list[GraphEvent]:
    """Read all that is written of a run."""
    return await g.events(run_id, store=store)


async def written(g: Graph[Any], store: Any, since: list[GraphEvent]) -> list[str]:
    """Name what was written since, leases aside."""
    events = await journal(g, store)
    assert events[: len(since)] == since
    return [e.type for e in events[len(since) :] if e.type != "run.claimed"]


async def asked(g: Graph[Any], store: Any) -> None:
    """Wait until the run asks something."""
    async for event in g.follow("r", store=store):
        if event.type == "approval.requested":
            return


def asking(counted: Counted, *, phase: Any = "mid", **ask: Any) -> Graph[Any]:
    """Make a graph a → b → c, whose b asks."""

    def b(s: State, ctx: StepContext) -> Any:
        counted.calls.append("b")
        if ctx.answer is None:
            return Ask("ok?", phase=phase, **ask)
        return {"b": ctx.answer}

    g: Graph[Any] = Graph("asking").add_step("a", counted.step("a"), "b")
    return g.add_step("b", b, "c").add_step("c", counted.step("c"))


# -- the table ----------------------------------------------------------------------------------


async def test_w02_a_completed_run() -> None:
    """The recorded result, no step, nothing written; an input is ignored."""
    counted, store = Counted(), MemoryStore()
    g: Graph[Any] = Graph("g").add_step("a", counted.step("a"), "b")
    g.add_step("b", counted.step("b"))
    first = await g.run(store=store, run_id="r")
    before = await journal(g, store)
    for given in (None, {}, {"a": 9}, {"anything": 1}):
        again = await g.resume("r", given, store=store)
        assert (again.steps, again.total_steps) == (0, 2)
        assert (again.state, again.stop, again.last_step) == (first.state, first.stop, "b")
    with pytest.raises(UnknownInterrupt):
        await g.resume("r", store=store, answers={"x": 1})
    assert await journal(g, store) == before
    assert counted.take() == ["a", "b"]


async def test_a_cancelled_run() -> None:
    """The same as for one that is completed."""
    counted, store = Counted(), MemoryStore()
    g = asking(counted)
    await g.run(store=store, run_id="r")
    assert await g.cancel("r", store=store)
    before = await journal(g, store)
    counted.take()
    again = await g.resume("r", {"x": 1}, store=store)
    assert (again.stop, again.steps, again.total_steps) == (StopReason.CANCELLED, 0, 2)
    assert again.interrupts == ()
    with pytest.raises(UnknownInterrupt):
        await g.resume("r", store=store, answers={"x": 1})
    assert await journal(g, store) == before
    assert counted.take() == []


def both(counted: Counted) -> Graph[Any]:
    """Make a graph whose step asks two questions at once."""

    async def ask(s: State, ctx: StepContext) -> dict[str, Any]:
        counted.calls.append("ask")
        left, right = await asyncio.gather(
            ctx.interrupt("left?", key="left"), ctx.interrupt("right?", key="right")
        )
        return {"got": [left, right]}

    return Graph("both").add_step("ask", ask, "end").add_step("end", counted.step("end"))


async def test_a_run_that_waits_and_is_told_nothing() -> None:
    """It is given as it is, and nothing is written."""
    counted, store = Counted(), MemoryStore()
    g = asking(counted)
    first = await g.run(store=store, run_id="r")
    before = await journal(g, store)
    counted.take()
    again = await g.resume("r", store=store)
    assert again.yielded
    assert again.interrupts == first.interrupts
    assert (again.steps, again.total_steps, again.last_step) == (0, 2, "b")
    assert await journal(g, store) == before
    assert counted.take() == []


async def test_several_questions_answered_one_by_one() -> None:
    """A partial answer is kept, the run still waits, and no step runs before all is answered."""
    counted, store = Counted(), MemoryStore()
    g = both(counted)
    paused = await g.run(store=store, run_id="r")
    left, right = paused.interrupts
    assert [(i.key, i.payload) for i in paused.interrupts] == [
        ("left", "left?"),
        ("right", "right?"),
    ]
    assert counted.take() == ["ask"]
    before = await journal(g, store)
    half = await g.resume("r", store=store, answers={right.id: "R"})
    assert half.yielded
    assert half.interrupts == (left,)
    assert half.steps == 0
    assert await written(g, store, before) == ["run.resumed", "approval.granted"]
    assert counted.take() == []
    with pytest.raises(UnknownInterrupt):
        await g.resume("r", store=store, answers={right.id: "again"})
    done = await g.resume("r", store=store, answers={left.id: "L"})
    assert done.state == {"got": ["L", "R"], "end": 1}
    assert (done.steps, done.total_steps) == (2, 2)
    assert counted.take() == ["ask", "end"]


async def test_an_input_with_several_questions_is_ambiguous() -> None:
    """Nothing is written; with `answers` an input is only merged."""
    counted, store = Counted(), MemoryStore()
    g = both(counted)
    paused = await g.run(store=store, run_id="r")
    before = await journal(g, store)
    with pytest.raises(AmbiguousAnswer, match="2 questions"):
        await g.resume("r", {"x": 1}, store=store)
    with pytest.raises(AmbiguousAnswer):
        await g.resume("r", {}, store=store)
    assert await journal(g, store) == before
    half = await g.resume("r", {"x": 1}, store=store, answers={paused.interrupts[0].id: 1})
    assert half.yielded
    assert half.state == {"x": 1}
    last = await g.resume("r", {"x": 2}, store=store)
    assert last.state == {"x": 2, "got": [1, {"x": 2}], "end": 1}


async def test_rs01_a_question_in_the_middle() -> None:
    """The run yields at the step, what ran before is kept; once answered the step runs again."""
    counted, store = Counted(), MemoryStore()
    g = asking(counted)
    paused = await g.run({"x": 0}, store=store, run_id="r")
    assert paused.stop is StopReason.YIELDED
    assert paused.yielded
    assert (paused.last_step, paused.steps, paused.total_steps) == ("b", 2, 2)
    assert paused.state == {"x": 0, "a": 1}
    (ask,) = paused.interrupts
    assert (ask.kind, ask.payload, ask.key, ask.step) == ("input", "ok?", "ask", "b")
    assert (ask.occurrence, ask.run_id, ask.graph, ask.path) == (1, "r", "asking", ("b",))
    assert ask.schema is ask.expires_at is ask.tool is ask.call_id is None
    assert counted.take() == ["a", "b"]
    before = await journal(g, store)
    done = await g.resume("r", store=store, answers={ask.id: "yes"})
    assert done.stop is StopReason.COMPLETED
    assert done.state == {"x": 0, "a": 1, "b": "yes", "c": 1}
    assert (done.steps, done.total_steps, done.last_step) == (2, 3, "c")
    assert counted.take() == ["b", "c"]
    new = await written(g, store, before)
    assert new[:2] == ["run.resumed", "approval.granted"]
    assert new[-1] == "run.completed"


async def test_rs03_a_question_after_a_step() -> None:
    """The step is not run again: its router is asked."""
    counted, store = Counted(), MemoryStore()
    g = asking(counted, phase="after", update={"draft": 1}, into="said")
    paused = await g.run(store=store, run_id="r")
    assert paused.state == {"a": 1, "draft": 1}
    done = await g.resume("r", store=store, answers={paused.interrupts[0].id: "go"})
    assert done.state == {"a": 1, "draft": 1, "said": "go", "c": 1}
    assert (done.steps, done.total_steps) == (1, 3)
    assert counted.take() == ["a", "b", "c"]


async def test_rs04_w25_unknown_runs_and_stores_out_of_reach() -> None:
    """A run that is not there and a store that is not are told apart."""
    g = asking(Counted())
    with pytest.raises(RunNotFound, match="nope"):
        await g.resume("nope", {"x": 1}, store=MemoryStore())

    class Down:
        async def get(self, ns: str, key: str) -> bytes:
            raise ConnectionError("refused")

        async def put(self, ns: str, key: str, value: bytes) -> None:
            raise ConnectionError("refused")

        async def delete(self, ns: str, key: str) -> None:
            raise ConnectionError("refused")

        async def list(self, ns: str, prefix: str = "") -> list[str]:
            raise ConnectionError("refused")

        def tx(self) -> Any:
            raise ConnectionError("refused")

    for call in (
        g.resume("nope", store=Down()),
        g.cancel("nope", store=Down()),
        g.history("nope", store=Down()),
    ):
        with pytest.raises(StoreError) as caught:
            await call
        assert isinstance(caught.value.__cause__, ConnectionError)


async def test_rs06_two_questions_one_after_the_other() -> None:
    """Each step gets its own answer."""
    store = MemoryStore()

    def asks(key: str) -> Any:
        def step(s: State, ctx: StepContext) -> Any:
            return Ask(key) if ctx.answer is None else {key: ctx.answer[key]}

        return step

    g: Graph[Any] = Graph("g").add_step("one", asks("in1"), "two").add_step("two", asks("in2"))
    first = await g.run(store=store, run_id="r")
    assert first.last_step == "one"
    second = await g.resume("r", {"in1": "x"}, store=store)
    assert (second.yielded, second.last_step, second.steps) == (True, "two", 2)
    assert first.interrupts[0].id != second.interrupts[0].id
    done = await g.resume("r", {"in2": "y"}, store=store)
    assert done.state == {"in1": "x", "in2": "y"}
    assert (done.steps, done.total_steps) == (1, 2)


async def test_rs07_a_loop_of_reflection() -> None:
    """It goes round until the score is good enough."""
    g: Graph[Any] = Graph("g", merge={"attempts": add})
    g.add_step("generate", lambda s: {"attempts": 1}, "evaluate")
    g.add_step(
        "evaluate",
        lambda s: {"score": s["attempts"] * 0.25},
        condition(lambda s: s["score"] >= 0.7, END, "generate"),
    )
    result = await g.run({"attempts": 0})
    assert (result.state, result.steps) == ({"attempts": 3, "score": 0.75}, 6)


@pytest.mark.parametrize("phase", ["mid", "after"])
async def test_w13_a_question_on_the_last_step(phase: Any) -> None:
    """The run is completed, the answer is journalled, and a second resume says the same."""
    store = MemoryStore()

    def last(s: State, ctx: StepContext) -> Any:
        return Ask("?", phase=phase) if ctx.answer is None else {"mid": ctx.answer["approved"]}

    g: Graph[Any] = Graph("g").add_step("last", last)
    await g.run(store=store, run_id="r")
    before = await journal(g, store)
    done = await g.resume("r", {"approved": True}, store=store)
    assert done.stop is StopReason.COMPLETED
    assert done.state["approved"] is True
    new = await written(g, store, before)
    assert new[:2] == ["run.resumed", "approval.granted"]
    again = await g.resume("r", store=store)
    assert (again.state, again.stop) == (done.state, done.stop)


async def test_w01_a_run_that_was_interrupted() -> None:
    """It goes on after the last completed step, whose router is not asked again."""
    counted, store, began = Counted(), MemoryStore(), asyncio.Event()
    keys: list[str] = []
    routes: list[str] = []

    async def d(s: State, ctx: StepContext) -> dict[str, Any]:
        counted.calls.append("d")
        keys.append(ctx.idempotency_key)
        if len(keys) == 1:
            began.set()
            await asyncio.Event().wait()
        return {"d": 1}

    def router(s: State) -> str:
        routes.append("c")
        return "d"

    g: Graph[Any] = Graph("g").add_step("a", counted.step("a"), "b")
    g.add_step("b", counted.step("b"), "c").add_step("c", counted.step("c"), router)
    g.add_step("d", d)
    task = asyncio.create_task(g.run(store=store, run_id="r"))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    counted.take()
    done = await g.resume("r", store=store)
    assert counted.take() == ["d"]
    assert routes == ["c"]
    assert (done.steps, done.total_steps) == (1, 4)
    assert keys[0] == keys[1]
    assert done.state == {"a": 1, "b": 1, "c": 1, "d": 1}


async def test_w27_a_route_is_taken_once() -> None:
    """A router that would answer otherwise the next time is not asked again."""
    store, answers, began = MemoryStore(), ["left", "right"], asyncio.Event()
    ran: list[str] = []

    async def left(s: State) -> dict[str, Any]:
        ran.append("left")
        if len(ran) == 1:
            began.set()
            await asyncio.Event().wait()
        return {"went": "left"}

    def router(s: State) -> str:
        return answers.pop(0)

    g: Graph[Any] = Graph("g").add_step("a", lambda s: None, router)
    g.add_step("left", left).add_step("right", lambda s: {"went": "right"})
    task = asyncio.create_task(g.run(store=store, run_id="r"))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await g.resume("r", store=store)).state == {"went": "left"}
    assert answers == ["right"]


async def test_a_step_that_failed_runs_again() -> None:
    """On the state before it, with the input merged; what ran before it does not."""
    counted, store = Counted(), MemoryStore()
    g: Graph[Any] = Graph("g").add_step("a", counted.step("a"), "b")
    g.add_step("b", counted.fragile("b"), "c").add_step("c", counted.step("c"))
    with pytest.raises(StepFailed):
        await g.run(store=store, run_id="r")
    with pytest.raises(StepFailed) as caught:
        await g.resume("r", store=store)
    assert (caught.value.result.steps, caught.value.result.total_steps) == (1, 2)
    counted.healthy = True
    done = await g.resume("r", {"x": 1}, store=store)
    assert done.state == {"a": 1, "x": 1, "b": 1, "c": 1}
    assert (done.steps, done.total_steps) == (2, 3)
    assert counted.take() == ["a", "b", "b", "b", "c"]


async def test_a_step_that_was_blocked_runs_again() -> None:
    """The same, and its update stays."""
    counted, store = Counted(), MemoryStore()

    def guard(s: State) -> dict[str, Any]:
        counted.calls.append("guard")
        if not s.get("badge"):
            raise Refused("no badge", update={"refused": 1})
        return {"in": True}

    g: Graph[Any] = Graph("g").add_step("guard", guard)
    with pytest.raises(Blocked):
        await g.run(store=store, run_id="r")
    done = await g.resume("r", {"badge": 7}, store=store)
    assert done.state == {"refused": 1, "badge": 7, "in": True}
    assert (done.steps, done.total_steps, done.blocked) == (1, 1, None)
    assert counted.take() == ["guard", "guard"]


async def test_a_router_that_failed_is_asked_again() -> None:
    """Its step is not run again."""
    counted, store = Counted(), MemoryStore()

    def router(s: State) -> Any:
        counted.calls.append("router")
        return s.get("where")

    g: Graph[Any] = Graph("g").add_step("a", counted.step("a"), router)
    g.add_step("b", counted.step("b"))
    with pytest.raises(RouteError):
        await g.run(store=store, run_id="r")
    done = await g.resume("r", {"where": "b"}, store=store)
    assert (done.state, done.steps, done.total_steps) == ({"a": 1, "where": "b", "b": 1}, 1, 2)
    assert counted.take() == ["a", "router", "router", "b"]


async def test_a_before_hook_that_stopped_the_run() -> None:
    """The hooks, then the step, run."""
    counted, store = Counted(), MemoryStore()

    def hook(step: str, s: State) -> None:
        counted.calls.append(f"before {step}")
        if step == "b" and not counted.healthy:
            raise ValueError("closed")

    g: Graph[Any] = Graph("g").add_step("a", counted.step("a"), "b")
    g.add_step("b", counted.step("b"))
    g.before(hook)
    with pytest.raises(HookAborted) as caught:
        await g.run(store=store, run_id="r")
    assert (caught.value.result.last_step, caught.value.result.total_steps) == ("a", 1)
    assert counted.take() == ["before a", "a", "before b"]
    counted.healthy = True
    done = await g.resume("r", store=store)
    assert counted.take() == ["before b", "b"]
    assert (done.steps, done.total_steps) == (1, 2)


async def test_w05_an_after_hook_that_stopped_the_run() -> None:
    """The delta is durable before the hooks, which are asked again; the step is not run again."""
    counted, store = Counted(), MemoryStore()

    def hook(step: str, s: State) -> None:
        counted.calls.append(f"after {step} {s.get(step)}")
        if step == "b" and not counted.healthy:
            raise ValueError("checked")

    g: Graph[Any] = Graph("g").add_step("a", counted.step("a"), "b")
    g.add_step("b", counted.step("b"), "c").add_step("c", counted.step("c"))
    g.after(hook)
    with pytest.raises(HookAborted) as caught:
        await g.run(store=store, run_id="r")
    result = caught.value.result
    assert (result.state, result.last_step, result.steps) == ({"a": 1, "b": 1}, "b", 2)
    assert await g.state_at("r", await last(g, store), store=store) == {"a": 1, "b": 1}
    assert counted.take() == ["a", "after a 1", "b", "after b 1"]
    counted.healthy = True
    done = await g.resume("r", store=store)
    assert counted.take() == ["after b 1", "c", "after c 1"]
    assert (done.steps, done.total_steps) == (1, 3)


async def test_a_limit_that_is_still_reached() -> None:
    """The run stops again at once, no step runs, and the state stays as it was."""
    store = MemoryStore()
    g: Graph[Any] = Graph("g", max_iterations=3).add_step("a", lambda s: {"n": s["n"] + 1}, "a")
    with pytest.raises(MaxIterationsExceeded):
        await g.run({"n": 0}, store=store, run_id="r")
    for _ in range(2):
        with pytest.raises(MaxIterationsExceeded) as caught:
            await g.resume("r", store=store)
        assert (caught.value.result.steps, caught.value.result.total_steps) == (0, 3)
        assert caught.value.result.state == {"n": 3}
    wider: Graph[Any] = Graph("g", max_iterations=5)
    wider.add_step("a", lambda s: {"n": s["n"] + 1}, "a")
    with pytest.raises(MaxIterationsExceeded) as more:
        await wider.resume("r", store=store)
    assert (more.value.result.steps, more.value.result.total_steps) == (2, 5)


async def test_a_budget_that_is_still_exhausted() -> None:
    """The budget is that of the run: it stops again, whatever is resumed."""
    store = MemoryStore()
    g: Graph[Any] = Graph("g", step_budget=2).add_step("a", lambda s: {"n": s["n"] + 1}, "a")
    with pytest.raises(BudgetExhausted):
        await g.run({"n": 0}, store=store, run_id="r")
    with pytest.raises(BudgetExhausted) as caught:
        await g.resume("r", store=store)
    assert (caught.value.result.steps, caught.value.result.total_steps) == (0, 2)
    assert caught.value.result.budget_left == 0


# -- counting -----------------------------------------------------------------------------------


async def test_w07_lb01_the_budget_of_a_run_survives_its_pauses() -> None:
    """Five steps in all, however often the run is gone on with."""
    store, ran = MemoryStore(), list[int]()

    def spin(s: State) -> Any:
        ran.append(1)
        if len(ran) == 2:
            return Ask("go on?", phase="after")
        return None

    g: Graph[Any] = Graph("g", step_budget=5).add_step("spin", spin, "spin")
    paused = await g.run(store=store, run_id="r")
    assert (paused.total_steps, paused.budget_left) == (2, 3)
    with pytest.raises(BudgetExhausted) as caught:
        await g.resume("r", {}, store=store)
    assert len(ran) == 5
    result = caught.value.result
    assert (result.steps, result.total_steps, result.budget_left) == (3, 5, 0)


async def test_lb03_no_budget_leaves_no_trace() -> None:
    """Neither in the state nor in the results, nor in the history."""
    store = MemoryStore()
    g = asking(Counted())
    paused = await g.run(store=store, run_id="r")
    assert paused.budget_left is None
    assert all(c.budget_left is None for c in await g.history("r", store=store))
    assert set(paused.state) == {"a"}


async def test_lb06_the_history_tells_what_was_left() -> None:
    """After each step, and for the one that failed."""
    store = MemoryStore()
    g: Graph[Any] = Graph("g", step_budget=5).add_step("a", lambda s: None, "b")
    g.add_step("b", lambda s: None, "c").add_step("c", Counted().fragile("c"))
    await g.run(store=store, run_id="r", raise_on_error=False)
    history = await g.history("r", store=store)
    assert [(c.n, c.step, c.stop, c.budget_left) for c in history] == [
        (1, "a", None, 4),
        (2, "b", None, 3),
        (3, "c", StopReason.ERROR, 2),
    ]
    assert all(isinstance(c, CheckpointInfo) and c.run_id == "r" for c in history)


@pytest.mark.parametrize("per", ["run", "segment"])
async def test_w09_iterations_across_pauses(per: str) -> None:
    """They are counted over the whole run, or anew at each resume."""
    store = MemoryStore()
    g: Graph[Any] = Graph("g", max_iterations=3, iterations_per=per)
    g.add_step("ask", lambda s: Ask("?", phase="after"), "ask")
    await g.run(store=store, run_id="r")
    results: list[Any] = []
    for _ in range(5):
        result = await g.resume("r", {}, store=store, raise_on_error=False)
        results.append(result.stop)
        if not result.yielded:
            break
    if per == "segment":
        assert results == [StopReason.YIELDED] * 5
    else:
        assert results == [StopReason.YIELDED] * 2 + [StopReason.MAX_ITERATIONS]


async def test_an_occurrence_counts_once() -> None:
    """However often it runs: after a pause, a failure or a retry it costs nothing more."""
    store, calls = MemoryStore(), list[int]()

    async def step(s: State, ctx: StepContext) -> dict[str, Any]:
        calls.append(1)
        await ctx.interrupt("a?", key="a")
        if len(calls) == 2:
            raise ValueError("once")
        await ctx.interrupt("b?", key="b")
        return {"done": True}

    g: Graph[Any] = Graph("g", max_iterations=1, step_budget=1).add_step("s", step)
    assert (await g.run(store=store, run_id="r")).yielded
    failed = await g.resume("r", {}, store=store, raise_on_error=False)
    assert (failed.stop, failed.steps, failed.total_steps) == (StopReason.ERROR, 1, 1)
    again = await g.resume("r", store=store)
    assert (again.yielded, again.steps, again.total_steps) == (True, 1, 1)
    done = await g.resume("r", {}, store=store)
    assert (done.stop, done.steps, done.total_steps) == (StopReason.COMPLETED, 1, 1)
    assert done.budget_left == 0
    assert len(calls) == 4


async def test_a_refused_step_is_not_started() -> None:
    """By an unknown route or by a limit, nothing is charged and the last step stays."""
    store = MemoryStore()
    g: Graph[Any] = Graph("g", step_budget=3).add_step("a", lambda s: Goto("nowhere"))
    result = await g.run(store=store, run_id="r", raise_on_error=False)
    assert (result.last_step, result.total_steps, result.budget_left) == ("a", 1, 2)


# -- what is checked, in which order --------------------------------------------------------------


async def test_the_order_of_the_checks() -> None:
    """The run, its lease, reserved keys, the fingerprint, the answers; nothing is written."""
    store, began, go = MemoryStore(), asyncio.Event(), asyncio.Event()

    async def a(s: State) -> Any:
        began.set()
        await go.wait()
        return Ask("?", phase="after")

    g: Graph[Any] = Graph("g").add_step("a", a, "b").add_step("b", lambda s: None)
    other: Graph[Any] = Graph("g").add_step("a", a, "c").add_step("c", lambda s: None)
    bad: dict[str, Any] = {"__reserved": 1}
    wrong = {"nobody": 1}
    with pytest.raises(RunNotFound):
        await other.resume("r", bad, store=store, answers=wrong)
    task = asyncio.create_task(g.run(store=store, run_id="r"))
    await began.wait()
    with pytest.raises(RunLocked):
        await other.resume("r", bad, store=store, answers=wrong)
    go.set()
    paused = await task
    before = await journal(g, store)
    with pytest.raises(ReservedKey):
        await other.resume("r", bad, store=store, answers=wrong)
    with pytest.raises(GraphChanged):
        await other.resume("r", {"x": 1}, store=store, answers=wrong)
    with pytest.raises(UnknownInterrupt):
        await g.resume("r", {"x": 1}, store=store, answers=wrong)
    assert await journal(g, store) == before
    assert (await g.resume("r", store=store)).interrupts == paused.interrupts


async def test_w26_a_step_that_was_removed_or_renamed() -> None:
    """Refused before anything is written, unless it is explained or allowed."""
    store, counted = MemoryStore(), Counted()
    g = asking(counted, phase="after")
    for run_id in ("r1", "r2", "r3", "r4"):
        await g.run(store=store, run_id=run_id)
    counted.take()

    def changed(last: str) -> Graph[Any]:
        h: Graph[Any] = Graph("asking").add_step("a", counted.step("a"), "b")
        h.add_step("b", counted.step("b"), last)
        return h.add_step(last, counted.step(last))

    renamed = changed("see")
    before = await journal(g, store, "r1")
    with pytest.raises(GraphChanged, match="asking"):
        await renamed.resume("r1", {}, store=store)
    assert await journal(g, store, "r1") == before
    assert counted.take() == []
    allowed = await renamed.resume("r1", {}, store=store, allow_changed=True)
    assert allowed.state["see"] == 1
    renamed.migrate({"c": "see"})
    assert (await renamed.resume("r2", {}, store=store)).state["see"] == 1
    gone: Graph[Any] = Graph("asking").add_step("a", counted.step("a"))
    with pytest.raises(GraphChanged):
        await gone.resume("r3", {}, store=store)
    with pytest.raises(GraphChanged, match="'b'"):
        await gone.resume("r3", {}, store=store, allow_changed=True)
    same: Graph[Any] = asking(counted, phase="after")
    assert (await same.resume("r4", {}, store=store)).stop is StopReason.COMPLETED


async def test_a_run_below_is_driven_through_its_root() -> None:
    """A child's id is no run to go on with, to fork or to cancel."""
    store = MemoryStore()
    g: Graph[Any] = Graph("parent").add_step("child", asking(Counted()).as_step())
    paused = await g.run(store=store, run_id="r")
    (ask,) = paused.interrupts
    assert (ask.run_id, ask.path, ask.graph) == ("r/child/1", ("child", "b"), "asking")
    with pytest.raises(ValueError, match="root"):
        await g.resume("r/child/1", {}, store=store)
    with pytest.raises(ValueError, match="root"):
        await g.cancel("r/child/1", store=store)
    with pytest.raises(ValueError, match="root"):
        await g.fork("r/child/1", at=1, store=store)


async def test_a_child_that_changed_while_it_waited() -> None:
    """Nothing is executed, nothing written, and the answers are still to give."""
    store, counted = MemoryStore(), Counted()
    g: Graph[Any] = Graph("parent").add_step("child", asking(counted).as_step())
    paused = await g.run(store=store, run_id="r")
    other = asking(counted).add_step("d", counted.step("d"))
    changed: Graph[Any] = Graph("parent").add_step("child", other.as_step())
    before = await journal(g, store)
    counted.take()
    with pytest.raises(GraphChanged, match="asking"):
        await changed.resume("r", store=store, answers={paused.interrupts[0].id: 1})
    assert await journal(g, store) == before
    done = await g.resume("r", store=store, answers={paused.interrupts[0].id: 1})
    assert done.state["b"] == 1


# -- answers ------------------------------------------------------------------------------------


async def test_w21_an_answer_serves_once() -> None:
    """The next occurrence of the step asks again, under a new id."""
    store, works = MemoryStore(), list[int]()

    async def review(s: State, ctx: StepContext) -> dict[str, Any]:
        return {"ok": await ctx.interrupt("good?")}

    def work(s: State) -> dict[str, Any]:
        works.append(1)
        return {"draft": len(works)}

    g: Graph[Any] = Graph("g").add_step("work", work, "review")
    g.add_step("review", review, branch("ok", {True: END, False: "work"}))
    first = await g.run(store=store, run_id="r")
    ids = [first.interrupts[0].id]
    for occurrence in (2, 3):
        again = await g.resume("r", store=store, answers={ids[-1]: False})
        assert again.yielded
        assert again.interrupts[0].occurrence == occurrence
        ids.append(again.interrupts[0].id)
    with pytest.raises(UnknownInterrupt):
        await g.resume("r", store=store, answers={ids[0]: True})
    done = await g.resume("r", store=store, answers={ids[-1]: True})
    assert done.stop is StopReason.COMPLETED
    assert len(set(ids)) == 3
    assert len(works) == 3


async def test_answers_of_any_kind() -> None:
    """None, false, an empty text and any value that the state may hold reach the step as given."""
    store = MemoryStore()
    when = datetime(2026, 1, 2, tzinfo=UTC)

    async def step(s: State, ctx: StepContext) -> dict[str, Any]:
        return {"got": await ctx.interrupt()}

    g: Graph[Any] = Graph("g").add_step("s", step)
    for number, answer in enumerate((None, False, "", 0, {"x": 1}, [1, (2, 3)], b"x", when)):
        run_id = f"r{number}"
        paused = await g.run(store=store, run_id=run_id)
        done = await g.resume(run_id, store=store, answers={paused.interrupts[0].id: answer})
        assert done.state == {"got": answer}
        assert type(done.state["got"]) is type(answer)


async def test_a_mid_question_answered_by_none_does_not_ask_for_ever() -> None:
    """The step is told that it was answered."""
    store = MemoryStore()

    def step(s: State, ctx: StepContext) -> Any:
        return {"got": ctx.answer} if ctx.answered else Ask("?")

    g: Graph[Any] = Graph("g").add_step("s", step)
    paused = await g.run(store=store, run_id="r")
    done = await g.resume("r", store=store, answers={paused.interrupts[0].id: None})
    assert done.state == {"got": None}


async def test_a_mapping_in_answers_is_not_merged() -> None:
    """It reaches the state only where the step puts it there."""
    store, counted = MemoryStore(), Counted()
    g = asking(counted, into="said")
    paused = await g.run(store=store, run_id="r")
    done = await g.resume("r", store=store, answers={paused.interrupts[0].id: {"secret": 1}})
    assert done.state == {"a": 1, "said": {"secret": 1}, "b": {"secret": 1}, "c": 1}


async def test_go_style_an_input_is_the_answer_and_is_merged() -> None:
    """`ctx.answer` is that mapping, and the merges of its keys apply."""
    store = MemoryStore()

    def step(s: State, ctx: StepContext) -> Any:
        if ctx.answer is None:
            return Ask("?", update={"log": ["ask"], "n": 10})
        return {"log": ["ans"], "seen": [ctx.answer, list(s["log"]), s["n"]]}

    g: Graph[Any] = Graph("g", merge={"log": append, "n": add}).add_step("s", step)
    paused = await g.run({"log": ["in"]}, store=store, run_id="r")
    assert paused.state == {"log": ["in", "ask"], "n": 10}
    done = await g.resume("r", {"n": 5, "log": ["me"]}, store=store)
    assert done.state == {
        "log": ["in", "ask", "me", "ans"],
        "n": 15,
        "seen": [{"n": 5, "log": ["me"]}, ["in", "ask", "me"], 15],
    }
    assert type(done.state["n"]) is int


async def test_an_answer_must_fit_its_schema() -> None:
    """A wrong one names the place, nothing is written, and the run stays paused."""
    store = MemoryStore()

    class Approval(BaseModel):
        ok: bool
        why: str = ""

    @dataclass
    class Choice:
        size: int

    schemas: list[tuple[Any, Any, Any, Any]] = [
        ({"type": "integer", "minimum": 3}, 2, 3, 3),
        (int, "x", 4, 4),
        (Approval, {"ok": "perhaps"}, {"ok": True}, Approval(ok=True)),
        (Choice, {"size": "large"}, {"size": 3}, Choice(3)),
        (list[int], [1, "x"], [1, 2], [1, 2]),
    ]
    for number, (schema, wrong, right, read) in enumerate(schemas):
        run_id, seen = f"r{number}", list[Any]()

        async def step(
            s: State, ctx: StepContext, schema: Any = schema, seen: list[Any] = seen
        ) -> None:
            seen.append(await ctx.interrupt("?", schema=schema))

        g: Graph[Any] = Graph("g").add_step("s", step)
        paused = await g.run(store=store, run_id=run_id)
        (ask,) = paused.interrupts
        assert isinstance(ask.schema, dict)
        before = await journal(g, store, run_id)
        with pytest.raises(InvalidAnswer):
            await g.resume(run_id, store=store, answers={ask.id: wrong})
        assert await journal(g, store, run_id) == before
        await g.resume(run_id, store=store, answers={ask.id: right})
        assert seen == [read]


@pytest.mark.parametrize(
    "schema",
    [
        {"pattern": "^(a+)+$"},
        {"$ref": "#/$defs/nothing"},
        {"$ref": "http://127.0.0.1:9/schema"},
        {"$defs": {"x": {"$ref": "#/$defs/x"}}, "$ref": "#/$defs/x"},
    ],
    ids=["catastrophic", "nowhere", "elsewhere", "itself"],
)
async def test_a_schema_that_harms_only_refuses_the_answer(schema: dict[str, Any]) -> None:
    """A pattern that backtracks costs no time, and a `$ref` that cannot be followed is told."""
    g: Graph[Any] = Graph("g").add_step("s", lambda s: Ask("?", schema=schema))
    store = MemoryStore()
    (ask,) = (await g.run(store=store, run_id="r")).interrupts
    before = await journal(g, store)
    with pytest.raises(InvalidAnswer):
        await g.resume("r", store=store, answers={ask.id: "a" * 100 + "!"})
    assert await journal(g, store) == before


async def test_questions_asked_in_a_task_group() -> None:
    """Tasks of one group may each ask: their questions pause the step together."""

    async def step(s: State, ctx: StepContext) -> dict[str, Any]:
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(ctx.interrupt("?", key=key)) for key in ("a", "b")]
        return {"said": [task.result() for task in asked]}

    g: Graph[Any] = Graph("g").add_step("s", step)
    store = MemoryStore()
    paused = await g.run(store=store, run_id="r")
    assert [question.key for question in paused.interrupts] == ["a", "b"]
    answers = {question.id: question.key.upper() for question in paused.interrupts}
    assert (await g.resume("r", store=store, answers=answers)).state["said"] == ["A", "B"]


async def test_one_wrong_answer_refuses_all() -> None:
    """Of several answers given at once none is taken when one cannot be."""
    counted, store = Counted(), MemoryStore()
    g = both(counted)
    paused = await g.run(store=store, run_id="r")
    left, _ = paused.interrupts
    before = await journal(g, store)
    with pytest.raises(UnknownInterrupt):
        await g.resume("r", store=store, answers={left.id: 1, "nobody": 2})
    with pytest.raises(InvalidAnswer):
        await g.resume("r", store=store, answers={left.id: object()})
    assert await journal(g, store) == before


@pytest.mark.parametrize("inside", [True, False], ids=["interrupt", "ask"])
async def test_a_question_expires(inside: bool) -> None:
    """Past its time an answer is refused, nothing is written, and the run stays paused."""
    store = MemoryStore()

    async def step(s: State, ctx: StepContext) -> Any:
        if inside:
            return {"got": await ctx.interrupt("?", expires_in=-1)}
        return Ask("?", expires_in=-1)

    g: Graph[Any] = Graph("g").add_step("s", step)
    paused = await g.run(store=store, run_id="r")
    (ask,) = paused.interrupts
    assert ask.expires_at is not None
    assert ask.expires_at < datetime.now(UTC)
    before = await journal(g, store)
    for call in (
        lambda: g.resume("r", store=store, answers={ask.id: 1}),
        lambda: g.resume("r", {"x": 1}, store=store),
    ):
        with pytest.raises(ExpiredInterrupt):
            await call()
    assert await journal(g, store) == before
    assert (await g.resume("r", store=store)).interrupts == (ask,)


async def test_a_question_in_time() -> None:
    """Its limit is told, in UTC, and an answer before it is taken."""
    store = MemoryStore()
    g = asking(Counted(), expires_in=3_600)
    began = datetime.now(UTC)
    paused = await g.run(store=store, run_id="r")
    (ask,) = paused.interrupts
    assert ask.expires_at is not None
    assert 3_590 < (ask.expires_at - began).total_seconds() < 3_700
    assert (await g.resume("r", {"x": 1}, store=store)).stop is StopReason.COMPLETED


async def test_wrong_words_in_an_ask() -> None:
    """A phase that there is not is refused at the call."""
    with pytest.raises(ValueError, match="phase"):
        Ask(phase="later")  # pyright: ignore[reportArgumentType] -- refused


async def test_interrupts_match_by_their_key() -> None:
    """One that is added before another does not shift its answer; the code before runs again."""
    store, tops = MemoryStore(), list[int]()

    async def step(s: State, ctx: StepContext) -> dict[str, Any]:
        tops.append(1)
        first = await ctx.interrupt("first?", key="first")
        effect = await ctx.effect("work", lambda: len(tops))
        second = await ctx.interrupt("second?", key="second")
        return {"got": [first, effect, second]}

    g: Graph[Any] = Graph("g").add_step("s", step)
    paused = await g.run(store=store, run_id="r")
    again = await g.resume("r", store=store, answers={paused.interrupts[0].id: "one"})
    assert [i.key for i in again.interrupts] == ["second"]
    done = await g.resume("r", store=store, answers={again.interrupts[0].id: "two"})
    assert done.state == {"got": ["one", 2, "two"]}
    assert len(tops) == 3


async def test_w18_a_route_is_the_same_after_a_pause() -> None:
    """A large whole number stays one, and so does its route."""
    store = MemoryStore()
    router = branch("code", {"10000000": "right", "1e+07": "wrong"}, default="wrong")
    for pauses in (False, True):
        g: Graph[Any] = Graph("g").add_step(
            "a", lambda s, pauses=pauses: Ask("?", phase="after") if pauses else None, router
        )
        g.add_step("right", lambda s: {"went": "right"})
        g.add_step("wrong", lambda s: {"went": "wrong"})
        run_id = f"r{pauses}"
        result = await g.run({"code": 10_000_000}, store=store, run_id=run_id)
        if pauses:
            result = await g.resume(run_id, {}, store=store)
        assert result.state["went"] == "right"


# -- compatibility ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("phase", "again"),
    [("mid_step", True), ("after_step", False), ("", True), (None, True)],
    ids=["mid_step", "after_step", "empty", "absent"],
)
async def test_protocol_keys_of_go(phase: str | None, again: bool) -> None:
    """`__yield` is a question, its other keys an update; none of them enters the state."""
    store, ran = MemoryStore(), list[int]()

    def step(s: State) -> dict[str, Any]:
        ran.append(1)
        if "approved" in s and again:
            return {"done": True}
        delta = {"__yield": True, "draft": "x"}
        return delta if phase is None else {**delta, "__yield_phase": phase}

    g: Graph[Any] = Graph("g", compat=True).add_step("s", step)
    paused = await g.run(store=store, run_id="r")
    assert paused.yielded
    assert paused.state == {"draft": "x"}
    done = await g.resume("r", {"approved": True}, store=store)
    assert done.state["approved"] is True
    assert ("done" in done.state) is again
    assert len(ran) == (2 if again else 1)
    assert not [key for key in done.state if key.startswith("__")]


async def test_protocol_keys_that_say_no() -> None:
    """A false yield asks nothing, and its keys are dropped."""
    g: Graph[Any] = Graph("g", compat=True)
    g.add_step("s", lambda s: {"__yield": False, "__yield_phase": "mid_step", "x": 1})
    result = await g.run()
    assert (result.stop, result.state) == (StopReason.COMPLETED, {"x": 1})


async def test_protocol_keys_in_the_input_of_a_resume() -> None:
    """They are dropped, as in the input of a run."""
    store = MemoryStore()
    g: Graph[Any] = Graph("g", compat=True)
    g.add_step("s", lambda s: {"__yield": True, "__yield_phase": "after_step"})
    await g.run(store=store, run_id="r")
    done = await g.resume("r", {"__run_id": "r", "__yield": False, "x": 1}, store=store)
    assert done.state == {"x": 1}


# -- who drives ---------------------------------------------------------------------------------


async def test_of_two_calls_one_drives() -> None:
    """The other one is told so at once, or finds its answer consumed; the step runs once."""
    store, counted = MemoryStore(), Counted()
    g = asking(counted)
    paused = await g.run(store=store, run_id="r")
    counted.take()
    answers = {paused.interrupts[0].id: 1}
    outcomes = await asyncio.gather(
        *(g.resume("r", store=store, answers=answers) for _ in range(5)), return_exceptions=True
    )
    won = [o for o in outcomes if not isinstance(o, BaseException)]
    lost = [o for o in outcomes if isinstance(o, BaseException)]
    assert len(won) == 1
    assert all(isinstance(o, RunLocked | UnknownInterrupt) for o in lost)
    assert counted.take() == ["b", "c"]


async def test_taking_a_run_over() -> None:
    """The former driver stops at its next fact; what it was doing counts for nothing."""
    store, began, go = MemoryStore(), asyncio.Event(), asyncio.Event()
    calls: list[int] = []

    async def slow(s: State) -> dict[str, Any]:
        calls.append(1)
        mine = len(calls)
        if mine == 1:
            began.set()
            await go.wait()
        return {"by": mine}

    g: Graph[Any] = Graph("g").add_step("slow", slow)
    first = asyncio.create_task(g.run(store=store, run_id="r"))
    await began.wait()
    with pytest.raises(RunLocked):
        await g.resume("r", store=store)
    done = await g.resume("r", store=store, take_over=True)
    assert done.state == {"by": 2}
    go.set()
    with pytest.raises(RunLocked):
        await first
    assert (await g.resume("r", store=store)).state == {"by": 2}


async def test_the_lease_is_handed_back_on_every_end() -> None:
    """A run that paused, failed, or whose task was cancelled can be resumed at once."""
    store, counted = MemoryStore(), Counted()
    g: Graph[Any] = Graph("g").add_step("a", counted.fragile("a"))
    for _ in range(3):
        with pytest.raises(StepFailed):
            await (g.resume("r", store=store) if counted.calls else g.run(store=store, run_id="r"))


async def test_a_crash_beside_a_question() -> None:
    """The branch that was interrupted goes on; the one that asked still waits, for its answer."""
    store, began, calls = MemoryStore(), asyncio.Event(), list[str]()

    async def work(s: State) -> dict[str, Any]:
        calls.append("work")
        if len(calls) == 1:
            began.set()
            await asyncio.Event().wait()
        return {"worked": 1}

    async def ask(s: State, ctx: StepContext) -> dict[str, Any]:
        return {"said": await ctx.interrupt("?")}

    g: Graph[Any] = Graph("g").add_step("split", lambda s: None, ["ask", "work"])
    g.add_step("ask", ask, "join").add_step("work", work, "join")
    g.add_step("join", lambda s: {"joined": 1}, join="all")
    task = asyncio.create_task(g.run(store=store, run_id="r"))
    await began.wait()
    await asked(g, store)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    again = await g.resume("r", store=store)
    assert again.yielded
    assert calls == ["work", "work"]
    assert (again.steps, again.total_steps) == (1, 3)
    before = await journal(g, store)
    assert (await g.resume("r", store=store)).interrupts == again.interrupts
    assert await journal(g, store) == before
    done = await g.resume("r", store=store, answers={again.interrupts[0].id: "yes"})
    assert done.state == {"said": "yes", "worked": 1, "joined": 1}
    assert calls == ["work", "work"]


async def test_recover_takes_up_what_a_crash_left_beside_a_question() -> None:
    """Such a run is not paused: part of it can go on."""
    store, began, calls = MemoryStore(), asyncio.Event(), list[str]()

    async def work(s: State) -> dict[str, Any]:
        calls.append("work")
        if len(calls) == 1:
            began.set()
            await asyncio.Event().wait()
        return {"worked": 1}

    g: Graph[Any] = Graph("g").add_step("split", lambda s: None, ["ask", "work"])
    g.add_step("ask", lambda s: Ask("?", phase="after"), "join").add_step("work", work, "join")
    g.add_step("join", lambda s: {"joined": 1}, join="all")
    task = asyncio.create_task(g.run(store=store, run_id="r"))
    await began.wait()
    await asked(g, store)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (recovered,) = await g.recover(store=store)
    assert recovered.yielded
    assert calls == ["work", "work"]
    assert await g.recover(store=store) == []


async def test_empty_answers_are_no_answers() -> None:
    """Nothing is written."""
    store = MemoryStore()
    g = asking(Counted())
    await g.run(store=store, run_id="r")
    before = await journal(g, store)
    assert (await g.resume("r", store=store, answers={})).yielded
    assert await journal(g, store) == before


async def test_an_input_that_cannot_enter_the_state() -> None:
    """Nothing is written, and the exception says of which run it is."""
    store = MemoryStore()
    g: Graph[Any] = Graph("g", merge={"l": append})
    g.add_step("a", lambda s: Ask("?", phase="after"))
    await g.run(store=store, run_id="r")
    before = await journal(g, store)
    for given, error in (
        ({"l": "text"}, MergeError),
        ({"x": object()}, NotSerializable),
        ({"__x": 1}, ReservedKey),
    ):
        with pytest.raises(error) as caught:
            await g.resume("r", given, store=store)
        assert caught.value.result is None
        assert (caught.value.run_id, caught.value.graph) == ("r", "g")
    assert await journal(g, store) == before
    assert (await g.resume("r", {"l": [1]}, store=store)).state["l"] == [1]


async def test_where_an_answer_goes_must_be_a_key_of_the_state() -> None:
    """A reserved key, or one that a typed state has not, fails the step that asks."""

    class Typed(TypedDict, total=False):
        x: int

    for into, error, kind in (("__x", ReservedKey, None), ("other", UnknownKey, Typed)):
        g: Graph[Any] = Graph("g", state=kind)
        g.add_step("a", lambda s, into=into: Ask("?", into=into))
        with pytest.raises(error) as caught:
            await g.run(store=MemoryStore())
        assert caught.value.key == into
        assert caught.value.step == "a"


async def test_w24_a_resume_without_a_store() -> None:
    """A store that is none is refused with an error that says so."""
    g = asking(Counted())
    with pytest.raises((RunNotFound, TypeError)):
        await g.resume("r", store=None)  # pyright: ignore[reportArgumentType] -- refused


async def test_a_failed_write_tells_the_step() -> None:
    """The exception of a store that fails names where the run stood."""
    error = OSError("full")

    class Full:
        def __init__(self) -> None:
            self.inner, self.broken = MemoryStore(), False

        async def get(self, ns: str, key: str) -> bytes:
            return await self.inner.get(ns, key)

        async def put(self, ns: str, key: str, value: bytes) -> None:
            await self.inner.put(ns, key, value)

        async def delete(self, ns: str, key: str) -> None:
            await self.inner.delete(ns, key)

        async def list(self, ns: str, prefix: str = "") -> Any:
            return await self.inner.list(ns, prefix)

        def tx(self) -> Any:
            if self.broken:
                raise error
            return self.inner.tx()

    store = Full()

    def b(s: State) -> dict[str, Any]:
        store.broken = True
        return {"b": 1}

    g: Graph[Any] = Graph("g").add_step("a", lambda s: {"a": 1}, "b").add_step("b", b)
    with pytest.raises(CheckpointFailed) as caught:
        await g.run(store=store, run_id="r")
    assert caught.value.__cause__ is error
    assert caught.value.step == "b"
    assert caught.value.result.last_step == "b"
    assert caught.value.result.stop is StopReason.ERROR
    store.broken = False
    with pytest.raises(RunLocked):  # nothing could be written, the lease neither
        await g.resume("r", store=store)
    g.add_step("b", lambda s: {"b": 2}, replace=True)
    done = await g.resume("r", store=store, take_over=True)
    assert done.state == {"a": 1, "b": 2}
