"""Branches: static and dynamic splits, where they meet, what they see, how they fail and wait."""

import asyncio
import random
from collections import Counter
from typing import Any

import pytest

from loom_ia.graph import (
    END,
    Ask,
    BudgetExhausted,
    Goto,
    Graph,
    GraphEvent,
    MaxIterationsExceeded,
    MemoryStore,
    MergeConflict,
    NotSerializable,
    ReservedKey,
    Retry,
    RouteError,
    RunNotFound,
    RunResult,
    Send,
    StepBudget,
    StepFailed,
    StopReason,
    add,
    append,
    condition,
    fan_out,
    fold,
    union,
)
from loom_ia.testing import Crash
from tests.graph.mortal import Mortal, ends

State = Any
NAMES = ("legal", "finance", "tech")


def reviewed(
    steps: dict[str, Any], *, join: str | int = "all", merge: Any = None, **options: Any
) -> Graph[Any]:
    """Make a graph whose split leads to `steps`, which meet."""
    g: Graph[Any] = Graph("review", "split", merge=merge, **options)
    g.add_step("split", lambda state: {"split": True}, then=list(steps))
    for name, fn in steps.items():
        g.add_step(name, fn, then="meet")
    g.add_step("meet", lambda state: {"met": state.get("met", 0) + 1}, then=END, join=join)
    return g


def says(name: str) -> Any:
    """Make a step that adds its name to `said`."""

    async def step(state: State) -> dict[str, Any]:
        return {"said": [name]}

    return step


def turnstile(order: list[str]) -> Any:
    """Make a way of ending steps in a given order, whatever the order in which they began."""
    ended = {name: asyncio.Event() for name in order}

    async def leave(name: str) -> None:
        at = order.index(name)
        if at:
            await ended[order[at - 1]].wait()
        ended[name].set()

    return leave


# -- splits ---------------------------------------------------------------------------------------


async def test_branches_overlap_and_the_join_runs_once() -> None:
    """Three branches are all running at one time, and the step where they meet runs once."""
    barrier = asyncio.Barrier(3)

    def waiting(name: str) -> Any:
        async def step(state: State) -> dict[str, Any]:
            async with asyncio.timeout(5):
                await barrier.wait()
            return {"said": [name]}

        return step

    g = reviewed({name: waiting(name) for name in NAMES}, merge={"said": append})
    result = await g.run({"x": 1})
    assert result.state == {"x": 1, "split": True, "said": list(NAMES), "met": 1}
    assert result.stop is StopReason.COMPLETED
    assert (result.steps, result.total_steps, result.last_step) == (5, 5, "meet")


@pytest.mark.parametrize("order", [("c", "b", "a"), ("b", "a", "c"), ("a", "b", "c")])
async def test_branches_merge_in_the_order_of_declaration(order: tuple[str, ...]) -> None:
    """The order in which branches end changes nothing."""
    leave = turnstile(list(order))

    def step(name: str) -> Any:
        async def run(state: State) -> dict[str, Any]:
            await leave(name)
            return {"said": [name]}

        return run

    g = reviewed({name: step(name) for name in ("a", "b", "c")}, merge={"said": append})
    result = await g.run({"said": ["before"]})
    assert result.state["said"] == ["before", "a", "b", "c"]


async def test_branches_see_their_own_changes_only() -> None:
    """A branch of two steps sees what its first one did, and nothing of its neighbour."""
    seen: dict[str, dict[str, Any]] = {}
    first_is_done = asyncio.Event()

    async def one(state: State) -> dict[str, Any]:
        return {"one": 1, "n": 1}

    async def one_more(state: State) -> dict[str, Any]:
        seen["one"] = dict(state)
        first_is_done.set()
        return {"n": 1}

    async def other(state: State) -> dict[str, Any]:
        await first_is_done.wait()
        seen["other"] = dict(state)
        return {"other": 1, "n": 1}

    g: Graph[Any] = Graph("g", "split", merge={"n": add})
    g.add_step("split", lambda state: {"n": 10}, then=["one", "other"])
    g.add_step("one", one, then="one_more")
    g.add_step("one_more", one_more, then="meet")
    g.add_step("other", other, then="meet")
    g.add_step("meet", lambda state: None, join="all")
    result = await g.run({})
    assert seen == {"one": {"n": 11, "one": 1}, "other": {"n": 10}}
    assert result.state == {"n": 13, "one": 1, "other": 1}


async def test_branches_that_all_end_at_end_complete_the_run() -> None:
    """Without a join the run completes with the merged state."""
    g: Graph[Any] = Graph("g", "split", merge={"said": append})
    g.add_step("split", lambda state: None, then=["a", "b"])
    g.add_step("a", says("a"), then=END)
    g.add_step("b", says("b"), then="b2")
    g.add_step("b2", says("b2"), then=END)
    result = await g.run({})
    assert result.state == {"said": ["a", "b", "b2"]}
    assert result.stop is StopReason.COMPLETED


async def test_one_branch_at_end_the_other_at_a_join() -> None:
    """A branch that ends at END keeps nobody from the join."""
    g: Graph[Any] = Graph("g", "split", merge={"said": append})
    g.add_step("split", lambda state: None, then=["a", "b"])
    g.add_step("a", says("a"), then=END)
    g.add_step("b", says("b"), then="meet")
    g.add_step("meet", says("meet"), then=END, join="all")
    assert (await g.run({})).state == {"said": ["a", "b", "meet"]}


