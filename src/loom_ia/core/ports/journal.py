"""The journal: the only truth, an ordered and immutable series of events for each session."""

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from loom_ia.core.events.envelope import Event
from loom_ia.core.events.query import EventQuery
from loom_ia.core.ids import RunId, SessionId, TenantId


@dataclass(frozen=True, slots=True)
class SequenceConflict:
    """Somebody wrote first. `tail` has all that follows the expected event; nothing was written."""

    expected: int
    tail: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class SessionEntry:
    """One session of a listing. `updated_at` is the instant of its last event."""

    session_id: SessionId
    last_seq: int
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class SessionPage:
    """Some sessions in the order of their ids; `next_after` continues the listing, None ends it."""

    sessions: tuple[SessionEntry, ...]
    next_after: SessionId | None


@dataclass(frozen=True, slots=True)
class Damage:
    """A trailing incomplete batch that was set aside: where it is kept, and how many bytes."""

    session_id: SessionId
    kept_in: str
    size: int


class HeldLock(Protocol):
    """An operating-system lock that lives as long as this process holds it."""

    @property
    def name(self) -> str:
        """The name to write in a claim."""
        ...

    def release(self) -> None:
        """Give the lock back; releasing twice does nothing."""
        ...


class DriverLocks(Protocol):
    """Locks that tell whether the process that drives a run still lives."""

    def hold(self, worker_id: str) -> HeldLock:
        """Take the lock of this worker, while the process lives and the journal is open."""
        ...

    def is_free(self, name: str) -> bool:
        """Tell whether nobody holds the lock `name` any more: its process is dead."""
        ...

    def leave_word(self, word: str) -> None:
        """Tell the other processes something, in one line; nobody may hear it."""
        ...

    def words(self) -> Sequence[str]:
        """Give what was told since the last time this was asked; nothing the first time."""
        ...


class Journal(Protocol):
    """A store of events. Every adapter passes the same contract suite.

    A batch is for one session and is atomic: after a crash at any instant it is there whole or
    not at all. A fact is *written* when `append` returns: it survives a killed process. It is
    *flushed*, and survives a power cut, once an `append(…, sync=True)` or a `flush` returned
    after it.

    A stream whose id begins with `/` is reserved to this package. It is no session: `sessions`
    leaves it out, and `query` finds its events only when its `session_id` names it.
    """

    @property
    def durable(self) -> bool:
        """Whether events outlive the process."""
        ...

    @property
    def locks(self) -> DriverLocks | None:
        """Locks of this host, or None when drivers may be on several hosts."""
        ...

    def append(
        self, batch: Sequence[Event], *, expected: int, sync: bool
    ) -> Awaitable[int | SequenceConflict]:
        """Write `batch` after the event `expected` (0: the session is empty) and flush if `sync`.

        The events bear the places that follow `expected`. Returns the last place, or the conflict
        with what was written meanwhile. A `run.started` whose run id was used before, in any
        session of the tenant, raises `RunExists` and nothing is written. Raises `ValueError` when
        the batch is empty or belongs to several sessions, `JournalBusy` when another try may work,
        `JournalCorrupted`, `UnusableId`.

        An `async def` will do. A journal that can write at once does better to return a future,
        which costs its caller no task.
        """
        ...

    async def flush(self) -> None:
        """Flush everything that was written before this call, in every session."""
        ...

    async def read(
        self, tenant_id: TenantId, session_id: SessionId, *, after: int = 0
    ) -> list[Event]:
        """Read the events of a session that follow `after`, in order; none if it is unknown.

        A trailing incomplete batch is set aside and reported in `damages`. Raises
        `JournalCorrupted`, with the place, for damage anywhere else.
        """
        ...

    async def locate(self, tenant_id: TenantId, run_id: RunId) -> SessionId | None:
        """Find the session of a run without reading sessions; None if there is no such run."""
        ...

    async def query(self, query: EventQuery) -> list[Event]:
        """Find events, in the order of writing (by session, then by place, where none is kept)."""
        ...

    async def sessions(
        self, tenant_id: TenantId, *, after: SessionId | None = None, limit: int = 100
    ) -> SessionPage:
        """List the sessions of a tenant in the order of their ids, starting after `after`."""
        ...

    async def delete(self, tenant_id: TenantId, session_id: SessionId) -> int:
        """Remove a session whole, its runs' ids included; returns how many events it had."""
        ...

    def damages(self) -> tuple[Damage, ...]:
        """Report what was set aside since the journal was opened."""
        ...

    async def close(self) -> None:
        """Flush and let go of everything; closing twice does nothing."""
        ...
