"""The tools of an MCP server, given to runs. Implements the port `ToolSource`.

Law. Nothing is offered but what was accepted: the tools as they were when the server was first
seen, or as the configuration pins them. A tool that changed since is withheld until a human accepts
it, and so is one that was not there; the others stay. What a server hints at of its own tools only
stands in for what the configuration does not say.
"""

import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from loom_ia.adapters.mcp.bounds import DESCRIPTION_CHARS
from loom_ia.adapters.mcp.definitions import Definition, Listed, visible
from loom_ia.adapters.mcp.health import Health
from loom_ia.adapters.mcp.pins import (
    Accepted,
    FilePins,
    MemoryPins,
    Pin,
    PinStore,
    pins_of,
    quarantined,
    reviewed,
)
from loom_ia.adapters.mcp.pool import Line, load
from loom_ia.adapters.mcp.schemas import Unusable, adapted
from loom_ia.adapters.mcp.settings import identity_of, settings_of
from loom_ia.adapters.mcp.tool import McpTool
from loom_ia.core.errors import SourceUnavailable
from loom_ia.core.model.mcp import McpServer, ToolReview
from loom_ia.core.model.tooling import ToolSpec
from loom_ia.core.ports.sources import McpAccess, OfferedTool, SourceContext

_OTHERS: Final = "(others)"
_log = logging.getLogger("loom_ia.mcp")
_ILLEGAL: Final = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(eq=False, slots=True)
class RunTools:
    """The tools that one run was given. Implements `OpenTools`."""

    tools: tuple[OfferedTool, ...]
    withheld: Mapping[str, str]
    _line: Line
    _is_own: bool
    _is_closed: bool = False

    async def close(self) -> None:
        """Let go of the connection if it is that of this run, and of its use if it is not."""
        if self._is_closed:
            return
        self._is_closed = True
        self._line.leave()
        if self._is_own:
            await self._line.close()


@dataclass(eq=False, slots=True)
class _Known:
    tool: McpTool | None
    reason: str = ""


