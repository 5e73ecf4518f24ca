"""Which schemas are followed to the letter."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loom_ia.adapters.models.strict import qualifies
from tests.providers.edits import GONE, Edit, edited
from tests.providers.edits import STRICT as TAKEN
from tests.providers.rules_common import faults_of_strict_schema

STRICT = edited(TAKEN, ("properties.tags.items.type", "string"))


def closed(**properties: Any) -> dict[str, Any]:
    """Write an object of exactly these properties."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def nested(depth: int, inside: Any, *, kind: str = "object") -> dict[str, Any]:
    """Put a schema so deep, the root being the first level."""
    for _ in range(depth - 1):
        inside = closed(x=inside) if kind == "object" else {"type": "array", "items": inside}
    return closed(x=inside)


TEXT = {"type": "string"}
NODE = {**closed(value=TEXT, next={"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]})}


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param(STRICT, id="every keyword"),
        pytest.param(closed(), id="no property"),
        pytest.param(closed(a={"type": ["string", "null"]}), id="what may be null"),
        pytest.param(closed(a={"type": "string", "const": "x"}), id="a constant"),
        pytest.param(closed(a={"anyOf": [TEXT, closed(b=TEXT)]}), id="a union of objects"),
        pytest.param({**closed(a={"$ref": "#"}), "title": "T"}, id="the root inside itself"),
        pytest.param({**closed(a={"$ref": "#/$defs/node"}), "$defs": {"node": NODE}}, id="a list"),
        pytest.param(
            {**closed(a={"$ref": "#/definitions/a~1b~0"}), "definitions": {"a/b~": TEXT}},
            id="an odd name of a definition",
        ),
        pytest.param(closed(a={"type": "string", "pattern": "^(?:a|b)+$"}), id="a pattern"),
        pytest.param(closed(**{"$ref": TEXT, "type": TEXT}), id="properties named as keywords"),
        pytest.param(nested(10, TEXT), id="ten levels"),
        pytest.param(closed(**{f"p{n}": TEXT for n in range(5_000)}), id="5000 properties"),
    ],
)
def test_a_schema_qualifies(schema: dict[str, Any]) -> None:
    """What OpenAI follows to the letter is recognised."""
    assert list(faults_of_strict_schema(schema, "$")) == []
    assert qualifies(schema)


@pytest.mark.parametrize(
    "edits",
    [
        pytest.param([("additionalProperties", GONE)], id="more keys"),
        pytest.param([("additionalProperties", TEXT)], id="more keys of a kind"),
        pytest.param([("$defs.place.additionalProperties", True)], id="more keys inside"),
        pytest.param([("required.4", GONE)], id="a key that may be absent"),
        pytest.param([("required", GONE)], id="nothing required"),
        pytest.param([("required.+", "x")], id="a key that is not there"),
        pytest.param([("$defs.place.properties", GONE)], id="no properties"),
        pytest.param([("properties.name.default", "a")], id="a default"),
        pytest.param([("properties.tags.items.minLength", 1)], id="a length"),
        pytest.param([("properties.tags.uniqueItems", True)], id="unique items"),
        pytest.param([("properties.tags.prefixItems", [])], id="a tuple"),
        pytest.param([("properties.when", {"oneOf": [TEXT]})], id="one of many"),
        pytest.param([("properties.when", {"allOf": [TEXT]})], id="all of many"),
        pytest.param([("properties.when", {"not": TEXT})], id="a negation"),
        pytest.param([("properties.when.anyOf", [])], id="a union of nothing"),
        pytest.param([("properties.when.anyOf.0.format", "uri")], id="an unknown format"),
        pytest.param([("properties.place.description", "x")], id="beside a reference"),
        pytest.param([("properties.place.$ref", "#/$defs/other")], id="a lost reference"),
        pytest.param([("properties.place.$ref", "https://example.com")], id="a reference outside"),
        pytest.param([("properties.name", {})], id="no type"),
        pytest.param([("properties.name", True)], id="no schema"),
        pytest.param([("properties.name.type", "text")], id="an unknown type"),
        pytest.param([("properties.name.type", 3)], id="a type that is none"),
        pytest.param([("properties.tags.items", GONE)], id="an array of anything"),
        pytest.param([("properties.tags.items", True)], id="an array of any items"),
        pytest.param([("properties.tags.items.type", GONE)], id="values without a type"),
        pytest.param([("properties.tags.items.enum", [])], id="no value"),
        pytest.param([("properties.tags.items.type", ["string", "null"])], id="values of types"),
        pytest.param([("properties.name.pattern", "^(?!x).*$")], id="a look ahead"),
        pytest.param([("properties.name.pattern", r"^(a)\1$")], id="a look back"),
        pytest.param([("type", ["object", "null"])], id="a root that may be null"),
        pytest.param([("type", GONE)], id="a root without a type"),
        pytest.param([("anyOf", [TEXT])], id="a union at the root"),
        pytest.param([("$ref", "#/$defs/place")], id="a reference at the root"),
        pytest.param([("$schema", "https://json-schema.org/draft/2020-12")], id="a dialect"),
        pytest.param([("$defs", [TEXT])], id="definitions without names"),
        pytest.param([("properties", [])], id="properties without names"),
    ],
)
def test_a_schema_does_not_qualify(edits: list[Edit]) -> None:
    """What OpenAI would refuse is not called strict, at any level."""
    assert not qualifies(edited(STRICT, *edits))


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"type": "object"}, id="any object"),
        pytest.param(TEXT, id="a text"),
        pytest.param(nested(10, closed()), id="eleven objects"),
        pytest.param(nested(11, TEXT, kind="array"), id="ten arrays"),
        pytest.param(closed(**{f"p{n}": TEXT for n in range(5_001)}), id="5001 properties"),
        pytest.param(
            closed(a={"type": "integer", "enum": list(range(1_001))}), id="a thousand values"
        ),
        pytest.param(
            closed(a={"type": "string", "enum": [f"{n:060}" for n in range(251)]}),
            id="long values",
        ),
        pytest.param(closed(**{f"{n:0300}": TEXT for n in range(401)}), id="long names"),
    ],
)
def test_a_schema_beyond_the_limits_does_not_qualify(schema: dict[str, Any]) -> None:
    """The mode has limits, of depth and of size."""
    assert not qualifies(schema)


_NAMES = st.sampled_from(["a", "b", "type", "$ref"])
_LEAVES = st.sampled_from(
    [TEXT, {"type": "integer", "minimum": 0}, {}, True, {"enum": [1]}, {"$ref": "#"}, None]
)


def _closed(properties: dict[str, Any], loose: bool, missing: bool) -> dict[str, Any]:
    schema = closed(**properties)
    if loose:
        del schema["additionalProperties"]
    if missing:
        schema["required"] = schema["required"][1:]
    return schema


_SCHEMAS = st.recursive(
    _LEAVES,
    lambda inside: st.one_of(
        st.builds(
            _closed,
            st.dictionaries(_NAMES, inside, max_size=3),
            st.sampled_from([False, False, True]),
            st.sampled_from([False, False, True]),
        ),
        st.builds(lambda items: {"type": "array", "items": items}, inside),
        st.builds(lambda members: {"anyOf": members}, st.lists(inside, max_size=2)),
    ),
    max_leaves=12,
)


@given(_SCHEMAS)
def test_what_qualifies_is_taken(schema: Any) -> None:
    """No schema that is called strict has what OpenAI refuses."""
    if isinstance(schema, dict) and qualifies(schema):
        assert list(faults_of_strict_schema(schema, "$")) == []
