"""Driving a run: what it writes, when it flushes, how it ends, and how it is stopped."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any, cast

import pytest

from loom_ia.adapters.journals.memory import MemoryJournal
from loom_ia.app import runs
from loom_ia.app.cancel import cancel
from loom_ia.app.runs import Order, resume
from loom_ia.core.decide.effects import CallModel
from loom_ia.core.errors import InternalError, ModelError
from loom_ia.core.events import (
    CATALOGUE,
    Event,
    ModelResponded,
    Payload,
    RunFailed,
    ToolCalled,
    ToolCompleted,
)
from loom_ia.core.model import (
    ModelChunk,
    ModelRequest,
    Stopped,
    ToolArgsDelta,
    ToolCallEnded,
    ToolCallStarted,
    Usage,
    UsageReported,
)
from loom_ia.core.ports.journal import SequenceConflict
from loom_ia.core.state import Failed, RunState, Status
from loom_ia.engine.interrupt import Interrupt
from loom_ia.engine.perform import EffectContext, Performers
from loom_ia.testing.journals import JournalSpy
from tests.engine.world import (
    Ask,
    Gate,
    Hand,
    Model,
    Unsayable,
    World,
    agent,
    results,
    run,
    running,
    settle,
    text_of,
)

SENDS: dict[str, Any] = {"side_effects": "irreversible"}
HELD = 0.01  # seconds: a limit that something which never ends runs into


def error_of(state: RunState) -> str:
    """Give the kind of error of a run that failed."""
    return state.outcome.error_type if isinstance(state.outcome, Failed) else ""


async def test_a3_a_run_is_written_in_the_order_of_what_happens() -> None:
    """Each effect is announced, told and closed; status and answer come together."""
    world = World()
    state = await run(world.instance(agent(Model(Ask()), Hand())))
    assert (text_of(state), state.iterations) == ("done", 2)
    assert await world.types("session-1") == [
        "run.started",
        "message.user",
        "run.claimed",
        "step.started",
        "model.responded",
        "step.completed",
        "step.started",
        "tool.called",
        "tool.completed",
        "step.completed",
        "step.started",
        "model.responded",
        "step.completed",
        "run.completed",
    ]
    assert [e.seq for e in await world.events("session-1")] == list(range(1, 15))


async def test_spans_form_a_tree() -> None:
    """Steps hang on the run, calls on their step, and what belongs to a call bears its span."""
    world = World()
    await run(world.instance(agent(Model(Ask()), Hand(approval="never"))))
    events = await world.events("session-1")
    steps = [e for e in events if e.type == "step.started"]
    assert all((e.span_id, e.parent_span_id) == (e.event_id, "run-1") for e in steps)
    (called,) = [e for e in events if e.type == "tool.called"]
    assert called.parent_span_id == steps[1].span_id
    (ended,) = [e for e in events if e.type == "tool.completed"]
    assert ended.span_id == called.span_id
    answers = [e.span_id for e in events if e.type == "model.responded"]
    assert answers == [steps[0].span_id, steps[2].span_id]


@pytest.mark.parametrize(
    ("declared", "flushes"),
    [
        (SENDS, 22),
        ({"side_effects": "reversible"}, 22),
        ({"side_effects": "irreversible", "idempotent": True}, 22),
        ({"side_effects": "none"}, 12),
    ],
)
async def test_ten_tool_turns_cost_few_flushes_and_one_batch_between_effects(
    declared: dict[str, Any], flushes: int
) -> None:
    """Before each model call, before each call that acts, and before the result: no more."""
    spy = JournalSpy(MemoryJournal())
    instance = World(spy).instance(agent(Model(*[Ask()] * 10), Hand(**declared), max_iterations=99))
    await run(instance)
    assert spy.counts.syncs == flushes
    assert spy.counts.appends == 11 + 10 + 1, "one batch before each effect, and one at the end"


async def test_a_thousand_turns_fold_each_event_once_and_read_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a run costs is what is new in it."""
    folded = 0

    def counting(payload_class: type[Payload]) -> Any:
        evolve = payload_class.evolve

        def counted(self: Any, run: RunState, fact: Any) -> RunState:
            nonlocal folded
            folded += 1
            return evolve(self, run, fact)

        return counted

    for payload_class in CATALOGUE.values():
        monkeypatch.setattr(payload_class, "evolve", counting(payload_class))
    spy = JournalSpy(MemoryJournal())
    world = World(spy)
    instance = world.instance(agent(Model(*[Ask()] * 1000), Hand(), max_iterations=10_000))
    await run(instance)
    events = len(await world.events("session-1"))
    assert folded == events - 1, "all but the event that begins the run"
    assert spy.counts.reads == 2, "one by the run, one by this test"


