"""Graphs below graphs: what goes in, what comes back, how they pause, fail and are closed."""

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import pytest

from loom_ia.graph import (
    END,
    Ask,
    BudgetExhausted,
    ChildYielded,
    Graph,
    GraphChanged,
    Hooks,
    Interrupt,
    MemoryStore,
    MergeError,
    Message,
    NotResumable,
    Retry,
    RunError,
    RunResult,
    StepBudget,
    StepFailed,
    StopReason,
    UnknownInterrupt,
    UnknownKey,
    Usage,
    add,
    append,
    ask_human,
    branch,
    fan_out,
    fold,
    handoff,
    subgraph,
)
from loom_ia.testing import Crash
from tests.graph.mortal import Mortal, ends

State = Any


def alone(name: str, fn: Any, **options: Any) -> Graph[Any]:
    """Make a graph of one step."""
    g: Graph[Any] = Graph(name, **options)
    g.add_step("work", fn, then=END)
    return g


def above(child: Graph[Any], *, merge: Any = None, name: str = "parent", **options: Any) -> Any:
    """Make a graph whose only step runs another one."""
    g: Graph[Any] = Graph(name, merge=merge)
    g.add_step("run", child.as_step(**options), then=END)
    return g


def drafting(runs: Counter[str]) -> Graph[Any]:
    """Make a graph that does something, then asks."""
    g: Graph[Any] = Graph("writer", "draft")

    def draft(state: State) -> dict[str, Any]:
        runs["draft"] += 1
        return {"draft": "text"}

    async def check(state: State, ctx: Any) -> dict[str, Any]:
        runs["check"] += 1
        answer = await ctx.interrupt({"draft": state["draft"]}, key="ok")
        return {"output": f"{state['draft']} {answer}"}

    g.add_step("draft", draft, then="check")
    g.add_step("check", check, then=END)
    return g


# -- what goes in and comes back ------------------------------------------------------------------


async def test_sb03_what_a_child_gives_comes_back() -> None:
    """By default all goes in, and what the child changed comes back."""
    child = alone("child", lambda state: {"output": f"hello {state['name']}"})
    result = await above(child).run({"name": "Ada"})
    assert result.state == {"name": "Ada", "output": "hello Ada"}
    assert (result.steps, result.total_steps, result.last_step) == (1, 1, "run")


async def test_subgraph_is_as_step() -> None:
    """`subgraph(graph, …)` and `graph.as_step(…)` are the same."""
    child = alone("child", lambda state: {"a": 1, "b": 2})
    g: Graph[Any] = Graph("parent")
    g.add_step("run", subgraph(child, outputs=["b"]), then=END)
    assert (await g.run({})).state == {"b": 2}


async def test_w44_a_child_that_does_nothing_changes_nothing() -> None:
    """Lists and sums of the parent are not doubled by a child that only passes."""
    child = alone("child", lambda state: None, merge={"messages": append, "n": add})
    g = above(child, merge={"messages": append, "n": add})
    result = await g.run({"messages": ["m1"], "n": 7})
    assert result.state == {"messages": ["m1"], "n": 7}


async def test_w44_additions_of_a_child_come_back_once() -> None:
    """What the child added to a list comes back, and nothing that it was given."""
    child = alone("child", lambda state: {"messages": ["m2"]}, merge={"messages": append})
    g = above(child, merge={"messages": append})
    assert (await g.run({"messages": ["m1"]})).state == {"messages": ["m1", "m2"]}


@pytest.mark.parametrize("outputs", [None, ["n", "log", "v"]])
async def test_lc09_sums_come_back_as_differences(outputs: Any) -> None:
    """10 and 3 more are 13, and a value is a value."""
    merge = {"n": add, "log": append}
    child = alone("child", lambda state: {"n": 3, "log": ["c"], "v": 2}, merge=merge)
    g = above(child, merge=merge, outputs=outputs)
    result = await g.run({"n": 10, "log": ["p"], "v": 1})
    assert result.state == {"n": 13, "log": ["p", "c"], "v": 2}


async def test_a_child_without_the_merges_of_its_parent() -> None:
    """Changes are told by the merges of the parent, whatever those of the child."""
    child = alone("child", lambda state: {"n": state["n"] + 3, "log": [*state["log"], "c"]})
    g = above(child, merge={"n": add, "log": append})
    assert (await g.run({"n": 10, "log": ["p"]})).state == {"n": 13, "log": ["p", "c"]}


async def test_lc10_a_child_that_reorders_an_append_key() -> None:
    """A list that was not merely extended is an error that names the key."""
    child = alone("child", lambda state: {"log": list(reversed(state["log"]))})
    with pytest.raises(MergeError) as caught:
        await above(child, merge={"log": append}).run({"log": [1, 2]}, store=MemoryStore())
    assert caught.value.key == "log"
    assert caught.value.step == "run"
    assert caught.value.graph == "parent"
    assert caught.value.result.state == {"log": [1, 2]}


async def test_w46_names_of_what_comes_back() -> None:
    """With `outputs`, private keys of the child stay below."""
    child = alone("child", lambda state: {"draft": "x", "output": "y"})
    assert (await above(child, outputs=["output"]).run({})).state == {"output": "y"}


