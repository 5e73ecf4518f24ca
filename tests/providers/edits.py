"""Bodies that are whole, and how a test breaks them."""

import base64
import json
from typing import Any

import pytest

GONE = object()
PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n, or so").decode()
Edit = tuple[str, Any]


def edited(body: dict[str, Any], *edits: Edit) -> dict[str, Any]:
    """Change a body: `a.0.b` is a place, `GONE` takes what stands there away, `a.+` adds to it."""
    made: Any = json.loads(json.dumps(body))  # which shares nothing with itself
    for path, value in edits:
        *keys, last = path.split(".")
        place: Any = made
        for key in keys:
            place = place[int(key) if isinstance(place, list) else key]
        if last == "+":
            place.append(value)
            continue
        at: Any = int(last) if isinstance(place, list) else last
        if value is GONE:
            del place[at]
        else:
            place[at] = value
    return made


def table(*rows: tuple[str, list[Edit], str]) -> Any:
    """Make a test of each row: what is broken, by which edits, and what is said of it."""
    params = [pytest.param(edits, problem, id=name) for name, edits, problem in rows]
    return pytest.mark.parametrize(("edits", "problem"), params)


def text(said: str, **more: Any) -> dict[str, Any]:
    """Write a block of text."""
    return {"type": "text", "text": said, **more}


OBJECT = {"type": "object", "properties": {"a": {"type": "integer"}}}

STRICT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": "^a", "description": "A name."},
        "when": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]},
        "tags": {"type": "array", "items": {"enum": ["x", "y"]}, "maxItems": 3},
        "place": {"$ref": "#/$defs/place"},
        "size": {"type": ["integer", "null"], "minimum": 0},
    },
    "required": ["name", "when", "tags", "place", "size"],
    "additionalProperties": False,
    "$defs": {
        "place": {
            "type": "object",
            "properties": {"x": {"type": "number"}},
            "required": ["x"],
            "additionalProperties": False,
        }
    },
}
BARE: dict[str, Any] = {
    "model": "claude",
    "max_tokens": 10,
    "messages": [{"role": "user", "content": "Bonjour"}],
}
