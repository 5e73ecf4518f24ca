"""Where runs are kept: stores of ours and of others, checkpoints, and what is left of old ones."""

import asyncio
import json
import logging
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from loom_ia.core.errors import NewerJournal
from loom_ia.core.events.envelope import Event
from loom_ia.graph import (
    END,
    Ask,
    CheckpointFailed,
    CorruptCheckpoint,
    Durability,
    Graph,
    GraphChanged,
    KeyNotFound,
    MemoryStore,
    RunExists,
    RunLocked,
    RunNotFound,
    SQLiteStore,
    StepFailed,
    StopReason,
    Store,
    StoreError,
    UnknownInterrupt,
    add,
    append,
    ask_human,
    condition,
    decode,
    encode,
)
from tests.graph.five_methods import Five

State = dict[str, Any]
Flow = Graph[State]


def row(ran: Counter[str], **options: Any) -> Flow:
    """Make a graph of three steps in a row, which count how often they run."""
    graph: Flow = Graph("row", merge={"n": add, "log": append}, **options)
    for name, then in (("a", "b"), ("b", "c"), ("c", END)):

        async def step(state: State, name: str = name) -> State:
            ran[name] += 1
            return {"n": 1, "log": [name]}

        graph.add_step(name, step, then)
    return graph


def counting(to: int, **options: Any) -> Flow:
    """Make a graph of one step that counts."""
    graph: Flow = Graph("count", "tick", **options)

    async def tick(state: State) -> State:
        return {"n": state.get("n", 0) + 1}

    graph.add_step("tick", tick, condition(lambda state: state["n"] < to, "tick", END))
    return graph


async def checkpoint(store: Store, graph: str, run_id: str) -> dict[str, Any]:
    """Read a checkpoint as anybody may."""
    return decode(await store.get(f"checkpoint:{graph}", run_id))


# -- a store of somebody else's -------------------------------------------------------------------


async def test_a_store_with_five_methods_is_enough() -> None:
    """A run is kept, paused, gone on with, read and forked in any store with the five methods."""
    store, ran = Five(), Counter[str]()
    graph: Flow = Graph("mine", "a")

    @graph.step(then="b")
    async def a(state: State) -> State:
        ran["a"] += 1
        return {"a": 1}

    @graph.step()
    async def b(state: State, ctx: Any) -> State:
        return {"b": await ctx.interrupt("Which?")}

    paused = await graph.run(store=store, run_id="run")
    last = (await graph.events("run", store=store))[-1].seq
    assert await store.list("journal:mine") == [f"run/{n:012}" for n in range(1, last + 1)]
    kept = await checkpoint(store, "mine", "run")
    assert kept.keys() == {"run_id", "graph", "last_step", "state", "seq", "stop", "saved_at"}
    assert (kept["last_step"], kept["state"], kept["stop"]) == ("b", {"a": 1}, "yielded")
    assert kept["seq"] == last
    answers = {paused.interrupts[0].id: 2}
    result = await graph.resume("run", answers=answers, store=store)
    assert result.state == {"a": 1, "b": 2}
    assert (await checkpoint(store, "mine", "run"))["stop"] == "completed"
    first = (await graph.history("run", store=store))[0]
    forked = await graph.fork("run", at=first.seq, store=store, new_run_id="fork")
    assert forked.yielded
    assert await graph.cancel("fork", store=store)
    assert (await checkpoint(store, "mine", "fork"))["stop"] == "cancelled"
    assert [c.step for c in await graph.history("run", store=store)] == ["a", "b", "b"]
    with pytest.raises(RunExists):
        await graph.run(store=store, run_id="run")
    with pytest.raises(RunNotFound):
        await graph.resume("none", store=store)
    assert ran == {"a": 1}


async def test_children_are_kept_under_the_root() -> None:
    """Events of a child are keys of the root's run, in the namespace of the root's graph."""
    store = Five()
    child: Flow = Graph("child", "x")
    child.add_step("x", lambda state: {"x": 1})
    parent: Flow = Graph("parent", "c")
    parent.add_step("c", child.as_step())
    await parent.run(store=store, run_id="run")
    events = await parent.events("run", store=store)
    keys = await store.list("journal:parent")
    assert keys == [f"run/{event.seq:012}" for event in events]
    assert {event.run_id for event in events} == {"run", "run/c/1"}
    assert not await store.list("journal:child")
    assert await store.list("checkpoint:child") == []
    assert await store.list("checkpoint:parent") == ["run"]


