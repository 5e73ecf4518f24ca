"""What becomes of the calls on the table, whoever put them there.

For each call exactly one thing happens: it is settled (unknown tool, arguments that cannot run,
refused, expired, unknown effect), a human is asked, it is launched, or it is held while the
question about it is open. Facts that settle or ask come first, then launches; when every call is
held, somebody must answer.
"""

from dataclasses import dataclass, field
from datetime import datetime

from loom_ia.core.decide.closing import failed
from loom_ia.core.decide.effects import AskApprover, Emit, Move, Opening, RunCalls, Wait
from loom_ia.core.decide.limits import nothing_left, used_up
from loom_ia.core.decide.reviews import calls_review
from loom_ia.core.events.approval import ApprovalExpired, ApprovalRequested
from loom_ia.core.events.envelope import Payload
from loom_ia.core.events.run import StepStarted
from loom_ia.core.events.tool import ToolCalled, ToolCompleted
from loom_ia.core.model.chunks import INVALID_ARGUMENTS
from loom_ia.core.model.content import ToolOutput
from loom_ia.core.model.naming import prefix_of
from loom_ia.core.model.tooling import (
    SideEffects,
    ToolSpec,
    arguments_digest,
    is_delegated,
    takes_references,
)
from loom_ia.core.plan import AgentPlan, CallFacts, CallsPlan
from loom_ia.core.prompts import prompt_text
from loom_ia.core.spans import span
from loom_ia.core.state.calls import Call, Expired, Granted, QuestionKind, Rejected
from loom_ia.core.state.references import references_in
from loom_ia.core.state.run import RunState
from loom_ia.core.state.session import RunView, is_held
from loom_ia.core.template import Template, one_sentence


@dataclass(slots=True)
class Fates:
    """What was found for each call of the table."""

    facts: list[Payload] = field(default_factory=list[Payload])
    launches: list[Call] = field(default_factory=list[Call])
    held: list[Call] = field(default_factory=list[Call])
    failure: Payload | None = None


def has_open_calls(run: RunState, plan: CallsPlan) -> bool:
    """Tell whether the table still has something to do before the model reads it."""
    return any(not call.is_settled or _must_ask_again(call, plan) for call in run.table)


def decide_calls(view: RunView, plan: AgentPlan, now: datetime) -> Move:
    """Advance the calls of the table; at least one must be open."""
    run, fates = view.run, Fates()
    if (review := calls_review(run, plan)) is not None:
        return review
    excess = nothing_left(view, plan)
    for call in run.table:
        if excess is not None and opens_anew(call, plan):
            fates.facts.append(_settle(call, used_up(excess, plan)))
            continue
        decide_call(call, view, plan, now, fates)
    if fates.failure is not None:
        return Emit((*fates.facts, fates.failure))
    if fates.launches:
        step = StepStarted(step_no=run.steps + 1, effect="tool_batch")
        called = tuple(launch(call, run, plan) for call in fates.launches)
        return Emit((*fates.facts, step, *called), openings(called, view))
    if fates.facts:
        return Emit(tuple(fates.facts))
    asked = tuple(call for call in fates.held if call.awaits_answer)
    if plan.inline_approver and asked:
        return AskApprover(asked)
    limits = [c.question.expire_at for c in fates.held if c.question and c.question.expire_at]
    return Wait(min(limits, default=None))


def opens_anew(call: Call, plan: CallsPlan) -> bool:
    """Whether a call would open a run of its own."""
    tool = plan.tools.get(call.name)
    return tool is not None and is_delegated(tool.kind) and not (call.launches or call.is_settled)


def facts_of(call: Call, plan: CallsPlan) -> CallFacts | None:
    """Give what holds for a call: what its tool declares, and what it said of this very call."""
    tool = plan.tools.get(call.name)
    return call.declared(tool) if isinstance(tool, ToolSpec) else tool


