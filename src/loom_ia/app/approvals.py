"""Deciding, as a human, on what waits in a run or in those below it.

One decision for each request, bound to the bytes that were shown. Anything else fails closed:
nothing is written and the request stays open.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, final

from loom_ia.app.instance import Instance
from loom_ia.core.errors import ApprovalStale, DecisionRefused, UnknownApproval
from loom_ia.core.events.approval import (
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRejected,
    ApprovalRequested,
)
from loom_ia.core.events.envelope import Event, Payload
from loom_ia.core.ids import CallId, RunId, SessionId
from loom_ia.core.json import JsonObject, JsonValue, storable_text
from loom_ia.core.state.calls import Call, Granted, Rejected
from loom_ia.core.state.questions import Asking, open_questions
from loom_ia.core.state.run import RunState
from loom_ia.core.views.result import address_of
from loom_ia.engine.log import SessionLog
from loom_ia.engine.perform.approver import check_edited, decided_answer
from loom_ia.engine.perform.children import program_of
from loom_ia.engine.program import Program
from loom_ia.engine.sources import asking_for, equipped


@final
class NoAnswer:
    """Stands for an answer that was not given, since None may be one."""


NO_ANSWER: Final = NoAnswer()


@dataclass(frozen=True, slots=True)
class Ruling:
    """A decision: who, why, and on what (None: the only thing that waits).

    `call_id` is the one that was shown with the request: of a call, or of a question.
    """

    run_id: RunId
    by: str
    call_id: CallId | None = None
    reason: str = ""
    session_id: SessionId | None = None


@dataclass(slots=True)
class _Given:
    """What is given with a yes, once it was checked for the question that it is about."""

    arguments: JsonObject | None = None
    answer: object = field(default_factory=NoAnswer)
    about: str = ""
    edited: JsonObject | None = None
    stored: JsonValue = None


async def approve(
    instance: Instance,
    ruling: Ruling,
    *,
    arguments: JsonObject | None = None,
    answer: object = NO_ANSWER,
) -> tuple[CallId, ...]:
    """Grant a call, or answer what a step asks.

    `arguments` replaces those that were shown, needs the call id and is checked here; `answer` is
    what a step wants to know. Returns what was decided; nothing when the run is over. Raises
    `UnknownRun`, `UnknownApproval`, `ApprovalStale`, `DecisionRefused`, `InvalidAnswer`.
    """
    if arguments is not None and ruling.call_id is None:
        raise DecisionRefused(
            "edited arguments need the id of the call that they are for "
            "(call_id in Python, --call on the command line)"
        )
    log, run = await instance.find(ruling.run_id, ruling.session_id)
    ruling = _named(run, log, ruling, instance.clock.now())
    given = _Given(arguments, answer)
    asking = _find(run, log, ruling.call_id)
    if asking is not None and run.outcome is None:
        await _check(instance, log, asking, given)

    def granted(asking: Asking) -> Payload:
        call = asking.call
        if given.about != asking.id and (arguments is not None or asking.inquiry is not None):
            # it began to wait after the check
            raise ApprovalStale("the request about {call_id} just changed", call_id=call.call_id)
        by, reason = storable_text(ruling.by), storable_text(ruling.reason)
        if asking.inquiry is not None:
            return ApprovalGranted(
                call_id=call.call_id,
                tool_name=call.name,
                by=by,
                reason=reason,
                question=asking.inquiry.id,
                answer=given.stored
                if asking.kind == "input" or not isinstance(given.answer, NoAnswer)
                else decided_answer(approved=True, reason=reason, arguments=given.edited),
            )
        return ApprovalGranted(
            call_id=call.call_id,
            tool_name=call.name,
            digest=call.question.digest if call.question else "",
            by=by,
            reason=reason,
            arguments=given.edited,
        )

    return await _decide(instance, ruling, granted)


async def reject(instance: Instance, ruling: Ruling) -> tuple[CallId, ...]:
    """Refuse a call; the model reads the reason. Returns and raises as `approve`.

    To refuse an answer is to answer `{"approved": False, "reason": …}`, if that fits what is asked.
    """

    def rejected(asking: Asking) -> Payload:
        if asking.kind == "input":
            from loom_ia.app.answering import answer_of

            refusal = decided_answer(approved=False, reason=ruling.reason)
            answer_of(refusal, asking, None)
        return ApprovalRejected(
            call_id=asking.call.call_id,
            tool_name=asking.call.name,
            by=storable_text(ruling.by),
            reason=storable_text(ruling.reason),
            question=asking.inquiry.id if asking.inquiry else "",
        )

    log, run = await instance.find(ruling.run_id, ruling.session_id)
    ruling = _named(run, log, ruling, instance.clock.now())
    return await _decide(instance, ruling, rejected)


async def _check(instance: Instance, log: SessionLog, asking: Asking, given: _Given) -> None:
    """Check what is given with a yes against what is asked; raises what refuses it."""
    given.about = asking.id
    runs = log.state.runs
    root = runs[asking.run.header.root_run_id]
    answered = not isinstance(given.answer, NoAnswer)
    if asking.inquiry is not None and asking.kind == "input" and not answered:
        raise DecisionRefused(
            "question {call_id} of {step} wants an answer, not a yes "
            "(answer=… in Python, --answer on the command line)",
            call_id=asking.id,
            step=asking.call.name,
        )
    if answered and asking.inquiry is None:
        raise DecisionRefused(
            "{call_id} is a call, not a question: it is granted or refused, without an answer",
            call_id=asking.call.address,
        )
    if not answered and given.arguments is None:
        return
    program = program_of(asking.run, instance.program_of(root), runs)
    if answered:
        from loom_ia.app.answering import answer_of  # graphs are imported where one asks

        given.stored = answer_of(given.answer, asking, program)
    elif given.arguments is not None:
        if isinstance(program, Program):
            given.edited = await _edited(instance, asking, given.arguments, program)
        elif asking.kind == "approve":
            given.edited = given.arguments
        else:
            raise DecisionRefused(
                "{call_id} shows no arguments that could be changed", call_id=asking.id
            )


async def _edited(
    instance: Instance, asking: Asking, arguments: JsonObject, program: Program
) -> JsonObject:
    """Check edited arguments, by the tool of a source if that is what is called."""
    call = asking.call
    if call.name in program.tools or not program.sources:
        return await check_edited(call.name, arguments, call.call_id, program)
    asked = asking_for(asking.run, program)
    async with equipped(program, asked, instance.strays) as equipment:
        reason = equipment.reason(call.name)
        if call.name not in equipment.program.tools and reason:
            raise DecisionRefused(
                "the edited arguments of {call_id} cannot be checked, so that nothing was decided: "
                "{source} (try again, or decide without editing them)",
                call_id=call.call_id,
                source=reason,
            )
        return await check_edited(call.name, arguments, call.call_id, equipment.program)


async def _decide(
    instance: Instance, ruling: Ruling, fact: Callable[[Asking], Payload]
) -> tuple[CallId, ...]:
    log, run = await instance.find(ruling.run_id, ruling.session_id)
    decided: list[CallId] = []

    def facts(now: datetime) -> Sequence[tuple[RunId, Payload]]:
        decided.clear()
        run = log.state.runs[ruling.run_id]
        if run.outcome is not None:
            return ()
        asking = _chosen(run, log, ruling.call_id, now)
        decided.append(address_of(asking, run.run_id))
        return ((asking.run.run_id, fact(asking)),)

    try:
        await log.append_all(facts, sync=True)
    except UnknownApproval:
        await _tell_earlier_decision(log, run, ruling)
        raise
    return tuple(decided)


def _named(run: RunState, log: SessionLog, ruling: Ruling, now: datetime) -> Ruling:
    """Name what is decided on, so that a race never makes the decision about another thing."""
    if run.outcome is not None or ruling.call_id is not None:
        return ruling
    asking = _chosen(run, log, None, now)
    return replace(ruling, call_id=address_of(asking, run.run_id))


def _chosen(run: RunState, log: SessionLog, call_id: CallId | None, now: datetime) -> Asking:
    pending = list(open_questions(run, log.state.runs))
    names = ", ".join(f"{address_of(a, run.run_id)} ({a.call.name})" for a in pending) or "none"
    if call_id is None:
        if len(pending) > 1:
            raise ApprovalStale(
                "several calls of run {run_id} wait for a decision, say which one: {pending}",
                run_id=run.run_id,
                pending=names,
            )
        asking = pending[0] if pending else None
    else:
        asking = _find(run, log, call_id)
    if call_id is None and asking is None:
        raise UnknownApproval("no call of run {run_id} waits for a decision", run_id=run.run_id)
    if asking is None:
        _require_open(run.call(call_id or ""), call_id or "")
        raise UnknownApproval(
            "no call {call_id} of run {run_id} waits for a decision; pending: {pending}",
            call_id=call_id or "",
            run_id=run.run_id,
            pending=names,
        )
    if asking.expire_at is not None and now >= asking.expire_at:
        raise ApprovalStale(
            "the request about {call_id} expired at {expire_at}",
            call_id=asking.call.call_id,
            expire_at=asking.expire_at.isoformat(timespec="seconds"),
        )
    return asking


def _find(run: RunState, log: SessionLog, call_id: CallId | None) -> Asking | None:
    """Find what is asked under a name: its own, that of the question, that of a call below."""
    pending = list(open_questions(run, log.state.runs))
    for asking in pending:
        if call_id in (asking.id, address_of(asking, run.run_id)):
            return asking
    below = [a for a in pending if a.inquiry is None and a.call.address == call_id]
    return below[0] if len(below) == 1 else None


def _require_open(call: Call | None, address: str) -> None:
    """Raise `ApprovalStale` when the call of this id is there, and was decided on."""
    if call is None or call.question is None:
        return
    verdict = call.question.verdict
    if call.awaits_answer and call.address != address:
        raise ApprovalStale(
            "{call_id} was granted before, and its end is not known: to decide whether it is made "
            "again, answer about {address}",
            call_id=call.call_id,
            address=call.address,
        )
    if isinstance(verdict, Granted | Rejected):
        _refuse_second(call.call_id, verdict.by, verdict.at)
    raise ApprovalStale("the request about {call_id} is closed", call_id=call.call_id)


def _refuse_second(call_id: CallId, by: str, at: datetime) -> None:
    raise ApprovalStale(
        "the request about {call_id} was decided by {by} at {at}",
        call_id=call_id,
        by=by,
        at=at.isoformat(timespec="seconds"),
    )


async def require_undecided(instance: Instance, ruling: Ruling) -> None:
    """Raise `ApprovalStale` when what a ruling is about was decided before, the run over or not."""
    log, run = await instance.find(ruling.run_id, ruling.session_id)
    await _tell_earlier_decision(log, run, ruling)


async def _tell_earlier_decision(log: SessionLog, run: RunState, ruling: Ruling) -> None:
    """Raise `ApprovalStale` when it was decided earlier and is no longer asked."""
    if ruling.call_id is None:
        return
    events = await log.journal.read(log.tenant_id, log.session_id)
    tree = {each.run_id for each in log.state.tree(run.run_id)}
    request = _request(events, tree, ruling)
    if request is None or not isinstance(request.payload, ApprovalRequested):
        return
    asked = request.payload
    question = request.event_id if asked.asked is not None else ""
    for event in events[::-1]:
        payload = event.payload
        if event.seq <= request.seq or event.run_id != request.run_id:
            continue
        match payload:
            case ApprovalGranted() | ApprovalRejected() if (
                payload.call_id == asked.call_id and payload.question == question
            ):
                _refuse_second(ruling.call_id, payload.by, event.ts)
            case ApprovalExpired() if payload.call_id == asked.call_id:
                raise ApprovalStale(
                    "the request about {call_id} expired at {expire_at}",
                    call_id=ruling.call_id,
                    expire_at=payload.expire_at.isoformat(timespec="seconds"),
                )
            case _:
                pass


def _request(events: Sequence[Event], tree: set[RunId], ruling: Ruling) -> Event | None:
    """Find the last request that bears this name: of a question, or of a call of the run itself."""
    for event in events[::-1]:
        if event.run_id not in tree or not isinstance(event.payload, ApprovalRequested):
            continue
        own = event.run_id == ruling.run_id and event.payload.call_id == ruling.call_id
        if own or event.event_id == ruling.call_id:
            return event
    return None
