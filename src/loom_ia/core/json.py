"""JSON values and the two gates that keep the journal readable.

What enters a journal must come back the same: a document nested too deep can be written and not
read again, NaN turns into null, a lone surrogate makes the writer fail. `storable` refuses or
mends them at the edge, before anything is written.
"""

import json
import math
import re
from hashlib import sha256
from typing import Any, Final, TypeAlias, cast

from pydantic import JsonValue

from loom_ia.core.errors import UnstorableValue

JsonObject: TypeAlias = dict[str, JsonValue]

MAX_DEPTH: Final = 64
_TEXT: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"')
MAX_BITS: Final = 14_000
"""How long an integer may be: one of more than some 4,300 digits is refused by readers of JSON."""


def canonical(value: object) -> str:
    """Write `value` with sorted keys and no spaces, so that equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def readable(value: object) -> str:
    """Write `value` on one line as a person reads it, accents kept, in its own key order."""
    return json.dumps(value, ensure_ascii=False)


def digest(value: object) -> str:
    """SHA-256 of the canonical text of `value`, in hexadecimal."""
    return sha256(canonical(value).encode("utf-8", "surrogatepass")).hexdigest()


def count_values(data: bytes) -> int:
    """Count about how many values a JSON text holds, before each of them costs far more."""
    bare = _TEXT.sub(b"", data)
    return bare.count(b",") + bare.count(b"[") + bare.count(b"{")


def storable(value: object, path: str = "") -> tuple[JsonValue, tuple[str, ...]]:
    """Return `value` as the journal can hold it, with the paths whose text was mended.

    Lone surrogates become U+FFFD and their path is reported. Raises `UnstorableValue`, naming the
    path, for NaN, infinities, integers over 14,000 bits, nesting over 64, keys that are not text
    and any other type.
    """
    mended: list[str] = []
    return _storable(value, path or "$", 0, mended), tuple(mended)


def storable_text(text: str) -> str:
    """Replace what UTF-8 cannot hold in `text` by U+FFFD."""
    return text if _encodable(text) else _mend(text)


def _storable(value: object, path: str, depth: int, mended: list[str]) -> JsonValue:
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        if _encodable(value):
            return str.__str__(value)  # the text of a `str` enum, not its name
        mended.append(path)
        return _mend(value)
    if isinstance(value, int):
        if value.bit_length() > MAX_BITS:
            raise UnstorableValue(
                "{path} is {value}, which JSON cannot hold",
                path=path,
                value=f"{value:#x}"[:12] + "…",
            )
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise UnstorableValue(
                "{path} is {value}, which JSON cannot hold", path=path, value=value
            )
        return float(value)
    if depth >= MAX_DEPTH:
        raise UnstorableValue("{path} is nested deeper than {max}", path=path, max=MAX_DEPTH)
    if isinstance(value, dict):
        return _storable_object(cast("dict[Any, object]", value), path, depth, mended)
    if isinstance(value, list | tuple):
        items = cast("list[object]", value)
        return [_storable(v, f"{path}[{i}]", depth + 1, mended) for i, v in enumerate(items)]
    raise UnstorableValue(
        "{path} is of type {type}, which JSON cannot hold", path=path, type=type(value).__name__
    )


def _storable_object(
    value: dict[Any, object], path: str, depth: int, mended: list[str]
) -> JsonObject:
    result: JsonObject = {}
    for key, item in value.items():
        if not isinstance(key, str):
            raise UnstorableValue(
                "{path} has the key {key!r}, and JSON keys are text", path=path, key=key
            )
        name = str.__str__(key)
        if not _encodable(key):
            name = _mend(key)
            mended.append(f"{path}.{name}")
        if name in result:
            raise UnstorableValue("{path} has the key {key!r} twice", path=path, key=name)
        result[name] = _storable(item, f"{path}.{name}", depth + 1, mended)
    return result


def _encodable(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _mend(text: str) -> str:
    # A pair of surrogates is one character that was split; only a lone one is lost.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
