"""`loom resume RUN`: go on with a run where its journal stopped."""

import argparse

from loom_ia.i18n import translate as _


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument("run", metavar="RUN", help=_("the run's id"))
    parser.add_argument("--session", metavar="ID", help=_("its session, if you know it"))
    parser.add_argument(
        "--take-over", action="store_true", help=_("take the run from whoever drives it")
    )
    parser.add_argument("--json", action="store_true", help=_("show the result as JSON"))


def execute(args: argparse.Namespace) -> int:
    """Go on with the run."""
    from loom_ia.access.cli.desk import perform

    return perform(_resume(args))


async def _resume(args: argparse.Namespace) -> int:
    from loom_ia.access.cli.desk import open_desk, resumable
    from loom_ia.access.cli.summary import tell
    from loom_ia.access.cli.watching import watched

    async with open_desk(args) as desk, resumable(desk, args, args.run, args.session):
        async with watched(desk, args, args.run, args.session):
            result = await desk.resume(args.run, session_id=args.session, take_over=args.take_over)
        return tell(result, args)
