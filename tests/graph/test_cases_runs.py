"""One run of a graph: where it goes, how it ends, and what is told of every kind of end."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, TypedDict

import pytest

from loom_ia.graph import (
    END,
    Ask,
    Blocked,
    BudgetExhausted,
    Cache,
    CheckpointFailed,
    DuplicateStep,
    Durability,
    Goto,
    Graph,
    Interrupt,
    InvalidGraph,
    LoomError,
    MaxIterationsExceeded,
    MemoryStore,
    MergeError,
    NotResumable,
    NotSerializable,
    Refused,
    ReservedKey,
    Retry,
    RouteError,
    RunError,
    RunExists,
    RunTimeout,
    StepBudget,
    StepContext,
    StepFailed,
    StepNotFound,
    StopReason,
    Usage,
    add,
    append,
    branch,
    branch_by,
    condition,
    cost_budget,
    overwrite,
    token_budget,
)

State = Mapping[str, Any]
Step = Callable[..., Any]


async def last(g: Graph[Any], store: Any) -> int:
    """Give the place of the last event of the run."""
    return (await g.events("r", store=store))[-1].seq


def adds(key: str = "n", by: int = 1) -> Step:
    """Make a step that counts."""
    return lambda s: {key: s.get(key, 0) + by}


def puts(**delta: Any) -> Step:
    """Make a step that gives a delta."""
    return lambda s: delta


def visits(name: str) -> Step:
    """Make a step that says where it was."""
    return lambda s: {"seen": [name]}


def fails(error: BaseException | None = None) -> Step:
    """Make a step that raises."""

    def step(s: State) -> None:
        raise error or ValueError("bad weather")

    return step


def chain(*names: str, name: str = "chain", **options: Any) -> Graph[Any]:
    """Make a graph of steps that say where they were, one after the other."""
    g: Graph[Any] = Graph(name, merge={"seen": append}, **options)
    for index, step in enumerate(names):
        g.add_step(step, visits(step), names[index + 1] if index + 1 < len(names) else END)
    return g


def loop(**options: Any) -> Graph[Any]:
    """Make a graph that never ends by itself."""
    g: Graph[Any] = Graph("loop", **options)
    g.add_step("spin", adds(), "spin")
    return g


# -- state and merge, in a run ------------------------------------------------------------------


async def test_st01_a_key_without_a_merge_is_overwritten() -> None:
    """The new value stands, what the step did not name is kept, a new key is added."""
    g: Graph[Any] = Graph("g").add_step("s", puts(a="new", c="added"))
    assert (await g.run({"a": "old", "b": "keep"})).state == {
        "a": "new",
        "b": "keep",
        "c": "added",
    }


@pytest.mark.parametrize(
    ("before", "given", "after"), [(10, 5, 15), (0.5, 0.25, 0.75), (10, -3, 7)]
)
async def test_st03_st04_numbers_are_added(before: Any, given: Any, after: Any) -> None:
    """Whole numbers stay whole."""
    g: Graph[Any] = Graph("g", merge={"n": add}).add_step("s", puts(n=given))
    total = (await g.run({"n": before})).state["n"]
    assert total == after
    assert type(total) is type(after)


async def test_st06_nothing_is_needed_to_merge() -> None:
    """A graph without any merge, run without any input, gives what its step gave."""
    g: Graph[Any] = Graph("g").add_step("s", puts(a="new"))
    assert (await g.run()).state == {"a": "new"}


async def test_st07_a_merge_of_the_user() -> None:
    """It is given what stands and what comes."""

    def top(existing: Any, incoming: Any) -> Any:
        return max(existing, incoming)

    g: Graph[Any] = Graph("g", merge={"n": top})
    g.add_step("low", puts(n=80), "high").add_step("high", puts(n=150, m=1))
    g.add_step("last", puts(n=1))
    seen: list[int] = []
    g.after(lambda step, s: seen.append(s["n"]))
    await g.run({"n": 100})
    assert seen == [100, 150]


async def test_st09_w52_the_callers_input_is_never_changed() -> None:
    """Neither the mapping nor what it holds; and the result shares nothing with it."""
    given = {"items": [1, {"x": 2}], "n": 1}

    def step(s: State) -> dict[str, Any]:
        s["items"].append(9)
        s["items"][1]["x"] = 9
        return {"n": 2}

    g: Graph[Any] = Graph("g").add_step("s", step)
    result = await g.run(given)
    assert given == {"items": [1, {"x": 2}], "n": 1}
    assert result.state == {"items": [1, {"x": 2}], "n": 2}
    result.state["items"].append("mine")
    assert given["items"] == [1, {"x": 2}]


async def test_w55_a_key_is_deleted() -> None:
    """DELETE as a value removes the key, and of one that is not there does nothing."""
    from loom_ia.graph import DELETE

    g: Graph[Any] = Graph("g", merge={"l": append})
    g.add_step("s", puts(a=DELETE, l=DELETE, absent=DELETE))
    assert (await g.run({"a": 1, "b": 2, "l": [1]})).state == {"b": 2}


# -- routers ------------------------------------------------------------------------------------


def routed(router: Any, **options: Any) -> Graph[Any]:
    """Make a graph with one decision and four ways to go."""
    g: Graph[Any] = Graph("routed").add_step("start", lambda s: None, router, **options)
    for name in ("a", "b", "c", "d"):
        g.add_step(name, puts(went=name))
    return g


@pytest.mark.parametrize(
    ("router", "given", "went"),
    [
        ("a", {}, "a"),
        (branch("k", {"yes": "a", "no": "b"}), {"k": "yes"}, "a"),
        (branch("k", {"yes": "a"}, default="c"), {"k": "maybe"}, "c"),
        (branch("k", {"42": "d"}), {"k": 42}, "d"),
        (branch("k", {42: "a", "42": "d"}), {"k": 42}, "a"),
        (branch("k", {"true": "b"}), {"k": True}, "b"),
        (branch("k", {"10000000": "a", "1e+07": "b"}), {"k": 10_000_000}, "a"),
        (condition(lambda s: s["k"] >= 0.7, "a", "b"), {"k": 0.8}, "a"),
        (condition(lambda s: s["k"] >= 0.7, "a", "b"), {"k": 0.6}, "b"),
        (branch_by(lambda s: s["k"] > 5, {True: "a", False: "b"}), {"k": 10}, "a"),
        (branch_by(lambda s: s["k"] > 5, {True: "a", False: "b"}), {"k": 2}, "b"),
        (lambda s: "c", {}, "c"),
        (lambda s: "", {}, None),
        (lambda s: END, {}, None),
        (branch("k", {"x": END}, default="a"), {"k": "x"}, None),
    ],
    ids=map(str, range(15)),
)
async def test_rt_a_router_says_where_to_go(router: Any, given: State, went: str | None) -> None:
    """Whatever its kind, the step that it names is run next."""
    result = await routed(router).run(given)
    assert result.state.get("went") == went
    assert result.steps == (1 if went is None else 2)
    assert result.last_step == (went or "start")


async def test_w53_a_missing_key_is_not_an_empty_text() -> None:
    """Each may have a route of its own."""
    from loom_ia.graph import MISSING

    router = branch("k", {MISSING: "a", "": "b"}, default="c")
    assert (await routed(router).run({})).state["went"] == "a"
    assert (await routed(router).run({"k": ""})).state["went"] == "b"
    assert (await routed(router).run({"k": None})).state["went"] == "c"


async def test_an_async_router() -> None:
    """It is awaited."""

    async def router(s: State) -> str:
        await asyncio.sleep(0)
        return "d"

    assert (await routed(router).run()).state["went"] == "d"


def _raises(s: State) -> str:
    raise KeyError("k")


@pytest.mark.parametrize(
    ("router", "cause"),
    [
        (lambda s: None, None),
        (lambda s: 3, None),
        (_raises, KeyError),
        (branch("k", {"x": "a"}), None),
    ],
    ids=["none", "number", "raises", "no match"],
)
async def test_a_router_that_gives_no_target(router: Any, cause: type | None) -> None:
    """The run stops after the step that ran, whose delta is kept."""
    g = routed(router).add_step("start", puts(done=1), router, replace=True)
    with pytest.raises(RouteError) as caught:
        await g.run({"k": "unknown"})
    error = caught.value
    assert error.step == "start"
    assert error.graph == "routed"
    assert error.run_id == error.result.run_id
    if cause is not None:
        assert isinstance(error.__cause__, cause)
    result = error.result
    assert result.stop is StopReason.ERROR
    assert (result.last_step, result.steps, result.total_steps) == ("start", 1, 1)
    assert result.state["done"] == 1


async def test_an_unknown_target_is_found_when_it_is_named() -> None:
    """`.step` is the name that nobody has; the step that ran is the last one, and nothing more."""
    with pytest.raises(StepNotFound) as caught:
        await routed(lambda s: "nowhere").run()
    error = caught.value
    assert error.step == "nowhere"
    assert "nowhere" in str(error)
    assert "not found" in str(error)
    assert error.result.last_step == "start"
    assert error.result.stop is StopReason.ERROR
    assert error.result.steps == error.result.total_steps == 1


# -- runs ---------------------------------------------------------------------------------------


async def test_gr01_one_step_then_the_end() -> None:
    """Its output is in the state, and every field of the result is told."""
    g: Graph[Any] = Graph("greeter", "greet")

    @g.step(then=END)
    async def greet(state: State) -> dict[str, Any]:
        return {"output": f"Hello, {state['name']}!"}

    assert await greet({"name": "you"}) == {"output": "Hello, you!"}
    result = await g.run({"name": "World"}, run_id="r1")
    assert result.state == {"name": "World", "output": "Hello, World!"}
    assert type(result.state) is dict
    assert (result.run_id, result.graph) == ("r1", "greeter")
    assert result.stop is StopReason.COMPLETED
    assert result.stop == "completed"
    assert (result.last_step, result.steps, result.total_steps) == ("greet", 1, 1)
    assert result.interrupts == ()
    assert result.error is result.failed_step is result.blocked is None
    assert result.usage is result.budget_left is result.parent is None
    assert not result.yielded


async def test_gr03_a_branch_on_what_a_step_wrote() -> None:
    """The router sees the merged state."""
    g: Graph[Any] = Graph("g")
    g.add_step("check", puts(status="pass"), branch("status", {"pass": "success", "fail": "sad"}))
    g.add_step("success", puts(ok=True)).add_step("sad", puts(ok=False))
    result = await g.run()
    assert result.state["ok"] is True
    assert result.last_step == "success"


async def test_gr04_a_loop_with_an_exit() -> None:
    """Each turn is a step."""
    g: Graph[Any] = Graph("g")
    g.add_step("count", adds(), condition(lambda s: s["n"] >= 3, END, "count"))
    result = await g.run({"n": 0})
    assert (result.state["n"], result.steps, result.total_steps) == (3, 3, 3)


@pytest.mark.parametrize("entry", ["nowhere", None])
async def test_gr06_no_such_entry(entry: str | None) -> None:
    """The graph is refused before anything is written; `.problems` has all that is wrong."""
    store = MemoryStore()
    g: Graph[Any] = Graph("g", entry)
    if entry:
        g.add_step("a", puts())
    with pytest.raises(StepNotFound, match="not found" if entry else "step") as caught:
        await g.run({}, store=store, run_id="r1")
    assert caught.value.step == entry
    assert caught.value.result is None
    assert "missing_entry" in {p.code for p in caught.value.problems}
    g2: Graph[Any] = Graph("g").add_step("a", puts())
    assert (await g2.run({}, store=store, run_id="r1")).stop == "completed"


async def test_gr07_a_step_that_raises() -> None:
    """What ran before is kept, what comes after does not run, and the exception is the cause."""
    boom = ValueError("bad weather")
    g = chain("a", "b", "c")
    g.add_step("b", fails(boom), "c", replace=True)
    with pytest.raises(StepFailed) as caught:
        await g.run(run_id="r1")
    error = caught.value
    assert isinstance(error, LoomError)
    assert error.__cause__ is boom
    assert (error.step, error.graph, error.run_id) == ("b", "chain", "r1")
    assert "bad weather" in str(error)
    assert "b" in str(error)
    result = error.result
    assert result.stop is StopReason.ERROR
    assert (result.failed_step, result.last_step) == ("b", "b")
    assert (result.steps, result.total_steps) == (2, 2)
    assert result.state == {"seen": ["a"]}
    assert result.error is error


async def test_w22_nothing_of_a_failure_is_in_the_state() -> None:
    """Errors are facts of the journal, and fields of the result; after a success they are gone."""
    store, healthy = MemoryStore(), False

    def step(s: State) -> dict[str, Any]:
        if not healthy:
            raise ValueError("not yet")
        return {"ok": True}

    g: Graph[Any] = Graph("g").add_step("s", step)
    failed = await g.run({"x": 1}, store=store, run_id="r", raise_on_error=False)
    assert failed.state == {"x": 1}
    assert isinstance(failed.error, StepFailed)
    healthy = True
    again = await g.resume("r", store=store)
    assert again.state == {"x": 1, "ok": True}
    assert again.error is again.failed_step is None


async def test_raise_on_error_false_gives_the_same_exception() -> None:
    """It is in the result, with the same result in it, and nothing is raised."""
    result = await chain("a").add_step("a", fails(), replace=True).run(raise_on_error=False)
    assert isinstance(result.error, StepFailed)
    assert result.error.result.run_id == result.run_id
    assert result.stop is StopReason.ERROR


@pytest.mark.parametrize("bad", ["", "a/b", 3, b"r"])
async def test_a_run_id_is_a_text_without_a_slash(bad: Any) -> None:
    """Anything else is refused at the call."""
    with pytest.raises(ValueError, match="run_id"):
        await chain("a").run(run_id=bad)


async def test_gr09_a_run_id_in_the_input_is_never_trusted() -> None:
    """In compatibility a text is the run id, and anything else there is dropped."""
    g = chain("a", compat=True)
    assert (await g.run({"__run_id": "mine"})).run_id == "mine"
    for other in (42, None, "", ["x"]):
        result = await g.run({"__run_id": other, "__yield": True, "__yield_phase": "mid_step"})
        assert isinstance(result.run_id, str)
        assert result.run_id not in ("", "42")
        assert result.state == {"seen": ["a"]}
    given = {"__run_id": "kept"}
    await g.run(given)
    assert given == {"__run_id": "kept"}


async def test_a_run_id_is_used_once() -> None:
    """A second run under one id is refused, and nothing of the first is changed."""
    store = MemoryStore()
    g = chain("a", "b")
    await g.run(store=store, run_id="r1")
    before = await g.events("r1", store=store)
    with pytest.raises(RunExists):
        await g.run(store=store, run_id="r1")
    assert await g.events("r1", store=store) == before


async def test_run_ids_of_their_own_are_different() -> None:
    """Two runs without an id never meet."""
    store, g = MemoryStore(), chain("a")
    first, second = await g.run(store=store), await g.run(store=store)
    assert first.run_id != second.run_id


async def test_gr15_a_cancelled_task_ends_at_once() -> None:
    """The cancellation surfaces in the task, and the run can be gone on with."""
    store, began, runs = MemoryStore(), asyncio.Event(), list[int]()

    async def slow(s: State) -> dict[str, Any]:
        runs.append(1)
        if len(runs) == 1:
            began.set()
            await asyncio.Event().wait()
        return {"slow": True}

    g: Graph[Any] = Graph("g").add_step("a", adds(), "slow").add_step("slow", slow)
    task = asyncio.create_task(g.run(store=store, run_id="r"))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    result = await g.resume("r", store=store)
    assert result.state == {"n": 1, "slow": True}
    assert (result.steps, result.total_steps) == (1, 2)


async def test_gr16_a_child_is_charged_to_the_budget_above() -> None:
    """A child that loops for ever stops its parent, whose result is told."""
    g: Graph[Any] = Graph("parent", step_budget=10)
    g.add_step("child", loop().as_step())
    with pytest.raises(BudgetExhausted, match="budget") as caught:
        await g.run()
    assert caught.value.graph == "parent"
    assert caught.value.result.graph == "parent"
    assert caught.value.result.stop is StopReason.BUDGET
    assert caught.value.result.budget_left == 0


# -- how a run stops ----------------------------------------------------------------------------


async def test_sr01_completed() -> None:
    """A run that comes to its end is completed."""
    assert (await chain("a", "b").run()).stop is StopReason.COMPLETED


async def test_sr03_w61_too_many_steps() -> None:
    """The step after the last allowed one is not started, and steps tells what really ran."""
    with pytest.raises(MaxIterationsExceeded, match="max iterations") as caught:
        await loop(max_iterations=3).run()
    result = caught.value.result
    assert result.stop is StopReason.MAX_ITERATIONS
    assert result.stop == "max_iter"
    assert (result.steps, result.total_steps, result.state) == (3, 3, {"n": 3})
    assert result.last_step == "spin"
    assert caught.value.step == "spin"
    assert result.failed_step is None


async def test_exactly_as_many_steps_as_allowed() -> None:
    """A graph that ends on the last one is completed."""
    assert (await chain("a", "b", "c", max_iterations=3).run()).stop is StopReason.COMPLETED


async def test_sr04_error() -> None:
    """A step that raises is an error."""
    g: Graph[Any] = Graph("g").add_step("a", fails())
    assert (await g.run(raise_on_error=False)).stop is StopReason.ERROR


async def test_sr06_budget() -> None:
    """The budget is looked at after the iterations, and the smaller one stops the run."""
    with pytest.raises(BudgetExhausted, match="step budget") as caught:
        await loop(step_budget=3, max_iterations=100).run()
    result = caught.value.result
    assert result.stop is StopReason.BUDGET
    assert (result.steps, result.total_steps, result.budget_left) == (3, 3, 0)
    with pytest.raises(MaxIterationsExceeded):
        await loop(step_budget=3, max_iterations=3).run()


async def test_a_budget_of_nothing() -> None:
    """No step is started, none is charged, and there is no last step."""
    with pytest.raises(BudgetExhausted) as caught:
        await loop(step_budget=0).run({"n": 5})
    result = caught.value.result
    assert (result.last_step, result.steps, result.total_steps) == (None, 0, 0)
    assert result.state == {"n": 5}


async def test_budget_left_is_told_on_every_end() -> None:
    """Whatever stops the run, what is left of its steps is in the result."""
    assert (await chain("a", "b", step_budget=5).run()).budget_left == 3
    g = chain("a", "b", step_budget=5).add_step("b", fails(), replace=True)
    assert (await g.run(raise_on_error=False)).budget_left == 3
    asks = chain("a", step_budget=5).add_step("a", lambda s: Ask("?"), replace=True)
    assert (await asks.run(allow_unresumable=True)).budget_left == 4


async def test_w20_a_refusal_of_a_step() -> None:
    """It is told apart from an error, and its partial delta is kept."""
    g: Graph[Any] = Graph("g").add_step("a", fails(Refused("no entry", update={"why": "rules"})))
    with pytest.raises(Blocked) as caught:
        await g.run()
    error = caught.value
    assert error.reason == "no entry"
    assert isinstance(error.__cause__, Refused)
    assert error.step == "a"
    result = error.result
    assert (result.stop, result.blocked, result.failed_step) == (
        StopReason.BLOCKED,
        "no entry",
        "a",
    )
    assert result.state == {"why": "rules"}
    assert (result.last_step, result.steps) == ("a", 1)


async def test_a_refusal_whose_update_cannot_be_written_fails_its_step() -> None:
    """What a refusal would write is a delta like another: its fault ends the run with a result."""
    wrong: list[tuple[Any, type[RunError]]] = [
        ({"__x": 1}, ReservedKey),
        ({"x": float("nan")}, NotSerializable),
        (5, StepFailed),
    ]
    for update, kind in wrong:
        store = MemoryStore()
        g: Graph[Any] = Graph("g").add_step("a", fails(Refused("no", update=update)))
        with pytest.raises(kind) as caught:
            await g.run(store=store, run_id="r")
        assert caught.value.result.failed_step == "a"
        assert (await g.events("r", store=store))[-1].type == "run.failed"


async def test_a_run_that_takes_too_long() -> None:
    """The step is cut, the run stops by its own limit, and a resume has time again."""
    store, cut = MemoryStore(), list[bool]()

    async def slow(s: State) -> dict[str, Any]:
        if not cut:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cut.append(True)
                raise
        return {"slow": True}

    g: Graph[Any] = Graph("g", timeout=0.2).add_step("a", adds(), "slow").add_step("slow", slow)
    with pytest.raises(RunTimeout) as caught:
        await g.run(store=store, run_id="r")
    assert cut == [True]
    result = caught.value.result
    assert result.stop is StopReason.TIMEOUT
    assert (result.last_step, result.steps, result.state) == ("slow", 2, {"n": 1})
    again = await g.resume("r", store=store)
    assert again.state == {"n": 1, "slow": True}
    assert (again.steps, again.total_steps) == (1, 2)


async def test_w57_steps_that_never_wait_can_be_cancelled() -> None:
    """Between two steps the loop of events turns, so that a cancellation is felt there."""
    g = loop(max_iterations=10_000)
    task = asyncio.create_task(g.run())
    for _ in range(40):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_cancel_returns_a_result() -> None:
    """The step that runs is cut, `run` returns and does not raise, and a resume says the same."""
    store, began = MemoryStore(), asyncio.Event()

    async def slow(s: State) -> None:
        began.set()
        await asyncio.Event().wait()

    g: Graph[Any] = Graph("g").add_step("a", adds(), "slow").add_step("slow", slow)
    task = asyncio.create_task(g.run(store=store, run_id="r"))
    await began.wait()
    assert await g.cancel("r", store=store, by="ann") is True
    result = await task
    assert result.stop is StopReason.CANCELLED
    assert result.error is None
    assert (result.last_step, result.steps, result.total_steps) == ("slow", 2, 2)
    assert await g.cancel("r", store=store) is False
    again = await g.resume("r", {"x": 1}, store=store)
    assert (again.stop, again.steps, again.state) == (StopReason.CANCELLED, 0, {"n": 1})


async def test_w58_the_failure_is_written_though_the_task_is_cancelled() -> None:
    """What ended before the cancellation is in the journal."""
    store = MemoryStore()
    g: Graph[Any] = Graph("g").add_step("a", adds(), "b")

    async def b(s: State) -> None:
        loop_task.cancel()
        await asyncio.Event().wait()

    g.add_step("b", b)
    loop_task = asyncio.create_task(g.run(store=store, run_id="r"))
    with pytest.raises(asyncio.CancelledError):
        await loop_task
    assert [c.step for c in await g.history("r", store=store)] == ["a"]
    assert (await g.state_at("r", await last(g, store), store=store)) == {"n": 1}


@pytest.mark.parametrize("where", ["step", "router", "hook"])
async def test_w59_whatever_is_raised_ends_one_run_only(where: str) -> None:
    """An exception of user code becomes the cause of a typed one, and the process lives on."""
    boom = RuntimeError("boom")

    def bad(*_: Any) -> Any:
        raise boom

    g: Graph[Any] = Graph("g")
    g.add_step("a", bad if where == "step" else adds(), bad if where == "router" else END)
    if where == "hook":
        g.before(bad)
    result = await g.run(raise_on_error=False)
    assert result.error is not None
    assert result.error.__cause__ is boom
    assert boom.__traceback__ is not None


async def test_w59_a_step_that_raises_a_cancellation_of_its_own() -> None:
    """A CancelledError that nobody asked for is a failure of the step."""

    async def odd(s: State) -> None:
        raise asyncio.CancelledError

    g: Graph[Any] = Graph("g").add_step("a", odd)
    with pytest.raises(StepFailed) as caught:
        await g.run()
    assert isinstance(caught.value.__cause__, asyncio.CancelledError)


async def test_w24_nothing_for_an_input_and_no_store() -> None:
    """Both are fine; what is no input is refused with a typed error, before anything."""
    assert (await chain("a").run(None, store=None)).state == {"seen": ["a"]}
    with pytest.raises(LoomError):
        await chain("a").run([1, 2])


# -- what may enter the state -------------------------------------------------------------------


@pytest.mark.parametrize("store", [None, MemoryStore()], ids=["no store", "store"])
async def test_w60_what_cannot_be_kept_is_refused_where_it_was_written(store: Any) -> None:
    """With or without a store, at the step that wrote it, with its place."""
    g: Graph[Any] = Graph("g").add_step("a", adds(), "b")
    g.add_step("b", puts(scores=[1, {"value": float("nan")}]), "c").add_step("c", adds())
    with pytest.raises(NotSerializable) as caught:
        await g.run(store=store)
    error = caught.value
    assert error.key_path == "scores[1].value"
    assert error.step == "b"
    assert "scores[1].value" in str(error)
    assert error.result.state == {"n": 1}
    assert (error.result.failed_step, error.result.steps) == ("b", 2)
    assert error.result.stop is StopReason.ERROR


async def test_w60_the_same_in_an_input() -> None:
    """Nothing is written and there is no result."""
    store, g = MemoryStore(), chain("a")
    with pytest.raises(NotSerializable) as caught:
        await g.run({"x": {"y": [object()]}}, store=store, run_id="r")
    assert caught.value.key_path == "x.y[0]"
    assert caught.value.result is None
    assert (caught.value.run_id, caught.value.graph) == ("r", "chain")
    assert (await g.run(store=store, run_id="r")).stop == "completed"


async def test_w16_a_value_that_a_merge_does_not_take() -> None:
    """It never counts as empty: the step fails, with the key."""
    g: Graph[Any] = Graph("g", merge={"l": append}).add_step("a", puts(l="text"))
    with pytest.raises(MergeError) as caught:
        await g.run({"l": [1]})
    assert (caught.value.key, caught.value.step) == ("l", "a")
    assert caught.value.result.state == {"l": [1]}
    with pytest.raises(MergeError) as entry:
        await g.run({"l": 3})
    assert (entry.value.key, entry.value.result) == ("l", None)


@pytest.mark.parametrize("key", ["__run_id", "__yield", "__mine"])
async def test_w54_reserved_keys_are_refused(key: str) -> None:
    """In an input, in a delta, in an update, whatever they hold."""
    store = MemoryStore()
    with pytest.raises(ReservedKey) as caught:
        await chain("a").run({key: "x"}, store=store)
    assert (caught.value.key, caught.value.result) == (key, None)
    for given in ({key: True}, Ask(update={key: 1}), Goto("a", update={key: 1})):
        g: Graph[Any] = Graph("g").add_step("a", lambda s, given=given: given)
        with pytest.raises(ReservedKey) as inside:
            await g.run(store=store)
        assert (inside.value.key, inside.value.step) == (key, "a")
        assert inside.value.result.failed_step == "a"


async def test_w54_an_input_cannot_touch_another_run() -> None:
    """A run id is a parameter: a key of an input reaches nothing."""
    store, g = MemoryStore(), chain("a")
    await g.run(store=store, run_id="victim")
    with pytest.raises(ReservedKey):
        await g.run({"__run_id": "victim"}, store=store)
    assert (await g.resume("victim", store=store)).state == {"seen": ["a"]}


async def test_a_step_that_gives_what_is_no_delta() -> None:
    """A list or a text is no delta: the step fails and names what came."""
    for given in (["a"], "text", 3):
        g: Graph[Any] = Graph("g").add_step("a", lambda s, given=given: given)
        with pytest.raises(StepFailed) as caught:
            await g.run()
        assert type(given).__name__ in str(caught.value)


# -- views --------------------------------------------------------------------------------------


async def test_w19_w63_nobody_changes_the_state_but_by_a_delta() -> None:
    """Steps, routers and hooks see a mapping that cannot be changed, with copies in it."""
    tried: list[str] = []

    def spoil(who: str, s: Any) -> None:
        with pytest.raises(TypeError):
            s["n"] = 99
        with pytest.raises((TypeError, AttributeError)):
            del s["n"]
        s["items"].append(who)
        s["deep"]["x"] = who
        tried.append(who)

    def step(s: State) -> dict[str, Any]:
        spoil("step", s)
        return {"ok": True}

    def router(s: State) -> str:
        spoil("router", s)
        return ""

    g: Graph[Any] = Graph("g").add_step("a", step, router)
    g.before(lambda name, s: spoil("before", s))
    g.after(lambda name, s: spoil("after", s))
    result = await g.run({"n": 1, "items": [], "deep": {"x": 0}})
    assert result.state == {"n": 1, "items": [], "deep": {"x": 0}, "ok": True}
    assert tried == ["before", "step", "after", "router"]


async def test_w19_a_mutation_before_a_failure_is_lost() -> None:
    """Only a delta counts."""

    def step(s: State) -> None:
        s["items"].append("leaked")
        raise ValueError

    g: Graph[Any] = Graph("g").add_step("a", step)
    result = await g.run({"items": []}, raise_on_error=False)
    assert result.state == {"items": []}


# -- building -----------------------------------------------------------------------------------


async def test_w49_a_step_added_twice() -> None:
    """Refused, or replaced altogether, its router included."""
    g = chain("a", "b", "c")
    with pytest.raises(DuplicateStep):
        g.add_step("a", visits("A"))
    g.add_step("a", visits("A"), replace=True)
    assert (await g.run()).state == {"seen": ["A"]}


async def test_w50_a_graph_that_cannot_run_is_refused_before_anything() -> None:
    """No step runs and nothing is written, whatever comes before the mistake."""
    ran: list[str] = []
    store = MemoryStore()
    g: Graph[Any] = Graph("g").add_step("a", lambda s: ran.append("a"), "b")
    g.add_step("b", puts(), branch("k", {"x": "nowhere"}, default=END))
    with pytest.raises(StepNotFound) as caught:
        await g.run({"k": "y"}, store=store, run_id="r")
    assert caught.value.step == "nowhere"
    assert caught.value.result is None
    assert [p.code for p in caught.value.problems if p.severity == "error"] == ["unknown_target"]
    assert ran == []
    assert await store.list("checkpoint:g") == []
    split: Graph[Any] = Graph("g").add_step("a", puts(), ["b", "c"])
    split.add_step("b", puts(), "d").add_step("c", puts(), "d").add_step("d", puts())
    with pytest.raises(InvalidGraph) as refused:
        await split.run()
    assert "missing_join" in {p.code for p in refused.value.problems}
    assert isinstance(refused.value, ValueError)


# -- routes chosen inside -----------------------------------------------------------------------


async def test_goto_goes_over_the_router() -> None:
    """Its update is merged, and the router of the step is not asked."""
    asked: list[int] = []

    def router(s: State) -> str:
        asked.append(1)
        return "b"

    g: Graph[Any] = Graph("g").add_step("a", lambda s: Goto("c", update={"x": 1}), router)
    g.add_step("b", puts(went="b")).add_step("c", puts(went="c"))
    assert (await g.run()).state == {"x": 1, "went": "c"}
    assert asked == []
    g.add_step("a", lambda s: Goto(END), router, replace=True)
    assert (await g.run()).state == {}
    g.add_step("a", lambda s: Goto("nowhere"), router, replace=True)
    with pytest.raises(StepNotFound) as caught:
        await g.run()
    assert caught.value.step == "nowhere"


async def test_goto_several_steps() -> None:
    """They are branches, which meet where they join."""
    g: Graph[Any] = Graph("g", merge={"seen": append})
    g.add_step("a", lambda s: Goto(["b", "c"]), targets=["b", "c"])
    g.add_step("b", visits("b"), "d").add_step("c", visits("c"), "d")
    g.add_step("d", visits("d"), join="all")
    assert (await g.run()).state == {"seen": ["b", "c", "d"]}


# -- steps, sync and async ----------------------------------------------------------------------


async def test_a_sync_step_runs_in_a_thread() -> None:
    """It does not hold the loop of events."""
    import threading

    here, released = threading.get_ident(), threading.Event()
    where: list[int] = []
    loop, began = asyncio.get_running_loop(), asyncio.Event()

    def step(s: State) -> None:
        where.append(threading.get_ident())
        loop.call_soon_threadsafe(began.set)
        assert released.wait(10)

    g: Graph[Any] = Graph("g").add_step("a", step)
    task = asyncio.create_task(g.run())
    await began.wait()
    released.set()
    await task
    assert where[0] != here


async def test_the_context_of_a_step() -> None:
    """It says where the step stands; the key of what it does is the same for one occurrence."""
    seen: list[tuple[Any, ...]] = []
    store = MemoryStore()

    async def step(s: State, ctx: StepContext) -> dict[str, Any]:
        seen.append((ctx.run_id, ctx.graph, ctx.step, ctx.occurrence, ctx.attempt, ctx.answer))
        keys.append(ctx.idempotency_key)
        assert ctx.store is store
        assert ctx.budget is not None
        assert ctx.budget.limit == 9
        if ctx.attempt == 1:
            raise TimeoutError
        return {"n": s.get("n", 0) + 1}

    keys: list[str] = []
    g: Graph[Any] = Graph("g", step_budget=9)
    g.add_step(
        "a", step, condition(lambda s: s["n"] > 1, END, "a"), retry=Retry(attempts=2, delay=0)
    )
    result = await g.run(store=store, run_id="r")
    assert seen == [
        ("r", "g", "a", 1, 1, None),
        ("r", "g", "a", 1, 2, None),
        ("r", "g", "a", 2, 1, None),
        ("r", "g", "a", 2, 2, None),
    ]
    assert keys[0] == keys[1] != keys[2] == keys[3]
    assert (result.steps, result.total_steps, result.budget_left) == (2, 2, 7)


# -- per step: retry, time, fallback, cache -----------------------------------------------------


async def test_w65_a_step_is_tried_again() -> None:
    """As often as said, for the errors that are said, and it counts once."""
    tries: list[int] = []

    def flaky(s: State) -> dict[str, Any]:
        tries.append(1)
        if len(tries) < 3:
            raise ConnectionError("later")
        return {"ok": True}

    retry = Retry(attempts=3, delay=0, on=(ConnectionError,))
    g: Graph[Any] = Graph("g", max_iterations=1, step_budget=1).add_step("a", flaky, retry=retry)
    result = await g.run()
    assert result.state == {"ok": True}
    assert (len(tries), result.steps, result.total_steps, result.budget_left) == (3, 1, 1, 0)


async def test_w65_the_last_attempt_and_other_errors_fail() -> None:
    """The cause is what was raised last; an error that is not named is not tried again."""
    tries: list[str] = []
    retry = Retry(attempts=2, delay=0, on=(ConnectionError,))
    g: Graph[Any] = Graph("g").add_step("a", lambda s: None, "b")

    def connection(s: State) -> None:
        tries.append("x")
        raise ConnectionError(f"try {len(tries)}")

    def value(s: State) -> None:
        tries.append("x")
        raise ValueError("no")

    g.add_step("b", connection, retry=retry)
    with pytest.raises(StepFailed) as caught:
        await g.run()
    assert str(caught.value.__cause__) == "try 2"
    tries.clear()
    g.add_step("b", value, retry=retry, replace=True)
    with pytest.raises(StepFailed):
        await g.run()
    assert tries == ["x"]


async def test_w65_a_refusal_is_never_tried_again() -> None:
    """Refused is a decision, not an accident."""
    tries: list[int] = []

    def guard(s: State) -> None:
        tries.append(1)
        raise Refused("no")

    g: Graph[Any] = Graph("g").add_step("a", guard, retry=Retry(delay=0), fallback="b")
    g.add_step("b", puts(b=1))
    with pytest.raises(Blocked):
        await g.run()
    assert tries == [1]


async def test_w65_a_step_that_takes_too_long() -> None:
    """It is cut, counts as a TimeoutError, and may be tried again for it."""
    tries: list[int] = []

    async def slow(s: State) -> dict[str, Any]:
        tries.append(1)
        if len(tries) == 1:
            await asyncio.Event().wait()
        return {"ok": True}

    g: Graph[Any] = Graph("g")
    g.add_step("a", slow, timeout=0.05, retry=Retry(delay=0, on=(TimeoutError,)))
    assert (await g.run()).state == {"ok": True}
    tries.clear()
    g.add_step("a", slow, timeout=0.05, replace=True)
    with pytest.raises(StepFailed) as caught:
        await g.run()
    assert isinstance(caught.value.__cause__, TimeoutError)
    assert caught.value.result.stop is StopReason.ERROR


async def test_w65_another_step_takes_over() -> None:
    """From the state before the failed one; it goes on by its own router, and counts."""
    g: Graph[Any] = Graph("g", step_budget=5)
    g.add_step("a", puts(x=1), "fetch")
    g.add_step("fetch", fails(), "never", fallback="copy")
    g.add_step("never", puts(never=1)).add_step("copy", lambda s: {"from": dict(s)}, "end")
    g.add_step("end", puts(end=1))
    result = await g.run()
    assert result.state == {"x": 1, "from": {"x": 1}, "end": 1}
    assert (result.steps, result.total_steps, result.budget_left) == (4, 4, 1)
    assert (result.error, result.failed_step) == (None, None)


async def test_w65_what_a_step_gave_is_kept() -> None:
    """A hit calls nothing, counts as a step, and another key calls again."""
    store, calls = MemoryStore(), list[str]()

    def fetch(s: State) -> dict[str, Any]:
        calls.append(s["url"])
        return {"page": f"<{s['url']}>"}

    g: Graph[Any] = Graph("g").add_step("a", fetch, cache=Cache(key=lambda s: s["url"], ttl=60))
    for url in ("u", "u", "v", "u"):
        result = await g.run({"url": url}, store=store)
        assert result.state["page"] == f"<{url}>"
        assert (result.steps, result.total_steps) == (1, 1)
    assert calls == ["u", "v"]
    assert len(await store.list("cache:g")) == 2


# -- budgets ------------------------------------------------------------------------------------


async def test_w08_the_smallest_of_several_budgets_wins() -> None:
    """A child with a larger budget of its own stops at its parent's."""
    g: Graph[Any] = Graph("parent", step_budget=5)
    g.add_step("child", loop(step_budget=40).as_step())
    with pytest.raises(BudgetExhausted) as caught:
        await g.run(run_id="r")
    assert caught.value.graph == "parent"
    assert caught.value.result.stop is StopReason.BUDGET


