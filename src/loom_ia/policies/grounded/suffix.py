"""What stands after a number and says what it counts."""

import re
import unicodedata
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Literal

from loom_ia.policies.grounded.lexicon import (
    CENTS,
    CURRENCIES,
    MONTHS,
    PERCENT,
    SHORT,
    TAXES,
    THOUSANDS,
    UNITS,
)
from loom_ia.policies.grounded.words import spelt

Form = Literal["amount", "cents", "percent", "permille", "unit", "month", "tax", ""]

_SPACE: Final = re.compile(r" {0,2}(?:[.,]-{1,2} {0,2})?")
_WORD: Final = re.compile(r"[a-z]{1,24}(?![a-z])")
_COUNTRY: Final = re.compile(
    r"(?P<country>swiss|us|american|canadian|australian) (?P<money>francs?|dollars?)(?!\w)"
)
_COUNTRIES: Final = {"s": "CHF", "u": "USD", "c": "CAD", "am": "USD", "au": "AUD"}
_UNIT: Final = re.compile(r"(?:[a-z]{1,14}[23]?|°[cf]?)(?![\w'°])")
_SHORT: Final = re.compile(
    r"(?P<size>mn|md|bn|k|m|b)s? ?(?=[^\w\s]|eur\b|euros?\b|usd\b|gbp\b|chf\b|d'euros?\b)"
)
_SHORT_ALONE: Final = re.compile(r"(?P<size>mn|md|bn|k|m|b)(?!\w)")
_OF: Final = re.compile(r" {0,2}(?:d'|d |de |of )")
_PER_CENT: Final = re.compile(
    r"(?:pour cents?|per cent|p\. ?100|p\.c\.|points? de pourcentage)(?!\w)"
)
_LATIN: Final = re.compile(r"(?:us|ca|a|c|nz|hk|s)(?=\$)")
_YEAR: Final = re.compile(r"(?: ?, ?| of | )(?P<year>\d{4})(?![\d\w]|[.,]\d|[ .,]?[€$£])")
_PART: Final = re.compile(
    r"(?P<part>demie?s?|half|quarts?|quarters?)(?: d'| of an?(?= )| an?(?= )|[ -])? ?"
)
_PARTS: Final = {"d": Decimal("0.5"), "h": Decimal("0.5"), "q": Decimal("0.25")}
_ADDED: Final = re.compile(
    r" (?:et|and an?|and|une) (?P<part>demie?|half|quarter|quart|trois quarts|three quarters)(?!\w)"
)
_ADDITIONS: Final = {
    "demi": Decimal("0.5"),
    "demie": Decimal("0.5"),
    "half": Decimal("0.5"),
    "quart": Decimal("0.25"),
    "quarter": Decimal("0.25"),
    "trois quarts": Decimal("0.75"),
    "three quarters": Decimal("0.75"),
}


@dataclass(frozen=True, slots=True)
class Suffix:
    """What a number counts: `names` are the unit or the currencies it may be, `times` a factor.

    `month` and `year` are those of a date; `plus` is a fraction said after, as in `et demi`.
    """

    form: Form
    end: int
    names: tuple[str, ...] = ()
    times: Decimal = Decimal(1)
    month: int = 0
    year: int | None = None
    plus: Decimal = Decimal(0)


def suffix(text: str, end: int, priced: bool = False) -> Suffix:
    """Read what follows a number that ends at `end`; `priced` when a currency stands before it."""
    times, at = _multiplier(text, end, priced)
    if text[at : at + 1] in {" ", "-"} and (share := part(text, at + 1)):
        return Suffix("unit", share.end, share.names, times * share.times)
    named = _named(text, at)
    if not named.form and times == 1 and text[end : end + 1] == "-":
        named = _named(text, end + 1)
        if named.form not in {"unit", "amount"}:
            named = Suffix("", end)
    if not named.form and (of := _OF.match(text, at)):
        named = _named(text, of.end())
        if times == 1 and named.form not in {"unit", "amount", "month"}:
            named = Suffix("", at)
    if not named.form and times != 1:
        added = _ADDED.match(text, at)
        if added:
            after = added.end()
            of = _OF.match(text, after)
            inner = _named(text, of.end() if of else after)
            factor = _ADDITIONS[added["part"]]
            form: Form = inner.form if inner.form in {"amount", "unit"} else ""
            last = inner.end if form else after
            return Suffix(form, last, inner.names if form else (), times, plus=factor)
    if not named.form:
        return Suffix("", at, (), times)
    plus = Decimal(0)
    last = named.end
    if named.form == "unit" and (added := _ADDED.match(text, last)):
        plus, last = _ADDITIONS[added["part"]], added.end()
    return Suffix(named.form, last, named.names, times, named.month, named.year, plus)