async def test_a_key_of_the_journal_is_never_written_over() -> None:
    """A batch is written in one transaction, and no event replaces another."""
    store, written = Five(), Counter[str]()

    def look(what: str, ns: str, key: str) -> None:
        if what == "put" and ns.startswith("journal:"):
            written[key] += 1

    store.trouble = look
    await counting(5).run(store=store, run_id="run")
    assert set(written.values()) == {1}


async def test_w25_a_store_that_cannot_be_read_is_not_an_unknown_run() -> None:
    """A failure to read comes out as a `StoreError`, with what the store raised behind it."""
    store, broken = Five(), ConnectionError("out of reach")
    graph = counting(2)
    await graph.run(store=store, run_id="run")

    def fail(what: str, ns: str, key: str) -> None:
        raise broken

    store.trouble = fail
    for reading in (
        graph.resume("run", store=store),
        graph.resume("none", store=store),
        graph.history("run", store=store),
        graph.fork("run", at=1, store=store),
    ):
        with pytest.raises(StoreError) as caught:
            await reading
        assert not isinstance(caught.value, RunNotFound | KeyError)
        assert caught.value.__cause__ is broken


async def test_w25_a_checkpoint_that_cannot_be_read_is_not_an_unknown_run() -> None:
    """An outage between the journal and the checkpoint is told as one."""
    store = Five()

    def fail(what: str, ns: str, key: str) -> None:
        if ns.startswith("checkpoint:"):
            raise ConnectionError("out of reach")

    store.trouble = fail
    with pytest.raises(StoreError, match="out of reach"):
        await counting(2).resume("none", store=store)


async def test_a_store_that_fails_while_a_run_is_resumed() -> None:
    """What begins a drive and cannot be written is a `CheckpointFailed`, with the result."""
    store, broken = Five(), OSError("read only")
    graph: Flow = Graph("asking")
    graph.add_step("ask", lambda state: Ask("Which?", phase="after", into="said"))
    paused = await graph.run(store=store, run_id="run")
    kept = dict(store.values)

    def fail(what: str, ns: str, key: str) -> None:
        if what in ("put", "tx"):
            raise broken

    store.trouble = fail
    answers = {paused.interrupts[0].id: "x"}
    with pytest.raises(CheckpointFailed) as caught:
        await graph.resume("run", answers=answers, store=store)
    assert caught.value.__cause__ is broken
    assert caught.value.result.stop is StopReason.ERROR
    told = await graph.resume("run", answers=answers, store=store, raise_on_error=False)
    assert isinstance(told.error, CheckpointFailed)
    with pytest.raises(CheckpointFailed):
        await graph.fork("run", at=1, store=store)
    with pytest.raises(StoreError, match="not cancelled"):
        await graph.cancel("run", store=store)
    assert store.values == kept
    store.trouble = lambda what, ns, key: None
    assert (await graph.resume("run", answers=answers, store=store)).state == {"said": "x"}


