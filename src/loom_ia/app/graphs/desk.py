"""Where the runs of a graph are kept when no host is there: a journal, and who drives on it.

A call that drives has a name of its own, so that two calls of one process never take each other's
run for theirs. What drives in this process is known by journal, so that a cancel is felt at once.
"""

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import count
from secrets import token_hex
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

from loom_ia.adapters.journals.memory import MemoryJournal
from loom_ia.adapters.journals.store import StoreJournal
from loom_ia.app.instance import Instance
from loom_ia.core.errors import (
    JournalCorrupted,
    JournalError,
    NewerJournal,
    RunExists,
    StoreError,
    told,
)
from loom_ia.core.events.approval import ApprovalRequested
from loom_ia.core.events.envelope import Event
from loom_ia.core.events.graph import EffectRecorded
from loom_ia.core.events.query import EventQuery
from loom_ia.core.events.run import RunCancelled, RunCompleted, RunFailed
from loom_ia.core.ids import RunId, SessionId, TenantId
from loom_ia.core.ports.journal import (
    Damage,
    DriverLocks,
    HeldLock,
    Journal,
    SequenceConflict,
    SessionPage,
)
from loom_ia.core.ports.store import Store
from loom_ia.engine.clock import SystemClock
from loom_ia.engine.interrupt import Interrupt
from loom_ia.engine.lease import Pilot
from loom_ia.graph.errors import CorruptCheckpoint
from loom_ia.graph.types import Durability

_log = logging.getLogger("loom_ia.graph")

_PROCESS: Final = f"graph-{token_hex(6)}"
_CALLS: Final = count(1)
_BATCH_S: Final = 1.0

T = TypeVar("T")


class WriteFailed(JournalError):
    """A fact could not be written; the cause is what the store raised."""

    def __init__(self) -> None:
        super().__init__("a fact could not be written")


@dataclass(frozen=True, slots=True)
class Desk:
    """A journal, the store that it belongs to if there is one, and what drives on it here."""

    journal: Journal
    store: Store | None
    driven: dict[RunId, Interrupt] = field(default_factory=dict[RunId, Interrupt])
    locks: list[HeldLock] = field(default_factory=list[HeldLock])

    def instance(self, lease: float, durability: Durability) -> Instance:
        """Give somebody who drives one run; `lease` is in seconds."""
        worker = f"{_PROCESS}-{next(_CALLS)}"
        clock = SystemClock()
        instance = Instance(
            journal=Keeping(self.journal, durability),
            clock=clock,
            worker_id=worker,
            lease=timedelta(seconds=lease),
            programs=dict,
            alone=self.store is None,
        )
        locks = self.journal.locks
        if locks is not None and not self.locks:
            self.locks.append(locks.hold(worker))
        name = self.locks[0].name if self.locks else ""
        instance.steer(Pilot(worker, instance.lease, locks, name))
        return instance


_DESKS: Final[WeakKeyDictionary[Any, Desk]] = WeakKeyDictionary()


def desk_of(store: Store | None, graph: str) -> Desk:
    """Give the desk of a store; a private one in memory without a store."""
    if store is None:
        return Desk(MemoryJournal(), None)
    journal = getattr(store, "journal", None)
    if journal is None:
        return _foreign(store, graph)
    return _shared(store, journal)


def _shared(store: Any, journal: Journal) -> Desk:
    try:
        desk = _DESKS.get(store)
        if desk is None:  # kept without the store, which it would hold alive
            desk = _DESKS[store] = Desk(journal, None)
    except TypeError:  # an object that cannot be remembered is only forgotten
        return Desk(journal, store)
    return replace(desk, store=store)


def _foreign(store: Any, graph: str) -> Desk:
    try:
        known = _FOREIGN.setdefault(store, {})
    except TypeError:
        return Desk(StoreJournal(store, graph), store)
    return Desk(StoreJournal(store, graph), store, known.setdefault(graph, {}))


_FOREIGN: Final[WeakKeyDictionary[Any, dict[str, dict[RunId, Interrupt]]]] = WeakKeyDictionary()


