"""What a tool says of wrong arguments, and what it lets pass."""

from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel, JsonValue, field_validator

from loom_ia.tools import ToolContext, ToolError, tool

CONTEXT = ToolContext("t", "s", "r", "c", "agent")


class Line(BaseModel):
    label: str
    price: float

    @field_validator("label")
    @classmethod
    def _not_blank(cls, value: str) -> str:
        if value == "bug":
            raise KeyError("bug")
        if value == "exit":
            raise SystemExit
        if not value.strip():
            raise ValueError("a label is not blank")
        return value


@dataclass
class Place:
    city: str


@tool
def bill(
    amount: float,
    count: int = 1,
    paid: bool = False,
    name: str | None = None,
    code: int | str = 0,
    places: list[Place] | None = None,
) -> str:
    """Write a bill."""
    return f"{amount!r} {count!r} {paid!r} {name!r} {code!r}"


@tool
def price(lines: list[Line], by_name: dict[str, Line] | None = None) -> float:
    """Price lines."""
    return sum(line.price for line in lines)


REFUSED = [
    (bill, {}, "amount: it is required and missing"),
    (
        bill,
        {"amount": "x"},
        "amount: Input should be a valid number, unable to parse string as a number",
    ),
    (bill, {"amount": True}, "amount: Input should be a valid number"),
    (bill, {"amount": 1, "count": False}, "count: Input should be a valid integer"),
    (
        bill,
        {"amount": 1, "count": 1.5},
        "count: Input should be a valid integer, got a number with a fractional part",
    ),
    (bill, {"amount": 1, "name": 3}, "name: Input should be a valid string"),
    (
        bill,
        {"amount": 1, "code": [1]},
        "code: Input should be a valid integer; or Input should be a valid string",
    ),
    (bill, {"amount": None}, "amount: Input should be a valid number"),
    (bill, {"amount": 1, "places": [{"city": "a"}, {}]}, "places[1].city: Field required"),
    (bill, {"amount": 1, "places": {}}, "places: Input should be a valid array"),
    (
        bill,
        {"amount": 1, "montant": 2},
        "montant: unknown argument; the known ones are amount, count, paid, name, code, places",
    ),
    (
        bill,
        {"name": 3, "count": []},
        (
            "amount: it is required and missing\n"
            "count: Input should be a valid integer\n"
            "name: Input should be a valid string"
        ),
    ),
    (
        price,
        {"lines": [{"label": "a", "price": 1}, {"label": "b", "price": "x"}]},
        "lines[1].price: Input should be a valid number, unable to parse string as a number",
    ),
    (
        price,
        {"lines": [], "by_name": {"a": {"label": " ", "price": 1}}},
        "by_name.a.label: Value error, a label is not blank",
    ),
    (
        price,
        {"lines": [{"label": "bug", "price": 1}]},
        "the arguments cannot be read: KeyError: 'bug'",
    ),
    (
        price,
        {"lines": [{"label": "exit", "price": 1}]},
        "the arguments cannot be read: OutsideError: the tool raised SystemExit",
    ),
    (bill, {"amount": "\ud83d"}, "the arguments cannot be written as JSON: "),
]


@pytest.mark.parametrize(("checked", "arguments", "message"), REFUSED)
async def test_wrong_arguments_are_told_path_first(
    checked: Any, arguments: Any, message: str
) -> None:
    """Each problem is a line for the model: where, then what."""
    told = await checked.check(arguments)
    assert told is not None
    assert told == message or (message.endswith(": ") and told.startswith(message))


LET_PASS = [
    ({"amount": 2}, "2.0 1 False None 0"),
    ({"amount": "12.5"}, "12.5 1 False None 0"),
    ({"amount": 1, "count": "3"}, "1.0 3 False None 0"),
    ({"amount": 1, "count": 3.0}, "1.0 3 False None 0"),
    ({"amount": "1", "paid": True}, "1.0 1 True None 0"),
    ({"amount": 1, "paid": "true"}, "1.0 1 True None 0"),
    ({"amount": 1, "name": None, "code": "7"}, "1.0 1 False None '7'"),
    ({"amount": "1", "code": 7}, "1.0 1 False None 7"),
]


@pytest.mark.parametrize(("arguments", "text"), LET_PASS)
async def test_arguments_of_a_near_type_are_converted(arguments: Any, text: str) -> None:
    """What loses nothing is converted, and the function gets the declared type."""
    assert await bill.check(arguments) is None
    assert (await bill.call(arguments, CONTEXT)).text == text


async def test_a_long_list_of_problems_is_cut() -> None:
    """A thousand wrong items do not make a thousand lines for a model to read."""
    lines: list[JsonValue] = [{"label": "a", "price": []}] * 1000
    told = await price.check({"lines": lines})
    assert told is not None
    said = told.splitlines()
    assert len(said) == 21
    assert said[-1] == "and 980 more problems"


async def test_a_call_with_wrong_arguments_tells_the_model() -> None:
    """A call that nobody checked fails with the same words as the check."""
    with pytest.raises(ToolError, match="amount: it is required and missing"):
        await bill.call({}, CONTEXT)


async def test_arguments_are_not_changed() -> None:
    """Neither the check nor the call writes into what the journal keeps."""
    arguments: Any = {"lines": [{"label": "a", "price": "2"}]}
    await price.check(arguments)
    await price.call(arguments, CONTEXT)
    assert arguments == {"lines": [{"label": "a", "price": "2"}]}


def test_only_types_with_code_of_their_own_are_read_in_a_thread() -> None:
    """Plain types and classes without code are read at once; validators may be slow."""

    @tool
    def plain(places: list[Place], count: int = 1) -> None:
        """Take plain types."""

    assert not plain._plan[0].runs_user_code
    assert not bill._plan[0].runs_user_code
    assert price._plan[0].runs_user_code
