"""Routers: where they lead, what they refuse, and what they tell beforehand."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loom_ia.graph.errors import RouteError
from loom_ia.graph.routers import (
    FanOut,
    KnownTargets,
    Route,
    always,
    branch,
    branch_by,
    condition,
    declared,
    end,
    fan_out,
    normalised,
    router_of,
    targets_of,
)
from loom_ia.graph.types import DELETE, END, MISSING, Router, Send


class Level(IntEnum):
    HIGH = 2


class Verdict(StrEnum):
    PASS = "pass"


@dataclass(frozen=True)
class Typed:
    action: str


def edges_of(then: Any) -> list[tuple[object, str]]:
    """Give the edges that are known of a router."""
    known = targets_of(then)
    assert known is not None
    return list(known.edges())


def test_rt01_always_gives_its_name() -> None:
    """A constant router gives its target whatever the state, and `end` gives the end."""
    assert always("next")({}) == "next"
    assert always(END)({}) is END
    assert end()({"x": 1}) is END


ROUTES = {"approve": "step_a", "reject": "step_b"}


@pytest.mark.parametrize(
    ("state", "expected"),
    [({"action": "approve"}, "step_a"), ({"action": "reject"}, "step_b")],
)
def test_rt03_branch_finds_the_route_of_a_value(state: dict[str, Any], expected: str) -> None:
    """A value that has a route goes there."""
    assert branch("action", ROUTES)(state) == expected


def test_rt04_branch_falls_back_on_its_default() -> None:
    """A value without a route, and a missing key, go to the default."""
    router = branch("action", ROUTES, default="other")
    assert router({"action": "perhaps"}) == "other"
    assert router({}) == "other"
    assert branch("action", ROUTES, default=END)({}) is END


@pytest.mark.parametrize(
    ("value", "routes", "expected"),
    [
        (42, {"42": "found"}, "found"),
        (42, {42: "found"}, "found"),
        (42, {"42": "text", 42: "value"}, "value"),
        (True, {"true": "yes"}, "yes"),
        (False, {"false": "no"}, "no"),
        (True, {True: "yes", "true": "text"}, "yes"),
        (Level.HIGH, {"2": "high"}, "high"),
        (Verdict.PASS, {"pass": "done"}, "done"),
        ("pass", {Verdict.PASS: "done"}, "done"),
        (None, {None: "nothing"}, "nothing"),
        (("a", 1), {("a", 1): "pair"}, "pair"),
    ],
)
def test_rt06_branch_looks_up_a_value_then_the_text_of_a_number(
    value: Any, routes: dict[Any, str], expected: str
) -> None:
    """The value itself comes first; an int or a bool then goes by its text."""
    assert branch("code", routes)({"code": value}) == expected


@pytest.mark.parametrize("value", [1.5, 42.0, "42 ", None, b"42", Level])
def test_only_ints_and_bools_go_by_their_text(value: Any) -> None:
    """A value of another type has no text to go by."""
    routes = {"1.5": "a", "42": "b", "42.0": "c", "None": "d", "b'42'": "e"}
    assert branch("code", routes, default="none")({"code": value}) == "none"


@given(st.integers())
def test_w18_routes_by_value(number: int) -> None:
    """Any integer is found by itself and by its exact text, however large."""
    assert branch("n", {number: "hit"})({"n": number}) == "hit"
    assert branch("n", {str(number): "hit"})({"n": number}) == "hit"


def test_w18_a_large_number_takes_one_route_as_value_and_as_text() -> None:
    """Ten millions are not written with an exponent."""
    assert branch("n", {"10000000": "hit", "1e+07": "miss"})({"n": 10_000_000}) == "hit"


def test_rt07_condition_chooses_by_its_predicate() -> None:
    """What holds goes one way, what does not the other, which may be the end."""
    router = condition(lambda s: s["score"] >= 0.7, "pass", "")
    assert router({"score": 0.8}) == "pass"
    assert router({"score": 0.6}) == ""


def test_rt09_branch_by_looks_up_what_its_function_gives() -> None:
    """The function's value is looked up as that of a key would be."""
    router = branch_by(
        lambda s: "high" if s["level"] > 5 else "low", {"high": "step_a", "low": "step_b"}
    )
    assert router({"level": 10}) == "step_a"
    assert router({"level": 2}) == "step_b"
    assert branch_by(lambda s: s["level"], {"7": "seven"})({"level": 7}) == "seven"
    assert branch_by(lambda s: MISSING, {MISSING: "gone"}, default="x")({}) == "gone"


