"""`loom cancel RUN`: stop a run for good, wherever it is driven."""

import argparse

from loom_ia.i18n import translate as _


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument("run", metavar="RUN", help=_("the run's id"))
    parser.add_argument("--by", metavar="NAME", help=_("who stops it (default: the local user)"))
    parser.add_argument("--session", metavar="ID", help=_("its session, if you know it"))


def execute(args: argparse.Namespace) -> int:
    """Cancel the run."""
    from loom_ia.access.cli.desk import perform

    return perform(_cancel(args))


async def _cancel(args: argparse.Namespace) -> int:
    """Cancel, and give 0 when the run is cancelled, by this command or before it; else 1."""
    from loom_ia.access.cli.desk import author, open_desk
    from loom_ia.access.cli.failures import COMPLETED, NOT_COMPLETED
    from loom_ia.access.cli.terminal import say
    from loom_ia.core.state.run import Status

    async with open_desk(args, mount=False) as desk:
        if await desk.cancel(args.run, by=author(args), session_id=args.session):
            say(_("Run {run_id} is cancelled.", run_id=args.run))
            return COMPLETED
        run = await desk.state(args.run, session_id=args.session)
        status = run.status.value
        say(_("Run {run_id} was over already: {status}.", run_id=args.run, status=status))
        return COMPLETED if run.status is Status.CANCELLED else NOT_COMPLETED
