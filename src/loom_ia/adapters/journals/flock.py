"""Advisory locks of whole files (`flock`): they fall with the process that holds them.

They belong to the open file, not to the process: two openings exclude each other, in one process
too. Waiting is by asking again, since a blocked `flock` could not be given a time limit.
"""

import fcntl
import time
from pathlib import Path

from loom_ia.core.errors import JournalBusy

PATIENCE_S = 30.0
"""How long to wait for another process before `JournalBusy`."""

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.000_5, 0.02


def try_lock(descriptor: int) -> bool:
    """Take the exclusive lock if it is free."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def wait_lock(descriptor: int, path: Path, deadline: float) -> None:
    """Take the exclusive lock, or raise `JournalBusy` once `time.monotonic()` is past `deadline`.

    It blocks: not for the loop's thread.
    """
    pause = _FIRST_PAUSE_S
    while not try_lock(descriptor):
        if time.monotonic() > deadline:
            raise JournalBusy("{path} stays locked by another process: try again", path=path)
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_S)


def unlock(descriptor: int) -> None:
    """Give the lock back."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)
