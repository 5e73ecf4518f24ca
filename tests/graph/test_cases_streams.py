"""Following runs: streams in all modes, and the journal as its readers see it."""

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from loom_ia.graph import (
    DELETE,
    END,
    Ask,
    Graph,
    GraphEvent,
    Interrupted,
    MemoryStore,
    Message,
    Reply,
    ReplyChunk,
    ReservedKey,
    RunFinished,
    RunNotFound,
    SQLiteStore,
    StateChanged,
    StepCompleted,
    StepFailed,
    StepNotFound,
    StopReason,
    Token,
    add,
    append,
    fold,
    tool_loop,
)

State = Any


def chain() -> Graph[Any]:
    """Make a graph of two steps."""
    g: Graph[Any] = Graph("chain", "a", merge={"log": append, "n": add})
    g.add_step("a", lambda state: {"x": 1, "log": ["a"]}, then="b")
    g.add_step("b", lambda state: {"y": 2, "n": 5, "log": ["b"]}, then=END)
    return g


async def all_of(stream: Any) -> list[Any]:
    """Read a stream to its end."""
    return [item async for item in stream]


# -- streams --------------------------------------------------------------------------------------


async def test_updates_are_the_deltas_of_steps() -> None:
    """One item for each step, then how the run ended."""
    items = await all_of(chain().stream({"log": ["0"], "n": 1}))
    first, second, last = items
    assert isinstance(first, StepCompleted)
    assert (first.step, first.delta) == ("a", {"x": 1, "log": ["a"]})
    assert isinstance(second, StepCompleted)
    assert (second.step, second.delta) == ("b", {"y": 2, "n": 5, "log": ["b"]})
    assert first.seq < second.seq
    assert isinstance(last, RunFinished)
    assert last.result.state == {"x": 1, "y": 2, "n": 6, "log": ["0", "a", "b"]}


async def test_a_key_that_a_step_deletes_is_shown_as_deleted() -> None:
    """The delta says DELETE."""
    g: Graph[Any] = Graph("g")
    g.add_step("a", lambda state: {"x": DELETE}, then=END)
    first, _ = await all_of(g.stream({"x": 1}))
    assert first.delta == {"x": DELETE}


async def test_values_are_the_states_after_steps() -> None:
    """Each state is the whole of it, at that place of the journal."""
    store = MemoryStore()
    g = chain()
    items = await all_of(g.stream({}, store=store, run_id="r", mode="values"))
    first, second, last = items
    assert isinstance(first, StateChanged)
    assert (first.step, first.state) == ("a", {"x": 1, "log": ["a"]})
    assert isinstance(second, StateChanged)
    assert second.state == {"x": 1, "y": 2, "n": 5, "log": ["a", "b"]}
    assert await g.state_at("r", first.seq, store=store) == first.state
    assert isinstance(last, RunFinished)


async def test_events_are_those_of_the_journal() -> None:
    """Live events are what a reader finds afterwards, in the same order."""
    store = MemoryStore()
    g = chain()
    *live, last = await all_of(g.stream({}, store=store, run_id="r", mode="events"))
    assert isinstance(last, RunFinished)
    assert live == await g.events("r", store=store)
    assert all(isinstance(item, GraphEvent) for item in live)


async def test_several_modes_at_once() -> None:
    """What an event shows in several modes comes together, and the last item comes once."""
    items = await all_of(chain().stream({}, mode=["updates", "values", "events"]))
    kinds = [type(item) for item in items]
    assert kinds.count(StepCompleted) == 2
    assert kinds.count(StateChanged) == 2
    assert kinds.count(RunFinished) == 1
    assert kinds[-1] is RunFinished
    seqs = [item.seq for item in items[:-1]]
    assert seqs == sorted(seqs)


@pytest.mark.parametrize("mode", ["update", [], ["updates", "all"], ""])
async def test_a_wrong_mode_is_a_value_error(mode: Any) -> None:
    """At the call, before anything is read."""
    with pytest.raises(ValueError, match="mode"):
        chain().stream({}, mode=mode)


async def test_a_run_that_fails_ends_with_its_result() -> None:
    """No exception is raised: it is in the result."""

    def broken(state: State) -> None:
        raise RuntimeError("no")

    g: Graph[Any] = Graph("g", "a")
    g.add_step("a", lambda state: {"a": 1}, then="b")
    g.add_step("b", broken, then=END)
    first, last = await all_of(g.stream({}))
    assert isinstance(first, StepCompleted)
    assert isinstance(last, RunFinished)
    assert isinstance(last.result.error, StepFailed)
    assert isinstance(last.result.error.__cause__, RuntimeError)
    assert last.result.stop is StopReason.ERROR
    assert last.result.failed_step == "b"


