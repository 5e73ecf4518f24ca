"""Beginning a run of a graph."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from loom_ia.app.graphs.driving import Manner, drive
from loom_ia.app.graphs.order import Order, naming
from loom_ia.core.errors import RunExists
from loom_ia.core.events.run import RunStarted
from loom_ia.core.ids import RunId
from loom_ia.core.json import storable_text
from loom_ia.engine.log import Pen, SessionLog
from loom_ia.engine.program import GraphProgram
from loom_ia.graph.delegates import started_facts
from loom_ia.graph.protocol import accepted
from loom_ia.graph.surroundings import Surroundings, info_of
from loom_ia.graph.types import RunResult


@dataclass(frozen=True, slots=True)
class Opened:
    """A run of a graph that is about to begin; nothing is written yet."""

    order: Order
    pen: Pen
    program: GraphProgram
    around: Surroundings
    executed_before: int


async def run_graph(
    order: Order, given: Any, run_id: RunId | None, manner: Manner
) -> RunResult[Any]:
    """Run a graph from its entry until it is over or waits.

    Everything that can be refused is refused before anything is written.
    """
    return await drive_opened(await open_graph(order, given, run_id), manner)


async def open_graph(order: Order, given: Any, run_id: RunId | None) -> Opened:
    """Prepare a run from its entry: check all that can be refused, and stage its first facts."""
    graph, instance = order.graph, order.instance
    given, asked = accepted(given, compat=graph.compat)
    run_id = asked if run_id is None else run_id
    run_id = instance.clock.new_id() if run_id is None else checked_id(run_id)
    graph.require_valid()
    program = order.program()
    with naming(graph, run_id):
        started = started_facts(graph, program, given)
    return await _open(order, started, run_id, shown=given)


async def begin(
    order: Order,
    started: RunStarted,
    run_id: RunId,
    manner: Manner,
    *,
    shown: Any,
) -> RunResult[Any]:
    """Open a run with its first facts and drive it."""
    return await drive_opened(await _open(order, started, run_id, shown=shown), manner)


async def drive_opened(opened: Opened, manner: Manner) -> RunResult[Any]:
    """Drive a run that was opened until it is over or waits."""
    return await drive(
        opened.order,
        opened.pen,
        opened.program,
        opened.around,
        manner,
        executed_before=opened.executed_before,
    )


async def _open(order: Order, started: RunStarted, run_id: RunId, *, shown: Any) -> Opened:
    graph, instance = order.graph, order.instance
    log = instance.log(order.session_id or run_id)
    await log.catch_up()
    require_new(log, run_id, await log.journal.locate(log.tenant_id, run_id))
    info = info_of(graph, run_id, _shown(shown), resumed=False, parent=started.origin)
    around = Surroundings(graph, info)
    await around.begin()
    pen = log.pen(run_id, instance.pilot.may_write)
    pen.begin(started, agent=graph.name, root_run_id=run_id)
    pen.stage(instance.pilot.claim(instance.clock.now()))
    program = order.program(pen.run, log.state)
    before = pen.run.flow.executed if pen.run.flow else 0
    return Opened(order, pen, program, around, before)


def _shown(given: Any) -> Mapping[str, Any]:
    if isinstance(given, Mapping):
        return dict(cast("Mapping[str, Any]", given))
    return {} if given is None else {"input": given}


def require_new(log: SessionLog, run_id: RunId, home: str | None) -> None:
    """Raise `RunExists` for an id that was used."""
    if home is not None or log.run(run_id) is not None:
        raise RunExists("run {run_id} exists already", run_id=run_id)


def checked_id(run_id: object) -> RunId:
    """Return a run id that a caller may choose; raises `ValueError` for another one."""
    if not isinstance(run_id, str) or not run_id or "/" in run_id:
        raise ValueError(f"run_id={run_id!r}: it is a text, not empty, without '/'")
    if storable_text(run_id) != run_id or len(run_id) > _LONGEST:
        raise ValueError(f"run_id: it is at most {_LONGEST} characters that UTF-8 can hold")
    return run_id


_LONGEST = 200
