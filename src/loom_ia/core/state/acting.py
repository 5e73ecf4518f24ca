"""What facts tell of the effects of a run.

Law. Nothing is guessed. A result that is no error says that it was done. An error says that nothing
was done only where whoever wrote it knows; any other one leaves it unknown.
"""

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

from loom_ia.core.ids import CallId
from loom_ia.core.json import JsonObject
from loom_ia.core.model.tooling import Reconciled, SideEffects
from loom_ia.core.state.acts import Act, EffectStatus
from loom_ia.core.state.calls import EffectPhase, Granted
from loom_ia.core.state.run import RunState

Known: TypeAlias = Literal["done", "not_done"]


def acts_of(run: RunState) -> tuple[Act, ...]:
    """Give the acts of a run as they stand: of one that is over, nobody will see more."""
    if run.is_open or run.is_resumable:
        return tuple(run.acts.values())
    return tuple(act.but(status=_OVER.get(act.status, act.status)) for act in run.acts.values())


_OVER: Final[Mapping[EffectStatus, EffectStatus]] = MappingProxyType(
    {"planned": "not_done", "started": "unknown"}
)


def planned(
    run: RunState, call_id: CallId, tool: str, side_effects: SideEffects | None, at: datetime
) -> RunState:
    """Note that somebody is asked whether a call with effects may be made."""
    call = run.call(call_id)
    if call is None or call.launches or side_effects is None:
        return run
    act = Act(
        run_id=run.run_id,
        call_id=call_id,
        tool=tool,
        key=call_key(run, call_id),
        status="planned",
        at=at,
        arguments=call.arguments,
        side_effects=side_effects,
    )
    return _with(run, act)


def decided(run: RunState, call_id: CallId, at: datetime) -> RunState:
    """Note what was decided about a call, if that decision holds."""
    call, act = run.call(call_id), run.acts.get((call_id, ""))
    if act is None or call is None or call.question is None or call.question.verdict is None:
        return run
    verdict = call.question.verdict
    if isinstance(verdict, Granted):
        return _with(run, act.but(by=verdict.by, arguments=call.arguments))
    return run if call.launches else _with(run, act.but(status="not_done", at=at))


def launched(
    run: RunState,
    call_id: CallId,
    tool: str,
    arguments: JsonObject,
    side_effects: SideEffects | None,
    at: datetime,
) -> RunState:
    """Note that a call is made."""
    if side_effects is None:
        return run
    known = run.acts.get((call_id, ""))
    act = Act(
        run_id=run.run_id,
        call_id=call_id,
        tool=tool,
        key=known.key if known else call_key(run, call_id),
        status="started",
        at=at,
        arguments=arguments,
        side_effects=side_effects,
        by=known.by if known else "",
    )
    return _with(run, act)


def ended(
    run: RunState,
    call_id: CallId,
    at: datetime,
    *,
    is_error: bool,
    is_unknown: bool,
    known: Known | None,
) -> RunState:
    """Take the end of a call; `known` is what the writer of an error knows of the effect."""
    act = run.acts.get((call_id, ""))
    if act is None or act.status in ("done", "not_done"):
        return run
    if is_unknown:
        status: Reconciled = "unknown"
    elif is_error:
        status = known or "unknown"
    else:
        status = "done"
    return _with(run, act.but(status=status, at=at))


def reconciled(run: RunState, call_id: CallId, verdict: Reconciled, at: datetime) -> RunState:
    """Take what the outside world told; what was done is also told by the end of the call."""
    if verdict == "unknown":
        return run
    return _told(run, call_id, status=verdict, reconciled=True, at=at)


def recorded(run: RunState, call_id: CallId, key: str, at: datetime, *, reused: bool) -> RunState:
    """Take what was remembered under `key`: it was done."""
    return _told(run, call_id, status="done", key=key, reused=reused, at=at)


def acted(
    run: RunState,
    call_id: CallId,
    step: str,
    key: str,
    phase: EffectPhase,
    side_effects: SideEffects | None,
    at: datetime,
) -> RunState:
    """Take what a step did inside itself, under `key`; one that raised did not do it."""
    if side_effects is None:
        return run
    status = "not_done" if phase == "failed" else phase
    act = Act(
        run_id=run.run_id,
        call_id=call_id,
        tool=step,
        key=key,
        status=status,
        at=at,
        arguments={},
        side_effects=side_effects,
    )
    return run.but(acts={**run.acts, (call_id, key): act})


def _told(run: RunState, call_id: CallId, **known: Any) -> RunState:
    act = run.acts.get((call_id, ""))
    return run if act is None else _with(run, act.but(**known))


def _with(run: RunState, act: Act) -> RunState:
    return run.but(acts={**run.acts, (act.call_id, ""): act})


def call_key(run: RunState, call_id: CallId) -> str:
    """Identify a call, however often it is launched.

    The id of a call is unique within a run; the turn tells apart journals in which it was not.
    """
    return f"{run.run_id}:{run.iterations}:{call_id}"