async def test_nested_splits() -> None:
    """A branch that splits again meets inside itself first."""
    g: Graph[Any] = Graph("g", "split", merge={"said": append, "n": add, "tags": union})
    g.add_step("split", says("split"), then=["left", "right"])
    g.add_step("left", says("left"), then=["l1", "l2"])
    g.add_step("l1", lambda state: {"said": ["l1"], "n": 1, "tags": ["x", "l1"]}, then="inner")
    g.add_step("l2", lambda state: {"said": ["l2"], "n": 2, "tags": ["x", "l2"]}, then="inner")
    g.add_step("inner", says("inner"), then="after", join="all")
    g.add_step("after", says("after"), then="outer")
    g.add_step("right", lambda state: {"said": ["right"], "n": 4, "tags": ["r"]}, then="outer")
    g.add_step("outer", says("outer"), then=END, join="all")
    store = MemoryStore()
    result = await g.run({"n": 0}, store=store, run_id="r")
    said = ["split", "left", "l1", "l2", "inner", "after", "right", "outer"]
    assert result.state == {"n": 7, "said": said, "tags": ["x", "l1", "l2", "r"]}
    assert fold(await g.events("r", store=store)) == result.state


async def test_a_router_that_sends() -> None:
    """Each Send is a branch whose own input it alone sees, and which never enters the state."""
    seen: list[Any] = []

    async def write(state: State) -> dict[str, Any]:
        seen.append(dict(state))
        return {"texts": [f"{state['topic']} by {state['who']}"]}

    g: Graph[Any] = Graph("g", "plan", merge={"texts": append})

    def sends(state: State) -> Any:
        return [Send("write", {"topic": "a"}), Send("write", {"topic": "b"})]

    g.add_step("plan", lambda state: {"who": "Ada"}, then=sends, targets=["write"])
    g.add_step("write", write, then="meet")
    g.add_step("meet", lambda state: None, join="all")
    result = await g.run({})
    assert result.state == {"who": "Ada", "texts": ["a by Ada", "b by Ada"]}
    assert [one["topic"] for one in seen] == ["a", "b"]


async def test_send_and_names_mixed() -> None:
    """A router may mix names and Sends; the branch of a name has no input of its own."""
    g: Graph[Any] = Graph("g", "plan", merge={"said": append})
    g.add_step("plan", lambda state: None, then=lambda state: ["a", Send("b", {"x": 1})])
    g.add_step("a", lambda state: {"said": [f"a {state.get('x')}"]}, then=END)
    g.add_step("b", lambda state: {"said": [f"b {state.get('x')}"]}, then=END)
    assert (await g.run({})).state == {"said": ["a None", "b 1"]}


async def test_goto_may_split() -> None:
    """A step that overrides its router may send to branches too."""
    g: Graph[Any] = Graph("g", "plan", merge={"said": append})
    g.add_step("plan", lambda state: Goto([Send("b", {"x": 2}), "a"], update={"p": 1}))
    g.add_step("a", lambda state: {"said": ["a"]}, then=END)
    g.add_step("b", lambda state: {"said": [f"b{state['x']}"]}, then=END)
    assert (await g.run({})).state == {"p": 1, "said": ["b2", "a"]}


async def test_a_step_given_twice_is_two_branches() -> None:
    """Occurrences count within a branch, and idempotency keys differ between branches."""
    keys: list[tuple[int, str]] = []

    async def work(state: State, ctx: Any) -> dict[str, Any]:
        keys.append((ctx.occurrence, ctx.idempotency_key))
        return {"n": 1}

    g: Graph[Any] = Graph("g", "split", merge={"n": add})
    g.add_step("split", lambda state: None, then=["work", "work"])
    g.add_step("work", work, then="meet")
    g.add_step("meet", lambda state: None, join="all")
    result = await g.run({"n": 0})
    assert result.state == {"n": 2}
    assert [occurrence for occurrence, _ in keys] == [1, 1]
    assert len({key for _, key in keys}) == 2


# -- any and quorum -------------------------------------------------------------------------------


async def test_any_cancels_the_losers_and_drops_their_changes() -> None:
    """The first to arrive decides; the one that still runs is cancelled."""
    cancelled = asyncio.Event()
    slow_runs = asyncio.Event()

    async def fast(state: State) -> dict[str, Any]:
        await slow_runs.wait()
        return {"said": ["fast"]}

    async def slow(state: State) -> dict[str, Any]:
        slow_runs.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return {"said": ["slow"]}

    g = reviewed({"slow": slow, "fast": fast}, join="any", merge={"said": append})
    result = await g.run({})
    assert result.state == {"split": True, "said": ["fast"], "met": 1}
    assert cancelled.is_set()
    assert result.stop is StopReason.COMPLETED


async def test_any_drops_the_changes_of_a_loser_that_was_half_way() -> None:
    """What a losing branch did already is dropped too."""
    half = asyncio.Event()

    async def slow(state: State) -> dict[str, Any]:
        await asyncio.Event().wait()
        return {}

    async def fast(state: State) -> dict[str, Any]:
        await half.wait()
        return {"said": ["fast"]}

    async def slow_begins(state: State) -> dict[str, Any]:
        return {"said": ["half"], "half": True}

    async def slow_goes_on(state: State) -> dict[str, Any]:
        half.set()
        return await slow(state)

    g: Graph[Any] = Graph("g", "split", merge={"said": append})
    g.add_step("split", lambda state: None, then=["slow", "fast"])
    g.add_step("slow", slow_begins, then="slow2")
    g.add_step("slow2", slow_goes_on, then="meet")
    g.add_step("fast", fast, then="meet")
    g.add_step("meet", lambda state: None, then=END, join="any")
    assert (await g.run({})).state == {"said": ["fast"]}


