"""Dates and times of day written in digits, and dates told from today."""

import re
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from typing import Final

from loom_ia.policies.grounded.lexicon import ENGLISH, FRENCH, RELATIVE
from loom_ia.policies.grounded.sets import word_set
from loom_ia.policies.grounded.suffix import suffix
from loom_ia.policies.grounded.values import Day, Quantity, Reference, Relative, Time, Value

Found = tuple[int, int, tuple[Value, ...]]

_ISO: Final = re.compile(
    r"(?<![\w.-])(?P<y>\d{4})(?P<s>[-/.])(?P<m>\d{1,2})(?P=s)(?P<d>\d{1,2})"
    r"(?:(?:t|, ?| )(?P<h>\d\d):(?P<min>\d\d)(?::\d\d(?:[.,]\d{1,9})?)?(?:z\b| ?[+-]\d\d:?\d\d)?)?"
    r"(?![\w]|[./-]\d)"
)
_COMPACT: Final = re.compile(
    r"(?<![\w.-])(?P<y>\d{4})(?P<m>\d\d)(?P<d>\d\d)t(?P<h>\d\d)(?P<min>\d\d)(?:\d\d)?z?(?!\w)"
)
_DAY_FIRST: Final = re.compile(
    r"(?<![\w./-])(?P<a>\d{1,2}) ?(?P<s>[-/.]) ?(?P<b>\d{1,2}) ?(?P=s) ?(?P<y>\d{4}|\d{2})"
    r"(?![\w]|[./-]\d)"
)
_SHORT: Final = re.compile(r"(?<![\w./,-])(?P<a>\d{1,2})/(?P<b>\d{1,2})(?![\w/%]|[.,-]\d)")
_MONTH: Final = re.compile(
    r"(?<![\w./,-])(?P<m>0?[1-9]|1[0-2])[/.]"
    r"(?P<y>(?:19|20)\d\d)(?![\w/]|[.,]\d)"
)
_CLOCK: Final = re.compile(
    r"(?:(?<![\w.,:/-])|(?<=[h:]\d\d-))(?P<h>[01]?\d|2[0-4]) ?"
    r"(?P<s>[h:]) ?(?P<min>[0-5]\d)(?::[0-5]\d)?"
    r"(?: ?(?P<half>am|pm|a\.m\.?|p\.m\.?)(?!\w))?(?![\w:]|[.,]\d)"
)
_HALF_DAY: Final = re.compile(
    r"(?<![\w.,:/-])(?P<h>1[0-2]|0?[1-9])(?:[.](?P<min>[0-5]\d))? ?"
    r"(?P<half>am|pm|a\.m\.?|p\.m\.?|o'clock)(?!\w)"
)
_RELATIVE: Final = re.compile(
    r"(?<![\w'-])(?:" + "|".join(re.escape(words) for words in RELATIVE) + r")(?![\w])"
)
_NOON: Final = re.compile(r"(?<![\w'-])(?:noon|midday|midi|midnight|minuit)(?!\w)")
_LENGTHS: Final = word_set("sous en dans pendant dure durent durera duree within in for takes")
_CLOCKS: Final = word_set("vers at")
_WORD: Final = re.compile(r"[a-z]{1,30}")


def language(text: str) -> str:
    """`fr`, `en`, or an empty text when the words of a folded text do not tell."""
    french = english = 0
    for word in _WORD.findall(text):
        french += word in FRENCH
        english += word in ENGLISH
    if french > english:
        return "fr"
    return "en" if english > french else ""


def dates(text: str, month_first: bool) -> Iterator[Found]:
    """Dates in digits; `month_first` lets `03/12/2026` be the twelfth of March too."""
    for pattern in (_ISO, _COMPACT):
        for found in pattern.finditer(text):
            day = _day(int(found["y"]), int(found["m"]), int(found["d"]))
            yield found.start(), found.end("d"), day
            if found["h"]:
                clock = _time(int(found["h"]), int(found["min"]))
                yield found.start("h"), found.end(), clock
    for found in _DAY_FIRST.finditer(text):
        year = int(found["y"])
        if len(found["y"]) == 2:
            year += 2000 if year < 70 else 1900
        yield found.start(), found.end(), _either(year, found["a"], found["b"], month_first)


