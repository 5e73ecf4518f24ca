"""Asking the function that answers in line. It fails closed: only a decision object decides."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import cast

from loom_ia.core.decide.effects import AskApprover
from loom_ia.core.errors import DecisionRefused, told
from loom_ia.core.events.approval import ApprovalExpired, ApprovalGranted, ApprovalRejected
from loom_ia.core.events.envelope import Payload
from loom_ia.core.json import JsonObject, JsonValue, storable, storable_text
from loom_ia.core.schema import misfit
from loom_ia.core.state.calls import Call, Inquiry
from loom_ia.core.state.questions import Asking
from loom_ia.core.state.run import RunState
from loom_ia.core.views.result import PendingApproval, pending_question
from loom_ia.engine.interrupt import is_cancelled
from loom_ia.engine.perform.context import EffectContext
from loom_ia.engine.program import (
    Answers,
    AnyProgram,
    Approved,
    Approver,
    GraphProgram,
    Program,
    Rejected,
)


async def ask_approver(effect: AskApprover, context: EffectContext) -> None:
    """Put each open question to whoever answers in line and write the decision.

    Raises `DecisionRefused`, naming the approver and the call, when it raises, gives something
    that is not a decision, or edits arguments into some that the tool refuses. Nothing is decided
    then and the question stays open. A decision that comes too late decides nothing either: the
    question has expired.
    """
    if context.run.flow is not None:
        await _ask_about_steps(effect, context)
        return
    program = context.agent
    if program.approver is None:
        return
    for call in effect.calls:
        if program.answers is not None:
            answer = await program.answers(context.run, call, None)
            fact = await _answered(answer, call, program)
        else:
            approver = cast("Approver", program.approver)
            asking = Asking(context.run, call, None, call.question)
            shown = pending_question(asking, context.run.header.root_run_id)
            fact = await _fact(await _ask(approver, shown, call), approver, call, program)
        await context.emit(_expiry(call, context) or fact)


async def _ask_about_steps(effect: AskApprover, context: EffectContext) -> None:
    """Put what steps ask to whoever answers, one question after the other."""
    program = context.graph
    answers = program.answers or program.bindings.answer
    by = _by(program.approver)
    for call in effect.calls:
        for inquiry in call.open_inquiries:
            answer = await answers(context.run, call, inquiry)
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
            answer = await answers(context.run, call, None)
            await context.emit(unknown_decided(call, answer, by))


def inheriting(program: AnyProgram, above: AnyProgram) -> AnyProgram:
    """Let whoever answers in line for a run answer for the one that it opens, too."""
    if not above.plan.inline_approver or program.plan.inline_approver:
        return program
    match program, above:
        case Program(), Program():
            return replace(
                program,
                plan=replace(program.plan, inline_approver=True),
                approver=above.approver,
                answers=above.answers,
            )
        case Program(), GraphProgram():
            return replace(
                program,
                plan=replace(program.plan, inline_approver=True),
                approver=above.approver or _nobody,
                answers=above.answers or above.bindings.answer,
            )
        case GraphProgram(), Program():
            approver = cast("Approver", above.approver)
            return replace(
                program,
                plan=replace(program.plan, inline_approver=True),
                approver=approver,
                answers=above.answers or answers_by(approver),
            )
        case GraphProgram(), GraphProgram():
            return replace(
                program,
                plan=replace(program.plan, inline_approver=True),
                approver=above.approver,
                answers=above.answers or above.bindings.answer,
            )
        case _:
            return program


def answers_by(approver: Approver) -> Answers:
    """Let a function that decides about calls answer what steps ask."""

    async def answers(run: RunState, call: Call, inquiry: Inquiry | None) -> JsonValue:
        asking = Asking(run, call, inquiry, call.question if inquiry is None else None)
        shown = pending_question(asking, run.header.root_run_id)
        decision = await _ask(approver, shown, call)
        match decision:
            case Approved() if asking.kind == "input":
                given: JsonValue = decision.answer
            case Approved():
                given = decided_answer(
                    approved=True, reason=decision.reason, arguments=decision.arguments
                )
            case Rejected():
                given = decided_answer(approved=False, reason=decision.reason)
            case _:
                raise _no_decision(decision, approver, call)
        if fault := misfit(given, asking.schema):
            raise DecisionRefused(
                "the approver {approver} gave an answer for {step} that does not fit what it "
                "asks: {reason}",
                approver=_name(approver),
                step=call.name,
                reason=fault,
            )
        return storable(given, "answer")[0]

    return answers


def decided_answer(
    *, approved: bool, reason: str = "", arguments: JsonObject | None = None
) -> JsonObject:
    """Give a decision in the form that answers a step."""
    answer: JsonObject = {"approved": approved}
    if reason:
        answer["reason"] = storable_text(reason)
    if arguments is not None:
        answer["arguments"] = arguments
    return answer


def _nobody(*_: object) -> None:
    """Stands for a function whose name is not known."""


async def _answered(answer: JsonValue, call: Call, program: Program) -> Payload:
    """Give the decision that an answer about a call is."""
    fact = unknown_decided(call, answer, _by(program.approver))
    edited = answer.get("arguments") if isinstance(answer, dict) else None
    if edited is None or not isinstance(fact, ApprovalGranted):
        return fact
    arguments = await check_edited(call.name, edited, call.call_id, program)
    return fact.model_copy(update={"arguments": arguments})


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
    by = _by(approver)
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
            raise _no_decision(decision, approver, call)


def _no_decision(decision: object, approver: Approver, call: Call) -> DecisionRefused:
    return DecisionRefused(
        "the approver {approver} gave {given} for call {call_id} of {tool}; "
        "it must give Approved(...) or Rejected(...)",
        approver=_name(approver),
        given=type(decision).__name__,
        call_id=call.call_id,
        tool=call.name,
    )


def _by(approver: Callable[..., object] | None) -> str:
    return f"function:{'approver' if approver is None else _name(approver)}"


def _name(approver: Callable[..., object]) -> str:
    return getattr(approver, "__qualname__", type(approver).__qualname__)
