"""Asking the function that answers in line. It fails closed: only a decision object decides."""

import asyncio
import inspect
from collections.abc import Awaitable
from typing import cast

from loom_ia.core.decide.effects import AskApprover
from loom_ia.core.errors import DecisionRefused, told
from loom_ia.core.events.approval import ApprovalExpired, ApprovalGranted, ApprovalRejected
from loom_ia.core.events.envelope import Payload
from loom_ia.core.json import JsonObject, storable, storable_text
from loom_ia.core.state.calls import Call
from loom_ia.core.views.result import PendingApproval, pending_approval
from loom_ia.engine.interrupt import is_cancelled
from loom_ia.engine.perform.context import EffectContext
from loom_ia.engine.program import Approved, Approver, Program, Rejected


async def ask_approver(effect: AskApprover, context: EffectContext) -> None:
    """Put each open question to the approver and write its decision.

    Raises `DecisionRefused`, naming the approver and the call, when it raises, gives something
    that is not a decision, or edits arguments into some that the tool refuses. Nothing is decided
    then and the question stays open. A decision that comes too late decides nothing either: the
    question has expired.
    """
    if context.run.flow is not None:
        await _ask_about_steps(effect, context)
        return
    approver = context.agent.approver
    if approver is None:
        return
    for call in effect.calls:
        decision = await _ask(approver, pending_approval(context.run.run_id, call), call)
        fact = await _fact(decision, approver, call, context.agent)
        await context.emit(_expiry(call, context) or fact)


async def _ask_about_steps(effect: AskApprover, context: EffectContext) -> None:
    """Put what steps ask to the function, one question after the other."""
    program = context.graph
    by = f"function:{getattr(program.approver, '__qualname__', 'approver')}"
    for call in effect.calls:
        for inquiry in call.open_inquiries:
            answer = await program.bindings.answer(context.run, call, inquiry)
            await context.emit(
                ApprovalGranted(
                    call_id=call.call_id,
                    tool_name=call.name,
                    by=by,
                    question=inquiry.id,
                    answer=answer,
                )
            )
        if call.question is not None and call.question.is_open:
            answer = await program.bindings.answer(context.run, call, None)
            await context.emit(unknown_decided(call, answer, by))


def unknown_decided(call: Call, answer: object, by: str) -> ApprovalGranted | ApprovalRejected:
    """Give the fact of an answer about a step whose effect is not known."""
    said = cast("dict[str, object]", answer) if isinstance(answer, dict) else {}
    if said.get("approved") is True:
        digest = call.question.digest if call.question else ""
        return ApprovalGranted(call_id=call.call_id, tool_name=call.name, digest=digest, by=by)
    reason = said.get("reason")
    return ApprovalRejected(
        call_id=call.call_id,
        tool_name=call.name,
        by=by,
        reason=reason if isinstance(reason, str) else "",
    )


async def check_edited(
    tool_name: str, arguments: object, call_id: str, program: Program
) -> JsonObject:
    """Return arguments that a human edited, as the journal can hold them.

    Raises `DecisionRefused` with the reason when the tool cannot take them.
    """
    safe, _ = storable(arguments, "arguments")
    if not isinstance(safe, dict):
        raise DecisionRefused(
            "the edited arguments of {call_id} are not a JSON object", call_id=call_id
        )
    tool = program.tools.get(tool_name)
    problem = await tool.check(safe) if tool is not None else f"{tool_name} is not available"
    if problem:
        raise DecisionRefused(
            "the edited arguments of {call_id} are refused by {tool}: {problem}",
            call_id=call_id,
            tool=tool_name,
            problem=problem,
        )
    return safe


async def _ask(approver: Approver, pending: PendingApproval, call: Call) -> object:
    try:
        decision = approver(pending)
        if inspect.isawaitable(decision):
            return await cast("Awaitable[object]", decision)
    except (Exception, asyncio.CancelledError) as error:
        if isinstance(error, asyncio.CancelledError) and is_cancelled():
            raise
        raise DecisionRefused(
            "the approver {approver} failed on call {call_id} of {tool}: {error}",
            approver=_name(approver),
            call_id=call.call_id,
            tool=call.name,
            error=told(error),
        ) from error
    return decision


def _expiry(call: Call, context: EffectContext) -> ApprovalExpired | None:
    limit = call.question.expire_at if call.question else None
    if limit is None or context.pen.log.clock.now() < limit:
        return None
    return ApprovalExpired(
        call_id=call.call_id,
        tool_name=call.name,
        action=context.agent.plan.on_expiry,
        expire_at=limit,
    )


async def _fact(decision: object, approver: Approver, call: Call, program: Program) -> Payload:
    by = f"function:{_name(approver)}"
    match decision:
        case Approved(reason=str() as reason):
            edited = decision.arguments
            if edited is not None:
                edited = await check_edited(call.name, edited, call.call_id, program)
            return ApprovalGranted(
                call_id=call.call_id,
                tool_name=call.name,
                digest=call.question.digest if call.question else "",
                by=by,
                reason=storable_text(reason),
                arguments=edited,
            )
        case Rejected(reason=str() as reason):
            return ApprovalRejected(
                call_id=call.call_id, tool_name=call.name, by=by, reason=storable_text(reason)
            )
        case _:
            raise DecisionRefused(
                "the approver {approver} gave {given} for call {call_id} of {tool}; "
                "it must give Approved(...) or Rejected(...)",
                approver=_name(approver),
                given=type(decision).__name__,
                call_id=call.call_id,
                tool=call.name,
            )


def _name(approver: Approver) -> str:
    return getattr(approver, "__qualname__", type(approver).__qualname__)
