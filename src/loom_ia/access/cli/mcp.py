"""`loom mcp`: serve the agents over MCP, to one client, on the standard streams.

Its actions are about the other side: the MCP servers whose tools the agents use.
"""

import argparse
from typing import TYPE_CHECKING

from loom_ia.access.cli import mcp_accept
from loom_ia.i18n import translate as _

if TYPE_CHECKING:
    from loom_ia.access.mcp_server.channel import Channel


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument(
        "--tenant",
        metavar="ID",
        default="default",
        help=_("the client in whose name it acts (default: default)"),
    )
    mcp_accept.add_actions(parser)


def execute(args: argparse.Namespace) -> int:
    """Serve until the client ends its side, or do what is asked for of the servers in use."""
    return serve(args) if args.action is None else mcp_accept.execute(args)


def serve(args: argparse.Namespace) -> int:
    """Take the standard streams for the protocol, then load everything and serve."""
    from loom_ia.access.mcp_server.channel import take_channel

    channel = take_channel()
    from loom_ia.access.cli.desk import perform
    from loom_ia.access.mcp_server.extra import require_mcp

    require_mcp()
    return perform(_serve(args, channel))


async def _serve(args: argparse.Namespace, channel: "Channel") -> int:
    from loom_ia.access.cli.desk import open_desk
    from loom_ia.access.cli.failures import COMPLETED
    from loom_ia.access.mcp_server.local import serve_local
    from loom_ia.core.errors import CallerError

    if args.tenant != "default":
        raise CallerError(
            "there is no client {tenant}: only default is served in this version",
            tenant=args.tenant,
        )
    async with open_desk(args) as desk:
        await serve_local(desk, channel, command=_command(args))
    return COMPLETED


def _command(args: argparse.Namespace) -> "tuple[str, ...]":
    """Give the words of a command on the same configuration."""
    import shlex

    from loom_ia.access.cli.arguments import command_line

    return tuple(shlex.split(command_line(args)))
