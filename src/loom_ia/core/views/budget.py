"""What was spent of each limit that binds a run."""

from loom_ia.core.ids import RunId
from loom_ia.core.model.base import Value
from loom_ia.core.model.budget import BudgetLimit, BudgetScope
from loom_ia.core.state.run import RunState
from loom_ia.core.state.session import Account, SessionState


class BudgetUse(Value):
    """A limit and what was spent of it, in dollars, tokens, calls of models or steps.

    `run_id` is the run whose limit it is; of a limit of the session, the run at the top.
    """

    scope: BudgetScope
    run_id: RunId
    limit: BudgetLimit
    value: float
    spent: float


def budget_uses(run: RunState, session: SessionState) -> tuple[BudgetUse, ...]:
    """Give the limits that bind a run: its own, those of the runs above, those of its session.

    Limits that are only told, and those that graphs have as hooks, bind nothing and are not here.
    """
    return tuple(use for account in session.accounts(run) for use in _uses(account))


def session_uses(session: SessionState) -> tuple[BudgetUse, ...]:
    """Give the limits of a session as its latest run at the top of a tree has them."""
    for run in reversed(session.runs.values()):
        if run.header.parent_run_id is None:
            return tuple(use for use in budget_uses(run, session) if use.scope == "session")
    return ()


def _uses(account: Account) -> list[BudgetUse]:
    spent = account.ledger.spent
    amounts: tuple[tuple[BudgetLimit, float | None, float], ...] = (
        ("max_cost", account.budget.max_cost, round(spent.cost, 12)),
        ("max_tokens", account.budget.max_tokens, spent.usage.total_tokens),
        ("max_calls", account.budget.max_calls, spent.calls),
        ("max_steps", account.budget.max_steps, account.ledger.steps),
    )
    return [
        BudgetUse(scope=account.scope, run_id=account.owner, limit=limit, value=value, spent=amount)
        for limit, value, amount in amounts
        if value is not None
    ]
