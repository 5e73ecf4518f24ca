"""Sessions as their owner handles them: list, read, export, delete."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from loom_ia.app.instance import DEFAULT_TENANT, Instance
from loom_ia.core.errors import SessionBusy, UnknownSession
from loom_ia.core.events.envelope import Event
from loom_ia.core.events.fold import fold
from loom_ia.core.events.idempotency import IdempotencyRecorded
from loom_ia.core.events.query import EventQuery
from loom_ia.core.events.run import RunStarted
from loom_ia.core.ids import SessionId, is_reserved
from loom_ia.core.state.run import Status
from loom_ia.core.views.sessions import (
    RunListed,
    RunPage,
    SessionDeletion,
    SessionFile,
    SessionInfo,
    StateValue,
    session_files,
    session_info,
    state_values,
)

_PAGE: Final = 10_000


async def sessions(
    instance: Instance, *, after: SessionId | None = None, limit: int = 100
) -> tuple[SessionInfo, ...]:
    """Describe sessions in the order of their ids, those that follow `after` first."""
    page = await instance.journal.sessions(DEFAULT_TENANT, after=after, limit=limit)
    found = [await _describe(instance, entry.session_id) for entry in page.sessions]
    return tuple(info for info in found if info is not None)


async def session(instance: Instance, session_id: SessionId) -> SessionInfo:
    """Describe one session; raises `UnknownSession`."""
    info = await _describe(instance, session_id)
    if info is None:
        raise _unknown(session_id)
    return info


async def session_events(instance: Instance, session_id: SessionId) -> list[Event]:
    """Read every event of a session; raises `UnknownSession`."""
    events = await _read(instance, session_id)
    if not events:
        raise _unknown(session_id)
    return events


async def session_state(instance: Instance, session_id: SessionId) -> tuple[StateValue, ...]:
    """Read the values that a session keeps, by key; raises `UnknownSession`."""
    return state_values(await session_events(instance, session_id))


async def files(instance: Instance, session_id: SessionId) -> tuple[SessionFile, ...]:
    """Describe the files of a session, oldest first; raises `UnknownSession`."""
    return session_files(await session_events(instance, session_id))


async def export(instance: Instance, session_id: SessionId) -> str:
    """Write a session as JSON Lines, each event in its full form; raises `UnknownSession`."""
    events = await session_events(instance, session_id)
    return "".join(f"{event.model_dump_json()}\n" for event in events)


async def delete(instance: Instance, session_id: SessionId) -> SessionDeletion:
    """Remove a session whole.

    Raises `UnknownSession`, and `SessionBusy` while one of its runs is being driven: cancel it
    first. A paused run goes with its session.
    """
    events = await session_events(instance, session_id)
    now = instance.clock.now()
    for run in fold(events).values():
        lease = run.lease
        if run.is_open and lease is not None and lease.is_live(now):
            locks = instance.journal.locks
            if locks is not None and lease.lock and locks.is_free(lease.lock):
                continue
            raise SessionBusy(
                "run {run_id} of session {session_id} is driven by {worker_id}: cancel it first",
                run_id=run.run_id,
                session_id=session_id,
                worker_id=lease.worker_id,
            )
    keys = await _forget_keys(instance, session_id, events)
    # Events last: if this is cut, the session still tells that there is something to delete.
    store = instance.artifacts
    files = await store.delete(DEFAULT_TENANT, session_id) if store else 0
    removed = await instance.journal.delete(DEFAULT_TENANT, session_id)
    instance.forget(session_id)
    return SessionDeletion(session_id=session_id, events=removed, artifacts=files, keys=keys)


async def _forget_keys(instance: Instance, session_id: SessionId, events: Sequence[Event]) -> int:
    store = instance.idempotency
    if store is not None:
        return await store.forget(DEFAULT_TENANT, session_id)
    return sum(isinstance(event.payload, IdempotencyRecorded) for event in events)


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs to list. `since` is inclusive, `until` exclusive, both about the beginning.

    `limit` bounds the runs that are given, `sessions` the sessions that are read to find them.
    With `agents`, only theirs are kept.
    """

    agent: str | None = None
    status: Sequence[Status] = field(default_factory=tuple[Status, ...])
    since: datetime | None = None
    until: datetime | None = None
    limit: int = 50
    sessions: int = 50
    agents: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for name, value in (("limit", self.limit), ("sessions", self.sessions)):
            if not 1 <= value <= 200:
                raise ValueError(f"{name} must be between 1 and 200, not {value}")

    def keeps(self, listed: RunListed) -> bool:
        """Whether a run is wanted, its beginning aside."""
        if self.agents and listed.agent not in self.agents:
            return False
        return not self.status or listed.status in self.status


async def runs(instance: Instance, wanted: RunFilter) -> RunPage:
    """List runs, the latest first. A page is truncated when older runs may match."""
    begun = await _begun(instance, wanted)
    known: dict[SessionId, SessionInfo | None] = {}
    found: list[RunListed] = []
    for event in reversed(begun):
        home = event.session_id
        if home not in known:
            if len(known) >= wanted.sessions:
                return RunPage(runs=tuple(found), scanned=len(known), truncated=True)
            known[home] = await _describe(instance, home)
        info = known[home]
        listed = next((r for r in info.runs if r.run_id == event.run_id), None) if info else None
        if listed is None or not wanted.keeps(listed):
            continue
        if len(found) == wanted.limit:
            return RunPage(runs=tuple(found), scanned=len(known), truncated=True)
        found.append(listed)
    return RunPage(runs=tuple(found), scanned=len(known), truncated=False)


async def _begun(instance: Instance, wanted: RunFilter) -> list[Event]:
    found: list[Event] = []
    after: str | None = None
    while True:
        query = EventQuery(
            tenant_id=DEFAULT_TENANT,
            types=(RunStarted.TYPE,),
            agent=wanted.agent,
            since=wanted.since,
            until=wanted.until,
            after=after,
            limit=_PAGE,
        )
        page = await instance.journal.query(query)
        found += page
        if len(page) < _PAGE:
            if wanted.agents:
                found = [event for event in found if event.agent in wanted.agents]
            return sorted(found, key=lambda event: (event.ts, event.run_id))
        after = page[-1].event_id


async def _describe(instance: Instance, session_id: SessionId) -> SessionInfo | None:
    return session_info(await _read(instance, session_id), session_id)


async def _read(instance: Instance, session_id: SessionId) -> list[Event]:
    if is_reserved(session_id):
        return []
    return await instance.journal.read(DEFAULT_TENANT, session_id)


def _unknown(session_id: SessionId) -> UnknownSession:
    return UnknownSession("there is no session {session_id} in this journal", session_id=session_id)
