"""The journal in files: `<root>/<tenant>/<session>.jsonl`, one line per event, for one host.

An append is one `write` under the file's lock, in the loop's own thread while nobody is in the
way; whatever may wait (a lock that is held, another process's events, an incomplete batch) is
done from the start in a thread. Ids become names of files, so they must be safe ones.

A flush covers every file written since the last one, all at the same time: what a sync append
promises holds for earlier facts of other sessions too.

Reading takes no lock: a line is there whole or not at all once a batch is written. When what is
read looks damaged, it is read again under the lock, where no batch is under way.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Final, TypeVar

from loom_ia.adapters.journals.batch import check_batch, started_runs
from loom_ia.adapters.journals.disk import telling
from loom_ia.adapters.journals.driver_locks import FileDriverLocks
from loom_ia.adapters.journals.flock import PATIENCE_S
from loom_ia.adapters.journals.flusher import Flusher, done
from loom_ia.adapters.journals.jsonl_file import Addition, SessionFile
from loom_ia.adapters.journals.jsonl_reading import JsonlReader
from loom_ia.adapters.journals.jsonl_runs import RunIndex, can_name_run, name_of_file
from loom_ia.adapters.journals.unflushed import Unflushed
from loom_ia.core.errors import JournalError
from loom_ia.core.events.codec import to_line
from loom_ia.core.events.envelope import Event
from loom_ia.core.events.query import EventQuery
from loom_ia.core.events.run import RunStarted
from loom_ia.core.ids import RunId, SessionId, TenantId, is_reserved, is_safe_id, require_safe_id
from loom_ia.core.ports.journal import Damage, DriverLocks, SequenceConflict, SessionPage

_T = TypeVar("_T")
_OPEN_FILES: Final = 256


class JsonlJournal:
    """A journal in the folder `root`, created at the first use."""

    def __init__(self, root: str | Path) -> None:
        self._root = Path(root)
        self._locks = FileDriverLocks(self._root / ".locks")
        self._unflushed = Unflushed()
        self._flusher = Flusher(self._unflushed.flush)
        self._threads = ThreadPoolExecutor(4, thread_name_prefix="loom-jsonl")
        self._files: OrderedDict[tuple[TenantId, SessionId], SessionFile] = OrderedDict()
        self._indexes: dict[TenantId, RunIndex] = {}
        self._lock = Lock()  # over the two above
        self._reader = JsonlReader(self._root, self._file)
        self._damages: list[Damage] = []
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
        self._require_open()
        tenant_id, session_id = check_batch(batch, expected)
        file = self._file(tenant_id, session_id)
        addition = _addition(batch, expected)
        with telling(file.path):
            last = file.append_at_once(addition)
        if last is None:
            return self._append_in_thread(batch[0], addition, expected, sync=sync)
        return self._flusher.flush(last) if sync else done(last)

    async def _append_in_thread(
        self, first: Event, addition: Addition, expected: int, *, sync: bool
    ) -> int | SequenceConflict:
        file = self._file(first.tenant_id, first.session_id)
        deadline = time.monotonic() + PATIENCE_S
        last = await self._in_thread(partial(file.append, addition, deadline), file.path)
        if last is None:
            tail = await self.read(first.tenant_id, first.session_id, after=expected)
            return SequenceConflict(expected, tuple(tail))
        return await self._flusher.flush(last) if sync else last

    async def flush(self) -> None:
        if not self._closed:
            await self._flusher.flush()

    async def read(
        self, tenant_id: TenantId, session_id: SessionId, *, after: int = 0
    ) -> list[Event]:
        path = self._file(tenant_id, session_id).path
        work = partial(self._reader.session, tenant_id, session_id, after)
        return await self._in_thread(work, path)

    async def locate(self, tenant_id: TenantId, run_id: RunId) -> SessionId | None:
        if not (is_safe_id(tenant_id) and can_name_run(run_id)):
            return None
        index = self._index(tenant_id)
        return await self._in_thread(partial(index.locate, run_id), index.folder)

    async def query(self, query: EventQuery) -> list[Event]:
        work = partial(self._reader.query, query)
        return await self._in_thread(work, self._folder(query.tenant_id))

    async def sessions(
        self, tenant_id: TenantId, *, after: SessionId | None = None, limit: int = 100
    ) -> SessionPage:
        work = partial(self._reader.sessions, tenant_id, after, limit)
        return await self._in_thread(work, self._folder(tenant_id))

    async def delete(self, tenant_id: TenantId, session_id: SessionId) -> int:
        file = self._file(tenant_id, session_id)
        deadline = time.monotonic() + PATIENCE_S
        many = await self._in_thread(partial(file.delete, deadline), file.path)
        await self._flusher.flush()
        return many

    def damages(self) -> tuple[Damage, ...]:
        return tuple(self._damages)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            await self._flusher.flush()
        finally:
            await asyncio.to_thread(self._shut)

    def _shut(self) -> None:
        self._threads.shutdown()
        self._locks.release()
        self._flusher.close()
        self._unflushed.close()
        self._files.clear()

    def _require_open(self) -> None:
        if self._closed:
            raise JournalError("{path}: this journal was closed", path=self._root)

    async def _in_thread(self, work: Callable[[], _T], path: Path) -> _T:
        self._require_open()

        def told() -> _T:
            with telling(path):
                return work()

        return await asyncio.get_running_loop().run_in_executor(self._threads, told)

    def _folder(self, tenant_id: TenantId) -> Path:
        return self._root / require_safe_id(tenant_id, "tenant id")

    def _index(self, tenant_id: TenantId) -> RunIndex:
        with self._lock:
            index = self._indexes.get(tenant_id)
            if index is None:
                index = RunIndex(self._folder(tenant_id), self._unflushed)
                self._indexes[tenant_id] = index
            return index

    def _file(self, tenant_id: TenantId, session_id: SessionId) -> SessionFile:
        """Give the file of a session, the same one as long as it is used."""
        key = tenant_id, session_id
        with self._lock:
            file = self._files.get(key)
            if file is not None:
                self._files.move_to_end(key)
                return file
        if not is_reserved(session_id):
            require_safe_id(session_id, "session id")
        index = self._index(tenant_id)
        path = self._folder(tenant_id) / name_of_file(session_id)
        file = SessionFile(path, index, self._unflushed, self._damages.append)
        with self._lock:
            if len(self._files) >= _OPEN_FILES:
                self._files.popitem(last=False)
            return self._files.setdefault(key, file)


def _addition(batch: Sequence[Event], expected: int) -> Addition:
    runs = started_runs(batch)
    for run_id in runs:
        if not can_name_run(run_id):
            require_safe_id(run_id, "run id")
    last = len(batch) - 1
    lines = [to_line(event, following=last - at) for at, event in enumerate(batch)]
    return Addition(
        data=b"\n".join([*lines, b""]),
        many=len(batch),
        expected=expected,
        runs=runs,
        opening=isinstance(batch[0].payload, RunStarted),
    )
