"""The agents that an agent calls: declared, told what they do, and paid from a budget."""

from collections.abc import Iterator

from loom_ia.config.project import Project
from loom_ia.core.errors import Problem


def check_subagents(project: Project) -> Iterator[Problem]:
    """Refuse an agent that is not declared or not described, and a share of no budget."""
    declared = {agent.spec.name: agent.spec for agent in project.agents}
    for agent in project.agents:
        limits = agent.spec.budget.over(project.root.budgets).run
        has_limit = (limits.max_cost, limits.max_tokens, limits.max_calls) != (None, None, None)
        for position, below in enumerate(agent.spec.subagents):
            source = agent.source.inside("subagents", position)
            called = declared.get(below.agent)
            if called is None:
                known = ", ".join(sorted(declared)) or "none"
                template = "there is no agent {agent} (agents: {agents})"
                yield source.problem(("agent",), template, agent=below.agent, agents=known)
            elif not (called.description if below.description is None else below.description):
                template = "a model must be told what the agent {agent} does (add description)"
                yield source.problem(("agent",), template, agent=below.agent)
            if below.budget_share is not None and not has_limit and "budget" not in agent.broken:
                template = (
                    "{agent} has no budget to share (add max_cost, max_tokens or max_calls under "
                    "budget.run)"
                )
                yield source.problem(("budget_share",), template, agent=agent.spec.name)