async def test_a_checkpoint_that_cannot_be_written_harms_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The checkpoint is a cache: the run goes on, and the log tells the type of the failure."""
    store = Five()

    def fail(what: str, ns: str, key: str) -> None:
        if what == "put" and ns.startswith("checkpoint:"):
            raise RuntimeError("a secret of the store")

    store.trouble = fail
    with caplog.at_level(logging.WARNING, "loom_ia.graph"):
        result = await counting(8, snapshot_every=5).run(store=store, run_id="run")
    assert result.state == {"n": 8}
    assert "checkpoint of run run is not kept: RuntimeError" in caplog.text
    assert "secret" not in caplog.text


# -- checkpoints ----------------------------------------------------------------------------------


async def test_gr10_a_run_leaves_its_checkpoint() -> None:
    """After a run, the snapshot is under the name of the graph and the id of the run."""
    store = MemoryStore()
    result = await row(Counter()).run({"n": 1}, store=store)
    kept = await checkpoint(store, "row", result.run_id)
    assert kept["run_id"] == result.run_id
    assert (kept["graph"], kept["last_step"], kept["stop"]) == ("row", "c", "completed")
    assert kept["state"] == result.state
    assert kept["seq"] == (await row(Counter()).events(result.run_id, store=store))[-1].seq
    assert kept["saved_at"].tzinfo is not None


async def test_gr13_no_store_no_checkpoint() -> None:
    """Without a store a run completes all the same."""
    assert (await row(Counter()).run()).stop is StopReason.COMPLETED


@pytest.mark.parametrize("state", [{}, {"$x": 1}, {"$tuple": [1]}, {"x": (1, {2}, b"3")}])
async def test_a_checkpoint_reads_back_as_the_state(state: State) -> None:
    """Whatever is in a state, `decode` gives it back."""
    store, graph = MemoryStore(), Graph[State]("any")
    graph.add_step("a", lambda s: None)
    result = await graph.run(state, store=store, run_id="run")
    assert (await checkpoint(store, "any", "run"))["state"] == result.state == state


@pytest.mark.parametrize("how", ["fails", "is cancelled", "pauses"])
async def test_a_checkpoint_tells_how_the_run_stopped(how: str) -> None:
    """It is written at every end and at every pause."""
    store, graph = MemoryStore(), Graph[State]("stops", "a")
    graph.add_step("a", lambda state: {"a": 1}, "b")

    @graph.step()
    async def b(state: State, ctx: Any) -> None:
        if how == "fails":
            raise ValueError("no")
        await ctx.interrupt()

    await graph.run(store=store, run_id="run", raise_on_error=False)
    if how == "is cancelled":
        await graph.cancel("run", store=store)
    stop = {"fails": "error", "is cancelled": "cancelled", "pauses": "yielded"}[how]
    kept = await checkpoint(store, "stops", "run")
    assert (kept["stop"], kept["state"], kept["last_step"]) == (stop, {"a": 1}, "b")


async def test_w64_a_snapshot_every_so_many_events() -> None:
    """While a run goes on, its checkpoint follows, never ahead of the journal."""
    store, places = Five(), list[int]()
    graph = counting(30, snapshot_every=10)

    def look(what: str, ns: str, key: str) -> None:
        if what == "put" and ns == "checkpoint:count":
            last = max(int(k.split("/")[1]) for n, k in store.values if n == "journal:count")
            places.append(last)

    store.trouble = look
    seen: list[Any] = []

    async def peek(step: str, state: State) -> None:
        if ("checkpoint:count", "run") in store.values:
            seen.append(await checkpoint(store, "count", "run"))

    graph.after(peek)
    await graph.run(store=store, run_id="run")
    gaps = [after - before for before, after in pairwise(places)]
    assert len(places) >= 6
    assert all(10 <= gap <= 14 for gap in gaps[:-1])
    for snapshot in seen:
        assert snapshot["stop"] is None
        assert snapshot["last_step"] == "tick"
        there = await graph.state_at("run", snapshot["seq"], store=store)
        assert there == snapshot["state"]


async def test_w64_what_a_step_costs_does_not_grow_with_the_state() -> None:
    """A step writes what it changed, not the whole state; only a snapshot has all of it."""
    store = Five()
    graph: Flow = Graph("large", "tick")

    async def tick(state: State) -> State:
        return {"n": state.get("n", 0) + 1}

    graph.add_step("tick", tick, condition(lambda state: state["n"] < 20, "tick", END))
    await graph.run({"large": "x" * 50_000}, store=store, run_id="run")
    journal = [len(v) for (ns, _), v in store.values.items() if ns == "journal:large"]
    assert sum(size > 50_000 for size in journal) == 1  # the input
    assert sum(journal) < 90_000


@pytest.mark.parametrize("junk", [b"", b"{", b"\xff", b"[]", b'{"$nothing": 1}'])
async def test_an_unreadable_checkpoint_beside_a_good_journal(junk: bytes) -> None:
    """The journal is the truth: the run is resumed, and the checkpoint is written anew."""
    store, graph = MemoryStore(), Graph[State]("asking")
    graph.add_step("ask", lambda state: Ask("Which?", phase="after", into="said"))
    paused = await graph.run(store=store, run_id="run")
    await store.put("checkpoint:asking", "run", junk)
    assert (await graph.resume("run", store=store)).yielded
    assert (await checkpoint(store, "asking", "run"))["stop"] == "yielded"
    await store.put("checkpoint:asking", "run", junk)
    answers = {paused.interrupts[0].id: "x"}
    assert (await graph.resume("run", answers=answers, store=store)).state == {"said": "x"}
    await store.put("checkpoint:asking", "run", junk)
    assert (await graph.resume("run", store=store)).stop is StopReason.COMPLETED
    assert (await checkpoint(store, "asking", "run"))["state"] == {"said": "x"}


async def test_lh09_an_unreadable_event_is_told() -> None:
    """An event that cannot be read is a `CorruptCheckpoint`, and the others are not guessed."""
    store, graph = Five(), counting(3)
    await graph.run(store=store, run_id="run")
    good = dict(store.values)
    for junk in (b"{", good["journal:count", "run/000000000002"]):
        store.values["journal:count", "run/000000000003"] = junk
        for reading in (graph.resume("run", store=store), graph.history("run", store=store)):
            with pytest.raises(CorruptCheckpoint, match="000000000003"):
                await reading
    del store.values["journal:count", "run/000000000003"]
    with pytest.raises(CorruptCheckpoint, match="missing"):
        await graph.resume("run", store=store)


async def test_lh01_no_history_beside_the_journal() -> None:
    """There is one checkpoint for each run, whatever its history."""
    store = Five()
    await counting(5).run(store=store, run_id="run")
    assert await store.list("checkpoint:count") == ["run"]


# -- checkpoints without a journal ----------------------------------------------------------------


def of_go(last_step: str, state: State, phase: str = "", run_id: str = "old") -> bytes:
    """Write a checkpoint as the Go package does."""
    value = {
        "run_id": run_id,
        "graph": "row",
        "last_step": last_step,
        "state": {"__run_id": run_id, **state},
        "yield_phase": phase,
        "saved_at": "2025-01-01T00:00:00Z",
    }
    return json.dumps(value).encode()


@pytest.mark.parametrize("kind", ["five", "ours"])
async def test_lh10_a_checkpoint_of_go_is_gone_on_from(kind: str) -> None:
    """A run that another package left goes on after its last step, with a new journal."""
    ran, store = Counter[str](), Five() if kind == "five" else MemoryStore()
    graph = row(ran)
    await store.put("checkpoint:row", "old", of_go("a", {"n": 4, "log": ["a"]}))
    result = await graph.resume("old", {"n": 1}, store=store)
    assert result.state == {"n": 7, "log": ["a", "b", "c"]}
    assert ran == {"b": 1, "c": 1}
    assert result.steps == 2
    assert [(c.n, c.step) for c in await graph.history("old", store=store)] == [(1, "b"), (2, "c")]
    assert (await checkpoint(store, "row", "old"))["stop"] == "completed"
    again = await graph.resume("old", store=store)
    assert (again.state, again.steps) == (result.state, 0)
    with pytest.raises(RunExists):
        await graph.run(store=store, run_id="old")


async def test_a_checkpoint_of_go_whose_step_failed() -> None:
    """The step that had failed runs again, and nothing of the failure is in the state."""
    ran, store = Counter[str](), Five()
    state = {"n": 1, "log": ["a"], "__error": "down", "__failed_step": "b"}
    await store.put("checkpoint:row", "old", of_go("b", state))
    result = await row(ran).resume("old", store=store)
    assert result.state == {"n": 3, "log": ["a", "b", "c"]}
    assert ran == {"b": 1, "c": 1}


async def test_a_pause_of_go_in_the_middle_of_a_step() -> None:
    """The step runs again on the state with the input, as it does there."""
    store = Five()
    graph: Flow = Graph("row", "ask")
    graph.add_step("ask", ask_human("Which?", response="response", into="said"), "b")
    graph.add_step("b", lambda state: {"b": state["said"]})
    state = {"draft": "x", "__yield": True, "__yield_phase": "mid_step"}
    await store.put("checkpoint:row", "old", of_go("ask", state, "mid_step"))
    result = await graph.resume("old", {"response": "fine"}, store=store)
    assert result.state == {"draft": "x", "said": "fine", "b": "fine"}
    await store.put("checkpoint:row", "other", of_go("ask", state, "mid_step", "other"))
    paused = await graph.resume("other", store=store)
    assert [asked.payload for asked in paused.interrupts] == ["Which?"]


async def test_a_pause_of_go_after_a_step() -> None:
    """It goes on with the router of the step once something is said, and never before."""
    ran, store = Counter[str](), Five()
    state = {"n": 1, "log": ["a"], "__yield": True, "__yield_phase": "after_step"}
    await store.put("checkpoint:row", "old", of_go("a", state, "after_step"))
    before = dict(store.values)
    waiting = await row(ran).resume("old", store=store)
    assert (waiting.stop, waiting.state) == (StopReason.YIELDED, {"n": 1, "log": ["a"]})
    assert store.values == before
    assert not ran
    with pytest.raises(UnknownInterrupt):
        await row(ran).resume("old", answers={"x": 1}, store=store)
    result = await row(ran).resume("old", {"approved": True}, store=store)
    assert result.state == {"n": 3, "log": ["a", "b", "c"], "approved": True}
    assert ran == {"b": 1, "c": 1}


async def test_a_checkpoint_of_ours_whose_journal_is_gone() -> None:
    """It is gone on from after the step that it names, with exact values."""
    ran, store = Counter[str](), Five()
    state = {"n": 2**70, "log": ["a"], "t": (1, b"2")}
    value = {
        "run_id": "old",
        "graph": "row",
        "last_step": "a",
        "state": state,
        "seq": 12,
        "stop": None,
        "saved_at": None,
    }
    await store.put("checkpoint:row", "old", encode(value))
    result = await row(ran).resume("old", store=store)
    assert result.state == {"n": 2**70 + 2, "log": ["a", "b", "c"], "t": (1, b"2")}
    assert ran == {"b": 1, "c": 1}
    for stop in ("completed", "cancelled"):
        await store.put("checkpoint:row", "over", encode({**value, "run_id": "over", "stop": stop}))
        over = await row(ran).resume("over", store=store)
        assert (over.stop, over.state, over.steps) == (stop, state, 0)
    assert ran == {"b": 1, "c": 1}
    nowhere = {**value, "run_id": "first", "last_step": None, "state": {}}
    await store.put("checkpoint:row", "first", encode(nowhere))
    assert (await row(ran).resume("first", store=store)).state == {"n": 3, "log": ["a", "b", "c"]}


async def test_a_journal_that_is_lost_in_the_middle_of_a_run() -> None:
    """What a run kept every so many events is enough to go on, at most a few steps back."""
    store, stop = Five(), asyncio.Event()
    graph: Flow = Graph("count", "tick", snapshot_every=6, merge={"log": append})
    inside = asyncio.Event()

    @graph.step(then=condition(lambda state: len(state["log"]) < 12, "tick", END))
    async def tick(state: State, ctx: Any) -> State:
        if ctx.occurrence == 9 and not stop.is_set():
            inside.set()
            await asyncio.Event().wait()
        return {"log": [len(state.get("log", ()))]}

    task = asyncio.create_task(graph.run(store=store, run_id="run"))
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    stop.set()
    store.values = {k: v for k, v in store.values.items() if not k[0].startswith("journal:")}
    kept = await checkpoint(store, "count", "run")
    assert kept["stop"] is None
    assert 4 <= len(kept["state"]["log"]) <= 8
    result = await graph.resume("run", store=store)
    assert result.state == {"log": list(range(12))}
    assert result.steps == 12 - len(kept["state"]["log"])


@pytest.mark.parametrize(
    "junk",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        b"{}",
        of_go("a", {}, run_id="other"),
        of_go("a", {"n": "text"}),
        encode({"run_id": "old", "last_step": "a", "state": [1], "stop": None}),
        encode({"run_id": "old", "last_step": 1, "state": {}, "stop": None}),
        b'{"run_id": "old", "last_step": "a", "state": {"x": {"$nothing": 1}}, "stop": null}',
        b'{"run_id": "old", "last_step": "a", "state": {}, "stop": "tired"}',
    ],
)
async def test_an_unreadable_checkpoint_without_a_journal(junk: bytes) -> None:
    """It is told as corrupt, with the run; nothing is written."""
    store = Five()
    await store.put("checkpoint:row", "old", junk)
    before = dict(store.values)
    with pytest.raises(CorruptCheckpoint, match="old"):
        await row(Counter()).resume("old", store=store)
    assert store.values == before


async def test_a_checkpoint_of_a_step_that_is_no_more() -> None:
    """A run whose step is gone is refused, unless its new name is told."""
    store = Five()
    await store.put("checkpoint:row", "old", of_go("first", {"n": 1, "log": ["first"]}))
    with pytest.raises(GraphChanged, match="first"):
        await row(Counter()).resume("old", store=store)
    graph = row(Counter()).migrate({"first": "a"})
    assert (await graph.resume("old", store=store)).state["log"] == ["first", "b", "c"]


# -- files ----------------------------------------------------------------------------------------


def test_a_store_in_a_file_across_several_loops(tmp_path: Path) -> None:
    """One `SQLiteStore` serves several `asyncio.run` of one script, runs and values alike."""
    store = SQLiteStore(tmp_path / "runs.db")
    graph: Flow = Graph("asking")
    graph.add_step("ask", lambda state: Ask("Which?", phase="after", into="said"))
    paused = asyncio.run(graph.run(store=store, run_id="run"))
    asyncio.run(store.put("ns", "key", b"value"))
    answers = {paused.interrupts[0].id: "x"}
    result = asyncio.run(graph.resume("run", answers=answers, store=store))
    assert result.state == {"said": "x"}
    assert asyncio.run(store.get("ns", "key")) == b"value"
    assert asyncio.run(graph.history("run", store=store))[-1].step == "ask"
    assert asyncio.run(graph.run(store=store, run_id="other")).yielded
    asyncio.run(store.aclose())


async def test_two_stores_on_one_file(tmp_path: Path) -> None:
    """What one store writes the other reads, and a run is driven by one of them at a time."""
    file, inside, release = tmp_path / "runs.db", asyncio.Event(), asyncio.Event()
    graph: Flow = Graph("slow", "a")

    @graph.step(then="b")
    async def a(state: State) -> State:
        inside.set()
        await release.wait()
        return {"a": 1}

    graph.add_step("b", lambda state: {"b": 1})
    async with SQLiteStore(file) as one, SQLiteStore(file) as two:
        driving = asyncio.create_task(graph.run(store=one, run_id="run"))
        await inside.wait()
        with pytest.raises(RunExists):
            await graph.run(store=two, run_id="run")
        with pytest.raises(RunLocked):
            await graph.resume("run", store=two)
        assert await graph.recover(store=two) == []
        release.set()
        result = await driving
        assert (await graph.resume("run", store=two)).state == result.state == {"a": 1, "b": 1}
        assert (await checkpoint(two, "slow", "run"))["stop"] == "completed"


async def test_a_file_that_cannot_be_a_store(tmp_path: Path) -> None:
    """A folder is a store out of reach, a file of another kind is corrupt: no unknown run."""
    with pytest.raises(StoreError):
        await counting(1).resume("run", store=SQLiteStore(tmp_path))
    with pytest.raises(StoreError):
        await counting(1).run(store=SQLiteStore(tmp_path))
    file = tmp_path / "runs.db"
    file.write_bytes(b"this is no database, and it is long enough to be read as one" * 20)
    with pytest.raises(CorruptCheckpoint):
        await counting(1).resume("run", store=SQLiteStore(file))


# -- durability -----------------------------------------------------------------------------------


async def events(store: MemoryStore, run_id: str) -> list[Event]:
    """Read what is really written of a run."""
    return await store.journal.read("default", run_id)


async def test_required_writes_before_anything_goes_on() -> None:
    """A step only starts once the fact that it starts is written."""
    store, seen = MemoryStore(), list[str]()
    graph: Flow = Graph("row", "a")

    async def step(state: State, ctx: Any) -> None:
        seen.append((await events(store, "run"))[-1].type)

    graph.add_step("a", step, "b").add_step("b", step)
    await graph.run(store=store, run_id="run")
    assert seen == ["tool.called", "tool.called"]


async def test_none_writes_at_pauses_only() -> None:
    """Nothing is written of a run that does not pause; all of it at a pause."""
    store, graph = MemoryStore(), counting(3, durability=Durability.NONE, snapshot_every=1)
    assert (await graph.run(store=store, run_id="run")).state == {"n": 3}
    assert await events(store, "run") == []
    assert await store.list("checkpoint:count") == []  # a cache of nothing would be a lie
    asking: Flow = Graph("asking", "a", durability=Durability.NONE)
    asking.add_step("a", lambda state: {"a": 1}, "ask")
    asking.add_step("ask", lambda state: Ask("Which?", phase="after", into="said"))
    paused = await asking.run(store=store, run_id="asks")
    assert [e.seq for e in await events(store, "asks")][-1] == (
        await asking.events("asks", store=store)
    )[-1].seq
    assert (await checkpoint(store, "asking", "asks"))["state"] == {"a": 1}
    answers = {paused.interrupts[0].id: "x"}
    assert (await asking.resume("asks", answers=answers, store=store)).state["said"] == "x"


async def test_none_hands_back_what_it_dropped() -> None:
    """The end of a resume is not written, its claim is: the next one drives at once, not locked."""
    store, ran = MemoryStore(), Counter[str]()
    graph: Flow = Graph("asking", durability=Durability.NONE)
    graph.add_step("ask", lambda state: Ask("Which?", phase="after", into="said"), "end")

    @graph.step()
    async def end(state: State) -> State:
        ran["end"] += 1
        return {"over": True}

    paused = await graph.run(store=store, run_id="run")
    answers = {paused.interrupts[0].id: "x"}
    for count in (1, 2, 3):
        result = await graph.resume("run", answers=answers, store=store)
        answers = None
        assert (result.stop, result.state) == (StopReason.COMPLETED, {"said": "x", "over": True})
        assert ran == {"end": count}
        written = await events(store, "run")
        assert [event.seq for event in written] == list(range(1, len(written) + 1))
        assert written[-1].type == "run.claimed"


async def test_none_hands_back_a_run_whose_effect_was_written() -> None:
    """An effect that may not be repeated writes the claim with it; the run is free when it ends."""
    store, sent = MemoryStore(), Counter[str]()
    graph: Flow = Graph("mail", durability=Durability.NONE)

    @graph.step(on_unknown="pause")
    async def send(state: State, ctx: Any) -> State:
        def act() -> None:
            sent["mail"] += 1

        await ctx.effect("mail", act, side_effects="irreversible")
        return {"sent": True}

    assert (await graph.run(store=store, run_id="run")).state == {"sent": True}
    again = await graph.resume("run", store=store)
    assert (again.stop, again.interrupts[0].kind) == (StopReason.YIELDED, "unknown_effect")
    assert sent == {"mail": 1}


async def test_none_and_two_who_answer() -> None:
    """An answer is written under any durability, so that it serves once."""
    store, ran = MemoryStore(), Counter[str]()
    graph: Flow = Graph("asking", durability=Durability.NONE)

    @graph.step()
    async def ask(state: State, ctx: Any) -> State:
        said = await ctx.interrupt()
        ran["after"] += 1
        return {"said": said}

    paused = await graph.run(store=store, run_id="run")
    answers = {paused.interrupts[0].id: "x"}
    both = await asyncio.gather(
        graph.resume("run", answers=answers, store=store),
        graph.resume("run", answers=answers, store=store),
        return_exceptions=True,
    )
    assert ran == {"after": 1}
    assert sum(isinstance(end, RunLocked | UnknownInterrupt) for end in both) == 1


async def test_a_cancel_is_written_under_any_durability() -> None:
    """A paused run that is cancelled stays so."""
    store = MemoryStore()
    for mode in Durability:
        graph: Flow = Graph("asking", durability=mode)
        graph.add_step("ask", lambda state: Ask("Which?"))
        await graph.run(store=store, run_id=mode.value)
        assert await graph.cancel(mode.value, store=store)
        again = await graph.resume(mode.value, store=store)
        assert again.stop is StopReason.CANCELLED


async def test_batched_writes_at_the_end_and_when_the_task_is_cancelled() -> None:
    """However a call ends, what it did is written when it does, and the run is resumable."""
    store, inside, waits = MemoryStore(), asyncio.Event(), [True]
    graph: Flow = Graph("slow", "a", durability=Durability.BATCHED)
    graph.add_step("a", lambda state: {"a": 1}, "b")

    @graph.step()
    async def b(state: State) -> State:
        inside.set()
        if waits:
            await asyncio.Event().wait()
        return {"b": 1}

    task = asyncio.create_task(graph.run(store=store, run_id="run"))
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await graph.history("run", store=store))[-1].step == "a"
    waits.clear()
    result = await graph.resume("run", store=store)
    assert (result.state, result.steps) == ({"a": 1, "b": 1}, 1)
    assert (await events(store, "run"))[-1].type == "run.completed"


@pytest.mark.parametrize("mode", [Durability.BATCHED, Durability.BEST_EFFORT])
async def test_what_cannot_be_written_at_the_end_is_logged(
    mode: Durability, caplog: pytest.LogCaptureFixture
) -> None:
    """Only a pause and an effect that acts need the store; a run that ends does not fail by it."""
    store = Five()

    def fail(what: str, ns: str, key: str) -> None:
        if what in ("put", "tx"):
            raise OSError("full")

    store.trouble = fail
    with caplog.at_level(logging.WARNING, "loom_ia.graph"):
        result = await counting(3, durability=mode).run(store=store, run_id="run")
    assert (result.state, result.stop) == ({"n": 3}, StopReason.COMPLETED)
    assert "not written yet: OSError" in caplog.text


async def test_best_effort_writes_what_it_kept_before_the_next() -> None:
    """After an outage the journal has no hole."""
    store, graph = Five(), counting(6, durability=Durability.BEST_EFFORT)
    writes = Counter[str]()

    def fail(what: str, ns: str, key: str) -> None:
        writes[what] += what == "tx"
        if what == "tx" and 3 <= writes["tx"] <= 8:
            raise OSError("for a while")

    store.trouble = fail
    result = await graph.run(store=store, run_id="run")
    found = await graph.events("run", store=store)
    assert [event.seq for event in found] == list(range(1, len(found) + 1))
    assert (await graph.resume("run", store=store)).state == result.state == {"n": 6}
    assert writes["tx"] > 8


async def test_a_write_that_failed_and_was_done_all_the_same() -> None:
    """Under best effort, a batch that landed before its failure is not written twice."""
    failed: list[str] = []
    graph = counting(4, durability=Durability.BEST_EFFORT)

    class Late(Five):
        @asynccontextmanager
        async def tx(self) -> AsyncIterator[Any]:
            async with super().tx() as inner:
                yield inner
            if len(failed) < 2:
                failed.append("late")
                raise TimeoutError("no answer")

    store = Late()
    result = await graph.run(store=store, run_id="run")
    assert failed == ["late"] * 2
    found = await graph.events("run", store=store)
    assert [event.seq for event in found] == list(range(1, len(found) + 1))
    assert (await graph.resume("run", store=store)).state == result.state


@pytest.mark.parametrize("mode", [Durability.BATCHED, Durability.NONE, Durability.REQUIRED])
async def test_who_was_taken_over_finds_out_whatever_waits(mode: Durability) -> None:
    """A driver whose facts waited when another took its run stops, and writes none of them."""
    store, ran = MemoryStore(), Counter[str]()
    inside, release = asyncio.Event(), asyncio.Event()
    graph: Flow = Graph("slow", "ask", durability=mode)
    graph.add_step("ask", lambda state: Ask("Which?", phase="after"), "a")

    @graph.step(then="b")
    async def a(state: State) -> State:
        ran["a"] += 1
        if ran["a"] == 1:
            inside.set()
            await release.wait()
        return {"by": ran["a"]}

    @graph.step()
    async def b(state: State, ctx: Any) -> State:
        return {"said": await ctx.interrupt()}

    paused = await graph.run(store=store, run_id="run")
    answers = {paused.interrupts[0].id: "x"}
    former = asyncio.create_task(graph.resume("run", answers=answers, store=store))
    await inside.wait()
    taken = await graph.resume("run", store=store, take_over=True)
    assert taken.state == {"by": 2}
    release.set()
    with pytest.raises(RunLocked):
        await former
    assert (await graph.resume("run", store=store)).interrupts == taken.interrupts
    found = await graph.events("run", store=store)
    assert [event.seq for event in found] == list(range(1, len(found) + 1))


async def test_a_newer_event_is_read_and_not_driven() -> None:
    """A run that holds events of a newer version is refused, and stays as it is."""
    store, graph = Five(), Graph[State]("asking")
    graph.add_step("ask", lambda state: Ask("Which?"))
    await graph.run(store=store, run_id="run")
    last = (await graph.events("run", store=store))[-1].seq
    line = json.loads(store.values["journal:asking", f"run/{last:012}"])
    line["type"], line["seq"] = "graph.dreamt", last + 1
    line["event_id"] = line["event_id"][:-4] + "ffff"
    store.values["journal:asking", f"run/{last + 1:012}"] = json.dumps(line).encode()
    with pytest.raises(NewerJournal):
        await graph.resume("run", {"x": 1}, store=store)


async def test_a_failed_run_says_what_it_stood_on() -> None:
    """A failure leaves the state before the step that failed, in the result and in the store."""
    store, graph = MemoryStore(), Graph[State]("failing", "a")
    graph.add_step("a", lambda state: {"a": 1}, "b")

    @graph.step()
    async def b(state: State) -> None:
        raise ValueError("no")

    with pytest.raises(StepFailed) as caught:
        await graph.run(store=store, run_id="run")
    assert caught.value.result.state == (await checkpoint(store, "failing", "run"))["state"]


async def test_a_store_may_say_that_a_key_is_missing_with_no_text() -> None:
    """`raise KeyNotFound` is enough in a store of somebody else's."""
    store, graph = Five(), Graph[State]("bare")
    graph.add_step("a", lambda state: {"a": 1})

    def trouble(what: str, ns: str, key: str) -> None:
        if what == "get" and (ns, key) not in store.values:
            raise KeyNotFound

    store.trouble = trouble
    assert (await graph.run(store=store, run_id="run")).state == {"a": 1}
    with pytest.raises(RunNotFound):
        await graph.resume("other", store=store)