async def test_w08_a_child_with_a_smaller_budget_stops_the_root() -> None:
    """Its own limit is a limit too."""
    g: Graph[Any] = Graph("parent", step_budget=50)
    g.add_step("child", loop(step_budget=4).as_step())
    with pytest.raises(BudgetExhausted) as caught:
        await g.run()
    assert caught.value.graph == "parent"
    assert caught.value.result.budget_left == 50 - 5


async def test_lb04_a_budget_around_the_run_wins() -> None:
    """The graph's own budget is larger: one step runs."""
    with StepBudget(1) as around, pytest.raises(BudgetExhausted) as caught:
        await loop(step_budget=100).run()
    assert caught.value.result.total_steps == 1
    assert (around.used, around.left) == (1, 0)


async def test_a_budget_is_shared_by_all_runs_inside_it() -> None:
    """Runs one after the other and beside each other are charged to one object."""
    g = chain("a", "b")
    with StepBudget(9) as budget:
        await g.run()
        await asyncio.gather(g.run(), g.run())
        assert budget.used == 6
        with StepBudget(100) as inner:
            await g.run()
        assert (budget.left, inner.used) == (1, 2)
        with pytest.raises(BudgetExhausted):
            await g.run()
    await g.run()
    assert budget.used == 9


async def test_a_budget_around_charges_children() -> None:
    """A child's steps are charged, and the step that runs it."""
    g: Graph[Any] = Graph("parent").add_step("child", chain("a", "b").as_step())
    with StepBudget(10) as budget:
        await g.run({"seen": []})
    assert budget.used == 3