def test_w53_a_missing_key_is_not_an_empty_string() -> None:
    """Each has its own route, and an empty string without one goes to the default."""
    router = branch("k", {MISSING: "missing", "": "empty"}, default="other")
    assert router({}) == "missing"
    assert router({"k": ""}) == "empty"
    assert router({"k": None}) == "other"
    assert branch("k", {"": "empty"}, default="other")({}) == "other"
    assert branch("k", {MISSING: "missing"}, default="other")({"k": ""}) == "other"


def test_branch_reads_a_mapping_and_an_instance() -> None:
    """A state may be a read-only mapping or a frozen instance."""
    router = branch("action", ROUTES, default="other")
    assert router(MappingProxyType({"action": "approve"})) == "step_a"
    assert router(Typed("reject")) == "step_b"
    assert branch("absent", {MISSING: "gone"})(Typed("x")) == "gone"


@pytest.mark.parametrize("value", [["a"], {"a": 1}, {1}])
def test_a_value_that_cannot_be_a_key_goes_to_the_default(value: Any) -> None:
    """A list, a dict or a set has no route, and is no crash."""
    assert branch("k", {"a": "b"}, default="other")({"k": value}) == "other"
    with pytest.raises(RouteError, match="add a route, or a default"):
        branch("k", {"a": "b"})({"k": value})


def test_no_route_names_the_key_the_value_and_the_routes() -> None:
    """The error says what was looked for, and what there was."""
    with pytest.raises(RouteError) as caught:
        branch("action", ROUTES)({"action": "{perhaps}"})
    assert str(caught.value) == (
        "'action' is '{perhaps}', and its routes are 'approve', 'reject': add a route, or a default"
    )
    with pytest.raises(RouteError, match=r"the state has no key 'action'.*'approve'"):
        branch("action", ROUTES)({})
    with pytest.raises(RouteError, match="its routes are none"):
        branch_by(len, {})({})


def test_a_router_keeps_its_own_routes() -> None:
    """Changing the table given, or a list that a router gave, changes nothing."""
    routes: dict[Any, Any] = {"a": ["x", "y"]}
    router = branch("k", routes)
    routes["a"].append("z")
    routes["b"] = "w"
    answer: Any = router({"k": "a"})
    answer.append("z")
    assert router({"k": "a"}) == ["x", "y"]
    assert edges_of(router) == [("x", "a"), ("y", "a")]
    with pytest.raises(RouteError):
        router({"k": "b"})


def test_known_targets_are_told_with_their_labels() -> None:
    """Keys are labels, as texts; a default and a constant have none."""
    router = branch("k", {"a": "x", 42: "y", True: "z", MISSING: END, "": "x"}, default=["x", "w"])
    assert edges_of(router) == [
        ("x", "a"),
        ("y", "42"),
        ("z", "true"),
        (END, "MISSING"),
        ("x", ""),
        ("w", ""),
    ]
    assert edges_of(condition(bool, "x", END)) == [("x", "true"), (END, "false")]
    assert edges_of(always("x")) == [("x", "")]
    assert edges_of(end()) == edges_of(None) == edges_of("") == [(END, "")]
    assert edges_of(["x", Send("y", {"n": 1})]) == [("x", ""), ("y", "")]
    assert edges_of(branch("v", {Verdict.PASS: "x"})) == [("x", "pass")]


def test_w51_a_router_written_by_hand_tells_nothing() -> None:
    """Its targets are unknown until the author names them."""
    assert targets_of(lambda state: "x") is None
    known = declared(["x", "y", ""])
    assert known.names == ("x", "y")
    assert known.may_end
    assert known.and_also(KnownTargets((Route(("x",)),))) == known


@pytest.mark.parametrize("wrong", ["name", b"x", 3, [None], [3]])
def test_declared_targets_are_a_list_of_names(wrong: Any) -> None:
    """A lone name would be read letter by letter, so it is refused."""
    with pytest.raises(ValueError, match="targets="):
        declared(wrong)


def test_router_of_reads_a_target_as_a_constant_router() -> None:
    """A name, the end, a list and nothing are routers; a router stays itself."""
    router = branch("k", {})
    assert router_of(router) is router
    assert router_of("x")({}) == "x"
    assert router_of(["x", "y"])({}) == ["x", "y"]
    assert router_of(None)({}) is END


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (END, ()),
        ("", ()),
        ("x", ("x",)),
        (Verdict.PASS, ("pass",)),
        (["x"], ("x",)),
        (("x", "y"), ("x", "y")),
        ([Send("x", {"a": 1}), "y"], (Send("x", {"a": 1}), "y")),
    ],
)
def test_normalised_reads_every_target(target: Any, expected: tuple[Any, ...]) -> None:
    """The end is nothing, a name is one, a list several."""
    found = normalised(target)
    assert found == expected
    assert all(type(each) in (str, Send) for each in found)


