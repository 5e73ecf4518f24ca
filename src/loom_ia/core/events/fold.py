"""Folding: what a run is once its facts are applied, one at a time.

This is the only way to a state. Every reader uses it: the log that drives, the views, the tests.
"""

from collections.abc import Iterable

from loom_ia.core.errors import NewerJournal
from loom_ia.core.events.codec import from_line
from loom_ia.core.events.envelope import Draft, Event
from loom_ia.core.events.run import RunStarted, SessionSnapshot
from loom_ia.core.ids import RunId
from loom_ia.core.state.run import RunState


def begin(event: Event) -> RunState:
    """Give the state of a run whose first event this is."""
    payload = event.payload
    if isinstance(payload, RunStarted):
        return payload.begin(event)
    raise NewerJournal(
        "run {run_id} begins with {type} at {seq}, not with run.started",
        run_id=event.run_id,
        type=event.type,
        seq=event.seq,
    )


def apply(run: RunState, fact: Draft | Event) -> RunState:
    """Give what `run` is once this was written."""
    payload = fact.payload
    if isinstance(payload, SessionSnapshot):
        return _gone_back(run, payload)
    after = payload.evolve(run, fact)
    return after.touched(fact.ts) if payload.BY_DRIVER else after


def _gone_back(run: RunState, snapshot: SessionSnapshot) -> RunState:
    """Give a fork as its source was: where it stood, and what it had done, at no cost."""
    header, source = run.header, None
    for line in snapshot.facts:
        event = from_line(line, tenant_id=header.tenant_id, session_id=header.session_id)
        source = begin(event) if source is None else apply(source, event)
    if source is None:
        return run
    ids = snapshot.ids
    table = tuple(
        call.but(child_run_id=ids.get(call.child_run_id, call.child_run_id), launched_in="")
        for call in source.table
    )
    flow = source.flow.but(segment=0) if source.flow else None
    return source.but(
        header=header,
        table=table,
        flow=flow,
        spent=run.spent,
        lease=run.lease,
        drives=run.drives,
        active=run.active,
        driven_since=run.driven_since,
        outcome=None,
    )


def fold(events: Iterable[Event]) -> dict[RunId, RunState]:
    """Give the runs of a session by id, in the order in which they began."""
    runs: dict[RunId, RunState] = {}
    for event in events:
        run = runs.get(event.run_id)
        runs[event.run_id] = begin(event) if run is None else apply(run, event)
    return runs
