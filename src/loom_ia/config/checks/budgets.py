"""A limit in dollars needs a model that has a price."""

from collections.abc import Iterator

from loom_ia.agents import Budgets
from loom_ia.config.project import Project
from loom_ia.core.errors import Problem
from loom_ia.graph.spec import AgentStep


def check_budgets(project: Project) -> Iterator[Problem]:
    """Tell each agent whose dollars cannot be counted; prod refuses it, the others warn.

    A graph spends the dollars of the root, whatever its agents say of their own.
    """
    priced = {model.id for model in project.root.models if model.pricing is not None}
    known = {model.id for model in project.root.models}
    general = project.root.budgets
    in_graphs = _agents_of_graphs(project) if _limits_dollars(general) else frozenset[str]()
    for agent in project.agents:
        limits = agent.spec.budget.over(general)
        if not _limits_dollars(limits) and agent.spec.name not in in_graphs:
            continue
        for path, model in (named for chain in agent.chains for named in chain.models):
            if model in known and model not in priced:
                template = "max_cost limits nothing: {model} has no pricing (add it to the model)"
                yield agent.source.problem(path, template, model=model)


def _limits_dollars(budgets: Budgets) -> bool:
    return budgets.run.max_cost is not None or budgets.session.max_cost is not None


def _agents_of_graphs(project: Project) -> frozenset[str]:
    return frozenset(
        step.agent
        for graph in project.graphs
        for step in graph.spec.steps.values()
        if isinstance(step, AgentStep)
    )
