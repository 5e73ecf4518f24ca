"""The schema of an answer, as Anthropic follows it."""

from typing import Any

import pytest

from loom_ia.adapters.models.anthropic.schema import followed

OPEN: Any = {"type": "object", "properties": {"a": {"type": "string"}}}
CLOSED: Any = {**OPEN, "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "given"),
    [
        pytest.param(OPEN, CLOSED, id="an object is closed"),
        pytest.param(
            {**OPEN, "additionalProperties": True}, CLOSED, id="more keys may be left out"
        ),
        pytest.param({"type": "object"}, {"type": "object"}, id="an object of any keys stays one"),
        pytest.param(
            {"type": "object", "additionalProperties": {"type": "string"}},
            {"type": "object", "additionalProperties": {"type": "string"}},
            id="a map stays one",
        ),
        pytest.param(
            {"type": "array", "items": OPEN, "minItems": 1},
            {"type": "array", "items": CLOSED, "minItems": 1},
            id="items",
        ),
        pytest.param(
            {"type": "array", "minItems": 2, "description": "Two."},
            {"type": "array", "description": "Two.\n\n{minItems: 2}"},
            id="what it ignores is told behind the description",
        ),
        pytest.param(
            {"type": ["string", "null"], "pattern": "^é$", "maxLength": 3},
            {"type": ["string", "null"], "description": '{pattern: "^é$", maxLength: 3}'},
            id="what it ignores is told",
        ),
        pytest.param(
            {"type": "string", "format": "date"},
            {"type": "string", "format": "date"},
            id="a format",
        ),
        pytest.param(
            {"type": "string", "format": "iban"},
            {"type": "string", "description": '{format: "iban"}'},
            id="a format that it ignores",
        ),
        pytest.param(
            {"oneOf": [{"const": 1}, OPEN]},
            {"anyOf": [{"const": 1}, CLOSED]},
            id="one of",
        ),
        pytest.param(
            {"anyOf": [{"const": 1}], "oneOf": [{"const": 1}]},
            {"anyOf": [{"const": 1}], "description": '{oneOf: [{"const": 1}]}'},
            id="one of beside any of",
        ),
        pytest.param(
            {"$schema": "https://json-schema.org/draft/2020-12/schema", "enum": ["a", None]},
            {"enum": ["a", None]},
            id="what is not for it",
        ),
        pytest.param(
            {"$ref": "#/$defs/line", "$defs": {"line": OPEN}},
            {"$ref": "#/$defs/line", "$defs": {"line": CLOSED}},
            id="definitions",
        ),
        pytest.param(
            {"$ref": "#/$defs/line", "description": "A line."},
            {"anyOf": [{"$ref": "#/$defs/line"}], "description": "A line."},
            id="nothing stands beside a reference",
        ),
        pytest.param(
            {**OPEN, "properties": {"any": True, "enum": {"type": "string"}}},
            {**CLOSED, "properties": {"any": True, "enum": {"type": "string"}}},
            id="a property may be named as a keyword",
        ),
    ],
)
def test_a_schema_is_given_as_anthropic_follows_it(schema: Any, given: Any) -> None:
    """Objects are closed, and what the grammar cannot hold is told to the model."""
    assert followed(schema) == given
