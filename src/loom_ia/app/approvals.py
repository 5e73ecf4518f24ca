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

    `question` is the number of the question about that call, as it was shown.
    """

    run_id: RunId
    by: str
    call_id: CallId | None = None
    reason: str = ""
    session_id: SessionId | None = None
    question: int | None = None


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
        call = run.call(ruling.call_id or "")
        if call is not None and call.awaits_answer:
            program = instance.program(run.header.agent)
            edited = await check_edited(call.name, arguments, call.call_id, program)

    named = ruling.question is not None or ruling.call_id is None

    def granted(call: Call) -> Payload:
        if call.was_granted and not named:
            _refuse_old_yes(call)
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
        call = _chosen(run, None, instance.clock.now())
        asked = ruling.question or (call.question.number if call.question else None)
        ruling = replace(ruling, call_id=call.call_id, question=asked)
    decided: list[CallId] = []

    def rule(run: RunState | None, now: datetime) -> Sequence[Payload]:
        decided.clear()
        if run is None or run.outcome is not None:
            return ()
        call = _chosen(run, ruling.call_id, now)
        _require_same_question(call, ruling)
        decided.append(call.call_id)
        return (fact(call),)

    try:
        await log.append(run.run_id, rule, sync=True)
    except UnknownApproval:
        await _tell_earlier_decision(log, ruling)
        raise
    return tuple(decided)


def _chosen(run: RunState, call_id: CallId | None, now: datetime) -> Call:
    pending = run.pending
    names = ", ".join(f"{call.call_id} ({call.name})" for call in pending) or "none"
    if call_id is None:
        if len(pending) > 1:
            raise ApprovalStale(
                "several calls of run {run_id} wait for a decision, say which one: {pending}",
                run_id=run.run_id,
                pending=names,
            )
        call = pending[0] if pending else None
    else:
        call = run.call(call_id)
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


def _require_same_question(call: Call, ruling: Ruling) -> None:
    number = call.question.number if call.question else 1
    if ruling.question is not None and ruling.question != number:
        raise ApprovalStale(
            "question {asked} about {call_id} is not the open one, which is question {number}",
            asked=ruling.question,
            call_id=call.call_id,
            number=number,
        )


def _refuse_old_yes(call: Call) -> None:
    """Refuse a yes that does not say to which question: it may have been given already."""
    raise ApprovalStale(
        "{call_id} was granted before, and its end is not known: to have it made again, say that "
        "you answer question {number} (question in Python, --question on the command line)",
        call_id=call.call_id,
        number=call.question.number if call.question else 1,
    )


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