async def test_the_order_of_limits_and_hooks() -> None:
    """Iterations, then the budget, then the hooks: a step refused by a limit asks no hook."""
    asked: list[str] = []
    g = loop(max_iterations=2)
    g.before(lambda step, s: asked.append(step))
    await g.run(raise_on_error=False)
    assert asked == ["spin", "spin"]
    asked.clear()
    g2 = loop(step_budget=1)
    g2.before(lambda step, s: asked.append(step))
    await g2.run(raise_on_error=False)
    assert asked == ["spin"]


async def test_a_step_refused_by_a_hook_is_not_charged() -> None:
    """Nor is it started."""
    g = chain("a", "b", step_budget=5)

    def refuse(step: str, s: State) -> None:
        if step == "b":
            raise Refused("closed")

    g.before(refuse)
    with pytest.raises(Blocked) as caught:
        await g.run()
    result = caught.value.result
    assert (result.budget_left, result.steps, result.total_steps) == (4, 1, 1)
    assert result.last_step == "a"
    assert caught.value.step == "b"
    assert result.blocked == "closed"


# -- budgets of dollars and tokens --------------------------------------------------------------


def spends(*costs: float, tokens: int = 0, **options: Any) -> Graph[Any]:
    """Make a graph whose steps cost what is said, then two that cost nothing."""
    g: Graph[Any] = Graph("spends", **options)
    names = [f"s{index}" for index in range(len(costs))]
    for index, cost in enumerate(costs):
        usage = Usage(input_tokens=tokens, cost_usd=cost)
        g.add_step(names[index], puts(usage=usage), names[index + 1] if names[index + 1 :] else "f")
    g.add_step("f", puts(f=1), "g").add_step("g", puts(g=1))
    return g


