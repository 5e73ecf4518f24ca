"""A question to the journal: which events, from where, how many."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from loom_ia.core.events.envelope import Event, Facet
from loom_ia.core.ids import EventId, RunId, SessionId, TenantId


@dataclass(frozen=True, slots=True)
class EventQuery:
    """Every condition that is given must hold. Results come in the order of writing.

    `since` is inclusive and `until` exclusive; `after` is the id of the last event of the page
    before, and gives those that follow it; `limit` is between 1 and 10,000.
    """

    tenant_id: TenantId
    session_id: SessionId | None = None
    run_id: RunId | None = None
    types: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    status: tuple[str, ...] = ()
    agent: str | None = None
    role: str | None = None
    tool_name: str | None = None
    model_id: str | None = None
    model: str | None = None
    facets: Mapping[str, Facet] = field(default_factory=dict[str, Facet])
    since: datetime | None = None
    until: datetime | None = None
    after: EventId | None = None
    limit: int = 100

    def __post_init__(self) -> None:
        if not 1 <= self.limit <= 10_000:
            raise ValueError(f"limit must be between 1 and 10000, not {self.limit}")

    def matches(self, event: Event) -> bool:
        """Tell whether `event` satisfies every condition but `after` and `limit`."""
        return (
            event.tenant_id == self.tenant_id
            and self.session_id in {None, event.session_id}
            and self.run_id in {None, event.run_id}
            and (not self.types or event.type in self.types)
            and (not self.categories or event.category in self.categories)
            and (not self.status or event.status in self.status)
            and self.agent in {None, event.agent}
            and self.role in {None, event.role}
            and (self.since is None or event.ts >= self.since)
            and (self.until is None or event.ts < self.until)
            and self._facets_match(event)
        )

    def _facets_match(self, event: Event) -> bool:
        wanted = dict(self.facets)
        for name in ("tool_name", "model_id", "model"):
            value: str | None = getattr(self, name)
            if value is not None:
                wanted[name] = value
        if not wanted:
            return True
        facets = event.facets
        return all(name in facets and facets[name] == value for name, value in wanted.items())
