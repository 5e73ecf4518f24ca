"""Journals for tests: one that forgets what a crash would have lost, one that counts.

They keep the contract of every journal, so that what runs on them runs on the real ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from loom_ia.adapters.journals.memory import MemoryJournal
from loom_ia.core.events.codec import to_line
from loom_ia.core.events.envelope import Event
from loom_ia.core.events.query import EventQuery
from loom_ia.core.ids import RunId, SessionId, TenantId
from loom_ia.core.ports.journal import (
    Damage,
    DriverLocks,
    Journal,
    SequenceConflict,
    SessionPage,
)

CrashLevel: TypeAlias = Literal["kill", "power"]


class PowerLossJournal(MemoryJournal):
    """A journal in memory that knows what was flushed.

    `after_crash` gives the journal that the next process would find: everything written when the
    process was killed, only what was flushed when the power was cut.
    """

    def __init__(self) -> None:
        super().__init__()
        self._flushed: list[tuple[Event, ...]] = []
        self._unflushed: list[tuple[Event, ...]] = []

    @property
    def durable(self) -> bool:
        return True

    async def append(
        self, batch: Sequence[Event], *, expected: int, sync: bool
    ) -> int | SequenceConflict:
        outcome = await super().append(batch, expected=expected, sync=sync)
        if not isinstance(outcome, SequenceConflict):
            self._unflushed.append(tuple(batch))
            if sync:
                await self.flush()
        return outcome

    async def flush(self) -> None:
        self._flushed += self._unflushed
        self._unflushed.clear()

    async def delete(self, tenant_id: TenantId, session_id: SessionId) -> int:
        for batches in (self._flushed, self._unflushed):
            batches[:] = [
                batch
                for batch in batches
                if (batch[0].tenant_id, batch[0].session_id) != (tenant_id, session_id)
            ]
        return await super().delete(tenant_id, session_id)

    async def close(self) -> None:
        await self.flush()

    async def after_crash(self, level: CrashLevel) -> "PowerLossJournal":
        """Build the journal that survives; this one is left as it is."""
        survivor = PowerLossJournal()
        survivors = self._flushed if level == "power" else self._flushed + self._unflushed
        for batch in survivors:
            outcome = await survivor.append(batch, expected=batch[0].seq - 1, sync=True)
            if isinstance(outcome, SequenceConflict):
                raise AssertionError(f"a flushed batch lacks what came before it: {batch[0].seq}")
        return survivor


@dataclass(slots=True)
class JournalCounts:
    """How often a journal was asked. `syncs` counts flushes, alone or as part of an append."""

    appends: int = 0
    conflicts: int = 0
    syncs: int = 0
    reads: int = 0
    queries: int = 0
    events: int = 0
    bytes: int = 0


class JournalSpy:
    """Count what passes to `journal`. `bytes` stays 0 unless `measure`: it encodes once more."""

    def __init__(self, journal: Journal, *, measure: bool = False) -> None:
        self.journal = journal
        self.counts = JournalCounts()
        self._measure = measure

    @property
    def durable(self) -> bool:
        return self.journal.durable

    @property
    def locks(self) -> DriverLocks | None:
        return self.journal.locks

    async def append(
        self, batch: Sequence[Event], *, expected: int, sync: bool
    ) -> int | SequenceConflict:
        counts = self.counts
        counts.appends += 1
        outcome = await self.journal.append(batch, expected=expected, sync=sync)
        if isinstance(outcome, SequenceConflict):
            counts.conflicts += 1
            return outcome
        counts.syncs += sync
        counts.events += len(batch)
        if self._measure:
            counts.bytes += sum(len(to_line(event)) + 1 for event in batch)
        return outcome

    async def flush(self) -> None:
        self.counts.syncs += 1
        await self.journal.flush()

    async def read(
        self, tenant_id: TenantId, session_id: SessionId, *, after: int = 0
    ) -> list[Event]:
        self.counts.reads += 1
        return await self.journal.read(tenant_id, session_id, after=after)

    async def locate(self, tenant_id: TenantId, run_id: RunId) -> SessionId | None:
        return await self.journal.locate(tenant_id, run_id)

    async def query(self, query: EventQuery) -> list[Event]:
        self.counts.queries += 1
        return await self.journal.query(query)

    async def sessions(
        self, tenant_id: TenantId, *, after: SessionId | None = None, limit: int = 100
    ) -> SessionPage:
        return await self.journal.sessions(tenant_id, after=after, limit=limit)

    async def delete(self, tenant_id: TenantId, session_id: SessionId) -> int:
        return await self.journal.delete(tenant_id, session_id)

    def damages(self) -> tuple[Damage, ...]:
        return self.journal.damages()

    async def close(self) -> None:
        await self.journal.close()
