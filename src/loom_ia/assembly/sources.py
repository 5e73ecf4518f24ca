"""The sources of tools of an instance: MCP servers and packages, each made once, if it is used."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, cast

from loom_ia.agents import AgentSpec, SourcedTools
from loom_ia.assembly.backends import BACKENDS, factory
from loom_ia.assembly.fitting import Fitting, Reference
from loom_ia.config.document import KeyPath
from loom_ia.config.load import LoadedConfig
from loom_ia.config.sources import McpServerSpec, ToolSourceSpec
from loom_ia.config.tool_kinds import said_of_tools
from loom_ia.core.errors import CallerError, ConfigError, Problem
from loom_ia.core.ports.sources import McpAccess, ReviewedSource, ToolSource
from loom_ia.engine.program import SourceBinding

_log = logging.getLogger("loom_ia.assembly")

PINS_FILE: Final = "mcp-pins.json"
"""Where what was accepted of MCP servers is kept, beside the journal."""
_SHARED_KEYS: Final = frozenset({"sqlite"})
_MARGIN: Final = 5.0
_LEAST: Final = 60.0


class Sources:
    """The sources that agents name; `given` replaces some of them, by their name."""

    def __init__(self, loaded: LoadedConfig, given: Mapping[str, ToolSource]) -> None:
        self._loaded = loaded
        self._given = given
        self._made: dict[str, ToolSource] = {}

    def make(self) -> Iterator[Problem]:
        """Make the sources that some agent names; give what is wrong with them."""
        config = self._loaded.config
        used = {
            (tool.KEY, tool.target)
            for agent in config.agents
            for tool in agent.tools
            if isinstance(tool, SourcedTools)
        }
        for position, server in enumerate(config.mcp_servers):
            if ("mcp", server.name) in used and server.name not in self._made:
                given = self._given.get(server.name)
                problems = () if given is not None else tuple(self._faults(position, server))
                if problems:
                    yield from problems
                    continue
                self._made[server.name] = given or self._server(server)
        for position, source in enumerate(config.tool_sources):
            if ("source", source.name) not in used or source.name in self._made:
                continue
            try:
                self._made[source.name] = self._given.get(source.name) or self._package(source)
            except ConfigError as error:
                place = self._loaded.problem(("tool_sources", position, "entry_point"), "")
                for problem in error.problems:
                    here = replace(problem, file=place.file, line=place.line, path=place.path)
                    yield problem if problem.file else here

    def bindings(self, agent: AgentSpec) -> tuple[SourceBinding, ...]:
        """Give the sources of an agent, each once, in the order in which it names them."""
        references: dict[str, list[SourcedTools]] = {}
        for tool in agent.tools:
            if isinstance(tool, SourcedTools):
                references.setdefault(tool.target, []).append(tool)
        return tuple(self._binding(name, written) for name, written in references.items())

    async def close(self) -> None:
        """Let go of every source; one that fails keeps no other from being closed."""
        for name, source in reversed(self._made.items()):
            try:
                await source.aclose()
            except Exception as error:  # noqa: BLE001 -- a source may be anybody's code
                _log.warning("source %s failed when it was closed: %s", name, type(error).__name__)
        self._made.clear()

    def _binding(self, name: str, written: list[SourcedTools]) -> SourceBinding:
        config = self._loaded.config
        fit = Fitting(
            name,
            tuple(Reference(each, said_of_tools(config, each)) for each in written),
            config.execution.tools,
            shared_keys=config.storage.idempotency.backend in _SHARED_KEYS,
        )
        server = next((s for s in config.mcp_servers if s.name == name), None)
        limit = _LEAST if server is None else max(_LEAST, server.connect_timeout + _MARGIN)
        return SourceBinding(
            name,
            self._made[name],
            fit,
            tuple(each.prefix for each in written),
            required=any(each.required for each in written),
            open_timeout=limit,
        )

    def _faults(self, position: int, server: McpServerSpec) -> Iterator[Problem]:
        backend = BACKENDS["source", "mcp"]
        if not backend.is_installed:
            template = 'an MCP server needs the extra {extra} (pip install "loom-ia[{extra}]")'
            path: KeyPath = ("mcp_servers", position, "transport")
            yield self._loaded.problem(path, template, extra=backend.extra)
        for key in ("env_from", "headers_env"):
            variables: Mapping[str, str] = getattr(server, key)
            for target, variable in variables.items():
                if self._loaded.secret(variable):
                    continue
                template = (
                    "the variable {name} is not defined, or is empty (the server {server} is given "
                    "it as {target})"
                )
                params = {"name": variable, "server": server.name, "target": target}
                path = ("mcp_servers", position, key, target)
                yield self._loaded.problem(path, template, **params)

    def _package(self, source: ToolSourceSpec) -> ToolSource:
        from loom_ia.assembly.entry_points import source_of_package  # only where there is one

        return source_of_package(source, secret=self._loaded.secret, base_dir=self._loaded.base_dir)

    def _server(self, server: McpServerSpec) -> ToolSource:
        return cast("ToolSource", factory("source", "mcp")(server, self._access()))

    def server(self, name: str) -> ReviewedSource:
        """Give a server of the configuration, for whoever looks at its tools, to be closed by him.

        Raises `CallerError` for an unknown one, `ConfigError` for one that cannot be reached.
        """
        for position, server in enumerate(self._loaded.config.mcp_servers):
            if server.name == name:
                if problems := tuple(self._faults(position, server)):
                    raise ConfigError(problems)
                return cast("ReviewedSource", self._server(server))
        known = [server.name for server in self._loaded.config.mcp_servers]
        raise CallerError(
            "there is no MCP server {server}; servers: {known}",
            server=name,
            known=", ".join(known) or "none",
        )

    def _access(self) -> McpAccess:
        events = self._loaded.config.storage.events
        folder: Path | None = None
        if events.backend != "memory":
            journal = self._loaded.path(events.path or "")
            folder = journal if events.backend == "jsonl" else journal.parent
        pins = None if folder is None else folder / PINS_FILE
        return McpAccess(self._loaded.secret, self._loaded.base_dir, pins)