async def test_mappers() -> None:
    """Functions map what goes in and what comes back; a function's delta is an ordinary one."""
    seen: list[Any] = []

    def work(state: State) -> dict[str, Any]:
        seen.append(dict(state))
        return {"answer": state["question"] * 2}

    g = above(
        alone("child", work),
        merge={"total": add},
        inputs=lambda state: {"question": state["x"]},
        outputs=lambda state: {"total": state["answer"]},
    )
    assert (await g.run({"x": 4, "total": 1})).state == {"x": 4, "total": 9}
    assert seen == [{"question": 4}]


async def test_names_of_what_goes_in() -> None:
    """Named keys go in if they are there."""
    seen: list[Any] = []
    child = alone("child", lambda state: seen.append(dict(state)))
    await above(child, inputs=["a", "z"]).run({"a": 1, "b": 2})
    assert seen == [{"a": 1}]


class Typed(TypedDict, total=False):
    """The state of a child that knows few keys."""

    a: int
    log: Annotated[list[str], append]


async def test_a_typed_child_takes_the_keys_that_it_declares() -> None:
    """Other keys of the parent stay above."""
    seen: list[Any] = []

    def work(state: Any) -> dict[str, Any]:
        seen.append(dict(state))
        return {"a": 2, "log": ["c"]}

    child: Graph[Any] = Graph("child", state=Typed)
    child.add_step("work", work, then=END)
    result = await above(child, merge={"log": append}).run({"a": 1, "b": 1, "log": ["p"]})
    assert seen == [{"a": 1, "log": ["p"]}]
    assert result.state == {"a": 2, "b": 1, "log": ["p", "c"]}


async def test_a_typed_parent_takes_only_what_it_may_have() -> None:
    """By default, a key that the parent does not declare is left below."""
    child = alone("child", lambda state: {"a": 5, "private": 1})
    g: Graph[Any] = Graph("parent", state=Typed)
    g.add_step("run", child.as_step(), then=END)
    assert (await g.run({"a": 1})).state == {"a": 5}
    named: Graph[Any] = Graph("parent", state=Typed)
    named.add_step("run", child.as_step(outputs=lambda state: {"private": 1}), then=END)
    with pytest.raises(UnknownKey):
        await named.run({"a": 1})


@dataclass(frozen=True)
class Order:
    """The state of a typed parent."""

    total: int
    note: str = ""


async def test_a_parent_of_a_dataclass() -> None:
    """The fields of an instance go in, and come back as an instance."""
    child = alone("child", lambda state: {"total": state["total"] + 1, "note": "done"})
    g: Graph[Any] = Graph("parent", state=Order)
    g.add_step("run", child.as_step(), then=END)
    result = await g.run(Order(total=1))
    assert result.state == Order(total=2, note="done")


async def test_a_key_that_the_child_deletes() -> None:
    """A deletion is a change too."""
    from loom_ia.graph import DELETE

    child = alone("child", lambda state: {"draft": DELETE})
    assert (await above(child).run({"draft": 1, "a": 1})).state == {"a": 1}


async def test_a_mapper_that_raises_fails_the_step() -> None:
    """Either way, the error is the cause of the failure of the parent's step."""

    def broken(state: State) -> Any:
        raise LookupError("lost")

    child = alone("child", lambda state: {"a": 1})
    for g in (above(child, inputs=broken), above(child, outputs=broken)):
        with pytest.raises(StepFailed) as caught:
            await g.run({}, store=MemoryStore())
        assert isinstance(caught.value.__cause__, LookupError)
        assert (caught.value.step, caught.value.graph) == ("run", "parent")


async def test_the_caller_sees_nothing_of_a_child_in_the_state() -> None:
    """While the child waits, the state of the parent has nothing of it."""
    g = above(drafting(Counter()))
    result = await g.run({"x": 1}, store=MemoryStore())
    assert result.yielded
    assert result.state == {"x": 1}


# -- ids ------------------------------------------------------------------------------------------


async def test_w45_a_child_has_an_id_of_its_own_each_time() -> None:
    """In a loop, each occurrence is another run."""
    child = alone("child", lambda state: {"n": state["n"] + 1})
    g: Graph[Any] = Graph("parent")
    g.add_step(
        "run",
        child.as_step(),
        then=lambda state: "run" if state["n"] < 3 else END,
        targets=["run"],
    )
    store = MemoryStore()
    result = await g.run({"n": 0}, store=store, run_id="r")
    assert result.state == {"n": 3}
    events = await g.events("r", store=store)
    started = [event.run_id for event in events if event.type == "run.started"]
    assert started == ["r", "r/run/1", "r/run/2", "r/run/3"]
    assert [event.seq for event in events] == list(range(1, len(events) + 1))


async def test_the_id_of_a_child_in_a_branch() -> None:
    """The index of the branch comes before the step."""
    child = alone("child", lambda state: {"said": ["c"]}, merge={"said": append})
    g: Graph[Any] = Graph("parent", "split", merge={"said": append})
    g.add_step("split", lambda state: None, then=["plain", "run"])
    g.add_step("plain", lambda state: {"said": ["p"]}, then="meet")
    g.add_step("run", child.as_step(), then="meet")
    g.add_step("meet", lambda state: None, join="all")
    store = MemoryStore()
    result = await g.run({"said": ["0"]}, store=store, run_id="r")
    assert result.state == {"said": ["0", "p", "c"]}
    started = [e.run_id for e in await g.events("r", store=store) if e.type == "run.started"]
    assert started == ["r", "r/split.1/run/1"]
    history = await g.history("r/split.1/run/1", store=store)
    assert [(one.n, one.step, one.run_id) for one in history] == [(1, "work", "r/split.1/run/1")]


