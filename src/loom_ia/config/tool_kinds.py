"""What each kind of reference to a tool stands for: the one place that tells the kinds apart.

To add a kind, write its class in `agents/tools.py`, and its case in each function here. What needs
the user's modules says so: it imports them.
"""

from collections.abc import Iterator
from typing import assert_never

from loom_ia.agents import (
    AgentSpec,
    AnyTool,
    GraphTool,
    McpTool,
    PythonTool,
    SourcedTools,
    SourceTool,
    ToolOverrides,
)
from loom_ia.config.project import Project, WrittenAgent
from loom_ia.config.references import faults_of, is_graph, is_tool
from loom_ia.config.root import LoomConfig
from loom_ia.config.sources import McpServerSpec, ToolSourceSpec
from loom_ia.core.errors import ConfigError, Problem
from loom_ia.core.model.naming import prefix_of
from loom_ia.core.model.tooling import ToolSpec
from loom_ia.graph.spec import AgentStep, GraphSpec, GraphStep, HumanStep


def declared(project: Project, reference: AnyTool) -> ToolSpec | None:
    """Give what the tool declares, None for one that declares nothing or is not found."""
    match reference:
        case PythonTool():
            try:
                value = project.references.find(reference.python)
            except ConfigError:
                return None  # told by the check of references
            return value.spec if is_tool(value) else None
        case GraphTool() | McpTool() | SourceTool():
            return None
        case _:
            assert_never(reference)


def source_of(root: LoomConfig, reference: SourcedTools) -> McpServerSpec | ToolSourceSpec | None:
    """Find what a reference to a server or to a source names; None when nothing has that name."""
    known = root.mcp_servers if isinstance(reference, McpTool) else root.tool_sources
    return next((source for source in known if source.name == reference.target), None)


def said_of_tools(root: LoomConfig, reference: SourcedTools) -> dict[str, ToolOverrides]:
    """Give what the configuration says of the tools of a source, by the source's own names.

    The agent has the last word, key by key.
    """
    source = source_of(root, reference)
    said = dict(source.tools) if source is not None else {}
    for own, over in reference.tools.items():
        general = said.get(own, ToolOverrides())
        changes = {key: value for key, value in over if value is not None}
        said[own] = general.model_copy(update=changes)
    return {own: over for own, over in said.items() if reference.takes(own)}


def always_asked(root: LoomConfig, reference: AnyTool) -> tuple[str, ...]:
    """Give the tools of a reference whose calls always wait for a human, as it is written."""
    if not isinstance(reference, SourcedTools):
        return (reference.target,) if reference.approval == "always" else ()
    said = said_of_tools(root, reference)
    return tuple(reference.named(own) for own, over in said.items() if over.approval == "always")


def may_come_from_source(agent: AgentSpec, name: str) -> bool:
    """Whether a name may be that of a tool which is not known before its source is asked for."""
    for reference in agent.tools:
        if not isinstance(reference, SourcedTools) or prefix_of(name) != reference.prefix:
            continue
        if reference.include is not None:
            return name in map(reference.named, reference.include)
        return name not in map(reference.named, reference.exclude or ())
    return False


def names_of_tools(project: Project, agent: WrittenAgent) -> tuple[str, ...] | None:
    """Give the names that the model of an agent may call; None when one is not known."""
    names: list[str] = []
    for reference in agent.spec.tools:
        match reference:
            case PythonTool():
                spec = declared(project, reference)
                if spec is None:
                    return None
                names.append(spec.name)
            case McpTool() | SourceTool():
                continue  # known once they are asked for: see `may_come_from_source`
            case GraphTool():
                if (name := _name_of_graph(project, reference)) is None:
                    return None
                names.append(name)
            case _:
                assert_never(reference)
    names += (role.name for role in agent.spec.roles)
    names += (below.called for below in agent.spec.subagents)
    return tuple(names)


def _name_of_graph(project: Project, reference: GraphTool) -> str | None:
    if reference.name is not None or project.graph(reference.graph) is not None:
        return reference.name or reference.graph
    try:
        value = project.references.find(reference.graph)
    except ConfigError:
        return None  # told by the check of references
    return getattr(value, "name", None) if is_graph(value) else None


def may_wait(project: Project, reference: AnyTool, *, resolved: bool) -> bool:
    """Whether a call of it may wait for a human, its `approval` aside.

    What the tools themselves declare is known once references are `resolved`.
    """
    match reference:
        case PythonTool():
            spec = declared(project, reference) if resolved else None
            if spec is None:
                return False
            spec = spec.model_copy(update=reference.overrides)
            asks_after = spec.on_unknown == "pause" and not spec.may_run_again
            return spec.approval == "always" or spec.assesses or asks_after
        case GraphTool():
            written = project.graph(reference.graph)
            return written is not None and graph_may_wait(project, written.spec)
        case McpTool() | SourceTool():
            return False  # what they declare is known later
        case _:
            assert_never(reference)


def graph_may_wait(
    project: Project, graph: GraphSpec, *, seen: frozenset[str] = frozenset()
) -> bool:
    """Whether a step of a graph, or of one below it, asks a human, as far as it is written."""
    for step in graph.steps.values():
        if isinstance(step, HumanStep):
            return True
        if step.on_unknown == "pause" and step.side_effects != "none" and not step.idempotent:
            return True
        if isinstance(step, GraphStep) and step.graph not in seen:
            below = project.graph(step.graph)
            known = seen | {graph.name}
            if below is not None and graph_may_wait(project, below.spec, seen=known):
                return True
        if isinstance(step, AgentStep):
            agents = (a for a in project.agents if a.spec.name == step.agent)
            tools = (tool for agent in agents for tool in agent.spec.tools)
            if any(always_asked(project.root, tool) for tool in tools):
                return True
    return False


def unresolved(
    project: Project, agent: WrittenAgent, position: int, told: tuple[Problem, ...]
) -> Iterator[Problem]:
    """Say what keeps a reference from standing for a tool; `told` was said of modules already."""
    reference = agent.spec.tools[position]
    if isinstance(reference, SourcedTools):
        return  # told by the check of sources
    path = ("tools", position, reference.KEY)
    match reference:
        case GraphTool() if project.graph(reference.graph) is not None:
            written = project.graph(reference.graph)
            described = reference.description or (written.spec.description if written else "")
        case _:
            named = ":" in reference.target or reference.target in project.references.names
            if told and not named:
                return  # its module may be the one that could not be imported
            try:
                value = project.references.find(reference.target)
            except ConfigError as error:
                yield from agent.source.situate(path, error)
                return
            if isinstance(reference, PythonTool):
                yield from _not_a_tool(project, agent, path, value, told)
                return
            if not is_graph(value):
                template = "{name} is of type {type}, not a graph"
                kind = type(value).__name__
                yield agent.source.problem(path, template, name=reference.target, type=kind)
                return
            described = reference.description or ""
    if not described.strip():
        template = "a model must be told what the graph {name} does (add description)"
        yield agent.source.problem(path, template, name=reference.target)


def _not_a_tool(
    project: Project,
    agent: WrittenAgent,
    path: tuple[str | int, ...],
    value: object,
    told: tuple[Problem, ...],
) -> Iterator[Problem]:
    if faults := faults_of(value):  # told already, unless its module is not imported
        yield from (p for p in project.references.shown(faults) if p not in told)
    elif not is_tool(value):
        template = "{name} is of type {type}, not a tool (write @tool above the function)"
        name, kind = agent.spec.tools[int(path[1])].target, type(value).__name__
        yield agent.source.problem(path, template, name=name, type=kind)
