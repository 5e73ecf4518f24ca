"""Whether a value fits a JSON Schema, and where it does not."""

from typing import Any, cast

from loom_ia.core.json import JsonObject, JsonValue

_LONGEST = 300


def misfit(value: object, schema: JsonValue) -> str:
    """Tell where and why a value does not fit a schema; nothing when it does, or without one."""
    if schema is None:
        return ""
    from jsonschema import Draft202012Validator

    validator: Any = Draft202012Validator(cast("JsonObject", schema))
    first = next(iter(validator.iter_errors(value)), None)
    if first is None:
        return ""
    place = ".".join(str(part) for part in first.absolute_path)
    said = str(first.message)[:_LONGEST]
    return f"{place}: {said}" if place else said
