"""`loom graph`: list graphs, draw one, run it, go on with a run, read its steps, fork it."""

import argparse
from typing import TYPE_CHECKING

from loom_ia.i18n import moment
from loom_ia.i18n import translate as _

if TYPE_CHECKING:
    from loom_ia.core.ids import RunId
    from loom_ia.graph.types import CheckpointInfo


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what can be done with graphs."""
    from loom_ia.access.cli.arguments import add_command

    actions = parser.add_subparsers(
        title=_("commands"), dest="action", metavar="ACTION", required=True
    )
    listing = add_command(actions, "list", _("list the graphs"))
    drawing = add_command(actions, "draw", _("draw a graph, as a Mermaid flowchart"))
    drawing.add_argument("graph", metavar="GRAPH", help=_("the graph's name"))
    drawing.add_argument("--text", action="store_true", help=_("draw it for a terminal"))
    running = add_command(actions, "run", _("run a graph from its entry"))
    running.add_argument("graph", metavar="GRAPH", help=_("the graph's name"))
    running.add_argument("--run-id", metavar="ID", help=_("choose the id of the run"))
    running.add_argument("--session", metavar="ID", help=_("the session of the run"))
    resuming = add_command(actions, "resume", _("go on with a run, with answers or an input"))
    resuming.add_argument(
        "--answer",
        metavar="ID=VALUE",
        action="append",
        default=[],
        help=_("answer a question; may be given again"),
    )
    resuming.add_argument(
        "--take-over", action="store_true", help=_("take the run from whoever drives it")
    )
    resuming.add_argument(
        "--allow-changed", action="store_true", help=_("go on although the graph changed")
    )
    reading = add_command(actions, "history", _("list the steps that a run has ended"))
    forking = add_command(actions, "fork", _("begin a run where another one stood"))
    forking.add_argument(
        "--at", metavar="PLACE", type=int, required=True, help=_("a place of its history")
    )
    forking.add_argument("--run-id", metavar="ID", help=_("choose the id of the new run"))
    for command in (resuming, reading, forking):
        command.add_argument("run", metavar="RUN", help=_("the run's id"))
    for command in (running, resuming, forking):
        _add_input(command)
    for command in (listing, running, resuming, reading, forking):
        command.add_argument("--json", action="store_true", help=_("show it as JSON"))


def _add_input(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--input",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help=_("a key of the state; a VALUE that is JSON is read as such; may be given again"),
    )
    command.add_argument(
        "--input-file", metavar="FILE", help=_("a JSON file with keys of the state")
    )
    command.add_argument(
        "-q", "--quiet", action="store_true", help=_("no summary when the run is completed")
    )


def execute(args: argparse.Namespace) -> int:
    """Do what is asked for."""
    from loom_ia.access.cli.desk import perform

    actions = {
        "list": _list,
        "draw": _draw,
        "run": _run,
        "resume": _resume,
        "history": _history,
        "fork": _fork,
    }
    return perform(actions[args.action](args))


async def _list(args: argparse.Namespace) -> int:
    from loom_ia.access.cli.desk import open_desk
    from loom_ia.access.cli.failures import COMPLETED
    from loom_ia.access.cli.table import columns
    from loom_ia.access.cli.terminal import say, show, show_json

    async with open_desk(args) as desk:
        graphs = list(desk.graphs.values())
        said = {spec.name: spec.description for spec in desk.config.graphs}
    if args.json:
        described = [
            {
                "name": graph.name,
                "description": said.get(graph.name, ""),
                "entry": graph.entry,
                "steps": list(graph.steps),
            }
            for graph in graphs
        ]
        show_json(described)
        return COMPLETED
    rows = [(g.name, str(len(g.steps)), g.entry or "", said.get(g.name, "")) for g in graphs]
    if not rows:
        say(_("No graph."))
        return COMPLETED
    heads = (_("graph"), _("steps"), _("entry"), _("description"))
    for line in columns([heads, *rows], right=(1,)):
        show(line)
    return COMPLETED


async def _draw(args: argparse.Namespace) -> int:
    from loom_ia.access.cli.desk import open_desk
    from loom_ia.access.cli.failures import COMPLETED
    from loom_ia.access.cli.terminal import printable, show
    from loom_ia.graph.topology import mermaid, text_drawing

    async with open_desk(args) as desk:
        graph = desk.graphs.find(args.graph)
        drawn = text_drawing(graph) if args.text else mermaid(graph)
    show(printable(drawn))
    return COMPLETED


async def _run(args: argparse.Namespace) -> int:
    from loom_ia.access.cli.desk import open_desk, resumable
    from loom_ia.access.cli.graph_results import finished, inputs
    from loom_ia.access.cli.watching import watched
    from loom_ia.engine.clock import SystemClock

    run_id: str = args.run_id or SystemClock().new_id()
    given = inputs(args)
    async with open_desk(args) as desk, resumable(desk, args, run_id, args.session or run_id):
        async with watched(desk, args, run_id, args.session or run_id):
            result = await desk.run_graph(
                args.graph,
                given,
                session_id=args.session,
                run_id=run_id,
                raise_on_error=False,
            )
        return await finished(desk, args, result)


async def _resume(args: argparse.Namespace) -> int:
    from loom_ia.access.cli.desk import local_user, open_desk, resumable
    from loom_ia.access.cli.graph_results import answers, finished, inputs
    from loom_ia.access.cli.watching import watched

    given, answered = inputs(args), answers(args.answer)
    async with open_desk(args) as desk, resumable(desk, args, args.run, None):
        async with watched(desk, args, args.run, None):
            result = await desk.graphs.resume(
                args.run,
                given or None,
                answers=answered or None,
                allow_changed=args.allow_changed,
                take_over=args.take_over,
                raise_on_error=False,
                by=local_user(),
            )
        return await finished(desk, args, result)


async def _fork(args: argparse.Namespace) -> int:
    from loom_ia.access.cli.desk import open_desk, resumable
    from loom_ia.access.cli.graph_results import finished, inputs
    from loom_ia.access.cli.watching import watched
    from loom_ia.core.errors import CallerError
    from loom_ia.engine.clock import SystemClock

    run_id: RunId = args.run_id or SystemClock().new_id()
    given = inputs(args)
    async with open_desk(args) as desk, resumable(desk, args, run_id, run_id):
        async with watched(desk, args, run_id, run_id):
            try:
                result = await desk.graphs.fork(
                    args.run,
                    at=args.at,
                    input=given or None,
                    new_run_id=run_id,
                    raise_on_error=False,
                )
            except ValueError as error:
                raise CallerError("{problem}", problem=str(error)) from error
        return await finished(desk, args, result)


async def _history(args: argparse.Namespace) -> int:
    from loom_ia.access.cli.desk import open_desk
    from loom_ia.access.cli.failures import COMPLETED
    from loom_ia.access.cli.table import columns
    from loom_ia.access.cli.terminal import say, show, show_json

    async with open_desk(args) as desk:
        found = await desk.graphs.history(args.run)
    if args.json:
        show_json([_as_json(info) for info in found])
        return COMPLETED
    rows = [
        (str(i.n), str(i.seq), i.step, "" if i.stop is None else i.stop.value, moment(i.saved_at))
        for i in found
    ]
    if not rows:
        say(_("No step has ended yet."))
        return COMPLETED
    heads = (_("number"), _("place"), _("step"), _("stop"), _("at (UTC)"))
    for line in columns([heads, *rows], right=(0, 1)):
        show(line)
    return COMPLETED


def _as_json(info: "CheckpointInfo") -> dict[str, object]:
    return {
        "n": info.n,
        "seq": info.seq,
        "run_id": info.run_id,
        "step": info.step,
        "stop": None if info.stop is None else info.stop.value,
        "saved_at": info.saved_at.isoformat(),
        "budget_left": info.budget_left,
        "parent": None if info.parent is None else list(info.parent),
    }