async def test_a_quorum_waits_for_as_many_as_it_says() -> None:
    """Two of three meet, in the order of declaration."""
    two_are_done = asyncio.Event()
    done: list[str] = []

    def quick(name: str) -> Any:
        async def step(state: State) -> dict[str, Any]:
            done.append(name)
            if len(done) == 2:
                two_are_done.set()
            return {"said": [name]}

        return step

    async def never(state: State) -> dict[str, Any]:
        await asyncio.Event().wait()
        return {"said": ["never"]}

    steps = {"never": never, "b": quick("b"), "c": quick("c")}
    result = await reviewed(steps, join=2, merge={"said": append}).run({})
    assert result.state["said"] == ["b", "c"]
    assert result.state["met"] == 1


async def test_any_drops_a_branch_that_waits_for_an_answer() -> None:
    """A question of a branch that lost is not asked any more."""
    asked = asyncio.Event()

    async def asks(state: State) -> Ask:
        asked.set()
        return Ask("really?")

    async def fast(state: State) -> dict[str, Any]:
        await asked.wait()
        return {"said": ["fast"]}

    g = reviewed({"asks": asks, "fast": fast}, join="any", merge={"said": append})
    result = await g.run({}, store=MemoryStore())
    assert result.stop is StopReason.COMPLETED
    assert result.interrupts == ()
    assert result.state["said"] == ["fast"]


@pytest.mark.parametrize("join", ["most", 0, -1, True])
def test_a_wrong_join_is_a_value_error(join: Any) -> None:
    """A join is "all", "any" or a quorum."""
    g: Graph[Any] = Graph("g")
    with pytest.raises(ValueError, match="join"):
        g.add_step("a", lambda state: None, join=join)


async def test_a_quorum_that_cannot_be_reached_goes_on_with_all() -> None:
    """When every branch ended and fewer than the quorum arrived, they meet all the same."""
    g = reviewed({"a": says("a"), "b": says("b")}, join=5, merge={"said": append})
    assert (await g.run({})).state["said"] == ["a", "b"]


# -- conflicts ------------------------------------------------------------------------------------


async def test_pub48_two_branches_that_write_one_key_without_a_merge() -> None:
    """The conflict names the key and the branches, and fails the run."""
    g = reviewed({name: lambda state: {"verdict": "yes"} for name in ("a", "b")})
    with pytest.raises(MergeConflict) as caught:
        await g.run({}, store=MemoryStore())
    error = caught.value
    assert error.key == "verdict"
    assert len(error.branches) == 2
    assert [name in branch for name, branch in zip("ab", error.branches, strict=True)]
    assert error.result.stop is StopReason.ERROR
    assert error.result.run_id == error.run_id
    assert "verdict" not in error.result.state
    assert isinstance(error, MergeConflict)


async def test_pub48_a_hundred_shuffled_runs_give_one_state() -> None:
    """Whatever the order of ends, the state is the same."""
    states: list[Any] = []
    rng = random.Random(48)
    names = ["a", "b", "c", "d"]
    for _ in range(100):
        leave = turnstile(rng.sample(names, len(names)))

        def step(name: str, leave: Any = leave) -> Any:
            async def run(state: State) -> dict[str, Any]:
                await leave(name)
                return {"said": [name], "n": ord(name) / 7, "tags": [name, "all"]}

            return run

        merge = {"said": append, "n": add, "tags": union}
        g = reviewed({name: step(name) for name in names}, merge=merge)
        states.append((await g.run({"n": 0.1})).state)
    assert all(repr(state) == repr(states[0]) for state in states)


async def test_a_custom_merge_is_not_asked_again_on_resume() -> None:
    """What branches gave together is in the journal; a resume reads it."""
    calls: list[tuple[Any, Any]] = []

    def longest(existing: Any, incoming: Any) -> Any:
        calls.append((existing, incoming))
        return incoming if not existing or len(incoming) > len(existing) else existing

    g = reviewed(
        {"a": lambda state: {"w": "long"}, "b": lambda state: {"w": "hi"}}, merge={"w": longest}
    )
    g.add_step("meet", lambda state: Ask("go?", phase="after"), then=END, join="all", replace=True)
    store = MemoryStore()
    first = await g.run({}, store=store, run_id="r")
    assert first.state["w"] == "long"
    count = len(calls)
    result = await g.resume("r", answers={first.interrupts[0].id: 1}, store=store)
    assert result.state["w"] == "long"
    assert len(calls) == count


# -- failures -------------------------------------------------------------------------------------


async def test_a_failing_branch_cancels_its_siblings_and_resume_runs_what_is_left() -> None:
    """What ended is not run again; what failed or was cut is."""
    runs: Counter[str] = Counter()
    broken = [True]
    sibling_runs, first_ended = asyncio.Event(), asyncio.Event()

    async def done(state: State) -> dict[str, Any]:
        runs["done"] += 1
        first_ended.set()
        return {"said": ["done"]}

    async def fails(state: State) -> dict[str, Any]:
        runs["fails"] += 1
        if broken[0]:
            await sibling_runs.wait()
            await first_ended.wait()
            raise RuntimeError("out of order")
        return {"said": ["mended"]}

    async def sibling(state: State) -> dict[str, Any]:
        runs["sibling"] += 1
        if broken[0]:
            sibling_runs.set()
            await asyncio.Event().wait()
        return {"said": ["sibling"]}

    steps = {"done": done, "fails": fails, "sibling": sibling}
    g = reviewed(steps, merge={"said": append})
    store = MemoryStore()
    with pytest.raises(StepFailed) as caught:
        await g.run({}, store=store, run_id="r")
    error = caught.value
    assert isinstance(error.__cause__, RuntimeError)
    assert (error.step, error.result.failed_step) == ("fails", "fails")
    assert error.result.stop is StopReason.ERROR
    broken[0] = False
    result = await g.resume("r", store=store)
    assert result.state["said"] == ["done", "mended", "sibling"]
    assert runs == {"done": 1, "fails": 2, "sibling": 2}
    assert result.total_steps == 5


