"""Which schemas OpenAI can follow to the letter: a part of JSON Schema, with every key required.

Law. When in doubt a schema does not qualify: it is then followed as well as the model can, while
one that is wrongly called strict has the whole request refused.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias, cast

_Schema: TypeAlias = Mapping[str, Any]

_KEYWORDS: Final = frozenset(
    {
        *("type", "title", "description", "enum", "const", "anyOf", "$ref", "$defs", "definitions"),
        *("properties", "required", "additionalProperties", "items", "minItems", "maxItems"),
        *("pattern", "format", "multipleOf"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    }
)
_TYPES: Final = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
_FORMATS: Final = frozenset(
    {
        *("date-time", "time", "date", "duration"),
        *("email", "hostname", "ipv4", "ipv6", "uuid"),
    }
)
_DEFINITIONS: Final = ("$defs", "definitions")
_NO_GRAMMAR: Final = re.compile(r"\(\?(?!:)|\\[1-9k]")
"""What the grammar of an answer cannot hold: looking around, going back, flags."""

_DEEPEST: Final = 10
_MOST_PROPERTIES: Final = 5_000
_MOST_ENUM_VALUES: Final = 1_000
_LONGEST_NAMES: Final = 120_000
_LONG_ENUM: Final = 250
_LONGEST_ENUM: Final = 15_000


def qualifies(schema: Mapping[str, Any]) -> bool:
    """Whether OpenAI's strict mode takes `schema`, as the arguments of a tool or as an answer.

    Its root is an object; every object has `additionalProperties: false` and requires all of its
    properties; only the keywords that the mode knows are there; it is within its limits.
    """
    if schema.get("type") != "object" or "anyOf" in schema or "$ref" in schema:
        return False
    found: list[_Schema] = []
    for part, depth in _parts(schema, 1):
        if part is None or not _is_known(part, schema) or (depth > _DEEPEST and _deepens(part)):
            return False
        found.append(part)
    return _is_within(found)


def _parts(part: object, depth: int) -> Iterator[tuple[_Schema | None, int]]:
    """Give a schema and those inside it, each with its depth; None stands for what is none."""
    if not isinstance(part, Mapping):
        yield None, depth
        return
    schema = cast("_Schema", part)
    yield schema, depth
    deeper = depth + _deepens(schema)
    for each in _named(schema, "properties"):
        yield from _parts(each, deeper)
    for key in _DEFINITIONS:
        for each in _named(schema, key):
            yield from _parts(each, depth)
    if "items" in schema:
        yield from _parts(schema["items"], deeper)
    if "anyOf" in schema:
        members = schema["anyOf"]
        for each in cast("list[object]", members) if isinstance(members, list) else [None]:
            yield from _parts(each, depth)


def _named(schema: _Schema, key: str) -> list[object]:
    """Give the schemas that stand under names."""
    value = schema.get(key, {})
    return list(cast("_Schema", value).values()) if isinstance(value, Mapping) else [None]


def _names(schema: _Schema, key: str) -> list[str]:
    value = schema.get(key, {})
    return list(cast("_Schema", value)) if isinstance(value, Mapping) else []


def _is_known(schema: _Schema, root: _Schema) -> bool:
    """Whether the mode takes a schema, what is inside it apart."""
    if "$ref" in schema:
        return len(schema) == 1 and _resolves(schema["$ref"], root)
    kinds = _kinds(schema)
    return (
        schema.keys() <= _KEYWORDS
        and kinds <= _TYPES
        and bool(kinds or schema.get("anyOf"))
        and _has_one_kind(schema, kinds)
        and str(schema.get("format", "date")) in _FORMATS
        and _is_grammar(schema.get("pattern", ""))
        and ("object" not in kinds or _is_closed(schema))
        and ("array" not in kinds or "items" in schema)
    )


def _has_one_kind(schema: _Schema, kinds: frozenset[str]) -> bool:
    """Whether a list of values is not empty, and of one kind: each kind takes all of them."""
    if "enum" not in schema and "const" not in schema:
        return True
    values = schema.get("enum", [None])
    return isinstance(values, list) and bool(cast("list[object]", values)) and len(kinds) == 1


def _kinds(schema: _Schema) -> frozenset[str]:
    kind = schema.get("type", [])
    kinds = cast("list[object]", kind) if isinstance(kind, list) else [kind]
    return frozenset(map(str, kinds))


def _deepens(schema: _Schema) -> bool:
    return bool(_kinds(schema) & {"object", "array"})


def _is_grammar(pattern: object) -> bool:
    return isinstance(pattern, str) and not _NO_GRAMMAR.search(pattern)


def _is_closed(schema: _Schema) -> bool:
    """Whether an object has exactly its properties, each of them required."""
    properties, required = schema.get("properties"), schema.get("required", [])
    if not isinstance(properties, Mapping) or not isinstance(required, list):
        return False
    names = sorted(cast("_Schema", properties))
    wanted = sorted(map(str, cast("list[object]", required)))
    return schema.get("additionalProperties") is False and names == wanted


def _resolves(reference: object, root: _Schema) -> bool:
    """Whether a reference leads to the root, or to one of its definitions."""
    places = {f"#/{key}/{_escaped(name)}" for key in _DEFINITIONS for name in _names(root, key)}
    return isinstance(reference, str) and reference in {"#", *places}


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _is_within(schemas: list[_Schema]) -> bool:
    """Whether the whole stays below the limits of the mode."""
    names = [name for each in schemas for name in _names(each, "properties")]
    defined = [name for each in schemas for key in _DEFINITIONS for name in _names(each, key)]
    enums = [[str(value) for value in each["enum"]] for each in schemas if "enum" in each]
    values = [value for enum in enums for value in enum]
    constants = [str(each["const"]) for each in schemas if "const" in each]
    return (
        len(names) <= _MOST_PROPERTIES
        and len(values) <= _MOST_ENUM_VALUES
        and sum(map(len, (*names, *defined, *values, *constants))) <= _LONGEST_NAMES
        and all(len(enum) <= _LONG_ENUM or sum(map(len, enum)) <= _LONGEST_ENUM for enum in enums)
    )
