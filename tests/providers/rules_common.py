"""What the rules of the three formats share."""

import base64
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias

from tests.providers.shapes import faults_of_shape, written

Body: TypeAlias = Mapping[str, Any]
Rule: TypeAlias = Callable[[Body], Iterator[str]]

NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
IMAGES: Final = ("image/jpeg", "image/png", "image/gif", "image/webp")
_DATA_URL: Final = re.compile(r"data:(?P<type>[a-z]+/[a-z0-9.+-]+);base64,(?P<data>.*)", re.DOTALL)
_MALFORMED: Final = (KeyError, TypeError, AttributeError, IndexError, ValueError)


def check(body: Body, shape: Any, rules: Sequence[Rule], extra: Collection[str]) -> list[str]:
    """Tell everything that is wrong; an empty list says that a provider takes the body.

    A rule that cannot read a body of the wrong shape says no more: the shape was told.
    """
    faults = faults_of_shape(shape, body, extra)
    found = [*_unencodable(body), *faults]
    for rule in rules:
        with suppress(*(_MALFORMED if faults else ())):
            for problem in rule(body):
                if problem not in found:
                    found.append(problem)
    return found


def _unencodable(body: object, path: tuple[int | str, ...] = ()) -> Iterator[str]:
    """Find the texts and the keys that UTF-8 cannot hold."""
    match body:
        case str():
            try:
                body.encode()
            except UnicodeEncodeError:
                yield f"{written(path)}: holds half a character"
        case dict():
            for key, value in body.items():
                yield from _unencodable(key, (*path, "(a key)"))
                yield from _unencodable(value, (*path, str(key)))
        case list():
            for rank, value in enumerate(body):
                yield from _unencodable(value, (*path, rank))
        case _:
            pass


def is_blank(text: object) -> bool:
    """Whether `text` is a text in which nothing can be read."""
    return isinstance(text, str) and not text.strip()


def twice(values: Sequence[str]) -> list[str]:
    """Give the values that stand more than once."""
    return sorted({value for value in values if values.count(value) > 1})