async def test_a_branch_that_fails_before_its_sibling_starts_writing() -> None:
    """A failure at once still leaves the other branch to be run by the resume, once."""
    runs: Counter[str] = Counter()
    broken = [True]

    async def bad(state: State) -> dict[str, Any]:
        runs["bad"] += 1
        if broken[0]:
            raise RuntimeError("no")
        return {"said": ["bad"]}

    async def good(state: State) -> dict[str, Any]:
        runs["good"] += 1
        return {"said": ["good"]}

    g = reviewed({"bad": bad, "good": good}, merge={"said": append})
    store = MemoryStore()
    result = await g.run({}, store=store, run_id="r", raise_on_error=False)
    assert isinstance(result.error, StepFailed)
    broken[0] = False
    again = await g.resume("r", store=store)
    assert again.state["said"] == ["bad", "good"]
    assert runs["bad"] == 2
    assert runs["good"] <= 2


async def test_a_retry_in_a_branch_is_its_own() -> None:
    """A branch tries again while its sibling is over; one occurrence, two attempts."""
    attempts: list[int] = []

    async def flaky(state: State, ctx: Any) -> dict[str, Any]:
        attempts.append(ctx.attempt)
        if ctx.attempt == 1:
            raise TimeoutError("again")
        return {"said": ["flaky"]}

    g: Graph[Any] = Graph("g", "split", merge={"said": append})
    g.add_step("split", lambda state: None, then=["flaky", "calm"])
    g.add_step("flaky", flaky, then="meet", retry=Retry(attempts=2, delay=0))
    g.add_step("calm", says("calm"), then="meet")
    g.add_step("meet", lambda state: None, join="all")
    result = await g.run({})
    assert result.state == {"said": ["flaky", "calm"]}
    assert attempts == [1, 2]
    assert result.total_steps == 4


async def test_a_router_that_fails_in_a_branch() -> None:
    """The run fails with the router's error, and a resume asks that router again."""
    broken = [True]
    runs: Counter[str] = Counter()

    def route(state: State) -> str:
        if broken[0]:
            raise KeyError("where")
        return "meet"

    def a(state: State) -> dict[str, Any]:
        runs["a"] += 1
        return {"said": ["a"]}

    g: Graph[Any] = Graph("g", "split", merge={"said": append})
    g.add_step("split", lambda state: None, then=["a", "b"])
    g.add_step("a", a, then=route, targets=["meet"])
    g.add_step("b", says("b"), then="meet")
    g.add_step("meet", lambda state: None, join="all")
    store = MemoryStore()
    with pytest.raises(RouteError) as caught:
        await g.run({}, store=store, run_id="r")
    assert isinstance(caught.value.__cause__, KeyError)
    broken[0] = False
    assert (await g.resume("r", store=store)).state == {"said": ["a", "b"]}
    assert runs == {"a": 1}


async def test_a_crash_in_one_branch_leaves_the_ends_of_the_others() -> None:
    """Killed while a branch runs: what was over is not run again, in the same order."""
    mortal = Mortal()
    runs: Counter[str] = Counter()
    first = asyncio.Event()

    async def one(state: State) -> dict[str, Any]:
        runs["one"] += 1
        return {"said": ["one"]}

    async def two(state: State) -> dict[str, Any]:
        runs["two"] += 1
        await first.wait()
        return {"said": ["two"]}

    async def one_more(state: State) -> dict[str, Any]:
        runs["one_more"] += 1
        first.set()
        return {"said": ["one_more"]}

    g: Graph[Any] = Graph("g", "split", merge={"said": append})
    g.add_step("split", lambda state: None, then=["one", "two"])
    g.add_step("one", one, then="one_more")
    g.add_step("one_more", one_more, then="meet")
    g.add_step("two", two, then="meet")
    g.add_step("meet", lambda state: None, join="all")
    with pytest.raises(Crash):
        await g.run({}, store=mortal.store(ends("two")), run_id="r")
    store = mortal.store()
    result = await g.resume("r", store=store, take_over=True)
    assert result.state == {"said": ["one", "one_more", "two"]}
    assert runs["one"] == 1
    assert runs["two"] == 2
    assert result.total_steps == 5


def everything(runs: Counter[str]) -> Graph[Any]:
    """Make a graph with a split, a map, a child and a loop, whose effects are counted."""

    async def effect(state: State, ctx: Any) -> dict[str, Any]:
        async def act() -> int:
            runs[f"{ctx.step} {state.get('doc', '')}"] += 1
            return state.get("doc", 7)

        return {"s": await ctx.effect("act", act), "said": [ctx.step]}

    child: Graph[Any] = Graph("child", merge={"said": append})
    child.add_step("inner", effect, then="inner2")
    child.add_step("inner2", effect, then=END)
    g: Graph[Any] = Graph("g", "split", merge={"said": append, "n": add})
    g.add_step("split", lambda state: {"n": 1, "said": ["split"]}, then=["load", "run"])
    router = fan_out("score", over="docs", as_="doc", collect="scores", take="s", limit=2)
    g.add_step("load", lambda state: {"docs": [1, 2, 3]}, then=router)
    g.add_step("score", effect, then="meet")
    g.add_step("run", child.as_step(outputs=["said"]), then="meet")
    again = condition(lambda state: state["n"] < 2, "split", END)
    g.add_step("meet", lambda state: {"said": ["meet"]}, then=again, join="all")
    return g


