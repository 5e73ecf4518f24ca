"""What is said of notices fits together, and links can be trusted."""

from collections.abc import Iterator
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from loom_ia.agents.tools import AnyTool, GraphTool, McpTool, PythonTool, SourceTool
from loom_ia.config.checks.doors import known_agents
from loom_ia.config.checks.names import unique
from loom_ia.config.document import KeyPath
from loom_ia.config.places import Source
from loom_ia.config.project import Project
from loom_ia.config.server import NoticeTarget
from loom_ia.config.tool_kinds import declared
from loom_ia.core.errors import ConfigError, Problem
from loom_ia.core.template import Template, notice_faults

_OF_WEBHOOKS: Final = ("headers_env", "secret_env")


def check_notices(project: Project) -> Iterator[Problem]:
    """Refuse a target that is not one, a name used twice, and links that nobody signs."""
    if "notices" not in project.broken:
        notices = project.root.notices
        source = project.source.inside("notices")
        if notices.public_url is not None and notices.secret_env is None:
            template = "links must be signed (add secret_env, the name of a variable)"
            yield source.problem(("public_url",), template)
        if notices.previous_secret_env is not None and notices.secret_env is None:
            template = "there is no secret that this one came before (add secret_env)"
            yield source.problem(("previous_secret_env",), template)
        targets = notices.targets
        named = enumerate(targets)
        yield from unique((source.inside("targets", i), t.name, "name") for i, t in named)
        for position, target in enumerate(targets):
            at = source.inside("targets", position)
            yield from _of_target(project, at, target)
    for agent in project.agents:
        if "tools" in agent.broken:
            continue
        for position, tool in enumerate(agent.spec.tools):
            for where, notice in _sentences(tool):
                try:
                    Template.parse(notice, "")
                except ConfigError as error:
                    for fault in error.problems:
                        path = ("tools", position, *where)
                        yield agent.source.problem(path, fault.template, **fault.params)


def _sentences(tool: AnyTool) -> Iterator[tuple[KeyPath, str]]:
    """Give what a reference says of calls, and where."""
    match tool:
        case PythonTool() | GraphTool():
            if tool.notice is not None:
                yield ("notice",), tool.notice
        case McpTool() | SourceTool():
            for name, said in tool.tools.items():
                if said.notice is not None:
                    yield ("tools", name, "notice"), said.notice


def _of_target(project: Project, at: Source, target: NoticeTarget) -> Iterator[Problem]:
    if (target.url is None) == (not target.command):
        yield at.problem((), "a target has either url or command (write one of them)")
    elif target.url is None:
        for key in _OF_WEBHOOKS:
            if getattr(target, key):
                yield at.problem((key,), "{key} is for a webhook (remove it)", key=key)
        if not target.command[0].strip():
            yield at.problem(("command",), "it begins with the name of a program")
    elif _host(target.url) is None:
        yield at.problem(("url",), "this is no address that can be called")
    yield from known_agents(project, at, target.agents)


def check_notice_addresses(project: Project) -> Iterator[Problem]:
    """Tell of addresses that are not encrypted on their way."""
    if "notices" in project.broken:
        return
    source = project.source.inside("notices")
    template = "what is sent there can be read on its way (write https://)"
    for position, target in enumerate(project.root.notices.targets):
        if _is_open(target.url):
            yield source.problem(("targets", position, "url"), template)
    if _is_open(project.root.notices.public_url):
        yield source.problem(("public_url",), template)


def check_notices_of_tools(project: Project) -> Iterator[Problem]:
    """Refuse a sentence about an argument that the tool has not. Needs the tools."""
    for agent in project.agents:
        for position, tool in enumerate(agent.spec.tools):
            if not isinstance(tool, PythonTool) or tool.notice is None:
                continue
            spec = declared(project, tool)
            if spec is None:
                continue
            path = ("tools", position, "notice")
            for fault in notice_faults(tool.notice, spec.input_schema):
                if "known" in fault.params:  # the others were told when it was read
                    yield agent.source.problem(path, fault.template, **fault.params)


def _is_open(url: str | None) -> bool:
    if url is None or not url.startswith("http://"):
        return False
    host = _host(url) or ""
    if host == "localhost":
        return False
    try:
        return not ip_address(host).is_loopback
    except ValueError:
        return True


def _host(url: str) -> str | None:
    """Give the host of an address, None when it is no address."""
    try:
        address = urlsplit(url)
        sound = bool(address.hostname) and address.port != 0 and url.isprintable()
    except ValueError:
        return None
    return address.hostname if sound else None
