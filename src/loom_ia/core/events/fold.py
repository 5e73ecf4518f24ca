"""Folding: what a run is once its facts are applied, one at a time.

This is the only way to a state. Every reader uses it: the log that drives, the views, the tests.
"""

from collections.abc import Iterable

from loom_ia.core.errors import NewerJournal
from loom_ia.core.events.codec import from_line
from loom_ia.core.events.envelope import Draft, Event
from loom_ia.core.events.run import RunStarted, SessionSnapshot
from loom_ia.core.ids import RunId
from loom_ia.core.state.calls import Call, to_run_again
from loom_ia.core.state.run import Header, RunState


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
        return _forked(run, payload, fact)
    after = payload.evolve(run, fact)
    return after.touched(fact.ts) if payload.BY_DRIVER else after


def gone_back(header: Header, snapshot: SessionSnapshot) -> RunState | None:
    """Give the source of a fork as it was where the fork leaves it."""
    source: RunState | None = None
    for line in snapshot.facts:
        event = from_line(line, tenant_id=header.tenant_id, session_id=header.session_id)
        source = begin(event) if source is None else apply(source, event)
    return source


def _forked(run: RunState, snapshot: SessionSnapshot, fact: Draft | Event) -> RunState:
    """Give a fork as its source was: where it stood, and what it had done, at no cost.

    What was asked is asked again under another name, and a step that had failed runs again.
    """
    source = gone_back(run.header, snapshot)
    if source is None:
        return run
    ids = snapshot.ids
    table: list[Call] = []
    for index, call in enumerate(source.table):
        name = f"{fact.event_id}.{index}"
        asked = call.question.but(id=name, told=()) if call.question else None
        table.append(
            to_run_again(call).but(
                child_run_id=ids.get(call.child_run_id, call.child_run_id),
                launched_in="",
                driven_in="",
                question=asked if call.output is None else None,
                inquiries=tuple(
                    inquiry.but(id=f"{name}.{rank}", told=()) if inquiry.is_open else inquiry
                    for rank, inquiry in enumerate(call.inquiries)
                ),
            )
        )
    return source.but(
        header=run.header,
        table=tuple(table) if source.flow else source.table,
        flow=source.flow.but(segment=0, stopped=False) if source.flow else None,
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
