"""The limits of a budget: which are reached, and which of them nobody was told of yet."""

from loom_ia.core.events.budget import BudgetExceeded
from loom_ia.core.model.budget import Excess
from loom_ia.core.plan import AgentPlan
from loom_ia.core.state.run import RunState


def reached(run: RunState, plan: AgentPlan) -> tuple[Excess, ...]:
    """Give the limits that a run reached."""
    spent = run.spent
    tokens = spent.usage.total_tokens
    return tuple(plan.budget.reached(cost=spent.cost, tokens=tokens, calls=spent.calls))


def must_stop(run: RunState, plan: AgentPlan) -> bool:
    """Whether nothing more may be spent, save for a last answer."""
    return plan.on_exceed == "stop" and bool(reached(run, plan))


def told(run: RunState, plan: AgentPlan) -> tuple[BudgetExceeded, ...]:
    """Give what is to be said of the limits that were reached since the last time."""
    return tuple(
        BudgetExceeded(
            limit=excess.limit, value=excess.value, spent=excess.spent, action=plan.on_exceed
        )
        for excess in reached(run, plan)
        if excess.limit not in run.exceeded
    )
