"""The system's time, and ids that grow with it."""

import os
import random
import time
from datetime import UTC, datetime

from loom_ia.core.ids import EventId, uuid7

_random = random.Random(os.urandom(32))  # noqa: S311 -- ids must be unique, not secret
os.register_at_fork(after_in_child=lambda: _random.seed(os.urandom(32)))


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
        return uuid7(self._last_ms, self._count << 62 | _random.getrandbits(62))
