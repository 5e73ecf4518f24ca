"""The published JSON Schema of an event, open so that a reader accepts newer fields."""

from typing import Any, cast

from loom_ia.core.events.catalogue import CATALOGUE
from loom_ia.core.events.envelope import SCHEMA_VERSION
from loom_ia.core.json import JsonObject

_TEXT: dict[str, Any] = {"type": "string"}
_TEXT_OR_NULL: dict[str, Any] = {"type": ["string", "null"]}


def event_schema() -> JsonObject:
    """Give the JSON Schema (Draft 2020-12) of the full form of an event.

    The payload is described for each type; `x-content` lists the paths that hold what users,
    models or tools said.
    """
    cases: list[Any] = []
    definitions: dict[str, Any] = {}
    for event_type, payload_class in sorted(CATALOGUE.items()):
        schema = payload_class.model_json_schema(
            mode="serialization", ref_template="#/$defs/{model}"
        )
        definitions.update(schema.pop("$defs", {}))
        schema["x-content"] = list(payload_class.CONTENT)
        definitions[payload_class.__name__] = schema
        cases.append(
            {
                "if": {"properties": {"type": {"const": event_type}}},
                "then": {
                    "properties": {
                        "category": {"const": payload_class.CATEGORY},
                        "payload": {"$ref": f"#/$defs/{payload_class.__name__}"},
                    }
                },
            }
        )
    document: dict[str, Any] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Event",
        "type": "object",
        "properties": {
            "event_id": {"type": "string", "format": "uuid"},
            "seq": {"type": "integer", "minimum": 1},
            "ts": {"type": "string", "format": "date-time"},
            "schema_version": {"const": SCHEMA_VERSION},
            "tenant_id": _TEXT,
            "session_id": _TEXT,
            "run_id": _TEXT,
            "root_run_id": _TEXT,
            "span_id": _TEXT,
            "parent_span_id": _TEXT_OR_NULL,
            "type": {"type": "string"},
            "category": _TEXT,
            "status": {"enum": ["ok", "warning", "error"]},
            "agent": _TEXT,
            "role": _TEXT_OR_NULL,
            "facets": {"type": "object"},
            "payload": {"type": "object"},
        },
        "required": [
            "event_id",
            "seq",
            "ts",
            "tenant_id",
            "session_id",
            "run_id",
            "type",
            "payload",
        ],
        "allOf": cases,
        "$defs": dict(sorted(definitions.items())),
    }
    return cast("JsonObject", _opened(document))


def _opened(node: Any) -> Any:
    if isinstance(node, dict):
        items = cast("dict[str, Any]", node).items()
        return {k: _opened(v) for k, v in items if not (k == "additionalProperties" and v is False)}
    if isinstance(node, list):
        return [_opened(v) for v in cast("list[Any]", node)]
    return node