async def test_a_run_that_pauses_shows_its_question() -> None:
    """The question is in the stream, and in the result."""
    g: Graph[Any] = Graph("g", "a")
    g.add_step("a", lambda state: Ask("who?", phase="after", update={"a": 1}, into="who"))
    asked, last = [
        item
        for item in await all_of(g.stream({}, store=MemoryStore()))
        if not isinstance(item, StepCompleted)
    ]
    assert isinstance(asked, Interrupted)
    assert isinstance(last, RunFinished)
    assert last.result.stop is StopReason.YIELDED
    assert last.result.interrupts == (asked.interrupt,)
    assert asked.interrupt.payload == "who?"


async def test_questions_of_children_and_branches_are_shown() -> None:
    """Each question comes once, as the result has it."""

    async def asks(state: State, ctx: Any) -> Any:
        await ctx.interrupt(f"{ctx.step}?")

    child: Graph[Any] = Graph("child")
    child.add_step("inner", asks, then=END)
    g: Graph[Any] = Graph("g", "split")
    g.add_step("split", lambda state: None, then=["run", "own"])
    g.add_step("run", child.as_step(), then=END)
    g.add_step("own", asks, then=END)
    items = await all_of(g.stream({}, store=MemoryStore()))
    asked = [item.interrupt for item in items if isinstance(item, Interrupted)]
    assert sorted(one.payload for one in asked) == ["inner?", "own?"]
    result = items[-1].result
    assert {one.id for one in asked} == {one.id for one in result.interrupts}
    assert {one.path for one in asked} == {("run", "inner"), ("own",)}


async def test_steps_of_branches_are_shown_with_their_own_state() -> None:
    """A branch shows what it sees; the join shows the merged state."""
    g: Graph[Any] = Graph("g", "split", merge={"log": append})
    g.add_step("split", lambda state: {"log": ["s"]}, then=["a", "b"])
    g.add_step("a", lambda state: {"log": ["a"]}, then="meet")
    g.add_step("b", lambda state: {"log": ["b"]}, then="meet")
    g.add_step("meet", lambda state: {"met": True}, join="all")
    items = await all_of(g.stream({}, mode=["updates", "values"]))
    states = {item.step: item.state for item in items if isinstance(item, StateChanged)}
    assert states["a"] == {"log": ["s", "a"]}
    assert states["b"] == {"log": ["s", "b"]}
    assert states["meet"] == {"log": ["s", "a", "b"], "met": True}
    deltas = {item.step: item.delta for item in items if isinstance(item, StepCompleted)}
    assert deltas["b"] == {"log": ["b"]}


async def test_a_stream_that_cannot_begin_raises() -> None:
    """Nothing was written: there is no result to give."""
    g: Graph[Any] = Graph("g", "nowhere")
    g.add_step("a", lambda state: None)
    with pytest.raises(StepNotFound):
        await all_of(g.stream({}))
    with pytest.raises(ReservedKey):
        await all_of(chain().stream({"__x": 1}))


async def test_leaving_early_leaves_the_run_resumable() -> None:
    """The step under way is cut, and a resume goes on with it at once."""
    runs: list[str] = []
    hold = [True]

    async def b(state: State) -> dict[str, Any]:
        runs.append("b")
        if hold[0]:
            await asyncio.Event().wait()
        return {"b": 1}

    g: Graph[Any] = Graph("g", "a")
    g.add_step("a", lambda state: runs.append("a"), then="b")
    g.add_step("b", b, then=END)
    store = MemoryStore()
    stream: Any = g.stream({}, store=store, run_id="r")
    async for item in stream:
        assert isinstance(item, StepCompleted)
        break
    await stream.aclose()
    hold[0] = False
    result = await g.resume("r", store=store)
    assert result.state == {"b": 1}
    assert runs[0] == "a"
    assert runs.count("a") == 1


