"""The files and folders that were written since the last flush."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock

from loom_ia.adapters.journals import disk

_AT_ONCE = 8


class Descriptor:
    """An open file, closed when nobody refers to it any more: a flush may be the last to do so."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        os.close(self.number)


class Unflushed:
    """What a flush has to cover. Several disks' worth of files are flushed at the same time."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._files: set[Descriptor] = set()
        self._folders: set[Path] = set()
        self._seen: set[Path] = set()
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="loom-flush-file")

    def add(self, file: Descriptor) -> None:
        """Remember that `file` was written."""
        with self._lock:
            self._files.add(file)

    def add_name(self, path: Path) -> None:
        """Remember that the name `path` was made or removed.

        The folders above count too, once: another process may have made them just now.
        """
        folder = path.parent
        with self._lock:
            self._folders.add(folder)
            if folder not in self._seen:
                self._seen.add(folder)
                self._folders.update([folder.parent, folder.parent.parent])

    def flush(self) -> None:
        """Flush what was added before this call."""
        with self._lock:
            files, self._files = self._files, set()
            folders, self._folders = self._folders, set()
        if len(files) + len(folders) == 1:
            for file in files:
                disk.sync_data(file.number)
            for folder in folders:
                disk.sync_folder(folder)
            return
        flushes = [self._threads.submit(disk.sync_data, file.number) for file in files]
        flushes += [self._threads.submit(disk.sync_folder, folder) for folder in folders]
        for flush in flushes:
            flush.result()

    def close(self) -> None:
        """Stop the threads."""
        self._threads.shutdown()