@pytest.mark.parametrize("lands", [False, True])
async def test_a_crash_anywhere_ends_in_the_same_state(lands: bool) -> None:
    """Killed at any event, before or after it is written, a resume ends alike.

    No effect that was recorded is made again, and the counts are those of one run.
    """
    whole: Counter[str] = Counter()
    plain = MemoryStore()
    expected = await everything(whole).run({"n": 0}, store=plain, run_id="r")
    count = len(await everything(whole).events("r", store=plain))
    for place in range(2, count + 1):
        mortal, runs = Mortal(), Counter[str]()
        seen = [0]

        def dies(event: Any, seen: list[int] = seen, place: int = place) -> bool:
            seen[0] += 1
            return seen[0] == place

        g = everything(runs)
        with pytest.raises(Crash):
            await g.run({"n": 0}, store=mortal.store(dies, lands=lands), run_id="r")
        store = mortal.store()
        try:
            result = await g.resume("r", store=store, take_over=True)
        except RunNotFound:
            assert place <= 3
            continue
        assert result.state == expected.state
        assert result.total_steps == expected.total_steps
        assert fold(await g.events("r", store=store)) == expected.state
        events = await g.events("r", store=store)
        recorded = [(e.run_id, e.payload["call_id"]) for e in events if e.type == "effect.recorded"]
        assert len(recorded) == len(set(recorded)) == whole.total()
        assert all(whole[name] <= runs[name] <= whole[name] + 1 for name in whole)


# -- questions ------------------------------------------------------------------------------------


async def test_a_pause_in_one_branch_lets_the_others_finish() -> None:
    """Several questions are open at once, in the order of declaration; each is answered alone."""
    runs: Counter[str] = Counter()

    def asking(name: str) -> Any:
        async def step(state: State, ctx: Any) -> Any:
            runs[name] += 1
            answer = await ctx.interrupt({"who": name}, key="ok")
            return {"said": [f"{name} {answer}"]}

        return step

    async def plain(state: State) -> dict[str, Any]:
        runs["plain"] += 1
        return {"said": ["plain"]}

    steps = {"a": asking("a"), "plain": plain, "b": asking("b")}
    g = reviewed(steps, merge={"said": append})
    store = MemoryStore()
    first = await g.run({}, store=store, run_id="r")
    assert first.stop is StopReason.YIELDED
    assert [one.step for one in first.interrupts] == ["a", "b"]
    assert [one.payload for one in first.interrupts] == [{"who": "a"}, {"who": "b"}]
    assert runs == {"a": 1, "b": 1, "plain": 1}
    second = await g.resume("r", answers={first.interrupts[1].id: "no"}, store=store)
    assert second.yielded
    assert [one.step for one in second.interrupts] == ["a"]
    assert second.interrupts[0].id == first.interrupts[0].id
    result = await g.resume("r", answers={first.interrupts[0].id: "yes"}, store=store)
    assert result.state["said"] == ["a yes", "plain", "b no"]
    assert runs["plain"] == 1
    assert result.total_steps == 5


async def test_all_questions_answered_at_once() -> None:
    """One resume may answer the questions of several branches."""
    g = reviewed(
        {name: lambda state, ctx: {"v": [ctx.answer]} if ctx.answer else Ask(1) for name in "ab"},
        merge={"v": append},
    )
    store = MemoryStore()
    first = await g.run({}, store=store, run_id="r")
    ids = [one.id for one in first.interrupts]
    result = await g.resume("r", answers={ids[1]: "y", ids[0]: "x"}, store=store)
    assert result.state["v"] == ["x", "y"]


async def test_an_answer_into_the_state_of_a_branch() -> None:
    """An answer that a branch puts in its state is merged where branches meet."""
    g: Graph[Any] = Graph("g", "split")
    g.add_step("split", lambda state: None, then=["a", "b"])
    g.add_step("a", lambda state: Ask("who?", phase="after", into="who"), then="meet")
    g.add_step("b", lambda state: {"b": 1}, then="meet")
    g.add_step("meet", lambda state: {"seen": state["who"]}, join="all")
    store = MemoryStore()
    first = await g.run({}, store=store, run_id="r")
    result = await g.resume("r", answers={first.interrupts[0].id: "Ada"}, store=store)
    assert result.state == {"who": "Ada", "b": 1, "seen": "Ada"}
    assert fold(await g.events("r", store=store)) == result.state


async def test_an_input_that_comes_while_a_branch_waits_reaches_the_state() -> None:
    """What a caller says besides is seen by the branch that waits and by the merged state."""
    g: Graph[Any] = Graph("g", "split")
    g.add_step("split", lambda state: None, then=["a", "b"])
    g.add_step("a", lambda state, ctx: {"a": state["note"]} if ctx.answer else Ask(1), then="meet")
    g.add_step("b", lambda state: {"b": 1}, then="meet")
    g.add_step("meet", lambda state: {"seen": state["note"]}, join="all")
    store = MemoryStore()
    await g.run({}, store=store, run_id="r")
    result = await g.resume("r", {"note": "hi"}, store=store)
    assert result.state == {"note": "hi", "a": "hi", "b": 1, "seen": "hi"}
    assert fold(await g.events("r", store=store)) == result.state


