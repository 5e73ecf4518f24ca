"""When the facts of a run of a graph are written: at once, or when its durability says so.

Law. What waits to be written is lost with the process, and is read as if it were written by who
made it wait. A pause, an answer, and something that acts never wait. Once somebody else wrote in
the meantime, what waits is void, and so is whoever wrote it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from datetime import datetime
from typing import Final, TypeVar, cast

from loom_ia.core.errors import (
    ClaimConflict,
    JournalCorrupted,
    JournalError,
    NewerJournal,
    RaceError,
    RunExists,
    RunMoved,
    StoreError,
    told,
)
from loom_ia.core.events.approval import ApprovalRequested
from loom_ia.core.events.envelope import Event
from loom_ia.core.events.graph import EffectRecorded
from loom_ia.core.events.query import EventQuery
from loom_ia.core.events.run import (
    RunCancelled,
    RunClaimed,
    RunCompleted,
    RunFailed,
    RunResumed,
)
from loom_ia.core.events.tool import ToolCalled
from loom_ia.core.ids import RunId, SessionId, TenantId
from loom_ia.core.ports.journal import (
    Damage,
    DriverLocks,
    Journal,
    SequenceConflict,
    SessionPage,
)
from loom_ia.graph.errors import CorruptCheckpoint
from loom_ia.graph.types import Durability

_log = logging.getLogger("loom_ia.graph")

_BATCH_S: Final = 1.0

T = TypeVar("T")


class WriteFailed(JournalError):
    """A fact could not be written; the cause is what the store raised."""

    def __init__(self) -> None:
        super().__init__("a fact could not be written")


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
        self._overtaken: RaceError | None = None
        self._claim: Event | None = None
        self._lock = asyncio.Lock()

    @property
    def durable(self) -> bool:
        return self._journal.durable

    @property
    def locks(self) -> DriverLocks | None:
        return self._journal.locks

    @property
    def is_behind(self) -> bool:
        """Whether something waits to be written."""
        return bool(self._waiting)

    @property
    def was_overtaken(self) -> bool:
        """Whether somebody wrote before what waited here, which is void."""
        return self._overtaken is not None

    def append(
        self, batch: Sequence[Event], *, expected: int, sync: bool
    ) -> Awaitable[int | SequenceConflict]:
        """Write a batch, or let it wait."""
        if self._mode is Durability.REQUIRED:
            return self._write(batch, expected, sync)
        return self._append(batch, expected, sync)

    async def _append(
        self, batch: Sequence[Event], expected: int, sync: bool
    ) -> int | SequenceConflict:
        if self._overtaken is not None:
            raise self._overtaken
        if self._waiting and expected < self._waiting[-1].seq:
            return SequenceConflict(expected, tuple(e for e in self._waiting if e.seq > expected))
        must = any(_must_be_written(event, sync=sync) for event in batch)
        if not must and (self._mode is Durability.NONE or self._may_wait(batch)):
            self._waiting += batch
            return batch[-1].seq
        async with self._lock:
            try:
                return await self._write_with(batch, sync)
            except WriteFailed as error:
                if must:
                    raise
                self._put_off(error)
                self._waiting += batch
                return batch[-1].seq

    def _may_wait(self, batch: Sequence[Event]) -> bool:
        if self._mode is not Durability.BATCHED or any(_ends(event) for event in batch):
            return False
        if self._flushing is None or self._flushing.done():
            self._flushing = asyncio.create_task(self._write_soon())
        return True

    async def _write_soon(self) -> None:
        await asyncio.sleep(_BATCH_S)
        await self._write_what_waits()

    async def settle(self, now: datetime) -> None:
        """Write what waits, now that a drive is over.

        Under `NONE` it is dropped; a claim that was written is handed back, so that the next one
        who asks goes on from what was written.
        """
        if self._flushing is not None:
            self._flushing.cancel()
        if self._mode is not Durability.NONE:
            await self._write_what_waits()
        elif self._waiting and self._claim is not None and self._overtaken is None:
            await self._hand_back(self._claim, now)

    async def _hand_back(self, claim: Event, now: datetime) -> None:
        """Write, after what was written, that nobody drives: what waits is left out."""
        told = cast("RunClaimed", claim.payload)
        freed = RunClaimed(worker_id=told.worker_id, lease_until=now, lock=told.lock)
        last = self._waiting[0].seq - 1
        event = self._waiting[-1].model_copy(
            update={
                "seq": last + 1,
                "ts": now,
                "run_id": claim.run_id,
                "agent": claim.agent,
                "role": None,
                "span_id": claim.span_id,
                "parent_span_id": claim.parent_span_id,
                "payload": freed,
            }
        )
        try:
            await self._write((event,), last, sync=False)
        except (WriteFailed, RunExists) as error:
            _log.warning("run %s is not handed back: %s", claim.run_id, type(error).__name__)

    async def _write_what_waits(self) -> None:
        async with self._lock:
            try:
                if self._waiting and self._overtaken is None:
                    await self._write_with((), sync=False)
            except WriteFailed as error:
                self._put_off(error)
            except RaceError:
                return  # told at the next write

    async def _write_with(self, batch: Sequence[Event], sync: bool) -> int | SequenceConflict:
        """Write what waits and a batch, the lock being held."""
        before = len(self._waiting)
        facts = [*self._waiting, *batch]
        outcome = await self._write(facts, facts[0].seq - 1, sync)
        if isinstance(outcome, SequenceConflict) and (landed := _landed(outcome, facts)):
            outcome = facts[-1].seq  # a write that failed had been done all the same
            if facts[landed:]:
                outcome = await self._write(facts[landed:], facts[landed].seq - 1, sync)
        if not isinstance(outcome, SequenceConflict):
            del self._waiting[:before]
        elif before:
            self._waiting.clear()
            self._overtaken = _overtaken(outcome)
            raise self._overtaken
        return outcome

    def _put_off(self, error: WriteFailed) -> None:
        _log.warning("facts are not written yet: %s", type(error.__cause__).__name__)

    async def _write(
        self, batch: Sequence[Event], expected: int, sync: bool
    ) -> int | SequenceConflict:
        try:
            outcome = await self._journal.append(batch, expected=expected, sync=sync)
        except RunExists:
            raise
        except Exception as error:
            raise WriteFailed from error
        if self._mode is Durability.NONE and not isinstance(outcome, SequenceConflict):
            claims = (event for event in batch if isinstance(event.payload, RunClaimed))
            self._claim = next(claims, self._claim)
        return outcome

    async def flush(self) -> None:
        """Flush what was written, and a call that waits: it is about to act."""
        if any(isinstance(event.payload, ToolCalled) for event in self._waiting):
            async with self._lock:
                await self._write_with((), sync=True)
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


def _must_be_written(event: Event, *, sync: bool) -> bool:
    """Whether a fact is written under any durability.

    A pause, what somebody says from outside, an effect that is about to begin: a call that is
    flushed before it starts is one that acts.
    """
    match event.payload:
        case ApprovalRequested() | RunResumed() | RunCancelled():
            return True
        case EffectRecorded() as effect:
            return effect.phase == "started"
        case ToolCalled():
            return sync
        case _:
            return False


def _ends(event: Event) -> bool:
    return isinstance(event.payload, RunCompleted | RunFailed | RunCancelled)


def _landed(conflict: SequenceConflict, facts: Sequence[Event]) -> int:
    """Count the facts that are written already, 0 if somebody else wrote too."""
    ours = {fact.event_id for fact in facts}
    return len(conflict.tail) if all(e.event_id in ours for e in conflict.tail) else 0


def _overtaken(conflict: SequenceConflict) -> RaceError:
    """Tell who wrote before what waited."""
    for event in reversed(conflict.tail):
        if isinstance(claim := event.payload, RunClaimed):
            return ClaimConflict(event.run_id, claim.worker_id, claim.lease_until)
    return RunMoved("the run was written to elsewhere")
