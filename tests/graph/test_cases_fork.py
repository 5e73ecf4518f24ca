"""Going back in a run: its history, its state at any place, and runs that begin there."""

from collections import Counter
from typing import Any

import pytest

from loom_ia.graph import (
    END,
    Ask,
    BudgetExhausted,
    Graph,
    GraphChanged,
    MemoryStore,
    ReservedKey,
    RunExists,
    RunNotFound,
    StepFailed,
    StopReason,
    add,
    append,
    fold,
)
from loom_ia.testing import Crash
from tests.graph.mortal import Mortal, ends

State = dict[str, Any]
Flow = Graph[State]


def row(ran: Counter[str], **options: Any) -> Flow:
    """Make a graph of three steps in a row, which count how often they run."""
    graph: Flow = Graph("row", merge={"log": append, "n": add}, **options)
    for name, then in (("a", "b"), ("b", "c"), ("c", END)):

        async def step(state: State, name: str = name) -> State:
            ran[name] += 1
            return {"log": [name], "n": 1}

        graph.add_step(name, step, then)
    return graph


async def contents(store: MemoryStore) -> dict[str, Any]:
    """Give every event of every session of a store."""
    page = await store.journal.sessions("default")
    return {
        entry.session_id: await store.journal.read("default", entry.session_id)
        for entry in page.sessions
    }


# -- history and state ----------------------------------------------------------------------------


async def test_history_has_one_line_for_each_step() -> None:
    """Each completed step is there with its place, its number and what the budget left."""
    store = MemoryStore()
    graph = row(Counter(), step_budget=5)
    result = await graph.run(store=store, run_id="run")
    history = await graph.history("run", store=store)
    assert [(c.n, c.step, c.stop, c.budget_left) for c in history] == [
        (1, "a", None, 4),
        (2, "b", None, 3),
        (3, "c", None, 2),
    ]
    assert all(c.run_id == "run" and c.parent is None for c in history)
    assert [c.seq for c in history] == sorted(c.seq for c in history)
    assert [c.saved_at for c in history] == sorted(c.saved_at for c in history)
    states = [await graph.state_at("run", c.seq, store=store) for c in history]
    assert [state["log"] for state in states] == [["a"], ["a", "b"], ["a", "b", "c"]]
    assert states[-1] == result.state


async def test_history_tells_failures_and_pauses() -> None:
    """A step that failed and a step that waits are there with why; the count goes on."""
    store, down = MemoryStore(), [True]
    graph: Flow = Graph("mixed", "a")
    graph.add_step("a", lambda state: {"a": 1}, "b")

    @graph.step(then="c")
    async def b(state: State) -> State:
        if down:
            raise ValueError("down")
        return {"b": 1}

    @graph.step()
    async def c(state: State, ctx: Any) -> State:
        return {"c": await ctx.interrupt()}

    with pytest.raises(StepFailed):
        await graph.run(store=store, run_id="run")
    down.clear()
    paused = await graph.resume("run", store=store)
    await graph.resume("run", answers={paused.interrupts[0].id: 1}, store=store)
    history = await graph.history("run", store=store)
    assert [(c.n, c.step, c.stop) for c in history] == [
        (1, "a", None),
        (2, "b", StopReason.ERROR),
        (3, "b", None),
        (4, "c", StopReason.YIELDED),
        (5, "c", None),
    ]


async def test_lh04_numbers_go_on_across_resumes() -> None:
    """A pause and what follows it are numbered without a hole."""
    store = MemoryStore()
    graph: Flow = Graph("asking", "a")
    graph.add_step("a", lambda state: {"a": 1}, "ask")
    graph.add_step("ask", lambda state: Ask("Which?", phase="after"), "b")
    graph.add_step("b", lambda state: {"b": 1})
    paused = await graph.run(store=store)
    await graph.resume(paused.run_id, answers={paused.interrupts[0].id: 1}, store=store)
    history = await graph.history(paused.run_id, store=store)
    assert [c.n for c in history] == list(range(1, len(history) + 1))
    assert [c.step for c in history][-1] == "b"