async def test_a_child_is_read_through_its_root_and_driven_through_it() -> None:
    """Its history and its state are read by its own id; resume, fork and cancel refuse it."""
    child = alone("child", lambda state: {"a": 1})
    g = above(child)
    store = MemoryStore()
    await g.run({"z": 0}, store=store, run_id="r")
    (info,) = await g.history("r/run/1", store=store)
    assert info.step == "work"
    assert await g.state_at("r/run/1", info.seq, store=store) == {"z": 0, "a": 1}
    assert [one.step for one in await g.history("r", store=store)] == ["run"]
    own = await g.events("r/run/1", store=store)
    assert {event.run_id for event in own} == {"r/run/1"}
    assert fold(own) == {"z": 0, "a": 1}
    for refused in (
        g.resume("r/run/1", store=store),
        g.fork("r/run/1", at=info.seq, store=store),
        g.cancel("r/run/1", store=store),
    ):
        with pytest.raises(ValueError, match="root"):
            await refused


async def test_opening_a_child_is_one_batch() -> None:
    """The call of the parent's step comes right before the first fact of the child."""
    g = above(alone("child", lambda state: {"a": 1}))
    store = MemoryStore()
    await g.run({}, store=store, run_id="r")
    events = await g.events("r", store=store)
    at = next(i for i, event in enumerate(events) if event.run_id == "r/run/1")
    assert events[at].type == "run.started"
    assert (events[at - 1].type, events[at - 1].step) == ("tool.called", "run")
    assert events[at].payload["parent_run_id"] == "r"
    assert events[at].payload["parent_call_id"] == "run/1"


# -- pauses ---------------------------------------------------------------------------------------


async def test_w06_a_child_goes_on_at_its_pause() -> None:
    """What the child did before its pause is not done again, and its draft is there."""
    runs: Counter[str] = Counter()
    g = above(drafting(runs))
    store = MemoryStore()
    first = await g.run({}, store=store, run_id="r")
    assert first.stop is StopReason.YIELDED
    (ask,) = first.interrupts
    assert (ask.run_id, ask.graph, ask.step) == ("r/run/1", "writer", "check")
    assert ask.path == ("run", "check")
    assert (ask.key, ask.payload, ask.occurrence) == ("ok", {"draft": "text"}, 1)
    assert first.last_step == "run"
    result = await g.resume("r", answers={ask.id: "fine"}, store=store)
    assert result.state == {"draft": "text", "output": "text fine"}
    assert runs == {"draft": 1, "check": 2}
    assert result.total_steps == 1


async def test_sb01_an_input_answers_the_question_of_a_child() -> None:
    """In the Go style, the input of a resume is the answer, wherever the question is."""
    child: Graph[Any] = Graph("child")
    child.add_step("ask", ask_human("ok?", response="ok", into="answer"), then=END)
    g = above(child)
    store = MemoryStore()
    first = await g.run({}, store=store, run_id="r")
    assert first.interrupts[0].graph == "child"
    result = await g.resume("r", {"ok": "yes", "note": 1}, store=store)
    assert result.state == {"answer": "yes", "note": 1}


async def test_an_input_that_answers_a_child_is_heard_once() -> None:
    """Parent and child hear it both: what a list gains comes back once, and nothing stays behind.

    The next time that the child runs, it asks again.
    """
    child: Graph[Any] = Graph("child", merge={"log": append})
    child.add_step("ask", ask_human("ok?", response="ok", into="answer"), then="end")
    child.add_step("end", lambda state: {"log": [f"end {state['answer']}"]}, then=END)
    g: Graph[Any] = Graph("parent", merge={"log": append})
    g.add_step(
        "run",
        child.as_step(),
        then=lambda state: "run" if state["answer"] == "again" else END,
        targets=["run"],
    )
    store = MemoryStore()
    await g.run({"log": ["a"]}, store=store, run_id="r")
    second = await g.resume("r", {"ok": "again", "log": ["b"]}, store=store)
    assert second.yielded
    assert second.state == {"log": ["a", "b", "end again"], "answer": "again"}
    result = await g.resume("r", {"ok": "yes"}, store=store)
    assert result.state == {"log": ["a", "b", "end again", "end yes"], "answer": "yes"}


async def test_lc04_a_child_that_pauses_twice_is_one_run() -> None:
    """Each pause has a question of its own; an answer given serves once."""
    child: Graph[Any] = Graph("child")

    async def two(state: State, ctx: Any) -> dict[str, Any]:
        first = await ctx.interrupt("1", key="one")
        second = await ctx.interrupt("2", key="two")
        return {"got": [first, second]}

    child.add_step("two", two, then=END)
    g = above(child)
    store = MemoryStore()
    first = await g.run({}, store=store, run_id="r")
    second = await g.resume("r", answers={first.interrupts[0].id: "a"}, store=store)
    assert second.yielded
    assert second.interrupts[0].id != first.interrupts[0].id
    assert second.interrupts[0].run_id == first.interrupts[0].run_id == "r/run/1"
    with pytest.raises(UnknownInterrupt):
        await g.resume("r", answers={first.interrupts[0].id: "again"}, store=store)
    result = await g.resume("r", answers={second.interrupts[0].id: "b"}, store=store)
    assert result.state == {"got": ["a", "b"]}


