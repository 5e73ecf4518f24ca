"""PUB-31: whatever a schema is, its tool is offered as models take it, or hides no other."""

import json
import time
from contextlib import AsyncExitStack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loom_ia.adapters.mcp.schemas import Schemas, Unusable
from loom_ia.adapters.mcp.schemas import adapted as adapted_schema
from tests.adapters.mcp.conftest import Hand, context, definition, names, tool
from tests.adapters.mcp.test_programs import kept


def adapted(schema: Any) -> Schemas:
    """Read a schema, which is anything."""
    return adapted_schema(schema)


NODE = {
    "type": "object",
    "properties": {
        "value": {"type": "integer"},
        "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
    },
    "required": ["value"],
}


def test_references_are_followed() -> None:
    """What is shown refers to nothing; what is said beside a reference stays."""
    schema = {
        "type": "object",
        "properties": {
            "to": {"$ref": "#/$defs/address", "description": "Whom."},
            "copy": {"$ref": "#/definitions/a~1b"},
        },
        "$defs": {"address": {"type": "string", "minLength": 3, "description": "An address."}},
        "definitions": {"a/b": {"type": "string"}},
    }
    schemas = adapted(schema)
    assert schemas.shown == {
        "type": "object",
        "properties": {
            "to": {"type": "string", "minLength": 3, "description": "Whom."},
            "copy": {"type": "string"},
        },
    }
    assert schemas.misfit({"to": "a@"}) == "to: 'a@' is too short"
    assert schemas.misfit({"to": "a@b"}) == ""


def test_a_reference_that_leads_to_itself_is_cut() -> None:
    """A tree is shown some levels deep, and checked as deep."""
    schemas = adapted({"$ref": "#/$defs/node", "$defs": {"node": NODE}})
    assert "$ref" not in json.dumps(schemas.shown)
    assert schemas.shown["required"] == ["value"]
    assert schemas.misfit({"value": 1, "children": [{"value": 2, "children": []}]}) == ""
    assert schemas.misfit({"value": 1, "children": [{"value": "2"}]}) != ""


@pytest.mark.parametrize(
    ("ref", "reason"),
    [
        ("http://127.0.0.1:9/schema.json", "nothing is fetched"),
        ("other.json#/a", "nothing is fetched"),
        ("#/$defs/nowhere", "which is not in it"),
        ("#anchor", "nothing is fetched"),
        (3, "its schema"),
    ],
)
def test_a_reference_to_elsewhere_is_refused(ref: Any, reason: str) -> None:
    """No schema makes us open a connection."""
    with pytest.raises(Unusable, match=reason):
        adapted({"type": "object", "properties": {"a": {"$ref": ref}}})


def test_a_choice_at_the_root_is_laid_open() -> None:
    """What is shown has the properties of all shapes; what is checked is one of them."""
    schema = {
        "anyOf": [
            {
                "properties": {"id": {"type": "integer"}, "x": {"type": "string"}},
                "required": ["id", "x"],
            },
            {
                "properties": {"name": {"type": "string"}, "x": {"type": "null"}},
                "required": ["name", "x"],
            },
            {"type": "string"},
        ],
        "allOf": [{"properties": {"dry": {"type": "boolean"}}, "required": ["dry"]}],
        "additionalProperties": True,
    }
    schemas = adapted(schema)
    assert schemas.shown == {
        "type": "object",
        "properties": {
            "dry": {"type": "boolean"},
            "id": {"type": "integer"},
            "x": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "name": {"type": "string"},
        },
        "required": ["dry", "x"],
    }
    assert schemas.misfit({"dry": True, "id": 1, "x": "y"}) == ""
    assert schemas.misfit({"dry": True, "x": "y"}) != ""


@pytest.mark.parametrize(
    "schema", [None, {}, True, {"type": "object"}, {"type": ["object", "null"]}]
)
def test_a_schema_that_says_nothing_takes_anything(schema: Any) -> None:
    """Without properties, there are none."""
    assert adapted(schema).shown == {"type": "object", "properties": {}}


def test_older_words_are_translated() -> None:
    """Draft 4 and what was added since say the same, for models and for the check."""
    schema = {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "id": "http://example.com/tool",
        "type": "object",
        "properties": {
            "n": {"type": "integer", "minimum": 0, "exclusiveMinimum": True},
            "pair": {
                "type": "array",
                "items": [{"type": "string"}, {"type": "integer"}],
                "additionalItems": False,
            },
            "old": {"type": "string", "required": True},
        },
        "dependencies": {"n": ["pair"]},
    }
    schemas = adapted(schema)
    assert schemas.shown["properties"]["n"] == {"type": "integer", "exclusiveMinimum": 0}  # pyright: ignore[reportIndexIssue, reportArgumentType, reportCallIssue, reportOptionalSubscript]
    assert schemas.misfit({"n": 0, "pair": []}) != ""
    assert schemas.misfit({"n": 1}) != ""
    assert schemas.misfit({"pair": ["a", "b"]}) != ""
    assert schemas.misfit({"n": 1, "pair": ["a", 2]}) == ""


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("object", "no object"),
        ({"type": "array", "items": {}}, "takes 'array'"),
        ({"type": "objet"}, "not valid at type"),
        ({"properties": []}, "not valid at properties"),
        ({"properties": {"a": {"type": "int"}}}, "not valid at properties.a.type"),
        ({"anyOf": [{"type": "string"}]}, "none of the shapes"),
        ({"properties": {"à côté": {}}, "required": ["à côté"]}, "models cannot give"),
        ({"$dynamicRef": "#a"}, "a whole set of schemas"),
    ],
)
def test_what_no_model_can_be_shown_is_refused(schema: Any, reason: str) -> None:
    """The reason is told."""
    with pytest.raises(Unusable, match=reason):
        adapted(schema)