async def test_w35_a_cost_is_counted_once() -> None:
    """Free steps after a dear one cost nothing, though its usage is still in the state."""
    g = spends(1.0)
    g.after(cost_budget(usd=2.5))
    result = await g.run()
    assert result.stop is StopReason.COMPLETED
    assert result.usage is not None
    assert result.usage.cost_usd == pytest.approx(1.0)


async def test_pm06_over_a_limit_of_dollars() -> None:
    """The step that goes over it stops the run; its delta is kept."""
    g = spends(0.8, 0.5, 0.1)
    g.after(cost_budget(usd=1))
    with pytest.raises(BudgetExhausted, match="cost") as caught:
        await g.run()
    assert caught.value.step == "s1"
    result = caught.value.result
    assert result.stop is StopReason.BUDGET
    assert result.last_step == "s1"
    assert result.usage is not None
    assert result.usage.cost_usd == pytest.approx(1.3)


async def test_pm07_over_a_limit_of_tokens() -> None:
    """At the limit is not over it."""
    g = spends(0.1, 0.1, tokens=500)
    g.after(token_budget(1000))
    assert (await g.run()).stop is StopReason.COMPLETED
    g = spends(0.1, 0.1, tokens=501)
    g.after(token_budget(1000))
    with pytest.raises(BudgetExhausted, match="token"):
        await g.run()


