"""The journal over any store of values that has the five methods, for the runs of one graph.

One event is one key of the namespace `journal:<graph>`: `<session>/<12-digit place>`, where the
session bears the id of the root run, and the value is the stored line. So keys sort in the order of
events, and a listing by prefix is a session. A batch is written in one transaction, which has read
first that its places are free: nothing is ever written over. How well two processes are kept apart
is how well the store isolates its transactions.

A run that begins its own session is found by its first key. Any other one has a key of its own in
the namespace `runs:<graph>`, with its session as the value, written in the same transaction.

What the store raises on a write goes through as it is; on a read it becomes a `StoreError`.
"""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Final, cast

from loom_ia.adapters.journals.batch import check_batch, run_exists
from loom_ia.adapters.journals.memory import following
from loom_ia.core.errors import JournalCorrupted, JournalError, StoreError, told
from loom_ia.core.events.codec import from_line, to_line
from loom_ia.core.events.envelope import Event
from loom_ia.core.events.query import EventQuery
from loom_ia.core.events.run import RunStarted
from loom_ia.core.ids import RunId, SessionId, TenantId, is_reserved
from loom_ia.core.ports.journal import (
    Damage,
    DriverLocks,
    SequenceConflict,
    SessionEntry,
    SessionPage,
)
from loom_ia.core.ports.store import Store

_DIGITS: Final = 12
_UNTOLD: Final = datetime.fromtimestamp(0, UTC)


class StoreJournal:
    """A journal in `store`, which stays its owner's to close.

    Other tenants than `tenant_id` have namespaces of their own, that begin with `tenant:<id>:`.
    """

    def __init__(self, store: Store, graph: str, *, tenant_id: TenantId = "default") -> None:
        self._store = store
        self._graph = graph
        self._tenant_id = tenant_id

    @property
    def durable(self) -> bool:
        return True

    @property
    def locks(self) -> DriverLocks | None:
        return None

    async def append(
        self, batch: Sequence[Event], *, expected: int, sync: bool
    ) -> int | SequenceConflict:
        tenant_id, session_id = check_batch(batch, expected)
        ns = self._events(tenant_id)
        async with self._store.tx() as tx:
            is_due = await _is_due(tx, ns, session_id, expected)
            if is_due:
                for event in batch:
                    if isinstance(event.payload, RunStarted):
                        await self._claim(tx, event)
                    await tx.put(ns, _key(session_id, event.seq), to_line(event))
        if is_due:
            return expected + len(batch)
        tail = await self.read(tenant_id, session_id, after=expected)
        return SequenceConflict(expected, tuple(tail))

    async def _claim(self, tx: Store, event: Event) -> None:
        """Make the run that begins with `event` known; raises `RunExists`."""
        owner = await self._home(tx, event.tenant_id, event.run_id)
        if owner is not None:
            raise run_exists(event.run_id, owner)
        if not _begins(event):
            runs = self._runs(event.tenant_id)
            await tx.put(runs, event.run_id, event.session_id.encode())

    async def flush(self) -> None:
        pass

    async def read(
        self, tenant_id: TenantId, session_id: SessionId, *, after: int = 0
    ) -> list[Event]:
        ns = self._events(tenant_id)
        last = (await self._places(ns, f"{session_id}/")).get(session_id, 0)
        return [await self._event(tenant_id, session_id, seq) for seq in range(after + 1, last + 1)]

    async def locate(self, tenant_id: TenantId, run_id: RunId) -> SessionId | None:
        with _reading():
            home = await self._home(self._store, tenant_id, run_id)
        if home is not None:
            return home
        root, slash, _ = run_id.partition("/")
        if slash and root:  # its own key may be missing where only events were copied
            events = await self.read(tenant_id, root)
            if any(e.run_id == run_id and isinstance(e.payload, RunStarted) for e in events):
                return root
        return None

    async def query(self, query: EventQuery) -> list[Event]:
        if query.session_id is None:
            places = await self._places(self._events(query.tenant_id))
            sessions = sorted(name for name in places if not is_reserved(name))
        else:
            sessions = [query.session_id]
        events: list[Event] = []
        for session_id in sessions:
            events += await self.read(query.tenant_id, session_id)
        if query.after is not None:
            events = following(events, query.after)
        return [event for event in events if query.matches(event)][: query.limit]

    async def sessions(
        self, tenant_id: TenantId, *, after: SessionId | None = None, limit: int = 100
    ) -> SessionPage:
        places = await self._places(self._events(tenant_id))
        listed = (name for name in places if not is_reserved(name))
        ids = sorted(name for name in listed if after is None or name > after)
        entries: list[SessionEntry] = []
        for session_id in ids[:limit]:
            last = places[session_id]
            try:
                updated_at = (await self._event(tenant_id, session_id, last)).ts
            except JournalError:  # told by who reads the session; the others are listed
                updated_at = _UNTOLD
            entries.append(SessionEntry(session_id, last, updated_at))
        return SessionPage(tuple(entries), ids[limit - 1] if len(ids) > limit else None)

    async def delete(self, tenant_id: TenantId, session_id: SessionId) -> int:
        ns = self._events(tenant_id)
        many = 0
        async with self._store.tx() as tx:
            for key in await tx.list(ns, f"{session_id}/"):
                place = _place(key)
                if place is None or place[0] != session_id:
                    continue
                with suppress(JournalError):  # it tells no run
                    event = self._decoded(await _get(tx, ns, key), tenant_id, *place)
                    if isinstance(event.payload, RunStarted):
                        await tx.delete(self._runs(tenant_id), event.run_id)
                await tx.delete(ns, key)
                many += 1
        return many

    def damages(self) -> tuple[Damage, ...]:
        return ()

    async def close(self) -> None:
        pass

    async def _home(self, store: Store, tenant_id: TenantId, run_id: RunId) -> SessionId | None:
        named = await _get(store, self._runs(tenant_id), run_id)
        if named is not None:
            return named.decode(errors="replace")
        line = await _get(store, self._events(tenant_id), _key(run_id, 1))
        if line is None:
            return None
        return run_id if _begins(self._decoded(line, tenant_id, run_id, 1)) else None

    async def _event(self, tenant_id: TenantId, session_id: SessionId, seq: int) -> Event:
        with _reading():
            line = await _get(self._store, self._events(tenant_id), _key(session_id, seq))
        return self._decoded(line, tenant_id, session_id, seq)

    def _decoded(
        self, line: bytes | None, tenant_id: TenantId, session_id: SessionId, seq: int
    ) -> Event:
        ns, key = self._events(tenant_id), _key(session_id, seq)
        if line is None:
            raise _corrupted(ns, key, "this event is missing, and later ones are there")
        try:
            event = from_line(line, tenant_id=tenant_id, session_id=session_id)
        except JournalCorrupted as error:
            raise _corrupted(ns, key, str(error)) from error
        if event.seq != seq:
            raise _corrupted(ns, key, f"event {seq} is due, not {event.seq}")
        return event

    async def _places(self, ns: str, prefix: str = "") -> Mapping[SessionId, int]:
        """Give the last place of each session whose keys begin with `prefix`."""
        with _reading():
            keys = await self._store.list(ns, prefix)
        last: dict[SessionId, int] = {}
        for place in map(_place, keys):
            if place is not None:
                last[place[0]] = max(place[1], last.get(place[0], 0))
        return last

    def _events(self, tenant_id: TenantId) -> str:
        return f"{self._before(tenant_id)}journal:{self._graph}"

    def _runs(self, tenant_id: TenantId) -> str:
        return f"{self._before(tenant_id)}runs:{self._graph}"

    def _before(self, tenant_id: TenantId) -> str:
        return "" if tenant_id == self._tenant_id else f"tenant:{tenant_id}:"


