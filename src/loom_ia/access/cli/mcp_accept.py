"""`loom mcp list` and `loom mcp accept`: look at the tools of MCP servers, and accept them.

Law. Whoever accepts sees first what he accepts: each change, with what no screen shows made
visible. What is written is what was shown, even if the server says otherwise a moment later.
"""

import argparse
import difflib
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from loom_ia.i18n import translate as _

if TYPE_CHECKING:
    from loom_ia.access.cli.desk import Desk
    from loom_ia.core.json import JsonObject
    from loom_ia.core.model.mcp import ToolReview

_MOST_LINES: Final = 60
_LINE_CHARS: Final = 300
_TO_ACCEPT: Final = frozenset({"changed", "new", "gone"})


def add_actions(parser: argparse.ArgumentParser) -> None:
    """Declare what can be done with the servers in use."""
    from loom_ia.access.cli.arguments import add_command

    parser.set_defaults(action=None)
    actions = parser.add_subparsers(title=_("commands"), dest="action", metavar="ACTION")
    listing = add_command(
        actions, "list", _("connect to MCP servers in use, and show the state of their tools")
    )
    listing.add_argument("servers", nargs="*", metavar="SERVER", help=_("only these"))
    listing.add_argument("--json", action="store_true", help=_("show it as JSON"))
    accept = add_command(
        actions, "accept", _("show what changed in the tools of a server, and accept it")
    )
    accept.add_argument("server", metavar="SERVER", help=_("the server's name"))
    accept.add_argument("tools", nargs="*", metavar="TOOL", help=_("only these tools"))
    accept.add_argument("--yes", action="store_true", help=_("do not ask"))
    for command in (listing, accept):
        command.add_argument(
            "--tenant",
            metavar="ID",
            default="default",
            help=_("the client whose connection it is, where each has one (default: default)"),
        )


def execute(args: argparse.Namespace) -> int:
    """Do what is asked for."""
    from loom_ia.access.cli.desk import perform

    return perform(_list(args) if args.action == "list" else _accept(args))


async def _list(args: argparse.Namespace) -> int:
    """Show the tools of each server; 1 when one could not be reached."""
    from loom_ia.access.cli.desk import open_desk
    from loom_ia.access.cli.failures import COMPLETED, NOT_COMPLETED
    from loom_ia.access.cli.terminal import printable, say, show, show_json
    from loom_ia.core.errors import ConfigError, SourceUnavailable
    from loom_ia.i18n import lines

    found: dict[str, tuple[ToolReview, ...]] = {}
    faults: dict[str, str] = {}
    async with open_desk(args, mount=False) as desk:
        declared = [server.name for server in desk.config.mcp_servers]
        for name in args.servers or declared:
            try:
                found[name] = await _reviewed(desk, name, args.tenant)
            except (SourceUnavailable, ConfigError) as error:
                faults[name] = "\n".join(lines(error))
    if args.json:
        show_json({name: _as_json(tools) for name, tools in found.items()})
    else:
        for line in _lines(found):
            show(line)
    for fault in faults.values():
        say(printable(fault))
    if not declared:
        say(_("No MCP server is declared."))
    return NOT_COMPLETED if faults else COMPLETED


async def _reviewed(desk: "Desk", name: str, tenant: str) -> "tuple[ToolReview, ...]":
    source = desk.server(name)
    try:
        return await source.review(tenant)
    finally:
        await source.aclose()


def _as_json(tools: "tuple[ToolReview, ...]") -> "list[JsonObject]":
    shown = {"name", "state", "reason", "digest", "accepted_digest"}
    return [tool.model_dump(mode="json", include=shown) for tool in tools]


def _lines(found: "dict[str, tuple[ToolReview, ...]]") -> Iterator[str]:
    from loom_ia.access.cli.table import columns

    rows = [
        (name, revealed(tool.name), _state(tool), tool.digest or tool.accepted_digest)
        for name, tools in found.items()
        for tool in tools
    ]
    if rows:
        yield from columns([(_("server"), _("tool"), _("state"), _("digest")), *rows])


def _state(tool: "ToolReview") -> str:
    names = {
        "accepted": _("accepted"),
        "changed": _("changed, withheld"),
        "new": _("new, not accepted yet"),
        "refused": _("refused by the configuration"),
        "gone": _("gone"),
        "unusable": _("unusable: {reason}", reason=tool.reason),
    }
    return names[tool.state]


