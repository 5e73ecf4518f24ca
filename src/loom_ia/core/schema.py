"""Whether a value fits a JSON Schema, and where it does not.

Law. An answer is anybody's: what it costs to look at it grows with its length, whatever the
patterns of its schema are, unless they look around or back. Nothing is fetched for a schema.
"""

import re
from collections.abc import Callable, Iterable, Iterator
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


def unbounded_pattern(schema: JsonValue) -> str:
    """Give a pattern of a schema that is not looked for in linear time; nothing without one.

    Those of `patternProperties` never are.
    """
    if isinstance(schema, list):
        return _first_unbounded(schema)
    if not isinstance(schema, dict):
        return ""
    named = schema.get("patternProperties")
    if isinstance(named, dict) and named:
        return next(iter(named))
    pattern = schema.get("pattern")
    if isinstance(pattern, str) and _linear(pattern) is None:
        return pattern
    parts = [part for key, part in schema.items() if key not in _DATA | _NAMES]
    for key in _NAMES & schema.keys():
        inner = schema[key]
        parts += inner.values() if isinstance(inner, dict) else []
    return _first_unbounded(parts)


def _first_unbounded(parts: Iterable[JsonValue]) -> str:
    for part in parts:
        if pattern := unbounded_pattern(part):
            return pattern
    return ""


_DATA: Final = frozenset({"const", "enum", "default", "examples"})
"""The keywords of a schema that hold values."""
_NAMES: Final = frozenset({"properties", "$defs", "definitions", "dependentSchemas"})
"""The keywords of a schema whose keys are names of the author's."""


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
    return _linear(pattern) or re.compile(pattern).search


def _linear(pattern: str) -> Callable[[str], object] | None:
    """Give a search for a pattern in linear time, None where there is none."""
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    if any(mark in pattern for mark in _OTHERWISE_READ):
        return None
    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern)).isinstance_python
    except SchemaError:
        return None
