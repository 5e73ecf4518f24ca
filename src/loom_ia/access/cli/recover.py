"""`loom recover`: go on with every run that is open and that nobody drives."""

import argparse

from loom_ia.i18n import translate as _


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument(
        "--watch", action="store_true", help=_("do it again and again, until stopped")
    )


def execute(args: argparse.Namespace) -> int:
    """Take up what was left."""
    from loom_ia.access.cli.desk import perform

    return perform(_watch(args) if args.watch else _recover(args))


async def _watch(args: argparse.Namespace) -> int:
    from loom_ia.access.cli.desk import open_desk
    from loom_ia.access.cli.failures import COMPLETED
    from loom_ia.access.cli.terminal import say

    async with open_desk(args) as desk:
        say(_("Watching; Ctrl-C stops."))
        await desk.watch()
    return COMPLETED


async def _recover(args: argparse.Namespace) -> int:
    """Recover once; 1 when a run could not be taken up, or ended otherwise than well."""
    from loom_ia.access.cli.desk import open_desk
    from loom_ia.access.cli.failures import COMPLETED, NOT_COMPLETED
    from loom_ia.access.cli.terminal import printable, say, show
    from loom_ia.core.errors import LoomError
    from loom_ia.core.state.run import Status
    from loom_ia.i18n import render

    async with open_desk(args) as desk:
        report = await desk.recover()
    for result in report.results:
        show(f"{result.run_id} {result.status.value}")
    for failure in report.failures:
        error = failure.error
        text = render(error) if isinstance(error, LoomError) else f"{type(error).__name__}: {error}"
        say(printable(f"{failure.run_id}: {text}"))
    say(
        _(
            "Taken up   : {taken} · waiting for a human: {waiting} · driven elsewhere: {driven} · "
            "not recovered: {failures}",
            taken=len(report.results),
            waiting=report.waiting,
            driven=report.driven,
            failures=len(report.failures),
        )
    )
    well = {Status.COMPLETED, Status.PAUSED}
    bad = report.failures or any(result.status not in well for result in report.results)
    return NOT_COMPLETED if bad else COMPLETED
