"""Runs of graphs on a host: its journal, its instance, the agents and models that it names."""

import asyncio
import logging
from dataclasses import dataclass
from typing import Any

from loom_ia.app.graphs import forking, reading
from loom_ia.app.graphs.desk import Desk
from loom_ia.app.graphs.driving import Manner
from loom_ia.app.graphs.order import Order
from loom_ia.app.graphs.resuming import Resumption, found, resume_graph
from loom_ia.app.graphs.running import Opened, drive_opened, open_graph, run_graph
from loom_ia.app.instance import Instance
from loom_ia.core.errors import ClaimConflict, LoomError
from loom_ia.core.ids import RunId, SessionId, require_safe_id
from loom_ia.core.state.run import RunState
from loom_ia.engine.perform.approver import answers_by
from loom_ia.engine.program import Approver
from loom_ia.graph.errors import RunLocked
from loom_ia.graph.types import Approver as Answerer
from loom_ia.graph.types import CheckpointInfo, RunResult

_logger = logging.getLogger("loom_ia.app")


@dataclass(frozen=True, slots=True)
class Asked:
    """What a caller asks for when he begins a run of a graph."""

    graph: str
    input: Any = None
    session_id: SessionId | None = None
    run_id: RunId | None = None
    approver: Answerer | None = None


async def run(instance: Instance, asked: Asked, manner: Manner) -> RunResult[Any]:
    """Run a graph from its entry until it is over or waits. Raises `UnknownGraph`, `RunExists`."""
    return await run_graph(_order(instance, asked), asked.input, asked.run_id, manner)


async def submit(instance: Instance, asked: Asked) -> RunId:
    """Open a run and drive it in the background; it is written when this returns.

    Raises as `run` for what cannot begin. The instance waits for it when it closes.
    """
    opened = await open_graph(_order(instance, asked), asked.input, asked.run_id)
    await opened.pen.commit(sync=True)
    instance.start_job(asyncio.create_task(_drive_in_background(opened)))
    return opened.pen.run_id


async def _drive_in_background(opened: Opened) -> None:
    try:
        await drive_opened(opened, Manner(raise_on_error=False))
    except LoomError as error:
        _logger.warning("run %s stopped: %s", opened.pen.run_id, type(error).__name__)


def _order(instance: Instance, asked: Asked) -> Order:
    order = order_of(instance, asked.graph)
    order.approver, order.session_id = asked.approver, asked.session_id
    for given, name in ((asked.run_id, "run id"), (asked.session_id, "session id")):
        if given is not None:
            require_safe_id(given, name)
    return order


async def resume(
    instance: Instance,
    run_id: RunId,
    said: Resumption,
    manner: Manner,
    *,
    approver: Answerer | None = None,
) -> RunResult[Any]:
    """Go on with a run of a graph, as `Graph.resume` does."""
    order = await _order_of_run(instance, run_id)
    order.approver = approver
    return await resume_graph(order, run_id, said, manner)


async def go_on(
    instance: Instance,
    run_id: RunId,
    *,
    take_over: bool = False,
    approver: Approver | None = None,
    by: str = "python",
) -> RunState:
    """Go on with a run of a graph as with one of an agent; its failure is not raised.

    Raises `ClaimConflict`, and what keeps the run from going on.
    """
    order = await _order_of_run(instance, run_id)
    if approver is not None:
        order.approver, order.answers = approver, answers_by(approver)
    try:
        said = Resumption(take_over=take_over, by=by)
        await resume_graph(order, run_id, said, Manner(raise_on_error=False))
    except RunLocked as locked:
        if isinstance(locked.__cause__, ClaimConflict):
            raise locked.__cause__ from None
        raise
    _, run = await instance.find(run_id)
    return run


async def fork(
    instance: Instance, run_id: RunId, what: forking.Fork, manner: Manner
) -> RunResult[Any]:
    """Begin a run where another one stood, as `Graph.fork` does, in a session of its own."""
    order = await _order_of_run(instance, run_id)
    return await forking.fork(order, run_id, what, manner)


async def history(instance: Instance, run_id: RunId) -> list[CheckpointInfo]:
    """Read the steps of a run that were completed, failed or paused."""
    order = await _order_of_run(instance, run_id, waits=False)
    return await reading.history(order, run_id)


async def state_at(instance: Instance, run_id: RunId, seq: int) -> Any:
    """Read the state of a run as it was at a place of its journal."""
    order = await _order_of_run(instance, run_id, waits=False)
    return await reading.state_at(order, run_id, seq)


def order_of(instance: Instance, name: str) -> Order:
    """Prepare a call about a graph of the host; raises `UnknownGraph`."""
    graph = instance.graph(name)
    order = Order(graph, Desk(instance.journal, None, is_hosted=True), instance)
    if instance.house is not None:
        house = instance.house
        order.host, order.store = house.host, house.store
        order.limits, order.session_limits = house.limits, house.session_limits
        order.language = house.language
    return order


async def _order_of_run(instance: Instance, run_id: RunId, *, waits: bool = True) -> Order:
    """Prepare a call about a run, once nobody drives it here."""
    while True:
        _, run = await instance.find(run_id)
        seat = instance.driven.get(run_id)
        if seat is None or not waits:
            break
        await asyncio.shield(seat.ended)
    root = run_id.partition("/")[0]
    home = run if root == run_id else (await instance.find(root))[1]
    order = order_of(instance, home.header.agent)
    if waits:
        await found(order, run_id)
    return order
