"""Whom an instance tells that something waits for a person, and what it is telling now."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from loom_ia.app.links import Links
from loom_ia.core.ports.notices import Addressee
from loom_ia.core.spans import span

LONGEST_DELAY: Final = 300.0


@dataclass(slots=True)
class Outbox:
    """The targets of an instance. `under_way` has what is being sent: request and target.

    `links` makes and reads the links, None when no secret signs them. `first_delay` is in seconds:
    what passes before a notice is sent again, doubled each time.
    """

    addressees: tuple[Addressee, ...] = ()
    links: Links | None = None
    first_delay: float = 1.0
    under_way: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])

    def delays(self, attempts: int) -> Iterator[float]:
        """Give what passes after each attempt but the last, in seconds."""
        for rank in range(attempts - 1):
            yield min(self.first_delay * 2**rank, LONGEST_DELAY)

    @property
    def patience(self) -> timedelta:
        """How long it may be until every attempt was made; others leave a notice alone so long."""
        spans = (
            sum(self.delays(to.max_attempts)) + to.max_attempts * to.timeout
            for to in self.addressees
        )
        return span(max(spans, default=0.0))
