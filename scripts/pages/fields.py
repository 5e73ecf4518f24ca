"""The fields of a Pydantic model, in words."""

import inspect
import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, MinLen
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from typing_extensions import TypeAliasType

from scripts.pages.markdown import anchor, code, prose, table

_NAMES = {
    str: "text",
    int: "integer",
    float: "number",
    bool: "boolean",
    datetime: "instant (RFC 3339, UTC)",
    NoneType: "`null`",
    Any: "any JSON",
}


def type_text(annotation: Any) -> str:
    """Name a type as a reader of JSON or YAML would; a model is a link to its heading.

    A type without a word of its own keeps its Python name.
    """
    if isinstance(annotation, TypeAliasType):
        return "any JSON" if annotation.__name__ == "JsonValue" else type_text(annotation.__value__)
    if annotation in _NAMES:
        return _NAMES[annotation]
    arguments = get_args(annotation)
    origin = get_origin(annotation)
    if origin is Annotated:
        return type_text(arguments[0])
    if origin is Literal:
        return " or ".join(f"`{json.dumps(value)}`" for value in arguments)
    if origin is Union or origin is UnionType:
        return " or ".join(type_text(member) for member in arguments)
    if origin in {tuple, list}:
        return f"list of {type_text(arguments[0])}"
    if origin is dict:
        value = type_text(arguments[1])
        return "JSON object" if value == "any JSON" else f"mapping of {value}"
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return f"[{annotation.__name__}](#{anchor(annotation.__name__)})"
    return f"`{getattr(annotation, '__name__', annotation)}`"


def bounds_text(field: FieldInfo) -> str:
    """Say what a value must satisfy beyond its type."""
    said: list[str] = []
    for rule in field.metadata:
        match rule:
            case Gt():
                said.append(f"more than {rule.gt}")
            case Ge():
                said.append(f"{rule.ge} or more")
            case MinLen():
                said.append("not empty")
            case _:
                pattern = getattr(rule, "pattern", None)
                if pattern:
                    said.append(f"matches `{pattern}`")
    return ", ".join(said)


def default_text(field: FieldInfo) -> str:
    """Say what stands when nothing is given."""
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True, validated_data={})
    if isinstance(value, BaseModel):
        return "its own defaults"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return f"`{json.dumps(value)}`"


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Give the models that a type names, in the order in which it names them."""
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from models_in(argument)


def models_below(models: Iterable[type[BaseModel]]) -> list[type[BaseModel]]:
    """Give the models that the fields of `models` name, and theirs, in the order of their names."""
    found: dict[type[BaseModel], None] = {}
    waiting: list[type[BaseModel]] = list(models)
    while waiting:
        model = waiting.pop(0)
        for _, field in written_fields(model):
            for inner in models_in(field.annotation):
                if inner not in found:
                    found[inner] = None
                    waiting.append(inner)
    return list(found)


def written_fields(model: type[BaseModel]) -> list[tuple[str, FieldInfo]]:
    """Give the fields that the written form of a model can have."""
    return [(key, field) for key, field in model.model_fields.items() if not field.exclude]


def described(model: type[BaseModel], level: str = "###") -> Iterator[str]:
    """Describe a model: a heading, what it is, and a table of its fields."""
    yield f"{level} {model.__name__}"
    yield prose(model.__doc__)
    yield table(
        ("field", "type", "default"),
        (
            (code(key), type_text(field.annotation), default_text(field))
            for key, field in written_fields(model)
        ),
    )
