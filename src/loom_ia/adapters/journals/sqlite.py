"""The journal in one SQLite file, for any number of processes of one host.

A batch is one transaction. It is written in the loop's own thread when nobody is in the way: that
takes some twenty microseconds, less than a hop to a thread. It is only a write into the kernel's
memory, for commits do not flush. Whatever may wait (another process's lock, a conflict to tell,
the first opening) is done again from the start in the thread of writes.

A flush is one `fdatasync` of the write-ahead log. That is what `synchronous = FULL` does at each
commit (https://sqlite.org/wal.html, `walFrames` in wal.c), except that here any number of
writers share it: it covers every frame before it, since the log is a single file, and what is no
longer in the log was flushed into the database by the checkpoint that took it out. The log keeps
its inode as long as one connection is open.

Three threads at most: writes that wait, reads, flushes. None waits for another's work.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

from loom_ia.adapters.journals.batch import check_batch
from loom_ia.adapters.journals.driver_locks import FileDriverLocks
from loom_ia.adapters.journals.flock import PATIENCE_S
from loom_ia.adapters.journals.flusher import Flusher, done
from loom_ia.adapters.journals.sqlite_reading import SqliteReader
from loom_ia.adapters.journals.sqlite_writing import SqliteWriter
from loom_ia.core.errors import JournalError
from loom_ia.core.events.codec import to_line
from loom_ia.core.events.envelope import Event
from loom_ia.core.events.query import EventQuery
from loom_ia.core.ids import RunId, SessionId, TenantId
from loom_ia.core.ports.journal import Damage, DriverLocks, SequenceConflict, SessionPage

_T = TypeVar("_T")


class SqliteJournal:
    """A journal in the file `path`, created with its folder at the first use."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._locks = FileDriverLocks(self._path.parent / ".locks")
        self._writer = SqliteWriter(self._path)
        self._writes = ThreadPoolExecutor(1, thread_name_prefix="loom-sqlite-write")
        self._reader = SqliteReader(self._path)
        self._reads = ThreadPoolExecutor(1, thread_name_prefix="loom-sqlite-read")
        self._flusher = Flusher(self._writer.flush)
        self._closed = False

    @property
    def durable(self) -> bool:
        return True

    @property
    def locks(self) -> DriverLocks | None:
        return self._locks

    def append(
        self, batch: Sequence[Event], *, expected: int, sync: bool
    ) -> Awaitable[int | SequenceConflict]:
        check_batch(batch, expected)
        lines = [to_line(event).decode() for event in batch]
        last = self._writer.append_at_once(batch, lines, expected)
        if last is None:
            return self._append_in_thread(batch, lines, expected, sync=sync)
        return self._written(last, sync=sync)

    async def _append_in_thread(
        self, batch: Sequence[Event], lines: Sequence[str], expected: int, *, sync: bool
    ) -> int | SequenceConflict:
        deadline = time.monotonic() + PATIENCE_S
        write = partial(self._writer.append, batch, lines, expected, deadline)
        last = await self._in(self._writes, write)
        if last is None:
            event = batch[0]
            tail = await self.read(event.tenant_id, event.session_id, after=expected)
            return SequenceConflict(expected, tuple(tail))
        return await self._written(last, sync=sync)

    def _written(self, last: int, *, sync: bool) -> "asyncio.Future[int]":
        if self._writer.wants_checkpoint():
            self._writes.submit(self._writer.checkpoint)
        return self._flusher.flush(last) if sync else done(last)

    async def flush(self) -> None:
        if not self._closed:
            await self._flusher.flush()

    async def read(
        self, tenant_id: TenantId, session_id: SessionId, *, after: int = 0
    ) -> list[Event]:
        return await self._in(
            self._reads, partial(self._reader.session, tenant_id, session_id, after)
        )

    async def locate(self, tenant_id: TenantId, run_id: RunId) -> SessionId | None:
        return await self._in(self._reads, partial(self._reader.locate, tenant_id, run_id))

    async def query(self, query: EventQuery) -> list[Event]:
        return await self._in(self._reads, partial(self._reader.query, query))

    async def sessions(
        self, tenant_id: TenantId, *, after: SessionId | None = None, limit: int = 100
    ) -> SessionPage:
        return await self._in(self._reads, partial(self._reader.sessions, tenant_id, after, limit))

    async def delete(self, tenant_id: TenantId, session_id: SessionId) -> int:
        deadline = time.monotonic() + PATIENCE_S
        delete = partial(self._writer.delete, tenant_id, session_id, deadline)
        many = await self._in(self._writes, delete)
        await self._flusher.flush()
        return many

    def damages(self) -> tuple[Damage, ...]:
        return ()  # SQLite itself rolls an incomplete batch back

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            await self._flusher.flush()
        finally:
            await asyncio.to_thread(self._shut)

    async def _in(self, thread: ThreadPoolExecutor, work: Callable[[], _T]) -> _T:
        if self._closed:
            raise JournalError("{path}: this journal was closed", path=self._path)
        return await asyncio.get_running_loop().run_in_executor(thread, work)

    def _shut(self) -> None:
        for thread in (self._writes, self._reads):
            thread.shutdown()
        self._locks.release()
        self._flusher.close()
        self._reader.close()
        self._writer.close()
