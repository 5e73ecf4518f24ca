"""Locks that say whether a driver lives: one file per worker, locked while its process lives.

The kernel drops a lock with the last process that has the file open: a killed driver frees it at
once, a stopped one keeps it. A file without a lock means nothing, and no file means free, so a
left-over file is removed by whoever finds it free.

Beside them one file, `handed`, holds what processes tell each other: it is only a hint, begun anew
when it is long, and what cannot be written or read of it is lost.

A fork would share the lock and keep it beyond its owner's death, so a forked child lets go of it.
"""

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from loom_ia.adapters.journals.disk import telling
from loom_ia.adapters.journals.flock import try_lock, wait_lock
from loom_ia.core.ids import require_safe_id

_WORDS = "handed"
_LONGEST_WORDS = 65_536
_PATIENCE_S = 1.0  # whoever asks whether a lock is free holds it for an instant


class FileLock:
    """The lock of a worker, held by this process."""

    def __init__(self, name: str, path: Path, descriptor: int) -> None:
        self._name = name
        self._path = path
        self._descriptor: int | None = descriptor
        _HELD.add(self)

    @property
    def name(self) -> str:
        return self._name

    def release(self) -> None:
        if self._descriptor is not None:
            self._path.unlink(missing_ok=True)  # while it is locked: nobody else can have taken it
            self.let_go()

    def let_go(self) -> None:
        """Close the file without a word to others."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            _HELD.discard(self)
            os.close(descriptor)


class FileDriverLocks:
    """The locks of the workers that share a journal, as files of `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: list[FileLock] = []
        self._heard: int | None = None

    def hold(self, worker_id: str) -> FileLock:
        """Take the lock of `worker_id`. Raises `JournalBusy` when somebody has it."""
        path = self._path(worker_id)
        with telling(path):
            self._folder.mkdir(parents=True, exist_ok=True)
            while True:
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
                try:
                    wait_lock(descriptor, path, time.monotonic() + _PATIENCE_S)
                except BaseException:
                    os.close(descriptor)
                    raise
                if _is_at(descriptor, path):
                    lock = FileLock(worker_id, path, descriptor)
                    self._held.append(lock)
                    return lock
                os.close(descriptor)  # removed between its opening and its locking

    def is_free(self, name: str) -> bool:
        path = self._path(name)
        with telling(path):
            try:
                descriptor = os.open(path, os.O_RDWR)
            except FileNotFoundError:
                return True
            try:
                if not try_lock(descriptor):
                    return False
                if _is_at(descriptor, path):
                    path.unlink(missing_ok=True)
                return True
            finally:
                os.close(descriptor)

    def leave_word(self, word: str) -> None:
        with suppress(OSError), (self._folder / _WORDS).open("ab") as file:
            if file.tell() > _LONGEST_WORDS:
                file.truncate(0)
            file.write(word.encode() + b"\n")

    def words(self) -> Sequence[str]:
        try:
            size = (self._folder / _WORDS).stat().st_size
        except OSError:
            size = 0
        heard, self._heard = self._heard, size
        if heard is None or size == heard:
            return ()
        begin = heard if size > heard else 0
        with suppress(OSError), (self._folder / _WORDS).open("rb") as file:
            file.seek(begin)
            return file.read(size - begin).decode(errors="replace").splitlines()
        return ()

    def release(self) -> None:
        """Release what was taken here and is held still: nobody drives by it any more."""
        held, self._held = self._held, []
        for lock in held:
            lock.release()

    def _path(self, name: str) -> Path:
        return self._folder / require_safe_id(name, "the name of a lock")


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


_HELD: set[FileLock] = set()


def _let_go_in_child() -> None:
    for lock in list(_HELD):
        lock.let_go()


os.register_at_fork(after_in_child=_let_go_in_child)
