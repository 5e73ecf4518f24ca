"""A process that dies, two that want the same run, and what is done with what is left."""

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from loom_ia.core.events.envelope import Event
from loom_ia.engine.values import JournalStore
from loom_ia.graph import (
    END,
    Ask,
    Graph,
    HookAborted,
    Hooks,
    MemoryStore,
    NotResumable,
    RunLocked,
    RunNotFound,
    SQLiteStore,
    StepFailed,
    StopReason,
    Store,
    UnknownEffect,
    UnknownInterrupt,
    add,
    condition,
)
from loom_ia.testing import Crash, Host, ManualClock, crash_everywhere
from tests.graph.mortal import Mortal, ends, is_type

State = dict[str, Any]
Flow = Graph[State]
ROOT = Path(__file__).parents[2]


def line(ran: Counter[str], *names: str, keys: list[str] | None = None, **options: Any) -> Flow:
    """Make a graph of steps in a row, which count how often they run."""
    graph: Flow = Graph("line", merge={"n": add}, **options)
    for name, then in zip(names, [*names[1:], END], strict=True):

        async def step(state: State, ctx: Any, name: str = name) -> State:
            ran[name] += 1
            if keys is not None:
                keys.append(ctx.idempotency_key)
            return {"n": 1}

        graph.add_step(name, step, then)
    return graph


async def died(graph: Flow, world: Mortal, fatal: Callable[[Event], bool], **more: Any) -> None:
    """Run a graph in a process that dies of a fact."""
    with pytest.raises(Crash):
        await graph.run(store=world.store(fatal, **more), run_id="run")


# -- what is run again ----------------------------------------------------------------------------


async def test_w01_a_run_goes_on_after_its_last_finished_step() -> None:
    """Only the step that the process died in is run again, under the same key."""
    ran, keys, world = Counter[str](), list[str](), Mortal()
    graph = line(ran, "a", "b", "c", "d", keys=keys)
    await died(graph, world, ends("d"))
    result = await graph.resume("run", store=world.store(), take_over=True)
    assert ran == {"a": 1, "b": 1, "c": 1, "d": 2}
    assert keys[-1] == keys[-2] != keys[-3]
    assert (result.state, result.steps, result.total_steps) == ({"n": 4}, 1, 4)


async def test_w01_a_step_whose_end_is_written_is_not_run_again() -> None:
    """Dying right after the end of a step was written costs nothing."""
    ran, world = Counter[str](), Mortal()
    graph = line(ran, "a", "b", "c")
    await died(graph, world, ends("b"), lands=True)
    result = await graph.resume("run", store=world.store(), take_over=True)
    assert ran == {"a": 1, "b": 1, "c": 1}
    assert (result.state, result.steps) == ({"n": 3}, 1)


async def test_a_run_whose_first_fact_is_not_written_did_not_begin() -> None:
    """A process that dies before it wrote anything leaves a free id, and nothing ran."""
    ran, world = Counter[str](), Mortal()
    graph = line(ran, "a")
    await died(graph, world, is_type("run.started"))
    assert not ran
    with pytest.raises(RunNotFound):
        await graph.resume("run", store=world.store(), take_over=True)
    assert (await graph.run(store=world.store(), run_id="run")).state == {"n": 1}


async def test_w02_a_completed_run_is_only_returned() -> None:
    """Resuming a run that is completed runs nothing and gives what is recorded."""
    ran, store = Counter[str](), MemoryStore()
    graph = line(ran, "a", "b")
    first = await graph.run(store=store)
    again = await graph.resume(first.run_id, {"n": 5}, store=store)
    assert (again.state, again.steps, again.stop) == (first.state, 0, StopReason.COMPLETED)
    assert ran == {"a": 1, "b": 1}
    with pytest.raises(UnknownInterrupt):
        await graph.resume(first.run_id, answers={"x": 1}, store=store)


