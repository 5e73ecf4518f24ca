"""The system's time, and ids that grow with it."""

import os
import time
from datetime import UTC, datetime

from loom_ia.core.ids import EventId, uuid7


class SystemClock:
    """Wall-clock time in UTC, and UUIDv7 that increase even within one millisecond."""

    def __init__(self) -> None:
        self._last_ms = 0
        self._count = 0

    def now(self) -> datetime:
        """Give the present instant, in UTC."""
        return datetime.now(UTC)

    def new_id(self) -> EventId:
        """Give a new UUIDv7, greater than every one given before by this clock."""
        ms = time.time_ns() // 1_000_000
        if ms > self._last_ms:
            self._last_ms, self._count = ms, 0
        else:  # same millisecond, or a clock set back
            self._count += 1
            if self._count > 0xFFF:
                self._last_ms, self._count = self._last_ms + 1, 0
        tail = int.from_bytes(os.urandom(8)) & 0x3FFFFFFFFFFFFFFF
        return uuid7(self._last_ms, self._count << 62 | tail)
