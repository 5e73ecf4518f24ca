"""What becomes of each kind of parameter, and what is refused when the tool is read."""

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, Optional
from uuid import UUID

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel, Field
from typing_extensions import TypedDict  # Pydantic wants this one before Python 3.12

from loom_ia.tools import PythonTool, ToolContext, ToolDefinitionError, tool

CONTEXT = ToolContext("t", "s", "r", "c", "agent")


class Rate(Enum):
    LOW = "low"
    FULL = "full"


@dataclass
class Place:
    city: str
    floor: int = 0


class Contact(TypedDict):
    email: str


class Line(BaseModel):
    label: str
    price: Decimal


def taking(annotation: Any, default: Any = inspect.Parameter.empty) -> Any:
    """Make a function of one parameter `value`, which keeps what it receives."""

    def function(**values: Any) -> None:
        keep.received = [values["value"]]

    keep: Any = function
    parameter = inspect.Parameter(
        "value", inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default
    )
    keep.__signature__ = inspect.Signature([parameter])
    return keep


def names(made: PythonTool[..., Any]) -> list[str]:
    """List the parameters that a model sees."""
    properties: Any = made.spec.input_schema["properties"]
    return list(properties)


MATRIX = {
    "text": (str, "été", "été"),
    "integer": (int, 3, 3),
    "number": (float, 1.5, 1.5),
    "boolean": (bool, True, True),
    "optional": (Optional[str], None, None),  # noqa: UP045 (the old way is what is tested)
    "union with none": (str | None, "a", "a"),
    "list or none": (list[str] | None, ["a"], ["a"]),
    "union": (int | str, "a", "a"),
    "literal": (Literal["a", 2], 2, 2),
    "described": (Annotated[int, Field(description="How many", ge=1)], 1, 1),
    "enum": (Rate, "full", Rate.FULL),
    "dataclass": (Place, {"city": "Lyon"}, Place("Lyon", 0)),
    "typed dict": (Contact, {"email": "a@b"}, {"email": "a@b"}),
    "model": (Line, {"label": "x", "price": "1.10"}, Line(label="x", price=Decimal("1.10"))),
    "list of models": (list[Line], [], []),
    "nested": (dict[str, list[Place]], {"a": [{"city": "B", "floor": 2}]}, {"a": [Place("B", 2)]}),
    "tuple": (tuple[int, str], [1, "a"], (1, "a")),
    "set": (set[int], [1, 2], {1, 2}),
    "date": (date, "2026-02-01", date(2026, 2, 1)),
    "datetime": (datetime, "2026-02-01T10:00:00Z", datetime(2026, 2, 1, 10, tzinfo=UTC)),
    "decimal": (Decimal, "12.50", Decimal("12.50")),
    "uuid": (
        UUID,
        "12345678123456781234567812345678",
        UUID(int=0x12345678123456781234567812345678),
    ),
    "free dict": (dict[str, Any], {"a": [1, None]}, {"a": [1, None]}),
    "anything": (Any, [1], [1]),
}


@pytest.mark.parametrize("case", MATRIX)
async def test_a_typed_parameter_has_a_valid_schema_and_gets_a_typed_value(case: str) -> None:
    """Each kind of annotation gives a valid schema, that takes the value, and typed Python."""
    annotation, given, expected = MATRIX[case]
    function = taking(annotation)
    keeper = tool(function, name="keep", description="Keep.")
    schema = keeper.spec.input_schema
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema).validate({"value": given})
    assert schema["required"] == ["value"]
    assert schema["additionalProperties"] is False
    assert await keeper.check({"value": given}) is None
    await keeper.call({"value": given}, CONTEXT)
    (received,) = function.received
    assert received == expected
    assert type(received) is type(expected)


DEFAULTS = {
    "number": (float, 20.0, 20.0),
    "none": (str | None, None, None),
    "enum": (Rate, Rate.LOW, "low"),
    "decimal": (Decimal, Decimal("1.5"), "1.5"),
    "date": (date | None, date(2026, 1, 2), "2026-01-02"),
    "list": (list[str], ["a"], ["a"]),
}