async def test_pub49_a_router_is_asked_once_per_step() -> None:
    """A decision is a fact: a pause, a resume, a crash never ask the router again."""
    mortal = Mortal()
    asked: Counter[str] = Counter()

    def route(name: str, to: str) -> Any:
        def router(state: State) -> str:
            asked[name] += 1
            return to

        return router

    g: Graph[Any] = Graph("g", "a")
    g.add_step("a", lambda state: {"a": 1}, then=route("a", "b"), targets=["b"])
    g.add_step(
        "b",
        lambda state, ctx: {"b": ctx.answer} if ctx.answer else Ask("?"),
        then=route("b", "c"),
        targets=["c"],
    )
    g.add_step("c", lambda state: {"c": 1}, then=route("c", "d"), targets=["d"])
    g.add_step("d", lambda state: {"d": 1}, then=END)
    first = await g.run({}, store=mortal.store(), run_id="r")
    answers = {first.interrupts[0].id: "x"}
    with pytest.raises(Crash):
        await g.resume("r", answers=answers, store=mortal.store(ends("d")))
    result = await g.resume("r", store=mortal.store(), take_over=True)
    assert result.state == {"a": 1, "b": "x", "c": 1, "d": 1}
    assert asked == {"a": 1, "b": 1, "c": 1}


# -- maps -----------------------------------------------------------------------------------------


def mapped(score: Any, *, merge: Any = None, options: Any = None, **fan: Any) -> Graph[Any]:
    """Make a graph that scores the documents of its state."""
    g: Graph[Any] = Graph("map", "load", merge=merge)
    router = fan_out("score", over="documents", as_="doc", collect="scores", **fan)
    g.add_step("load", lambda state: {"loaded": True}, then=router)
    g.add_step("score", score, then="end", **(options or {}))
    g.add_step("end", lambda state: {"ends": state.get("ends", 0) + 1}, then=END)
    return g


async def test_a_map_collects_in_the_order_of_items_within_its_limit() -> None:
    """At most `limit` items run at once, and all of the limit is used."""
    busy = most = 0
    full = asyncio.Event()

    async def score(state: State) -> dict[str, Any]:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        if busy == 3:
            full.set()
        await full.wait()
        await asyncio.sleep(0)
        busy -= 1
        return {"score": state["doc"] * 10}

    result = await mapped(score, limit=3).run({"documents": list(range(10))})
    assert result.state["scores"] == [{"score": n * 10} for n in range(10)]
    assert most == 3
    assert "doc" not in result.state
    assert "score" not in result.state
    assert result.state["ends"] == 1
    assert result.steps == 12


async def test_a_limit_holds_when_many_items_go_on_at_once() -> None:
    """Answered, retried and fresh items share the places: never more than `limit` run."""
    busy = most = 0

    async def score(state: State, ctx: Any) -> Any:
        nonlocal busy, most
        answer = await ctx.interrupt(state["doc"])
        busy += 1
        most = max(most, busy)
        await asyncio.sleep(0)
        busy -= 1
        return {"s": answer}

    g = mapped(score, take="s", limit=2)
    store = MemoryStore()
    first = await g.run({"documents": list(range(6))}, store=store, run_id="r")
    answers = {one.id: one.payload for one in first.interrupts}
    result = await g.resume("r", answers=answers, store=store)
    assert result.state["scores"] == list(range(6))
    assert most == 2


async def test_a_map_takes_one_key_of_each() -> None:
    """With `take`, the list has that key of each delta, None where there is none."""

    def score(state: State) -> Any:
        return {"score": state["doc"], "more": 1} if state["doc"] else None

    result = await mapped(score, take="score").run({"documents": [1, 0, 3]})
    assert result.state["scores"] == [1, None, 3]
    assert "more" not in result.state


async def test_a_map_merges_its_list_by_the_policy_of_its_key() -> None:
    """The collected list is a delta of its key."""
    g = mapped(lambda state: {"s": state["doc"]}, take="s", merge={"scores": append})
    result = await g.run({"documents": [2, 3], "scores": [1]})
    assert result.state["scores"] == [1, 2, 3]


async def test_a_map_over_nothing_runs_no_step() -> None:
    """An empty list goes on with the router of the step, and collects nothing."""
    runs: list[Any] = []
    g = mapped(lambda state: runs.append(1))
    result = await g.run({"documents": []})
    assert runs == []
    assert result.state == {"documents": [], "loaded": True, "scores": [], "ends": 1}
    assert result.steps == 2


async def test_a_map_asks_the_router_of_its_step_once_on_the_collected_state() -> None:
    """The router of the step sees the list and no item."""
    seen: list[Any] = []

    def route(state: State) -> Any:
        seen.append(dict(state))
        return END

    g: Graph[Any] = Graph("map", "load")
    g.add_step("load", lambda state: None, then=fan_out("score", over="d", as_="x", collect="out"))
    g.add_step("score", lambda state: {"s": state["x"]}, then=route)
    result = await g.run({"d": [1, 2]})
    assert seen == [{"d": [1, 2], "out": [{"s": 1}, {"s": 2}]}]
    assert result.state == seen[0]


async def test_a_map_that_collects_errors() -> None:
    """A failed item is told in the list, and the others are not touched."""

    async def score(state: State) -> dict[str, Any]:
        if state["doc"] == 2:
            raise ValueError("unreadable")
        return {"score": state["doc"]}

    result = await mapped(score, on_error="collect").run({"documents": [1, 2, 3]})
    first, second, third = result.state["scores"]
    assert (first, third) == ({"score": 1}, {"score": 3})
    assert second.keys() == {"error", "index"}
    assert second["index"] == 1
    assert "unreadable" in second["error"]
    assert result.stop is StopReason.COMPLETED


async def test_a_map_that_collects_errors_and_takes_a_key() -> None:
    """A failed item is told whole, even when only one key of the others is taken."""

    def score(state: State) -> dict[str, Any]:
        if state["doc"] == 1:
            raise ValueError("bad")
        return {"score": state["doc"]}

    g = mapped(score, on_error="collect", take="score")
    first, second = (await g.run({"documents": [1, 2]})).state["scores"]
    assert first["index"] == 0
    assert second == 2