async def test_a_driver_that_does_not_advance_says_so() -> None:
    """An effect that leaves no fact is a bug, not a loop."""

    async def idle(effect: CallModel, context: EffectContext) -> None:
        pass

    world = World()
    instance = world.instance(agent(Model()))
    opened = await runs.open_run(instance, Order("clerk", "go", "session-1", "run-1"))
    with pytest.raises(InternalError, match="run-1 does not advance on CallModel"):
        await runs.drive(
            instance, opened.pen, opened.program, performers=Performers(call_model=idle)
        )


async def test_a7_a_forced_answer_ends_a_run_that_has_no_iteration_left() -> None:
    """The last request offers no choice of tools, and a call in its answer is not executed."""
    world = World()
    tool = Hand()
    model = Model(last=[Ask()])
    state = await run(world.instance(agent(model, tool, max_iterations=1)))
    assert (state.status, state.iterations) == (Status.COMPLETED, 2)
    assert [request.tool_choice for request in model.requests] == ["auto", "none"]
    assert len(tool.runs) == 1
    assert "Conclude now" in model.requests[-1].notes[0].as_text()


async def test_a16_a_run_out_of_time_in_a_model_call_fails_and_can_be_resumed() -> None:
    """The call is cut, the run fails as timed out, and resuming gives it its whole time again."""
    world = World()
    gate = Gate()
    model = Model(gate)
    instance = world.instance(agent(model, timeout=HELD))
    state = await run(instance)
    assert error_of(state) == "timeout"
    gate.open()
    assert text_of(await resume(instance, "run-1")) == "done"
    types = await world.types("session-1")
    assert [t for t in types if t in {"run.failed", "run.resumed", "run.completed"}] == [
        "run.failed",
        "run.resumed",
        "run.completed",
    ]


@pytest.mark.parametrize(("declared", "times"), [(SENDS, 1), ({}, 2)])
async def test_a16_a_run_out_of_time_in_a_tool_fails_and_can_be_resumed(
    declared: dict[str, Any], times: int
) -> None:
    """A call that may run again does, another one's effect is unknown to the model."""
    world = World()
    gate = Gate()
    tool = Hand(action=lambda _, __: gate.stop(), **declared)
    model = Model(Ask())
    instance = world.instance(agent(model, tool, timeout=HELD))
    assert error_of(await run(instance)) == "timeout"
    assert tool.contexts[0].should_stop()
    gate.open()
    assert text_of(await resume(instance, "run-1")) == "done"
    assert len(tool.runs) == times
    ((_, text),) = results(model.requests[-1])
    assert ("not known whether it took effect" in text) is (times == 1)


async def test_time_that_the_clock_tells_ends_a_run_between_two_steps() -> None:
    """Driven time is that of the facts, so that it holds over crashes."""
    world = World()

    def slow(_: object, __: object) -> str:
        world.clock.advance(3)
        return "ok"

    instance = world.instance(agent(Model(*[Ask()] * 5), Hand(action=slow), timeout=5.0))
    state = await run(instance)
    assert error_of(state) == "timeout"
    assert (await world.count("session-1"))["tool.completed"] == 2


async def test_an_answer_that_comes_in_time_is_not_lost_to_the_limit() -> None:
    """Once the answer is there, the run completes whatever the clock says."""
    world = World()

    def late(_: object) -> str:
        world.clock.advance(60)
        return "just in time"

    state = await run(world.instance(agent(Model(late), timeout=5.0)))
    assert text_of(state) == "just in time"


async def test_pub_06_a_model_that_fails_after_an_approved_call_can_be_resumed() -> None:
    """The call is not made again, nobody is asked again, and the answer comes."""
    world = World()
    tool = Hand(**SENDS)
    down = ModelError("overloaded", "the provider is down")
    model = Model(Ask(), down)
    instance = world.instance(agent(model, tool))
    state = await run(instance)
    assert error_of(state) == "model.overloaded"
    assert (await world.types("session-1"))[-2:] == ["step.completed", "run.failed"]
    model.replies[1] = "sent"
    assert text_of(await resume(world.instance(agent(model, tool), "worker-2"), "run-1")) == "sent"
    assert len(tool.runs) == 1