async def test_w47_a_wrong_policy_is_refused_at_the_call() -> None:
    """An unknown policy is no policy."""
    child = alone("child", lambda state: None)
    with pytest.raises(ValueError, match="on_yield"):
        child.as_step(on_yield="maybe")
    with pytest.raises(ValueError, match="inputs"):
        child.as_step(inputs="name")
    with pytest.raises(ValueError, match="outputs"):
        child.as_step(outputs=3)  # pyright: ignore[reportArgumentType] -- the mistake tested


async def test_a_trap_fails_the_step() -> None:
    """With "trap", a pause is a failure caused by `ChildYielded`."""
    g = above(drafting(Counter()), on_yield="trap")
    with pytest.raises(StepFailed) as caught:
        await g.run({}, store=MemoryStore())
    assert isinstance(caught.value.__cause__, ChildYielded)
    assert caught.value.result.stop is StopReason.ERROR
    assert caught.value.result.interrupts == ()


async def test_a_function_receives_the_result_of_a_child_that_pauses() -> None:
    """What it gives is the delta of the step, and the run goes on."""
    seen: list[RunResult[Any]] = []

    def on_yield(result: RunResult[Any]) -> dict[str, Any]:
        seen.append(result)
        return {"asked": result.interrupts[0].payload}

    g = above(drafting(Counter()), on_yield=on_yield)
    result = await g.run({}, store=MemoryStore(), run_id="r")
    assert result.stop is StopReason.COMPLETED
    assert result.state == {"asked": {"draft": "text"}}
    assert seen[0].yielded
    assert (seen[0].run_id, seen[0].graph) == ("r/run/1", "writer")
    assert seen[0].state == {"draft": "text"}
    assert result.interrupts == ()


async def test_a_pause_of_a_child_without_a_store() -> None:
    """Nobody could go on: `NotResumable`, with the result."""
    with pytest.raises(NotResumable) as caught:
        await above(drafting(Counter())).run({})
    assert caught.value.result.interrupts[0].path == ("run", "check")


async def test_a_function_is_told_what_the_runs_below_the_child_ask() -> None:
    """A question of a grandchild is one of the child's result."""
    seen: list[RunResult[Any]] = []

    def on_yield(result: RunResult[Any]) -> None:
        seen.append(result)

    middle = above(drafting(Counter()), name="middle")
    await above(middle, on_yield=on_yield).run({}, store=MemoryStore())
    assert seen[0].stop is StopReason.YIELDED
    assert [one.step for one in seen[0].interrupts] == ["check"]


async def test_an_approver_answers_a_child_in_line() -> None:
    """Questions of a child go to the function too, and nothing pauses."""
    seen: list[Interrupt] = []

    def approver(interrupt: Interrupt) -> str:
        seen.append(interrupt)
        return "in line"

    result = await above(drafting(Counter())).run({}, approver=approver)
    assert result.state["output"] == "text in line"
    assert seen[0].path == ("run", "check")


async def test_a_grandchild_that_asks() -> None:
    """The path goes down from the root, the ids too, and the answer is given to the root."""
    runs: Counter[str] = Counter()
    middle = above(drafting(runs), name="middle")
    g: Graph[Any] = Graph("top")
    g.add_step("down", middle.as_step(), then=END)
    store = MemoryStore()
    first = await g.run({}, store=store, run_id="r")
    (ask,) = first.interrupts
    assert ask.path == ("down", "run", "check")
    assert ask.run_id == "r/down/1/run/1"
    result = await g.resume("r", answers={ask.id: "ok"}, store=store)
    assert result.state == {"draft": "text", "output": "text ok"}
    assert runs["draft"] == 1
    history = await g.history("r/down/1/run/1", store=store)
    assert [(one.step, one.stop) for one in history] == [
        ("draft", None),
        ("check", StopReason.YIELDED),
        ("check", None),
    ]


async def test_children_in_branches_that_both_ask() -> None:
    """Each question is answered alone, in the order of declaration."""
    g: Graph[Any] = Graph("parent", "split")
    g.add_step("split", lambda state: None, then=["one", "two"])
    for name in ("one", "two"):
        child = drafting(Counter())
        g.add_step(
            name,
            child.as_step(outputs=lambda state, name=name: {name: state["output"]}),
            then="meet",
        )
    g.add_step("meet", lambda state: {"met": True}, join="all")
    store = MemoryStore()
    first = await g.run({}, store=store, run_id="r")
    assert [ask.path for ask in first.interrupts] == [("one", "check"), ("two", "check")]
    two = first.interrupts[1].id
    second = await g.resume("r", answers={two: "b"}, store=store)
    assert [ask.path for ask in second.interrupts] == [("one", "check")]
    result = await g.resume("r", answers={second.interrupts[0].id: "a"}, store=store)
    assert result.state == {"one": "text a", "two": "text b", "met": True}


async def test_a_map_of_children() -> None:
    """Each item may be a run below, one of which asks."""
    child: Graph[Any] = Graph("child")

    async def work(state: State, ctx: Any) -> dict[str, Any]:
        if state["doc"] == 2:
            return {"s": await ctx.interrupt("two?")}
        return {"s": state["doc"]}

    child.add_step("work", work, then=END)
    g: Graph[Any] = Graph("parent", "load")
    router = fan_out("score", over="docs", as_="doc", collect="out", take="s", limit=1)
    g.add_step("load", lambda state: {"docs": [1, 2, 3]}, then=router)
    g.add_step("score", child.as_step(outputs=["s"]), then=END)
    store = MemoryStore()
    first = await g.run({}, store=store, run_id="r")
    assert first.interrupts[0].run_id == "r/load.1/score/1"
    result = await g.resume("r", answers={first.interrupts[0].id: 20}, store=store)
    assert result.state["out"] == [1, 20, 3]


