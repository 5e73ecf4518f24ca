"""`loom run AGENT MESSAGE`: run an agent, show its answer."""

import argparse
import sys
from typing import TYPE_CHECKING, Any, TextIO

from loom_ia.access.cli.state_options import add_state_option, state_given
from loom_ia.i18n import translate as _

if TYPE_CHECKING:
    from loom_ia.access.cli.desk import Desk


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument("agent", metavar="AGENT", help=_("the agent's name"))
    parser.add_argument("message", metavar="MESSAGE", help=_("the request; - reads it from stdin"))
    parser.add_argument("--session", metavar="ID", help=_("go on with a conversation, or begin it"))
    parser.add_argument("--run-id", metavar="ID", help=_("choose the id of the run"))
    parser.add_argument(
        "--attach",
        metavar="FILE",
        action="append",
        default=[],
        help=_("an image that comes with the request; may be given again"),
    )
    parser.add_argument(
        "-q", "--quiet", action="store_true", help=_("no summary when the run is completed")
    )
    add_state_option(parser)
    parser.add_argument(
        "--judges",
        choices=("auto", "force", "skip"),
        default="auto",
        help=_("have every judge look (force), or none (skip)"),
    )
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--stream", action="store_true", help=_("show the answer as it comes"))
    shape.add_argument("--json", action="store_true", help=_("show the result as JSON"))


def execute(args: argparse.Namespace) -> int:
    """Run the agent."""
    from loom_ia.access.cli.desk import perform

    return perform(_run(args, _message(args.message, has_files=bool(args.attach))))


def _message(written: str, *, has_files: bool) -> str:
    from loom_ia.core.errors import CallerError

    text = _standard_input() if written == "-" else written
    if not text.strip() and not has_files:
        raise CallerError("the message is empty")
    return text


def _standard_input() -> str:
    source: TextIO | None = sys.stdin
    return source.read().removesuffix("\n") if source is not None else ""


async def _run(args: argparse.Namespace, message: str) -> int:
    from loom_ia.access.cli.desk import open_desk, resumable
    from loom_ia.access.cli.summary import exit_code, tell, tell_status
    from loom_ia.access.cli.watching import watched
    from loom_ia.engine.clock import SystemClock

    run_id: str = args.run_id or SystemClock().new_id()
    home: str = args.session or run_id
    state = state_given(args.state)
    async with open_desk(args) as desk, resumable(desk, args, run_id, home):
        if not args.stream:
            async with watched(desk, args, run_id, home):
                result = await desk.run(
                    args.agent,
                    message,
                    session_id=args.session,
                    run_id=run_id,
                    attachments=args.attach,
                    state=state,
                    judges=args.judges,
                )
            return tell(result, args, durable=desk.store.durable)
        await _stream(desk, args, message, run_id, state)
        result = await desk.result(run_id, session_id=home)
        if not (args.quiet and result.ok):
            tell_status(result, args, durable=desk.store.durable)
        return exit_code(result)


async def _stream(
    desk: "Desk", args: argparse.Namespace, message: str, run_id: str, state: dict[str, Any]
) -> None:
    from loom_ia.access.cli.live import Live
    from loom_ia.access.cli.terminal import is_terminal

    live = Live(in_pieces=is_terminal(sys.stdout))
    try:
        items = desk.stream(
            args.agent,
            message,
            session_id=args.session,
            run_id=run_id,
            attachments=args.attach,
            state=state,
            judges=args.judges,
        )
        async for item in items:
            live.take(item)
    finally:
        live.end()
