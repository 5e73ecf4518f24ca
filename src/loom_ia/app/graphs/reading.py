"""Reading the journal of a run of a graph: its events, its steps, its state at any place."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from loom_ia.app.graphs.order import Order
from loom_ia.core.errors import UnknownRun
from loom_ia.core.events.approval import ApprovalRequested
from loom_ia.core.events.envelope import Event
from loom_ia.core.events.fold import apply, begin
from loom_ia.core.events.tool import ToolCompleted
from loom_ia.core.ids import RunId
from loom_ia.core.state.run import RunState
from loom_ia.core.state.session import SessionState
from loom_ia.graph.definition import GraphDefinition
from loom_ia.graph.errors import RunNotFound
from loom_ia.graph.shown import shown_event
from loom_ia.graph.topology import mermaid as drawn
from loom_ia.graph.types import CheckpointInfo, GraphEvent, RunResult, StopReason


async def events(order: Order, run_id: RunId, after_seq: int = 0) -> list[GraphEvent]:
    """Read the events of a run and of those below it; raises `RunNotFound`."""
    found = await stored(order, run_id)
    codec = order.graph.state_type.codec
    return [shown_event(event, codec) for event in found if event.seq > after_seq]


async def stored(order: Order, run_id: RunId) -> list[Event]:
    """Read the stored events of a run and of those below it; raises `RunNotFound`."""
    home = run_id.split("/")[0]
    try:
        log, _ = await order.instance.find(run_id, home)
    except UnknownRun as error:
        raise RunNotFound("there is no run {run_id} in this store", run_id=run_id) from error
    read = await log.journal.read(log.tenant_id, log.session_id)
    below = f"{run_id}/"
    return [e for e in read if e.run_id == run_id or e.run_id.startswith(below)]


async def history(order: Order, run_id: RunId) -> list[CheckpointInfo]:
    """Read the steps of a run that were completed, failed or paused."""
    return list(checkpoints(await stored(order, run_id), run_id))


def checkpoints(found: Iterable[Event], run_id: RunId) -> Iterator[CheckpointInfo]:
    """Give the steps of a run that were completed, failed or paused, of all its events.

    A step that ended with a question is one of them, at the place of its question.
    """
    session = SessionState()
    n = 0
    last: CheckpointInfo | None = None
    for event in found:
        before = session.runs.get(event.run_id)
        after = begin(event) if before is None else apply(before, event)
        session.put(after)
        if event.run_id != run_id:
            continue
        run = session.runs[run_id]
        if before is None:
            n = run.header.earlier
            continue
        if last is not None and _asks_at_the_end_of(last.step, event):
            last = replace(last, seq=event.seq, stop=StopReason.YIELDED, saved_at=event.ts)
            continue
        stop, step = _stop(event)
        if step is None:
            continue
        if last is not None:
            yield last
        n += 1
        last = CheckpointInfo(
            n=n,
            seq=event.seq,
            run_id=run_id,
            step=step,
            stop=stop,
            saved_at=event.ts,
            budget_left=_left(run, session),
            parent=run.header.origin,
        )
    if last is not None:
        yield last


def _asks_at_the_end_of(step: str, event: Event) -> bool:
    asked = event.payload
    return (
        isinstance(asked, ApprovalRequested) and asked.asked == "after" and asked.tool_name == step
    )


def _stop(event: Event) -> tuple[StopReason | None, str | None]:
    match event.payload:
        case ToolCompleted(retry_at=None, outcome=None) as done:
            return (StopReason.ERROR if done.output.is_error else None), done.tool_name
        case ToolCompleted(outcome="unknown") as done:
            return StopReason.ERROR, done.tool_name
        case ApprovalRequested() as asked if asked.asked != "after":
            return StopReason.YIELDED, asked.tool_name
        case _:
            return None, None


def _left(run: RunState, session: SessionState) -> int | None:
    budget = run.header.budget
    if budget is None or budget.max_steps is None:
        return None
    return max(budget.max_steps - session.ledger(run).steps, 0)


async def state_at(order: Order, run_id: RunId, seq: int) -> Any:
    """Read the state of a run at a place; raises `RunNotFound`, `ValueError` out of the run."""
    whole = await stored(order, run_id.split("/")[0])
    found = [event for event in whole if event.run_id == run_id]
    if not found:
        raise RunNotFound("there is no run {run_id} in this store", run_id=run_id)
    graph = graph_of(order.graph, run_id)
    first, last = found[0].seq, whole[-1].seq
    if not first <= seq <= last:
        raise ValueError(f"seq={seq}: run {run_id} is known from {first} to {last}")
    run: RunState | None = None
    for event in found:
        if event.seq > seq:
            break
        run = begin(event) if run is None else apply(run, event)
    flow = run.flow if run else None
    return graph.state_type.result(flow.main.values if flow else {})


def graph_of(graph: GraphDefinition[Any], run_id: RunId) -> GraphDefinition[Any]:
    """Give the graph of a run below, by the steps that its id names; else the one at the top."""
    from loom_ia.graph.children import ChildGraph

    for part in run_id.split("/")[1:]:
        step = graph.steps.get(part)
        if step is not None and isinstance(step.child, ChildGraph):
            graph = step.child.graph
    return graph


def mermaid(graph: GraphDefinition[Any], run: RunResult[Any] | None) -> str:
    """Draw a graph, and what a run visited."""
    return drawn(graph, getattr(run, "visits", None))


async def diff(order: Order, one: RunId, other: RunId) -> Mapping[str, Any]:
    """Tell where two runs part: the first events that differ, and the keys of the last states."""
    from loom_ia.graph.comparing import difference

    left, right = await stored(order, one), await stored(order, other)
    return difference(left, right, order.graph.state_type.codec)