async def test_w37_one_hook_serves_several_runs() -> None:
    """What one run spent is nothing to the next."""
    hook = cost_budget(usd=1.5)
    g = spends(1.0)
    g.after(hook)
    store = MemoryStore()
    for _ in range(3):
        assert (await g.run(store=store)).stop is StopReason.COMPLETED


async def test_w37_the_count_survives_a_pause() -> None:
    """What was spent before it counts after it."""
    store = MemoryStore()
    g: Graph[Any] = Graph("g")
    g.add_step("a", puts(usage=Usage(cost_usd=0.8)), "ask")
    g.add_step("ask", lambda s: Ask("?", phase="after"), "b")
    g.add_step("b", puts(usage=Usage(cost_usd=0.5)))
    g.after(cost_budget(usd=1))
    await g.run(store=store, run_id="r")
    with pytest.raises(BudgetExhausted):
        await g.resume("r", {}, store=store)


# -- what every exception carries ---------------------------------------------------------------


def ends_with(name: str) -> Graph[Any]:
    """Make a graph whose second step ends as its name says."""
    options: dict[str, Any] = {
        "MaxIterationsExceeded": {"max_iterations": 1},
        "BudgetExhausted": {"step_budget": 1},
        "RunTimeout": {"timeout": 0.05},
    }.get(name, {})
    g: Graph[Any] = Graph("g", merge={"log": append}, **options)
    g.add_step("a", puts(a=1), "b").add_step("c", puts(log=["c"]), "d")
    g.add_step("d", puts(), join="all")

    async def late(s: State) -> None:
        await asyncio.Event().wait()

    def refuse(step: str, s: State) -> None:
        if step == "b":
            raise ValueError("no")

    step: Any = {
        "StepFailed": fails(),
        "Blocked": fails(Refused("no")),
        "RunTimeout": late,
        "MergeError": puts(log="text"),
        "UnknownKey": puts(other=1),
        "NotSerializable": puts(x=object()),
        "ReservedKey": puts(__x=1),
        "NotResumable": lambda s: Ask("?"),
        "StepNotFound": lambda s: Goto("nowhere"),
    }.get(name, puts(b=1))
    if name == "UnknownKey":

        class Typed(TypedDict, total=False):
            a: int
            log: list[str]

        typed: Graph[Any] = Graph("g", state=Typed)
        return typed.add_step("a", puts(a=1), "b").add_step("b", step)
    if name == "MergeConflict":
        g.add_step("b", puts(), ["e", "f"]).add_step("e", puts(x=1), "d")
        return g.add_step("f", puts(x=2), "d")
    if name == "HookAborted":
        g.before(refuse)
    return g.add_step("b", step, _raises if name == "RouteError" else END)


