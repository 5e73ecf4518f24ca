"""MCP servers and sources of tools: named once, reached one way, and known to who names them."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from loom_ia.agents import GraphTool, McpTool, SourcedTools
from loom_ia.config.document import KeyPath
from loom_ia.config.project import Project, WrittenAgent
from loom_ia.config.tool_kinds import source_of
from loom_ia.core.errors import Problem
from loom_ia.core.model.naming import prefix_of

_KEYS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {"stdio": ("command", "args", "env", "env_from", "cwd"), "http": ("url", "headers_env")}
)
_NEEDED: Final[Mapping[str, str]] = MappingProxyType({"stdio": "command", "http": "url"})


def check_sources(project: Project) -> Iterator[Problem]:
    """Refuse a name used twice, keys of the other transport, and what an agent cannot name."""
    yield from _names(project)
    for position, server in enumerate(project.root.mcp_servers):
        at = project.source.inside("mcp_servers", position)
        needed = _NEEDED[server.transport]
        if getattr(server, needed) is None:
            template = "a server that speaks {transport} needs {key}"
            yield at.problem((), template, transport=server.transport, key=needed)
        for transport, keys in _KEYS.items():
            for key in keys if transport != server.transport else ():
                if getattr(server, key):
                    template = "{key} is for transport: {transport}, not {other} (remove it)"
                    params = {"key": key, "transport": transport, "other": server.transport}
                    yield at.problem((key,), template, **params)
    for agent in project.agents:
        if "tools" not in agent.broken:
            yield from _of_agent(project, agent)


def check_overlaps(project: Project) -> Iterator[Problem]:
    """Tell of the tools that an agent is offered twice, under two prefixes."""
    for agent in project.agents:
        known: list[tuple[int, SourcedTools]] = []
        for position, tool in enumerate(agent.spec.tools):
            if not isinstance(tool, SourcedTools):
                continue
            for earlier, other in known:
                if tool.KEY == other.KEY and tool.target == other.target and _overlap(tool, other):
                    template = (
                        "tools of {source} are offered twice, as {first}__… and {second}__… (give "
                        "each its include)"
                    )
                    prefixes = {"first": other.prefix, "second": tool.prefix}
                    path = ("tools", position, tool.KEY)
                    yield agent.source.problem(path, template, source=tool.target, **prefixes)
                    del earlier
                    break
            known.append((position, tool))


def _overlap(one: SourcedTools, other: SourcedTools) -> bool:
    if one.include is not None:
        return any(other.takes(own) for own in one.include)
    if other.include is not None:
        return any(one.takes(own) for own in other.include)
    return True


def _names(project: Project) -> Iterator[Problem]:
    first: dict[str, KeyPath] = {}
    written: list[tuple[str, int, str]] = [
        ("mcp_servers", position, server.name)
        for position, server in enumerate(project.root.mcp_servers)
    ]
    written += [
        ("tool_sources", position, source.name)
        for position, source in enumerate(project.root.tool_sources)
    ]
    for section, position, name in written:
        path: KeyPath = (section, position, "name")
        known = first.setdefault(name, path)
        if known != path:
            template = "{name} is already defined at {place}"
            place = project.source.place(known)
            yield project.source.problem(path, template, name=name, place=place)


def _of_agent(project: Project, agent: WrittenAgent) -> Iterator[Problem]:
    prefixes: dict[str, KeyPath] = {}
    for position, tool in enumerate(agent.spec.tools):
        if not isinstance(tool, SourcedTools):
            continue
        path: KeyPath = ("tools", position, tool.KEY)
        section = "mcp_servers" if isinstance(tool, McpTool) else "tool_sources"
        if section not in project.broken and source_of(project.root, tool) is None:
            yield _undeclared(project, agent, path, tool)
        known = prefixes.setdefault(tool.prefix, path)
        if known != path:
            template = (
                "the tools of {place} begin with {prefix}__ already (give this one another alias)"
            )
            place = agent.source.place(known)
            yield agent.source.problem(path, template, place=place, prefix=tool.prefix)
    for path, name in _named(agent):
        if prefix_of(name) in prefixes:
            template = "{name} begins like the tools of {place} (choose another name)"
            place = agent.source.place(prefixes[prefix_of(name)])
            yield agent.source.problem(path, template, name=name, place=place)


def _undeclared(
    project: Project, agent: WrittenAgent, path: KeyPath, tool: SourcedTools
) -> Problem:
    if isinstance(tool, McpTool):
        template = "the MCP server {name} is not declared under mcp_servers (declared: {known})"
        names = [server.name for server in project.root.mcp_servers]
    else:
        template = "the source {name} is not declared under tool_sources (declared: {known})"
        names = [source.name for source in project.root.tool_sources]
    known = ", ".join(names) or "none"
    return agent.source.problem(path, template, name=tool.target, known=known)


def _named(agent: WrittenAgent) -> Iterator[tuple[KeyPath, str]]:
    """Give the names that an agent chose for what it calls, and where."""
    for position, tool in enumerate(agent.spec.tools):
        if isinstance(tool, GraphTool) and tool.name is not None:
            yield ("tools", position, "name"), tool.name
    for position, role in enumerate(agent.spec.roles):
        yield ("roles", position, "name"), role.name
    for position, below in enumerate(agent.spec.subagents):
        yield ("subagents", position, "name" if below.name else "agent"), below.called
