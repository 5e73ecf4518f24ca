"""Reading a file that the configuration names: a regular file, and no other.

Opening a pipe would wait for somebody to write to it, and a device may never end.
"""

import errno
import os
import stat
from pathlib import Path


def read_bytes(path: Path) -> bytes:
    """Read a regular file whole; raises `OSError` as `Path.read_bytes`, and for any other file."""
    with os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        return file.read()
