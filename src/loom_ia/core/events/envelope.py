"""An event: who, where and when in the envelope, what happened in the payload.

A payload class says everything about its event: fields, category, which fields are content, and
what it does to a run. Nothing is stored twice: type, category, status and facets are read from
the payload, never kept beside it. A draft is an event that has no place in the journal yet.
"""

from datetime import datetime
from typing import Any, ClassVar, Final, Literal, NamedTuple, Protocol, TypeAlias

from pydantic import ConfigDict, model_serializer

from loom_ia.core.ids import EventId, RunId, SessionId, SpanId, TenantId
from loom_ia.core.model.base import Value
from loom_ia.core.state.run import RunState

SCHEMA_VERSION: Final = 1

Category: TypeAlias = Literal[
    "run",
    "message",
    "model",
    "circuit",
    "tool",
    "approval",
    "idempotency",
    "artifact",
    "policy",
    "guard",
    "graph",
    "store",
    "unknown",
]
EventStatus: TypeAlias = Literal["ok", "warning", "error"]
Facet: TypeAlias = str | int | float | bool | None
SpanRule: TypeAlias = Literal["run", "own", "step", "call"]


class Fact(Protocol):
    """What a payload may read of the event that carries it."""

    @property
    def event_id(self) -> EventId: ...
    @property
    def ts(self) -> datetime: ...
    @property
    def tenant_id(self) -> TenantId: ...
    @property
    def session_id(self) -> SessionId: ...
    @property
    def run_id(self) -> RunId: ...
    @property
    def root_run_id(self) -> RunId: ...
    @property
    def span_id(self) -> SpanId: ...
    @property
    def agent(self) -> str: ...


class Payload(Value):
    """What happened. Subclasses declare the class variables and `evolve`.

    `CONTENT` names the fields that hold what users, models or tools said. `BY_DRIVER` tells
    whether only the driver of the run writes this, so that it proves the driver alive. `SPAN`
    says to which span the event belongs: the run, the open step, the call, or one it opens.
    `ROLE` is whose words they are, for answers of models.
    """

    TYPE: ClassVar[str]
    CATEGORY: ClassVar[Category]
    CONTENT: ClassVar[tuple[str, ...]] = ()
    BY_DRIVER: ClassVar[bool] = True
    SPAN: ClassVar[SpanRule] = "run"
    ROLE: ClassVar[str | None] = None

    @property
    def type(self) -> str:
        """The name of the event, `<category>.<action>`."""
        return self.TYPE

    @property
    def status(self) -> EventStatus:
        """Whether the event is good news."""
        return "ok"

    def facets(self) -> dict[str, Facet]:
        """Give the values by which the event can be searched."""
        return {}

    def speaker(self, run: RunState) -> str | None:
        """Tell whose words they are, in `run`; only facts about calls of models say so."""
        return (run.header.role or self.ROLE) if self.ROLE else None

    def evolve(self, run: RunState, fact: Fact) -> RunState:
        """Give what `run` is once this happened."""
        raise TypeError(f"{self.type} does not say what it does to a run ({fact.event_id})")


class Opaque(Payload):
    """An event of a newer version: kept, shown, and not driven past."""

    CATEGORY = "unknown"
    CONTENT = ("data",)

    name: str
    data: dict[str, Any]

    @property
    def type(self) -> str:
        return self.name

    def evolve(self, run: RunState, fact: Fact) -> RunState:
        del fact
        return run.not_understood()


class Draft(NamedTuple):
    """An event before the journal gave it its place."""

    event_id: EventId
    ts: datetime
    tenant_id: TenantId
    session_id: SessionId
    run_id: RunId
    root_run_id: RunId
    span_id: SpanId
    parent_span_id: SpanId | None
    agent: str
    role: str | None
    payload: Payload

    def placed(self, seq: int) -> "Event":
        """Give the event that stands at `seq`."""
        return Event.trusted(
            seq=seq,
            event_id=self.event_id,
            ts=self.ts,
            tenant_id=self.tenant_id,
            session_id=self.session_id,
            run_id=self.run_id,
            root_run_id=self.root_run_id,
            span_id=self.span_id,
            parent_span_id=self.parent_span_id,
            agent=self.agent,
            role=self.role,
            payload=self.payload,
        )


class Event(Value):
    """A fact at its place: `seq` counts from 1 without a hole in each session.

    `ts` is when the fact was made, in UTC. Serialising gives the full form, derived fields
    included; `from_full` of the codec reads it back.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    seq: int
    event_id: EventId
    ts: datetime
    tenant_id: TenantId
    session_id: SessionId
    run_id: RunId
    root_run_id: RunId
    span_id: SpanId
    parent_span_id: SpanId | None = None
    agent: str
    role: str | None = None
    payload: Payload

    @property
    def type(self) -> str:
        """The name of the event, `<category>.<action>`."""
        return self.payload.type

    @property
    def category(self) -> Category:
        """The family of the event."""
        return self.payload.CATEGORY

    @property
    def status(self) -> EventStatus:
        """Whether the event is good news."""
        return self.payload.status

    @property
    def facets(self) -> dict[str, Facet]:
        """The values by which the event can be searched."""
        return self.payload.facets()

    @model_serializer(mode="plain")
    def _full(self) -> dict[str, Any]:
        return {
            "event_id": self.event_id,
            "seq": self.seq,
            "ts": timestamp(self.ts),
            "schema_version": SCHEMA_VERSION,
            "tenant_id": self.tenant_id,
            "session_id": self.session_id,
            "run_id": self.run_id,
            "root_run_id": self.root_run_id,
            "span_id": self.span_id,
            "parent_span_id": self.parent_span_id,
            "type": self.type,
            "category": self.category,
            "status": self.status,
            "agent": self.agent,
            "role": self.role,
            "facets": self.facets,
            "payload": self.payload.model_dump(mode="json"),
        }


def timestamp(ts: datetime) -> str:
    """Write an instant as RFC 3339 in UTC, with microseconds."""
    return f"{ts.isoformat(timespec='microseconds')[:26]}Z"
