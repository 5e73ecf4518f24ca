"""No run opens itself again: agents call agents and graphs, whose steps do so, too."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias, cast

from loom_ia.agents import GraphTool
from loom_ia.config.document import KeyPath
from loom_ia.config.places import Source
from loom_ia.config.project import Project
from loom_ia.config.references import is_graph
from loom_ia.core.errors import ConfigError, Problem
from loom_ia.graph.children import ChildAgent, ChildGraph
from loom_ia.graph.definition import GraphDefinition
from loom_ia.graph.spec import AgentStep, GraphStep

_CYCLE: Final = "a run would open itself for ever: {cycle} (cut one of these calls)"


class Node(NamedTuple):
    """An agent, or a graph, that a run may be of."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class _Call:
    """Where something that is written opens runs of something else."""

    to: Node
    source: Source
    path: KeyPath


_Calls: TypeAlias = dict[Node, list[_Call]]


def check_cycles(project: Project) -> Iterator[Problem]:
    """Refuse a circle of what is written, naming it; no module is imported."""
    yield from _circles(_written(project, resolved=False))


def check_cycles_in_python(project: Project) -> Iterator[Problem]:
    """Refuse a circle that goes through graphs built in Python."""
    known = set(_paths(_written(project, resolved=False)))
    calls = _written(project, resolved=True)
    yield from _circles(calls, without=known)


def _circles(calls: _Calls, without: set[tuple[Node, ...]] | None = None) -> Iterator[Problem]:
    for path in _paths(calls):
        if without and path in without:
            continue
        call = next(call for call in calls[path[0]] if call.to == path[1 % len(path)])
        cycle = " → ".join(node.name for node in (*path, path[0]))
        yield call.source.problem(call.path, _CYCLE, cycle=cycle)


def _paths(calls: _Calls) -> list[tuple[Node, ...]]:
    """Give each circle once, from the one that comes first in the order of names."""
    found: dict[tuple[Node, ...], None] = {}

    def walk(node: Node, path: tuple[Node, ...]) -> None:
        for call in calls.get(node, ()):
            if call.to in path:
                circle = path[path.index(call.to) :]
                first = circle.index(min(circle))
                found[(*circle[first:], *circle[:first])] = None
            elif call.to not in done:
                walk(call.to, (*path, call.to))
        done.add(node)

    done: set[Node] = set()
    for node in calls:
        if node not in done:
            walk(node, (node,))
    return list(found)


def _written(project: Project, *, resolved: bool) -> _Calls:
    calls: _Calls = {}
    for agent in project.agents:
        own = calls.setdefault(Node("agent", agent.spec.name), [])
        for position, tool in enumerate(agent.spec.tools):
            if isinstance(tool, GraphTool):
                path = ("tools", position, "graph")
                own += _to_graph(project, tool.graph, agent.source, path, resolved=resolved)
        for position, below in enumerate(agent.spec.subagents):
            to = Node("agent", below.agent)
            own.append(_Call(to, agent.source, ("subagents", position, "agent")))
    for graph in project.graphs:
        own = calls.setdefault(Node("graph", graph.spec.name), [])
        for name, step in graph.spec.steps.items():
            if isinstance(step, AgentStep):
                to = Node("agent", step.agent)
                own.append(_Call(to, graph.source, ("steps", name, "agent")))
            elif isinstance(step, GraphStep):
                path = ("steps", name, "graph")
                own += _to_graph(project, step.graph, graph.source, path, resolved=resolved)
    return calls


def _to_graph(
    project: Project, name: str, source: Source, path: KeyPath, *, resolved: bool
) -> Iterator[_Call]:
    """Give the call of a graph that is written, or what one built in Python opens."""
    if project.graph(name) is not None:
        yield _Call(Node("graph", name), source, path)
    elif resolved:
        try:
            value = project.references.find(name)
        except ConfigError:
            return  # told by the check of references
        if is_graph(value):
            for agent in agents_below(cast("GraphDefinition[Any]", value)):
                yield _Call(Node("agent", agent), source, path)


def agents_below(graph: GraphDefinition[Any]) -> tuple[str, ...]:
    """Give the agents that the steps of a graph, and of those below it, run."""
    found: dict[str, None] = {}
    seen: set[int] = set()
    waiting = [graph]
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        for step in each.steps.values():
            if isinstance(step.child, ChildAgent):
                found[step.child.agent] = None
            elif isinstance(step.child, ChildGraph):
                waiting.append(step.child.graph)
    return tuple(found)
