"""The journal in memory: the shortest one that keeps the contract, and the first to pass it.

It keeps the events themselves. No method suspends, so that a run in memory costs no turn of the
loop; everything is gone with the process.
"""

from collections.abc import Sequence
from itertools import islice
from threading import Lock

from loom_ia.adapters.journals.batch import check_batch, run_exists, started_runs
from loom_ia.core.events.envelope import Event
from loom_ia.core.events.query import EventQuery
from loom_ia.core.ids import RunId, SessionId, TenantId, is_reserved
from loom_ia.core.ports.journal import (
    Damage,
    DriverLocks,
    SequenceConflict,
    SessionEntry,
    SessionPage,
)


class MemoryJournal:
    """A journal that lives as long as the object."""

    def __init__(self) -> None:
        self._sessions: dict[TenantId, dict[SessionId, list[Event]]] = {}
        self._runs: dict[tuple[TenantId, RunId], SessionId] = {}
        self._written: dict[TenantId, list[Event]] = {}
        self._lock = Lock()

    @property
    def durable(self) -> bool:
        return False

    @property
    def locks(self) -> DriverLocks | None:
        return None

    async def append(
        self, batch: Sequence[Event], *, expected: int, sync: bool
    ) -> int | SequenceConflict:
        tenant_id, session_id = check_batch(batch, expected)
        with self._lock:
            session = self._session(tenant_id, session_id)
            if len(session) != expected:
                return SequenceConflict(expected, tuple(session[expected:]))
            runs = started_runs(batch)
            for at, run_id in enumerate(runs):
                if (tenant_id, run_id) in self._runs or run_id in runs[:at]:
                    raise run_exists(run_id, self._runs.get((tenant_id, run_id), session_id))
            for run_id in runs:
                self._runs[tenant_id, run_id] = session_id
            self._sessions.setdefault(tenant_id, {}).setdefault(session_id, session).extend(batch)
            if not is_reserved(session_id):
                self._written.setdefault(tenant_id, []).extend(batch)
            return len(session)

    async def flush(self) -> None:
        pass

    async def read(
        self, tenant_id: TenantId, session_id: SessionId, *, after: int = 0
    ) -> list[Event]:
        return self._session(tenant_id, session_id)[after:]

    async def locate(self, tenant_id: TenantId, run_id: RunId) -> SessionId | None:
        return self._runs.get((tenant_id, run_id))

    async def query(self, query: EventQuery) -> list[Event]:
        if query.session_id is None:
            events = self._written.get(query.tenant_id, [])
        else:
            events = self._session(query.tenant_id, query.session_id)
        if query.after is not None:
            events = following(events, query.after)
        return list(islice(filter(query.matches, events), query.limit))

    async def sessions(
        self, tenant_id: TenantId, *, after: SessionId | None = None, limit: int = 100
    ) -> SessionPage:
        sessions = self._sessions.get(tenant_id, {})
        listed = (key for key in sessions if not is_reserved(key))
        ids = sorted(key for key in listed if after is None or key > after)
        entries = tuple(
            SessionEntry(key, len(sessions[key]), sessions[key][-1].ts) for key in ids[:limit]
        )
        return SessionPage(entries, ids[limit - 1] if len(ids) > limit else None)

    async def delete(self, tenant_id: TenantId, session_id: SessionId) -> int:
        with self._lock:
            gone = self._sessions.get(tenant_id, {}).pop(session_id, [])
            for run_id in started_runs(gone):
                del self._runs[tenant_id, run_id]
            if gone and not is_reserved(session_id):
                kept = [e for e in self._written[tenant_id] if e.session_id != session_id]
                self._written[tenant_id] = kept
            return len(gone)

    def damages(self) -> tuple[Damage, ...]:
        return ()

    async def close(self) -> None:
        pass

    def _session(self, tenant_id: TenantId, session_id: SessionId) -> list[Event]:
        return self._sessions.get(tenant_id, {}).get(session_id, [])


def following(events: list[Event], after: str) -> list[Event]:
    """Give those after the event of that id; those made later when none bears it."""
    for index, event in enumerate(events):
        if event.event_id == after:
            return events[index + 1 :]
    return [event for event in events if event.event_id > after]
