"""Spans of time, as settings give them: in seconds, as many as somebody likes."""

from datetime import timedelta
from typing import Final

_CENTURY_S: Final = 3e9


def span(seconds: float) -> timedelta:
    """Give `seconds`, at most a century: what is longer would pass the end of the calendar."""
    return timedelta(seconds=min(seconds, _CENTURY_S))