@pytest.mark.parametrize(
    ("name", "stop", "steps"),
    [
        ("StepFailed", "error", 2),
        ("Blocked", "blocked", 2),
        ("HookAborted", "hook_abort", 1),
        ("RouteError", "error", 2),
        ("StepNotFound", "error", 2),
        ("MaxIterationsExceeded", "max_iter", 1),
        ("BudgetExhausted", "budget", 1),
        ("RunTimeout", "timeout", 2),
        ("MergeError", "error", 2),
        ("MergeConflict", "error", 4),
        ("UnknownKey", "error", 2),
        ("NotSerializable", "error", 2),
        ("ReservedKey", "error", 2),
        ("NotResumable", "yielded", 2),
    ],
)
async def test_w61_w62_what_an_exception_carries(name: str, stop: str, steps: int) -> None:
    """Its own class, the run, the graph, the step, and the result as it stands."""
    import loom_ia.graph as library

    g = ends_with(name)
    with pytest.raises(RunError) as caught:
        await g.run({}, run_id="r")
    error = caught.value
    assert type(error) is getattr(library, name)
    assert (error.run_id, error.graph) == ("r", "g")
    assert error.step == {"StepNotFound": "nowhere", "RunTimeout": None}.get(name, "b")
    result = error.result
    assert result.stop == stop
    assert (result.run_id, result.graph) == ("r", "g")
    assert (result.steps, result.total_steps) == (steps, steps)
    assert result.state["a"] == 1
    assert error.also == ()
    quiet = await g.run({}, run_id="r", raise_on_error=False)
    assert type(quiet.error) is type(error)
    assert quiet.stop == stop
    assert str(error)
    assert "{" not in str(error)


