"""Runs that a call opens: begun in one batch with the call, driven by whoever drives the caller.

A run below has no driver of its own: it is ours as long as the run at the top is. It is found again
by its id, so that a caller that goes on goes on with it, and never opens a second one.
"""

import time
from collections.abc import Awaitable, Mapping, Sequence

from loom_ia.core.decide.effects import Opening
from loom_ia.core.errors import InternalError, ToolError, text_of, told
from loom_ia.core.events.envelope import Payload
from loom_ia.core.events.run import RunResumed, RunStarted
from loom_ia.core.events.tool import ToolCompleted
from loom_ia.core.ids import RunId
from loom_ia.core.json import storable_text
from loom_ia.core.model.content import ToolOutput
from loom_ia.core.spans import span
from loom_ia.core.state.calls import Call
from loom_ia.core.state.run import RunState
from loom_ia.core.state.session import is_held
from loom_ia.engine.perform.context import DriveBelow, EffectContext
from loom_ia.engine.perform.session_state import settled
from loom_ia.engine.program import (
    AnyProgram,
    Caller,
    Delegate,
    Fault,
    GraphProgram,
    Program,
    StepDelegate,
)

Begun = tuple[Opening, tuple[RunStarted, tuple[Payload, ...]] | Exception]


async def opened(openings: Sequence[Opening], context: EffectContext) -> list[Begun]:
    """Make the first facts of the runs that calls open; nothing is staged.

    What keeps one of them from beginning takes the place of its facts.
    """
    run, begun = context.run, list[Begun]()
    files = context.program.artifacts if isinstance(context.program, Program) else None
    caller = Caller(run, context.pen.log.state, files)
    for opening in openings:
        call = run.call(opening.call_id) or Call(opening.call_id, opening.name, {})
        try:
            facts = await _delegate(call, context).opening(call, caller)
        except Exception as error:  # noqa: BLE001 -- code of the user, whose fault fails the call
            begun.append((opening, error))
        else:
            begun.append((opening, facts))
    return begun


def stage(begun: Sequence[Begun], context: EffectContext) -> None:
    """Stage the first facts of runs whose calls are staged."""
    for opening, facts in begun:
        if isinstance(facts, Exception):
            _stage_fault(opening, facts, context)
            continue
        started, others = facts
        header = context.run.header
        placed = started.model_copy(
            update={
                "parent_run_id": header.run_id,
                "parent_call_id": opening.call_id,
                "depth": header.depth + 1,
                "judges": header.judges,
            }
        )
        program = delegate_named(opening.name, context.program).program
        context.pen.stage_run(opening.child_run_id, placed, *others, agent=program.plan.name)


def _stage_fault(opening: Opening, error: Exception, context: EffectContext) -> None:
    context.causes[(context.run.run_id, opening.name)] = error
    text = text_of(error) if isinstance(error, ToolError) else told(error)
    context.stage(
        ToolCompleted(
            call_id=opening.call_id,
            tool_name=opening.name,
            output=ToolOutput.of_error(storable_text(text)),
            error_type="StepFailed" if context.run.flow else "",
        )
    )


async def drive_child(call: Call, context: EffectContext) -> tuple[Payload, ...]:
    """Drive the run that a call opened; gives the end of the call, nothing while it waits."""
    started = time.perf_counter()
    delegate = _delegate(call, context)
    log = context.pen.log
    child = log.run(call.child_run_id)
    if child is None:  # the batch that opened it was written by nobody: open it now
        opening = Opening(call.call_id, call.name, call.child_run_id)
        stage(await opened((opening,), context), context)
        await context.pen.commit(sync=False)
        child = log.run(call.child_run_id)
        if child is None:
            return ()
    if child.is_resumable:
        child = await _reopen(child, context)
    if child.outcome is None and context.drive_below is not None:
        driven = await _driven(child, call, delegate, context, context.drive_below)
        if isinstance(driven, Fault):
            return fault_facts(driven, call, context, _since(started))
        child = driven
        if child.outcome is None and context.halt.asked:
            return ()
        if child.outcome is None and not is_held(child, log.state.runs, log.clock.now()):
            raise InternalError("run {run_id} stands still", run_id=child.run_id)
    return _end(child, call, delegate, context, _since(started))


