"""How values of the standard library are written: a tag, and what JSON can hold.

Law. What is read is equal to what was written and of the same type, or the value is refused when it
is written. Nothing here contains other values: containers are the codec's.
"""

import math
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, Final, TypeVar, cast
from uuid import UUID
from zoneinfo import ZoneInfo

from loom_ia.core.json import JsonValue
from loom_ia.core.model.changes import DECIMAL
from loom_ia.graph.errors import NotSerializable

INT: Final = "$int"
"""The tag of an integer that readers of JSON refuse; its hexadecimal text follows."""

_Instant = TypeVar("_Instant", datetime, time)


@dataclass(frozen=True, slots=True)
class Tagged:
    """How the values of one type are written and read under a tag."""

    tag: str
    dump: Callable[[Any], JsonValue]
    load: Callable[[Any], Any]


def unfit(template: str, /, **params: object) -> NotSerializable:
    """Make the refusal of a value; whoever knows its place puts it in front, by `placed`."""
    return NotSerializable(template, path="the value", **params)


def placed(error: NotSerializable, path: str) -> NotSerializable:
    """Put `path` in front of the place of a refused value."""
    error.key_path = f"{path}{error.key_path}"
    error.params["path"] = error.key_path.removeprefix(".") or "the value"
    return error


def check_text(text: str) -> None:
    """Refuse a text that UTF-8 cannot hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise unfit(
            "{path} has half of a surrogate pair, which UTF-8 cannot hold: mend the text first"
        ) from None


def check_float(value: float) -> None:
    """Refuse NaN and the infinities."""
    if not math.isfinite(value):
        raise unfit(
            "{path} is {value}, which the journal cannot hold: give a finite number, or None",
            value=value,
        )


def _decimal(value: Decimal) -> str:
    if not value.is_finite():
        raise unfit(
            "{path} is {value}, which the journal cannot hold: give a finite number, or None",
            value=value,
        )
    return str(value)


def _instant(value: datetime | time) -> JsonValue:
    zone = value.tzinfo
    if (zone is None or zone is UTC) and not value.fold:
        return value.isoformat()
    told: dict[str, JsonValue] = {}
    if value.fold:
        told["fold"] = 1
    if isinstance(zone, ZoneInfo):
        if zone.key is None:  # pyright: ignore[reportUnnecessaryComparison] -- made by `from_file`
            raise unfit("{path} has a time zone without a name: make it by ZoneInfo, with its key")
        told["zone"] = zone.key
        return {**told, "at": value.replace(tzinfo=None).isoformat()}
    if zone is not None:
        return {**told, **_fixed(value)}
    return {**told, "at": value.isoformat()}


def _fixed(value: datetime | time) -> dict[str, JsonValue]:
    """Write an instant whose zone is a difference to UTC, or acts as one."""
    offset = value.utcoffset()
    fixed = None if offset is None else value.replace(tzinfo=timezone(offset))
    if fixed is None or fixed != value:
        raise unfit(
            "{path} has a time zone of type {type}, which the journal cannot hold: "
            "use ZoneInfo or timezone",
            type=type(value.tzinfo).__name__,
        )
    told: dict[str, JsonValue] = {"at": fixed.isoformat()}
    if isinstance(value.tzinfo, timezone) and str(value.tzinfo) != str(fixed.tzinfo):
        told["name"] = str(value.tzinfo)
    return told


def _read_instant(kind: type[_Instant]) -> Callable[[Any], _Instant]:
    def load(stored: Any) -> _Instant:
        if isinstance(stored, str):
            return kind.fromisoformat(stored)
        told = cast("Mapping[str, Any]", stored)
        value = kind.fromisoformat(told["at"])
        zone = value.tzinfo
        if "zone" in told:
            zone = ZoneInfo(told["zone"])
        elif "name" in told:
            zone = timezone(value.utcoffset() or timedelta(), told["name"])
        return value.replace(tzinfo=zone, fold=told.get("fold", 0))

    return load


def _delta(value: timedelta) -> JsonValue:
    return [value.days, value.seconds, value.microseconds]


def _read_delta(stored: Any) -> timedelta:
    days, seconds, microseconds = stored
    return timedelta(days, seconds, microseconds)


STANDARD: Final[Mapping[type, Tagged]] = {
    Decimal: Tagged(DECIMAL, _decimal, Decimal),
    bytes: Tagged(
        "$bytes",
        lambda value: b64encode(value).decode(),
        lambda stored: b64decode(stored, validate=True),
    ),
    datetime: Tagged("$datetime", _instant, _read_instant(datetime)),
    date: Tagged("$date", date.isoformat, date.fromisoformat),
    time: Tagged("$time", _instant, _read_instant(time)),
    timedelta: Tagged("$timedelta", _delta, _read_delta),
    UUID: Tagged("$uuid", str, UUID),
}
"""The types by their exact class: a subclass would be read as another type."""
