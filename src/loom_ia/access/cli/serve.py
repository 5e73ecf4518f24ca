"""`loom serve`: the REST API of a project, in one process, until a signal stops it."""

import argparse
import asyncio
from typing import TYPE_CHECKING

from loom_ia.access.cli.arguments import global_words
from loom_ia.core.errors import CallerError
from loom_ia.i18n import translate as _

if TYPE_CHECKING:
    import socket

    from loom_ia.access.cli.desk import Desk
    from loom_ia.access.http.listening import Inherited


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
        return supervise(args, _without_reload(args))
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_serve(args))


def _without_reload(args: argparse.Namespace) -> list[str]:
    """Write the words that serve once, on the same configuration."""
    proxy = ("--behind-proxy", args.behind_proxy) if args.behind_proxy else ()
    host = ("--host", args.host) if args.host else ()
    port = ("--port", str(args.port)) if args.port is not None else ()
    return [*global_words(args), "serve", *host, *port, *proxy]


async def _serve(args: argparse.Namespace) -> int:
    from loom_ia.access.cli.desk import open_desk
    from loom_ia.access.http.listening import inherited, listen

    async with open_desk(args) as desk:
        desk.check_serving()  # before a port is taken
        settings = desk.config.server.http
        host = args.host or settings.host
        given = inherited()
        if given is not None and desk.profile.name == "prod":
            raise CallerError("--reload is refused in the profile prod: serve without it")
        port = settings.port if args.port is None else args.port
        door = listen(host, port) if given is None else given.door
        with door:
            if given is not None:
                _tell_moved(args, desk, door)
            await serve_desk(desk, door, host=host, proxy=args.behind_proxy, given=given)
    return 0


def _tell_moved(args: argparse.Namespace, desk: "Desk", door: "socket.socket") -> None:
    """Say that the door stays where it was, when the configuration wants it elsewhere."""
    from loom_ia.access.cli.terminal import say

    wanted = desk.config.server.http.port
    port = door.getsockname()[1]
    if args.port is None and wanted not in {0, port}:
        say(
            _(
                "Reload     : server.http.port is {wanted} now, and {port} is served until "
                "loom serve is started again",
                wanted=wanted,
                port=port,
            ),
            "yellow",
        )


async def serve_desk(
    desk: "Desk",
    door: "socket.socket",
    *,
    host: str,
    proxy: str = "",
    given: "Inherited | None" = None,
) -> None:
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
        if given is not None:
            given.tell_ready()

    def asked() -> None:
        say(
            _(
                "Stopping   : what is under way is waited for, at most {seconds:g} s; a second "
                "signal leaves at once.",
                seconds=desk.config.execution.shutdown_timeout,
            )
        )

    orphaned = given.orphaned if given is not None else None
    await serve(desk, door, ready=ready, asked=asked, proxy=proxy, orphaned=orphaned)
    say(_("Stopped    : what was under way is handed back."))


def has_docs(desk: "Desk") -> bool:
    """Whether the documentation of the API is served."""
    docs = desk.config.server.http.docs
    return desk.profile.name != "prod" if docs is None else docs
