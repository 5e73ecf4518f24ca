"""The JSON Schema of the configuration accepts what loads, and refuses what does not."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator, Draft202012Validator
from jsonschema.protocols import Validator

from loom_ia.config.availability import UNAVAILABLE_KEYS, Pattern
from loom_ia.config.schema import agent_schema, root_schema

EXAMPLE = Path(__file__).parents[2] / "examples" / "quickstart"
DRAFTS: list[type[Validator]] = [Draft7Validator, Draft202012Validator]
AGENT: dict[str, Any] = {
    "name": "devis",
    "main": {"model": "A", "system_file": "devis.md", "llm": {"params": {"any": 1}}},
    "approval": {"expires_in": None},
    "output": {"schema": {"type": "object"}},
    "tools": [{"python": "prix", "timeout": 3}],
}
ROOT: dict[str, Any] = {
    "version": 1,
    "profile": "dev",
    "profiles": {"prod": {"storage": {"events": {"backend": "sqlite"}}}, "dev": {}},
    "env_file": "prod.env",
    "models": [
        {"id": "A", "sdk": "fake", "model": "m", "params": {"any": []}, "pricing": {"input": 1}}
    ],
    "storage": {"events": {"backend": "memory"}, "artifacts": {"backend": None}},
    "execution": {"tools": {"timeout": None}},
    "telemetry": {"logging": {"level": "ERROR"}},
    "agents": [AGENT],
}
SCHEMAS = {"root": (root_schema(), ROOT), "agent": (agent_schema(), AGENT)}


def mappings(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """List the places of mappings whose keys are ours."""
    found: list[tuple[str | int, ...]] = [path] if isinstance(value, dict) else []
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        if key not in {"params", "schema"} and isinstance(inner, dict | list):
            found += mappings(inner, (*path, key))
    return found


def at(value: Any, path: tuple[str | int, ...]) -> Any:
    """Give what is at a place."""
    for part in path:
        value = value[part] if isinstance(part, int) else value.setdefault(part, {})
    return value


PLACES = [(name, place) for name, (_, value) in SCHEMAS.items() for place in mappings(value)]


@pytest.mark.parametrize("draft", DRAFTS)
def test_b18_the_schema_is_one_and_accepts_the_quickstart(draft: type[Validator]) -> None:
    """The files that `loom init` writes are valid, in the old dialect and in the new one."""
    for name, schema in (("loom.yaml", root_schema()), ("agents/devis.yaml", agent_schema())):
        draft.check_schema(schema)
        draft(schema).validate(yaml.safe_load((EXAMPLE / name).read_text("utf-8")))


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize(("name", "place"), PLACES)
def test_b18_an_unknown_key_is_refused_everywhere(
    draft: type[Validator], name: str, place: tuple[str | int, ...]
) -> None:
    """In each section, in the items of lists and in profiles."""
    schema, value = SCHEMAS[name]
    assert draft(schema).is_valid(value)
    wrong = deepcopy(value)
    at(wrong, place)["unknown_key"] = 1
    assert not draft(schema).is_valid(wrong)


@pytest.mark.parametrize(
    ("pattern", "key"), [(p, key) for p, keys in UNAVAILABLE_KEYS.items() for key in sorted(keys)]
)
def test_b18_only_what_is_available_is_in_the_schema(pattern: Pattern, key: str) -> None:
    """An editor proposes nothing that `loom validate` refuses."""
    wrong = deepcopy(ROOT)
    section = at(wrong, tuple(0 if part == "*" else part for part in pattern))
    assert Draft7Validator(root_schema()).is_valid(wrong)
    section[key] = {}
    assert not Draft7Validator(root_schema()).is_valid(wrong)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"version": 2}, "root"),
    ({"language": "es"}, "root"),
    ({"imports": "outils"}, "root"),
    ({"execution": {"lease": 0}}, "root"),
    ({"profiles": {"prod": {"env_file": "x"}}}, "root"),
    ({"profiles": {"prod": {"profiles": {}}}}, "root"),
    ({"profiles": {"prod": {"language": "es"}}}, "root"),
    ({"profiles": {"test": {}}}, "root"),
    ({"models": [{"id": "A"}]}, "root"),
    ({"name": "d e"}, "agent"),
    ({"max_iterations": 0}, "agent"),
    ({"main": {"model": "A"}}, "agent"),
    ({"main": {"model": "A", "system": "s", "system_file": "f"}}, "agent"),
    ({"tools": [{}]}, "agent"),
    ({"output": {"max_chars": 0}}, "agent"),
    ({"output": {"schema": {}, "schema_file": "f"}}, "agent"),
    ({"output": {"json_schema": {}}}, "agent"),
]


@pytest.mark.parametrize(("change", "name"), WRONG)
def test_b18_a_wrong_value_is_refused(change: dict[str, Any], name: str) -> None:
    """Enumerations, types, bounds and what is required."""
    schema, value = SCHEMAS[name]
    assert not Draft7Validator(schema).is_valid({**value, **change})
    missing = {key: inner for key, inner in value.items() if key not in {"version", "name"}}
    assert not Draft7Validator(schema).is_valid(missing)


@pytest.mark.parametrize("name", list(SCHEMAS))
def test_every_key_of_the_schema_is_described(name: str) -> None:
    """An editor shows what a key means."""
    schema, _ = SCHEMAS[name]
    sections = schema["definitions"]
    for section in (schema, *(found for found in sections.values() if "properties" in found)):
        for key, value in section["properties"].items():
            inner = value.get("allOf", [{"$ref": ""}])[0]["$ref"].rpartition("/")[2]
            assert value.get("description") or sections[inner]["description"], key
            assert "title" not in value
            assert "$ref" not in value