def run_calls(calls: tuple[Call, ...], plan: CallsPlan) -> RunCalls:
    """Perform calls that were launched."""
    tools = [facts_of(call, plan) for call in calls]
    acts = any(tool is None or tool.side_effects != "none" for tool in tools)
    return RunCalls(calls, acts)


def decide_call(call: Call, view: RunView, plan: CallsPlan, now: datetime, fates: Fates) -> None:
    """Say what becomes of one call."""
    if call.is_settled:
        if _must_ask_again(call, plan):
            fates.facts.append(_ask(call, plan, now, "unknown_effect"))
        return
    tool = facts_of(call, plan)
    if tool is None and call.launches:  # it was launched, then its tool was taken away
        text = prompt_text(plan.language, "unknown_effect")
        fates.facts.append(_settle(call, text, unknown=True))
        return
    problem = _problem(call, tool, plan)
    if tool is None or problem:
        fates.facts.append(_settle(call, problem))
        return
    if call.awaits_answer:
        _hold_or_expire(call, plan, now, fates)
        return
    match call.answer:
        case Granted():
            if _is_bound(call):
                fates.launches.append(call)
            else:  # the bytes are not those that the human saw
                fates.facts.append(_ask(call, plan, now, "approve"))
        case Rejected(reason=reason):
            fates.facts.append(_settle(call, _rejection(call, reason, plan)))
        case Expired(action="fail"):
            error = f"nobody answered about {call.name} ({call.call_id}) in time"
            fates.failure = failed(view.run, "approval.expired", error)
        case Expired():
            name = "unknown_effect" if call.launches else "expired"
            fates.facts.append(_settle(call, prompt_text(plan.language, name)))
        case None:
            _decide_unasked(call, tool, view, plan, now, fates)


def _decide_unasked(
    call: Call, tool: CallFacts, view: RunView, plan: CallsPlan, now: datetime, fates: Fates
) -> None:
    if is_delegated(tool.kind) and call.launches:
        child = view.runs.get(call.child_run_id)
        bubbles = getattr(tool, "bubbles", True)
        waits = child is not None and bubbles and is_held(child, view.runs, now)
        (fates.held if waits else fates.launches).append(call)
    elif call.launches:  # interrupted: nobody saw its end
        if tool.may_be_asked_again or call.is_undone:
            fates.launches.append(call)
        elif tool.on_unknown == "pause":
            fates.facts.append(_ask(call, plan, now, "unknown_effect"))
        else:
            text = prompt_text(plan.language, "unknown_effect")
            fates.facts.append(_settle(call, text, unknown=True))
    elif tool.approval != "always" and call.hold is None:
        fates.launches.append(call)
    elif arguments_digest(call.name, call.arguments) in view.run.refused:
        fates.facts.append(_settle(call, prompt_text(plan.language, "rejected_before")))
    else:
        fates.facts.append(_ask(call, plan, now, "approve"))


def _must_ask_again(call: Call, plan: CallsPlan) -> bool:
    if not call.unknown:
        return False
    tool = facts_of(call, plan)
    return tool is not None and tool.on_unknown == "pause" and not tool.may_run_again


def _problem(call: Call, tool: CallFacts | None, plan: CallsPlan) -> str:
    language = plan.language
    if tool is None:
        if prefix_of(call.name) in getattr(plan, "unreachable", ()):
            return prompt_text(language, "tool_unreachable", name=call.name)
        if not plan.tools:
            return prompt_text(language, "no_tools", name=call.name)
        names = ", ".join(plan.tools)
        return prompt_text(language, "unknown_tool", name=call.name, names=names)
    if INVALID_ARGUMENTS in call.arguments:
        text = str(call.arguments[INVALID_ARGUMENTS])[:500]
        return prompt_text(language, "unreadable_arguments", text=text)
    if call.problem:
        return prompt_text(language, "invalid_arguments", problem=call.problem)
    if call.denial:
        reason = call.denial.rstrip().rstrip(".")
        if not call.launches:
            return prompt_text(language, "denied", reason=reason)
        again = prompt_text(language, "denied_again", reason=reason)
        return f"{prompt_text(language, 'unknown_effect')} {again}"
    return ""