@pytest.mark.parametrize(
    ("fault", "error_type", "reopens"),
    [
        (ModelError("auth", "no key"), "model.auth", True),
        (RuntimeError("adapter"), "RuntimeError", False),
        (KeyError("\ud800"), "KeyError", False),
        (StopIteration(), "RuntimeError", False),
        (Unsayable(), "Unsayable", False),
        (ModelError("transient", "half \ud800"), "model.transient", True),
        (ModelError("transient", "{lost}", found=1), "model.transient", True),
        (asyncio.CancelledError(), "model.transient", True),
    ],
)
async def test_a_model_that_raises_ends_the_run_with_a_fact(
    fault: BaseException, error_type: str, *, reopens: bool
) -> None:
    """An adapter's fault is told and closes the run: it never stays open without a driver."""
    world = World()
    state = await run(world.instance(agent(Model(fault))))
    assert (error_of(state), state.is_resumable) == (error_type, reopens)
    (failed,) = [e.payload for e in await world.events("session-1") if e.type == "run.failed"]
    assert isinstance(failed, RunFailed)
    failed.error.encode()


async def test_a_stream_that_was_cut_is_no_answer() -> None:
    """A model that stops in the middle fails the call; half an answer is never journalled."""

    class Cut(Model):
        async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
            async for chunk in super().stream(request):
                if type(chunk).__name__ != "Stopped":
                    yield chunk

    world = World()
    state = await run(world.instance(agent(Cut("half an answer"))))
    assert error_of(state) == "model.transient"
    assert "model.responded" not in await world.types("session-1")


@pytest.mark.parametrize(
    "last",
    [
        Stopped(cast("Any", "tired")),
        UsageReported(cast("Any", "much")),
        ToolCallStarted(cast("Any", b"c"), "act"),
        ToolCallStarted("c", cast("Any", None)),
        "no chunk",
    ],
)
async def test_an_answer_that_no_fact_can_hold_ends_the_run(last: Any) -> None:
    """What an adapter gives is checked before it is staged: the run is told as failed."""

    class Odd(Model):
        async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
            async for chunk in super().stream(request):
                yield chunk
            yield last

    world = World()
    state = await run(world.instance(agent(Odd("an answer"))))
    assert state.status is Status.FAILED
    assert (await world.types("session-1"))[-1] == "run.failed"


async def test_a_call_id_used_twice_in_one_answer_is_told_apart() -> None:
    """Each call has its own tool, arguments and result, so that none is made in another's place."""
    model = Model(
        [
            Ask("act", {"n": 1}, call_id="x"),
            Ask("other", {"n": 2}, call_id="x"),
            Ask("act", {"n": 3}, call_id="x"),
        ]
    )
    act, other = Hand(**SENDS), Hand("other", **SENDS)
    await run(World().instance(agent(model, act, other)))
    assert [call_id for call_id, _ in results(model.requests[-1])] == ["x", "x_2", "x_3"]
    assert (act.runs, other.runs) == ([{"n": 1}, {"n": 3}], [{"n": 2}])


async def test_a_call_id_used_again_in_a_later_answer_is_told_apart() -> None:
    """A decision and an idempotency key name one call of the run, never a later one."""
    model = Model(Ask(call_id="x"), [Ask(call_id="x"), Ask(call_id="x_2")], Ask(call_id="x"))
    tool = Hand(**SENDS)
    await run(World().instance(agent(model, tool)))
    ids = ["x", "x_2", "x_2_2", "x_3"]
    assert [call_id for call_id, _ in results(model.requests[-1])] == ids
    assert len({context.idempotency_key for context in tool.contexts}) == len(ids)


async def test_a_call_that_was_cut_before_its_arguments_is_not_made() -> None:
    """No text at all means no arguments only when the model ended the call."""

    class Cut(Model):
        async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
            async for chunk in super().stream(request):
                if isinstance(chunk, Stopped):
                    yield Stopped("tool_use" if request.messages[-1].role == "user" else "end")
                elif not isinstance(chunk, ToolArgsDelta | ToolCallEnded):
                    yield chunk

    tool = Hand(**SENDS)
    model = Cut(Ask())
    assert text_of(await run(World().instance(agent(model, tool)))) == "done"
    assert tool.runs == []
    ((_, told),) = results(model.requests[-1])
    assert "not a JSON object" in told


