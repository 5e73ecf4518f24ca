"""`loom runs`: list runs, the latest first."""

import argparse
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from loom_ia.i18n import moment
from loom_ia.i18n import translate as _

if TYPE_CHECKING:
    from loom_ia.core.views.sessions import RunListed

STATUSES: Final = (
    "ready_for_model",
    "awaiting_tools",
    "waiting_child",
    "paused",
    "finalizing",
    "completed",
    "failed",
    "cancelled",
)
"""The statuses of a run, here so that they are known before anything is imported."""

_MOST: Final = 200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument(
        "--status",
        action="append",
        choices=STATUSES,
        help=_("only the runs that stand so; may be given again"),
    )
    parser.add_argument("--agent", metavar="NAME", help=_("only the runs of this agent"))
    parser.add_argument(
        "--limit", metavar="N", type=int, default=20, help=_("how many, 200 at most (default: 20)")
    )
    parser.add_argument("--json", action="store_true", help=_("show the list as JSON"))


def execute(args: argparse.Namespace) -> int:
    """List the runs."""
    from loom_ia.access.cli.desk import perform
    from loom_ia.core.errors import CallerError

    if not 1 <= args.limit <= _MOST:
        raise CallerError(
            "--limit is between 1 and {most}, not {limit}", most=_MOST, limit=args.limit
        )
    return perform(_runs(args))


async def _runs(args: argparse.Namespace) -> int:
    from loom_ia.access.cli.desk import open_desk
    from loom_ia.access.cli.failures import COMPLETED
    from loom_ia.access.cli.terminal import say, show, show_json

    async with open_desk(args, mount=False) as desk:
        page = await desk.runs(
            agent=args.agent, status=args.status or (), limit=args.limit, sessions=_MOST
        )
    if args.json:
        show_json(page.model_dump(mode="json"))
        return COMPLETED
    for line in run_lines(page.runs):
        show(line)
    if not page.runs:
        say(_("No run."))
    if page.truncated:
        say(_("Older runs may match; {count} session(s) were read.", count=page.scanned))
    return COMPLETED


def run_lines(runs: "Iterable[RunListed]") -> Iterator[str]:
    """Write a listing of runs in columns; nothing when there are none."""
    from loom_ia.access.cli.table import columns
    from loom_ia.core.views.trace_text import dollars

    rows = [
        (
            run.run_id,
            run.agent,
            run.status.value,
            moment(run.started_at),
            str(run.iterations),
            dollars(run.cost_usd, unpriced=run.unpriced_calls),
        )
        for run in runs
    ]
    if rows:
        heads = (
            _("run"),
            _("agent"),
            _("status"),
            _("begun (UTC)"),
            _("iterations"),
            _("cost ($)"),
        )
        yield from columns([heads, *rows], right=(4, 5))
