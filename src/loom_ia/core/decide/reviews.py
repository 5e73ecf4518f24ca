"""Where policies are asked, and what follows from what they ruled.

Law. A subject is looked at once at each point: what was passed is a fact, so that a crash repeats
no look. What follows from a decision is drawn here and nowhere else, from the fact that says it.
"""

from datetime import datetime

from loom_ia.core.decide.answer import answer_of
from loom_ia.core.decide.closing import close_step, failed
from loom_ia.core.decide.effects import Review
from loom_ia.core.events.envelope import Payload
from loom_ia.core.events.message import UserMessage
from loom_ia.core.events.run import RunFinalizing
from loom_ia.core.events.tool import ToolCompleted
from loom_ia.core.model.content import ToolOutput
from loom_ia.core.model.messages import repair_message
from loom_ia.core.model.policy import DecisionKind, PolicyPoint
from loom_ia.core.plan import AgentPlan
from loom_ia.core.prompts import prompt_text
from loom_ia.core.state.calls import AT_LAUNCH, Call, Granted
from loom_ia.core.state.checks import Ruling
from loom_ia.core.state.run import RunState


def due_review(run: RunState, plan: AgentPlan) -> Review | None:
    """Give the look that what the model just said is due, None when it had all of them."""
    answer = answer_of(run, plan)
    if answer is None and not run.table:
        return None
    if _is_due(PolicyPoint.AFTER_MODEL, run, plan):
        return Review(PolicyPoint.AFTER_MODEL)
    if answer is None:
        return None
    if run.answer is None and (review := results_review(run, plan)) is not None:
        return review  # of a terminal tool, whose result is looked at before the answer
    return Review(PolicyPoint.ON_OUTPUT) if _is_due(PolicyPoint.ON_OUTPUT, run, plan) else None


def _is_due(point: PolicyPoint, run: RunState, plan: AgentPlan) -> bool:
    return plan.is_reviewed(point) and point not in run.checks.passed


def calls_review(run: RunState, plan: AgentPlan) -> Review | None:
    """Give the look that calls are due before they are made, or made at last."""
    point = PolicyPoint.BEFORE_TOOL
    if point not in plan.reviews:
        return None
    fresh = tuple(call for call in run.table if _is_fresh(call, plan))
    if fresh:
        return Review(point, fresh)
    let_go = tuple(call for call in run.table if _is_let_go(call, plan))
    return Review(point, let_go, at_launch=True) if let_go else None


def results_review(run: RunState, plan: AgentPlan) -> Review | None:
    """Give the look that the results of a batch are due before the model reads them."""
    point = PolicyPoint.AFTER_TOOL
    if point not in plan.reviews:
        return None
    ran = tuple(
        call
        for call in run.table
        if call.launches
        and not call.unknown
        and point not in call.passed
        and plan.is_reviewed(point, call.name)
    )
    return Review(point, ran) if ran else None


def _is_fresh(call: Call, plan: AgentPlan) -> bool:
    if call.is_settled or call.launches or call.question is not None or call.denial:
        return False
    return PolicyPoint.BEFORE_TOOL not in call.passed and _can_be_made(call, plan)


def _is_let_go(call: Call, plan: AgentPlan) -> bool:
    if call.is_settled or call.denial or not isinstance(call.answer, Granted):
        return False
    return AT_LAUNCH not in call.passed and _can_be_made(call, plan)


def _can_be_made(call: Call, plan: AgentPlan) -> bool:
    is_known = call.name in plan.tools and not call.problem
    return is_known and plan.is_reviewed(PolicyPoint.BEFORE_TOOL, call.name)


def consequence(
    run: RunState, ruling: Ruling, plan: AgentPlan, now: datetime
) -> tuple[Payload, ...]:
    """Give what follows from a ruling."""
    closing = () if run.step is None else (close_step(run.step, now),)
    language = plan.language
    match ruling.decision:
        case DecisionKind.STOP:
            text = prompt_text(language, "stopped", reason=ruling.reason or ruling.policy)
            return (*closing, *_given_up(run, text), RunFinalizing(reason="policy"))
        case DecisionKind.RETRY:
            text = prompt_text(language, "not_made")
            feedback = prompt_text(language, "repair", reason=ruling.reason)
            asked = UserMessage(
                message=repair_message(feedback),
                kind="repair",
                policy=ruling.policy,
                tools=ruling.tools,
            )
            return (*closing, *_given_up(run, text), asked)
        case _:
            reason = ruling.reason or f"the policy {ruling.policy} refused"
            return (*closing, failed(run, ruling.error_type, reason))


def _given_up(run: RunState, text: str) -> tuple[ToolCompleted, ...]:
    """Settle the calls that are not made."""
    return tuple(
        ToolCompleted(call_id=call.call_id, tool_name=call.name, output=ToolOutput.of_error(text))
        for call in run.table
        if not call.is_settled
    )
