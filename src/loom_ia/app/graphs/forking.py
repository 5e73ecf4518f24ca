"""Beginning a run where another one stood; the other is only read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loom_ia.app.graphs.driving import Manner, refused_to_write
from loom_ia.app.graphs.keeping import WriteFailed
from loom_ia.app.graphs.order import Order
from loom_ia.app.graphs.reading import checkpoints, stored
from loom_ia.app.graphs.resuming import Resumption, found, go_on, require_same_graph
from loom_ia.app.graphs.running import checked_id, require_new
from loom_ia.core.events.codec import to_line
from loom_ia.core.events.envelope import Event
from loom_ia.core.events.fold import apply
from loom_ia.core.events.fold import begin as begun
from loom_ia.core.events.run import RunStarted, SessionSnapshot
from loom_ia.core.ids import RunId
from loom_ia.core.model.budget import Budget
from loom_ia.core.state.session import SessionState
from loom_ia.graph.surroundings import Surroundings, info_of
from loom_ia.graph.types import RunResult


@dataclass(frozen=True, slots=True)
class Fork:
    """Where a fork leaves its source, and what it is told."""

    at: int
    input: Mapping[str, Any] | None = None
    new_run_id: RunId | None = None
    step_budget: int | None = None


async def fork(order: Order, run_id: RunId, what: Fork, manner: Manner) -> RunResult[Any]:
    """Begin a run with the fold of another one up to `at`, and drive it."""
    await found(order, run_id)
    events = await stored(order, run_id)
    kept = _until(events, what.at, run_id)
    new_id = what.new_run_id
    new_id = order.instance.clock.new_id() if new_id is None else checked_id(new_id)
    if what.step_budget is not None and what.step_budget < 0:
        raise ValueError(f"step_budget={what.step_budget}: it is not negative")
    source = _folded(kept)
    require_same_graph(order.graph, source.runs[run_id], source, allow_changed=True)
    started = _started(kept, source, what, run_id)
    log = order.instance.log(new_id)
    await log.catch_up()
    require_new(log, new_id, await log.journal.locate(log.tenant_id, new_id))
    info = info_of(order.graph, new_id, what.input or {}, resumed=False, parent=(run_id, what.at))
    around = Surroundings(order.graph, info)
    await around.begin()
    pen = log.pen(new_id, order.instance.pilot.may_write)
    pen.begin(started, agent=order.graph.name, root_run_id=new_id)
    pen.stage(_snapshot(kept, run_id, new_id))
    for name, agent, child, snapshot in _below(kept, run_id, new_id):
        pen.stage_run(name, child, snapshot, agent=agent)
    try:
        await pen.commit(sync=True)
    except WriteFailed as error:
        return await refused_to_write(order, pen.run, log, error, around, manner)
    except BaseException as error:
        await around.leave(error)
        raise
    return await go_on(order, log, new_id, Resumption(what.input, by="fork"), manner, around)


def _until(events: Sequence[Event], at: int, run_id: RunId) -> list[Event]:
    first, last = events[0].seq, events[-1].seq
    if isinstance(at, bool) or not first <= at <= last:
        raise ValueError(f"at={at!r}: run {run_id} goes from {first} to {last}")
    return [event for event in events if event.seq <= at]


def _folded(events: Sequence[Event]) -> SessionState:
    session = SessionState()
    for event in events:
        before = session.runs.get(event.run_id)
        session.put(begun(event) if before is None else apply(before, event))
    return session


def _started(kept: Sequence[Event], source: SessionState, what: Fork, run_id: RunId) -> RunStarted:
    """Give the first fact of the fork: what its source was, and where it comes from."""
    payload = kept[0].payload
    if not isinstance(payload, RunStarted):
        raise ValueError(f"run {run_id} does not begin with run.started")
    run = source.runs[run_id]
    earlier = run.header.earlier + sum(1 for _ in checkpoints(kept, run_id))
    limit = payload.budget.max_steps if payload.budget else None
    own = run.flow.started if run.flow else 0
    if what.step_budget is not None:
        limit = own + what.step_budget
    elif limit is not None:  # what is left at that place, whoever used the rest
        limit = own + max(limit - source.ledger(run).steps, 0)
    budget = payload.budget
    if limit is not None:
        budget = (budget or Budget()).model_copy(update={"max_steps": limit})
    return payload.model_copy(
        update={
            "kind": "fork",
            "origin": (run_id, what.at),
            "earlier": earlier,
            "budget": budget,
            "parent_run_id": None,
            "parent_call_id": None,
            "depth": 0,
        }
    )


def _snapshot(kept: Sequence[Event], run_id: RunId, new_id: RunId) -> SessionSnapshot:
    runs = {event.run_id for event in kept}
    ids = {old: new_id + old[len(run_id) :] for old in runs}
    facts = tuple(to_line(event).decode() for event in kept if event.run_id == run_id)
    return SessionSnapshot(facts=facts, ids=ids)


def _below(
    kept: Sequence[Event], run_id: RunId, new_id: RunId
) -> list[tuple[RunId, str, RunStarted, SessionSnapshot]]:
    """Give the runs that were open below the source, as the fork has them."""
    session = _folded(kept)
    found: list[tuple[RunId, str, RunStarted, SessionSnapshot]] = []
    for run in session.tree(run_id):
        if run.run_id == run_id or (run.outcome is not None and not run.is_resumable):
            continue
        own = [event for event in kept if event.run_id == run.run_id]
        payload = own[0].payload
        if not isinstance(payload, RunStarted):
            continue
        parent = payload.parent_run_id or run_id
        started = payload.model_copy(
            update={"kind": "fork", "parent_run_id": new_id + parent[len(run_id) :]}
        )
        name = new_id + run.run_id[len(run_id) :]
        snapshot = _snapshot(kept, run_id, new_id)
        facts = tuple(to_line(event).decode() for event in own)
        found.append((name, own[0].agent, started, snapshot.model_copy(update={"facts": facts})))
    return found