@pytest.mark.parametrize("side_effects", ["reversible", "irreversible"])
async def test_w03_an_interrupted_step_that_acts_is_never_run_blindly(side_effects: str) -> None:
    """Its effect is unknown: the run says so at each resume, and the step is not run again."""
    ran, world = Counter[str](), Mortal()
    graph: Flow = Graph("acting")

    @graph.step(side_effects=side_effects)
    async def act(state: State) -> None:
        ran["act"] += 1

    await died(graph, world, ends("act"))
    for _ in range(3):
        with pytest.raises(UnknownEffect) as caught:
            await graph.resume("run", store=world.store(), take_over=True)
        assert caught.value.step == "act"
        assert caught.value.key is None
        assert caught.value.result.stop is StopReason.ERROR
        assert caught.value.result.failed_step == "act"
    assert ran == {"act": 1}


async def test_w03_an_interrupted_step_that_is_idempotent_is_run_again() -> None:
    """What may be repeated is, under the same key."""
    keys, world = list[str](), Mortal()
    graph: Flow = Graph("acting")

    @graph.step(side_effects="irreversible", idempotent=True)
    async def act(state: State, ctx: Any) -> State:
        keys.append(ctx.idempotency_key)
        return {"done": True}

    await died(graph, world, ends("act"))
    result = await graph.resume("run", store=world.store(), take_over=True)
    assert result.state == {"done": True}
    assert len(keys) == 2
    assert len(set(keys)) == 1


def asking_about(ran: list[str]) -> Flow:
    """Make a graph whose step acts, and asks a human when its effect is unknown."""
    graph: Flow = Graph("acting")

    @graph.step(side_effects="irreversible", on_unknown="pause", then="after")
    async def act(state: State, ctx: Any) -> State:
        ran.append(ctx.idempotency_key)
        return {"acted": True}

    @graph.step()
    async def after(state: State) -> State:
        return {"after": True}

    return graph


async def test_w03_a_human_lets_an_unknown_step_be_run_once_more() -> None:
    """Approved, the step runs again once, under the key of its first execution."""
    ran, world = list[str](), Mortal()
    graph = asking_about(ran)
    await died(graph, world, ends("act"))
    store = world.store()
    paused = await graph.resume("run", store=store, take_over=True)
    assert paused.yielded
    (asked,) = paused.interrupts
    assert (asked.kind, asked.step, asked.path) == ("unknown_effect", "act", ("act",))
    assert len(ran) == 1
    result = await graph.resume("run", answers={asked.id: {"approved": True}}, store=store)
    assert result.state == {"acted": True, "after": True}
    assert len(ran) == 2
    assert ran[0] == ran[1]


async def test_w03_an_approval_covers_one_more_execution_only() -> None:
    """A step that is interrupted once more after the approval asks again."""
    ran, world = list[str](), Mortal()
    graph = asking_about(ran)
    await died(graph, world, ends("act"))
    paused = await graph.resume("run", store=world.store(), take_over=True)
    yes = {paused.interrupts[0].id: {"approved": True}}
    with pytest.raises(Crash):
        await graph.resume("run", answers=yes, store=world.store(ends("act")))
    again = await graph.resume("run", store=world.store(), take_over=True)
    assert [asked.kind for asked in again.interrupts] == ["unknown_effect"]
    assert again.interrupts[0].id != paused.interrupts[0].id
    assert len(ran) == 2


async def test_w03_a_refusal_fails_the_step() -> None:
    """Refused, the step is not run, and the run fails there with the reason."""
    ran, world = list[str](), Mortal()
    graph = asking_about(ran)
    await died(graph, world, ends("act"))
    store = world.store()
    paused = await graph.resume("run", store=store, take_over=True)
    no = {paused.interrupts[0].id: {"approved": False, "reason": "it was sent"}}
    with pytest.raises(StepFailed, match="it was sent") as caught:
        await graph.resume("run", answers=no, store=store)
    assert caught.value.result.failed_step == "act"
    assert len(ran) == 1


async def test_a_step_that_raised_has_an_outcome() -> None:
    """A step that acts and raised may be run again: nobody missed its end."""
    ran, store = Counter[str](), MemoryStore()
    graph: Flow = Graph("acting")

    @graph.step(side_effects="irreversible")
    async def act(state: State) -> State:
        ran["act"] += 1
        if ran["act"] == 1:
            raise ConnectionError("refused")
        return {"acted": True}

    with pytest.raises(StepFailed) as caught:
        await graph.run(store=store)
    result = await graph.resume(caught.value.run_id, store=store)
    assert result.state == {"acted": True}
    assert ran == {"act": 2}