class Keeping:
    """A journal that writes when the durability of a graph says so, and tells failures apart.

    A failed write is a `WriteFailed`, a failed read a `StoreError`. What waits to be written is
    read as if it were; it is lost with the process.
    """

    def __init__(self, journal: Journal, mode: Durability) -> None:
        self._journal = journal
        self._mode = mode
        self._waiting: list[Event] = []
        self._flushing: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()

    @property
    def durable(self) -> bool:
        return self._journal.durable

    @property
    def locks(self) -> DriverLocks | None:
        return self._journal.locks

    def append(
        self, batch: Sequence[Event], *, expected: int, sync: bool
    ) -> Awaitable[int | SequenceConflict]:
        """Write a batch, or let it wait."""
        return self._append(batch, expected, sync)

    async def _append(
        self, batch: Sequence[Event], expected: int, sync: bool
    ) -> int | SequenceConflict:
        if self._mode is Durability.REQUIRED:
            return await self._write(batch, expected, sync)
        if self._waiting and expected < self._waiting[-1].seq:
            return SequenceConflict(expected, tuple(e for e in self._waiting if e.seq > expected))
        must = any(_must_be_written(event) for event in batch)
        if not must and (self._mode is Durability.NONE or self._may_wait(batch)):
            self._waiting += batch
            return batch[-1].seq
        async with self._lock:
            waiting = [*self._waiting, *batch]
            try:
                outcome = await self._write(waiting, waiting[0].seq - 1, sync)
            except WriteFailed as error:
                if must or self._mode is not Durability.BEST_EFFORT:
                    raise
                _log.warning("a fact is not written yet: %s", type(error.__cause__).__name__)
                self._waiting = waiting
                return batch[-1].seq
            if isinstance(outcome, SequenceConflict):
                self._waiting = []
                return outcome
            self._waiting = []
            return outcome

    def _may_wait(self, batch: Sequence[Event]) -> bool:
        if self._mode is not Durability.BATCHED or any(_ends(event) for event in batch):
            return False
        if self._flushing is None or self._flushing.done():
            self._flushing = asyncio.create_task(self._write_soon())
        return True

    async def _write_soon(self) -> None:
        await asyncio.sleep(_BATCH_S)
        async with self._lock:
            waiting = list(self._waiting)
            if not waiting:
                return
            try:
                await self._write(waiting, waiting[0].seq - 1, sync=False)
            except WriteFailed as error:
                _log.warning("facts are not written yet: %s", type(error.__cause__).__name__)
                return
            self._waiting = [event for event in self._waiting if event.seq > waiting[-1].seq]

    async def _write(
        self, batch: Sequence[Event], expected: int, sync: bool
    ) -> int | SequenceConflict:
        try:
            return await self._journal.append(batch, expected=expected, sync=sync)
        except RunExists:
            raise
        except Exception as error:
            raise WriteFailed from error

    async def flush(self) -> None:
        """Flush what was written."""
        try:
            await self._journal.flush()
        except Exception as error:
            raise WriteFailed from error

    async def read(
        self, tenant_id: TenantId, session_id: SessionId, *, after: int = 0
    ) -> list[Event]:
        """Read a session, with what waits to be written."""
        events = await self._reading(self._journal.read(tenant_id, session_id, after=after))
        last = events[-1].seq if events else after
        return [*events, *(event for event in self._waiting if event.seq > last)]

    async def locate(self, tenant_id: TenantId, run_id: RunId) -> SessionId | None:
        """Find the session of a run."""
        return await self._reading(self._journal.locate(tenant_id, run_id))

    async def query(self, query: EventQuery) -> list[Event]:
        """Find events."""
        return await self._reading(self._journal.query(query))

    async def sessions(
        self, tenant_id: TenantId, *, after: SessionId | None = None, limit: int = 100
    ) -> SessionPage:
        """List sessions."""
        return await self._reading(self._journal.sessions(tenant_id, after=after, limit=limit))

    async def delete(self, tenant_id: TenantId, session_id: SessionId) -> int:
        """Remove a session."""
        return await self._journal.delete(tenant_id, session_id)

    def damages(self) -> tuple[Damage, ...]:
        """Report what was set aside."""
        return self._journal.damages()

    async def close(self) -> None:
        """Let go of what waits; the journal is its owner's to close."""
        if self._flushing is not None:
            self._flushing.cancel()

    async def _reading(self, work: Awaitable[T]) -> T:
        try:
            return await work
        except (NewerJournal, StoreError):
            raise
        except JournalCorrupted as error:
            raise CorruptCheckpoint(error.template, **error.params) from error
        except (JournalError, OSError) as error:
            raise StoreError("the store cannot be read: {reason}", reason=told(error)) from error


def _must_be_written(event: Event) -> bool:
    """Whether a fact is written under any durability: a pause, an effect that is about to begin."""
    payload = event.payload
    if isinstance(payload, EffectRecorded):
        return payload.phase == "started"
    return isinstance(payload, ApprovalRequested)


def _ends(event: Event) -> bool:
    return isinstance(event.payload, RunCompleted | RunFailed | RunCancelled)
