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


def wait_lock(descriptor: int, path: Path, patience_s: float | None = None) -> None:
    """Take the exclusive lock, or raise `JournalBusy`. It blocks: not for the loop's thread."""
    limit = PATIENCE_S if patience_s is None else patience_s
    deadline = time.monotonic() + limit
    pause = _FIRST_PAUSE_S
    while not try_lock(descriptor):
        if time.monotonic() > deadline:
            raise JournalBusy(
                "{path} was locked by another process for {seconds:g} s: try again",
                path=path,
                seconds=limit,
            )
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_S)


def unlock(descriptor: int) -> None:
    """Give the lock back."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)