@pytest.mark.parametrize(
    ("target", "says"),
    [
        (None, "None is no target"),
        (3, "3 is no target"),
        (b"x", "is no target"),
        ({"x": 1}, "is no target"),
        ({"x"}, "is no target"),
        (Send("x"), "is no target"),
        (MISSING, "MISSING is no target"),
        ((n for n in "ab"), "is no target"),
        ([], "an empty list is no target"),
        (["x", END], "END cannot stand in a list"),
        (["x", ""], "END cannot stand in a list"),
        (["x", ["y"]], r"\['y'\] cannot stand in a list"),
        (["x", None], "None cannot stand in a list"),
        ([Send("")], "names no step"),
        ([Send("x", None)], "is not a mapping"),  # pyright: ignore[reportArgumentType] -- wrong
    ],
)
def test_normalised_refuses_what_is_no_target(target: Any, says: str) -> None:
    """Each fault has its own sentence."""
    with pytest.raises(RouteError, match=says):
        normalised(target)


async def _async_pred(state: Any) -> bool:
    return False


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: always(None), "always: None"),  # pyright: ignore -- wrong on purpose
        (lambda: branch("", {}), "the key is a name"),
        (lambda: branch("k", ["x"]), "it is a mapping"),  # pyright: ignore -- wrong on purpose
        (lambda: branch("k", {"a": 3}), r"routes=\{'a'"),  # pyright: ignore -- wrong on purpose
        (lambda: branch("k", {}, default=DELETE), "default="),
        (lambda: branch_by("k", {}), "not a function"),  # pyright: ignore -- wrong on purpose
        (lambda: branch_by(_async_pred, {}), "branch_by.*is async"),
        (lambda: condition(_async_pred, "a", "b"), "condition.*is async"),  # pyright: ignore -- wrong
        (lambda: condition(bool, "a", []), "if_false"),
        (lambda: router_of(3), "then="),  # pyright: ignore -- wrong on purpose
    ],
)
def test_a_wrong_option_of_a_router_is_refused_at_once(
    build: Callable[[], Router], says: str
) -> None:
    """A wrong value is a `ValueError` when the router is made, not when it is asked."""
    with pytest.raises(ValueError, match=says):
        build()


def test_fan_out_sends_one_branch_for_each_item() -> None:
    """Items keep their order, and each is under its own key."""
    router = fan_out("score", over="docs", as_="doc", collect="scores")
    assert router({"docs": ["a", "b"]}) == [
        Send("score", {"doc": "a"}),
        Send("score", {"doc": "b"}),
    ]
    assert router({"docs": ()}) == []
    assert router == FanOut("score", "docs", "doc", "scores", 8, None, "fail")
    known = targets_of(router)
    assert known is not None
    assert known.routes == (Route(("score",), over="docs"),)


@pytest.mark.parametrize("state", [{}, {"docs": "abc"}, {"docs": {"a": 1}}, {"docs": None}])
def test_fan_out_needs_a_list(state: dict[str, Any]) -> None:
    """A missing key and a value that is no list are named."""
    with pytest.raises(RouteError, match=r"fan_out to score.*'docs'"):
        fan_out("score", over="docs", as_="doc", collect="scores")(state)


@pytest.mark.parametrize(
    "wrong",
    [
        {"limit": 0},
        {"limit": True},
        {"limit": 1.5},
        {"on_error": "ignore"},
        {"over": ""},
        {"as_": "__doc"},
        {"collect": None},
        {"take": ""},
    ],
)
def test_fan_out_refuses_a_wrong_option(wrong: dict[str, Any]) -> None:
    """The option at fault is named when the router is made."""
    good: dict[str, Any] = {"over": "docs", "as_": "doc", "collect": "scores"}
    with pytest.raises(ValueError, match="fan_out"):
        fan_out("score", **{**good, **wrong})


def test_pub49_a_router_keeps_nothing_between_two_calls() -> None:
    """A ready-made router asks its function once a call, and answers alike for one state."""
    asked: list[int] = []

    def value(state: Any, seen: list[int]) -> str:
        seen.append(1)
        return state["k"]

    router = branch_by(functools.partial(value, seen=asked), {"a": "x"})
    assert [router({"k": "a"}), router({"k": "a"})] == ["x", "x"]
    assert len(asked) == 2