async def test_a_stream_tells_tokens_as_they_come() -> None:
    """A model that streams is read in pieces before the step ends."""
    seen: list[str] = []
    first_is_read = asyncio.Event()

    class Model:
        async def __call__(self, request: Any) -> Reply:
            raise AssertionError("somebody follows: it is asked in pieces")

        async def stream(self, request: Any) -> Any:
            yield ReplyChunk(text="Hel")
            await asyncio.wait_for(first_is_read.wait(), 5)
            yield ReplyChunk(text="lo")
            yield ReplyChunk(done=True, stop_reason="end")

    g: Graph[Any] = Graph("g")
    g.add_step("chat", tool_loop(Model()), then=END)
    given = {"messages": [Message("user", "hi")]}
    kinds: list[type] = []
    async for item in g.stream(given, mode=["tokens", "updates"]):
        kinds.append(type(item))
        if isinstance(item, Token):
            assert item.step == "chat"
            seen.append(item.text)
            first_is_read.set()
        if isinstance(item, RunFinished):
            assert item.result.state["output"] == "Hello"
    assert seen == ["Hel", "lo"]
    assert kinds == [Token, Token, StepCompleted, RunFinished]


async def test_tokens_of_children_are_shown() -> None:
    """A model below speaks in the stream of its root."""

    class Model:
        async def __call__(self, request: Any) -> Reply:
            return Reply("whole")

        async def stream(self, request: Any) -> Any:
            yield ReplyChunk(text="in pieces")
            yield ReplyChunk(done=True)

    child: Graph[Any] = Graph("child")
    child.add_step("chat", tool_loop(Model()), then=END)
    g: Graph[Any] = Graph("g")
    g.add_step("run", child.as_step(), then=END)
    items = await all_of(g.stream({"messages": []}, mode="tokens"))
    assert [item.text for item in items[:-1]] == ["in pieces"]


async def test_a_plain_function_as_a_model_gives_its_text_as_one_token() -> None:
    """Who cannot speak in pieces is still heard."""

    async def model(request: Any) -> str:
        return "all at once"

    g: Graph[Any] = Graph("g")
    g.add_step("chat", tool_loop(model), then=END)
    token, last = await all_of(g.stream({"messages": []}, mode="tokens"))
    assert (token.step, token.text) == ("chat", "all at once")
    assert last.result.state["output"] == "all at once"


# -- following ------------------------------------------------------------------------------------


def waiting() -> tuple[Graph[Any], asyncio.Event, asyncio.Event]:
    """Make a graph that tells that it began, and whose second step waits for a sign."""
    go, begun = asyncio.Event(), asyncio.Event()

    async def a(state: State) -> dict[str, Any]:
        begun.set()
        return {"a": 1}

    async def b(state: State) -> dict[str, Any]:
        await go.wait()
        return {"b": 1}

    g: Graph[Any] = Graph("waiting", "a")
    g.add_step("a", a, then="b")
    g.add_step("b", b, then="c")
    g.add_step("c", lambda state: {"c": 1}, then=END)
    return g, begun, go


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_following_from_another_graph_and_another_instance(kind: str, tmp_path: Any) -> None:
    """A reader that shares nothing but the journal sees it all, live, until the end."""

    def opened() -> Any:
        return SQLiteStore(tmp_path / "runs.db")

    store = MemoryStore() if kind == "memory" else opened()
    other = store if kind == "memory" else opened()
    g, begun, go = waiting()
    reader, _, _ = waiting()
    task = asyncio.create_task(g.run({}, store=store, run_id="r"))
    seen: list[GraphEvent] = []
    await begun.wait()
    async with asyncio.timeout(20):
        async for event in reader.follow("r", store=other):
            seen.append(event)
            if event.type == "tool.called" and event.step == "b":
                go.set()
    await task
    assert seen == await g.events("r", store=store)
    assert seen[-1].type == "run.completed"
    await store.aclose()
    await other.aclose()


async def test_pub42_reconnecting_loses_and_repeats_nothing() -> None:
    """From every place of the journal, what was read and what follows are the whole."""
    store = MemoryStore()
    g = chain()
    await g.run({}, store=store, run_id="r")
    whole = await g.events("r", store=store)
    for place in range(len(whole) + 1):
        rest = await all_of(chain().follow("r", store=store, after_seq=place))
        assert whole[:place] + rest == whole
        assert await g.events("r", store=store, after_seq=place) == whole[place:]


async def test_following_a_run_that_fails_ends_with_its_closing_event() -> None:
    """The failure is the last event."""

    def broken(state: State) -> None:
        raise RuntimeError("no")

    g: Graph[Any] = Graph("g")
    g.add_step("a", broken)
    store = MemoryStore()
    await g.run({}, store=store, run_id="r", raise_on_error=False)
    events = await all_of(g.follow("r", store=store))
    assert events[-1].type == "run.failed"
    assert events == await g.events("r", store=store)


