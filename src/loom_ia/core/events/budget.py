"""Limits that a run reached."""

from loom_ia.core.events.envelope import EventStatus, Facet, Fact, Payload
from loom_ia.core.model.budget import BudgetAction, BudgetLimit, BudgetScope, Excess
from loom_ia.core.state.run import RunState


class BudgetExceeded(Payload):
    """A limit was reached: `spent` is at least `value`, in dollars, tokens or calls.

    Written once for each limit of a run. `scope` is whose limit it is: the run's, of which `spent`
    is what it and those below it consumed, or the session's, of which all its runs did. `action`
    is what follows: a last answer without tools (`stop`), or nothing (`warn`).
    """

    TYPE = "budget.exceeded"
    CATEGORY = "policy"

    scope: BudgetScope = "run"
    limit: BudgetLimit
    value: float
    spent: float
    action: BudgetAction

    @property
    def status(self) -> EventStatus:
        return "warning"

    def facets(self) -> dict[str, Facet]:
        return {"scope": self.scope, "limit": self.limit, "action": self.action}

    def evolve(self, run: RunState, fact: Fact) -> RunState:
        del fact
        return run.exceeded_limit(Excess(self.limit, self.value, self.spent, self.scope).key)