async def test_a_map_that_fails_runs_only_what_is_left_on_resume() -> None:
    """By default an item that fails fails the run; finished items are not run again."""
    runs: Counter[int] = Counter()
    broken = [True]

    async def score(state: State) -> dict[str, Any]:
        runs[state["doc"]] += 1
        if state["doc"] == 3 and broken[0]:
            raise ValueError("no")
        return {"score": state["doc"]}

    g = mapped(score, limit=1, take="score")
    store = MemoryStore()
    with pytest.raises(StepFailed) as caught:
        await g.run({"documents": [1, 2, 3, 4]}, store=store, run_id="r")
    assert caught.value.step == "score"
    broken[0] = False
    result = await g.resume("r", store=store)
    assert result.state["scores"] == [1, 2, 3, 4]
    assert runs == {1: 1, 2: 1, 3: 2, 4: 1}
    assert result.total_steps == 6


async def test_a_map_with_an_item_that_retries() -> None:
    """An item that is tried again costs no other step."""
    runs: Counter[int] = Counter()

    async def score(state: State) -> dict[str, Any]:
        runs[state["doc"]] += 1
        if state["doc"] == 2 and runs[2] < 3:
            raise TimeoutError("again")
        return {"s": state["doc"]}

    g = mapped(score, take="s", options={"retry": Retry(attempts=3, delay=0)})
    result = await g.run({"documents": [1, 2, 3]})
    assert result.state["scores"] == [1, 2, 3]
    assert runs == {1: 1, 2: 3, 3: 1}
    assert result.total_steps == 5


@pytest.mark.parametrize("how", ["ask", "interrupt"])
async def test_a_map_with_an_item_that_asks(how: str) -> None:
    """The other items finish; the one that asked goes on with its answer."""
    runs: Counter[int] = Counter()

    async def score(state: State, ctx: Any) -> Any:
        runs[state["doc"]] += 1
        if state["doc"] != 2:
            return {"s": state["doc"]}
        if how == "interrupt":
            return {"s": await ctx.interrupt("how much?")}
        return {"s": ctx.answer} if ctx.answer is not None else Ask("how much?")

    g = mapped(score, take="s")
    store = MemoryStore()
    first = await g.run({"documents": [1, 2, 3]}, store=store, run_id="r")
    assert first.yielded
    assert [one.step for one in first.interrupts] == ["score"]
    assert "scores" not in first.state
    result = await g.resume("r", answers={first.interrupts[0].id: 20}, store=store)
    assert result.state["scores"] == [1, 20, 3]
    assert runs == {1: 1, 2: 2, 3: 1}


async def test_a_map_where_every_item_asks_more_than_its_limit() -> None:
    """An item that waits gives its place up: all of them ask, and all are answered at once."""

    async def score(state: State, ctx: Any) -> Any:
        return {"s": await ctx.interrupt(state["doc"])}

    g = mapped(score, take="s", limit=2)
    store = MemoryStore()
    first = await g.run({"documents": [1, 2, 3]}, store=store, run_id="r")
    assert [one.payload for one in first.interrupts] == [1, 2, 3]
    answers = {one.id: one.payload * 10 for one in first.interrupts}
    result = await g.resume("r", answers=answers, store=store)
    assert result.state["scores"] == [10, 20, 30]


async def test_a_crash_in_one_item_leaves_the_ends_of_the_others() -> None:
    """Killed at the end of the third item: the first two are not run again."""
    mortal = Mortal()
    runs: Counter[int] = Counter()

    async def score(state: State) -> dict[str, Any]:
        runs[state["doc"]] += 1
        return {"s": state["doc"]}

    g = mapped(score, take="s", limit=1)
    dying = mortal.store(ends("load.2/score/1"))
    with pytest.raises(Crash):
        await g.run({"documents": [1, 2, 3, 4]}, store=dying, run_id="r")
    result = await g.resume("r", store=mortal.store(), take_over=True)
    assert result.state["scores"] == [1, 2, 3, 4]
    assert runs == {1: 1, 2: 1, 3: 2, 4: 1}
    assert result.total_steps == 6


async def test_a_map_in_a_branch() -> None:
    """A split over a list may be inside a branch."""
    g: Graph[Any] = Graph("g", "split")
    g.add_step("split", lambda state: None, then=["load", "other"])
    router = fan_out("score", over="docs", as_="doc", collect="scores", take="s")
    g.add_step("load", lambda state: {"docs": [1, 2]}, then=router)
    g.add_step("score", lambda state: {"s": state["doc"] + 1}, then="meet")
    g.add_step("other", lambda state: {"other": 1}, then="meet")
    g.add_step("meet", lambda state: {"sum": sum(state["scores"])}, join="all")
    result = await g.run({})
    assert result.state == {"docs": [1, 2], "scores": [2, 3], "other": 1, "sum": 5}


async def test_a_map_over_something_that_is_no_list() -> None:
    """A missing key, or another type, stops the run at the router."""
    with pytest.raises(RouteError):
        await mapped(lambda state: None).run({"documents": 3})
    with pytest.raises(RouteError):
        await mapped(lambda state: None).run({})


async def test_a_map_that_is_reached_twice() -> None:
    """Another occurrence of the split collects anew."""
    g: Graph[Any] = Graph("g", "load", merge={"n": add})
    g.add_step(
        "load",
        lambda state: {"n": 1, "docs": [state.get("n", 0)] * 2},
        then=fan_out("score", over="docs", as_="doc", collect="scores", take="s"),
    )
    g.add_step(
        "score",
        lambda state: {"s": state["doc"]},
        then=lambda state: "load" if state["n"] < 2 else END,
        targets=["load"],
    )
    result = await g.run({})
    assert result.state["scores"] == [1, 1]
    assert result.total_steps == 6


