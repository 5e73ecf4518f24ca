"""The file of one session: written under its lock, and known to this process by its end.

The lock is a `flock`: it keeps other processes out, and falls with a process that is killed.
Inside this process a mutex does the same, for both use one open file. A file whose size is the end
that we know, at the same inode, was written by nobody else: that is all that an append checks.
Otherwise its last lines are read, and an incomplete batch is set aside, before anything is added.

Whoever deletes the file does so under its lock, and who waited for it finds that the name leads
elsewhere.
"""

import errno
import os
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from loom_ia.adapters.journals import disk
from loom_ia.adapters.journals.decoding import corrupted
from loom_ia.adapters.journals.flock import try_lock, unlock, wait_lock
from loom_ia.adapters.journals.jsonl_lines import (
    after_line_break,
    chunks_from_the_end,
    head_of,
    split,
    whole,
)
from loom_ia.adapters.journals.jsonl_runs import RunIndex, session_of_file
from loom_ia.adapters.journals.unflushed import Descriptor, Unflushed
from loom_ia.core.errors import JournalBusy
from loom_ia.core.ids import RunId, SessionId
from loom_ia.core.ports.journal import Damage

_FLAGS = os.O_RDWR | os.O_APPEND


class Addition(NamedTuple):
    """A batch to write: its lines, where it goes, the runs that begin in it.

    `opening`: the first event of the batch begins a run.
    """

    data: bytes
    many: int
    expected: int
    runs: Sequence[RunId]
    opening: bool


class End(NamedTuple):
    """Where the last whole batch of a file ends, and the place and the bytes of its last event."""

    offset: int
    last: int
    line: bytes


@dataclass(slots=True)
class _Handle:
    descriptor: Descriptor
    inode: int
    end: int = 0
    last: int = 0

    @property
    def number(self) -> int:
        return self.descriptor.number


