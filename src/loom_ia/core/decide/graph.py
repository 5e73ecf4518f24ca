"""What happens next in the run of a graph: read this one function.

A step that failed ends the run, once what runs beside it is stopped, unless another step takes
over. Each line then goes on by itself: a step that is due is looked at by the hooks and called, a
step that ended is looked at and routed, branches meet. What only writes facts goes first; then one
thing that runs code of the user; then the steps that are running are waited for.

The function is total: any prefix of any journal has a next move.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from loom_ia.core.decide.calls import Fates, decide_call, launch, openings
from loom_ia.core.decide.closing import completed, failed, is_out_of_time
from loom_ia.core.decide.effects import (
    AskApprover,
    Effect,
    Emit,
    Finished,
    Meet,
    Move,
    ReviewStep,
    Route,
    RunSteps,
    StopSteps,
    Wait,
)
from loom_ia.core.decide.limits import exhausted, steps_left
from loom_ia.core.events.envelope import Payload
from loom_ia.core.events.graph import GraphRouted
from loom_ia.core.events.tool import ToolCalled
from loom_ia.core.ids import CallId
from loom_ia.core.model.messages import Message
from loom_ia.core.plan import GraphPlan
from loom_ia.core.state.calls import Call
from loom_ia.core.state.flow import Flow, Line
from loom_ia.core.state.run import GRAPH_FAILURE, RunState
from loom_ia.core.state.session import RunView, is_held

NO_FALLBACK: Final = frozenset({"Blocked", "BudgetExhausted", "UnknownEffect"})
"""Failures after which no other step takes over."""


@dataclass(slots=True)
class _Findings:
    """What was found on the lines. `places` has how many items of a list may still be launched.

    `calls` has what is on the table by id: a run may have thousands of lines.
    """

    calls: dict[CallId, Call] = field(default_factory=dict[CallId, Call])
    facts: list[Payload] = field(default_factory=list[Payload])
    called: list[ToolCalled] = field(default_factory=list[ToolCalled])
    effect: Effect | None = None
    running: list[Call] = field(default_factory=list[Call])
    held: list[Call] = field(default_factory=list[Call])
    until: datetime | None = None
    failure: Payload | None = None
    starting: int = 0
    places: dict[str, int] = field(default_factory=dict[str, int])


def decide_graph(view: RunView, plan: GraphPlan, now: datetime) -> Move:
    """Give the next move of the run of a graph."""
    run, flow = view.run, view.run.flow
    if run.outcome is not None:
        return Finished()
    if not run.understood or flow is None:  # a fact of a newer version: only read it
        return Wait(None)
    found = _Findings({call.call_id: call for call in run.table})
    found.running = [call for call in run.table if _is_running(call, view, plan, now)]
    if is_out_of_time(run, plan.timeout, now):
        found.failure = _failed(
            run, "RunTimeout", f"it was driven for more than {plan.timeout:g} s"
        )
    else:
        late = _too_late(flow)
        places = found.places
        for path, line in flow.lines.items():
            stage = line.stage  # most lines of a long list are over, or wait for a place
            if stage == "ended" or (stage == "due" and places.get(path.rpartition("/")[0], 1) <= 0):
                continue
            if not late or not f"{line.path}/".startswith(late):
                _advance(line, view, flow, plan, now, found)
    if found.failure is not None:
        return _stop_or(found.running, Emit((found.failure,)))
    if flow.is_over:
        return _stop_or(found.running, Emit((completed(run, _answer(flow)),)))
    return _move(found, view, plan)


def _move(found: _Findings, view: RunView, plan: GraphPlan) -> Move:
    if found.facts or found.called:
        called = tuple(found.called)
        return Emit((*found.facts, *called), openings(called, view))
    if found.effect is not None:
        return found.effect
    if found.running or found.until is not None:
        acts = any(_acts(call, plan) for call in found.running)
        return RunSteps(tuple(found.running), acts, found.until)
    asked = tuple(call for call in found.held if call.awaits_answer)
    if plan.inline_approver and asked:
        return AskApprover(asked)
    return Wait(None)


def _too_late(flow: Flow) -> tuple[str, ...]:
    """Give how the paths of the branches begin that are over, whoever is still on the way."""
    if len(flow.lines) == 1:
        return ()
    meeting = (line for line in flow.lines.values() if line.stage == "split")
    return tuple(
        f"{branch.path}/"
        for line in meeting
        if flow.can_meet(line)
        for branch in flow.branches_of(line)
    )


def _advance(
    line: Line, view: RunView, flow: Flow, plan: GraphPlan, now: datetime, found: _Findings
) -> None:
    match line.stage:
        case "due":
            _start(line, view, flow, plan, found)
        case "called":
            _follow(line, view, flow, plan, now, found)
        case "done":
            _leave(line, view, plan, found)
        case "split":
            if found.effect is None and flow.can_meet(line):
                found.effect = _meeting(line, view, flow, plan, now)
        case "ended":
            pass


def _start(line: Line, view: RunView, flow: Flow, plan: GraphPlan, found: _Findings) -> None:
    """Call the step that is due: limits first, then the hooks, then the call."""
    run = view.run
    call_id, _ = flow.next_call(line)
    asked = found.calls.get(call_id)
    if asked is not None and asked.awaits_answer:
        found.held.append(asked)
        return
    if not _has_place(line, flow, found):
        return
    if found.failure is None:
        found.failure = _limit(line, view, flow, plan, found.starting)
    if found.failure is not None:
        return
    if line.reviewed < plan.before:
        found.effect = found.effect or ReviewStep(line, call_id, after=False)
        return
    found.starting += 1
    _take_place(line, found)
    facts = plan.tools.get(line.step)
    if facts is None:
        found.failure = _failed(run, "StepNotFound", f"there is no step {line.step!r}", line.step)
        return
    found.called.append(launch(asked or Call(call_id, line.step, {}), run, plan))


def _has_place(line: Line, flow: Flow, found: _Findings) -> bool:
    """Whether an item of a list may be launched beside those that run; one that waits does not."""
    above, _, _ = line.path.rpartition("/")
    parent = flow.lines.get(above) if line.path else None
    if parent is None or parent.mapped is None:
        return True
    if above not in found.places:
        items = parent.branch_path(0)[:-1]
        busy = sum(1 for call in found.running if call.call_id.startswith(items))
        found.places[above] = parent.mapped.limit - busy
    return found.places[above] > 0


def _take_place(line: Line, found: _Findings) -> None:
    above, _, _ = line.path.rpartition("/")
    if line.path and above in found.places:
        found.places[above] -= 1


def _limit(line: Line, view: RunView, flow: Flow, plan: GraphPlan, starting: int) -> Payload | None:
    count = (flow.segment if plan.per_segment else flow.started) + starting
    if count >= plan.max_iterations:
        text = f"it started {count} steps, as many as max_iterations lets it"
        return _failed(view.run, "MaxIterationsExceeded", text, line.step)
    left = steps_left(view)
    if left is not None and left <= starting:
        return _failed(view.run, "BudgetExhausted", "the step budget is exhausted", line.step)
    excess = exhausted(view)
    if excess is not None:
        whose = "" if excess.scope == "run" else f" of the {excess.scope}"
        text = f"{excess.limit}{whose} is reached: {excess.spent:.12g} of {excess.value:.12g}"
        return _failed(view.run, "BudgetExhausted", text, line.step)
    return None


def _follow(
    line: Line, view: RunView, flow: Flow, plan: GraphPlan, now: datetime, found: _Findings
) -> None:
    """Go on with the step that was called: it runs, waits, is tried again, or failed."""
    run = view.run
    call = found.calls.get(line.call_id)
    if call is None or _is_running(call, view, plan, now):
        return
    if call.open_inquiries:
        found.held.append(call)
    elif call.failure is not None and not _may_be_asked_about(call, plan):
        _take_over(line, call, run, plan, found)
    elif call.parked and (call.retry_at is not None or not call.child_run_id):
        if call.retry_at is not None and now < call.retry_at:
            found.until = min(found.until or call.retry_at, call.retry_at)
        elif _has_place(line, flow, found):
            _take_place(line, found)
            found.called.append(launch(call, run, plan))
    else:
        fates = Fates()
        decide_call(call, view, plan, now, fates)
        found.facts += fates.facts
        if fates.launches and _has_place(line, flow, found):
            _take_place(line, found)
            found.called += [launch(due, run, plan) for due in fates.launches]
        found.held += fates.held
        found.failure = found.failure or fates.failure


def _may_be_asked_about(call: Call, plan: GraphPlan) -> bool:
    """Whether a human says what becomes of a step whose effect is not known."""
    facts = plan.tools.get(call.name)
    return call.unknown and facts is not None and facts.on_unknown == "pause"


def _take_over(line: Line, call: Call, run: RunState, plan: GraphPlan, found: _Findings) -> None:
    """Let another step run in the place of one that failed, or fail the run."""
    failure, facts = call.failure, plan.tools.get(call.name)
    if failure is None:
        return
    item = _item_of(line, run)
    if item is not None and item.mapped is not None and item.mapped.collects_errors:
        found.facts.append(_routed(line, run, source=(call.name,), ended=True, error=failure.error))
    elif facts is not None and facts.fallback and failure.error_type not in NO_FALLBACK:
        found.facts.append(
            _routed(line, run, source=(call.name,), to=(facts.fallback,), label="fallback")
        )
    elif found.failure is None:
        found.failure = _failed(run, failure.error_type, failure.error, call.name, failure.key)


def _leave(line: Line, view: RunView, plan: GraphPlan, found: _Findings) -> None:
    """Go on from a step that ended: what it asked is answered, hooks let it pass, it is routed."""
    run = view.run
    item = _item_of(line, run)
    if item is None and found.effect is not None:  # one at a time, and this line keeps
        return
    call = found.calls.get(line.call_id)
    if call is not None and call.awaits_answer:
        found.held.append(call)
        return
    if line.call_id and line.reviewed < plan.after:
        found.effect = found.effect or ReviewStep(line, line.call_id, after=True)
        return
    if item is not None:
        found.facts.append(_routed(line, run, source=(line.step,), ended=True))
        return
    facts = plan.tools.get(line.step)
    if facts is not None and facts.leads is not None and line.goto is None:
        # Nobody's code is asked, so the end of the step need not be written before. Decisions are
        # numbered, so that they are made one at a time.
        if not found.facts:
            found.facts.append(_routed(line, run, source=(line.step,), to=facts.leads))
        return
    found.effect = found.effect or Route(line)


def _meeting(line: Line, view: RunView, flow: Flow, plan: GraphPlan, now: datetime) -> Effect:
    """Let branches meet, once those that come too late are stopped."""
    run, branches = view.run, flow.branches_of(line)
    late = tuple(
        call
        for call in run.table
        if _is_running(call, view, plan, now)
        and any(call.call_id.startswith(f"{branch.path}/") for branch in branches)
    )
    return StopSteps(late) if late else Meet(line, branches)


def _item_of(line: Line, run: RunState) -> Line | None:
    """Give the line that split over a list, of which this one is an item."""
    if not line.path or run.flow is None:
        return None
    parent = run.flow.lines.get("/".join(line.path.split("/")[:-1]))
    return parent if parent is not None and parent.mapped is not None else None


def _is_running(call: Call, view: RunView, plan: GraphPlan, now: datetime) -> bool:
    """Whether this drive runs a step; one whose own run waits for somebody waits with it."""
    if call.output is not None or call.launched_in != view.run.drive_id:
        return False
    child = view.runs.get(call.child_run_id) if call.child_run_id else None
    facts = plan.tools.get(call.name)
    if child is None or facts is None or not facts.bubbles:
        return True
    return not is_held(child, view.runs, now)


def _acts(call: Call, plan: GraphPlan) -> bool:
    facts = plan.tools.get(call.name)
    return facts is None or facts.side_effects != "none"


def _stop_or(running: list[Call], move: Emit) -> Move:
    return StopSteps(tuple(running)) if running else move


def _failed(run: RunState, error: str, text: str, step: str = "", key: str = "") -> Payload:
    return failed(run, f"{GRAPH_FAILURE}{error}", text, step=step, key=key)


def _routed(
    line: Line,
    run: RunState,
    *,
    source: tuple[str, ...],
    to: tuple[str, ...] = (),
    label: str = "",
    ended: bool = False,
    error: str = "",
) -> GraphRouted:
    n = (run.flow.routes if run.flow else 0) + 1
    return GraphRouted(
        n=n, line=line.path, source=source, to=to, label=label, ended=ended, error=error
    )


def _answer(flow: Flow) -> Message:
    output = flow.main.values.get("output")
    return Message.text("assistant", output if isinstance(output, str) else "")