def short_dates(text: str, month_first: bool) -> Iterator[Found]:
    """`12/03` and `03/2026`."""
    for found in _MONTH.finditer(text):
        yield found.start(), found.end(), (Day(int(found["y"]), int(found["m"])),)
    for found in _SHORT.finditer(text):
        days = _either(None, found["a"], found["b"], month_first)
        counted = suffix(text, found.end()).form in {"amount", "percent", "unit"}
        if days and not counted:
            yield found.start(), found.end(), (*days, Reference(found[0].replace("/", "-")))


def clocks(text: str) -> Iterator[Found]:
    """`14h30`, `14:30`, `2 pm`; the first may also be a length of time."""
    for found in _CLOCK.finditer(text):
        hour, minute = int(found["h"]), int(found["min"])
        values = _time(_after_noon(hour, found["half"]), minute)
        if found["s"] == "h":
            length = (Quantity(Decimal(hour * 60 + minute), "minute"),)
            values = hours(text, found.span(), values, length)
        yield found.start(), found.end(), values
    for found in _HALF_DAY.finditer(text):
        hour, minute = int(found["h"]), int(found["min"] or 0)
        if found["half"] == "o'clock":
            yield (
                found.start(),
                found.end(),
                (Time(hour % 12, minute), Time(hour % 12 + 12, minute)),
            )
        else:
            yield found.start(), found.end(), _time(_after_noon(hour, found["half"]), minute)


def relative(text: str) -> Iterator[Found]:
    """Find dates told from today: they pass when a source tells the same, in either language."""
    for found in _RELATIVE.finditer(text):
        yield found.start(), found.end(), (Relative(RELATIVE[found[0]]),)
    for found in _NOON.finditer(text):
        hour = 12 if found[0] in {"noon", "midday", "midi"} else 0
        yield found.start(), found.end(), (Time(hour, 0),)


def hours(
    text: str, at: tuple[int, int], clock: tuple[Value, ...], length: tuple[Value, ...]
) -> tuple[Value, ...]:
    """Choose what hours are, by the words around: a time, a length, or either."""
    before = _WORD.findall(text[max(0, at[0] - 30) : at[0]])
    last = before[-1] if before else ""
    if last in _LENGTHS or text.startswith((" de ", " d'", " of "), at[1]):
        return length
    return clock if last in _CLOCKS and clock else (*clock, *length)


def weekday(day: Day) -> Day:
    """`day` with its weekday, when it is whole."""
    if day.year is None or day.month is None or day.day is None:
        return day
    return Day(day.year, day.month, day.day, date(day.year, day.month, day.day).weekday())


def valid(year: int | None, month: int, day: int) -> bool:
    """Whether there is such a day; the 29th of February is one when no year is said."""
    try:
        date(2000 if year is None else year, month, day)
    except ValueError:
        return False
    return True


def _day(year: int | None, month: int, day: int) -> tuple[Day, ...]:
    return (Day(year, month, day),) if valid(year, month, day) else ()


def _either(year: int | None, first: str, second: str, month_first: bool) -> tuple[Day, ...]:
    a, b = int(first), int(second)
    days = _day(year, b, a)
    if not days or (month_first and a != b):
        days = (*days, *_day(year, a, b))
    return days


def _time(hour: int, minute: int) -> tuple[Time, ...]:
    return (Time(hour % 24, minute),) if hour <= 24 else ()


def _after_noon(hour: int, half: str | None) -> int:
    if not half or hour > 12:
        return hour
    return hour % 12 + (12 if half.startswith("p") else 0)
