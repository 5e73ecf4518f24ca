"""A value of a state comes back from the journal as it was, or is refused with its place."""

import json
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from enum import Enum, Flag, IntEnum, StrEnum
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, PrivateAttr

from loom_ia.core.model.messages import Message
from loom_ia.core.model.usage import Usage
from loom_ia.graph.codec import Codec, decode, encode
from loom_ia.graph.errors import CorruptCheckpoint, NotSerializable
from loom_ia.graph.tool_call import ToolCall, ToolResult
from loom_ia.graph.types import DELETE, MISSING

PARIS = ZoneInfo("Europe/Paris")


class Colour(Enum):
    RED = 1
    GREEN = "g"


class Level(IntEnum):
    LOW = 1


class Right(Flag):
    READ = 1
    WRITE = 2


class Word(StrEnum):
    YES = "yes"


@dataclass(frozen=True)
class Line:
    label: str
    price: Decimal


@dataclass
class Order:
    lines: list[Line]
    colour: Colour = Colour.RED
    total: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.total = len(self.lines)


@dataclass(frozen=True, slots=True)
class Point:
    x: int


class Person(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: str
    born: date | None = None
    seen: set[int] = set()
    _note: str = PrivateAttr("none")


class Fixed(tzinfo):
    """A zone of somebody else, always one hour ahead."""

    def utcoffset(self, dt: datetime | None, /) -> timedelta:
        return timedelta(hours=1)

    def dst(self, dt: datetime | None, /) -> None:
        return None

    def tzname(self, dt: datetime | None, /) -> str:
        return "mine"


def again(value: Any, *types: type) -> Any:
    """Write a value as bytes and read it back."""
    return decode(encode(value, types=types), types=types)


def shown(value: Any) -> str:
    """Tell a value and its types apart from whatever is merely equal."""
    return f"{type(value).__name__} {value!r}"


_EACH = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary()
    | st.decimals(allow_nan=False, allow_infinity=False)
    | st.dates()
    | st.datetimes(timezones=st.none() | st.just(UTC) | st.just(PARIS))
    | st.times()
    | st.timedeltas()
    | st.uuids()
)


@st.composite
def scalars(draw: st.DrawFn) -> Any:
    """Draw a value that contains no other; its name keeps what is built on it short to show."""
    return draw(_EACH)


@st.composite
def hashables(draw: st.DrawFn) -> Any:
    """Draw what a set can hold."""
    some = st.lists(scalars(), max_size=3)
    return draw(scalars() | some.map(tuple) | some.map(frozenset))


KEYS = st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(["$", "$tuple", "$x"])
VALUES = st.recursive(
    scalars(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(KEYS, inner, max_size=4)
        | st.lists(hashables(), max_size=4).map(set)
        | st.lists(hashables(), max_size=4).map(frozenset)
    ),
    max_leaves=12,
)


@given(VALUES)
def test_every_value_comes_back_the_same(value: Any) -> None:
    """What is written and read is equal, of the same types, in the same order of keys."""
    back = again(value)
    assert back == value
    if not isinstance(value, set | frozenset):
        assert shown_in_order(back) == shown_in_order(value)


def shown_in_order(value: Any) -> str:
    """Show a value with the items of its sets sorted."""
    if isinstance(value, dict):
        return str([(key, shown_in_order(item)) for key, item in value.items()])
    if isinstance(value, list | tuple):
        return f"{type(value)}{[shown_in_order(item) for item in value]}"
    if isinstance(value, set | frozenset):
        return f"{type(value)}{sorted(shown_in_order(item) for item in value)}"
    return shown(value)


@given(VALUES)
def test_the_written_form_is_json_and_deterministic(value: Any) -> None:
    """The journal gets plain JSON, and equal values give equal bytes."""
    data = encode(value)
    assert json.loads(data) == Codec().to_json(value)
    assert encode(decode(data)) == data


