"""The shape that the last answer of a tool loop must have."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from loom_ia.core.json import JsonObject
from loom_ia.core.schema import first_fault
from loom_ia.graph.errors import InvalidAnswer, InvalidGraph


@dataclass(frozen=True, slots=True)
class Shape:
    """A JSON Schema for the model, and `check`, which gives a document as it goes in the state.

    `check` raises `ValueError` for a document that does not fit.
    """

    schema: JsonObject
    check: Callable[[Any], Any]

    def read(self, text: str) -> Any:
        """Read an answer, fenced or not. Raises `InvalidAnswer`."""
        from pydantic_core import from_json

        try:
            return self.check(from_json(_unfenced(text), allow_inf_nan=False))
        except ValueError as error:
            raise InvalidAnswer(
                "the last answer does not fit output_schema: {reason}", reason=error
            ) from error


def shape(schema: object) -> Shape:
    """Read an `output_schema`: a JSON Schema, or a type, whose values are told as plain JSON."""
    if isinstance(schema, dict):
        return _of_schema(cast("JsonObject", schema))
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticUserError

    try:
        adapter = TypeAdapter[Any](cast("Any", schema))
        document = adapter.json_schema()
    except PydanticUserError as error:
        raise InvalidGraph(
            "output_schema is {schema!r}: give a JSON Schema or a type ({reason})",
            schema=schema,
            reason=error.message.partition("\n")[0],
        ) from error
    return Shape(
        cast("JsonObject", document),
        lambda value: adapter.dump_python(adapter.validate_python(value), mode="json"),
    )


def _of_schema(schema: JsonObject) -> Shape:
    from jsonschema import Draft202012Validator, SchemaError

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise InvalidGraph(
            "output_schema is not a JSON Schema: {reason}", reason=error.message
        ) from error

    def check(value: Any) -> Any:
        fault = first_fault(value, schema)
        if fault is not None:
            raise ValueError(f"{fault.json_path}: {fault.message}")
        return value

    return Shape(schema, check)


def _unfenced(text: str) -> str:
    text = text.strip()
    if not (text.startswith("```") and text.endswith("```") and "\n" in text):
        return text
    return text.partition("\n")[2].removesuffix("```")
