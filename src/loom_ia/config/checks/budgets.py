"""A limit in dollars needs a model that has a price."""

from collections.abc import Iterator

from loom_ia.config.project import Project
from loom_ia.core.errors import Problem


def check_budgets(project: Project) -> Iterator[Problem]:
    """Tell each agent whose dollars cannot be counted; prod refuses it, the others warn."""
    priced = {model.id for model in project.root.models if model.pricing is not None}
    known = {model.id for model in project.root.models}
    for agent in project.agents:
        limits = agent.spec.budget.over(project.root.budgets)
        if limits.run.max_cost is None:
            continue
        for path, model in (named for chain in agent.chains for named in chain.models):
            if model in known and model not in priced:
                template = "max_cost limits nothing: {model} has no pricing (add it to the model)"
                yield agent.source.problem(path, template, model=model)
