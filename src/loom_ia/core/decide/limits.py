"""The limits of a budget: which are reached, and which of them nobody was told of yet."""

from collections.abc import Iterator

from loom_ia.core.events.budget import BudgetExceeded
from loom_ia.core.model.budget import Budget, Excess
from loom_ia.core.plan import AgentPlan
from loom_ia.core.state.run import Spent
from loom_ia.core.state.session import RunView


def reached(view: RunView, plan: AgentPlan) -> tuple[Excess, ...]:
    """Give the limits of its own that a run reached; what the runs below consumed counts."""
    return tuple(_over(plan.budget, view.spent))


def must_stop(view: RunView, plan: AgentPlan) -> bool:
    """Whether nothing more may be spent, save for a last answer: by it, or by the runs above."""
    if plan.on_exceed == "stop" and reached(view, plan):
        return True
    above = view.accounts if view.run.header.budget is None else view.accounts[1:]
    return any(any(_over(account.budget, account.ledger.spent)) for account in above)


def told(view: RunView, plan: AgentPlan) -> tuple[BudgetExceeded, ...]:
    """Give what is to be said of the limits that were reached since the last time."""
    return tuple(
        BudgetExceeded(
            limit=excess.limit, value=excess.value, spent=excess.spent, action=plan.on_exceed
        )
        for excess in reached(view, plan)
        if excess.limit not in view.run.exceeded
    )


def steps_left(view: RunView) -> int | None:
    """Give how many steps the run may still start, under every budget; None for no limit."""
    lefts = [
        account.budget.max_steps - account.ledger.steps
        for account in view.accounts
        if account.budget.max_steps is not None
    ]
    if view.steps_left is not None:
        lefts.append(view.steps_left)
    return max(min(lefts), 0) if lefts else None


def exhausted(view: RunView) -> Excess | None:
    """Give a limit of what a graph consumes that is reached, its own or that of a run above."""
    for account in view.accounts:
        for excess in _over(account.budget, account.ledger.spent):
            return excess
    return None


def _over(budget: Budget, spent: Spent) -> Iterator[Excess]:
    tokens = spent.usage.total_tokens
    return budget.reached(cost=spent.cost, tokens=tokens, calls=spent.calls)
