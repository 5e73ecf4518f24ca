"""Which values may enter the state of a session, and what a pointer finds."""

from typing import Any

import pytest

from loom_ia.core.model.content import ToolOutput
from loom_ia.core.model.session_state import StateKey, StateRules, StateSource
from loom_ia.core.pointer import NOTHING, at, is_pointer
from loom_ia.core.session_values import admitted, extracted, missing, size_of

DOCUMENT: Any = {
    "foo": ["bar", "baz"],
    "": 0,
    "a/b": 1,
    "c%d": 2,
    "e^f": 3,
    "g|h": 4,
    "i\\j": 5,
    'k"l': 6,
    " ": 7,
    "m~n": 8,
}


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("", DOCUMENT),
        ("/foo", ["bar", "baz"]),
        ("/foo/0", "bar"),
        ("/", 0),
        ("/a~1b", 1),
        ("/c%d", 2),
        ("/e^f", 3),
        ("/g|h", 4),
        ("/i\\j", 5),
        ('/k"l', 6),
        ("/ ", 7),
        ("/m~0n", 8),
        ("/foo/2", NOTHING),
        ("/foo/-", NOTHING),
        ("/foo/01", NOTHING),
        ("/foo/-1", NOTHING),
        ("/foo/0/0", NOTHING),
        ("/bar", NOTHING),
        ("/foo/99999999999999999999", NOTHING),
    ],
)
def test_a_pointer_finds_what_the_standard_says(pointer: str, value: object) -> None:
    """The examples of RFC 6901, section 5, and what leads to nothing."""
    assert is_pointer(pointer)
    assert at(DOCUMENT, pointer) == value


@pytest.mark.parametrize("pointer", ["foo", "#/foo", "/a~", "/a~2", "/" * 65, "/" + "x" * 1024])
def test_what_is_no_pointer_is_told(pointer: str) -> None:
    """A pointer is checked, and its length and depth are bounded."""
    assert not is_pointer(pointer)


RULES = StateRules(
    {
        "name": StateKey(schema={"type": "string"}),
        "other": StateKey(),
        "tone": StateKey(default="formal"),
    },
    max_value_bytes=40,
    max_total_bytes=80,
)


def deep(levels: int) -> Any:
    """Nest lists."""
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("key", "value", "kind"),
    [
        ("nome", "x", "undeclared"),
        ("k" * 100_000, "x", "undeclared"),
        ("\ud800", "x", "undeclared"),
        ("name", 3, "misfit"),
        ("other", float("nan"), "unstorable"),
        ("other", {"a": [float("inf")]}, "unstorable"),
        ("other", deep(65), "unstorable"),
        ("other", deep(100_000), "unstorable"),
        ("other", {1: 2}, "unstorable"),
        ("other", object(), "unstorable"),
        ("other", 1 << 20_000, "unstorable"),
        ("other", "x" * 39, "too_large"),
        ("name", "é" * 20, "too_large"),
    ],
    ids=map(str, range(13)),
)
def test_a_value_that_cannot_be_kept_is_refused(key: str, value: object, kind: str) -> None:
    """The refusal names the key, within bounds, and what kept it out."""
    judged = admitted({key: value, "tone": "warm"}, RULES, {})
    (refusal,) = judged.refused
    assert refusal.kind == kind
    assert refusal.key[:10].encode("utf-8", "replace")
    assert len(refusal.key) <= 65
    assert len(refusal.detail) <= 1000
    assert judged.values == {"tone": "warm"}


def test_the_whole_is_bounded_with_the_defaults() -> None:
    """Values are taken in their order until there is no room; what is erased makes room."""
    full = {"name": "n" * 30, "other": "o" * 20}
    judged = admitted(full, RULES, {})
    assert judged.values == {"name": "n" * 30}
    assert [(r.key, r.kind) for r in judged.refused] == [("other", "no_room")]
    judged = admitted({"other": "o" * 20, "name": None}, RULES, {"name": "n" * 30})
    assert judged.values == {"other": "o" * 20, "name": None}
    assert not judged.refused


def test_refusals_are_bounded() -> None:
    """A thousand wrong keys give twenty refusals."""
    assert len(admitted({f"k{i}": 1 for i in range(1000)}, RULES, {}).refused) == 20


def test_what_is_kept_is_a_copy() -> None:
    """Whoever changes what he gave changes no fact."""
    given: Any = {"other": {"list": [1]}}
    judged = admitted(given, RULES, {})
    given["other"]["list"].append(2)
    assert judged.values == {"other": {"list": [1]}}


SOURCES = StateRules(
    {
        "id": StateKey(sources=(StateSource("look", "/id"),)),
        "name": StateKey(sources=(StateSource("look", "/name", on_missing="ignore"),)),
        "seen": StateKey(sources=(StateSource("look", None, True), StateSource("quit"))),
    }
)


def test_a_result_gives_what_the_sources_say() -> None:
    """A pointer takes a part of the data, null included, and a value is written as it is."""
    found = extracted(ToolOutput(data={"id": None, "name": "Ana"}), "look", SOURCES)
    assert found.values == {"id": None, "name": "Ana", "seen": True}
    assert extracted(ToolOutput(data=1), "quit", SOURCES).values == {"seen": None}


def test_what_is_missing_is_refused_or_ignored() -> None:
    """Each source says what becomes of a result that has nothing there."""
    found = extracted(ToolOutput.of_text("no document"), "look", SOURCES)
    assert [(r.key, r.kind, r.detail) for r in found.refused] == [("id", "missing", "/id")]
    assert found.values == {"seen": True}


def test_an_error_and_another_tool_write_nothing() -> None:
    """Only a success of the tool that is named counts."""
    assert extracted(ToolOutput.of_error("no"), "look", SOURCES).values == {}
    assert extracted(ToolOutput(data={"id": 1}), "other", SOURCES).values == {}


def test_a_required_key_needs_a_value_that_fits() -> None:
    """One that is absent, or that does not fit its schema any more, is told."""
    rules = StateRules({"a": StateKey(schema={"type": "integer"}, required=True), "b": StateKey()})
    assert [f.kind for f in missing(rules, {})] == ["missing"]
    assert [f.kind for f in missing(rules, {"a": "x"})] == ["misfit"]
    assert not list(missing(rules, {"a": 1}))


def test_a_size_is_in_bytes_of_json() -> None:
    """Two for the quotes, and two for a letter with an accent."""
    assert size_of("é") == 4
