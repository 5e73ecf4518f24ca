"""`loom recover`: go on with every run that is open and that nobody drives."""

import argparse
import asyncio
from typing import TYPE_CHECKING, Any

from loom_ia.i18n import translate as _

if TYPE_CHECKING:
    from collections.abc import Coroutine


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument(
        "--watch", action="store_true", help=_("do it again and again, until stopped")
    )


def execute(args: argparse.Namespace) -> int:
    """Take up what was left."""
    from loom_ia.access.cli.desk import perform

    return perform(_told(args, _watch(args) if args.watch else _recover(args)))


async def _told(args: argparse.Namespace, work: "Coroutine[Any, Any, int]") -> int:
    """Say, when a signal stops the work, how to go on."""
    from loom_ia.access.cli.arguments import command_line
    from loom_ia.access.cli.terminal import say

    try:
        return await work
    except asyncio.CancelledError:
        command = command_line(args, "recover")
        say(_("Interrupted: what was under way can be taken up with {command}", command=command))
        raise


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
    from loom_ia.access.cli.screen import progress
    from loom_ia.access.cli.terminal import printable, say, show
    from loom_ia.core.errors import LoomError, told
    from loom_ia.core.state.run import Status
    from loom_ia.i18n import render

    async with open_desk(args) as desk:
        with progress(_("going on with what was left")):
            report = await desk.recover()
    for result in report.results:
        show(f"{result.run_id} {result.status.value}")
    for failure in report.failures:
        error = failure.error
        text = render(error) if isinstance(error, LoomError) else told(error)
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