def part(text: str, start: int) -> Suffix | None:
    """Read the `demi-heure` or the `half an hour` at `start`, as so much of a unit."""
    found = _PART.match(text, start)
    if found is None:
        return None
    inner = _named(text, found.end())
    if inner.form != "unit":
        return None
    return Suffix("unit", inner.end, inner.names, _PARTS[found["part"][0]])


def _multiplier(text: str, end: int, priced: bool) -> tuple[Decimal, int]:
    times, at = Decimal(1), end
    for _ in range(3):
        start = _blank(text, at)
        short = (_SHORT_ALONE if priced else _SHORT).match(text, start)
        if short and (priced or _currency_at(text, short.end())):
            return times * SHORT[short["size"]], short.end()
        word = _WORD.match(text, start)
        if word is None or word[0] not in THOUSANDS:
            return times, at
        times, at = times * THOUSANDS[word[0]], word.end()
    return times, at


def _blank(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _currency_at(text: str, at: int) -> bool:
    return _named(text, at + 2 if text.startswith("d'", at) else at).form == "amount"


def _named(text: str, end: int) -> Suffix:
    at = _blank(text, end)
    char = text[at : at + 1]
    if char == "%":
        return Suffix("percent", at + 1)
    if char == "‰":
        return Suffix("permille", at + 1)
    if char and not char.isalnum() and unicodedata.category(char) == "Sc":
        return Suffix("amount", at + 1, (CURRENCIES.get(char, char),))
    if latin := _LATIN.match(text, at):
        name = {"us": "USD", "ca": "CAD", "c": "CAD", "a": "AUD"}.get(latin[0], latin[0].upper())
        return Suffix("amount", latin.end() + 1, (name,))
    if found := _COUNTRY.match(text, at):
        country = found["country"]
        name = _COUNTRIES.get(country[0]) or _COUNTRIES[country[:2]]
        return Suffix("amount", found.end(), (name,))
    if found := _PER_CENT.match(text, at):
        return Suffix("percent", found.end())
    return _word(text, at)


def _word(text: str, at: int) -> Suffix:
    found = _WORD.match(text, at)
    word = found[0] if found else ""
    end = found.end() if found else at
    glued = text[end : end + 1].isalnum()
    if word in PERCENT:
        return Suffix("percent", end)
    if word in CURRENCIES and (not glued or word in {"eur", "euros", "usd", "chf", "gbp"}):
        names = (CURRENCIES[word], "lb") if word in {"pound", "pounds"} else (CURRENCIES[word],)
        return Suffix("amount", _past(text, end, (" sterling", " suisses", " suisse")), names)
    if word in CENTS and not glued:
        names = CENTS[word]
        return Suffix("cents", _past(text, end, (" d'euros", " d'euro")), names)
    if word in MONTHS and not glued:
        return _month(text, end, MONTHS[word])
    if word in TAXES:
        return Suffix("tax", at)
    unit = _UNIT.match(text, at)
    if unit and unit[0] in UNITS:
        return Suffix("unit", unit.end(), (UNITS[unit[0]],))
    return Suffix("", at)


def _past(text: str, end: int, words: tuple[str, ...]) -> int:
    return next((end + len(word) for word in words if text.startswith(word, end)), end)


def _month(text: str, end: int, month: int) -> Suffix:
    end = end + 1 if text[end : end + 1] == "." and text[end + 1 : end + 2] in {" ", ","} else end
    year, end = year_at(text, end)
    return Suffix("month", end, month=month, year=year)


def year_at(text: str, end: int) -> tuple[int | None, int]:
    """Read the year after a day and a month which end at `end`; give where the date ends too."""
    if found := _YEAR.match(text, end):
        return int(found["year"]), found.end()
    gap = 2 if text.startswith(", ", end) else 1
    words = spelt(text, end + gap) if text[end : end + 1] in {" ", ","} else None
    if words and 1000 <= words.number < 3000 and words.number == int(words.number):
        return int(words.number), words.end
    return None, end
