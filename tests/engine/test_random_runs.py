"""What holds for every session, whatever its models, tools and humans do and wherever it is cut."""

import asyncio
from collections import Counter
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from loom_ia.adapters.journals.memory import MemoryJournal
from loom_ia.core.decide import CallModel, decide
from loom_ia.core.events import (
    ApprovalGranted,
    Event,
    ModelResponded,
    StepStarted,
    ToolCalled,
    ToolCompleted,
    from_full,
)
from loom_ia.core.state import RunState, SessionState
from loom_ia.core.views.result import run_result
from tests.core.cases import Story, fold, reread
from tests.core.validity import faults
from tests.engine.random_runs import Scene, Script, play, scripts

_DAY = timedelta(days=1)


def written(script: Script) -> tuple[list[tuple[Event, ...]], Scene]:
    """Play a script and give its batches."""
    journal, scene = asyncio.run(asyncio.wait_for(play(script), 20))
    return journal.batches, scene


def newcomer() -> RunState:
    """Give a run that is about to begin in the session."""
    return Story().open("newcomer").run


@settings(max_examples=120)
@given(scripts)
def test_pub_21_any_prefix_has_a_status_a_move_and_a_valid_history(script: Script) -> None:
    """Cut after any event, even inside a batch, a journal can be decided upon and read."""
    batches, scene = written(script)
    session = SessionState()
    for batch in batches:
        for event in batch:
            fold(session, [event])
            state = session.runs[event.run_id]
            assert state.status.value
            run_result(state)
            for now in (event.ts, event.ts + _DAY):
                decide(session.view(state), scene.program.plan, now)
            assert faults(session.view(newcomer()).history) == []
        state = session.runs[batch[-1].run_id]
        move = decide(session.view(state), scene.program.plan, batch[-1].ts)
        if isinstance(move, CallModel):
            request = move.request
            assert faults([*request.history]) == []
            assert faults([*request.messages], reasoning=True) == []


@settings(max_examples=120)
@given(scripts)
def test_state_is_the_fold_of_what_was_written(script: Script) -> None:
    """Read back from its stored and its full form, a journal gives the state that was driven."""
    batches, scene = written(script)
    events = [event for batch in batches for event in batch]
    once, again = fold(SessionState(), events), fold(SessionState(), reread(events))
    full = fold(SessionState(), [from_full(event.model_dump(mode="json")) for event in events])
    assert once.runs == again.runs == full.runs
    assert once.view(newcomer()) == again.view(newcomer())
    for run_id in once.runs:
        assert once.view(once.runs[run_id]) == again.view(again.runs[run_id])
    live = asyncio.run(_live(scene))
    assert live.runs == once.runs
    assert live.view(newcomer()) == once.view(newcomer())


async def _live(scene: Scene) -> SessionState:
    log = scene.instance("reader").log("session-1")
    await log.catch_up()
    return log.state


@settings(max_examples=120)
@given(scripts)
def test_a_request_can_be_told_from_the_facts_alone(script: Script) -> None:
    """Where a model was called, the facts before it give the very request that it was sent."""
    batches, scene = written(script)
    session = SessionState()
    asked: dict[str, CallModel] = {}
    for batch in batches:
        fold(session, reread(batch))
        for event in batch:
            if isinstance(event.payload, ModelResponded):
                move = asked[event.run_id]
                assert event.payload.request_hash == move.digest
                assert event.payload.request_parts == dict(move.parts)
        announced = [e for e in batch if isinstance(e.payload, StepStarted)]
        if announced and announced[-1].payload.effect == "model_call":  # type: ignore[attr-defined]
            run_id = announced[-1].run_id
            move = decide(session.view(session.runs[run_id]), scene.program.plan, batch[-1].ts)
            if isinstance(move, CallModel):
                asked[run_id] = move


@settings(max_examples=120)
@given(scripts)
def test_what_cannot_be_repeated_is_not(script: Script) -> None:
    """A call that may not run again is launched once, and once more for each human's yes to it."""
    batches, scene = written(script)
    launches: Counter[str] = Counter()
    grants: Counter[str] = Counter()
    results: Counter[str] = Counter()
    specs = {spec.name: spec for spec in script.tools}
    for batch in batches:
        for event in batch:
            payload = event.payload
            match payload:
                case ToolCalled():
                    launches[payload.call_id] += 1
                    if not specs[payload.tool_name].may_run_again:
                        assert launches[payload.call_id] <= 1 + grants[payload.call_id]
                case ApprovalGranted():
                    grants[payload.call_id] += 1
                case ToolCompleted() if payload.outcome is None:
                    results[payload.call_id] += 1
                case _:
                    pass
    assert all(count == 1 for count in results.values())
    for tool in scene.tools:
        for call_id, times in Counter(tool.acts).items():
            assert times <= launches[call_id], "nothing runs that was not written"


@settings(max_examples=60)
@given(scripts, st.data())
def test_from_any_point_a_session_can_be_driven_to_its_end(
    script: Script, data: st.DataObject
) -> None:
    """A new process with a prefix of the journal ends every run, as it ended where it may."""
    batches, _ = written(script)
    cut = data.draw(st.integers(1, len(batches)))
    ends, acts, after = asyncio.run(asyncio.wait_for(_drive_on(script, batches[:cut]), 20))
    session = fold(SessionState(), [event for batch in batches for event in batch])
    specs = {spec.name: spec for spec in script.tools}
    for run_id, state in ends.items():
        assert state.outcome is not None
        if script.may_repeat:
            whole = session.runs[run_id]
            assert state.status is whole.status
            assert run_result(state).text == run_result(whole).text
            assert state.conversation.digests == whole.conversation.digests
    begun = Counter(
        e.payload.call_id for b in batches[:cut] for e in b if isinstance(e.payload, ToolCalled)
    )
    granted = {e.payload.call_id for e in after if isinstance(e.payload, ApprovalGranted)}
    for (name, call_id), times in acts.items():
        if not specs[name].may_run_again and call_id not in granted:
            assert begun[call_id] + times <= 1


async def _drive_on(
    script: Script, batches: list[tuple[Event, ...]]
) -> tuple[dict[str, RunState], Counter[tuple[str, str]], list[Event]]:
    journal = MemoryJournal()
    for batch in batches:
        await journal.append(batch, expected=batch[0].seq - 1, sync=True)
    scene = Scene(script, journal)
    scene.world.clock.advance(batches[-1][-1].ts - scene.world.clock.now())
    scene.world.clock.advance(61)
    instance = scene.instance("worker-9")
    begun = dict.fromkeys(event.run_id for batch in batches for event in batch)
    ends = {run_id: await scene.finish(instance, run_id) for run_id in begun}
    await instance.close()
    acts = Counter((tool.spec.name, call_id) for tool in scene.tools for call_id in tool.acts)
    return ends, acts, await scene.world.events("session-1")
