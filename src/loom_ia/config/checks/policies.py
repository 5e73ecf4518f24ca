"""Policies: each hook is one, at points that it declares. This check imports the user's modules."""

from collections.abc import Iterator

from loom_ia.config.document import KeyPath
from loom_ia.config.project import Project, WrittenAgent
from loom_ia.core.errors import ConfigError, Problem


def check_policies(project: Project) -> Iterator[Problem]:
    """Refuse what is no policy, what it does not declare, and a name that is used twice."""
    for agent in project.agents:
        if "policies" not in agent.broken:
            yield from _of(project, agent)
        for place, judge, _ in agent.judges:
            if judge.when.condition is None:
                continue
            path: KeyPath = (*place, "when", "condition")
            found = _found(project, agent, path, judge.when.condition)
            if isinstance(found, Problem):
                yield found
            elif not callable(found):
                template = "{name} is of type {type}, not a function of the output"
                params = {"name": judge.when.condition, "type": type(found).__name__}
                yield agent.source.problem(path, template, **params)


def _of(project: Project, agent: WrittenAgent) -> Iterator[Problem]:
    from loom_ia.policies.builtin import faults_in_params
    from loom_ia.policies.function import PolicyFunction

    names: dict[str, int] = {}
    forced = _unforced(project, agent)
    for position, reference in enumerate(agent.spec.policies):
        path: KeyPath = ("policies", position, "hook")
        found = _found(project, agent, path, reference.hook)
        if isinstance(found, Problem):
            yield found
            continue
        if not isinstance(found, PolicyFunction):
            template = "{name} is of type {type}, not a policy (write @policy above the function)"
            kind = type(found).__name__
            yield agent.source.problem(path, template, name=reference.hook, type=kind)
            continue
        for fault in found.faults:
            yield agent.source.problem(path, fault.template, **fault.params)
        for index, point in enumerate(reference.points):
            if point not in found.points:
                known = ", ".join(found.points)
                template = "the policy {name} is not for {point} (it is for {known})"
                where: KeyPath = ("policies", position, "points", index)
                params = {"name": reference.hook, "point": point.value, "known": known}
                yield agent.source.problem(where, template, **params)
        for text in faults_in_params(found.name, reference.params):
            where = ("policies", position, "params")
            yield agent.source.problem(where, "{fault}", fault=text)
        if found.name == "loom.require_tool" and forced:
            template = (
                "{model} cannot be made to call a tool (capabilities.forced_tool_choice: false)"
            )
            yield agent.source.problem(path, template, model=forced)
        name = reference.name or found.name
        if names.setdefault(name, position) != position:
            template = "two policies of agent {agent} are called {name} (give one a name)"
            yield agent.source.problem(path, template, agent=agent.spec.name, name=name)


def _found(project: Project, agent: WrittenAgent, path: KeyPath, name: str) -> object:
    """Give what a name stands for, or the problem that it stands for nothing."""
    try:
        return project.references.policy(name)
    except ConfigError as error:
        return next(iter(agent.source.situate(path, error)))


def _unforced(project: Project, agent: WrittenAgent) -> str:
    if "main" in agent.broken:
        return ""
    chain = agent.spec.main.chain
    specs = (model for model in project.root.models if model.id in chain)
    return next((m.id for m in specs if not m.capabilities.forced_tool_choice), "")