@pytest.mark.parametrize(
    "value",
    [
        9007199254740993,
        10**50,
        42.0,
        -0.0,
        1e22,
        5e-324,
        Decimal("1.10"),
        Decimal("-0"),
        Decimal("1E+400"),
        True,
        timedelta(microseconds=-1),
        datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=PARIS),
        datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=PARIS).replace(tzinfo=None),
        datetime(1890, 1, 1, tzinfo=PARIS),
        datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=2), "mine")),
        time(2, 30, fold=1),
        time(2, 30, tzinfo=PARIS),
        time(2, 30, tzinfo=UTC),
        {"$decimal": "1.10"},
        {"$": {"$": 1}},
        {"$tuple": []},
        (),
        set[int](),
        UUID(int=7),
        "\x00é\u2028😀",
    ],
    ids=repr,
)
def test_w15_values_are_exact(value: Any) -> None:
    """Numbers, instants and odd dicts keep their value, type, sign, fold and zone."""
    back = again([value])[0]
    assert back == value
    assert shown(back) == shown(value)
    if isinstance(value, datetime | time):
        assert back.fold == value.fold
        assert back.utcoffset() == value.utcoffset()
        assert back.tzname() == value.tzname()


def test_w15_an_integer_of_any_size_is_exact() -> None:
    """Integers that readers of JSON refuse come back too."""
    for value in (2**14_000 - 1, 2**14_000, -(3**20_000)):
        assert again({"n": value})["n"] == value


def test_a_zone_of_somebody_else_is_kept_as_its_difference() -> None:
    """An aware instant of an unknown zone stays the same instant, with the same clock."""
    value = datetime(2024, 5, 1, 12, tzinfo=Fixed())
    assert again(value) == value
    assert again(value).utcoffset() == timedelta(hours=1)


@pytest.mark.parametrize(
    "value",
    [
        Message(
            "assistant",
            "calls",
            tool_calls=[ToolCall("c1", "search", {"q": "é", "n": 2**60, "$x": None})],
        ),
        Message("tool", "found", tool_call_id="c1", is_error=True),
        Usage(3, 4, 0.25, cache_read_tokens=1, estimated=True),
        ToolCall(None, "f", {"when": date(2024, 1, 1)}),
        ToolResult("c", "f", "text", data=({1}, Decimal(1))),
    ],
    ids=repr,
)
def test_w17_values_of_the_engine_are_exact(value: Any) -> None:
    """A message keeps its calls, and so do the other values of this library."""
    assert again({"messages": [value]}) == {"messages": [value]}


@pytest.mark.parametrize(
    "value",
    [
        Colour.GREEN,
        Level.LOW,
        Right.READ | Right.WRITE,
        Right(0),
        Word.YES,
        Order([Line("a", Decimal("1.0"))], Colour.GREEN),
        Point(1),
        Person(name="Ada", seen={1}),
    ],
    ids=repr,
)
def test_a_declared_class_is_exact(value: Any) -> None:
    """Enums, dataclasses and models whose class is declared come back as they were."""
    types = (Colour, Level, Right, Word, Order, Point, Person)
    back = again([value], *types)[0]
    assert back == value
    assert shown(back) == shown(value)


def test_a_model_keeps_what_only_it_knows() -> None:
    """Extra fields, private attributes and which fields were set survive."""
    person = Person.model_validate({"name": "Ada", "nick": (1, 2)})
    person._note = "hers"
    back = again(person, Person)
    assert back == person
    assert back._note == "hers"
    assert back.model_extra == {"nick": (1, 2)}
    assert back.model_fields_set == {"name", "nick"}


def test_what_a_declared_class_is_made_of_is_declared() -> None:
    """The classes that the fields of a declared class name need no declaration."""
    assert again(Order([Line("a", Decimal(1))]), Order) == Order([Line("a", Decimal(1))])


def test_a_class_may_move_to_another_module() -> None:
    """A stored name is found by its end when no class has all of it."""
    stored = Codec([Point]).to_json(Point(3))
    moved = json.loads(json.dumps(stored).replace(__name__, "elsewhere"))
    assert moved != stored
    assert Codec([Point]).from_json(moved) == Point(3)


def test_a_new_field_takes_its_default_and_an_old_one_is_left() -> None:
    """A class that changed since reads what it can of what was stored."""
    stored: Any = Codec([Order]).to_json(Order([]))
    del stored["$type"][1]["colour"]
    stored["$type"][1]["gone"] = 1
    assert Codec([Order]).from_json(stored) == Order([])


class Opaque:
    """A class that no declaration could make storable."""

    def __repr__(self) -> str:  # it names a test, and must be the same in every process
        return "Opaque()"