# -- failures -------------------------------------------------------------------------------------


async def test_lc07_a_child_that_fails() -> None:
    """The parent's step fails; its cause is the child's exception, which names the child."""

    def broken(state: State) -> None:
        raise RuntimeError("no paper")

    with pytest.raises(StepFailed) as caught:
        await above(alone("child", broken)).run({}, store=MemoryStore(), run_id="r")
    error = caught.value
    assert (error.graph, error.step, error.run_id) == ("parent", "run", "r")
    below = error.__cause__
    assert isinstance(below, StepFailed)
    assert (below.graph, below.step, below.run_id) == ("child", "work", "r/run/1")
    assert isinstance(below.__cause__, RuntimeError)
    assert error.result.failed_step == "run"


async def test_a_child_that_failed_goes_on_where_it_failed() -> None:
    """A resume of the root runs the failed step of the child, and nothing before it."""
    runs: Counter[str] = Counter()
    broken = [True]
    child: Graph[Any] = Graph("child", "a")

    def a(state: State) -> dict[str, Any]:
        runs["a"] += 1
        return {"a": 1}

    def b(state: State) -> dict[str, Any]:
        runs["b"] += 1
        if broken[0]:
            raise RuntimeError("no")
        return {"b": 1}

    child.add_step("a", a, then="b")
    child.add_step("b", b, then=END)
    g = above(child)
    store = MemoryStore()
    with pytest.raises(StepFailed):
        await g.run({}, store=store, run_id="r")
    broken[0] = False
    result = await g.resume("r", store=store)
    assert result.state == {"a": 1, "b": 1}
    assert runs == {"a": 1, "b": 2}


async def test_a_step_that_runs_a_child_is_tried_again() -> None:
    """Each attempt goes on with the child where it failed; the occurrence costs one step."""
    runs: Counter[str] = Counter()
    child: Graph[Any] = Graph("child", "a")

    def a(state: State) -> dict[str, Any]:
        runs["a"] += 1
        return {"a": 1}

    def b(state: State) -> dict[str, Any]:
        runs["b"] += 1
        if runs["b"] < 3:
            raise TimeoutError("not yet")
        return {"b": 1}

    child.add_step("a", a, then="b")
    child.add_step("b", b, then=END)
    g: Graph[Any] = Graph("parent")
    retry = Retry(attempts=3, delay=0, on=(TimeoutError,))
    g.add_step("run", child.as_step(), then=END, retry=retry)
    result = await g.run({})
    assert result.state == {"a": 1, "b": 1}
    assert runs == {"a": 1, "b": 3}
    assert result.total_steps == 1


async def test_a_child_whose_failure_is_not_to_be_tried_again() -> None:
    """`on` names what the child's failure, or the cause of it, must be."""
    runs: Counter[str] = Counter()

    def work(state: State) -> None:
        runs["work"] += 1
        raise KeyError("x")

    g: Graph[Any] = Graph("parent")
    retry = Retry(attempts=3, delay=0, on=(TimeoutError,))
    g.add_step("run", alone("child", work).as_step(), then=END, retry=retry)
    with pytest.raises(StepFailed):
        await g.run({})
    assert runs == {"work": 1}


async def test_the_time_of_a_step_that_runs_a_child() -> None:
    """A child that is too long is cut, and the step fails; a resume goes on with the child."""
    runs: Counter[str] = Counter()
    hold = [True]
    child: Graph[Any] = Graph("child", "a")

    def a(state: State) -> dict[str, Any]:
        runs["a"] += 1
        return {"a": 1}

    async def b(state: State) -> dict[str, Any]:
        runs["b"] += 1
        if hold[0]:
            await asyncio.Event().wait()
        return {"b": 1}

    child.add_step("a", a, then="b")
    child.add_step("b", b, then=END)
    g: Graph[Any] = Graph("parent")
    g.add_step("run", child.as_step(), then=END, timeout=0.1)
    store = MemoryStore()
    with pytest.raises(StepFailed) as caught:
        await g.run({}, store=store, run_id="r")
    assert isinstance(caught.value.__cause__, TimeoutError)
    hold[0] = False
    result = await g.resume("r", store=store)
    assert result.state == {"a": 1, "b": 1}
    assert runs == {"a": 1, "b": 2}


async def test_a_fallback_of_a_step_that_runs_a_child() -> None:
    """Another step takes over from the state before the child."""

    def broken(state: State) -> None:
        raise RuntimeError("no")

    g: Graph[Any] = Graph("parent", "run")
    g.add_step("run", alone("child", broken).as_step(), then=END, fallback="other")
    g.add_step("other", lambda state: {"other": dict(state)}, then=END)
    result = await g.run({"x": 1})
    assert result.state == {"x": 1, "other": {"x": 1}}
    assert result.stop is StopReason.COMPLETED