async def test_history_and_state_of_an_unknown_run() -> None:
    """A run that is not there is told as such, and a place out of the run is a `ValueError`."""
    store, graph = MemoryStore(), row(Counter())
    for read in (graph.history("no", store=store), graph.state_at("no", 1, store=store)):
        with pytest.raises(RunNotFound):
            await read
    await graph.run(store=store, run_id="run")
    last = (await graph.events("run", store=store))[-1].seq
    for seq in (0, -1, last + 1):
        with pytest.raises(ValueError, match=str(seq)):
            await graph.state_at("run", seq, store=store)


async def test_a_run_on_its_own_is_numbered_without_a_hole() -> None:
    """Every event of a run is there, from 1 on, and its fold at each place is the state there."""
    store, graph = MemoryStore(), row(Counter())
    result = await graph.run({"n": 5}, store=store, run_id="run")
    events = await graph.events("run", store=store)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    for n in range(1, len(events) + 1):
        assert fold(events[:n]) == await graph.state_at("run", n, store=store)
    assert fold(events) == result.state
    assert await graph.events("run", store=store, after_seq=3) == events[3:]


# -- forks ----------------------------------------------------------------------------------------


async def test_lh06_a_fork_goes_on_after_the_step() -> None:
    """A fork at the end of a step does not run it again, only what follows."""
    ran, store = Counter[str](), MemoryStore()
    graph = row(ran)
    result = await graph.run(store=store, run_id="run")
    for c, runs in zip(await graph.history("run", store=store), (2, 1, 0), strict=True):
        ran.clear()
        forked = await graph.fork("run", at=c.seq, store=store)
        assert forked.state == result.state
        assert forked.steps == runs == sum(ran.values())
        assert forked.parent == ("run", c.seq)
        assert forked.run_id != "run"


async def test_a_fork_at_any_place_ends_as_the_run() -> None:
    """Wherever a plain run is left, the fork comes to the same state."""
    store, graph = MemoryStore(), row(Counter())
    result = await graph.run({"n": 1}, store=store, run_id="run")
    before = await contents(store)
    last = (await graph.events("run", store=store))[-1].seq
    for at in range(1, last + 1):
        forked = await graph.fork("run", at=at, store=store, new_run_id=f"fork{at}")
        assert forked.state == result.state
        assert forked.stop is StopReason.COMPLETED
        events = await graph.events(f"fork{at}", store=store)
        assert fold(events) == forked.state
    after = await contents(store)
    assert after["run"] == before["run"]


async def test_a_fork_with_an_input_takes_another_way() -> None:
    """An input is merged first, and the router is asked anew on the merged state."""
    store, asked = MemoryStore(), list[Any]()
    graph: Flow = Graph("ways", "a", merge={"log": append})

    def way(state: State) -> str:
        asked.append(state.get("way"))
        return state.get("way", "left")

    graph.add_step("a", lambda state: {"log": ["a"]}, way, targets=["left", "right"])
    graph.add_step("left", lambda state: {"log": ["left"]})
    graph.add_step("right", lambda state: {"log": ["right"]})
    await graph.run(store=store, run_id="run")
    (a, _) = await graph.history("run", store=store)
    forked = await graph.fork("run", at=a.seq, input={"way": "right", "log": ["!"]}, store=store)
    assert forked.state == {"log": ["a", "!", "right"], "way": "right"}
    assert asked == [None, "right"]
    routed = next(
        event.seq
        for event in await graph.events("run", store=store)
        if event.type == "graph.routed"
    )
    again = await graph.fork("run", at=routed, input={"way": "right"}, store=store)
    assert again.state["log"] == ["a", "left"]  # the way was taken there already
    with pytest.raises(ReservedKey):
        await graph.fork("run", at=a.seq, input={"__x": 1}, store=store)


def asking(ran: Counter[str]) -> Flow:
    """Make a graph that asks inside a step, after an effect."""
    graph: Flow = Graph("asking", "a")
    graph.add_step("a", lambda state: {"a": 1}, "ask")

    @graph.step(then="b")
    async def ask(state: State, ctx: Any) -> State:
        ran["ask"] += 1
        draft = await ctx.effect("draft", lambda: ran.update(["draft"]) or "text")
        return {"draft": draft, "said": await ctx.interrupt("Which?")}

    @graph.step()
    async def b(state: State) -> None:
        ran["b"] += 1

    return graph