async def test_following_a_run_that_waits_goes_on_with_it() -> None:
    """A follower of a paused run sees what its resume does."""
    g: Graph[Any] = Graph("g")
    g.add_step("a", lambda state, ctx: {"a": ctx.answer} if ctx.answer else Ask("?"), then=END)
    store = MemoryStore()
    first = await g.run({}, store=store, run_id="r")
    seen: list[str] = []

    async def read() -> None:
        async for event in g.follow("r", store=store):
            seen.append(event.type)
            if event.type == "approval.requested":
                asked.set()

    asked = asyncio.Event()
    task = asyncio.create_task(read())
    await asked.wait()
    assert not task.done()
    await g.resume("r", answers={first.interrupts[0].id: 1}, store=store)
    await asyncio.wait_for(task, 10)
    assert seen[-1] == "run.completed"
    assert "run.resumed" in seen


async def test_following_an_unknown_run() -> None:
    """There is nothing to follow."""
    with pytest.raises(RunNotFound):
        await all_of(chain().follow("r", store=MemoryStore()))
    with pytest.raises(RunNotFound):
        await chain().events("r", store=MemoryStore())


async def test_a_reader_of_a_child_sees_the_child_alone() -> None:
    """`events` of a child's id are those of that run and those below it."""
    child: Graph[Any] = Graph("child")
    child.add_step("work", lambda state: {"w": 1}, then=END)
    g: Graph[Any] = Graph("g")
    g.add_step("run", child.as_step(), then=END)
    store = MemoryStore()
    await g.run({}, store=store, run_id="r")
    whole = await g.events("r", store=store)
    below = await g.events("r/run/1", store=store)
    assert below == [event for event in whole if event.run_id == "r/run/1"]
    assert below[0].type == "run.started"
    assert below[-1].type == "run.completed"


# -- events ---------------------------------------------------------------------------------------


async def one(g: Graph[Any], given: dict[str, Any], is_it: Callable[[GraphEvent], bool]) -> Any:
    """Give the payload of one event of a run."""
    store = MemoryStore()
    await g.run(given, store=store, run_id="r", raise_on_error=False)
    (found,) = [event for event in await g.events("r", store=store) if is_it(event)]
    return found


async def test_the_first_event_says_what_the_run_is() -> None:
    """`run.started` has the program, the graph, its fingerprint, the input and the merges."""
    event = await one(chain(), {"n": 1}, lambda event: event.type == "run.started")
    payload = event.payload
    assert (event.seq, event.run_id, event.step) == (1, "r", None)
    assert payload["program"] == "graph"
    assert payload["graph"] == "chain"
    assert payload["fingerprint"]
    assert payload["input"] == {"n": 1}
    assert payload["merge"] == {"log": "append", "n": "add"}
    assert payload["parent"] is None


async def test_a_fork_says_where_it_comes_from() -> None:
    """`parent` is the run and the place."""
    g = chain()
    store = MemoryStore()
    await g.run({}, store=store, run_id="r")
    at = (await g.history("r", store=store))[0].seq
    await g.fork("r", at=at, store=store, new_run_id="f")
    first = (await g.events("f", store=store))[0]
    assert tuple(first.payload["parent"]) == ("r", at)


async def test_a_claim_says_who_drives() -> None:
    """`run.claimed` has the driver and its lease."""
    store = MemoryStore()
    g = chain()
    await g.run({}, store=store, run_id="r")
    claims = [e for e in await g.events("r", store=store) if e.type == "run.claimed"]
    assert claims
    payload = claims[0].payload
    assert payload["driver"]
    assert isinstance(payload["lease_until"], datetime | str)


async def test_the_call_of_a_step() -> None:
    """`tool.called` of the kind step has the step, its occurrence and its attempt."""
    event = await one(chain(), {}, lambda e: e.type == "tool.called" and e.step == "b")
    assert event.payload["kind"] == "step"
    assert (event.payload["step"], event.payload["occurrence"]) == ("b", 1)
    assert event.payload["attempt"] == 1


async def test_the_end_of_a_step() -> None:
    """`tool.completed` has the changes, each with what it is: Set, Append or Add."""
    event = await one(chain(), {"n": 1}, lambda e: e.type == "tool.completed" and e.step == "b")
    assert event.payload["kind"] == "step"
    changes = [(c["op"].lower(), c["key"], c["value"]) for c in event.payload["changes"]]
    assert changes == [("set", "y", 2), ("add", "n", 5), ("append", "log", ["b"])]