# -- without a store ----------------------------------------------------------------------------


async def test_w11_a_pause_without_a_store() -> None:
    """Nobody could go on: it is refused, with the result that yielded, unless it is allowed."""
    g: Graph[Any] = Graph("g").add_step("a", adds(), "b").add_step("b", lambda s: Ask("who?"))
    with pytest.raises(NotResumable) as caught:
        await g.run(run_id="r")
    error = caught.value
    assert error.result.stop is StopReason.YIELDED
    assert error.result.state == {"n": 1}
    assert (error.step, error.graph, error.run_id) == ("b", "g", "r")
    quiet = await g.run(raise_on_error=False)
    assert quiet.stop is StopReason.YIELDED
    assert isinstance(quiet.error, NotResumable)
    allowed = await g.run(allow_unresumable=True)
    assert allowed.yielded
    assert allowed.error is None
    assert [i.payload for i in allowed.interrupts] == ["who?"]


# -- an approver in line ------------------------------------------------------------------------


async def test_an_approver_answers_in_line() -> None:
    """The run does not pause and needs no store; questions and answers are in the journal."""
    asked: list[Interrupt] = []

    async def approver(question: Interrupt) -> Any:
        asked.append(question)
        return {"who": "Ann", "ok": 1}[question.key]

    async def b(s: State, ctx: StepContext) -> dict[str, Any]:
        return {"ok": await ctx.interrupt("ok?", key="ok", schema={"type": "integer"})}

    g: Graph[Any] = Graph("g")
    g.add_step("a", lambda s: Ask("who?", key="who", into="who", phase="after"), "b")
    g.add_step("b", b)
    result = await g.run(approver=approver)
    assert result.state == {"who": "Ann", "ok": 1}
    assert [(q.payload, q.step, q.kind) for q in asked] == [
        ("who?", "a", "input"),
        ("ok?", "b", "input"),
    ]
    store = MemoryStore()
    await g.run(approver=approver, store=store, run_id="r")
    kinds = [e.type for e in await g.events("r", store=store)]
    assert kinds.count("approval.requested") == kinds.count("approval.granted") == 2


async def test_a_sync_approver_and_a_mid_question() -> None:
    """The step runs again with the answer."""

    def step(s: State, ctx: StepContext) -> Any:
        return Ask("n?") if ctx.answer is None else {"n": ctx.answer}

    g: Graph[Any] = Graph("g").add_step("a", step)
    result = await g.run(approver=lambda question: 41)
    assert result.state == {"n": 41}
    assert (result.steps, result.total_steps) == (1, 1)


async def test_an_approver_also_answers_on_resume() -> None:
    """The open question of a paused run is put to it."""
    store = MemoryStore()
    g: Graph[Any] = Graph("g").add_step("a", lambda s: Ask("n?", phase="after", into="n"))
    await g.run(store=store, run_id="r")
    result = await g.resume("r", store=store, approver=lambda question: 41)
    assert result.state == {"n": 41}


# -- durability ---------------------------------------------------------------------------------


class Failing:
    """A store that can be made to fail, and remembers how often it was asked to write."""

    def __init__(self) -> None:
        self.inner = MemoryStore()
        self.broken = False
        self.breaks = True
        self.error = ConnectionError("the disk is full")
        self.writes = 0

    def _check(self) -> None:
        self.writes += 1
        if self.broken:
            raise self.error

    async def get(self, ns: str, key: str) -> bytes:
        return await self.inner.get(ns, key)

    async def put(self, ns: str, key: str, value: bytes) -> None:
        self._check()
        await self.inner.put(ns, key, value)

    async def delete(self, ns: str, key: str) -> None:
        await self.inner.delete(ns, key)

    async def list(self, ns: str, prefix: str = "") -> Any:
        return await self.inner.list(ns, prefix)

    def tx(self) -> Any:
        self._check()
        return self.inner.tx()


def breaks(store: Failing, *, how: Step, **options: Any) -> Graph[Any]:
    """Make a graph whose second step breaks the store, and whose third does `how`."""
    g: Graph[Any] = Graph("g", **options)

    def b(s: State) -> dict[str, Any]:
        store.broken = store.breaks
        store.breaks = False
        return {"b": 1}

    g.add_step("a", puts(a=1), "b").add_step("b", b, "c").add_step("c", how)
    return g


