"""What `loom validate` shows of MCP servers and of the sources of installed packages."""

from typing import TYPE_CHECKING

from loom_ia.i18n import translate as _

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from loom_ia.access.cli.desk import Desk
    from loom_ia.app.sources import SourceListing
    from loom_ia.core.model.tooling import ToolSpec


async def connected(desk: "Desk", *, servers: bool) -> "Sequence[SourceListing]":
    """List the tools of the packages that agents use; those of MCP `servers` if it is asked for."""
    if not any(program.sources for program in desk.programs.values()):
        return ()
    from loom_ia.app.sources import listings

    packages = {source.name for source in desk.config.tool_sources}
    return await listings(desk.programs, lambda name: servers or name in packages)


def rows_of_sources(desk: "Desk") -> "Iterator[tuple[str, str]]":
    """Give the servers that are declared, and the sources that are installed."""
    if desk.config.mcp_servers:
        servers = (f"{s.name} ({s.transport}, {s.scope})" for s in desk.config.mcp_servers)
        yield _("MCP"), ", ".join(servers)
    from loom_ia.assembly.entry_points import installed

    if found := installed():
        used = {s.name: s.entry_point for s in desk.config.tool_sources}
        named = (_installed(each.entry_point, each.package, used) for each in found)
        yield _("Sources"), ", ".join(named)


def _installed(entry_point: str, package: str, used: dict[str, str]) -> str:
    names = [name for name, point in used.items() if point == entry_point]
    if not names:
        return _("{source} ({package}, not used)", source=entry_point, package=package)
    said = entry_point if names == [entry_point] else f"{entry_point} → {', '.join(names)}"
    return f"{said} ({package})"


def lines_of(agent: str, found: "Sequence[SourceListing]") -> "Iterator[str]":
    """List the tools that an agent is offered by its sources, one on each line."""
    for listing in found:
        if listing.agent != agent or listing.error:
            continue
        yield "    " + _(
            "{source} : {count} tool(s)", source=listing.source, count=len(listing.tools)
        )
        for own, spec in listing.tools:
            yield f"      {_tool(own, spec)}"
        for tool, reason in listing.withheld.items():
            yield "      " + _("{tool} is not offered: {reason}", tool=tool, reason=reason)


def _tool(own: str, spec: "ToolSpec") -> str:
    """Name a tool as models see it, its own name when that tells more, and what it may do."""
    shown = spec.name if spec.name.endswith(f"__{own}") else f"{spec.name} ← {own}"
    facts = [_effects(spec)]
    if spec.approval != "never":
        facts.append(f"approval: {spec.approval}")
    return f"{shown} — {', '.join(facts)}"


def _effects(spec: "ToolSpec") -> str:
    if spec.side_effects == "none":
        return _("no side effect")
    repeated = _(", may be repeated") if spec.idempotent else ""
    if spec.side_effects == "reversible":
        return _("reversible{repeated}", repeated=repeated)
    return _("irreversible{repeated}", repeated=repeated)


def troubles(found: "Sequence[SourceListing]") -> "Iterator[str]":
    """Say what cannot be reached."""
    for listing in found:
        if listing.error:
            yield _(
                "{source} cannot be reached for {agent}: {error}",
                source=listing.source,
                agent=listing.agent,
                error=listing.error,
            )


def is_short(listing: "SourceListing") -> bool:
    """Whether runs of the agent would fail for want of this source."""
    return bool(listing.error) and listing.required