async def test_what_a_request_was_is_in_the_fact_of_its_answer() -> None:
    """The digest of the request is written, and is the one that the same facts give again."""
    world = World()
    await run(world.instance(agent(Model(Ask()), Hand())))
    answers = [
        e.payload for e in await world.events("session-1") if isinstance(e.payload, ModelResponded)
    ]
    assert len({answer.request_hash for answer in answers}) == 2
    assert set(answers[0].request_parts) == {"model", "system", "tools", "settings", "messages"}
    assert answers[0].usage == Usage(input_tokens=10, output_tokens=2)


async def test_a18_a_cancel_from_inside_stops_the_tool_at_once() -> None:
    """The drive ends without waiting for the tool, which is told to stop."""
    world = World()
    gate = Gate()
    tool = Hand(action=lambda _, __: gate.stop(), **SENDS)
    instance = world.instance(agent(Model(Ask()), tool))
    async with running(run(instance)) as driving:
        await gate.reached()
        assert await cancel(instance, "run-1", by="ada")
        assert (await driving).status is Status.CANCELLED
        assert not await cancel(instance, "run-1", by="ada")
    assert tool.contexts[0].should_stop()
    assert (await world.count("session-1"))["run.cancelled"] == 1


async def test_a_cancel_stops_a_model_that_answers() -> None:
    """Nothing of the answer is written after the end of the run."""
    world = World()
    gate = Gate()
    instance = world.instance(agent(Model(gate)))
    async with running(run(instance)) as driving:
        await gate.reached()
        await cancel(instance, "run-1", by="ada")
        assert (await driving).status is Status.CANCELLED
    assert (await world.types("session-1"))[-1] == "run.cancelled"


async def test_pub_07_a_session_goes_on_after_a_cancelled_pause() -> None:
    """The question falls with the run, and the next run reads a valid conversation."""
    world = World()
    tool = Hand(approval="always")
    model = Model(Ask())
    instance = world.instance(agent(model, tool))
    assert (await run(instance)).status is Status.PAUSED
    await cancel(instance, "run-1", by="ada")
    model.replies[0] = "hello"
    state = await run(instance, "and now?", run_id="run-2")
    assert text_of(state) == "hello"
    assert "await a human" not in model.requests[-1].system
    assert [m.role for m in model.requests[-1].history] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]


async def test_an_interruption_that_the_effect_swallows_leaves_the_driver_sound() -> None:
    """A driver whose effect ignores an interruption is told why, and can be interrupted again."""
    interrupt = Interrupt()

    async def deaf() -> None:
        interrupt.now("deadline")
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            return

    for _ in range(2):
        assert await interrupt.run(deaf) == "deadline"
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_an_interruption_that_comes_too_late_is_taken_back() -> None:
    """An effect that ends, or fails, in that very instant cancels nothing that follows."""
    interrupt = Interrupt()

    async def ends() -> None:
        interrupt.now("closed")

    async def fails() -> None:
        interrupt.now("closed")
        raise ModelError("transient", "down")

    assert await interrupt.run(ends) == "closed"
    with pytest.raises(ModelError):
        await interrupt.run(fails)
    await asyncio.sleep(0)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_a_cancellation_from_outside_is_left_alone() -> None:
    """Whoever cancels the driver's task cancels it, even when it is interrupted as well."""
    interrupt = Interrupt()
    gate = Gate()

    async def both() -> None:
        await interrupt.run(gate.stop)

    task = asyncio.ensure_future(both())
    await gate.reached()
    interrupt.now("deadline")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_interruption_without_an_effect_does_nothing() -> None:
    """Between two effects there is nothing to stop."""
    interrupt = Interrupt()
    interrupt.now("closed")
    await asyncio.sleep(0)


