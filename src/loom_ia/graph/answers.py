"""What an answer must fit, as a JSON Schema in the journal and as a type in a step."""

import dataclasses
from collections.abc import Mapping
from typing import Any, cast, is_typeddict

from loom_ia.core.json import JsonObject, JsonValue
from loom_ia.core.schema import first_fault
from loom_ia.graph.errors import InvalidAnswer


def schema_of(schema: Any) -> JsonValue:
    """Give the JSON Schema of what an author asks for; None for anything at all.

    Takes a JSON Schema, a type, a dataclass or a Pydantic model; raises `ValueError` for another
    thing, or for a schema that is none.
    """
    if schema is None:
        return None
    if isinstance(schema, Mapping):
        return _checked(dict(cast("Mapping[str, JsonValue]", schema)))
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticUserError

    try:
        return cast("JsonObject", TypeAdapter(schema).json_schema())
    except PydanticUserError as error:
        reason = error.message.partition("\n")[0]
        raise ValueError(
            f"schema={schema!r}: it is a JSON Schema, a type, a dataclass or a Pydantic model"
            f" ({reason})"
        ) from error


def read_answer(answer: Any, schema: Any) -> Any:
    """Give an answer as what the author asks for: an instance of a class, or the answer itself."""
    if schema is None or isinstance(schema, Mapping) or not isinstance(schema, type):
        return answer
    made: Any = cast("Any", schema)
    if is_typeddict(made) or not (
        dataclasses.is_dataclass(made) or hasattr(made, "model_validate")
    ):
        return answer
    from pydantic import TypeAdapter

    return TypeAdapter[Any](cast("Any", schema)).validate_python(answer)


def told_answer(answer: Any, schema: JsonValue) -> Any:
    """Give the answer to a question that has a schema as JSON: an instance is what it holds."""
    kind = cast("Any", type(answer))
    if schema is None or not (dataclasses.is_dataclass(kind) or hasattr(kind, "model_dump")):
        return answer
    from pydantic import TypeAdapter

    return TypeAdapter[Any](cast("Any", kind)).dump_python(answer, mode="json")


def check_answer(answer: object, schema: JsonValue, *, question: str) -> None:
    """Raise `InvalidAnswer`, naming the place, when an answer does not fit its schema."""
    if schema is None:
        return
    first = first_fault(answer, cast("JsonObject", schema))
    if first is not None:
        place = ".".join(str(part) for part in first.absolute_path) or "the answer"
        raise InvalidAnswer(
            "{place} does not fit what question {question} asks: {reason}",
            place=place,
            question=question,
            reason=first.message[:300],
        )


def _checked(schema: dict[str, JsonValue]) -> JsonValue:
    from jsonschema import Draft202012Validator, SchemaError

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise ValueError(f"schema=…: it is no JSON Schema: {error.message}") from error
    return schema
