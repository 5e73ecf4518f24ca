"""`loom inspect RUN`: show what happened in a run."""

import argparse

from loom_ia.i18n import translate as _


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument("run", metavar="RUN", help=_("the run's id"))
    parser.add_argument("--session", metavar="ID", help=_("its session, if you know it"))
    parser.add_argument("--full", action="store_true", help=_("cut no text"))
    parser.add_argument("--json", action="store_true", help=_("show the tree as JSON"))


def execute(args: argparse.Namespace) -> int:
    """Show the run."""
    from loom_ia.access.cli.desk import perform

    return perform(_inspect(args))


async def _inspect(args: argparse.Namespace) -> int:
    from loom_ia.access.cli.desk import open_desk
    from loom_ia.access.cli.failures import COMPLETED
    from loom_ia.access.cli.terminal import show, show_json
    from loom_ia.access.cli.tree import tree_lines

    async with open_desk(args, mount=False) as desk:
        tree = await desk.trace(args.run, session_id=args.session)
    if args.json:
        show_json(tree.model_dump(mode="json"))
    else:
        for line, style in tree_lines(tree, args, full=args.full):
            show(line, style)
    return COMPLETED
