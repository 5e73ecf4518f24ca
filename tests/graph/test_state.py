"""What the type of a state says, and what steps and callers see of it."""

from collections.abc import Mapping
from dataclasses import FrozenInstanceError, dataclass, field, replace
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, NotRequired, TypedDict

import pytest
from pydantic import BaseModel, ConfigDict

from loom_ia.core.model.changes import applied
from loom_ia.graph.codec import Codec
from loom_ia.graph.errors import (
    CorruptCheckpoint,
    DeltaError,
    MergeError,
    NotSerializable,
    ReservedKey,
    UnknownKey,
)
from loom_ia.graph.merge import DEFAULT_MERGE, add, append, maximum
from loom_ia.graph.state import StateType, StateView
from loom_ia.graph.types import DELETE


class Tone(Enum):
    FORMAL = 1


@dataclass(frozen=True)
class Cell:
    value: Decimal
    tone: Tone = Tone.FORMAL


class Inner(TypedDict):
    cells: dict[str, list[Cell]]


class Chat(TypedDict, total=False):
    messages: Annotated[list[str], append]
    cost: Annotated[float, add]
    inner: Inner
    output: str


class Strict(TypedDict):
    best: NotRequired[Annotated[int, maximum]]
    name: str


@dataclass(frozen=True)
class Draft:
    text: str
    count: Annotated[int, add] = 0
    notes: Annotated[list[str], append] = field(default_factory=list[str])
    cell: Cell | None = None


@dataclass
class Loose:
    text: str = ""
    size: int = field(init=False)

    def __post_init__(self) -> None:
        if self.text == "bad":
            raise ValueError("a bad text")
        self.size = len(self.text)


class Form(BaseModel):
    model_config = ConfigDict(validate_by_name=True)
    name: str
    cells: list[Cell] = []
    count: Annotated[int, add] = 0


# -- the view -------------------------------------------------------------------------------------


def test_a_view_is_a_mapping_that_cannot_be_changed() -> None:
    """A step reads it as it reads a dict, and cannot write to it."""
    view: Any = StateView({"a": 1, "b": {"$tuple": [1]}}, Codec())
    assert view == {"a": 1, "b": (1,)}
    assert dict(view) == {"a": 1, "b": (1,)}
    assert {**view, "c": 2} == {"a": 1, "b": (1,), "c": 2}
    assert (view.get("z"), view.get("a"), len(view), "a" in view, "z" in view) == (
        None,
        1,
        2,
        True,
        False,
    )
    assert repr(view) == "StateView({'a': 1, 'b': (1,)})"
    with pytest.raises(KeyError):
        view["z"]
    with pytest.raises(TypeError, match=r"return what changes, \{'a': …\}"):
        view["a"] = 2
    with pytest.raises(TypeError, match=r"return what changes, \{'a': DELETE\}"):
        del view["a"]


def test_w19_what_stands_in_a_view_is_its_own() -> None:
    """Changing a list inside one view changes neither the values nor another view."""
    values: Any = {"a": [1], "b": {"c": [1]}}
    first, second = StateView(values, Codec()), StateView(values, Codec())
    first["a"].append(2)
    first["b"]["c"].append(2)
    assert first == {"a": [1, 2], "b": {"c": [1, 2]}}
    assert second == {"a": [1], "b": {"c": [1]}}
    assert values == {"a": [1], "b": {"c": [1]}}


def test_extra_values_stand_over_the_state() -> None:
    """What a branch is given is seen in its place, and alone."""
    view = StateView({"a": 1, "b": 2}, Codec(), {"b": [3], "doc": "x"})
    assert list(view.items()) == [("a", 1), ("b", [3]), ("doc", "x")]
    assert len(view) == 3
    assert "doc" in view


# -- no type --------------------------------------------------------------------------------------