async def test_w05_a_delta_is_durable_before_the_hooks() -> None:
    """A hook that raises loses no delta; on resume only the hooks are asked again."""
    ran, store, refusing = Counter[str](), MemoryStore(), [True]

    async def check(step: str, state: State) -> None:
        ran[f"hook {step}"] += 1
        if step == "b" and refusing:
            raise RuntimeError("no")

    graph = line(ran, "a", "b", "c", hooks=Hooks(after=[check]))
    with pytest.raises(HookAborted) as caught:
        await graph.run(store=store)
    assert caught.value.result.state == {"n": 2}
    refusing.clear()
    result = await graph.resume(caught.value.run_id, store=store)
    assert result.state == {"n": 3}
    assert ran == {"a": 1, "b": 1, "c": 1, "hook a": 1, "hook b": 2, "hook c": 1}


async def test_w06_a_child_goes_on_at_its_pause_after_a_crash() -> None:
    """A crash between the answer and the end of a child runs nothing of it twice."""
    ran, world = Counter[str](), Mortal()
    child: Flow = Graph("child", "pre")

    @child.step(then="ask")
    async def pre(state: State) -> State:
        ran["pre"] += 1
        return {"draft": "text"}

    @child.step()
    async def ask(state: State, ctx: Any) -> State:
        ran["ask"] += 1
        return {"said": await ctx.interrupt(state["draft"])}

    parent: Flow = Graph("parent", "child")
    parent.add_step("child", child.as_step())
    paused = await parent.run(store=world.store(), run_id="run")
    yes = {paused.interrupts[0].id: "yes"}
    with pytest.raises(Crash):
        await parent.resume("run", answers=yes, store=world.store(ends("ask")))
    result = await parent.resume("run", store=world.store(), take_over=True)
    assert result.state == {"draft": "text", "said": "yes"}
    assert ran == {"pre": 1, "ask": 3}


async def test_w11_a_pause_without_a_store_is_an_error() -> None:
    """A pause that nobody can go on with is told at once, with the result."""
    graph: Flow = Graph("asking")
    graph.add_step("ask", lambda state: Ask("Which?"))
    with pytest.raises(NotResumable) as caught:
        await graph.run()
    assert caught.value.result.yielded


async def test_w27_a_route_that_is_written_is_not_taken_twice() -> None:
    """A router that draws lots is asked once, though the process dies right after."""
    drawn, ran, world = list[str](), Counter[str](), Mortal()
    graph = line(ran, "a", "left", "right")

    def draw(state: State) -> str:
        drawn.append(("right", "left")[len(drawn) % 2])
        return drawn[-1]

    graph.add_step("a", lambda state: {"n": 1}, draw, targets=["left", "right"], replace=True)
    await died(graph, world, is_type("graph.routed"), lands=True)
    await graph.resume("run", store=world.store(), take_over=True)
    assert drawn == ["right"]
    assert ran == {"right": 1}


async def test_a_crash_costs_no_budget_and_no_iteration() -> None:
    """What an execution after a crash costs was paid before."""
    ran, world = Counter[str](), Mortal()
    graph = line(ran, "a", "b", "c", step_budget=3, max_iterations=3)
    await died(graph, world, ends("b"))
    with pytest.raises(Crash):
        await graph.resume("run", store=world.store(ends("b")), take_over=True)
    result = await graph.resume("run", store=world.store(), take_over=True)
    assert ran == {"a": 1, "b": 3, "c": 1}
    assert (result.budget_left, result.steps, result.total_steps) == (0, 2, 3)


# -- the shorthand --------------------------------------------------------------------------------


async def test_a_graph_alone_is_a_scenario() -> None:
    """`crash_everywhere(graph, input)` crashes the run of a graph at each of its writes."""
    ran = Counter[str]()
    report = await crash_everywhere(line(ran, "a", "b"), {"n": 1})
    assert report.ok, report
    assert report.points == 2 * len(report.writes)
    assert ran["a"] > 2