@dataclass
class Cell:
    value: Any


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"scores": [1, 2, {"value": float("nan")}]}, "scores[2].value"),
        ({"scores": [1, float("inf")]}, "scores[1]"),
        ({"a": ({"b": Decimal("NaN")},)}, "a[0].b"),
        ({"a": {"b": Opaque()}}, "a.b"),
        ({"a": Cell([Opaque()])}, "a.value[0]"),
        ({"a": {1: 2}}, "a"),
        ({"a": {"b": {Word.YES: 2}}}, "a.b"),
        ({"a": ["fine", "\ud800"]}, "a[1]"),
        ({"a": {"\ud800": 1}}, "a"),
        ({"a": {Opaque()}}, "a"),
        ({"a": Colour.RED}, "a"),
        ({"a": Word.YES}, "a"),
        ({"a": Level.LOW}, "a"),
        ({"a": {"b": DELETE}}, "a.b"),
        ({"a": MISSING}, "a"),
        ({"a": bytearray()}, "a"),
        ({"a": 1j}, "a"),
        ({"messages": [ToolCall("c", "f", {"x": Opaque()})]}, "messages[0].arguments.x"),
        (float("nan"), ""),
    ],
    ids=repr,
)
def test_w60_what_does_not_fit_is_refused_with_its_place(value: Any, path: str) -> None:
    """NaN, infinities, half characters and undeclared classes are refused where they stand."""
    with pytest.raises(NotSerializable) as caught:
        Codec([Cell]).to_json(value)
    assert caught.value.key_path == path
    assert str(caught.value).startswith(path or "the value")


def test_the_place_begins_with_what_the_caller_says() -> None:
    """The key of a state comes first in the place of a refused value."""
    for value, path in (([1, {2j}], "scores[1]"), (2j, "scores"), ({"a": 2j}, "scores.a")):
        with pytest.raises(NotSerializable) as caught:
            Codec().to_json(value, "scores")
        assert caught.value.key_path == path
        assert path in str(caught.value)


def test_depth_is_bounded_and_a_cycle_is_refused() -> None:
    """A value nested too deep, or without end, is refused and never recursed into for ever."""
    deep: Any = []
    for _ in range(63):
        deep = [deep]
    assert again(deep) == deep
    with pytest.raises(NotSerializable, match="nested deeper"):
        encode([deep])
    cycle: list[Any] = []
    cycle.append((cycle,))
    with pytest.raises(NotSerializable, match="nested deeper"):
        encode(cycle)


def test_both_ways_make_copies() -> None:
    """Changing what was given, or what was read, changes nothing else."""
    given_value: dict[str, Any] = {"a": [1], "b": {"c": [2]}}
    codec = Codec()
    stored = codec.to_json(given_value)
    given_value["a"].append(9)
    first, second = codec.from_json(stored), codec.from_json(stored)
    first["b"]["c"].append(9)
    assert second == {"a": [1], "b": {"c": [2]}}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"\xff",
        b"NaN",
        b"[" * 10_000,
        b'{"$nothing": 1}',
        b'{"$decimal": "x"}',
        b'{"$decimal": 1.5, "$tuple": 1}x',
        b'{"$tuple": 3}',
        b'{"$set": [[1]]}',
        b'{"$bytes": "!"}',
        b'{"$datetime": {"at": "2024-01-01T00:00:00", "zone": "Not/There"}}',
        b'{"$type": ["os:system", "ls"]}',
        b'{"$message": {"role": "user"}}',
        b'{"$": 1}',
    ],
)
def test_bad_bytes_are_a_corrupt_checkpoint(data: bytes) -> None:
    """Whatever is not the work of `encode` is told as such, and nothing is imported or called."""
    with pytest.raises(CorruptCheckpoint):
        decode(data)


def test_an_undeclared_class_is_told_with_the_remedy() -> None:
    """Reading a class that is not declared any more names it, and says where to declare it."""
    with pytest.raises(CorruptCheckpoint, match=r"Colour.*types="):
        decode(encode(Colour.RED, types=[Colour]))


def test_only_three_kinds_of_classes_can_be_declared() -> None:
    """A class that could not be read back is refused when it is declared."""
    with pytest.raises(ValueError, match="Opaque"):
        Codec([Opaque])
    assert again(Decimal(1), Decimal, int, Message) == Decimal(1)