def names(found: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Check the names of tools, each with its place."""
    for at, name in found:
        if not NAME.fullmatch(name):
            yield f"{at}: {name!r} is no name of a tool"


def unique_names(found: Sequence[str]) -> Iterator[str]:
    """Check that each tool has a name of its own."""
    for name in twice(found):
        yield f"tools: {name!r} is declared twice"


def is_object(text: str) -> bool:
    """Whether `text` is a JSON object."""
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def faults_of_base64(data: str, at: str) -> Iterator[str]:
    """Check that something is encoded."""
    try:
        decoded = base64.b64decode(data, validate=True)
    except ValueError:
        yield f"{at}: is no base64"
    else:
        if not decoded:
            yield f"{at}: is empty"


def faults_of_data_url(url: str, at: str) -> Iterator[str]:
    """Check an image that is given in its own URL."""
    found = _DATA_URL.fullmatch(url)
    if found is None:
        yield f"{at}: is no data URL in base64"
    elif found["type"] not in IMAGES:
        yield f"{at}: no provider reads {found['type']}"
    else:
        yield from faults_of_base64(found["data"], at)


def faults_of_choice(body: Body, name: Callable[[Any], str | None]) -> Iterator[str]:
    """Check that a choice of tools has tools, and that the tool that it names is one of them."""
    choice = body.get("tool_choice")
    if choice is None:
        return
    tools = body.get("tools") or []
    if not tools:
        yield "tool_choice: stands without tools"
        return
    wanted = name(choice) if isinstance(choice, dict) else None
    declared = [tool.get("function", tool).get("name") for tool in tools]
    if wanted is not None and wanted not in declared:
        yield f"tool_choice: {wanted!r} is no tool"


# ── Strict schemas ──────────────────────────────────────────────────────────────────────────────

_KEYWORDS: Final = frozenset(
    {
        *("type", "title", "description", "enum", "const", "anyOf", "$ref", "$defs", "definitions"),
        *("properties", "required", "additionalProperties", "items", "minItems", "maxItems"),
        *("pattern", "format", "multipleOf"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    }
)
_FORMATS: Final = frozenset(
    "date-time time date duration email hostname ipv4 ipv6 uuid".split()  # noqa: SIM905
)
_DEEPEST: Final = 10
_MOST_PROPERTIES: Final = 5_000


def faults_of_strict_schema(schema: Mapping[str, Any], at: str) -> Iterator[str]:
    """Check a schema that is to be followed strictly: OpenAI takes a part of JSON Schema."""
    if schema.get("type") != "object" or "anyOf" in schema:
        yield f"{at}: the root of a strict schema is an object"
    yield from _faults_of_part(schema, at, 0)
    if _count(schema) > _MOST_PROPERTIES:
        yield f"{at}: has more than {_MOST_PROPERTIES} properties"


def _faults_of_part(schema: Mapping[str, Any], at: str, depth: int) -> Iterator[str]:
    for keyword in sorted(schema.keys() - _KEYWORDS):
        yield f"{at}: {keyword!r} is not permitted in a strict schema"
    if "$ref" in schema and len(schema) > 1:
        yield f"{at}: nothing may stand beside $ref in a strict schema"
    if not schema.keys() & {"type", "enum", "const", "anyOf", "$ref"}:
        yield f"{at}: a strict schema has a type"
    if schema.get("format", "date") not in _FORMATS:
        yield f"{at}: the format {schema['format']!r} is not permitted in a strict schema"
    kinds = schema.get("type")
    kinds = [kinds] if isinstance(kinds, str) else kinds or []
    if "object" in kinds:
        yield from _faults_of_object(schema, at)
        if depth > _DEEPEST:
            yield f"{at}: is nested deeper than {_DEEPEST}"
    if "array" in kinds and not isinstance(schema.get("items"), dict):
        yield f"{at}: a strict array says what its items are"
    for key, part in _parts(schema):
        yield from _faults_of_part(part, f"{at}.{key}", depth + ("object" in kinds))


def _faults_of_object(schema: Mapping[str, Any], at: str) -> Iterator[str]:
    properties = schema.get("properties")
    if properties is None:
        yield f"{at}: a strict object has properties, even none"
    if schema.get("additionalProperties") is not False:
        yield f"{at}: a strict object has additionalProperties: false"
    required = schema.get("required", [])
    for name in sorted((properties or {}).keys() - set(required)):
        yield f"{at}: {name!r} is not required"
    for name in sorted(set(required) - (properties or {}).keys()):
        yield f"{at}: {name!r} is required and is no property"


def _parts(schema: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for key in ("properties", "$defs", "definitions"):
        for name, part in schema.get(key, {}).items():
            yield f"{key}.{name}", part
    for rank, part in enumerate(schema.get("anyOf", [])):
        yield f"anyOf[{rank}]", part
    if isinstance(schema.get("items"), dict):
        yield "items", schema["items"]


def _count(schema: Mapping[str, Any]) -> int:
    return len(schema.get("properties", {})) + sum(_count(part) for _, part in _parts(schema))


def faults_of_parameters(schema: Any, at: str, *, strict: bool) -> Iterator[str]:
    """Check the schema of the arguments of a tool."""
    if schema is None:
        return
    if schema.get("type") != "object":
        yield f"{at}: the arguments of a tool are an object"
    elif strict:
        yield from faults_of_strict_schema(schema, at)


def faults_of_output_schema(output: Mapping[str, Any], at: str) -> Iterator[str]:
    """Check the name and the schema of a structured answer of OpenAI."""
    if not NAME.fullmatch(output["name"]):
        yield f"{at}.name: {output['name']!r} is no name of a schema"
    if output.get("strict"):
        yield from faults_of_strict_schema(output.get("schema", {}), f"{at}.schema")