async def test_an_abandoned_run_keeps_what_its_calls_did() -> None:
    """A result that was known when the caller left is written: the effect is not unknown."""
    world = World()
    instance = world.instance(agent(model := Model(Ask()), tool := Hand(**SENDS)))
    opened = await runs.open_run(instance, Order("clerk", "go", "session-1", "run-1"))
    lock = opened.log.lock
    acted = asyncio.Event()

    async def act() -> str:
        acted.set()
        await lock.acquire()  # so that the driver cannot write what it will know
        return "sent"

    tool._action = lambda _, __: act()
    async with running(runs.drive(instance, opened.pen, opened.program)) as driving:
        await acted.wait()
        await settle()
        driving.cancel()
        await settle()
        lock.release()
        with pytest.raises(asyncio.CancelledError):
            await driving
    assert (await world.types("session-1"))[-2:] == ["tool.completed", "run.claimed"]
    assert text_of(await resume(instance, "run-1")) == "done"
    assert len(tool.runs) == 1
    assert results(model.requests[-1]) == [("c0.0", "sent")]


async def test_a_run_that_was_abandoned_launches_nothing_afterwards() -> None:
    """What was decided and not written when the caller left is decided again, not half written."""
    world = World()
    tool = Hand(**SENDS)
    instance = world.instance(agent(Model(Ask()), tool))
    opened = await runs.open_run(instance, Order("clerk", "go", "session-1", "run-1"))
    lock = opened.log.lock
    answered = asyncio.Event()

    class Locking(Model):
        async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
            async for chunk in super().stream(request):
                yield chunk
            await lock.acquire()
            answered.set()

    program = agent(Locking(Ask()), tool)
    async with running(runs.drive(instance, opened.pen, program)) as driving:
        await answered.wait()
        await settle()
        driving.cancel()
        await settle()
        lock.release()
        with pytest.raises(asyncio.CancelledError):
            await driving
    assert (await world.types("session-1"))[-2:] == ["model.responded", "run.claimed"]
    assert text_of(await resume(instance, "run-1")) == "done"
    assert len(tool.runs) == 1
    called = [e.payload for e in await world.events("session-1") if e.type == "tool.called"]
    assert [c.resumed for c in called if isinstance(c, ToolCalled)] == [False]


async def test_a_request_is_built_anew_when_a_turn_ends_before_the_run_begins() -> None:
    """What the model read is what anybody who reads the journal will find that it read."""
    world = World()
    gate = Gate()
    model = Model(gate, last="first answer")
    instance = world.instance(agent(model))
    async with running(run(instance)) as first:
        await gate.reached()
        opened = await runs.open_run(instance, Order("clerk", "second", "session-1", "run-2"))
        lock = opened.log.lock
        await lock.acquire()
        async with running(runs.drive(instance, opened.pen, opened.program)) as second:
            gate.open()
            await settle()
            waiters = list(lock._waiters or ())
            assert len(waiters) == 2
            lock._waiters.reverse()  # type: ignore[union-attr]
            lock.release()
            await first
            await second
    request = next(r for r in model.requests if r.messages[0].as_text() == "second")
    assert [m.as_text() for m in request.history] == ["go", "first answer"]
    assert len([r for r in model.requests if r.messages[0].as_text() == "second"]) == 1


async def test_a_request_is_built_anew_when_another_run_begins_to_wait() -> None:
    """What a conflict tells of other runs is in the request that follows it."""

    class Beaten(MemoryJournal):
        async def append(
            self, batch: Sequence[Event], *, expected: int, sync: bool
        ) -> int | SequenceConflict:
            if batch[0].run_id == "run-2" and expected == 0:
                await run(other)
            return await super().append(batch, expected=expected, sync=sync)

    world = World(Beaten())
    tool = Hand(approval="always")
    other = world.instance(agent(Model(Ask()), tool), "worker-2")
    model = Model("noted")
    state = await run(world.instance(agent(model, tool)), run_id="run-2")
    assert text_of(state) == "noted"
    assert "await a human decision: act (c0.0)" in model.requests[0].system


async def test_the_result_of_a_call_is_known_to_the_model_once() -> None:
    """One `tool.called` and one `tool.completed` for each call, one result in the request."""
    world = World()
    model = Model([Ask(arguments={"n": n}) for n in range(5)])
    await run(world.instance(agent(model, Hand(action=lambda a, _: a["n"]))))
    assert [text for _, text in results(model.requests[-1])] == ["0", "1", "2", "3", "4"]
    events = await world.events("session-1")
    ended = [e.payload.call_id for e in events if isinstance(e.payload, ToolCompleted)]
    assert sorted(ended) == sorted(set(ended))
