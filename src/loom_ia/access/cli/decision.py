"""What `approve` and `reject` share: whom the decision is by, and what comes after it."""

import argparse
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from loom_ia.i18n import translate as _

if TYPE_CHECKING:
    from loom_ia.access.cli.desk import Desk
    from loom_ia.core.views.result import RunResult


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options that both have."""
    parser.add_argument("run", metavar="RUN", help=_("the run's id"))
    parser.add_argument(
        "--call", metavar="ID", help=_("the call; may be left out when only one waits")
    )
    parser.add_argument("--by", metavar="NAME", help=_("who decides (default: the local user)"))
    parser.add_argument("--reason", metavar="TEXT", default="", help=_("why; the journal keeps it"))
    parser.add_argument(
        "--no-wait",
        action="store_true",
        help=_("only write the decision, leave the run where it is"),
    )
    parser.add_argument("--session", metavar="ID", help=_("its session, if you know it"))
    parser.add_argument("--json", action="store_true", help=_("show the result as JSON"))


async def decide(
    args: argparse.Namespace,
    rule: "Callable[[Desk, str], Awaitable[tuple[str, ...]]]",
) -> int:
    """Write a decision by `rule`, then drive the run unless `--no-wait`.

    Gives 2 when there was none to take. The run is driven here, in the foreground, so that its end
    is this command's end.
    """
    from loom_ia.access.cli.desk import author, open_desk, resumable
    from loom_ia.access.cli.failures import COMPLETED, REFUSED
    from loom_ia.access.cli.summary import tell
    from loom_ia.access.cli.terminal import say

    by = author(args)
    async with open_desk(args) as desk, resumable(desk, args, args.run, args.session):
        decided = await rule(desk, by)
        if not decided:
            _tell_standing(await desk.result(args.run, session_id=args.session), args)
            say(_("Nothing was decided: the run is over."))
            return REFUSED
        for call_id in decided:
            say(_("Decided    : {call_id}, by {by}", call_id=call_id, by=by))
        if args.no_wait:
            _tell_standing(await desk.result(args.run, session_id=args.session), args)
            return COMPLETED
        return tell(await _go_on(desk, args), args)


async def _go_on(desk: "Desk", args: argparse.Namespace) -> "RunResult":
    """Drive the run; when somebody else does, the decision reaches it there."""
    from loom_ia.access.cli.terminal import say
    from loom_ia.access.cli.watching import watched
    from loom_ia.core.errors import ClaimConflict
    from loom_ia.i18n import render

    try:
        async with watched(desk, args, args.run, args.session):
            return await desk.resume(args.run, session_id=args.session)
    except ClaimConflict as error:
        say(_("The decision is written. {error}", error=render(error)))
        return await desk.result(args.run, session_id=args.session)


def _tell_standing(result: "RunResult", args: argparse.Namespace) -> None:
    """Show where the run stands, without driving it."""
    from loom_ia.access.cli.summary import tell_status
    from loom_ia.access.cli.terminal import show_json

    if args.json:
        show_json(result.model_dump(mode="json"))
    else:
        tell_status(result, args)