async def test_a_crash_inside_a_child() -> None:
    """The parent that goes on finds the child and goes on with it."""
    mortal = Mortal()
    runs: Counter[str] = Counter()
    child: Graph[Any] = Graph("child", "a")

    def step(name: str) -> Any:
        def run(state: State) -> dict[str, Any]:
            runs[name] += 1
            return {name: 1}

        return run

    child.add_step("a", step("a"), then="b")
    child.add_step("b", step("b"), then=END)
    g: Graph[Any] = Graph("parent", "before")
    g.add_step("before", step("before"), then="run")
    g.add_step("run", child.as_step(), then="after")
    g.add_step("after", step("after"), then=END)
    with pytest.raises(Crash):
        await g.run({}, store=mortal.store(ends("b")), run_id="r")
    store = mortal.store()
    result = await g.resume("r", store=store, take_over=True)
    assert result.state == {"before": 1, "a": 1, "b": 1, "after": 1}
    assert runs == {"before": 1, "a": 1, "b": 2, "after": 1}
    started = [e.run_id for e in await g.events("r", store=store) if e.type == "run.started"]
    assert started == ["r", "r/run/1"]


async def test_a_child_whose_graph_changed_while_it_waited() -> None:
    """Nothing is executed, nothing is written, and the answer is still to give."""

    def parent(child: Graph[Any]) -> Graph[Any]:
        return above(child)

    before = drafting(Counter())
    store = MemoryStore()
    first = await parent(before).run({}, store=store, run_id="r")
    runs: Counter[str] = Counter()
    after = drafting(runs)
    after.add_step("more", lambda state: None, then=END)
    answers = {first.interrupts[0].id: "ok"}
    count = len(await parent(after).events("r", store=store))
    with pytest.raises(GraphChanged):
        await parent(after).resume("r", answers=answers, store=store)
    assert len(await parent(after).events("r", store=store)) == count
    assert runs == {}
    result = await parent(before).resume("r", answers=answers, store=store)
    assert result.state["output"] == "text ok"


async def test_a_changed_child_may_be_allowed() -> None:
    """With `allow_changed` the run goes on with the new shape of the child."""
    store = MemoryStore()
    first = await above(drafting(Counter())).run({}, store=store, run_id="r")
    after = drafting(Counter())
    after.add_step("more", lambda state: {"more": 1}, then=END)
    after.add_step("check", lambda state: {"output": "new"}, then="more", replace=True)
    result = await above(after).resume(
        "r", answers={first.interrupts[0].id: "ok"}, store=store, allow_changed=True
    )
    assert result.state["more"] == 1


async def test_hooks_of_a_graph_do_not_apply_to_its_children() -> None:
    """A hook of the parent sees the parent's step only."""
    seen: list[str] = []
    g: Graph[Any] = Graph("parent", hooks=Hooks(before=[lambda step, state: seen.append(step)]))
    g.add_step("run", alone("child", lambda state: None).as_step(), then=END)
    await g.run({})
    assert seen == ["run"]


# -- budgets --------------------------------------------------------------------------------------


def endless(name: str = "child", **options: Any) -> Graph[Any]:
    """Make a graph that loops for ever."""
    g: Graph[Any] = Graph(name, max_iterations=1000, **options)
    g.add_step("loop", lambda state: {"n": state.get("n", 0) + 1}, then="loop")
    return g


async def test_gr16_a_child_is_charged_to_the_budget_above() -> None:
    """The parent's step and nine of the child fit ten; the root stops."""
    g: Graph[Any] = Graph("parent", step_budget=10)
    g.add_step("run", endless().as_step(), then=END)
    store = MemoryStore()
    with pytest.raises(BudgetExhausted, match="budget") as caught:
        await g.run({}, store=store, run_id="r")
    error = caught.value
    assert (error.graph, error.run_id) == ("parent", "r")
    assert error.result.stop is StopReason.BUDGET
    assert error.result.graph == "parent"
    assert error.result.budget_left == 0
    done = [e for e in await g.events("r/run/1", store=store) if e.type == "tool.completed"]
    assert len(done) == 9


async def test_w08_the_smallest_remainder_wins() -> None:
    """A child with a larger budget of its own is still bound by the one above."""
    g: Graph[Any] = Graph("parent", step_budget=5)
    g.add_step("run", endless(step_budget=40).as_step(), then=END)
    store = MemoryStore()
    with pytest.raises(BudgetExhausted) as caught:
        await g.run({}, store=store, run_id="r")
    assert caught.value.graph == "parent"
    assert len(await g.history("r/run/1", store=store)) == 4


async def test_a_smaller_budget_of_a_child() -> None:
    """The limit of the child stops the root, and the root has some left."""
    g: Graph[Any] = Graph("parent", step_budget=50)
    g.add_step("run", endless(step_budget=3).as_step(), then=END)
    store = MemoryStore()
    with pytest.raises(BudgetExhausted) as caught:
        await g.run({}, store=store, run_id="r")
    result = caught.value.result
    assert caught.value.graph == "parent"
    assert result.stop is StopReason.BUDGET
    assert result.budget_left == 46


async def test_lb04_a_budget_around_wins() -> None:
    """One step is left around: the graph's own hundred change nothing."""
    g = endless("solo", step_budget=100)
    store = MemoryStore()
    with StepBudget(1) as budget, pytest.raises(BudgetExhausted):
        await g.run({}, store=store, run_id="r")
    assert budget.left == 0
    assert len(await g.history("r", store=store)) == 1


async def test_a_budget_around_is_shared_with_children() -> None:
    """Two runs and their children are charged to one budget."""
    g = above(alone("child", lambda state: None))
    with StepBudget(3) as budget:
        await g.run({})
        assert budget.used == 2
        with pytest.raises(BudgetExhausted):
            await g.run({})
    assert budget.used == 3


