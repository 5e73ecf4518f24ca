"""What the formats share: keys that are passed through, and strict schemas."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.providers.edits import BARE, GONE, STRICT, Edit, edited, table
from tests.providers.rules import problems_of_chat, problems_of_messages

PLACE = "tools[0].function.parameters"


def of_schema(schema: dict[str, Any], *, strict: bool = True) -> list[str]:
    """Tell what is wrong with the schema of a tool."""
    function = {"name": "find", "parameters": schema, "strict": strict}
    return problems_of_chat({**BARE, "tools": [{"type": "function", "function": function}]})


@pytest.mark.parametrize(
    ("problems", "body"), [(problems_of_messages, BARE), (problems_of_chat, BARE)]
)
def test_what_is_passed_through_is_named(
    problems: Callable[..., list[str]], body: dict[str, Any]
) -> None:
    """A key in `extra` may stand anywhere, and no other may."""
    body = edited(body, ("top_k", 3), ("messages.0.mood", 1))
    assert problems(body, extra={"top_k", "mood"}) == []
    assert problems(body, extra={"top_k"}) == ["messages[0].mood: Extra inputs are not permitted"]


@table(
    (
        "more keys",
        [("additionalProperties", GONE)],
        ": a strict object has additionalProperties: false",
    ),
    (
        "more keys inside",
        [("$defs.place.additionalProperties", True)],
        ".$defs.place: a strict object has additionalProperties: false",
    ),
    ("a key that may be absent", [("required.4", GONE)], ": 'size' is not required"),
    ("a key that is not there", [("required.+", "x")], ": 'x' is required and is no property"),
    (
        "no properties",
        [("$defs.place", {"type": "object", "additionalProperties": False})],
        ".$defs.place: a strict object has properties, even none",
    ),
    (
        "a default",
        [("properties.name.default", "a")],
        ".properties.name: 'default' is not permitted in a strict schema",
    ),
    (
        "a length",
        [("properties.tags.items.minLength", 1)],
        ".properties.tags.items: 'minLength' is not permitted in a strict schema",
    ),
    (
        "one of many",
        [("properties.when", {"type": "string", "oneOf": []})],
        ".properties.when: 'oneOf' is not permitted in a strict schema",
    ),
    (
        "an unknown format",
        [("properties.when.anyOf.0.format", "uri")],
        ".properties.when.anyOf[0]: the format 'uri' is not permitted in a strict schema",
    ),
    (
        "something beside a reference",
        [("properties.place.description", "A place.")],
        ".properties.place: nothing may stand beside $ref in a strict schema",
    ),
    ("no type", [("properties.name", {})], ".properties.name: a strict schema has a type"),
    (
        "an array of anything",
        [("properties.tags.items", GONE)],
        ".properties.tags: a strict array says what its items are",
    ),
)
def test_a_strict_schema_is_strict(edits: list[Edit], problem: str) -> None:
    """OpenAI takes a part of JSON Schema, at every level."""
    schema = edited(STRICT, *edits)
    assert of_schema(schema) == [f"{PLACE}{problem}"]
    assert of_schema(schema, strict=False) == []


def test_a_strict_schema_is_not_deeper_than_ten_objects() -> None:
    """The eleventh object inside another is one too many."""
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(11):
        schema = {
            "type": "object",
            "properties": {"x": schema},
            "required": ["x"],
            "additionalProperties": False,
        }
    assert of_schema(schema) == []
    deeper = {**schema, "properties": {"x": schema}}
    assert of_schema(deeper) == [f"{PLACE}{'.properties.x' * 11}: is nested deeper than 10"]


def test_a_strict_schema_has_at_most_5000_properties() -> None:
    """They are counted at every level."""
    names = [f"x{number}" for number in range(2_501)]
    part = {
        "type": "object",
        "properties": {name: {"type": "string"} for name in names},
        "required": names,
        "additionalProperties": False,
    }
    schema = {**part, "properties": {**part["properties"], "x0": part}}
    assert of_schema(part) == []
    assert of_schema(schema) == [f"{PLACE}: has more than 5000 properties"]


def test_the_root_of_a_strict_schema_is_an_object() -> None:
    """A union may stand anywhere but there."""
    output = {"name": "x", "schema": {"anyOf": [{"type": "string"}]}, "strict": True}
    body = {**BARE, "response_format": {"type": "json_schema", "json_schema": output}}
    assert problems_of_chat(body) == [
        "response_format.json_schema.schema: the root of a strict schema is an object"
    ]
