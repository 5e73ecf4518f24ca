"""`loom sessions`: list conversations, show one, take it out of the journal, or delete it."""

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from loom_ia.access.cli import session_files
from loom_ia.i18n import moment
from loom_ia.i18n import translate as _

if TYPE_CHECKING:
    from loom_ia.core.views.sessions import SessionInfo

_MOST: Final = 1_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what can be done with sessions."""
    from loom_ia.access.cli.arguments import add_command

    actions = parser.add_subparsers(
        title=_("commands"), dest="action", metavar="ACTION", required=True
    )
    listing = add_command(actions, "list", _("list sessions, in the order of their ids"))
    listing.add_argument("--after", metavar="ID", help=_("only those that follow this one"))
    listing.add_argument(
        "--limit",
        metavar="N",
        type=int,
        default=100,
        help=_("how many, 1000 at most (default: 100)"),
    )
    showing = add_command(actions, "show", _("show the runs of a session, and what waits in it"))
    for command in (listing, showing):
        command.add_argument("--json", action="store_true", help=_("show it as JSON"))
    export = add_command(actions, "export", _("write sessions as JSON Lines, one event each"))
    session_files.add_export_arguments(export)
    delete = add_command(actions, "delete", _("remove a session for good, with its files and keys"))
    delete.add_argument("--yes", action="store_true", help=_("do not ask"))
    files = add_command(actions, "files", _("list the files of a session, or copy them"))
    session_files.add_files_arguments(files)
    for command in (showing, delete, files):
        command.add_argument("session", metavar="ID", help=_("the session's id"))


def execute(args: argparse.Namespace) -> int:
    """Do what is asked for."""
    from loom_ia.access.cli.desk import perform

    actions = {
        "list": _list,
        "show": _show,
        "delete": _delete,
        "export": session_files.export,
        "files": session_files.files,
    }
    return perform(actions[args.action](args))


async def _list(args: argparse.Namespace) -> int:
    from loom_ia.access.cli.arguments import command_line
    from loom_ia.access.cli.desk import open_desk
    from loom_ia.access.cli.failures import COMPLETED
    from loom_ia.access.cli.terminal import printable, say, show, show_json
    from loom_ia.core.errors import CallerError

    if not 1 <= args.limit <= _MOST:
        raise CallerError(
            "--limit is between 1 and {most}, not {limit}", most=_MOST, limit=args.limit
        )
    async with open_desk(args, mount=False) as desk:
        found = await desk.sessions(after=args.after, limit=args.limit)
    if args.json:
        show_json([session.model_dump(mode="json") for session in found])
        return COMPLETED
    for line in _lines(found):
        show(line)
    if not found:
        say(_("No session."))
    if len(found) == args.limit:
        command = command_line(args, "sessions", "list", "--after", found[-1].session_id)
        say(printable(_("There may be more: {command}", command=command)))
    return COMPLETED


def _lines(found: "tuple[SessionInfo, ...]") -> Iterator[str]:
    from loom_ia.access.cli.table import columns
    from loom_ia.core.views.trace_text import dollars

    rows = [
        (
            session.session_id,
            moment(session.updated_at),
            str(len(session.runs)),
            str(len(session.pending_approvals)),
            dollars(
                sum(run.cost_usd for run in session.runs),
                unpriced=sum(run.unpriced_calls for run in session.runs),
            ),
        )
        for session in found
    ]
    if rows:
        heads = (_("session"), _("last event (UTC)"), _("runs"), _("waiting"), _("cost ($)"))
        yield from columns([heads, *rows], right=(2, 3, 4))


async def _show(args: argparse.Namespace) -> int:
    from loom_ia.access.cli.desk import open_desk
    from loom_ia.access.cli.failures import COMPLETED
    from loom_ia.access.cli.runs import run_lines
    from loom_ia.access.cli.summary import pending_lines
    from loom_ia.access.cli.terminal import printable, show, show_json

    async with open_desk(args, mount=False) as desk:
        session = await desk.session(args.session)
    if args.json:
        show_json(session.model_dump(mode="json"))
        return COMPLETED
    show(printable(_("Session    : {session_id}", session_id=session.session_id)))
    show(
        _(
            "Holds      : {runs} run(s), {files} file(s), {events} event(s) until {at} UTC",
            runs=len(session.runs),
            files=len(session.artifacts),
            events=session.last_seq,
            at=moment(session.updated_at),
        )
    )
    for line in run_lines(session.runs):
        show(line)
    for pending in session.pending_approvals:
        for line in pending_lines(pending, args):
            show(line, "yellow")
    return COMPLETED


async def _delete(args: argparse.Namespace) -> int:
    """Delete, and give 2 when nobody confirmed: nothing was deleted then."""
    from loom_ia.access.cli.desk import open_desk
    from loom_ia.access.cli.failures import COMPLETED, REFUSED
    from loom_ia.access.cli.terminal import printable, say

    async with open_desk(args, mount=False) as desk:
        session = await desk.session(args.session)
        if not (args.yes or _confirmed(session)):
            say(_("Nothing was deleted."))
            return REFUSED
        gone = await desk.delete_session(args.session)
    say(
        printable(
            _(
                "Deleted    : {session_id}, {events} event(s), {files} file(s), {keys} key(s)",
                session_id=gone.session_id,
                events=gone.events,
                files=gone.artifacts,
                keys=gone.keys,
            )
        )
    )
    return COMPLETED


def _confirmed(session: "SessionInfo") -> bool:
    from loom_ia.access.cli.terminal import ask, printable
    from loom_ia.core.errors import CallerError

    question = _(
        "Delete {session_id} for good, with its {runs} run(s) and {files} file(s)? [y/N] ",
        session_id=session.session_id,
        runs=len(session.runs),
        files=len(session.artifacts),
    )
    answer = ask(printable(question))
    if answer is None:
        raise CallerError("nobody can confirm here: say --yes to delete the session for good")
    return answer.lower() in {"y", "yes", _("y"), _("yes")}