async def test_w07_a_budget_of_a_tree_survives_a_pause() -> None:
    """What the child used before its pause is still used after it."""
    child = drafting(Counter())
    g: Graph[Any] = Graph("parent", step_budget=4)
    g.add_step("run", child.as_step(), then="more")
    g.add_step("more", lambda state: None, then="more")
    store = MemoryStore()
    first = await g.run({}, store=store, run_id="r")
    assert first.budget_left == 1
    with pytest.raises(BudgetExhausted) as caught:
        await g.resume("r", answers={first.interrupts[0].id: "x"}, store=store)
    assert caught.value.result.total_steps == 2
    assert caught.value.result.budget_left == 0


async def test_usage_of_children_counts() -> None:
    """The usage that the steps of children write is summed into the root's."""

    def work(state: State) -> dict[str, Any]:
        return {"usage": Usage(input_tokens=3, output_tokens=4, cost_usd=0.5)}

    g: Graph[Any] = Graph("parent")
    g.add_step("run", alone("child", work).as_step(outputs=[]), then="own")
    g.add_step("own", work, then=END)
    result = await g.run({})
    assert result.usage is not None
    assert (result.usage.input_tokens, result.usage.output_tokens) == (6, 8)
    assert result.usage.cost_usd == pytest.approx(1.0)


async def test_usage_that_a_child_returns_is_counted_once() -> None:
    """A usage that comes back in the delta of the parent's step is not counted again."""
    child = alone("child", lambda state: {"usage": Usage(input_tokens=3, output_tokens=4)})
    result = await above(child).run({})
    assert result.usage is not None
    assert result.usage.input_tokens == 3


# -- the end of a root ----------------------------------------------------------------------------


async def test_closing_a_root_closes_its_open_children() -> None:
    """A child that still waits is closed with the root, in the same batch, for that reason."""
    g = above(drafting(Counter()), on_yield=lambda result: {"left": True})
    store = MemoryStore()
    await g.run({}, store=store, run_id="r")
    events = await g.events("r", store=store)
    closing = [e for e in events if e.run_id == "r/run/1" and e.type == "run.cancelled"]
    assert len(closing) == 1
    assert "parent" in closing[0].payload.values()
    assert events[-1].type in ("run.completed", "run.cancelled")


async def test_cancel_of_the_root_while_a_child_runs() -> None:
    """The step of the child is cancelled too, and both runs are closed."""
    started, cut = asyncio.Event(), asyncio.Event()

    async def work(state: State) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cut.set()
            raise

    g = above(alone("child", work))
    store = MemoryStore()
    task = asyncio.create_task(g.run({}, store=store, run_id="r"))
    await started.wait()
    assert await g.cancel("r", store=store, by="ada")
    result: RunResult[Any] = await task
    assert result.stop is StopReason.CANCELLED
    assert cut.is_set()
    events = await g.events("r", store=store)
    closed = {e.run_id for e in events if e.type == "run.cancelled"}
    assert closed == {"r", "r/run/1"}
    assert not await g.cancel("r", store=store)


async def test_cancel_of_a_root_whose_child_waits() -> None:
    """A paused tree is closed too, and its question is open no more."""
    g = above(drafting(Counter()))
    store = MemoryStore()
    first = await g.run({}, store=store, run_id="r")
    assert await g.cancel("r", store=store)
    result = await g.resume("r", store=store)
    assert result.stop is StopReason.CANCELLED
    assert result.interrupts == ()
    with pytest.raises(UnknownInterrupt):
        await g.resume("r", answers={first.interrupts[0].id: 1}, store=store)
    closed = {e.run_id for e in await g.events("r", store=store) if e.type == "run.cancelled"}
    assert closed == {"r", "r/run/1"}


async def test_a_loser_of_a_split_that_is_a_child() -> None:
    """When a branch with a child that waits loses, the run completes and the child is closed."""
    asked = asyncio.Event()
    child: Graph[Any] = Graph("child")

    async def asks(state: State, ctx: Any) -> Any:
        asked.set()
        return await ctx.interrupt("?")

    child.add_step("asks", asks, then=END)

    async def fast(state: State) -> dict[str, Any]:
        await asked.wait()
        return {"fast": 1}

    g: Graph[Any] = Graph("parent", "split")
    g.add_step("split", lambda state: None, then=["slow", "fast"])
    g.add_step("slow", child.as_step(), then="meet")
    g.add_step("fast", fast, then="meet")
    g.add_step("meet", lambda state: None, then=END, join="any")
    store = MemoryStore()
    result = await g.run({}, store=store, run_id="r")
    assert result.stop is StopReason.COMPLETED
    assert result.state == {"fast": 1}
    assert result.interrupts == ()
    events = await g.events("r", store=store)
    closed = [e.run_id for e in events if e.type in ("run.cancelled", "run.completed")]
    assert sorted(closed) == ["r", "r/split.0/slow/1"]


async def test_a_fork_at_the_pause_of_a_child() -> None:
    """A fork asks again under another id, in a child of its own; the source still waits."""
    runs: Counter[str] = Counter()
    g = above(drafting(runs))
    store = MemoryStore()
    first = await g.run({}, store=store, run_id="r")
    last = (await g.events("r", store=store))[-1].seq
    fork = await g.fork("r", at=last, store=store, new_run_id="f")
    assert fork.yielded
    assert fork.parent == ("r", last)
    (ask,) = fork.interrupts
    assert ask.id != first.interrupts[0].id
    assert ask.run_id == "f/run/1"
    result = await g.resume("f", answers={ask.id: "forked"}, store=store)
    assert result.state["output"] == "text forked"
    assert runs["draft"] == 1
    source = await g.resume("r", answers={first.interrupts[0].id: "source"}, store=store)
    assert source.state["output"] == "text source"