@pytest.mark.parametrize("case", DEFAULTS)
async def test_an_omitted_argument_is_the_default_of_python(case: str) -> None:
    """The schema tells the default and does not require it; the function gets its own value."""
    annotation, default, shown = DEFAULTS[case]
    function = taking(annotation, default)
    keeper = tool(function, name="keep", description="Keep.")
    properties: Any = keeper.spec.input_schema["properties"]
    assert properties["value"]["default"] == shown
    assert "required" not in keeper.spec.input_schema
    await keeper.call({}, CONTEXT)
    assert function.received == [default]


async def test_a_default_that_json_cannot_hold_is_not_shown_and_still_used() -> None:
    """A default such as infinity stays out of the schema, and the parameter stays optional."""
    function = taking(float, float("inf"))
    keeper = tool(function, name="keep", description="Keep.")
    assert keeper.spec.input_schema["properties"] == {"value": {"type": "number"}}
    await keeper.call({}, CONTEXT)
    assert function.received == [float("inf")]


def test_a_tool_without_parameters_has_an_object_schema_with_properties() -> None:
    """A schema always says that it is a closed object, even of nothing."""

    @tool
    def now() -> str:
        """Tell the time."""
        return ""

    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    assert now.spec.input_schema == schema


async def test_annotations_that_are_text_are_resolved() -> None:
    """`from __future__ import annotations`, or quotes, change nothing."""

    @tool
    def price(line: "Line", rate: "Rate | None" = None, ctx: "ToolContext | None" = None) -> "Gone":  # noqa: F821 (a result type is not read)  # pyright: ignore[reportUndefinedVariable]
        """Price a line."""
        assert ctx is CONTEXT
        return str(line.price)

    assert names(price) == ["line", "rate"]
    output = await price.call({"line": {"label": "a", "price": 2}}, CONTEXT)
    assert output.text == "2"


@pytest.mark.parametrize("annotation", [ToolContext, ToolContext | None, Annotated[ToolContext, 1]])
async def test_the_context_is_filled_in_and_never_shown(annotation: Any) -> None:
    """A parameter typed `ToolContext`, whatever its name, is the engine's to fill."""
    function = taking(annotation)
    keeper = tool(function, name="keep", description="Keep.")
    assert keeper.spec.input_schema["properties"] == {}
    assert await keeper.check({"value": 1}) == "value: unknown argument; the tool takes none"
    await keeper.call({}, CONTEXT)
    assert function.received == [CONTEXT]


def star(*values: int) -> None:
    """Star."""


def stars(**values: int) -> None:
    """Stars."""


def positional(a: int, /) -> None:
    """Positional."""


def bare(a) -> None:
    """Bare."""


def lost(a: "Nowhere") -> None:  # noqa: F821  # pyright: ignore[reportUndefinedVariable]
    """Lost."""


def function_wanted(a: Callable[[], int]) -> None:
    """Take what JSON has not."""


def partly_wanted(a: "int | Callable[[], int]") -> None:
    """Take what JSON has not, or something else."""


def opaque_wanted(a: "list[Opaque]") -> None:
    """Take an object."""


def two_contexts(a: ToolContext, b: ToolContext) -> None:
    """Take it twice."""


def maybe_context(a: "ToolContext | int") -> None:
    """Take it or not."""


def method(self, a: int) -> None:
    """Miss an object."""


def generator() -> Iterator[int]:
    """Generate."""
    yield 1


def silent() -> None:  # noqa: D103
    pass


class Opaque:
    """No schema tells what it is."""


REFUSED = [
    (star, "star(values)", "take a list instead"),
    (stars, "stars(values)", "take a dict[str, ...] instead"),
    (positional, "positional(a)", "remove the '/'"),
    (bare, "bare(a)", "annotate it, such as a: str"),
    (lost, "lost(a)", "name 'Nowhere' is not defined"),
    (function_wanted, "function_wanted(a)", "cannot be filled from JSON"),
    (partly_wanted, "partly_wanted(a)", "cannot be filled from JSON"),
    (opaque_wanted, "opaque_wanted(a)", "Opaque] cannot be filled from JSON"),
    (two_contexts, "two_contexts(b)", "a receives the ToolContext already"),
    (maybe_context, "maybe_context(a)", "cannot be filled from JSON"),
    (method, "method(self)", "tool(obj.method)"),
    (generator, "generator", "return one value"),
    (silent, "silent", "write a docstring"),
    (lambda: None, "<lambda>", "give name="),
    (max, "max", "wrap it in a function"),
]