@pytest.mark.parametrize("store", ["runs.db", object()])
async def test_what_is_no_store_is_refused_by_name(store: Any) -> None:
    """A path or another object is not taken for a store; the error names what is one."""
    graph = Graph("g").add_step("a", lambda state: None)
    with pytest.raises(ValueError, match=r"it is a store, such as MemoryStore\(\), SQLiteStore"):
        await graph.run(store=store)


async def test_a_fixed_route_is_written_with_the_step_that_it_leads_to() -> None:
    """No code chooses it, so one write has the end of a step, its route, and the next call."""
    store = MemoryStore()
    batches: list[list[str]] = []
    append = store.journal.append

    def counted(batch: Any, **options: Any) -> Any:
        batches.append([event.type for event in batch])
        return append(batch, **options)

    store.journal.append = counted
    graph: Flow = Graph("line", "a").add_step("a", lambda state: {"a": 1}, "b")
    graph.add_step("b", lambda state: {"b": 2}, "c").add_step("c", lambda state: None)
    assert (await graph.run(store=store, run_id="run")).state == {"a": 1, "b": 2}
    ended = ["tool.completed", "graph.routed"]
    started = ["run.started", "run.claimed", "tool.called"]
    assert [types for types in batches if "store.changed" not in types] == [
        started,
        [*ended, "tool.called"],
        [*ended, "tool.called"],
        [*ended, "run.completed"],
    ]