async def test_questions_of_a_graph_are_answered() -> None:
    """With `answer`, what a graph asks is answered in every life."""
    graph: Flow = Graph("asking")

    @graph.step(side_effects="irreversible", on_unknown="pause")
    async def ask(state: State, ctx: Any) -> State:
        return {"said": await ctx.interrupt("Which?")}

    def answer(asked: Any) -> Any:
        return "this" if asked.kind == "input" else {"approved": True}

    report = await crash_everywhere(graph, answer=answer, level="power")
    assert report.ok, report


async def test_a_graph_whose_end_depends_on_its_lives_diverges() -> None:
    """A step that gives something else when it runs again is found, and the key is named."""
    ran = Counter[str]()
    graph: Flow = Graph("counting")

    @graph.step()
    async def tick(state: State) -> State:
        ran["tick"] += 1
        return {"ticks": ran["tick"]}

    report = await crash_everywhere(graph)
    assert not report.ok
    assert "other values of ticks" in str(report)
    assert report.shortest
    assert len(report.shortest.points) == 1


async def test_an_effect_that_is_made_twice_is_found() -> None:
    """An effect that a step makes outside of its declaration happens too often."""
    sent = Counter[str]()
    graph: Flow = Graph("sending")

    @graph.step()
    async def send(state: State) -> None:
        sent["letter"] += 1

    report = await crash_everywhere(graph, effects=lambda: sent)
    assert "the effect letter happened 2 times, and 1 at most was due" in str(report)


async def test_a_scenario_may_drive_graphs_on_its_host() -> None:
    """A scenario drives a graph by `host.drive`, or with the store of its host."""
    ran = Counter[str]()
    graph = line(ran, "a", "b")

    async def scenario(host: Host) -> None:
        result = await host.drive(graph, {"n": 1}, run_id="r1")
        assert result.state == {"n": 3}
        assert await graph.events("r1", store=host.store)

    report = await crash_everywhere(scenario)
    assert report.ok, report


async def test_runs_that_a_dead_host_left_are_recovered() -> None:
    """`recover` is enough to go on after any crash that left a run."""
    graph = line(Counter[str](), "a", "b")

    async def scenario(host: Host) -> None:
        await host.drive(graph)

    async def resume(host: Host) -> None:
        if not await graph.recover(store=host.store):
            await host.drive(graph)

    report = await crash_everywhere(scenario, resume=resume)
    assert report.ok, report


async def test_an_input_without_a_graph_is_refused() -> None:
    """Only a graph takes an input."""

    async def scenario(host: Host) -> None:
        del host

    with pytest.raises(TypeError, match="those of a graph"):
        await crash_everywhere(scenario, {"n": 1})


async def test_a_failure_is_an_end_like_another() -> None:
    """A run that fails fails the same after any crash."""
    graph: Flow = Graph("failing")

    @graph.step(then="break_")
    async def begin(state: State, ctx: Any) -> State:
        async def one() -> int:
            return 1

        return {"n": await ctx.effect("one", one)}

    @graph.step()
    async def break_(state: State) -> None:
        raise ValueError("broken")

    report = await crash_everywhere(graph)
    assert report.ok, report


# -- who drives -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_w10_one_of_two_drives_a_paused_run(kind: str, tmp_path: Path) -> None:
    """Of two who answer at once exactly one drives; the other is refused and runs nothing."""
    ran = Counter[str]()
    release, inside = asyncio.Event(), asyncio.Event()
    graph: Flow = Graph("asking")

    @graph.step()
    async def ask(state: State, ctx: Any) -> State:
        said = await ctx.interrupt("Which?")
        ran[said] += 1
        inside.set()
        await release.wait()
        return {"said": said}

    stores: list[Store] = [MemoryStore()] * 2
    if kind == "sqlite":
        stores = [SQLiteStore(tmp_path / "runs.db"), SQLiteStore(tmp_path / "runs.db")]
    paused = await graph.run(store=stores[0])
    question = paused.interrupts[0].id

    async def resume(store: Store, said: str) -> Any:
        return await graph.resume(paused.run_id, answers={question: said}, store=store)

    tasks = [asyncio.create_task(resume(s, w)) for s, w in zip(stores, ("one", "two"), strict=True)]
    (loser,), (winner,) = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    await inside.wait()
    assert isinstance(loser.exception(), RunLocked | UnknownInterrupt)
    with pytest.raises(RunLocked):
        await resume(stores[0], "three")
    release.set()
    result = await winner
    assert ran == {result.state["said"]: 1}
    with pytest.raises(UnknownInterrupt):
        await resume(stores[1], "late")
    for store in stores:
        if isinstance(store, SQLiteStore):
            await store.aclose()


