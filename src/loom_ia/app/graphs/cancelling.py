"""Stopping a run of a graph for good, and going on with those that a dead driver left."""

import asyncio
from collections.abc import Callable
from typing import Any

from loom_ia.app import cancel as cancelling
from loom_ia.app.graphs.driving import Manner
from loom_ia.app.graphs.order import Order
from loom_ia.app.graphs.resuming import Resumption, found, resume_graph
from loom_ia.app.recovery import open_runs
from loom_ia.core.ids import RunId
from loom_ia.graph.errors import RunLocked
from loom_ia.graph.results import stop_of
from loom_ia.graph.types import RunResult, StopReason


async def cancel(order: Order, run_id: RunId, by: str) -> bool:
    """Close a run as cancelled; False when it was over already. Raises `RunNotFound`."""
    seat = order.desk.driven.get(run_id)
    if seat is not None and seat.ended.get_loop() is asyncio.get_running_loop():
        order.instance.driven[run_id] = seat  # written in the driver's own log, it is felt at once
    await found(order, run_id)
    return await cancelling.cancel(order.instance, run_id, by=by, session_id=run_id)


async def recover(order: Callable[[], Order], manner: Manner) -> list[RunResult[Any]]:
    """Go on with every run of the graph that is open, asks nothing, and that nobody drives."""
    first = order()
    results: list[RunResult[Any]] = []
    for run_id in await open_runs(first.instance):
        if "/" in run_id:
            continue
        one = order()
        log, run = await one.instance.find(run_id, run_id)
        if run.flow is None or run.header.agent != one.graph.name or run.outcome is not None:
            continue
        if stop_of(run, log.state.runs) is StopReason.YIELDED:
            continue
        try:
            results.append(await resume_graph(one, run_id, Resumption(by="recover"), manner))
        except RunLocked:
            continue
    return results