@pytest.mark.parametrize("wrong", [{"limit": 0}, {"on_error": "ignore"}])
def test_wrong_options_of_a_map(wrong: dict[str, Any]) -> None:
    """A wrong option is refused at the call."""
    with pytest.raises(ValueError, match=next(iter(wrong))):
        fan_out("s", over="a", as_="b", collect="c", **wrong)


# -- limits ---------------------------------------------------------------------------------------


async def test_max_iterations_counts_parallel_steps() -> None:
    """Five occurrences are needed and four are allowed: the last one is not started."""
    g = reviewed({n: says(n) for n in NAMES}, merge={"said": append}, max_iterations=4)
    with pytest.raises(MaxIterationsExceeded) as caught:
        await g.run({}, store=MemoryStore())
    result = caught.value.result
    assert result.stop is StopReason.MAX_ITERATIONS
    assert result.steps == result.total_steps == 4


@pytest.mark.parametrize("limit", [1, 2, 3, 4])
async def test_a_limit_inside_a_split_never_starts_more_than_it_allows(limit: int) -> None:
    """Whatever the limit, as many steps ran as it allows, none more."""
    runs: Counter[str] = Counter()

    def step(name: str) -> Any:
        async def run(state: State) -> dict[str, Any]:
            runs[name] += 1
            return {"said": [name]}

        return run

    g = reviewed({n: step(n) for n in NAMES}, merge={"said": append}, step_budget=limit)
    with pytest.raises(BudgetExhausted) as caught:
        await g.run({}, store=MemoryStore())
    result = caught.value.result
    assert result.stop is StopReason.BUDGET
    assert result.budget_left == limit - result.total_steps
    assert result.total_steps <= limit
    assert sum(runs.values()) <= limit - 1


async def test_each_item_is_one_step_for_the_budget() -> None:
    """A map of four items and two steps around it fit a budget of six, and no less."""
    g = mapped(lambda state: {"s": 1}, take="s")
    with StepBudget(6) as budget:
        result = await g.run({"documents": [1, 2, 3, 4]})
    assert result.stop is StopReason.COMPLETED
    assert (budget.used, budget.left) == (6, 0)
    with StepBudget(5), pytest.raises(BudgetExhausted):
        await g.run({"documents": [1, 2, 3, 4]})


async def test_a_cancel_while_branches_run() -> None:
    """Cancelling the run cancels every branch, and the call returns."""
    started = asyncio.Barrier(3)
    cut: list[str] = []

    def step(name: str) -> Any:
        async def run(state: State) -> dict[str, Any]:
            await started.wait()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cut.append(name)
                raise
            return {}

        return run

    g = reviewed({"a": step("a"), "b": step("b")})
    store = MemoryStore()
    task = asyncio.create_task(g.run({}, store=store, run_id="r"))
    await started.wait()
    assert await g.cancel("r", store=store)
    result: RunResult[Any] = await task
    assert result.stop is StopReason.CANCELLED
    assert sorted(cut) == ["a", "b"]


async def test_a_cancelled_task_while_branches_run_leaves_the_run_resumable() -> None:
    """The branches that were cut are run again, the rest is not."""
    started = asyncio.Barrier(3)
    hold = [True]
    runs: Counter[str] = Counter()

    def step(name: str) -> Any:
        async def run(state: State) -> dict[str, Any]:
            runs[name] += 1
            if hold[0]:
                await started.wait()
                await asyncio.Event().wait()
            return {"said": [name]}

        return run

    g = reviewed({"a": step("a"), "b": step("b")}, merge={"said": append})
    store = MemoryStore()
    task = asyncio.create_task(g.run({}, store=store, run_id="r"))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    hold[0] = False
    result = await g.resume("r", store=store)
    assert result.state["said"] == ["a", "b"]
    assert runs == {"a": 2, "b": 2}


async def test_the_fold_of_every_prefix_is_the_state_there() -> None:
    """With branches, a map and questions, each prefix folds to what `state_at` says."""
    g: Graph[Any] = Graph("g", "split", merge={"said": append, "tags": union})
    g.add_step("split", says("split"), then=["load", "b"])
    router = fan_out("score", over="docs", as_="doc", collect="scores", take="s")
    g.add_step("load", lambda state: {"docs": [1, 2], "tags": ["l"]}, then=router)
    g.add_step("score", lambda state: {"s": state["doc"]}, then="meet")
    g.add_step(
        "b", lambda state: Ask("b?", phase="after", update={"tags": ["b"]}, into="b"), then="meet"
    )
    g.add_step("meet", says("meet"), join="all")
    store = MemoryStore()
    first = await g.run({}, store=store, run_id="r")
    await g.resume("r", answers={first.interrupts[0].id: 5}, store=store)
    events: list[GraphEvent] = await g.events("r", store=store)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    for count in range(1, len(events) + 1):
        assert fold(events[:count]) == await g.state_at("r", count, store=store)
    state = fold(events)
    assert state["scores"] == [1, 2]
    assert state["b"] == 5


@pytest.mark.parametrize("sent", [{"__x": 1}, {1: 2}])
async def test_a_send_has_keys_of_a_state(sent: Any) -> None:
    """A reserved key and a key that is no text are refused in the input of a branch too."""
    g: Graph[Any] = Graph("g", "split")
    g.add_step("split", lambda state: None, then=lambda state: [Send("each", sent)])
    g.add_step("each", lambda state: None)
    with pytest.raises(RouteError):
        await g.run({})
    g.add_step("split", lambda state: Goto([Send("each", sent)]), replace=True)
    with pytest.raises((ReservedKey, NotSerializable)):
        await g.run({})