async def test_w10_a_run_under_a_lease_is_locked_at_once() -> None:
    """Whoever finds a live driver executes and writes nothing."""
    ran, world = Counter[str](), Mortal()
    graph = line(ran, "a", "b")
    await died(graph, world, ends("b"))
    store = world.store()
    before = await graph.events("run", store=store)
    with pytest.raises(RunLocked):
        await graph.resume("run", store=store)
    assert await graph.events("run", store=store) == before
    assert ran == {"a": 1, "b": 1}


async def test_w10_a_lease_that_is_over_locks_nobody_out() -> None:
    """Once the lease of the dead driver is over, no word is needed to go on."""
    ran, world, clock = Counter[str](), Mortal(), ManualClock()
    graph = line(ran, "a", "b", lease=30)
    store = world.store(ends("b"))
    store.clock = clock
    with pytest.raises(Crash):
        await graph.run(store=store, run_id="run")
    store = JournalStore(world.journal, clock=clock)
    clock.advance(timedelta(seconds=29))
    with pytest.raises(RunLocked):
        await graph.resume("run", store=store)
    assert await graph.recover(store=store) == []
    clock.advance(timedelta(seconds=2))
    assert (await graph.resume("run", store=store)).state == {"n": 2}


async def test_taking_over_stops_the_former_driver() -> None:
    """A driver whose run was taken over stops at its next fact, and its delta is not kept."""
    ran, store = Counter[str](), MemoryStore()
    inside, release = asyncio.Event(), asyncio.Event()
    graph: Flow = Graph("slow", "a")

    @graph.step("a", then="b")
    async def slow(state: State) -> State:
        ran["a"] += 1
        if ran["a"] == 1:
            inside.set()
            await release.wait()
        return {"by": ran["a"]}

    @graph.step("b")
    async def last(state: State) -> None:
        ran["b"] += 1

    former = asyncio.create_task(graph.run(store=store, run_id="run"))
    await inside.wait()
    with pytest.raises(RunLocked):
        await graph.resume("run", store=store)
    result = await graph.resume("run", store=store, take_over=True)
    assert result.state == {"by": 2}
    release.set()
    with pytest.raises(RunLocked):
        await former
    assert ran == {"a": 2, "b": 1}
    assert (await graph.resume("run", store=store)).state == {"by": 2}


async def test_a_lease_is_handed_back_however_a_call_ends() -> None:
    """After a pause, a failure and a cancelled task, nobody has to take over."""
    inside, fails = asyncio.Event(), [True]
    store = MemoryStore()
    graph: Flow = Graph("many", "ask")

    @graph.step(then="break_")
    async def ask(state: State, ctx: Any) -> State:
        return {"said": await ctx.interrupt("Which?")}

    @graph.step(then="hang")
    async def break_(state: State) -> None:
        if fails:
            raise ValueError("once")

    @graph.step()
    async def hang(state: State) -> None:
        inside.set()
        await asyncio.Event().wait()

    paused = await graph.run(store=store, run_id="run")
    with pytest.raises(StepFailed):
        await graph.resume("run", answers={paused.interrupts[0].id: "x"}, store=store)
    fails.clear()
    for _ in range(2):
        inside.clear()
        task = asyncio.create_task(graph.resume("run", store=store))
        await inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert await graph.cancel("run", store=store)


