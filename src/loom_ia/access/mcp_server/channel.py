"""The standard streams, taken for the protocol alone.

Law. Once taken, descriptor 0 is empty and descriptor 1 is standard error, for Python, for what is
written in C and for the processes that are started: whatever a tool prints, the client never reads
it. This module imports nothing of the protocol, so that it can act before anything is loaded.
"""

import os
import sys
from dataclasses import dataclass
from io import FileIO
from typing import Final

_FIRST_FREE: Final = 3


@dataclass(frozen=True, slots=True)
class Channel:
    """What the client writes, and what it reads."""

    incoming: FileIO
    outgoing: FileIO


def take_channel() -> Channel:
    """Keep the standard input and output for the protocol, and leave others in their place."""
    if sys.stdout is not None:
        sys.stdout.flush()
    incoming, outgoing = _moved(0), _moved(1)
    _replace(0, os.open(os.devnull, os.O_RDONLY))
    _replace(1, _standard_error())
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 -- it lives as long as we do
    sys.stdout = sys.stderr
    return Channel(
        FileIO(incoming, "r", closefd=False),
        FileIO(outgoing, "w", closefd=False),
    )


def _moved(descriptor: int) -> int:
    """Give a copy that no child inherits and that is none of the standard descriptors."""
    low: list[int] = []
    copy = os.dup(descriptor)
    while copy < _FIRST_FREE:
        low.append(copy)
        copy = os.dup(descriptor)
    for each in low:
        os.close(each)
    return copy


def _standard_error() -> int:
    try:
        return os.dup(2)
    except OSError:  # it is closed
        return os.open(os.devnull, os.O_WRONLY)


def _replace(descriptor: int, by: int) -> None:
    os.dup2(by, descriptor)
    os.close(by)