async def test_lh07_a_fork_at_a_pause_is_answered_by_its_input() -> None:
    """The step is entered again with the input as its answer; its effects are not made again."""
    ran, store = Counter[str](), MemoryStore()
    graph = asking(ran)
    await graph.run(store=store, run_id="run")
    before = await contents(store)
    pause = (await graph.history("run", store=store))[-1]
    assert (pause.n, pause.step, pause.stop) == (2, "ask", StopReason.YIELDED)
    forked = await graph.fork("run", at=pause.seq, input={"said": "x"}, store=store)
    assert forked.state == {"a": 1, "draft": "text", "said": {"said": "x"}}
    assert ran == {"ask": 2, "draft": 1, "b": 1}
    history = await graph.history(forked.run_id, store=store)
    assert [(c.n, c.step) for c in history] == [(3, "ask"), (4, "b")]
    assert all(c.parent == ("run", pause.seq) for c in history)
    assert (await contents(store))["run"] == before["run"]


async def test_a_fork_at_a_pause_asks_again_under_another_id() -> None:
    """Without an input the fork waits; each run is answered by its own question."""
    ran, store = Counter[str](), MemoryStore()
    graph = asking(ran)
    paused = await graph.run(store=store, run_id="run")
    pause = (await graph.history("run", store=store))[-1]
    forked = await graph.fork("run", at=pause.seq, store=store)
    assert forked.yielded
    assert forked.interrupts[0].id != paused.interrupts[0].id
    assert forked.interrupts[0].run_id == forked.run_id
    assert forked.interrupts[0].payload == "Which?"
    ours = {forked.interrupts[0].id: "fork"}
    theirs = {paused.interrupts[0].id: "run"}
    one = await graph.resume(forked.run_id, answers=ours, store=store)
    other = await graph.resume("run", answers=theirs, store=store)
    assert (one.state["said"], other.state["said"]) == ("fork", "run")
    assert ran["draft"] == 1


async def test_a_fork_at_a_pause_of_the_phase_after() -> None:
    """The step is not run again: the fork goes on with its router, once it is answered."""
    ran, store = Counter[str](), MemoryStore()
    graph: Flow = Graph("asking", "ask")

    @graph.step(then=lambda state: "b" if state.get("said") else END, targets=["b", ""])
    async def ask(state: State) -> Ask:
        ran["ask"] += 1
        return Ask("Which?", phase="after", update={"asked": True}, into="said")

    @graph.step()
    async def b(state: State) -> State:
        return {"b": True}

    await graph.run(store=store, run_id="run")
    pause = (await graph.history("run", store=store))[-1]
    waiting = await graph.fork("run", at=pause.seq, store=store)
    assert waiting.yielded
    forked = await graph.fork("run", at=pause.seq, input={"said": "x"}, store=store)
    assert forked.stop is StopReason.COMPLETED
    assert (forked.state["asked"], forked.state["b"]) == (True, True)
    assert ran == {"ask": 1}


async def test_a_fork_at_a_step_that_failed_runs_it_again() -> None:
    """The step runs on the state before it, and what it had recorded is not made again."""
    ran, store, down = Counter[str](), MemoryStore(), [True]
    graph: Flow = Graph("failing", "a", merge={"log": append})
    graph.add_step("a", lambda state: {"log": ["a"]}, "b")

    @graph.step()
    async def b(state: State, ctx: Any) -> State:
        ran["b"] += 1
        await ctx.effect("send", lambda: ran.update(["send"]), side_effects="irreversible")
        if down:
            raise ValueError("down")
        return {"log": ["b"]}

    with pytest.raises(StepFailed):
        await graph.run(store=store, run_id="run")
    failure = (await graph.history("run", store=store))[-1]
    assert failure.stop is StopReason.ERROR
    with pytest.raises(StepFailed) as caught:
        await graph.fork("run", at=failure.seq, store=store)
    assert caught.value.result.parent == ("run", failure.seq)
    down.clear()
    forked = await graph.fork("run", at=failure.seq, store=store)
    assert forked.state == {"log": ["a", "b"]}
    assert ran == {"b": 3, "send": 1}


