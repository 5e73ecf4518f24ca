"""What this version cannot do yet is refused by its name, never ignored."""

import pytest

from loom_ia.agents import AgentSpec
from loom_ia.config import LoomConfig
from loom_ia.config.availability import (
    EXPLAINED_KEYS,
    UNAVAILABLE_KEYS,
    UNAVAILABLE_VALUES,
    Pattern,
)
from loom_ia.config.validation import keys_at
from tests.config.projects import Folder

REQUIRED: dict[Pattern, dict[str, object]] = {
    ("models", "*"): {"id": "HAIKU", "sdk": "fake", "model": "m"},
    ("agents", "*"): {"name": "devis", "main": {"model": "HAIKU", "system": "s"}},
    ("agents", "*", "main"): {"model": "HAIKU", "system": "s"},
    ("agents", "*", "tools", "*"): {"python": "x"},
}


KEYS = [(pattern, key) for pattern, keys in UNAVAILABLE_KEYS.items() for key in sorted(keys)]


def written(pattern: Pattern, key: str, value: object) -> dict[str, object]:
    """Build a sound root where `key` is added in the section of `pattern`."""
    inner: object = {**REQUIRED.get(pattern, {}), key: value}
    for depth in range(len(pattern) - 1, -1, -1):
        if pattern[depth] == "*":
            inner = [inner]
        else:
            inner = {**REQUIRED.get(pattern[:depth], {}), pattern[depth]: inner}
    assert isinstance(inner, dict)
    models = [{"id": "HAIKU", "sdk": "fake", "model": "m"}]
    agents = [REQUIRED["agents", "*"]]
    return {"version": 1, "models": models, "agents": agents, **inner}


def shown(pattern: Pattern, key: str) -> str:
    """Write the path as the message does."""
    labels = {"models": "HAIKU", "agents": "devis", "tools": "0"}
    text = ""
    for position, part in enumerate((*pattern, key)):
        text += (
            f"[{labels[pattern[position - 1]]}]" if part == "*" else f".{part}" if text else part
        )
    return text


def load(folder: Folder, value: dict[str, object]) -> list[str]:
    """Give the problems of a project with that root."""
    import yaml

    folder.write("loom.yaml", yaml.safe_dump(value))
    folder.write("agents/devis.yaml", "name: autre\nmain: {model: HAIKU, system: s}\n")
    return folder.problems()


@pytest.mark.parametrize(("pattern", "key"), KEYS)
def test_a_known_key_is_not_available_yet(folder: Folder, pattern: Pattern, key: str) -> None:
    """The key is recognised: nobody looks for a typing error, and nothing is silently ignored."""
    (problem,) = load(folder, written(pattern, key, "x"))
    assert problem.endswith(f": {shown(pattern, key)} — not available in this version")


@pytest.mark.parametrize(
    ("pattern", "value"),
    [
        (pattern, value)
        for pattern, values in UNAVAILABLE_VALUES.items()
        for value in sorted(values)
    ],
)
def test_a_known_value_is_not_available_yet(folder: Folder, pattern: Pattern, value: str) -> None:
    """The values that can be used are listed."""
    (problem,) = load(folder, written(pattern[:-1], pattern[-1], value))
    start = f': {shown(pattern[:-1], pattern[-1])} — "{value}" is not available in this version ('
    assert start in problem


@pytest.mark.parametrize(
    ("pattern", "key"), [(p, key) for p, explained in EXPLAINED_KEYS.items() for key in explained]
)
def test_a_key_that_will_never_be_is_explained(folder: Folder, pattern: Pattern, key: str) -> None:
    """The remedy says where to write it instead, or why not."""
    (problem,) = load(folder, written(pattern, key, "x"))
    assert problem.endswith(f"{shown(pattern, key)} — {EXPLAINED_KEYS[pattern][key]}")


@pytest.mark.parametrize("pattern", list(UNAVAILABLE_KEYS))
def test_the_table_names_no_key_that_exists(pattern: Pattern) -> None:
    """A key that the classes have learnt has left the table."""
    path = tuple(0 if part == "*" else part for part in pattern)
    known = keys_at(AgentSpec, path[2:]) if path[:1] == ("agents",) else keys_at(LoomConfig, path)
    assert UNAVAILABLE_KEYS[pattern].isdisjoint(known)