async def _driven(
    child: RunState, call: Call, delegate: Delegate, context: EffectContext, below: DriveBelow
) -> RunState | Fault:
    def drive() -> Awaitable[RunState]:
        return below(context, child.run_id, delegate.program)

    step: StepDelegate | None = delegate if hasattr(delegate, "driven") else None  # pyright: ignore[reportAssignmentType] -- what a tool opens may have it too
    if step is None:
        return await drive()
    return await step.driven(child, call, drive, context.pen.log.state, context.causes)


def _since(started: float) -> int:
    return round((time.perf_counter() - started) * 1000)


async def _reopen(child: RunState, context: EffectContext) -> RunState:
    root = context.pen.log.run(child.header.root_run_id)
    run = await context.pen.log.append(child.run_id, lambda _, __: (RunResumed(),), sync=False)
    if root is not None:
        run = run.steered(root)
        context.pen.log.state.put(run)
    return run


def _end(
    child: RunState, call: Call, delegate: Delegate, context: EffectContext, latency: int
) -> tuple[Payload, ...]:
    if context.run.flow is None:
        if child.outcome is None:
            return ()
        output = getattr(delegate, "output")(child)  # noqa: B009 -- a delegate of a tool
        output = settled(output, call, context)
        return (
            ToolCompleted(
                call_id=call.call_id, tool_name=call.name, output=output, latency_ms=latency
            ),
        )
    step: StepDelegate = delegate  # pyright: ignore[reportAssignmentType] -- of a graph
    if child.outcome is None and step.bubbles:
        return ()
    end = step.ended(child, call, context.run, context.pen.log.state, context.causes)
    if isinstance(end, Fault):
        return fault_facts(end, call, context, latency)
    return (
        ToolCompleted(
            call_id=call.call_id,
            tool_name=call.name,
            changes=end.changes,
            latency_ms=latency,
        ),
    )


def fault_facts(
    fault: Fault, call: Call, context: EffectContext, latency: int
) -> tuple[Payload, ...]:
    """Give the end of a step that failed, or of an attempt after which it is tried again."""
    if fault.retry_in is not None:
        return (
            ToolCompleted(
                call_id=call.call_id,
                tool_name=call.name,
                output=ToolOutput.of_error(fault.text),
                latency_ms=latency,
                error_type=fault.error,
                retry_at=context.pen.log.clock.now() + span(fault.retry_in),
            ),
        )
    if fault.cause is not None:
        context.causes[(context.run.run_id, call.name)] = fault.cause
    return (
        ToolCompleted(
            call_id=call.call_id,
            tool_name=call.name,
            output=ToolOutput.of_error(fault.text),
            outcome="unknown" if fault.is_unknown else None,
            latency_ms=latency,
            changes=fault.changes,
            error_type=fault.error if context.run.flow else "",
            key=fault.key,
        ),
    )


def program_of(run: RunState, root: AnyProgram, runs: Mapping[RunId, RunState]) -> AnyProgram:
    """Give what drives a run, from what drives the one at the top of its tree.

    Raises `InternalError` when the run that opened it does not know it any more.
    """
    parent = runs.get(run.header.parent_run_id or "")
    if parent is None:
        return root
    above = program_of(parent, root, runs)
    call = parent.call(run.header.parent_call_id)
    return delegate_named(call.name if call else "", above).program


def _delegate(call: Call, context: EffectContext) -> Delegate:
    return delegate_named(call.name, context.program)


def delegate_named(name: str, program: AnyProgram) -> Delegate:
    """Give what a call of that name opens; raises `InternalError` when it opens nothing."""
    if isinstance(program, GraphProgram):
        found: Delegate | None = program.bindings.delegate(name)
    else:
        found = getattr(program.tools.get(name), "delegate", None)
    if found is None:
        raise InternalError("{name} opens no run", name=name)
    return found