async def test_effects_recorded_before_the_place_are_kept_and_later_ones_are_not() -> None:
    """A fork inside a step that had made one of two effects makes only the other one."""
    ran, store = Counter[str](), MemoryStore()
    graph: Flow = Graph("effects")

    @graph.step()
    async def work(state: State, ctx: Any) -> State:
        one = await ctx.effect("one", lambda: ran.update(["one"]) or ran["one"])
        two = await ctx.effect("two", lambda: ran.update(["two"]) or ran["two"])
        return {"made": [one, two]}

    await graph.run(store=store, run_id="run")
    one, two = (
        event.seq
        for event in await graph.events("run", store=store)
        if event.type == "effect.recorded"
    )
    assert (await graph.fork("run", at=one - 1, store=store)).state == {"made": [2, 2]}
    assert (await graph.fork("run", at=one, store=store)).state == {"made": [1, 3]}
    assert (await graph.fork("run", at=two, store=store)).state == {"made": [1, 1]}
    assert ran == {"one": 2, "two": 3}


async def test_a_fork_inside_branches() -> None:
    """A branch that had ended is not run again, the others are; the state is that of the run."""
    ran, store = Counter[str](), MemoryStore()
    graph: Flow = Graph("wide", "split", merge={"log": append})
    graph.add_step("split", lambda state: None, ["x", "y"])
    for name in ("x", "y"):

        async def branch(state: State, name: str = name) -> State:
            ran[name] += 1
            return {"log": [name]}

        graph.add_step(name, branch, "meet")
    graph.add_step("meet", lambda state: {"log": ["meet"]}, join="all")
    result = await graph.run(store=store, run_id="run")
    for c in await graph.history("run", store=store):
        ran.clear()
        forked = await graph.fork("run", at=c.seq, store=store)
        assert forked.state == result.state == {"log": ["x", "y", "meet"]}
        if c.step in ("x", "y"):
            assert ran == {} or set(ran) == {"x", "y"} - {c.step}
    for event in await graph.events("run", store=store):
        assert (await graph.fork("run", at=event.seq, store=store)).state == result.state


async def test_a_fork_at_the_pause_of_a_child() -> None:
    """The fork has a child of its own, which stands where the other one stood."""
    ran, store = Counter[str](), MemoryStore()
    child: Flow = Graph("child", "pre")

    @child.step(then="ask")
    async def pre(state: State) -> State:
        ran["pre"] += 1
        return {"draft": "text"}

    @child.step()
    async def ask(state: State, ctx: Any) -> State:
        return {"said": await ctx.interrupt(state["draft"])}

    parent: Flow = Graph("parent", "child")
    parent.add_step("child", child.as_step(), "after")
    parent.add_step("after", lambda state: {"after": True})
    paused = await parent.run(store=store, run_id="run")
    before = await contents(store)
    last = (await parent.events("run", store=store))[-1].seq
    forked = await parent.fork("run", at=last, store=store, new_run_id="fork")
    (asked,) = forked.interrupts
    assert asked.run_id == "fork/child/1"
    assert asked.id != paused.interrupts[0].id
    done = await parent.resume("fork", answers={asked.id: "yes"}, store=store)
    assert done.state == {"draft": "text", "said": "yes", "after": True}
    assert ran == {"pre": 1}
    assert (await contents(store))["run"] == before["run"]
    theirs = {paused.interrupts[0].id: "no"}
    assert (await parent.resume("run", answers=theirs, store=store)).state["said"] == "no"


async def test_a_child_is_read_through_its_root_and_driven_by_it_alone() -> None:
    """History, state and events of a child are there; to drive it by its id is a mistake."""
    store = MemoryStore()
    child: Flow = Graph("child", "x", merge={"n": add})
    child.add_step("x", lambda state: {"n": 1}, "y")
    child.add_step("y", lambda state: {"n": 1})
    parent: Flow = Graph("parent", "c", merge={"n": add})
    parent.add_step("c", child.as_step())
    await parent.run({"n": 1}, store=store, run_id="run")
    below = "run/c/1"
    history = await parent.history(below, store=store)
    assert [(c.n, c.step, c.run_id) for c in history] == [(1, "x", below), (2, "y", below)]
    states = [await parent.state_at(below, c.seq, store=store) for c in history]
    assert states == [{"n": 2}, {"n": 3}]
    events = await parent.events(below, store=store)
    assert {event.run_id for event in events} == {below}
    assert fold(events) == {"n": 3}
    assert {event.run_id for event in await parent.events("run", store=store)} == {"run", below}
    for driving in (
        parent.resume(below, store=store),
        parent.fork(below, at=history[0].seq, store=store),
        parent.cancel(below, store=store),
    ):
        with pytest.raises(ValueError, match="'run'"):
            await driving