def test_w52_an_input_is_copied_and_never_changed() -> None:
    """The caller's mapping stays as it is, and what comes out is the caller's own."""
    state = StateType(merge={"log": append, "n": add})
    given: dict[str, Any] = {"log": (1,), "n": 2, "gone": DELETE, "deep": {"x": [1]}}
    values = state.initial(given)
    assert values == {"log": [1], "n": 2, "deep": {"x": [1]}}
    assert given == {"log": (1,), "n": 2, "gone": DELETE, "deep": {"x": [1]}}
    result = state.result(values)
    assert type(result) is dict
    result["deep"]["x"].append(2)
    assert state.result(values)["deep"] == {"x": [1]}
    assert state.initial() == {}
    assert state.keys is None


def test_a_merge_of_the_user_is_not_asked_about_the_first_values() -> None:
    """A merge that needs two values is called from the second one on."""
    state = StateType(merge={"best": max})
    values: Any = state.initial({"best": 100})
    for given, expected in ((80, 100), (150, 150)):
        values = applied(values, state.merges.changes(values, {"best": given}, in_branch=False))
        assert values == {"best": expected}


@pytest.mark.parametrize(
    ("given", "kind", "key"),
    [
        ({"__run_id": "x"}, ReservedKey, "__run_id"),
        ({"log": "text"}, MergeError, "log"),
        ({"x": [float("nan")]}, NotSerializable, "x"),
        ("text", DeltaError, None),
        ([("a", 1)], DeltaError, None),
    ],
)
def test_w54_a_bad_input_is_refused(given: Any, kind: type[DeltaError], key: str | None) -> None:
    """Reserved keys, wrong types and what is no mapping never begin a run."""
    with pytest.raises(kind) as caught:
        StateType(merge={"log": append}).initial(given)
    assert caught.value.key == key


# -- typed dicts ----------------------------------------------------------------------------------


def test_a_typed_dict_says_keys_merges_and_classes() -> None:
    """Merges and classes stand in the annotations; an explicit merge goes before."""
    state = StateType(Chat, merge={"cost": maximum})
    assert state.keys == {"messages", "cost", "inner", "output"}
    assert state.merges.table() == {"messages": "append", "cost": "maximum"}
    assert StateType(Strict).merges.table() == {"best": "maximum"}
    value = {"cells": {"a": [Cell(Decimal("1.0"))]}}
    values = state.initial({"inner": value})
    assert state.result(values) == {"inner": value}
    assert type(state.result(values)) is dict
    assert isinstance(state.view(values), StateView)


def test_a_typed_dict_refuses_other_keys() -> None:
    """An input and a delta have the keys that the type declares."""
    state = StateType(Chat)
    for attempt in (
        lambda: state.initial({"mesages": []}),
        lambda: state.merges.changes({}, {"mesages": []}, in_branch=False),
    ):
        with pytest.raises(UnknownKey, match="messages") as caught:
            attempt()
        assert caught.value.key == "mesages"


def test_a_type_is_checked_when_the_graph_is_made() -> None:
    """What is no type of a state, and merges for keys that it has not, are refused at once."""
    for bad in (int, "Chat", list[int], Tone):
        with pytest.raises(ValueError, match="state="):
            StateType(bad)  # pyright: ignore[reportArgumentType] -- it is wrong on purpose
    with pytest.raises(ValueError, match="outptu"):
        StateType(Chat, merge={"outptu": append})
    assert StateType(Strict, merge=DEFAULT_MERGE).keys == {"best", "name"}
    assert StateType(dict).keys is None


# -- dataclasses and models -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [{"text": "a", "cell": Cell(Decimal(1))}, Draft("a", cell=Cell(Decimal(1)))],
    ids=["mapping", "instance"],
)
def test_a_dataclass_is_what_steps_and_callers_get(given: Any) -> None:
    """From a mapping or an instance, with its defaults; each gets an instance of its own."""
    state = StateType(Draft)
    values = state.initial(given)
    view = state.view(values)
    assert view == state.result(values) == Draft("a", 0, [], Cell(Decimal(1)))
    view.notes.append("mine")
    assert state.result(values).notes == []
    with pytest.raises(FrozenInstanceError):
        view.text = "b"
    assert state.view(values, {"text": "over"}).text == "over"
    with pytest.raises(UnknownKey):
        state.view(values, {"doc": 1})


