"""What happens next in a run, whatever chooses: a model or a router."""

from datetime import datetime
from typing import assert_never

from loom_ia.core.decide.agent import decide_agent
from loom_ia.core.decide.effects import Move
from loom_ia.core.decide.graph import decide_graph
from loom_ia.core.plan import AgentPlan, GraphPlan, Plan
from loom_ia.core.state.session import RunView


def decide(view: RunView, plan: Plan, now: datetime) -> Move:
    """Give the next move of a run, from what it is, what its program is, and the instant."""
    match plan:
        case AgentPlan():
            return decide_agent(view, plan, now)
        case GraphPlan():
            return decide_graph(view, plan, now)
        case _:
            assert_never(plan)
