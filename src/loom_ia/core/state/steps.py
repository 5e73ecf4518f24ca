"""What the facts of a graph do to its run: its steps are the calls on the table.

The lines of the graph are folded by `flow`; here each fact moves a line and the call of its step
together. All functions are total: a fact that no longer applies changes nothing.
"""

from datetime import datetime
from typing import Final

from loom_ia.core.ids import CallId, RunId, SpanId
from loom_ia.core.json import JsonValue
from loom_ia.core.model.changes import Change
from loom_ia.core.model.content import ToolOutput
from loom_ia.core.state.calls import Call, Effect, Failure, Inquiry
from loom_ia.core.state.flow import Flow, path_of
from loom_ia.core.state.run import RunState


def launched(
    run: RunState, call_id: CallId, name: str, span: SpanId, at: datetime, *, child: RunId
) -> RunState:
    """Start a step, for the first time or again."""
    flow, call, drive = run.flow, run.call(call_id), run.drive_id
    if flow is None:
        return run
    if call is None or not call.launches:
        flow = flow.called(call_id, name)
    elif call.driven_in != drive:
        flow = flow.but(executed=flow.executed + 1)
    table = run.table
    if call is None:
        call = _new(call_id, name)
        table = (*table, call)
    started = call.launched(span, drive, at).but(child_run_id=child, driven_in=drive)
    return run.but(flow=flow, table=_with(table, started))


def ended(run: RunState, call_id: CallId, changes: tuple[Change, ...], goto: JsonValue) -> RunState:
    """Take what a step did; its call leaves the table when its line goes on."""
    call = run.call(call_id)
    if run.flow is None or call is None:
        return run
    over = call.but(output=_NOTHING, launched_in="")
    flow = run.flow.completed(call_id, changes, goto)
    return run.but(flow=flow, table=_with(run.table, over))


def failed(
    run: RunState,
    call_id: CallId,
    output: ToolOutput,
    failure: Failure,
    changes: tuple[Change, ...],
    *,
    unknown: bool,
) -> RunState:
    """Note how a step failed; `unknown` tells that nobody saw its end."""
    call = run.call(call_id)
    if call is None or run.flow is None:
        return run
    over = call.but(output=output, failure=failure, unknown=unknown, launched_in="")
    return run.but(flow=run.flow.changed(call_id, changes)).with_call(over)


def retried(run: RunState, call_id: CallId, retry_at: datetime) -> RunState:
    """Let a step that failed be tried again."""
    call = run.call(call_id)
    if call is None:
        return run
    return run.with_call(call.set_down().but(attempt=call.attempt + 1, retry_at=retry_at))


def stopped(run: RunState, call_id: CallId) -> RunState:
    """Note that a step was stopped before its end; what it did is not known."""
    call = run.call(call_id)
    return run.with_call(call.but(launched_in="")) if call else run


def acted(run: RunState, call_id: CallId, effect: Effect) -> RunState:
    """Take note of an effect of a step."""
    call = run.call(call_id)
    return run.with_call(call.acted(effect)) if call else run


def inquired(
    run: RunState, call_id: CallId, name: str, inquiry: Inquiry, changes: tuple[Change, ...]
) -> RunState:
    """Ask what a step, or a hook about a step that is due, wants to know."""
    if run.flow is None:
        return run
    run = run.but(flow=run.flow.changed(call_id, changes))
    call = run.call(call_id)
    if call is None:
        call = _new(call_id, name)
        run = run.but(table=(*run.table, call))
    return run.with_call(call.inquired(inquiry))


def told(
    run: RunState, call_id: CallId, inquiry_id: str, answer: JsonValue, *, put: bool
) -> RunState:
    """Take the answer to an inquiry, and `put` it where the step said."""
    call = run.call(call_id)
    asked = next((i for i in call.inquiries if i.id == inquiry_id), None) if call else None
    if call is None or asked is None or not asked.is_open:
        return run
    run = run.with_call(call.told(inquiry_id, answer))
    if not put or not asked.into or run.flow is None:
        return run
    change = Change.of("set", asked.into, answer)
    return run.but(flow=run.flow.changed(call_id, (change,)))


def flowed(run: RunState, flow: Flow) -> RunState:
    """Go on along the lines of the graph; calls of lines that moved on leave the table."""
    if not run.table:
        return run.but(flow=flow)
    table = tuple([call for call in run.table if _is_current(flow, call.call_id)])
    return run.but(flow=flow, table=table)


_NEW: Final = Call("", "", {})

_NOTHING: Final = ToolOutput()
"""What a step gives as a call: what it did to the state is told apart."""


def _new(call_id: CallId, name: str) -> Call:
    occurrence = int(call_id[call_id.rfind("/") + 1 :])
    return _NEW.but(call_id=call_id, name=name, occurrence=occurrence)


def _with(table: tuple[Call, ...], call: Call) -> tuple[Call, ...]:
    if len(table) == 1:
        return (call,) if table[0].call_id == call.call_id else table
    return tuple([call if c.call_id == call.call_id else c for c in table])


def _is_current(flow: Flow, call_id: CallId) -> bool:
    line = flow.lines.get(path_of(call_id))
    if line is None or line.stage in ("split", "ended"):
        return False
    return line.call_id == call_id or (line.stage == "due" and flow.next_call(line)[0] == call_id)
