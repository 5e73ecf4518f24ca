"""The schema of an answer, in the part of JSON Schema that Anthropic follows.

Law. An answer that fits what is given fits the schema, as far as a grammar can see to it; the rest
is told to the model in the description. What has no equivalent, such as an object of any keys, is
given as it is, for Anthropic to refuse it in so many words.
"""

from collections.abc import Mapping
from typing import Any, Final, cast

from loom_ia.core.json import JsonObject, readable

_KEPT: Final = frozenset(
    {
        *("type", "title", "description", "enum", "const", "$ref"),
        *("required", "additionalProperties"),
    }
)
_NAMED: Final = frozenset({"properties", "$defs", "definitions"})
_LISTED: Final = {"anyOf": "anyOf", "oneOf": "anyOf", "allOf": "allOf"}
_BESIDE_REFERENCE: Final = frozenset({"$ref", "$defs", "definitions"})
_UNSAID: Final = frozenset({"$schema", "$id", "$comment"})
_FORMATS: Final = frozenset(
    {
        *("date-time", "time", "date", "duration", "email", "hostname"),
        *("uri", "ipv4", "ipv6", "uuid"),
    }
)


def followed(schema: Mapping[str, Any]) -> JsonObject:
    """Give `schema` as Anthropic follows it: objects are closed, and what it ignores is told."""
    kept: JsonObject = {}
    told: JsonObject = {}
    for key, value in schema.items():
        if key in _NAMED and isinstance(value, Mapping):
            parts = cast("Mapping[str, object]", value)
            kept[key] = {name: _part(part) for name, part in parts.items()}
        elif key in _LISTED and _LISTED[key] not in kept:
            kept[_LISTED[key]] = [_part(part) for part in cast("list[object]", value)]
        elif key == "items":
            kept[key] = _part(value)
        elif key in _KEPT or _is_held(key, value):
            kept[key] = value
        elif key not in _UNSAID:
            told[key] = value
    if kept.get("properties"):
        kept["additionalProperties"] = False
    if told:
        said = "{" + ", ".join(f"{key}: {readable(value)}" for key, value in told.items()) + "}"
        before = kept.get("description")
        kept["description"] = f"{before}\n\n{said}" if before else said
    if "$ref" in kept and kept.keys() - _BESIDE_REFERENCE and "anyOf" not in kept:
        kept["anyOf"] = [{"$ref": kept.pop("$ref")}]
    return kept


def _part(part: object) -> Any:
    return followed(cast("Mapping[str, Any]", part)) if isinstance(part, Mapping) else part


def _is_held(key: str, value: object) -> bool:
    """Whether the grammar of an answer holds a keyword that it takes in part."""
    return (key == "format" and str(value) in _FORMATS) or (key == "minItems" and value in (0, 1))
