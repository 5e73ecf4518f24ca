"""Cutting the lines of clients that take nothing of what they were sent.

Law. A response that is over is waited for as long as its client takes some of it: one that takes
nothing any more must not hold a stop up, nor a socket for ever.
"""

import time
from collections.abc import Iterable
from typing import Any, Final

PATIENCE_S: Final = 10.0
"""How long a closing line may stand still while the server serves."""
LAST_PATIENCE_S: Final = 1.0
"""The same while it stops."""


class Lines:
    """Watches lines that are being closed: look often."""

    def __init__(self) -> None:
        self._stuck: dict[Any, tuple[int, float]] = {}

    def look(self, connections: Iterable[Any], patience: float) -> int:
        """Cut the lines that have stood still for `patience` seconds; gives how many."""
        now = time.monotonic()
        stuck: dict[Any, tuple[int, float]] = {}
        cut = 0
        for connection in tuple(connections):
            transport = getattr(connection, "transport", None)
            if transport is None or not transport.is_closing():
                continue
            size = transport.get_write_buffer_size()
            before, since = self._stuck.get(connection, (-1, now))
            if size != before:
                since = now
            if size and now - since >= patience:
                transport.abort()
                cut += 1
            else:
                stuck[connection] = (size, since)
        self._stuck = stuck
        return cut
