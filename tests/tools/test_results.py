"""What the journal keeps of what a tool returns."""

import asyncio
import math
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from pydantic import BaseModel, Field
from pydantic.dataclasses import dataclass as pydantic_dataclass

from loom_ia.core.errors import UnstorableValue
from loom_ia.core.model import ArtifactBlock, JsonBlock, TextBlock
from loom_ia.tools import ToolOutput
from loom_ia.tools.results import to_output


class Rate(Enum):
    FULL = "full"
    HALF = Decimal("0.5")


class Colour(str, Enum):  # noqa: UP042 (the old way is what is tested)
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Mood(StrEnum):
    GOOD = "good"


class Line(BaseModel):
    label: str = "x"
    price: Decimal = Decimal("1.10")
    at: datetime = datetime(2026, 2, 1, tzinfo=UTC)
    ratio: float = Field(default=0.5, serialization_alias="r")
    raw: bytes = b"a"


@dataclass
class Place:
    city: str
    tags: set[str] = field(default_factory=lambda: {"b", "a"})


@pydantic_dataclass
class Spot:
    at: date


class Pair(NamedTuple):
    left: int
    right: str


DUMPED = {
    "label": "x",
    "price": "1.10",
    "at": "2026-02-01T00:00:00Z",
    "ratio": 0.5,
    "raw": "a",
}