async def test_numbers_of_a_fork_of_a_fork_go_on() -> None:
    """Each fork begins after the number of the place where it left its source."""
    store, graph = MemoryStore(), row(Counter())
    await graph.run(store=store, run_id="run")
    a, _, _ = await graph.history("run", store=store)
    one = await graph.fork("run", at=a.seq, store=store)
    b, c = await graph.history(one.run_id, store=store)
    assert (b.n, c.n) == (2, 3)
    two = await graph.fork(one.run_id, at=b.seq, store=store)
    (last,) = await graph.history(two.run_id, store=store)
    assert (last.n, last.step, last.parent) == (3, "c", (one.run_id, b.seq))
    assert two.state == {"log": ["a", "b", "c"], "n": 3}


async def test_the_budget_of_a_fork_is_what_was_left() -> None:
    """A fork has what was left at its place, or what it is given."""
    store, graph = MemoryStore(), row(Counter(), step_budget=3)
    assert (await graph.run(store=store, run_id="run")).budget_left == 0
    a, b, _ = await graph.history("run", store=store)
    forked = await graph.fork("run", at=a.seq, store=store)
    assert forked.budget_left == 0
    assert (await graph.fork("run", at=b.seq, store=store, step_budget=4)).budget_left == 3
    with pytest.raises(BudgetExhausted) as caught:
        await graph.fork("run", at=a.seq, store=store, step_budget=1)
    result = caught.value.result
    assert (result.state["log"], result.budget_left) == (["a", "b"], 0)
    with pytest.raises(ValueError, match="step_budget"):
        await graph.fork("run", at=a.seq, store=store, step_budget=-1)


@pytest.mark.parametrize("at", [0, -1, 1000, True])
async def test_a_place_that_is_not_in_the_run(at: Any) -> None:
    """It is a `ValueError`, and nothing is written."""
    store, graph = MemoryStore(), row(Counter())
    await graph.run(store=store, run_id="run")
    before = await contents(store)
    with pytest.raises(ValueError, match="at="):
        await graph.fork("run", at=at, store=store)
    assert await contents(store) == before


async def test_a_fork_of_nothing_and_onto_something() -> None:
    """An unknown source and a name that is taken are refused."""
    store, graph = MemoryStore(), row(Counter())
    with pytest.raises(RunNotFound):
        await graph.fork("run", at=1, store=store)
    await graph.run(store=store, run_id="run")
    with pytest.raises(RunExists):
        await graph.fork("run", at=3, store=store, new_run_id="run")
    for name in ("a/b", ""):
        with pytest.raises(ValueError, match="run_id"):
            await graph.fork("run", at=3, store=store, new_run_id=name)


async def test_a_fork_is_a_run_like_another() -> None:
    """It may crash, be resumed, and be run from its own places."""
    ran, world = Counter[str](), Mortal()
    graph = row(ran)
    await graph.run(store=world.store(), run_id="run")
    a, _, _ = await graph.history("run", store=world.store())
    ran.clear()
    with pytest.raises(Crash):
        await graph.fork("run", at=a.seq, store=world.store(ends("c")), new_run_id="fork")
    result = await graph.resume("fork", store=world.store(), take_over=True)
    assert result.state == {"log": ["a", "b", "c"], "n": 3}
    assert ran == {"b": 1, "c": 2}
    events = await graph.events("fork", store=world.store())
    assert fold(events) == result.state
    for event in events:
        there = await graph.state_at("fork", event.seq, store=world.store())
        assert fold([e for e in events if e.seq <= event.seq]) == there


async def test_a_fork_of_a_run_whose_graph_lost_a_step() -> None:
    """A fork that stands at a step that is no more is refused."""
    store = MemoryStore()
    await row(Counter()).run(store=store, run_id="run")
    graph: Flow = Graph("row", "a", merge={"log": append, "n": add})
    graph.add_step("a", lambda state: None)
    _, b, _ = await row(Counter()).history("run", store=store)
    before = await contents(store)
    with pytest.raises(GraphChanged):
        await graph.fork("run", at=b.seq, store=store)
    assert await contents(store) == before
