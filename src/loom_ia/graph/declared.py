"""The classes of a user that values may be of: enums, dataclasses and Pydantic models.

Law. A class is declared, by an annotation of the state or in `types=`; a name that was stored is
only ever looked up among those, and nothing is imported. A value is taken apart and put together
again as it stood, without running a constructor or a validation of the user.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING as NO_DEFAULT
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum, Flag
from typing import Any, Literal, cast, get_args, get_origin, get_type_hints

from pydantic import BaseModel


@dataclass(frozen=True, slots=True)
class Shape:
    """How the values of one class are taken apart, and put together again.

    `take` gives parts that the codec writes, the first one what the value is made of.
    """

    name: str
    take: Callable[[Any], list[Any]]
    make: Callable[[list[Any]], Any]


def shape_of(cls: type[Any]) -> Shape | None:
    """Give the shape of a class; None when it is of no kind that can be declared."""
    name = f"{cls.__module__}:{cls.__qualname__}"
    if issubclass(cls, Flag):
        return Shape(name, lambda value: [value.value], lambda parts: cls(parts[0]))
    if issubclass(cls, Enum):
        return Shape(name, lambda value: [value.name], lambda parts: cls[parts[0]])
    if issubclass(cls, BaseModel):
        return Shape(name, _take_model, lambda parts: _make_model(cls, *parts))
    if is_dataclass(cls):
        return Shape(name, _take_dataclass, lambda parts: made(cls, parts[0]))
    return None


def is_typed_dict(cls: Any) -> bool:
    """Tell whether a class is a `TypedDict`, of whichever library."""
    return isinstance(cls, type) and hasattr(cls, "__total__") and hasattr(cls, "__required_keys__")


def annotations_of(cls: type[Any]) -> dict[str, Any]:
    """Give the annotation of each key of a class, with what `Annotated` adds.

    Raises `NameError` when one of them names something that is not of its module.
    """
    if issubclass(cls, BaseModel):
        hints = get_type_hints(cls, include_extras=True)
        return {name: hints[name] for name in cls.model_fields if name in hints}
    if is_dataclass(cls):
        hints = get_type_hints(cls, include_extras=True)
        return {field.name: hints[field.name] for field in fields(cls)}
    return get_type_hints(cls, include_extras=True) if is_typed_dict(cls) else {}


def classes_in(roots: Iterable[Any]) -> list[type]:
    """Find the classes that annotations declare, and those that these are made of."""
    found: dict[type, None] = {}
    waiting = list(roots)
    seen: set[type] = set()
    while waiting:
        for cls in _named(waiting.pop(0)):
            if cls in seen:
                continue
            seen.add(cls)
            if shape_of(cls) is not None:
                found[cls] = None
            try:
                waiting.extend(annotations_of(cls).values())
            except (NameError, TypeError, AttributeError):
                continue  # what it is made of may still be declared by itself
    return list(found)


def defaults_of(cls: type[Any]) -> dict[str, Callable[[], Any]]:
    """Give what makes the default of each field of a dataclass or model that has one."""
    if issubclass(cls, BaseModel):
        return {
            name: _model_default(cls, name)
            for name, field in cls.model_fields.items()
            if not field.is_required()
        }
    made: dict[str, Callable[[], Any]] = {}
    for field in fields(cast("Any", cls)):
        if field.default_factory is not NO_DEFAULT:
            made[field.name] = field.default_factory
        elif field.default is not NO_DEFAULT:
            made[field.name] = _constant(field.default)
    return made


def required_of(cls: type[Any]) -> frozenset[str]:
    """Give the fields of a dataclass or model that its constructor must be given."""
    if issubclass(cls, BaseModel):
        return frozenset(name for name, field in cls.model_fields.items() if field.is_required())
    known = defaults_of(cls)
    taken = (field.name for field in fields(cast("Any", cls)) if field.init)
    return frozenset(name for name in taken if name not in known)


def constructed(cls: type[Any], values: Mapping[str, Any]) -> Any:
    """Make a dataclass or model as its user would, constructor and validation included."""
    if issubclass(cls, BaseModel):
        return cls.model_validate(dict(values), by_name=True)
    others = [field.name for field in fields(cast("Any", cls)) if not field.init]
    new = cls(**{name: value for name, value in values.items() if name not in others})
    for name in others:
        if name in values:
            object.__setattr__(new, name, values[name])
    return new


def made(cls: type[Any], values: Mapping[str, Any]) -> Any:
    """Put a dataclass or model together from the values of its fields; defaults fill the others.

    No constructor and no validation is run. Raises `KeyError` for a field that has neither.
    """
    if issubclass(cls, BaseModel):
        return _make_model(cls, values)
    new: Any = object.__new__(cls)
    for field in fields(cast("Any", cls)):
        if field.name in values:
            object.__setattr__(new, field.name, values[field.name])
        elif (default := defaults_of(cls).get(field.name)) is not None:
            object.__setattr__(new, field.name, default())
        elif field.init:
            raise KeyError(field.name)
    return new


def parts_of(value: Any) -> dict[str, Any]:
    """Give the values of the fields of a dataclass or model."""
    if isinstance(value, BaseModel):
        return {name: value.__dict__[name] for name in type(value).model_fields}
    return {f.name: getattr(value, f.name) for f in fields(value) if hasattr(value, f.name)}


def _take_dataclass(value: Any) -> list[Any]:
    return [parts_of(value)]


def _take_model(value: BaseModel) -> list[Any]:
    parts = parts_of(value)
    more: dict[str, Any] = {}
    if value.model_fields_set != parts.keys():
        more["set"] = sorted(value.model_fields_set)
    if value.__pydantic_extra__:
        more["extra"] = dict(value.__pydantic_extra__)
    private: dict[str, Any] | None = value.__getstate__().get("__pydantic_private__")
    if private:
        more["private"] = private
    return [parts, more] if more else [parts]


def _make_model(
    cls: type[BaseModel], values: Mapping[str, Any], more: Mapping[str, Any] | None = None
) -> Any:
    more = more or {}
    defaults = defaults_of(cls)
    held = {name: values[name] if name in values else defaults[name]() for name in cls.model_fields}
    private = {
        name: attribute.get_default()
        for name, attribute in cls.__private_attributes__.items()
        if name not in more.get("private", {})
    }
    owns = bool(cls.__private_attributes__)
    known = {name: value for name, value in private.items() if _is_defined(value)}
    allows = cls.model_config.get("extra") == "allow"
    new = cls.__new__(cls)
    new.__setstate__(
        {
            "__dict__": held,
            "__pydantic_extra__": dict(more.get("extra", {})) if allows else None,
            "__pydantic_fields_set__": set(more.get("set", values.keys() & held.keys())),
            "__pydantic_private__": {**known, **more.get("private", {})} if owns else None,
        }
    )
    return new


def _is_defined(value: Any) -> bool:
    return type(value).__name__ != "PydanticUndefinedType"


def _model_default(cls: type[BaseModel], name: str) -> Callable[[], Any]:
    # A factory may want the fields that were validated before it; here there is none.
    return lambda: cls.model_fields[name].get_default(call_default_factory=True, validated_data={})


def _constant(value: Any) -> Callable[[], Any]:
    return lambda: value


def _named(annotation: Any) -> Iterator[type]:
    """Give the classes that an annotation names, however deep they stand in it."""
    if isinstance(annotation, type):
        yield annotation
        return
    alias = getattr(annotation, "__value__", None)  # `type X = …`
    if alias is not None:
        yield from _named(alias)
    origin = get_origin(annotation)
    if origin is Literal:
        yield from (type(value) for value in get_args(annotation) if isinstance(value, Enum))
        return
    if isinstance(origin, type):
        yield origin
    for argument in get_args(annotation):
        if isinstance(argument, list):  # the parameters of a callable
            continue
        yield from _named(argument)
