"""`loom serve`: the REST API of a project, in one process, until a signal stops it."""

import argparse
import asyncio
from typing import TYPE_CHECKING

from loom_ia.i18n import translate as _

if TYPE_CHECKING:
    import socket

    from loom_ia.access.cli.desk import Desk


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument(
        "--host", metavar="ADDRESS", help=_("where to listen (default: server.http.host)")
    )
    parser.add_argument(
        "--port",
        type=port_number,
        metavar="N",
        help=_("the port; 0 lets the system choose (default: server.http.port)"),
    )
    parser.add_argument(
        "--reload",
        action="store_true",
        help=_("serve each change of the configuration once it is sound; not in prod"),
    )
    parser.add_argument(
        "--behind-proxy",
        metavar="ADDRESSES",
        default="",
        help=_("believe the X-Forwarded headers of these addresses, separated by commas"),
    )


def port_number(text: str) -> int:
    """Read a port; raises as argparse asks."""
    if not text.isascii() or not text.isdigit() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(_("a port is a number from 0 to 65535"))
    return int(text)


def execute(args: argparse.Namespace) -> int:
    """Serve until a signal comes."""
    from loom_ia.access.extras import require_extra

    with require_extra("http"):
        from loom_ia.access.http.serve import loop_factory
    if args.reload:
        with require_extra("http"):
            from loom_ia.access.http.reload import supervise
        return supervise(args)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_serve(args))


async def _serve(args: argparse.Namespace) -> int:
    from loom_ia.access.cli.desk import open_desk
    from loom_ia.access.http.listening import listen

    async with open_desk(args) as desk:
        desk.check_serving()  # before a port is taken
        settings = desk.config.server.http
        host = args.host or settings.host
        door = listen(host, settings.port if args.port is None else args.port)
        with door:
            await serve_desk(desk, door, host=host, proxy=args.behind_proxy)
    return 0


async def serve_desk(desk: "Desk", door: "socket.socket", *, host: str, proxy: str = "") -> None:
    """Serve on a socket that listens, saying where, to whom, and when it stops."""
    from loom_ia.access.cli.terminal import printable, say
    from loom_ia.access.http.listening import exposed, url_of
    from loom_ia.access.http.serve import serve
    from loom_ia.core.errors import ConfigError
    from loom_ia.i18n import lines

    warnings = (*desk.warnings, *desk.check_serving(), *exposed(desk.loaded, host))
    address = url_of(door, desk.config.server.http.base_path)

    def ready() -> None:
        if warnings:
            for line in lines(ConfigError(warnings)):
                say(printable(_("Warning    : {problem}", problem=line)), "yellow")
        say(_("Serving    : {address}", address=address))
        if has_docs(desk):
            say(_("Docs       : {address}", address=f"{address}/docs"))
        say(_("Ctrl-C stops."))

    def asked() -> None:
        say(
            _(
                "Stopping   : what is under way is waited for, at most {seconds:g} s; a second "
                "signal leaves at once.",
                seconds=desk.config.execution.shutdown_timeout,
            )
        )

    await serve(desk, door, ready=ready, asked=asked, proxy=proxy)
    say(_("Stopped    : what was under way is handed back."))


def has_docs(desk: "Desk") -> bool:
    """Whether the documentation of the API is served."""
    docs = desk.config.server.http.docs
    return desk.profile.name != "prod" if docs is None else docs
