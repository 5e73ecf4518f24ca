"""The limits of a budget: which are reached, and which of them nobody was told of yet."""

from collections.abc import Iterator

from loom_ia.core.events.budget import BudgetExceeded
from loom_ia.core.model.budget import Budget, BudgetAction, Excess
from loom_ia.core.plan import AgentPlan, CallsPlan, Plan
from loom_ia.core.prompts import prompt_text
from loom_ia.core.state.run import RunState, Spent
from loom_ia.core.state.session import RunView


def reached(view: RunView, plan: AgentPlan) -> tuple[Excess, ...]:
    """Give the limits of its own that a run reached; what the runs below consumed counts.

    Those of its session are its own when no run opened it.
    """
    own = tuple(_over(_own(view, plan), view.spent))
    if view.run.header.parent_run_id is not None or plan.session_budget.is_empty:
        return own
    of_session = _over(plan.session_budget, view.session_spent)
    return (*own, *(excess._replace(scope="session") for excess in of_session))


def _own(view: RunView, plan: AgentPlan) -> Budget:
    """Give the limits of a run: a share of those above, or the limits of its agent."""
    header = view.run.header
    return header.budget if header.budget_share and header.budget else plan.budget


def _action(view: RunView, plan: AgentPlan) -> BudgetAction:
    """Tell what a limit does: that of a share is never only a warning."""
    return "stop" if view.run.header.budget_share else plan.on_exceed


def reached_above(view: RunView) -> Excess | None:
    """Give a limit that is reached and that is none of the run's own, but binds it."""
    header = view.run.header
    for account in view.accounts:
        if account.owner != header.run_id:
            for excess in _over(account.budget, account.ledger.spent):
                return excess._replace(scope=account.scope)
    return None


def must_stop(view: RunView, plan: AgentPlan) -> bool:
    """Whether nothing more may be spent, save for a last answer: by it, or by the runs above."""
    return nothing_left(view, plan) is not None


def nothing_left(view: RunView, plan: AgentPlan) -> Excess | None:
    """Give a limit that is reached, its own or above it, so that no run below may begin."""
    own = reached(view, plan) if _action(view, plan) == "stop" else ()
    return own[0] if own else reached_above(view)


def rebound(run: RunState, plan: Plan) -> tuple[Budget | None, Budget | None]:
    """Give the limits of a run and of its session that its plan gives otherwise now, else None.

    A fork keeps those that it began with, which its source has a part in.
    """
    header = run.header
    if header.origin is not None:
        return None, None
    if isinstance(plan, AgentPlan):
        own, of_session = plan.binding, plan.session_binding
    else:
        own, of_session = plan.budget, plan.session_budget
    return _other(header.budget, own), _other(header.session_budget, of_session)


def _other(before: Budget | None, now: Budget | None) -> Budget | None:
    before, now = before or Budget(), now or Budget()
    return None if dict(now) == dict(before) else now


def cut_short(view: RunView) -> Excess | None:
    """Give the limit of a run above that ends a run below before its end.

    Nothing is called once a limit is reached, save for last answers: that of the run whose limit
    it is, and one of a run below that already worked. The others end without one.
    """
    run, parent = view.run, view.runs.get(view.run.header.parent_run_id or "")
    if parent is None or run.finalizing or parent.finalizing:
        return None  # it is part of a last answer
    excess = reached_above(view)
    if excess is None or (run.iterations and view.concluded in (None, run.run_id)):
        return None
    return excess


def used_up(excess: Excess, plan: CallsPlan) -> str:
    """Say to a model which limit is reached."""
    return prompt_text(
        plan.language,
        "budget_used_up",
        limit=excess.limit if excess.scope == "run" else f"{excess.scope} {excess.limit}",
        value=f"{excess.value:.12g}",
        spent=f"{excess.spent:.12g}",
    )


def told(view: RunView, plan: AgentPlan) -> tuple[BudgetExceeded, ...]:
    """Give what is to be said of the limits that were reached since the last time."""
    return tuple(
        BudgetExceeded(
            scope=excess.scope,
            limit=excess.limit,
            value=excess.value,
            spent=excess.spent,
            action=_action(view, plan),
        )
        for excess in reached(view, plan)
        if excess.key not in view.run.exceeded
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
            return excess._replace(scope=account.scope)
    return None


def _over(budget: Budget, spent: Spent) -> Iterator[Excess]:
    tokens = spent.usage.total_tokens
    return budget.reached(cost=spent.cost, tokens=tokens, calls=spent.calls)
