"""`loom state SESSION`: show the values that a session keeps."""

import argparse
from typing import TYPE_CHECKING

from loom_ia.i18n import translate as _

if TYPE_CHECKING:
    from loom_ia.core.views.sessions import StateValue


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument("session", metavar="SESSION", help=_("the session's id"))
    parser.add_argument("--json", action="store_true", help=_("show it as JSON"))


def execute(args: argparse.Namespace) -> int:
    """Show the state."""
    from loom_ia.access.cli.desk import perform

    return perform(_show(args))


async def _show(args: argparse.Namespace) -> int:
    from loom_ia.access.cli.desk import open_desk
    from loom_ia.access.cli.failures import COMPLETED
    from loom_ia.access.cli.table import columns
    from loom_ia.access.cli.terminal import say, show, show_json

    async with open_desk(args, mount=False) as desk:
        found = await desk.session_state(args.session)
    if args.json:
        show_json([value.model_dump(mode="json") for value in found])
        return COMPLETED
    if not found:
        say(_("This session keeps no value."))
        return COMPLETED
    heads = (_("key"), _("value"), _("written by"), _("run"))
    for line in columns([heads, *map(_row, found)]):
        show(line)
    return COMPLETED


def _row(kept: "StateValue") -> tuple[str, ...]:
    from loom_ia.core.json import readable

    author = _("the caller") if kept.tool is None else kept.tool
    return (kept.key, readable(kept.value), author, kept.run_id)