def test_cost_is_bounded() -> None:
    """Schemas that unfold without end, and patterns made to be slow, take no time."""
    began = time.perf_counter()
    doubling = {
        f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 1}"}]}
        for n in range(60)
    }
    doubled = adapted(
        {"properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": {**doubling, "d60": {}}}
    )
    branching = {"anyOf": [{"properties": {"x": {"$ref": "#/$defs/a"}}, "required": ["y"]}] * 3}
    wide = adapted({"$ref": "#/$defs/a", "$defs": {"a": branching}})
    chain = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(3_000)}
    chained = adapted(
        {"properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": {**chain, "d3000": {}}}
    )
    slow = adapted(
        {
            "properties": {"a": {"type": "string", "pattern": "^(?=(a+)+$)"}},
            "patternProperties": {"^(a+)+$": {}},
            "additionalProperties": False,
        }
    )
    nested: Any = {}
    for _ in range(60):
        nested = {"x": nested}
    for schemas in (doubled, wide, chained, slow):
        schemas.misfit({"a": "a" * 50_000 + "!", "x": nested, "b" * 50: "a" * 40 + "!"})
    assert time.perf_counter() - began < 60


def test_what_would_take_too_long_is_left_to_the_server() -> None:
    """A schema of many shapes and arguments of many values are not tried on each other."""
    shapes: list[Any] = [{"const": n} for n in range(3_000)]
    schemas = adapted({"properties": {"a": {"type": "array", "items": {"anyOf": shapes}}}})
    assert schemas.misfit({"a": ["x"]}) != ""
    began = time.perf_counter()
    many: list[Any] = ["x"] * 5_000
    assert schemas.misfit({"a": many}) == ""
    assert time.perf_counter() - began < 60


def test_hidden_text_is_not_shown() -> None:
    """What no reader sees, no model is told."""
    hidden = "".join(chr(0xE0000 + ord(c)) for c in "send all")
    schema = {"properties": {"a": {"description": f"Name\u202e{hidden}\u200b of it"}}}
    assert adapted(schema).shown["properties"] == {"a": {"description": "Name of it"}}


async def test_one_bad_tool_hides_no_other(hand: Hand, stack: AsyncExitStack) -> None:
    """Each one that cannot be offered is told by its name, with the reason."""
    deep: Any = {}
    for _ in range(100):
        deep = {"properties": {"a": deep}}
    hand.define(
        definition("good"),
        {"name": "nothing"},
        definition("root", inputSchema={"anyOf": [{"properties": {"a": {}}}]}),
        definition("list", inputSchema=["a"]),
        definition("far", inputSchema={"properties": {"a": {"$ref": "http://127.0.0.1:9/x"}}}),
        definition("deep", inputSchema=deep),
        definition("long", description="x" * 200_000),
        definition("twice"),
        definition("twice", description="Not the same."),
        {"name": 3},
        {"name": "x" * 300},
        "no tool",
        definition("à/é.ü" * 18),
        definition("last", description="y" * 10_000),
    )
    opened = await kept(stack, hand.source()).open(context())
    assert names(opened) == ["good", "nothing", "root", "à/é.ü" * 18, "last"]
    assert {"list", "far", "deep", "long", "twice", "(no name)"} <= set(opened.withheld)
    assert len(tool(opened, "last").spec.description) == 8_001
    assert all(opened.withheld.values())


_KEYWORDS = st.sampled_from(
    ["type", "properties", "required", "anyOf", "oneOf", "allOf", "not", "items", "$ref", "$defs",
     "enum", "const", "pattern", "additionalProperties", "exclusiveMinimum", "dependencies", "a"]
)  # fmt: skip
_VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-2, 2),
        st.sampled_from(["object", "string", "#", "#/$defs/a", "#/properties/a", "a", "(a+)+$"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(_KEYWORDS, inner, max_size=4)
    ),
    max_leaves=20,
)


@given(schema=_VALUES, arguments=st.dictionaries(st.sampled_from(["a", "b"]), _VALUES, max_size=2))
def test_any_schema_is_taken_or_refused(schema: Any, arguments: Any) -> None:
    """Nothing but `Unusable` comes out, and what is shown is an object that refers to nothing."""
    try:
        schemas = adapted(schema)
    except Unusable:
        return
    assert schemas.shown["type"] == "object"
    assert isinstance(schemas.shown["properties"], dict)
    assert not {"anyOf", "oneOf", "allOf", "not", "enum"} & schemas.shown.keys()
    assert isinstance(schemas.misfit(arguments), str)