@pytest.mark.parametrize(("function", "path", "reason"), REFUSED, ids=[row[1] for row in REFUSED])
def test_what_cannot_be_a_tool_is_refused_with_a_remedy(
    function: Callable[..., Any], path: str, reason: str
) -> None:
    """The error names the tool, the parameter, what is wrong and what to write instead."""
    made = tool(function)
    with pytest.raises(ToolDefinitionError) as caught:
        _ = made.spec
    problem = caught.value.problems[0]
    assert problem.path == path
    assert reason in str(caught.value)
    assert isinstance(caught.value, TypeError)


def test_every_fault_of_a_tool_is_told_at_once() -> None:
    """A tool with four faults says four things, with the place of the function."""

    @tool
    def wrong(a, b: "Nowhere", *c: int, d: Opaque) -> None:  # noqa: F821  # pyright: ignore[reportUndefinedVariable]
        pass

    with pytest.raises(ToolDefinitionError) as caught:
        _ = wrong.spec
    paths = [problem.path for problem in caught.value.problems]
    assert paths == ["wrong", "wrong(a)", "wrong(b)", "wrong(c)", "wrong(d)"]
    problem = caught.value.problems[0]
    assert problem.file == __file__
    assert problem.line == inspect.unwrap(wrong).__code__.co_firstlineno


def test_what_a_partial_fills_in_is_not_shown() -> None:
    """A value that a partial binds, maybe a secret, is neither in the schema nor the model's."""

    def fetch(key: str, page: int, size: int = 10) -> str:
        """Fetch a page."""
        return f"{key} {page} {size}"

    made = tool(functools.partial(fetch, key="secret"))
    assert made.spec.name == "fetch"
    assert made.spec.description == "Fetch a page."
    assert "secret" not in str(made.spec)
    assert names(made) == ["page", "size"]


async def test_a_decorated_function_is_read_through_its_decorator() -> None:
    """A wrapper made with `functools.wraps` keeps the schema of what it wraps."""

    def shout(function: Callable[..., str]) -> Callable[..., str]:
        @functools.wraps(function)
        def louder(*args: Any, **kwargs: Any) -> str:
            return function(*args, **kwargs).upper()

        return louder

    @tool
    @shout
    def say(word: str) -> str:
        """Say a word."""
        return word

    assert say.spec.input_schema["required"] == ["word"]
    assert (await say.call({"word": "a"}, CONTEXT)).text == "A"


class Shop:
    def __init__(self, rate: int) -> None:
        self.rate = rate

    @tool
    def price(self, amount: int) -> int:
        """Price."""
        return amount * self.rate

    def plain(self, amount: int) -> int:
        """Price too."""
        return amount * self.rate

    @staticmethod
    @tool
    def fixed(amount: int) -> int:
        """Price as well."""
        return amount

    async def __call__(self, amount: int) -> int:
        """Price, called as a function."""
        return amount * self.rate


BOUND = {
    "decorated in the class": lambda: Shop(2).price,
    "decorated once bound": lambda: tool(Shop(2).plain),
    "an object that is called": lambda: tool(Shop(2), name="shop"),
    "a static method": lambda: tool(Shop(2).fixed).with_overrides(name="fixed"),
}


@pytest.mark.parametrize("case", BOUND)
async def test_a_method_is_a_tool_of_its_object(case: str) -> None:
    """A method shows no `self`, however it was decorated."""
    made: PythonTool[..., Any] = BOUND[case]()
    assert names(made) == ["amount"]
    output = await made.call({"amount": 3}, CONTEXT)
    assert output.data == (3 if "static" in case else 6)


@pytest.mark.parametrize("wrong", [Shop, classmethod(method), "name", 3])
def test_what_is_no_function_is_refused_at_once(wrong: Any) -> None:
    """A class, a class method that is not bound or a name cannot be decorated."""
    with pytest.raises(ToolDefinitionError, match="is not a function"):
        tool(wrong)
