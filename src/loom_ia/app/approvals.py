"""Deciding, as a human, on calls that wait.

One decision for each request, bound to the bytes that were shown. Anything else fails closed:
nothing is written and the request stays open.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from loom_ia.app.instance import Instance
from loom_ia.core.errors import ApprovalStale, DecisionRefused, UnknownApproval
from loom_ia.core.events.approval import (
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRejected,
    ApprovalRequested,
)
from loom_ia.core.events.envelope import Payload
from loom_ia.core.ids import CallId, RunId, SessionId
from loom_ia.core.json import JsonObject, storable_text
from loom_ia.core.state.calls import Call, Granted, Rejected
from loom_ia.core.state.run import RunState
from loom_ia.engine.log import SessionLog
from loom_ia.engine.perform.approver import check_edited


@dataclass(frozen=True, slots=True)
class Ruling:
    """A decision: who, why, and on which call (None: the only one that waits).

    `call_id` is the one that was shown with the request.
    """

    run_id: RunId
    by: str
    call_id: CallId | None = None
    reason: str = ""
    session_id: SessionId | None = None


async def approve(
    instance: Instance, ruling: Ruling, *, arguments: JsonObject | None = None
) -> tuple[CallId, ...]:
    """Grant a call, maybe with other `arguments`, which need the call id and are checked here.

    Returns the call decided; nothing when the run is over. Raises `UnknownRun`, `UnknownApproval`,
    `ApprovalStale`, `DecisionRefused`.
    """
    if arguments is not None and ruling.call_id is None:
        raise DecisionRefused(
            "edited arguments need the id of the call that they are for "
            "(call_id in Python, --call on the command line)"
        )
    edited: JsonObject | None = None
    if arguments is not None:
        _, run = await instance.find(ruling.run_id, ruling.session_id)
        call = _at(run, ruling.call_id or "")
        if call is not None and call.awaits_answer:
            program = instance.program(run.header.agent)
            edited = await check_edited(call.name, arguments, call.call_id, program)

    def granted(call: Call) -> Payload:
        if arguments is not None and edited is None:  # it began to wait after the check
            raise ApprovalStale("the request about {call_id} just changed", call_id=call.call_id)
        return ApprovalGranted(
            call_id=call.call_id,
            tool_name=call.name,
            digest=call.question.digest if call.question else "",
            by=storable_text(ruling.by),
            reason=storable_text(ruling.reason),
            arguments=edited,
        )

    return await _decide(instance, ruling, granted)


async def reject(instance: Instance, ruling: Ruling) -> tuple[CallId, ...]:
    """Refuse a call; the model reads the reason. Returns and raises as `approve`."""

    def rejected(call: Call) -> Payload:
        return ApprovalRejected(
            call_id=call.call_id,
            tool_name=call.name,
            by=storable_text(ruling.by),
            reason=storable_text(ruling.reason),
        )

    return await _decide(instance, ruling, rejected)


async def _decide(
    instance: Instance, ruling: Ruling, fact: Callable[[Call], Payload]
) -> tuple[CallId, ...]:
    log, run = await instance.find(ruling.run_id, ruling.session_id)
    if run.outcome is None and ruling.call_id is None:
        # Named now, so that a race never makes the decision about another call, or question.
        ruling = replace(ruling, call_id=_chosen(run, None, instance.clock.now()).address)
    decided: list[CallId] = []

    def rule(run: RunState | None, now: datetime) -> Sequence[Payload]:
        decided.clear()
        if run is None or run.outcome is not None:
            return ()
        call = _chosen(run, ruling.call_id, now)
        decided.append(call.address)
        return (fact(call),)

    try:
        await log.append(run.run_id, rule, sync=True)
    except UnknownApproval:
        await _tell_earlier_decision(log, ruling)
        raise
    return tuple(decided)


def _chosen(run: RunState, call_id: CallId | None, now: datetime) -> Call:
    pending = run.pending
    names = ", ".join(f"{call.address} ({call.name})" for call in pending) or "none"
    if call_id is None:
        if len(pending) > 1:
            raise ApprovalStale(
                "several calls of run {run_id} wait for a decision, say which one: {pending}",
                run_id=run.run_id,
                pending=names,
            )
        call = pending[0] if pending else None
    else:
        call = _at(run, call_id)
    if call_id is None and call is None:
        raise UnknownApproval("no call of run {run_id} waits for a decision", run_id=run.run_id)
    if call is None or call.question is None:
        raise UnknownApproval(
            "no call {call_id} of run {run_id} waits for a decision; pending: {pending}",
            call_id=call_id or "",
            run_id=run.run_id,
            pending=names,
        )
    _require_open(call, now)
    return call


def _require_open(call: Call, now: datetime) -> None:
    question = call.question
    verdict = question.verdict if question else None
    if isinstance(verdict, Granted | Rejected):
        _refuse_second(call.call_id, verdict.by, verdict.at)
    if verdict is not None or not call.awaits_answer:
        raise ApprovalStale("the request about {call_id} is closed", call_id=call.call_id)
    if question and question.expire_at and now >= question.expire_at:
        raise ApprovalStale(
            "the request about {call_id} expired at {expire_at}",
            call_id=call.call_id,
            expire_at=question.expire_at.isoformat(timespec="seconds"),
        )


def _at(run: RunState, address: str) -> Call | None:
    """Find the call whose question is answered under this name, else the call of this id."""
    call = next((call for call in run.table if call.address == address), None)
    if call is not None:
        return call
    call = run.call(address)
    if call is not None and call.awaits_answer:
        raise ApprovalStale(
            "{call_id} was granted before, and its end is not known: to decide whether it is made "
            "again, answer about {address}",
            call_id=call.call_id,
            address=call.address,
        )
    return call


def _refuse_second(call_id: CallId, by: str, at: datetime) -> None:
    raise ApprovalStale(
        "the request about {call_id} was decided by {by} at {at}",
        call_id=call_id,
        by=by,
        at=at.isoformat(timespec="seconds"),
    )


async def _tell_earlier_decision(log: SessionLog, ruling: Ruling) -> None:
    """Raise `ApprovalStale` when the call was decided earlier and is no longer on the table."""
    if ruling.call_id is None:
        return
    events = await log.journal.read(log.tenant_id, log.session_id)
    for event in reversed(events):
        payload = event.payload
        if event.run_id != ruling.run_id:
            continue
        match payload:
            case ApprovalGranted() | ApprovalRejected() if payload.call_id == ruling.call_id:
                _refuse_second(ruling.call_id, payload.by, event.ts)
            case ApprovalExpired() if payload.call_id == ruling.call_id:
                raise ApprovalStale(
                    "the request about {call_id} expired at {expire_at}",
                    call_id=ruling.call_id,
                    expire_at=payload.expire_at.isoformat(timespec="seconds"),
                )
            case ApprovalRequested() if payload.call_id == ruling.call_id:
                return
            case _:
                pass