class SessionFile:
    """One session's file. Everything but `append_at_once` may block."""

    def __init__(
        self,
        path: Path,
        runs: RunIndex,
        unflushed: Unflushed,
        report: Callable[[Damage], None],
    ) -> None:
        self.path = path
        self._session_id: SessionId = session_of_file(path.name)
        self._runs = runs
        self._unflushed = unflushed
        self._report = report
        self._mutex = Lock()
        self._handle: _Handle | None = None

    def append_at_once(self, addition: Addition) -> int | None:
        """Write and return the last place; None, with nothing written, when it must wait."""
        if not self._mutex.acquire(blocking=False):
            return None
        try:
            handle = self._handle
            if handle is None and addition.expected == 0:
                handle = self._handle = self._created()
            if handle is None or not try_lock(handle.number):
                return None
            try:
                if handle.last == addition.expected and self._size_at_path(handle) == handle.end:
                    return self._write(handle, addition, None)
                return None
            finally:
                unlock(handle.number)
        finally:
            self._mutex.release()

    def append(self, addition: Addition, deadline: float) -> int | None:
        """Write and return the last place; None when `expected` is not the last one."""
        try:
            with self._locked(deadline, 0 if addition.expected else os.O_CREAT) as handle:
                self._learn(handle)
                if handle.last != addition.expected:
                    return None
                return self._write(handle, addition, deadline)
        except FileNotFoundError:
            return None

    def settle(self, deadline: float) -> None:
        """Set an incomplete batch aside; leave it where nothing may be written."""
        try:
            with self._locked(deadline) as handle:
                self._learn(handle)
        except FileNotFoundError:
            pass
        except OSError as error:
            if error.errno not in {errno.EACCES, errno.EROFS}:
                raise

    def delete(self, deadline: float) -> int:
        """Remove the file, what was set aside from it, and its runs; count its lines."""
        try:
            with self._locked(deadline) as handle:
                data = read_from(handle.number, 0)
                lines = split(data[: whole(data) or 0])
                with self._runs.claiming([], self._session_id, opening=False, deadline=deadline):
                    self.path.unlink()
                    self._aside.unlink(missing_ok=True)
                    self._runs.forget(self._session_id, lines)
                self._handle = None
        except FileNotFoundError:
            return 0
        self._unflushed.add_name(self.path)
        return len(lines)

    @property
    def _aside(self) -> Path:
        return self.path.with_name(f"{self.path.name}.corrupt")

    @contextmanager
    def _locked(self, deadline: float, create: int = 0) -> Generator[_Handle]:
        if not self._mutex.acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise JournalBusy("{path} stays locked in this process: try again", path=self.path)
        try:
            while True:
                handle = self._handle or self._opened(create)
                wait_lock(handle.number, self.path, deadline)
                try:
                    if self._size_at_path(handle) is not None:
                        self._handle = handle
                        yield handle
                        return
                finally:
                    unlock(handle.number)
                self._handle = None  # deleted before it was locked
        finally:
            self._mutex.release()

    def _created(self) -> _Handle | None:
        try:
            return self._opened(os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            return None

    def _opened(self, create: int) -> _Handle:
        try:
            number = os.open(self.path, _FLAGS | create, 0o644)
        except FileNotFoundError:
            if not create:
                raise
            self.path.parent.mkdir(parents=True, exist_ok=True)
            number = os.open(self.path, _FLAGS | create, 0o644)
        if create:
            self._unflushed.add_name(self.path)
        return _Handle(Descriptor(number), os.fstat(number).st_ino)

    def _size_at_path(self, handle: _Handle) -> int | None:
        try:
            found = os.stat(self.path)  # noqa: PTH116 - half the cost of `Path.stat`, at each append
        except FileNotFoundError:
            return None
        return found.st_size if found.st_ino == handle.inode else None

    def _learn(self, handle: _Handle) -> None:
        size = os.fstat(handle.number).st_size
        if size == handle.end:
            return
        end = end_of(handle.number, size, self.path)
        if end.offset < size:
            self._set_aside(handle, end.offset)
        handle.end, handle.last = end.offset, end.last

    def _set_aside(self, handle: _Handle, offset: int) -> None:
        torn = read_from(handle.number, offset)
        with self._aside.open("ab") as aside:
            aside.write(torn)
            aside.flush()
            disk.sync_data(aside.fileno())
        disk.sync_folder(self.path.parent)
        os.ftruncate(handle.number, offset)
        self._unflushed.add(handle.descriptor)
        self._report(Damage(self._session_id, str(self._aside), len(torn)))

    def _write(self, handle: _Handle, addition: Addition, deadline: float | None) -> int | None:
        try:
            if not addition.runs:
                self._add(handle, addition.data)
            else:
                opening = addition.opening and addition.expected == 0
                with self._runs.claiming(
                    addition.runs, self._session_id, opening=opening, deadline=deadline
                ) as claimed:
                    if not claimed:
                        return None
                    self._add(handle, addition.data)
        except BaseException:
            self._drop_if_empty(handle)
            raise
        handle.last += addition.many
        return handle.last

    def _add(self, handle: _Handle, data: bytes) -> None:
        try:
            written = os.write(handle.number, data)
            if written != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            with suppress(OSError):  # what stays is an incomplete batch: it will be set aside
                os.ftruncate(handle.number, handle.end)
            raise
        handle.end += len(data)
        self._unflushed.add(handle.descriptor)

    def _drop_if_empty(self, handle: _Handle) -> None:
        if handle.end == 0:
            self.path.unlink(missing_ok=True)
            self._handle = None


def end_of(descriptor: int, size: int, path: Path) -> End:
    """Find the end of the last whole batch. Raises `JournalCorrupted` when it is no event."""
    for start in chunks_from_the_end(size):
        data = read_from(descriptor, start, size)
        lines = after_line_break(data) if start else data
        end = whole(lines, from_start=start == 0)
        if end:
            line = lines[lines.rfind(b"\n", 0, end - 1) + 1 : end - 1]
            head = head_of(line)
            offset = start + len(data) - len(lines) + end
            if head is None:
                number = read_from(descriptor, 0, offset).count(b"\n")
                raise corrupted(f"{path}, line {number}", "not an event")
            return End(offset, head.seq, line)
    return End(0, 0, b"")


def read_from(descriptor: int, start: int, end: int | None = None) -> bytes:
    """Read an open file from `start` to `end`, or to its end."""
    wanted = (os.fstat(descriptor).st_size if end is None else end) - start
    parts: list[bytes] = []
    while wanted > 0 and (part := os.pread(descriptor, wanted, start)):
        parts.append(part)
        start += len(part)
        wanted -= len(part)
    return b"".join(parts)