async def test_a_write_that_fails_stops_the_run() -> None:
    """The cause is exactly what the store raised; the run goes on once the store is back."""
    store = Failing()
    g = breaks(store, how=puts(c=1))
    with pytest.raises(CheckpointFailed) as caught:
        await g.run(store=store, run_id="r")
    error = caught.value
    assert error.__cause__ is store.error
    assert (error.graph, error.run_id) == ("g", "r")
    assert error.result.stop is StopReason.ERROR
    store.broken = False
    result = await g.resume("r", store=store, take_over=True)
    assert result.stop is StopReason.COMPLETED
    assert result.state["c"] == 1


@pytest.mark.parametrize("mode", [Durability.BEST_EFFORT, Durability.BATCHED, Durability.NONE])
async def test_w12_a_pause_is_always_written(mode: Durability) -> None:
    """Whatever the durability, a run is never told as paused when nobody could go on with it."""
    store = Failing()
    g = breaks(store, how=lambda s: Ask("?"), durability=mode)
    with pytest.raises(CheckpointFailed) as caught:
        await g.run(store=store, run_id="r")
    assert caught.value.__cause__ is store.error
    assert caught.value.result.stop is StopReason.ERROR


@pytest.mark.parametrize("mode", list(Durability))
async def test_w12_a_paused_run_is_gone_on_with_under_any_durability(mode: Durability) -> None:
    """Another driver, that knows the store only, finds all that went before."""
    store = Failing()
    g: Graph[Any] = Graph("g", durability=mode).add_step("a", puts(a=1), "b")
    g.add_step("b", lambda s: Ask("?", phase="after", into="b"), "c").add_step("c", puts(c=1))
    await g.run(store=store, run_id="r")
    other = Failing()
    other.inner = store.inner
    result = await g.resume("r", {"x": 1}, store=other)
    assert result.state == {"a": 1, "b": {"x": 1}, "c": 1, "x": 1}


async def test_gr12_best_effort_goes_on_without_its_store() -> None:
    """The state is right, and the failure is only logged."""
    store = Failing()
    g = breaks(store, how=puts(c=1), durability=Durability.BEST_EFFORT)
    result = await g.run(store=store)
    assert result.stop is StopReason.COMPLETED
    assert result.state == {"a": 1, "b": 1, "c": 1}


async def test_best_effort_writes_what_it_kept() -> None:
    """Once the store is back, what was not written comes before what follows."""
    store = Failing()

    def c(s: State) -> dict[str, Any]:
        store.broken = False
        return {"c": 1}

    g = breaks(store, how=c, durability="best_effort")
    await g.run(store=store, run_id="r")
    seqs = [e.seq for e in await g.events("r", store=store)]
    assert seqs == list(range(1, len(seqs) + 1))
    assert (await g.resume("r", store=store)).state == {"a": 1, "b": 1, "c": 1}


@pytest.mark.parametrize("mode", [Durability.BEST_EFFORT, Durability.BATCHED, Durability.NONE])
async def test_an_irreversible_effect_is_written_before_it_happens(mode: Durability) -> None:
    """It does not happen when that cannot be written."""
    store, sent = Failing(), list[str]()

    async def c(s: State, ctx: StepContext) -> None:
        await ctx.effect("send", lambda: sent.append("letter"), side_effects="irreversible")

    g = breaks(store, how=c, durability=mode)
    with pytest.raises(CheckpointFailed):
        await g.run(store=store, run_id="r")
    assert sent == []


@pytest.mark.parametrize("mode", [Durability.BEST_EFFORT, Durability.BATCHED, Durability.NONE])
async def test_an_irreversible_step_is_written_before_it_starts(mode: Durability) -> None:
    """The same for a step that says so of itself."""
    store, sent = Failing(), list[str]()
    g = breaks(store, how=lambda s: None, durability=mode)
    g.add_step("c", lambda s: sent.append("letter"), side_effects="irreversible", replace=True)
    with pytest.raises(CheckpointFailed):
        await g.run(store=store, run_id="r")
    assert sent == []


async def test_a_step_cannot_hide_that_its_effect_was_not_written() -> None:
    """It catches what was raised, and the store is back at once: the run stops all the same."""
    store = Failing()

    async def step(s: State, ctx: StepContext) -> dict[str, Any]:
        store.broken = True
        try:
            await ctx.effect("send", lambda: 1, side_effects="irreversible")
        except Exception:  # noqa: BLE001 -- a careless step
            store.broken = False
        return {"done": True}

    g: Graph[Any] = Graph("g").add_step("s", step)
    with pytest.raises(CheckpointFailed) as caught:
        await g.run(store=store, run_id="r")
    assert caught.value.__cause__ is store.error
    assert caught.value.result.state == {}


@pytest.mark.parametrize("mode", list(Durability))
async def test_a_cancel_is_felt_at_once_under_any_durability(mode: Durability) -> None:
    """Also when the run is not written yet."""
    store, began = MemoryStore(), asyncio.Event()

    async def slow(s: State) -> None:
        began.set()
        await asyncio.Event().wait()

    g: Graph[Any] = Graph("g", durability=mode).add_step("a", puts(a=1), "slow")
    g.add_step("slow", slow)
    task = asyncio.create_task(g.run(store=store, run_id="r"))
    await began.wait()
    async with asyncio.timeout(5):
        assert await g.cancel("r", store=store)
        result = await task
    assert (result.stop, result.state) == (StopReason.CANCELLED, {"a": 1})
    assert (await g.resume("r", store=store)).stop is StopReason.CANCELLED


# -- many at once -------------------------------------------------------------------------------


async def test_cc01_many_runs_of_one_graph() -> None:
    """Fifty at once on one store, each with its own result."""
    store = MemoryStore()
    g: Graph[Any] = Graph("g").add_step("a", lambda s: {"mine": s["id"] * 2}, "b")
    g.add_step("b", lambda s: {"output": f"{s['id']}:{s['mine']}"})
    results = await asyncio.gather(
        *(g.run({"id": n}, store=store, run_id=f"r{n}") for n in range(50))
    )
    assert [r.state["output"] for r in results] == [f"{n}:{n * 2}" for n in range(50)]
    assert len(await store.list("checkpoint:g")) == 50


async def test_cc03_many_runs_pause_and_go_on() -> None:
    """Two hundred wait at once and are all gone on with at once, each with its own answer."""
    store = MemoryStore()
    g: Graph[Any] = Graph("g").add_step("ask", lambda s: Ask("ok?", phase="after"), "done")
    g.add_step("done", lambda s: {"output": f"{s['answer']}-{s['id']}"})
    paused = await asyncio.gather(
        *(g.run({"id": n}, store=store, run_id=f"r{n}") for n in range(200))
    )
    assert all(r.yielded for r in paused)
    done = await asyncio.gather(
        *(g.resume(f"r{n}", {"answer": "approved"}, store=store) for n in range(200))
    )
    assert [r.state["output"] for r in done] == [f"approved-{n}" for n in range(200)]


async def test_one_graph_may_use_overwrite() -> None:
    """The merge that is the default, said aloud."""
    g: Graph[Any] = Graph("g", merge={"x": overwrite}).add_step("a", puts(x=2))
    assert (await g.run({"x": 1})).state == {"x": 2}


async def test_steps_that_never_await_do_not_hold_up_the_others() -> None:
    """A loop of steps without an await lets the other tasks run, and is stopped at once."""
    graph: Graph[dict[str, Any]] = Graph("busy", max_iterations=5000)
    done: list[int] = []
    begun = asyncio.Event()

    async def count(state: Any) -> None:
        done.append(1)
        begun.set()

    graph.add_step("count", count, then="count")
    run = asyncio.create_task(graph.run())
    await begun.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert len(done) < 10