async def _accept(args: argparse.Namespace) -> int:
    """Accept what is shown, once it is confirmed; 2 when it is not, and nothing was written."""
    from loom_ia.access.cli.desk import open_desk
    from loom_ia.access.cli.failures import COMPLETED, REFUSED
    from loom_ia.access.cli.terminal import printable, say, show

    async with open_desk(args, mount=False) as desk:
        _refuse_where_nothing_lasts(desk, args.server)
        source = desk.server(args.server)
        try:
            tools = _chosen(await source.review(args.tenant), args.server, args.tools)
            if not tools:
                say(printable(_("Nothing to accept: {server}.", server=args.server)))
                return COMPLETED
            for line in _told(tools):
                show(line)
            if not (args.yes or _confirmed(args.server, tools)):
                say(_("Nothing was accepted."))
                return REFUSED
            await source.accept(args.tenant, tools)
        finally:
            await source.aclose()
    names = ", ".join(revealed(tool.name) for tool in tools)
    text = _("Accepted   : {tools} of {server}", tools=names, server=args.server)
    say(printable(text))
    return COMPLETED


def _refuse_where_nothing_lasts(desk: "Desk", name: str) -> None:
    from loom_ia.core.errors import CallerError

    server = next((one for one in desk.config.mcp_servers if one.name == name), None)
    if server is not None and server.pins:
        raise CallerError(
            "the configuration pins the tools of {server}: write the digest that loom mcp list "
            "shows under mcp_servers[{server}].pins",
            server=name,
        )
    if server is not None and desk.config.storage.events.backend == "memory":
        raise CallerError(
            "what is accepted is kept beside the journal, and this one is in memory: pin the tools "
            "of {server} in the configuration, under mcp_servers[{server}].pins",
            server=name,
        )


def _chosen(
    tools: "tuple[ToolReview, ...]", server: str, names: Sequence[str]
) -> "list[ToolReview]":
    from loom_ia.core.errors import CallerError

    known = {tool.name: tool for tool in tools}
    for name in names:
        if name not in known:
            raise CallerError(
                "the MCP server {server} has no tool {tool}; tools: {known}",
                server=server,
                tool=name,
                known=", ".join(known) or "none",
            )
    return [t for t in tools if t.state in _TO_ACCEPT and (not names or t.name in names)]


def _told(tools: "Sequence[ToolReview]") -> Iterator[str]:
    """Tell each change: the digests, and what the server says now beside what it said."""
    for tool in tools:
        yield f"{revealed(tool.name)} — {_state(tool)}"
        if tool.accepted_digest:
            yield f"  - {tool.accepted_digest}"
        if tool.digest:
            yield f"  + {tool.digest}"
        lines = list(_difference(tool.accepted, tool.document))
        yield from (f"    {line}" for line in lines[:_MOST_LINES])
        if len(lines) > _MOST_LINES:
            yield "    " + _("… and {count} more lines", count=len(lines) - _MOST_LINES)


def _difference(before: "JsonObject", now: "JsonObject") -> Iterator[str]:
    if not now:
        return
    old, new = (
        json.dumps(document, ensure_ascii=False, indent=1, sort_keys=True).split("\n")
        for document in (before, now)
    )
    lines = difflib.unified_diff(old if before else [], new, lineterm="", n=1)
    for line in lines:
        if not line.startswith(("---", "+++", "@@")):
            shown = revealed(line)
            yield shown if len(shown) <= _LINE_CHARS else f"{shown[:_LINE_CHARS]}…"


def revealed(text: str) -> str:
    """Escape all that a screen does not show as itself, spaces that are not one included."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _confirmed(server: str, tools: "Sequence[ToolReview]") -> bool:
    from loom_ia.access.cli.terminal import ask, printable
    from loom_ia.core.errors import CallerError

    question = _(
        "Accept {count} tool(s) of {server} as they are now? [y/N] ",
        count=len(tools),
        server=server,
    )
    answer = ask(printable(question))
    if answer is None:
        raise CallerError("nobody can confirm here: say --yes to accept what is shown")
    return answer.lower() in {"y", "yes", _("y"), _("yes")}