async def test_recover_takes_up_what_a_dead_driver_left() -> None:
    """Runs that are closed, failed, paused or driven are left alone; the others go on."""
    ran, clock = Counter[str](), ManualClock()
    world, inside, release = Mortal(), asyncio.Event(), asyncio.Event()
    graph: Flow = Graph("many", "begin")

    @graph.step(then=condition(lambda s: s["how"] == "asks", "ask", "work"))
    async def begin(state: State) -> None:
        ran["begin"] += 1

    @graph.step()
    async def ask(state: State, ctx: Any) -> State:
        return {"said": await ctx.interrupt()}

    @graph.step()
    async def work(state: State) -> State:
        if state["how"] == "fails":
            raise ValueError("no")
        if state["how"] == "is driven":
            inside.set()
            await release.wait()
        return {"done": True}

    def process(fatal: Any = None) -> JournalStore:
        store = world.store(fatal)
        store.clock = clock
        return store

    store = process()
    await graph.run({"how": "ends"}, store=store, run_id="ends")
    await graph.run({"how": "asks"}, store=store, run_id="asks")
    await graph.run({"how": "fails"}, store=store, run_id="fails", raise_on_error=False)
    for name in ("one", "two"):
        with pytest.raises(Crash):
            await graph.run({"how": "dies"}, store=process(ends("work")), run_id=name)
    clock.advance(120)
    driven = asyncio.create_task(graph.run({"how": "is driven"}, store=store, run_id="driven"))
    await inside.wait()
    other: Flow = Graph("other")
    other.add_step("a", lambda state: {"a": 1})
    assert await other.recover(store=store) == []
    results = await graph.recover(store=store)
    assert sorted(result.run_id for result in results) == ["one", "two"]
    assert all(result.state["done"] for result in results)
    assert await graph.recover(store=store) == []
    release.set()
    await driven
    assert ran["begin"] == 6


# -- real processes -------------------------------------------------------------------------------

CHILD = """
import asyncio, sys
from loom_ia.graph import END, Graph, SQLiteStore

graph = Graph("line", "a")

@graph.step(then="b")
async def a(state):
    print("a", flush=True)
    return {"a": 1}

@graph.step(then=END)
async def b(state, ctx):
    print("b", ctx.idempotency_key, flush=True)
    if sys.argv[2] == "hang":
        await asyncio.Event().wait()
    return {"b": 1}

async def main():
    async with SQLiteStore(sys.argv[1]) as store:
        if sys.argv[2] == "hang":
            await graph.run(store=store, run_id="run")
        else:
            result = await graph.resume("run", store=store, take_over=sys.argv[2] == "take")
            print(result.state, result.steps)

asyncio.run(main())
"""


def process(script: Path, file: Path, how: str) -> "subprocess.Popen[str]":
    """Start a process that drives the run."""
    return subprocess.Popen(
        [sys.executable, str(script), str(file), how], stdout=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize("how", ["free", "take"])
def test_a_killed_process_leaves_a_run_that_goes_on(how: str, tmp_path: Path) -> None:
    """After a real `kill -9` in a step, another process goes on at once, its lock being free."""
    script, file = tmp_path / "child.py", tmp_path / "runs.db"
    script.write_text(CHILD)
    with process(script, file, "hang") as child:
        assert child.stdout
        before = [child.stdout.readline().split() for _ in range(2)]
        os.kill(child.pid, signal.SIGKILL)
    with process(script, file, how) as child:
        assert child.stdout
        said = child.stdout.read().splitlines()
    assert child.returncode == 0
    assert before[0] == ["a"]
    assert said == [" ".join(before[1]), "{'a': 1, 'b': 1} 1"]


def test_a_process_that_lives_keeps_its_run(tmp_path: Path) -> None:
    """While the driver lives, another process is refused."""
    script, file = tmp_path / "child.py", tmp_path / "runs.db"
    script.write_text(CHILD)
    with process(script, file, "hang") as child:
        assert child.stdout
        for _ in range(2):
            child.stdout.readline()
        refused = subprocess.run(
            [sys.executable, str(script), str(file), "free"],
            capture_output=True,
            text=True,
            check=False,
        )
        child.kill()
    assert refused.returncode == 1
    assert "RunLocked" in refused.stderr
    assert refused.stdout == ""
