"""Names are unique: of models, and of agents and graphs across every file."""

from collections.abc import Iterable, Iterator
from typing import Final

from loom_ia.config.places import Source
from loom_ia.config.project import Project
from loom_ia.core.errors import Problem
from loom_ia.core.model.names import MCP_SERVICES

RESERVED_AGENTS: Final = frozenset({"_compaction"})


def check_names(project: Project) -> Iterator[Problem]:
    """Refuse a name that is used twice, and those that the engine keeps for itself."""
    if "models" not in project.broken:
        yield from unique(
            (project.source.inside("models", position), model.id, "id")
            for position, model in enumerate(project.root.models)
        )
    named = [agent for agent in project.agents if "name" not in agent.broken]
    yield from unique((agent.source, agent.spec.name, "name") for agent in named)
    graphs = [graph for graph in project.graphs if "name" not in graph.broken]
    yield from unique((graph.source, graph.spec.name, "name") for graph in graphs)
    for agent in named:
        if agent.spec.name in RESERVED_AGENTS:
            template = "the name {name} is reserved (choose another)"
            yield agent.source.problem(("name",), template, name=agent.spec.name)
        if agent.spec.name in MCP_SERVICES and agent.spec.expose.mcp:
            template = (
                "the name {name} is that of a tool of the MCP server (choose another, or set "
                "expose.mcp to false)"
            )
            yield agent.source.problem(("name",), template, name=agent.spec.name)


def unique(named: Iterable[tuple[Source, str, str]]) -> Iterator[Problem]:
    """Refuse a name that is used twice; each is given with its place and the key it stands at."""
    first: dict[str, Source] = {}
    for source, name, key in named:
        known = first.setdefault(name, source)
        if known is not source:
            template = "{name} is already defined at {place}"
            yield source.problem((key,), template, name=name, place=known.place((key,)))
