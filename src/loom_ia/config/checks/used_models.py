"""Every model that is used is declared."""

from collections.abc import Iterator

from loom_ia.config.project import Project
from loom_ia.core.errors import Problem


def check_used_models(project: Project) -> Iterator[Problem]:
    """Refuse a model that is not declared, and list those that are."""
    if "models" in project.broken and not project.model_ids:
        return
    for agent in project.agents:
        spoken = (named for chain in agent.chains for named in chain.models)
        for path, model in (*spoken, *agent.judging):
            if model in project.model_ids:
                continue
            if project.model_ids:
                known = ", ".join(project.model_ids)
                template = "unknown model {model} (declared models: {known})"
                yield agent.source.problem(path, template, model=model, known=known)
            else:
                template = "unknown model {model} (no model is declared: add it under models)"
                yield agent.source.problem(path, template, model=model)