def test_a_changed_copy_is_its_changes() -> None:
    """Items that were added to the copy, the difference of a sum, and other values."""
    state = StateType(Draft)
    values: Any = state.initial({"text": "a", "count": 2, "notes": ["x"]})
    view = state.view(values)
    copy = replace(view, count=5, notes=[*view.notes, "y"], cell=Cell(Decimal(2)))
    delta = state.delta_of(copy, view)
    assert delta == {"count": 3, "notes": ["y"], "cell": Cell(Decimal(2))}
    found = applied(values, state.merges.changes(values, delta, in_branch=False))
    assert state.result(found) == copy
    assert state.delta_of(replace(view), view) == {}
    with pytest.raises(MergeError):
        state.delta_of(replace(view, notes=["other"]), view)


def test_an_instance_changed_in_place_is_seen_against_the_values() -> None:
    """A model that is not frozen may be changed and given back."""
    state = StateType(Form)
    values = state.initial({"name": "a"})
    view = state.view(values)
    view.name = "b"
    view.cells.append(Cell(Decimal(1)))
    assert state.delta_of(view, view, values) == {"name": "b", "cells": [Cell(Decimal(1))]}
    assert state.delta_of(view, view, {"name": "a"}) == {"name": "b", "cells": [Cell(Decimal(1))]}


def test_a_delta_is_a_mapping_none_or_a_copy() -> None:
    """Anything else is an error that says so; a view that is given back changes nothing."""
    for state in (StateType(), StateType(Chat), StateType(Draft)):
        view = state.view(
            state.initial({"text": "a"} if state.keys and "text" in state.keys else {})
        )
        assert state.delta_of(None, view) is None
        assert not state.delta_of(view, view)
        assert state.delta_of({"a": 1}, view) == {"a": 1}
        for bad in ("text", [1], 3, Loose()):
            with pytest.raises(DeltaError, match=type(bad).__name__):
                state.delta_of(bad, view)


def test_a_model_checks_and_fills_its_input() -> None:
    """A Pydantic model reads an input as it does, and tells the key that is wrong."""
    state = StateType(Form)
    values = state.initial({"name": "a", "cells": [{"value": "1.5"}]})
    assert state.result(values) == Form(name="a", cells=[Cell(Decimal("1.5"))])
    with pytest.raises(DeltaError) as caught:
        state.initial({"name": 3})
    assert caught.value.key == "name"


def test_what_an_instance_needs_must_be_given_and_stays() -> None:
    """A field without a default is asked for at the beginning and cannot be deleted."""
    state = StateType(Draft)
    with pytest.raises(DeltaError, match="needs text") as caught:
        state.initial({"count": 1})
    assert caught.value.key == "text"
    values: Any = state.initial({"text": "a", "count": 4})
    with pytest.raises(MergeError):
        state.merges.changes(values, {"text": DELETE}, in_branch=False)
    gone = applied(values, state.merges.changes(values, {"count": DELETE}, in_branch=False))
    assert state.view(gone).count == 0
    with pytest.raises(CorruptCheckpoint, match="text"):
        state.view({})


def test_a_constructor_is_run_on_the_input_alone() -> None:
    """What a dataclass derives or refuses, it does at the beginning; later it stands as stored."""
    state = StateType(Loose)
    values: Mapping[str, Any] = state.initial({"text": "abc"})
    assert state.result(values).size == 3
    assert state.result({**values, "text": "bad"}).text == "bad"
    with pytest.raises(DeltaError, match="a bad text") as caught:
        state.initial({"text": "bad"})
    assert isinstance(caught.value.__cause__, ValueError)