async def _is_due(tx: Store, ns: str, session_id: SessionId, expected: int) -> bool:
    """Tell whether the event after `expected` is the next one."""
    if await _get(tx, ns, _key(session_id, expected + 1)) is not None:
        return False
    return expected == 0 or await _get(tx, ns, _key(session_id, expected)) is not None


async def _get(store: Store, ns: str, key: str) -> bytes | None:
    try:
        value = cast("object", await store.get(ns, key))
    except KeyError:  # `KeyNotFound` is one, and a store of somebody else's may raise its own
        return None
    if not isinstance(value, bytes | bytearray | memoryview):
        raise _corrupted(ns, key, f"its value is {type(value).__name__}, and must be bytes")
    return bytes(cast("bytes", value))


@contextmanager
def _reading() -> Generator[None]:
    """Tell the failure of a store that is being read as one of ours."""
    try:
        yield
    except (StoreError, JournalError):
        raise
    except Exception as error:
        raise StoreError("the store does not answer: {reason}", reason=told(error)) from error


def _begins(event: Event) -> bool:
    """Whether this begins a run that its session is named after."""
    is_first = event.seq == 1 and event.run_id == event.session_id
    return is_first and isinstance(event.payload, RunStarted)


def _key(session_id: SessionId, seq: int) -> str:
    return f"{session_id}/{seq:0{_DIGITS}}"


def _place(key: str) -> tuple[SessionId, int] | None:
    """Read a key back; None when it is none of ours."""
    session_id, slash, digits = key.rpartition("/")
    if not slash or len(digits) != _DIGITS or not (digits.isascii() and digits.isdigit()):
        return None
    return session_id, int(digits)


def _corrupted(ns: str, key: str, reason: str) -> JournalCorrupted:
    return JournalCorrupted(
        "key {key!r} in {ns!r}: {reason}; nothing after it was read, restore it from a copy",
        key=key,
        ns=ns,
        reason=reason,
    )
