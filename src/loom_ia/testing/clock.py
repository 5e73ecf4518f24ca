"""A clock that stands still until a test moves it."""

from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Final

from loom_ia.core.ids import EventId, uuid7

_DAWN: Final = datetime(2026, 1, 1, tzinfo=UTC)


class ManualClock:
    """Time as a value: it moves only by `advance`, and ids count upwards from its instant.

    Instances that share a clock never draw the same id. Two clocks draw the same ids, unless
    their `salt`, a number below 2**62, differs.
    """

    def __init__(self, start: datetime = _DAWN, *, salt: int = 0) -> None:
        self._now = start
        self._salt = salt
        self._made = count()
        self._last_ms = int(start.timestamp() * 1000)

    def now(self) -> datetime:
        """Give the present instant, in UTC."""
        return self._now

    def new_id(self) -> EventId:
        """Give a new UUIDv7, greater than every one given before by this clock."""
        made = next(self._made)
        ms = max(int(self._now.timestamp() * 1000), self._last_ms)
        self._last_ms = ms + (made & 0xFFF == 0xFFF)  # the counter is about to start over
        return uuid7(ms, (made & 0xFFF) << 62 | self._salt)

    def advance(self, span: timedelta | float) -> datetime:
        """Let `span` pass, a number being seconds, and give the instant that follows."""
        self._now += span if isinstance(span, timedelta) else timedelta(seconds=span)
        return self._now
