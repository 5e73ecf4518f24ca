"""Time and new ids: the two things that pure code is given."""

from datetime import datetime
from typing import Protocol

from loom_ia.core.ids import EventId


class Clock(Protocol):
    """Where instants and ids come from."""

    def now(self) -> datetime:
        """Give the present instant, in UTC."""
        ...

    def new_id(self) -> EventId:
        """Give a new UUIDv7, greater than every one given before by this clock."""
        ...