def _rejection(call: Call, reason: str, plan: CallsPlan) -> str:
    language = plan.language
    text = (
        prompt_text(language, "rejected", reason=reason.rstrip().rstrip("."))
        if reason
        else prompt_text(language, "rejected_without_reason")
    )
    if call.launches:
        return f"{prompt_text(language, 'unknown_effect')} {text}"
    return text


def _hold_or_expire(call: Call, plan: CallsPlan, now: datetime, fates: Fates) -> None:
    question = call.question
    if question is None or question.expire_at is None or now < question.expire_at:
        fates.held.append(call)
        return
    fates.facts.append(
        ApprovalExpired(
            call_id=call.call_id,
            tool_name=call.name,
            action=plan.on_expiry,
            expire_at=question.expire_at,
        )
    )


def _is_bound(call: Call) -> bool:
    """Whether the call that would run is the one that the human decided on.

    What he was shown is what the digest says, and so is what would run, unless he edited it:
    edited arguments are the very ones that he decided on.
    """
    question = call.question
    if question is None or question.digest != arguments_digest(call.name, question.arguments):
        return False
    return bool(call.edited) or question.digest == arguments_digest(call.name, call.arguments)


def _ask(call: Call, plan: CallsPlan, now: datetime, kind: QuestionKind) -> ApprovalRequested:
    hold = call.hold
    limit = hold.expires_in if hold and hold.expires_in is not None else plan.expires_in
    expires = None if limit is None else now + span(limit)
    reason = hold.reason if hold else call.assessment.reason if call.assessment else ""
    if kind == "unknown_effect":
        reason = prompt_text(plan.language, "unknown_effect")
    return ApprovalRequested(
        call_id=call.call_id,
        tool_name=call.name,
        arguments=call.arguments,
        digest=arguments_digest(call.name, call.arguments),
        kind=kind,
        reason=reason,
        policy=hold.policy if hold else "",
        side_effects=_effects(call, plan),
        expire_at=expires,
        notice=_notice(call, plan),
    )


def _notice(call: Call, plan: CallsPlan) -> str:
    """Write the sentence that a tool says of a call; nothing when it has none."""
    tool = plan.tools.get(call.name)
    if not isinstance(tool, ToolSpec) or not tool.notice:
        return ""
    return one_sentence(Template.parse(tool.notice).render(call.arguments))


def _settle(call: Call, text: str, *, unknown: bool = False) -> ToolCompleted:
    return ToolCompleted(
        call_id=call.call_id,
        tool_name=call.name,
        output=ToolOutput.of_error(text),
        outcome="unknown" if unknown else None,
    )


def launch(call: Call, run: RunState, plan: CallsPlan) -> ToolCalled:
    """Say that a call is launched, and which run it opens if it is delegated."""
    kind = plan.tools[call.name].kind
    refs = references_in(call.arguments) if takes_references(kind) else ()
    return ToolCalled.trusted(
        call_id=call.call_id,
        tool_name=call.name,
        tool_kind=kind,
        arguments=call.arguments,
        resumed=call.launches > 0,
        attempt=call.attempt if call.attempt > 1 else 0,
        child_run_id=f"{run.run_id}/{call.call_id}" if is_delegated(kind) else "",
        refs=refs,
        side_effects=_effects(call, plan),
    )


def _effects(call: Call, plan: CallsPlan) -> SideEffects | None:
    """Say what a call itself may do outside, None for nothing; a run below says it of its own."""
    tool = facts_of(call, plan)
    if tool is None or tool.side_effects == "none" or is_delegated(tool.kind):
        return None
    return tool.side_effects


def openings(called: tuple[ToolCalled, ...], view: RunView) -> tuple[Opening, ...]:
    """Give the runs that calls open, those that there are already left out."""
    return tuple(
        Opening(fact.call_id, fact.tool_name, fact.child_run_id)
        for fact in called
        if fact.child_run_id and fact.child_run_id not in view.runs
    )
