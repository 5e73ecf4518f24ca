"""Whether a value fits a JSON Schema, and where it does not.

Law. An answer is anybody's: what it costs to look at it grows with its length, whatever the
patterns of its schema are, unless they look around or back. Nothing is fetched for a schema.
"""

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final, cast

from loom_ia.core.errors import text_of
from loom_ia.core.json import JsonObject, JsonValue

_LONGEST = 300

_OTHERWISE_READ: Final = ("&&", "--", "~~", "[[")
"""What the two engines do not read alike inside of a class of characters."""


def misfit(value: object, schema: JsonValue) -> str:
    """Tell where and why a value does not fit a schema; nothing when it does, or without one."""
    first = None if schema is None else first_fault(value, cast("JsonObject", schema))
    if first is None:
        return ""
    place = ".".join(str(part) for part in first.absolute_path)
    said = str(first.message)[:_LONGEST]
    return f"{place}: {said}" if place else said


def first_fault(value: object, schema: JsonObject) -> Any:
    """Give the first fault of a value, as jsonschema tells it; None when it fits.

    A schema that leads nowhere, or back to itself for ever, fits nothing.
    """
    from jsonschema import ValidationError
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    nowhere: Any = Registry[Any]()
    validator: Any = _validator()(schema, registry=nowhere)
    try:
        return next(iter(validator.iter_errors(value)), None)
    except Unresolvable as error:
        return ValidationError(f"its schema has a $ref that leads nowhere ({text_of(error)})")
    except RecursionError:
        return ValidationError("it is too deep, or its schema has a $ref that leads to itself")


@lru_cache(maxsize=1)
def _validator() -> Any:
    from jsonschema import Draft202012Validator, validators

    return cast("Any", validators).extend(Draft202012Validator, {"pattern": _pattern})


def _pattern(validator: Any, pattern: str, value: Any, _schema: Any) -> Iterator[Any]:
    from jsonschema import ValidationError

    if validator.is_type(value, "string") and not _finder(pattern)(value):
        yield ValidationError(f"{value!r} does not match {pattern!r}")


@lru_cache(maxsize=256)
def _finder(pattern: str) -> Callable[[str], object]:
    """Give a search for a pattern, in linear time where it can be."""
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    if any(mark in pattern for mark in _OTHERWISE_READ):
        return re.compile(pattern).search
    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern)).isinstance_python
    except SchemaError:
        return re.compile(pattern).search
