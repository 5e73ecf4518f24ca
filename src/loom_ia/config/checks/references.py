"""Every Python reference stands for what it is used as. This check imports the user's modules."""

from collections.abc import Iterator

from loom_ia.config.project import Project, WrittenGraph
from loom_ia.config.references import faults_of, is_graph, is_tool
from loom_ia.config.tool_kinds import unresolved
from loom_ia.core.errors import ConfigError, Problem
from loom_ia.graph.spec import GraphStep, PythonStep, ToolStep


def check_references(project: Project) -> Iterator[Problem]:
    """Refuse a module that cannot be imported, and a reference to nothing or to a wrong thing."""
    failures = project.references.load()
    for position, problems in failures.items():
        yield from project.source.situate(("imports", position), ConfigError(problems))
    told = tuple(problem for group in failures.values() for problem in group)
    for agent in project.agents:
        for position in range(len(agent.spec.tools)):
            yield from unresolved(project, agent, position, told)
    for graph in project.graphs:
        yield from _of_steps(project, graph, has_failures=bool(failures))


def _of_steps(project: Project, graph: WrittenGraph, *, has_failures: bool) -> Iterator[Problem]:
    for name, step in graph.spec.steps.items():
        match step:
            case PythonStep(python=reference):
                key, kind = "python", "function of the state"
            case ToolStep(tool=reference):
                key, kind = "tool", "tool"
            case GraphStep(graph=reference) if project.graph(reference) is None:
                key, kind = "graph", "graph"
            case _:
                continue
        path = ("steps", name, key)
        if has_failures and ":" not in reference and reference not in project.references.names:
            continue  # its module may be the one that could not be imported
        try:
            value = project.references.find(reference)
        except ConfigError as error:
            yield from graph.source.situate(path, error)
            continue
        is_right = {"python": callable, "tool": is_tool, "graph": is_graph}[key]
        if faults := faults_of(value):
            yield from project.references.shown(faults)
        elif not is_right(value):
            template = "{name} is of type {type}, not a {kind}"
            type_name = type(value).__name__
            yield graph.source.problem(path, template, name=reference, type=type_name, kind=kind)