JSON_FORMS = [
    (True, True),
    (0, 0),
    (1.5, 1.5),
    ({"a": [1, None]}, {"a": [1, None]}),
    ([], []),
    ((1, "a"), [1, "a"]),
    (Pair(1, "a"), [1, "a"]),
    ({f"{i:02}" for i in range(40)}, [f"{i:02}" for i in range(40)]),
    (frozenset({2, 1}), [1, 2]),
    (OrderedDict(a=1), {"a": 1}),
    (MappingProxyType({"a": 1}), {"a": 1}),
    (Decimal("12.50"), "12.50"),
    (date(2026, 2, 1), "2026-02-01"),
    (datetime(2026, 2, 1, 3, tzinfo=UTC), "2026-02-01T03:00:00Z"),
    (datetime(2026, 2, 1, 3), "2026-02-01T03:00:00"),  # noqa: DTZ001 (a naive one stays so)
    (time(1, 2), "01:02:00"),
    (timedelta(hours=1), "PT1H"),
    (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    (PurePosixPath("a/b"), "a/b"),
    (Rate.HALF, "0.5"),
    (Level.HIGH, 3),
    ([Colour.RED, Mood.GOOD, Rate.FULL, Level.HIGH], ["red", "good", "full", 3]),
    ({Colour.RED: Decimal(1), Rate.FULL: 2}, {"red": "1", "full": 2}),
    (Line(), DUMPED),
    ([Line()], [DUMPED]),
    (Place("Lyon"), {"city": "Lyon", "tags": ["a", "b"]}),
    (Spot(date(2026, 2, 1)), {"at": "2026-02-01"}),
    ({"deep": [Place("Lyon", set())]}, {"deep": [{"city": "Lyon", "tags": []}]}),
]


@pytest.mark.parametrize(("value", "form"), JSON_FORMS, ids=range(len(JSON_FORMS)))
def test_a_value_has_one_json_form_before_and_after_a_restart(value: Any, form: Any) -> None:
    """The output holds the documented form, and reads back from the journal as it was written."""
    output = to_output(value)
    assert output == ToolOutput(data=form)
    assert output.shown == (JsonBlock(data=form),)
    assert type(output.data) is type(form)
    assert output.mended == ()
    assert ToolOutput.model_validate_json(output.model_dump_json()) == output


TEXT_FORMS = [("été", "été"), (Mood.GOOD, "good"), (Colour.RED, "red"), (Rate.FULL, "full")]


@pytest.mark.parametrize(("value", "text"), TEXT_FORMS)
def test_text_is_a_text_block(value: Any, text: str) -> None:
    """Text goes to the model without quotes, and leaves no data."""
    assert to_output(value) == ToolOutput.of_text(text)


@pytest.mark.parametrize("value", [None, "", ToolOutput(data=None)])
def test_nothing_is_an_empty_output(value: Any) -> None:
    """A tool that returns nothing succeeded and says nothing."""
    assert to_output(value) == ToolOutput(data=None)


def deep(levels: int) -> Any:
    """Nest lists `levels` deep."""
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def cycle() -> Any:
    """Make a list that holds itself."""
    value: list[Any] = []
    value.append(value)
    return value


class Opaque:
    pass


class Holder(BaseModel, arbitrary_types_allowed=True):
    inner: Any


UNSTORABLE = [
    (math.nan, "result is nan"),
    ({"n": [10**5_000]}, "result.n[0] is 0x"),
    ({"a": [1, math.inf]}, "result.a[1] is inf"),
    ({"a": {1: 2}}, "result.a has the key 1"),
    ({"a": b"x"}, "result.a is of type bytes, which has no JSON form"),
    ([Opaque()], "result[0] is of type Opaque, which has no JSON form"),
    (Opaque, "result is of type type, which has no JSON form"),
    (Place, "result is of type type, which has no JSON form"),
    ((i for i in "ab"), "result is of type generator"),
    (deep(65), "[0] is nested deeper than 64"),
    (cycle(), "[0] is nested deeper than 64"),
    (Line(raw=b"\xff"), "result is a Line that has no JSON form"),
    ({"a": Line(ratio=math.nan)}, "result.a.ratio is nan"),
    ([Holder(inner=Opaque())], "result[0] is a Holder that has no JSON form"),
    (Place("a", {b"x"}), "result.tags[] is of type bytes"),  # pyright: ignore[reportArgumentType]
    (ToolOutput(data=math.nan), "result.data is nan"),
    (
        ToolOutput(blocks=(JsonBlock(data=[math.inf]),), data=None),
        "result.blocks[0].data[0] is inf",
    ),
]


@pytest.mark.parametrize(("value", "message"), UNSTORABLE, ids=range(len(UNSTORABLE)))
def test_what_cannot_be_kept_fails_with_its_path(value: Any, message: str) -> None:
    """Nothing turns into null: the call fails and the error says where."""
    with pytest.raises(UnstorableValue) as caught:
        to_output(value)
    assert message in str(caught.value)


def test_the_deepest_value_allowed_reads_back() -> None:
    """Sixty-four levels are written and read again."""
    output = to_output(deep(64))
    assert ToolOutput.model_validate_json(output.model_dump_json()) == output


LONE = "a\ud83d"
MENDED = [
    (LONE, ToolOutput.of_text("a\ufffd"), ("result",)),
    ({"k": [LONE]}, to_output({"k": ["a\ufffd"]}), ("result.k[0]",)),
    (
        ToolOutput(data={"k": LONE}),
        ToolOutput(data={"k": "a\ufffd"}),
        ("result.data.k",),
    ),
    (
        ToolOutput(blocks=(TextBlock(text="ok"), JsonBlock(data=LONE)), data=None),
        ToolOutput(blocks=(TextBlock(text="ok"), JsonBlock(data="a\ufffd")), data=None),
        ("result.blocks[1].data",),
    ),
]


@pytest.mark.parametrize(
    ("value", "output", "paths"), MENDED, ids=["text", "json", "data", "block"]
)
def test_half_a_character_is_replaced_and_told(value: Any, output: Any, paths: Any) -> None:
    """A lone surrogate, which no journal can hold, becomes U+FFFD and its path is known."""
    assert to_output(value) == output.model_copy(update={"mended": paths})


def test_an_output_that_is_sound_is_kept_as_it_is() -> None:
    """A tool that builds its own output gets it through untouched."""
    block = ArtifactBlock(uri="artifact://t/s/x.png", media_type="image/png", size=3)
    output = ToolOutput(blocks=(block,), data=None, is_error=True)
    assert to_output(output) is output


def test_what_is_not_awaited_is_no_result() -> None:
    """A coroutine inside a result is refused like any other object."""

    async def later() -> None:
        await asyncio.sleep(0)

    coroutine = later()
    with pytest.raises(UnstorableValue, match=r"result\.a is of type coroutine"):
        to_output({"a": coroutine})
    coroutine.close()
