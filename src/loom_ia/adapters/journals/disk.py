"""The two calls that a disk must honour for facts to survive a power cut, in one place.

Everything else that touches a file only reaches the kernel's memory: enough for a killed process,
not for a cut. Tests count what passes here.
"""

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from loom_ia.core.errors import JournalBusy, JournalError

_MAY_PASS: Final = {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE}


def sync_data(descriptor: int) -> None:
    """Return once the bytes of an open file, and its length, are on the disk."""
    os.fdatasync(descriptor)


def sync_folder(folder: Path) -> None:
    """Return once the names in `folder` are on the disk.

    A folder that is gone has none, and one that may not be read is above those that we change.
    """
    with suppress(FileNotFoundError, PermissionError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def telling(path: Path) -> Generator[None]:
    """Turn an error of the system into one of the journal that names `path`."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno in _MAY_PASS:
            raise JournalBusy(
                "{path}: {reason}: make room, then try again", path=path, reason=reason
            ) from error
        raise JournalError("{path}: {reason}", path=path, reason=reason) from error
