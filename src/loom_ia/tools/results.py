"""What a tool returns, as the journal keeps it: the same before and after a restart.

    returned                              kept as
    ------------------------------------  ------------------------------------------------------
    `str`                                 a text block, no data
    `None`                                nothing
    `ToolOutput`                          itself
    `bool`, `int`, `float`                the JSON value
    `dict` and other mappings             an object; keys must be text, or enums of text
    `list`, `tuple`                       an array, in order
    `set`, `frozenset`                    an array, sorted by the JSON text of the items
    `Enum`                                its value
    `Decimal`                             text, every digit kept: `"12.50"`
    `date`, `datetime`, `time`            ISO 8601 text; UTC is written `Z`
    `timedelta`                           ISO 8601 text: `"PT1H"`
    `UUID`, path                          text
    dataclass                             an object of its fields
    Pydantic model or dataclass           its own JSON form: `model_dump(mode="json")`
    `bytes`                               a file; images and PDF are recognised by their signature
    `File`, or a list of them             files, with the names and types that they give

Files are stored outside the journal, and the model reads their address. Every other form but the
first three gives `data`, which the model reads as a document. Anything else (NaN, bytes inside a
value, nesting over 64, any other object) raises `UnstorableValue`, which names the path: nothing
turns into null in silence.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any, Final, cast
from uuid import UUID

from pydantic import BaseModel, JsonValue
from pydantic.dataclasses import is_pydantic_dataclass
from pydantic_core import to_jsonable_python

from loom_ia.core.errors import UnstorableValue
from loom_ia.core.json import MAX_DEPTH, canonical, storable, storable_text
from loom_ia.core.model.artifacts import NewFile, sniffed_type
from loom_ia.core.model.content import OutputBlock, ToolOutput
from loom_ia.core.model.session_state import StateRefusal
from loom_ia.core.session_values import MOST_REFUSALS, stored_value

_ROOT: Final = "result"
_SCALARS: Final = frozenset({str, int, float, bool, type(None)})
_AS_TEXT: Final = (Decimal, date, datetime, time, timedelta, UUID)


def to_output(value: object) -> ToolOutput:
    """Convert what a tool returned, as the table above says. Raises `UnstorableValue`."""
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, str):
        text = storable_text(value)
        output = ToolOutput.of_text(text)
        return output if text == value else output.model_copy(update={"mended": (_ROOT,)})
    if value is None:
        return ToolOutput(data=None)
    if isinstance(value, ToolOutput):
        return _checked(value)
    if files := _files(value):
        return ToolOutput(data=None, files=files)
    data, mended = storable(_plain(value, _ROOT, 0), _ROOT)
    return ToolOutput.trusted(
        blocks=(),
        data=data,
        is_error=False,
        mended=mended,
        offloaded="",
        files=(),
        state={},
        state_refused=(),
        unverified=False,
        fallback=False,
    )


@dataclass(frozen=True, slots=True)
class File:
    """A file that a tool gives; without `media_type`, images and PDF are recognised."""

    data: bytes
    name: str = ""
    media_type: str = ""


def _files(value: object) -> tuple[NewFile, ...]:
    if isinstance(value, bytes | bytearray | memoryview):
        return (_new_file(File(bytes(cast("bytes", value)))),)
    if isinstance(value, File):
        return (_new_file(value),)
    if isinstance(value, list | tuple) and value:
        items = cast("list[object]", value)
        files = [item for item in items if isinstance(item, File)]
        return tuple(map(_new_file, files)) if len(files) == len(items) else ()
    return ()


def _new_file(file: File) -> NewFile:
    name = storable_text(file.name)
    return NewFile(data=file.data, name=name, media_type=file.media_type or sniffed_type(file.data))


def _checked(output: ToolOutput) -> ToolOutput:
    data, mended = storable(output.data, f"{_ROOT}.data")
    blocks: list[OutputBlock] = []
    for rank, block in enumerate(output.blocks):
        safe, paths = _checked_block(block, f"{_ROOT}.blocks[{rank}]")
        blocks.append(safe)
        mended += paths
    changes: dict[str, object] = {}
    if mended:
        changes = {"data": data, "blocks": tuple(blocks), "mended": mended}
    if output.state or output.state_refused:
        changes |= _checked_state(output)
    return output.model_copy(update=changes) if changes else output


def _checked_state(output: ToolOutput) -> dict[str, object]:
    """Keep what the journal can hold; what it cannot keeps nothing else of the result out."""
    kept: dict[str, JsonValue] = {}
    refused = [
        refusal.model_copy(
            update={"key": storable_text(refusal.key), "detail": storable_text(refusal.detail)}
        )
        for refusal in output.state_refused
    ]
    for name, value in output.state.items():
        stored = stored_value(name, value)
        if isinstance(stored, StateRefusal):
            refused.append(stored)
        else:
            kept[storable_text(name)] = stored[0]
    return {"state": kept, "state_refused": tuple(refused[:MOST_REFUSALS])}


def _checked_block(block: OutputBlock, path: str) -> tuple[OutputBlock, tuple[str, ...]]:
    update: dict[str, JsonValue] = {}
    mended: tuple[str, ...] = ()
    for name in type(block).model_fields:
        update[name], paths = storable(getattr(block, name), f"{path}.{name}")
        mended += paths
    return (block.model_copy(update=update) if mended else block), mended


def _plain(value: Any, path: str, depth: int) -> Any:
    """Unfold `value` down to what JSON has; `storable` then has the last word."""
    if type(value) in _SCALARS:
        return value
    if isinstance(value, Enum):
        return _plain(value.value, path, depth)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int | float):
        return value
    if isinstance(value, _AS_TEXT):
        return to_jsonable_python(value)
    if isinstance(value, PurePath):
        return str(value)
    if depth >= MAX_DEPTH:
        raise UnstorableValue("{path} is nested deeper than {max}", path=path, max=MAX_DEPTH)
    return _plain_container(value, path, depth + 1)


def _plain_container(value: Any, path: str, depth: int) -> Any:
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        pairs = ((key.value if isinstance(key, Enum) else key, item) for key, item in items)
        return {key: _plain(item, f"{path}.{key}", depth) for key, item in pairs}
    if isinstance(value, list | tuple):
        rows = cast("list[Any]", value)
        return [_plain(item, f"{path}[{i}]", depth) for i, item in enumerate(rows)]
    if isinstance(value, AbstractSet):
        return sorted(
            (_plain(item, f"{path}[]", depth) for item in cast("AbstractSet[Any]", value)),
            key=canonical,
        )
    if isinstance(value, BaseModel) or is_pydantic_dataclass(cast("Any", type(value))):
        return _dumped(value, path)
    if is_dataclass(value) and not isinstance(value, type):
        return {
            item.name: _plain(getattr(value, item.name), f"{path}.{item.name}", depth)
            for item in fields(value)
        }
    raise UnstorableValue(
        "{path} is of type {type}, which has no JSON form: return text, numbers, a dict, a list, a"
        " dataclass or a Pydantic model",
        path=path,
        type=type(value).__qualname__,
    )


def _dumped(value: Any, path: str) -> Any:
    try:
        if isinstance(value, BaseModel):
            return value.model_dump(mode="json")
        return value.__pydantic_serializer__.to_python(value, mode="json")
    except ValueError as error:
        raise UnstorableValue(
            "{path} is a {type} that has no JSON form: {reason}",
            path=path,
            type=type(value).__qualname__,
            reason=error,
        ) from error