# -- hand-off -------------------------------------------------------------------------------------


async def test_a_handoff_gives_the_messages_and_few_keys() -> None:
    """The other graph begins with the messages, compressed, and the keys that there are."""
    seen: list[Any] = []

    def work(state: State) -> dict[str, Any]:
        seen.append(dict(state))
        return {"output": "done", "private": 1}

    g: Graph[Any] = Graph("front", merge={"messages": append})
    step = handoff(alone("expert", work), compress=lambda messages: messages[-1:])
    g.add_step("hand", step, then=END)
    hi, help_me = Message("user", "hi"), Message("user", "help")
    result = await g.run({"messages": [hi, help_me], "user_id": "u", "other": 1})
    assert seen == [{"messages": [help_me], "user_id": "u"}]
    assert result.state == {
        "messages": [hi, help_me],
        "user_id": "u",
        "other": 1,
        "output": "done",
        "handoff_to": "expert",
    }


async def test_w48_a_handoff_that_pauses_is_resumed() -> None:
    """The target goes on, in the same run, and is not begun anew."""
    runs: Counter[str] = Counter()
    g: Graph[Any] = Graph("front")
    g.add_step("hand", handoff(drafting(runs)), then=END)
    store = MemoryStore()
    first = await g.run({"messages": []}, store=store, run_id="r")
    assert first.interrupts[0].run_id == "r/hand/1"
    result = await g.resume("r", answers={first.interrupts[0].id: "ok"}, store=store)
    assert result.state == {"messages": [], "output": "text ok", "handoff_to": "writer"}
    assert runs["draft"] == 1
    started = [e.run_id for e in await g.events("r", store=store) if e.type == "run.started"]
    assert started == ["r", "r/hand/1"]


async def test_tl13_agents_with_a_human_between() -> None:
    """a, then a review by a human, then b: each a graph of its own."""
    a = alone("a", lambda state: {"output": "from a"})
    review: Graph[Any] = Graph("review")
    review.add_step("ask", ask_human("approve?", response="decision", into="decided"), then=END)
    b = alone("b", lambda state: {"output": f"{state['output']}, then b"})
    g: Graph[Any] = Graph("flow", "a")
    g.add_step("a", a.as_step(), then="review")
    g.add_step("review", review.as_step(), then=branch("decided", {"approve": "b", "reject": "a"}))
    g.add_step("b", b.as_step(), then=END)
    store = MemoryStore()
    first = await g.run({}, store=store, run_id="r")
    assert first.yielded
    assert first.state["output"] == "from a"
    result = await g.resume("r", {"decision": "approve"}, store=store)
    assert result.state["output"] == "from a, then b"


async def test_tl13_a_rejection_asks_again_after_more_work() -> None:
    """The review of a second round is another run, which asks its own question."""
    runs: Counter[str] = Counter()

    def work(state: State) -> dict[str, Any]:
        runs["a"] += 1
        return {"output": f"a{runs['a']}"}

    review: Graph[Any] = Graph("review")
    review.add_step("ask", ask_human("approve?", response="decision", into="decided"), then=END)
    g: Graph[Any] = Graph("flow", "a")
    g.add_step("a", alone("a", work).as_step(), then="review")
    routes = {"approve": END, "reject": "a"}
    g.add_step("review", review.as_step(outputs=["decided"]), then=branch("decided", routes))
    store = MemoryStore()
    first = await g.run({}, store=store, run_id="r")
    second = await g.resume("r", answers={first.interrupts[0].id: "reject"}, store=store)
    assert second.yielded
    assert second.interrupts[0].run_id == "r/review/2"
    result = await g.resume("r", answers={second.interrupts[0].id: "approve"}, store=store)
    assert result.stop is StopReason.COMPLETED
    assert result.state["output"] == "a2"


async def test_an_ask_of_a_child_that_puts_its_answer_in_its_state() -> None:
    """`into` is in the child's state, and comes back with what it changed."""
    child = alone("child", lambda state: Ask("who?", phase="after", into="who"))
    g = above(child)
    store = MemoryStore()
    first = await g.run({}, store=store, run_id="r")
    result = await g.resume("r", answers={first.interrupts[0].id: "Ada"}, store=store)
    assert result.state == {"who": "Ada"}


async def test_what_is_no_mapping_is_told() -> None:
    """What `outputs` or `on_yield` gives, and is no mapping, fails the step in plain words."""
    wrong: Any = lambda given: 5  # noqa: E731
    child = alone("child", lambda state: Ask("who?"))
    plain = alone("child", lambda state: None)
    for step in (subgraph(child, on_yield=wrong), subgraph(plain, outputs=wrong)):
        g = Graph[Any]("above").add_step("sub", step)
        with pytest.raises(RunError, match="the graph child as a step gave a value of type int"):
            await g.run({})


async def test_a_graph_that_calls_itself_for_ever_is_told() -> None:
    """Its depth is bounded before the stack of the interpreter is, and the error says so."""
    g: Graph[Any] = Graph("endless")
    g.add_step("again", g.as_step(), then=END)
    result = await g.run(raise_on_error=False)
    assert result.stop is StopReason.ERROR
    assert "50 is the most" in str(result.error)
