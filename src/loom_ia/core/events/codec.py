"""The two written forms of an event, and the rules for reading newer ones.

The stored line leaves out what its place, its type or a default gives back: tenant and session
(the place), root (when it is the run), spans (when they are the run's or the event's own),
category, status, facets and schema version. The full form, for exports, has everything.

Reading is tolerant: unknown fields are ignored and an unknown type is kept opaque. Another schema
version is refused.
"""

import json
from datetime import UTC, datetime
from json.encoder import encode_basestring
from typing import Any, cast

from pydantic import ValidationError
from pydantic_core import from_json

from loom_ia.core.errors import JournalCorrupted, NewerJournal
from loom_ia.core.events.catalogue import CATALOGUE
from loom_ia.core.events.envelope import SCHEMA_VERSION, Event, Opaque, Payload, timestamp
from loom_ia.core.ids import SessionId, TenantId

_quoted = encode_basestring  # `json.dumps` would make an encoder for each text
_DERIVED = ("type", "category", "status", "facets", "schema_version")


def to_line(event: Event, *, following: int = 0) -> bytes:
    """Write the stored form of `event` as one line of JSON, without a line break.

    `following` is how many events of the same batch come after it.
    """
    run_id = event.run_id
    head: list[str] = [f'{{"seq":{event.seq},"type":"{event.type}","event_id":"{event.event_id}"']
    head.append(f',"ts":"{timestamp(event.ts)}"')
    if run_id != event.session_id:
        head.append(f',"run_id":{_quoted(run_id)}')
    if event.root_run_id != run_id:
        head.append(f',"root_run_id":{_quoted(event.root_run_id)}')
    if event.span_id != _default_span(event.payload, event.event_id, run_id):
        head.append(f',"span_id":{_quoted(event.span_id)}')
    parent = event.parent_span_id
    if parent is not None and parent != _default_parent(event.payload, run_id):
        head.append(f',"parent_span_id":{_quoted(parent)}')
    head.append(f',"agent":{_quoted(event.agent)}')
    if event.role is not None:
        head.append(f',"role":{_quoted(event.role)}')
    if following:
        head.append(f',"following":{following}')
    payload = event.payload
    body = json.dumps(payload.data) if isinstance(payload, Opaque) else payload.model_dump_json()
    return f'{"".join(head)},"payload":{body}}}'.encode()


def from_line(line: bytes | str, *, tenant_id: TenantId, session_id: SessionId) -> Event:
    """Read a stored line back.

    Raises `JournalCorrupted` when it is no event, without knowing its place, and `NewerJournal`
    for another schema version.
    """
    try:
        raw = from_json(line)
        if not isinstance(raw, dict):
            raise ValueError("not a JSON object")
        data = cast("dict[str, Any]", raw)
        _require_known_version(data)
        payload = read_payload(data["type"], data["payload"])
        event_id: str = data["event_id"]
        run_id: str = data.get("run_id", session_id)
        return Event(
            seq=data["seq"],
            event_id=event_id,
            ts=datetime.fromisoformat(data["ts"]).astimezone(UTC),
            tenant_id=tenant_id,
            session_id=session_id,
            run_id=run_id,
            root_run_id=data.get("root_run_id", run_id),
            span_id=data.get("span_id") or _default_span(payload, event_id, run_id),
            parent_span_id=data.get("parent_span_id") or _default_parent(payload, run_id),
            agent=data["agent"],
            role=data.get("role"),
            payload=payload,
        )
    except (ValueError, KeyError, TypeError) as error:
        raise JournalCorrupted("not an event: {reason}", reason=_reason(error)) from error


def read_payload(event_type: str, data: dict[str, Any]) -> Payload:
    """Read a payload by its type; an unknown type is kept opaque."""
    payload_class = CATALOGUE.get(event_type)
    if payload_class is None:
        return Opaque(name=event_type, data=data)
    return payload_class.model_validate(data, extra="ignore")


def from_full(value: dict[str, Any]) -> Event:
    """Read the full form of an event back; what the payload gives anyway is ignored.

    Raises `NewerJournal` for another schema version and `ValidationError` for anything else.
    """
    _require_known_version(value)
    fields = {key: item for key, item in value.items() if key not in _DERIVED}
    fields["payload"] = read_payload(value["type"], value["payload"])
    return Event.model_validate(fields)


def _require_known_version(data: dict[str, Any]) -> None:
    version = data.get("schema_version", SCHEMA_VERSION)
    if version != SCHEMA_VERSION:
        raise NewerJournal(
            "an event of schema version {version} cannot be read by this version, "
            "which reads {known}",
            version=version,
            known=SCHEMA_VERSION,
        )


def _default_span(payload: Payload, event_id: str, run_id: str) -> str:
    return event_id if payload.SPAN == "own" else run_id


def _default_parent(payload: Payload, run_id: str) -> str | None:
    return run_id if payload.SPAN == "own" else None


def _reason(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return f"missing {error}" if isinstance(error, KeyError) else str(error)