async def test_the_failure_of_a_step() -> None:
    """Its end has an error and no changes."""

    def broken(state: State) -> None:
        raise RuntimeError("no paper")

    g: Graph[Any] = Graph("g")
    g.add_step("a", broken)
    event = await one(g, {}, lambda e: e.type == "tool.completed")
    assert "no paper" in str(event.payload["error"])
    assert not event.payload.get("changes")


async def test_a_decision() -> None:
    """`graph.routed` has from, to, one or several, and its number."""
    g: Graph[Any] = Graph("g", "split")
    g.add_step("split", lambda state: None, then=["a", "b"])
    g.add_step("a", lambda state: None, then="meet")
    g.add_step("b", lambda state: None, then="meet")
    g.add_step("meet", lambda state: None, join="all")
    store = MemoryStore()
    await g.run({}, store=store, run_id="r")
    routed = [e.payload for e in await g.events("r", store=store) if e.type == "graph.routed"]
    assert [p["n"] for p in routed] == list(range(1, len(routed) + 1))
    assert (list(routed[0]["from"]), list(routed[0]["to"])) == (["split"], ["a", "b"])
    assert (sorted(routed[-2]["from"]), list(routed[-2]["to"])) == (["a", "b"], ["meet"])
    assert (list(routed[-1]["from"]), list(routed[-1]["to"])) == (["meet"], [])


async def test_an_effect() -> None:
    """`effect.recorded` has its step, occurrence, key, phase and result."""

    async def step(state: State, ctx: Any) -> None:
        await ctx.effect("send", lambda: {"id": 3}, side_effects="irreversible")

    g: Graph[Any] = Graph("g")
    g.add_step("a", step)
    store = MemoryStore()
    await g.run({}, store=store, run_id="r")
    effects = [e for e in await g.events("r", store=store) if e.type == "effect.recorded"]
    assert [e.payload["phase"] for e in effects] == ["started", "done"]
    assert {(e.step, e.payload["occurrence"], e.payload["key"]) for e in effects} == {
        ("a", 1, "send")
    }
    assert effects[1].payload["result"] == {"id": 3}


async def test_a_question_and_its_answer() -> None:
    """The request has the question, its kind, payload and schema; the grant has who answered."""
    g: Graph[Any] = Graph("g")
    schema = {"type": "integer"}
    g.add_step("a", lambda state: Ask("how many?", schema=schema, phase="after", into="n"))
    store = MemoryStore()
    first = await g.run({}, store=store, run_id="r")
    await g.resume("r", answers={first.interrupts[0].id: 3}, store=store)
    events = await g.events("r", store=store)
    asked = next(e for e in events if e.type == "approval.requested")
    assert asked.step == "a"
    assert asked.payload["question"] == first.interrupts[0].id
    assert (asked.payload["kind"], asked.payload["payload"]) == ("input", "how many?")
    assert asked.payload["schema"] == schema
    granted = next(e for e in events if e.type == "approval.granted")
    assert granted.payload["question"] == first.interrupts[0].id
    assert granted.payload["answer"] == 3
    assert granted.payload["by"]
    assert fold(events) == {"n": 3}


async def test_a_resume_says_what_was_given() -> None:
    """`run.resumed` has the input and the answers, as Python objects."""
    g: Graph[Any] = Graph("g")
    g.add_step("a", lambda state: Ask("?", phase="after"), "b")
    g.add_step("b", lambda state: Ask("And?", phase="after", into="b"))
    store = MemoryStore()
    first = await g.run({}, store=store, run_id="r")
    second = await g.resume("r", {"note": "x"}, store=store)
    await g.resume("r", answers={second.interrupts[0].id: (1, 2)}, store=store)
    one, two = [e.payload for e in await g.events("r", store=store) if e.type == "run.resumed"]
    assert (one["input"], one["answers"]) == (
        {"note": "x"},
        {first.interrupts[0].id: {"note": "x"}},
    )
    assert (two["input"], two["answers"]) == ({}, {second.interrupts[0].id: (1, 2)})


async def test_the_closing_event() -> None:
    """It says how the run ended."""
    done = await one(chain(), {}, lambda e: e.type == "run.completed")
    assert done.payload["stop"] == "completed"

    def broken(state: State) -> None:
        raise RuntimeError("no")

    g: Graph[Any] = Graph("g")
    g.add_step("a", broken)
    failed = await one(g, {}, lambda e: e.type == "run.failed")
    assert failed.payload["stop"] == "error"
    assert "no" in failed.payload["error"]