class McpSource:
    """The tools of one server. Nothing is started nor opened before a run asks for them."""

    def __init__(
        self,
        server: McpServer,
        access: McpAccess,
        *,
        pins: PinStore | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._server = server
        self._access = access
        self._clock = clock
        file = access.pins_file
        self._pins = pins or (FilePins(file) if file is not None else MemoryPins())
        self._lines: dict[str, Line] = {}
        self._own: set[Line] = set()
        self._health = Health(server.circuit_breaker)
        self._is_closed = False
        self._told: dict[str, str] = {}

    async def open(self, context: SourceContext) -> RunTools:
        """Give the tools for a run; raises `SourceUnavailable`."""
        if self._is_closed:
            raise SourceUnavailable(
                "the MCP server {server} was let go of", server=self._server.name
            )
        await load()
        line = self._line(context)
        is_own = self._server.scope == "run"
        line.enter()
        try:
            listed = await line.ready()
            tools, withheld = await self._offered(line, listed, context)
        except BaseException as error:
            if isinstance(error, SourceUnavailable):
                error.circuit = line.health.news()
            line.leave()
            if is_own:
                await self._close_own(line)
            raise
        return RunTools(tools, withheld, line, is_own)

    def _line(self, context: SourceContext) -> Line:
        server = self._server
        if server.scope == "run":
            line = self._made(self._health, None)
            self._own = {one for one in self._own if not one.is_closed} | {line}
            return line
        key = context.tenant_id if server.scope == "tenant" else ""
        line = self._lines.get(key)
        if line is None:
            health = Health(server.circuit_breaker)
            line = self._lines[key] = self._made(health, server.idle_timeout)
        return line

    def _made(self, health: Health, idle_timeout: float | None) -> Line:
        return Line(
            lambda: settings_of(self._server, self._access), health, self._clock, idle_timeout
        )

    async def _close_own(self, line: Line) -> None:
        await line.close()
        self._own.discard(line)

    async def _offered(
        self, line: Line, listed: Listed, context: SourceContext
    ) -> tuple[tuple[OfferedTool, ...], Mapping[str, str]]:
        withheld = dict(listed.unusable)
        withheld |= await self._quarantined(listed, context)
        if listed.is_cut:
            withheld[_OTHERS] = "the server has more tools than are read of it"
        offered: list[OfferedTool] = []
        for name, definition in listed.definitions.items():
            if name in withheld:
                continue
            known = self._known(line, definition)
            if known.tool is None:
                withheld[name] = known.reason
            else:
                offered.append(OfferedTool(name, known.tool))
        return tuple(offered), withheld

    async def _quarantined(self, listed: Listed, context: SourceContext) -> dict[str, str]:
        if self._server.pins:
            return quarantined(listed, None, self._server.pins)
        key = pin_key(self._server, context.tenant_id)
        accepted = await self._pins.first(key, pins_of(identity_of(self._server), listed))
        faults = quarantined(listed, accepted, {})
        self._tell(faults)
        hint = f"to accept it: loom mcp accept {self._server.name}"
        return {name: f"{reason} ({hint})" for name, reason in faults.items()}

    def _tell(self, faults: Mapping[str, str]) -> None:
        """Say, once, that tools are withheld; their names are the server's words."""
        if faults and self._told != faults:
            _log.warning(
                "MCP server %s: %d tool(s) withheld until they are accepted (loom mcp accept %s)",
                self._server.name,
                len(faults),
                self._server.name,
            )
        self._told = dict(faults)

    def _known(self, line: Line, definition: Definition) -> _Known:
        """Give the tool of a definition, the same object as before when it did not change."""
        known = line.tools.get(definition.digest)
        if not isinstance(known, _Known):
            try:
                known = _Known(_tool(definition, line))
            except Unusable as error:
                known = _Known(None, str(error))
            line.tools[definition.digest] = known
        return known

    async def review(self, tenant_id: str) -> tuple[ToolReview, ...]:
        """Give each tool beside what was accepted of it, on a connection of its own."""
        await load()
        line = self._made(Health(None), None)
        try:
            listed = await line.ready()
        finally:
            await line.close()
        accepted = await self._accepted(tenant_id)
        return reviewed(listed, accepted, self._server.pins, _reason)

    async def accept(self, tenant_id: str, tools: Iterable[ToolReview]) -> None:
        """Accept tools as they were reviewed."""
        before = await self._accepted(tenant_id)
        kept = dict(before.pins) if before is not None else {}
        for tool in tools:
            kept.pop(tool.name, None)
            if tool.digest:
                kept[tool.name] = Pin(tool.digest, tool.document)
        accepted = Accepted(identity_of(self._server), kept)
        await self._pins.write(pin_key(self._server, tenant_id), accepted)

    async def _accepted(self, tenant_id: str) -> Accepted | None:
        accepted = await self._pins.read(pin_key(self._server, tenant_id))
        is_same = accepted is not None and accepted.identity == identity_of(self._server)
        return accepted if is_same else None

    async def aclose(self) -> None:
        """Close every connection, and wait until all of them are gone."""
        self._is_closed = True
        for line in (*self._lines.values(), *self._own):
            await line.close()
        self._lines.clear()
        self._own.clear()


def _reason(definition: Definition) -> str:
    try:
        adapted(definition.schema)
    except Unusable as error:
        return str(error)
    return ""


def pin_key(server: McpServer, tenant_id: str) -> str:
    """Name what is accepted of a server: of each tenant apart, where each has a connection."""
    return f"{server.name}#{tenant_id}" if server.scope == "tenant" else server.name


def _tool(definition: Definition, line: Line) -> McpTool:
    schemas = adapted(definition.schema)
    description = visible(definition.description).strip()
    if len(description) > DESCRIPTION_CHARS:
        description = f"{description[:DESCRIPTION_CHARS]}…"
    spec = ToolSpec(
        name=_ILLEGAL.sub("_", definition.name)[:64],
        description=description or definition.name,
        input_schema=schemas.shown,
        kind="mcp",
        side_effects=definition.side_effects,
        idempotent=definition.idempotent,
    )
    return McpTool(spec, definition, schemas, line)
