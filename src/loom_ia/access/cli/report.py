"""`loom report [RUN]`: show what a run, a conversation, a day or a month consumed."""

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from loom_ia.i18n import count, day
from loom_ia.i18n import translate as _

if TYPE_CHECKING:
    from loom_ia.access.cli.desk import Desk
    from loom_ia.core.views.budget import BudgetUse
    from loom_ia.core.views.report import Consumption, Period, UsageReport

PERIODS: Final[dict[str, "Period"]] = {
    "day": "day",
    "month": "month",
    "jour": "day",
    "mois": "month",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument("run", metavar="RUN", nargs="?", help=_("the run's id"))
    parser.add_argument(
        "--session", metavar="ID", help=_("the session of the run, or a whole session without RUN")
    )
    parser.add_argument(
        "--period",
        "--periode",
        choices=tuple(PERIODS),
        help=_("every session, since this day or month began (UTC)"),
    )
    parser.add_argument("--json", action="store_true", help=_("show the report as JSON"))


def execute(args: argparse.Namespace) -> int:
    """Show the report."""
    from loom_ia.access.cli.desk import perform
    from loom_ia.core.errors import CallerError

    if args.period and (args.run or args.session):
        raise CallerError("--period is about every session: leave out RUN and --session")
    if not (args.period or args.run or args.session):
        raise CallerError("say what to report on: RUN, --session or --period")
    return perform(_report(args))


async def _report(args: argparse.Namespace) -> int:
    from loom_ia.access.cli.desk import open_desk
    from loom_ia.access.cli.failures import COMPLETED
    from loom_ia.access.cli.terminal import show, show_json

    async with open_desk(args, mount=False) as desk:
        report = await _read(desk, args)
    if args.json:
        show_json(report.model_dump(mode="json"))
    else:
        for line in report_lines(report):
            show(line)
    return COMPLETED


async def _read(desk: "Desk", args: argparse.Namespace) -> "UsageReport":
    from loom_ia.access.cli.screen import progress

    if args.period is None:
        return await desk.report(args.run, session_id=args.session)
    with progress(_("reading the journal")):
        return await desk.report(period=PERIODS[args.period])


def report_lines(report: "UsageReport") -> Iterator[str]:
    """Write a report: what it is about, then a line for each run, role and model."""
    from loom_ia.access.cli.table import columns
    from loom_ia.access.cli.terminal import printable

    yield printable(_about(report))
    heads = ("", _("model calls"), _("read"), _("written"), _("cost ($)"))
    rows: list[tuple[str, ...]] = [heads]
    rows.append((_("By run"), "", "", "", ""))
    for run in report.runs:
        known = f"{run.agent}, {run.status.value}" if run.status else run.agent
        rows.append(_row(f"  {'  ' * (run.depth or 0)}{run.run_id} ({known})", run))
    if len(report.sessions) > 1:
        rows.append((_("By session"), "", "", "", ""))
        rows += (_row(f"  {session.session_id}", session) for session in report.sessions)
    rows.append((_("By role"), "", "", "", ""))
    rows += (_row(f"  {role.name}", role) for role in report.roles)
    rows.append((_("By model"), "", "", "", ""))
    rows += (_row(f"  {model.name} ({model.model_id})", model) for model in report.models)
    rows.append(_row(_("Total"), report.total))
    yield from columns(rows, right=range(1, len(heads)))
    yield from map(_limit, report.budget)
    yield from _remarks(report)


def _limit(use: "BudgetUse") -> str:
    """Say what was spent of a limit."""
    parts = {"limit": use.limit, "spent": f"{use.spent:.12g}", "value": f"{use.value:.12g}"}
    if use.scope == "session":
        return _("budget of the session: {limit} {spent} of {value}", **parts)
    return _("budget of {run_id}: {limit} {spent} of {value}", run_id=use.run_id, **parts)


def _remarks(report: "UsageReport") -> Iterator[str]:
    """Say what the numbers leave out, and which of them nobody gave."""
    total = report.total
    if total.failed_attempts:
        yield _(
            "{count} attempt(s) gave no answer; what they consumed is counted",
            count=total.failed_attempts,
        )
    if total.usage.estimated:
        yield _("≈ the provider did not give a number: it was counted from the texts")
    unpriced = ", ".join(model.name for model in report.models if model.unpriced_calls)
    if unpriced:
        yield _(
            "no price is known of {models}: the cost leaves them out (add pricing to the model)",
            models=unpriced,
        )


def _about(report: "UsageReport") -> str:
    if report.since is not None and report.until is not None:
        since, until = day(report.since), day(report.until)
        return _("Period     : from {since} to {until}, excluded (UTC)", since=since, until=until)
    if report.run_id is not None:
        return _("Run        : {run_id}", run_id=report.run_id)
    return _("Session    : {session_id}", session_id=report.session_id)


def _row(name: str, spent: "Consumption") -> tuple[str, ...]:
    from loom_ia.core.views.trace_text import dollars

    usage = spent.usage
    tokens = (usage.prompt_tokens, usage.output_tokens)
    counted = (count(number, estimated=usage.estimated) for number in tokens)
    cost = dollars(spent.cost_usd, unpriced=spent.unpriced_calls)
    return (name, count(spent.calls), *counted, cost)
