"""Stopping a run of a graph for good, and going on with those that a dead driver left."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from loom_ia.app import cancel as cancelling
from loom_ia.app.graphs.checkpoints import Checkpoints
from loom_ia.app.graphs.driving import Manner
from loom_ia.app.graphs.keeping import WriteFailed
from loom_ia.app.graphs.order import Order
from loom_ia.app.graphs.resuming import Resumption, found, resume_graph
from loom_ia.app.recovery import open_runs
from loom_ia.core.errors import LoomError, StoreError
from loom_ia.core.ids import RunId
from loom_ia.core.state.session import is_held
from loom_ia.graph.errors import RunLocked
from loom_ia.graph.types import RunResult

_log = logging.getLogger("loom_ia.graph")


async def cancel(order: Order, run_id: RunId, by: str) -> bool:
    """Close a run as cancelled; False when it was over already. Raises `RunNotFound`."""
    seat = order.desk.driven.get(run_id)
    if seat is not None and seat.ended.get_loop() is asyncio.get_running_loop():
        order.instance.driven[run_id] = seat  # written in the driver's own log, it is felt at once
    log, _ = await found(order, run_id)
    try:
        closed = await cancelling.cancel(order.instance, run_id, by=by, session_id=run_id)
    except WriteFailed as error:
        raise StoreError(
            "run {run_id} is not cancelled: {reason}", run_id=run_id, reason=str(error)
        ) from (error.__cause__)
    if closed and order.instance.driven.get(run_id) is None:
        await Checkpoints.of(order, run_id, log).close(log.state.runs[run_id])
    return closed


async def recover(order: Callable[[], Order], manner: Manner) -> list[RunResult[Any]]:
    """Go on with every run of the graph that is open, asks nothing, and that nobody drives."""
    first = order()
    results: list[RunResult[Any]] = []
    for run_id in await open_runs(first.instance):
        if "/" in run_id:
            continue
        try:
            result = await _recovered(order(), run_id, manner)
        except RunLocked:
            continue
        except LoomError as error:  # whatever is wrong with it, the others are taken up
            _log.warning("run %s is not recovered: %s", run_id, type(error).__name__)
            continue
        if result is not None:
            results.append(result)
    return results


async def _recovered(order: Order, run_id: RunId, manner: Manner) -> RunResult[Any] | None:
    log, run = await order.instance.find(run_id, run_id)
    if run.flow is None or run.header.agent != order.graph.name or run.outcome is not None:
        return None
    if is_held(run, log.state.runs, order.instance.clock.now()):
        return None
    return await resume_graph(order, run_id, Resumption(by="recover"), manner)
