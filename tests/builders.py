"""Events for tests: unique ids in the order of making, fixed instants, places that follow."""

import os
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import count

from loom_ia.core.events import Draft, Event, Payload, RunStarted, UserMessage
from loom_ia.core.ids import uuid7
from loom_ia.core.model.messages import Message

DAWN = datetime(2026, 1, 1, tzinfo=UTC)
_MADE = count(1)


def new_id() -> str:
    """Give a UUIDv7 greater than those before, and different in every process."""
    made = next(_MADE)
    return uuid7(int(DAWN.timestamp() * 1000) + made, os.getpid())


def placed(
    payloads: Iterable[Payload],
    *,
    after: int = 0,
    run_id: str = "run-1",
    session_id: str = "session-1",
    tenant_id: str = "acme",
    agent: str = "clerk",
    role: str | None = None,
    ts: datetime | None = None,
) -> list[Event]:
    """Place `payloads` after the event `after` of a session."""
    found: list[Event] = []
    for seq, payload in enumerate(payloads, after + 1):
        event_id = new_id()
        own = payload.SPAN == "own"
        draft = Draft(
            event_id=event_id,
            ts=ts or DAWN + timedelta(seconds=seq),
            tenant_id=tenant_id,
            session_id=session_id,
            run_id=run_id,
            root_run_id=run_id,
            span_id=event_id if own else run_id,
            parent_span_id=run_id if own else None,
            agent=agent,
            role=role,
            payload=payload,
        )
        found.append(draft.placed(seq))
    return found


def started(
    run_id: str, *, after: int = 0, session_id: str | None = None, tenant_id: str = "acme"
) -> Event:
    """Give the event that begins `run_id`, by default in a session of the same name."""
    where = session_id or run_id
    return placed(
        [RunStarted()], after=after, run_id=run_id, session_id=where, tenant_id=tenant_id
    )[0]


def said(text: str) -> UserMessage:
    """Give the payload of a request."""
    return UserMessage(message=Message.text("user", text))


def events(
    many: int,
    *,
    after: int = 0,
    run_id: str = "run-1",
    session_id: str = "session-1",
    tenant_id: str = "acme",
) -> list[Event]:
    """Give `many` events that say their place."""
    payloads = [said(f"event {after + n}") for n in range(1, many + 1)]
    return placed(payloads, after=after, run_id=run_id, session_id=session_id, tenant_id=tenant_id)
