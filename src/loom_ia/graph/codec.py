"""How a value of a state is written in the journal, and read back the same.

Law. Reading gives back an equal value of the same types, or writing refuses it and names its place:
nothing is turned into something near it. What JSON does not know is a tagged object of one key that
begins with `$`; an object of the user that looks like one is itself tagged, by `$`. Both ways make
fresh copies, so that no two readers share a list. This is the hot path of every step: plain values
come first, and a place is only put together once something was refused.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final, cast

from pydantic_core import from_json as parsed

from loom_ia.core.errors import told
from loom_ia.core.json import MAX_BITS, MAX_DEPTH, JsonObject, JsonValue, canonical
from loom_ia.core.model.messages import Message
from loom_ia.core.model.usage import Usage
from loom_ia.graph.declared import Shape, classes_in, shape_of
from loom_ia.graph.errors import CorruptCheckpoint, NotSerializable
from loom_ia.graph.scalars import (
    INT,
    STANDARD,
    Tagged,
    check_float,
    check_text,
    placed,
    unfit,
)
from loom_ia.graph.tool_call import ToolCall, ToolResult
from loom_ia.graph.types import Sentinel

ESCAPE: Final = "$"
"""The tag of an object of the user whose one key begins with `$`."""
TUPLE: Final = "$tuple"
DECLARED: Final = "$type"

_CONTAINERS: Final[Mapping[type, str]] = {tuple: TUPLE, set: "$set", frozenset: "$frozenset"}
_MAKERS: Final[Mapping[str, Callable[[list[Any]], Any]]] = {
    tag: cast("Callable[[list[Any]], Any]", kind) for kind, tag in _CONTAINERS.items()
}
_LOADERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    INT: lambda stored: int(stored, 16),
    **{tagged.tag: tagged.load for tagged in STANDARD.values()},
}

ENGINE_TYPES: Final[dict[type, Tagged]] = {}
"""The values of this library that need no declaration; `register` adds to them."""
_ENGINE_TAGS: Final[dict[str, Tagged]] = {}


def register(tag: str, cls: type, dump: Callable[[Any], Any], load: Callable[[Any], Any]) -> None:
    """Let every codec write a class of this library under `tag`, which begins with `$`.

    `dump` gives a value that a codec writes, `load` gets it back as it was.
    """
    ENGINE_TYPES[cls] = _ENGINE_TAGS[tag] = Tagged(tag, dump, load)


class Codec:
    """Writes values in the form of the journal and reads them back.

    It knows the classes of `types`, those that `annotations` name, and those that they are made of.
    Raises `ValueError` for a class of `types` that is neither an enum, a dataclass nor a Pydantic
    model.
    """

    def __init__(self, types: Sequence[type] = (), *, annotations: Iterable[Any] = ()) -> None:
        for cls in types:
            _check_declarable(cls)
        self._shapes: dict[type, Shape] = {}
        self._by_name: dict[str, list[Shape]] = {}
        for cls in classes_in((*types, *annotations)):
            shape = shape_of(cls)
            if shape is None or cls in ENGINE_TYPES:
                continue
            self._shapes[cls] = shape
            self._by_name.setdefault(shape.name, []).append(shape)
            self._by_name.setdefault(cls.__qualname__, []).append(shape)

    def to_json(self, value: Any, path: str = "") -> JsonValue:
        """Write `value`; raises `NotSerializable`, whose `key_path` begins with `path`."""
        try:
            return self._write(value, 0)
        except NotSerializable as error:
            placed(error, path)
            error.key_path = error.key_path.removeprefix(".")
            raise

    def from_json(self, value: JsonValue) -> Any:
        """Read a value back; raises `CorruptCheckpoint` for what no codec of these types wrote."""
        kind: type[Any] = type(value)
        if kind is list:
            read = self.from_json
            return [
                item if type(item) in _PLAIN else read(item)
                for item in cast("list[JsonValue]", value)
            ]
        if kind is dict:
            given = cast("JsonObject", value)
            if len(given) == 1:
                ((tag, stored),) = given.items()
                if tag.startswith("$"):
                    return self._untagged(tag, stored)
            return self._read_object(given)
        return value

    # -- writing ----------------------------------------------------------------------------------

    def _write(self, value: Any, depth: int) -> JsonValue:
        kind = type(value)  # pyright: ignore[reportUnknownVariableType] -- a `cast` would cost more
        if kind is str:
            if not value.isascii():
                check_text(value)
            return value
        if kind is int:
            return value if value.bit_length() <= MAX_BITS else {INT: f"{value:x}"}
        if value is None or kind is bool:
            return value
        if kind is float:
            check_float(value)
            return value
        if depth >= MAX_DEPTH:
            raise unfit("{path} is nested deeper than {max}: give a flatter value", max=MAX_DEPTH)
        if kind is dict:
            written = self._write_object(value, depth + 1)
            if len(written) == 1 and next(iter(written)).startswith("$"):
                return {ESCAPE: written}
            return written
        if kind is list:
            return self._write_items(value, depth + 1)
        return self._write_tagged(value, depth)

    def _write_object(self, value: dict[Any, Any], depth: int) -> JsonObject:
        written: JsonObject = {}
        write = self._write
        for key, item in value.items():
            if type(key) is not str or not key.isascii():
                _check_key(key)
            try:
                written[key] = write(item, depth)
            except NotSerializable as error:
                placed(error, f".{key}")
                raise
        return written

    def _write_items(self, value: Sequence[Any], depth: int) -> list[JsonValue]:
        written: list[JsonValue] = []
        write = self._write
        try:
            for item in value:
                written.append(write(item, depth))  # noqa: PERF401 -- its length tells the place
        except NotSerializable as error:
            placed(error, f"[{len(written)}]")
            raise
        return written

    def _write_tagged(self, value: Any, depth: int) -> JsonValue:
        kind = cast("type[Any]", type(value))
        if kind is tuple:
            return {TUPLE: self._write_items(value, depth + 2)}
        if kind in _CONTAINERS:
            items = [self._write(item, depth + 2) for item in value]
            return {_CONTAINERS[kind]: sorted(items, key=canonical)}
        if (tagged := STANDARD.get(kind)) is not None:
            return {tagged.tag: tagged.dump(value)}
        if (tagged := ENGINE_TYPES.get(kind)) is not None:
            return {tagged.tag: self._write(tagged.dump(value), depth + 1)}
        if (shape := self._shapes.get(kind)) is not None:
            parts = [self._write(part, depth + 2) for part in shape.take(value)]
            return {DECLARED: [shape.name, *parts]}
        if isinstance(value, Sentinel):
            raise unfit(
                "{path} is {value}, which is a mark and no value: only a whole key can be deleted",
                value=repr(value),
            )
        raise unfit(
            "{path} is of type {type}, which the journal cannot hold: declare an enum, a dataclass "
            "or a Pydantic model in types=, or give a plain value",
            type=kind.__qualname__,
        )

    # -- reading ----------------------------------------------------------------------------------

    def _read_object(self, given: JsonObject) -> dict[str, Any]:
        read = self.from_json
        return {key: item if type(item) in _PLAIN else read(item) for key, item in given.items()}

    def _untagged(self, tag: str, stored: JsonValue) -> Any:
        try:
            if tag == ESCAPE:
                return self._read_object(cast("JsonObject", stored))
            if (make := _MAKERS.get(tag)) is not None:
                return make([self.from_json(item) for item in cast("list[JsonValue]", stored)])
            if (load := _LOADERS.get(tag)) is not None:
                return load(stored)
            if (engine := _ENGINE_TAGS.get(tag)) is not None:
                return engine.load(self.from_json(stored))
            if tag == DECLARED:
                name, *parts = cast("list[Any]", stored)
                return self._shape(name).make([self.from_json(part) for part in parts])
        except CorruptCheckpoint:
            raise
        except Exception as error:
            raise CorruptCheckpoint(
                "a value of the kind {tag} cannot be read: {reason}", tag=tag, reason=told(error)
            ) from error
        raise CorruptCheckpoint(
            "a value is of the kind {tag}, which this version does not know", tag=tag
        )

    def _shape(self, name: str) -> Shape:
        """Find a declared class by its stored name, or by the end of it if the class moved."""
        for known in (name, name.rpartition(":")[2]):
            match self._by_name.get(known, ()):
                case [shape]:
                    return shape
                case _:
                    pass
        raise CorruptCheckpoint(
            "a value is of the class {name}, which is not declared here: "
            "declare it in the typed state, or in types=",
            name=name,
        )


_PLAIN: Final = frozenset({str, int, float, bool, type(None)})
_DEFAULT: Final = Codec()


def as_object(values: Mapping[str, JsonValue]) -> JsonObject:
    """Give values that are written already as one object that a codec reads back as a dict."""
    written = dict(values)
    if len(written) == 1 and next(iter(written)).startswith("$"):
        return {ESCAPE: written}
    return written


def encode(value: Any, *, types: Sequence[type] = ()) -> bytes:
    """Write a value as UTF-8 JSON; raises `NotSerializable`, with the place in it."""
    written = (Codec(types) if types else _DEFAULT).to_json(value)
    return json.dumps(written, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def decode(data: bytes, *, types: Sequence[type] = ()) -> Any:
    """Read what `encode` wrote; raises `CorruptCheckpoint` for anything else."""
    return (Codec(types) if types else _DEFAULT).from_json(_parsed(data))


def decode_object(data: bytes) -> JsonObject:
    """Read a JSON object as it is written; raises `CorruptCheckpoint` for anything else."""
    stored = _parsed(data)
    if not isinstance(stored, dict):
        raise CorruptCheckpoint("these bytes are no object: {type}", type=type(stored).__name__)
    return cast("JsonObject", stored)


def _parsed(data: bytes) -> JsonValue:
    try:
        return parsed(data, allow_inf_nan=False)
    except (ValueError, TypeError) as error:
        raise CorruptCheckpoint(
            "these bytes are no value that was encoded: {reason}", reason=told(error)
        ) from error


def _check_declarable(cls: Any) -> None:
    known = _PLAIN | STANDARD.keys() | ENGINE_TYPES.keys() | _CONTAINERS.keys() | {list, dict}
    if cls in known or (isinstance(cls, type) and shape_of(cls) is not None):
        return
    raise ValueError(f"types={cls!r}: it is neither an enum, a dataclass nor a Pydantic model")


def _check_key(key: object) -> None:
    if type(key) is not str:
        raise unfit(
            "{path} has the key {key} of type {type}: the keys of a dict are texts",
            key=repr(key),
            type=type(key).__name__,
        )
    check_text(key)


def _dump_model(value: Message | Usage) -> Any:
    return value.model_dump(mode="json")


def _dump_fields(value: ToolCall | ToolResult) -> dict[str, Any]:
    parts = {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, ToolCall):
        parts["arguments"] = dict(value.arguments)
    return parts


register("$message", Message, _dump_model, lambda d: Message.model_validate(d, extra="ignore"))
register("$usage", Usage, _dump_model, lambda d: Usage.model_validate(d, extra="ignore"))
register("$toolcall", ToolCall, _dump_fields, lambda d: ToolCall(**d))
register("$toolresult", ToolResult, _dump_fields, lambda d: ToolResult(**d))
