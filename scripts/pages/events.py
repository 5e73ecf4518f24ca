"""The page of the events: what the journal can hold."""

import ast
import inspect
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

from loom_ia.core.events.catalogue import CATALOGUE
from loom_ia.core.events.envelope import SCHEMA_VERSION, Event, Payload
from scripts.pages.fields import (
    default_text,
    described,
    models_below,
    type_text,
    written_fields,
)
from scripts.pages.markdown import code, page, prose, table

_SPANS = {
    "run": "the run",
    "own": "one that it opens",
    "step": "the open step",
    "call": "the call",
}

_ENVELOPE = {
    "event_id": "A UUIDv7: ids sort in the order in which they were made.",
    "seq": "The place in the session, from 1, without a hole.",
    "ts": "When the fact was made.",
    "schema_version": f"The version of this schema: {SCHEMA_VERSION}.",
    "tenant_id": "`default`: there is one tenant for now.",
    "session_id": "The session.",
    "run_id": "The run.",
    "root_run_id": "The run at the root of its tree; itself unless it is below another one.",
    "span_id": "The span that the event belongs to.",
    "parent_span_id": "The span around it, or `null`.",
    "type": "`<category>.<action>`.",
    "category": "The family.",
    "status": "`ok`, `warning` or `error`: is this good news?",
    "agent": "The agent of the run.",
    "role": "`main` for what the main model said, else `null`.",
    "facets": "The values by which the event can be searched.",
    "payload": "What happened, described below for each type.",
}


def text() -> str:
    """Give the page."""
    return page(
        "Events",
        "Every fact of a run is one of the events below, written the moment it happens. "
        "[The journal](../explanation/journal.md) tells how they are stored and read.",
        "## All of them",
        table(
            ("type", "when"),
            (
                (f"[{name}](#{name.replace('.', '')})", _first_sentence(payload))
                for name, payload in CATALOGUE.items()
            ),
        ),
        "## The envelope",
        "This is the full form, which readers and exports get. The stored line leaves out what "
        "its place, its type or a default gives back.",
        table(("field", "meaning"), _envelope_rows()),
        *(part for name, family in families().items() for part in _family(name, family)),
        "## Values",
        "What payloads are made of.",
        *(part for model in models_below(CATALOGUE.values()) for part in described(model)),
    )


def families() -> dict[str, list[type[Payload]]]:
    """Give the event types by family, in the order in which families first stand."""
    found: dict[str, list[type[Payload]]] = {}
    for payload in CATALOGUE.values():
        found.setdefault(payload.CATEGORY, []).append(payload)
    return found


def _first_sentence(payload: type[Payload]) -> str:
    return prose(payload.__doc__).split(". ")[0].split("\n")[0].rstrip(".") + "."


def _envelope_rows() -> Iterator[tuple[str, str]]:
    fields = [*Event.model_fields, "type", "category", "status", "facets", "schema_version"]
    if wrong := set(fields) ^ set(_ENVELOPE):
        raise ValueError(f"scripts/pages/events.py: say what these fields are: {sorted(wrong)}")
    return ((code(name), meaning) for name, meaning in _ENVELOPE.items())


def _family(name: str, payloads: Iterable[type[Payload]]) -> Iterator[str]:
    yield f"## {name}"
    for payload in payloads:
        yield f"### {payload.TYPE}"
        yield prose(payload.__doc__)
        if payload.model_fields:
            yield table(
                ("field", "type", "default", "content"),
                (
                    (
                        code(key),
                        type_text(field.annotation),
                        default_text(field),
                        _content(payload, key),
                    )
                    for key, field in written_fields(payload)
                ),
            )
        yield "\n".join(_notes(payload))


def _content(payload: type[Payload], key: str) -> str:
    inside = [path for path in payload.CONTENT if path.split(".")[0] == key]
    if not inside:
        return ""
    return "yes" if key in inside else ", ".join(code(path) for path in inside)


def _notes(payload: type[Payload]) -> Iterator[str]:
    writer = "the driver of the run" if payload.BY_DRIVER else "whoever decides, from any process"
    yield f"- Written by {writer}."
    yield f"- Span: {_SPANS[payload.SPAN]}."
    statuses = [s for s in _strings(payload, "status") if s in {"ok", "warning", "error"}]
    yield f"- Status: {' or '.join(code(status) for status in statuses or ['ok'])}."
    facets = _facet_names(payload)
    yield f"- Facets: {', '.join(code(facet) for facet in facets) or 'none'}."


def _body(payload: type[Payload], name: str) -> ast.AST:
    member = inspect.getattr_static(payload, name)
    function: Any = member.fget if isinstance(member, property) else member
    return ast.parse(textwrap.dedent(inspect.getsource(function)))


def _strings(payload: type[Payload], name: str) -> list[str]:
    returned = (node for node in ast.walk(_body(payload, name)) if isinstance(node, ast.Return))
    found = (
        node.value
        for statement in returned
        for node in (_branches(statement.value))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    return sorted(set(found), key=("ok", "warning", "error").index)


def _branches(value: ast.expr | None) -> Iterator[ast.expr]:
    if isinstance(value, ast.IfExp):
        yield from _branches(value.body)
        yield from _branches(value.orelse)
    elif value is not None:
        yield value


def _facet_names(payload: type[Payload]) -> list[str]:
    """Read which keys `facets` gives from its code: a value of its own is not needed for that."""
    keys: list[ast.expr | None] = []
    for node in ast.walk(_body(payload, "facets")):
        if isinstance(node, ast.Dict):
            keys += node.keys
        elif isinstance(node, ast.Assign):
            keys += [t.slice for t in node.targets if isinstance(t, ast.Subscript)]
    return [str(key.value) for key in keys if isinstance(key, ast.Constant)]
