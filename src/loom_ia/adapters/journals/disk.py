"""The two calls that a disk must honour for facts to survive a power cut, in one place.

Everything else that touches a file only reaches the kernel's memory: enough for a killed process,
not for a cut. Tests count what passes here.
"""

import os
from pathlib import Path


def sync_data(descriptor: int) -> None:
    """Return once the bytes of an open file, and its length, are on the disk."""
    os.fdatasync(descriptor)


def sync_folder(folder: Path) -> None:
    """Return once the names in `folder` are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
