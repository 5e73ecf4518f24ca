"""The claims of a text: what is recognised by its shape first, then every number that is left.

No digit is let through: each one is part of a claim, of the marker of a numbered list, of an
ordinal or of a word such as `CO2`.
"""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from loom_ia.policies.grounded import contacts, dates
from loom_ia.policies.grounded.fold import UNREADABLE, Folded, fold
from loom_ia.policies.grounded.lexicon import CURRENCIES, PERCENT, SHORT, UNITS
from loom_ia.policies.grounded.numbers import Numbers
from loom_ia.policies.grounded.values import Claim, Day, Kind, Value

_MARKER: Final = re.compile(
    r"(?:(?:^|(?<=\n))[ >#|•·-]{0,12}\(?(?P<line>\d{1,2})(?:\.|\)|°)"
    r"|(?<=[\s:;,])(?P<inline>\d{1,2})\)"
    r"|(?<!\w)(?P<word>etape|step|option|point|phase|partie|part|question|article|annexe|section)"
    r" (?P<rank>\d{1,2}))(?P<after> {1,3}(?=\S)|(?= ?[:.,;)\n]))"
)
_FOLLOWS: Final = re.compile(r"(?P<word>[a-z°]{1,20})|(?P<symbol>[^\s\w])")
_BEFORE_DAY: Final = re.compile(r"[ ,]{1,3}(?:(?:le|the|du|au) )?|[ ,]{1,2}")


@dataclass(frozen=True, slots=True)
class Reading:
    """How to read what is ambiguous: `month_first` for dates, `joined` for digits cut by spaces."""

    month_first: bool = True
    joined: bool = True


def claims(text: str) -> tuple[Claim, ...]:
    """Return what `text` claims, in order; no two of them overlap.

    A date such as `12/03/2026` has two readings, and one only in a text that is clearly French.
    """
    folded = fold(text)
    return read(text, folded, Reading(month_first=dates.language(folded.text) != "fr"))


def read(source: str, folded: Folded, reading: Reading) -> tuple[Claim, ...]:
    """Return the claims of `source`, whose folded writing is `folded`."""
    found = _Page(source, folded)
    found.take("reference", contacts.pages(found.text))
    found.take("email", contacts.emails(source, folded, found.text))
    found.take("reference", contacts.vat_numbers(source, folded, found.text))
    found.take("iban", contacts.ibans(source, folded, found.text))
    found.hide(_markers(found.text))
    found.take("date", dates.dates(found.text, reading.month_first))
    found.take("date", dates.clocks(found.text))
    found.take("phone", contacts.phones(found.text))
    found.take("date", dates.short_dates(found.text, reading.month_first))
    found.take("date", dates.relative(found.text))
    numbers = Numbers(source, folded, found.text, reading.joined)
    numbers.run()
    found.claims += numbers.claims
    return found.sorted()


class _Page:
    """A folded text, whose claimed parts are hidden from what is looked for next."""

    def __init__(self, source: str, folded: Folded) -> None:
        self.source = source
        self.folded = folded
        self.text = folded.text
        self.claims: list[tuple[Kind, int, int, tuple[Value, ...]]] = []

    def take(self, kind: Kind, found: Iterable[contacts.Found]) -> None:
        spans: list[tuple[int, int]] = []
        end = 0
        for start, stop, values in sorted(found, key=lambda one: (one[0], -one[1])):
            if start < end:
                continue
            end = stop
            spans.append((start, stop))
            if values or kind != "reference":
                self.claims.append((kind, start, stop, values))
        self.hide(spans)

    def hide(self, spans: Iterable[tuple[int, int]]) -> None:
        parts: list[str] = []
        at = 0
        for start, end in spans:
            parts += (self.text[at:start], "\x00" * (end - start))
            at = end
        self.text = "".join((*parts, self.text[at:]))

    def sorted(self) -> tuple[Claim, ...]:
        ordered = sorted(self.claims, key=lambda one: one[1])
        out: list[tuple[Kind, int, int, tuple[Value, ...]]] = []
        for claim in ordered:
            if out and (merged := self._dated(out[-1], claim)):
                out[-1] = merged
            else:
                out.append(claim)
        claims: list[Claim] = []
        first = 0
        for one in out:
            claim = self._claim(*one)
            if claims and claim.start < claims[-1].end:
                # One character of the source, such as a ligature, is a part of both.
                claim = self._claim(claims.pop().kind, first, one[2], ())
            else:
                first = one[1]
            claims.append(claim)
        return tuple(claims)

    def _dated(
        self,
        before: tuple[Kind, int, int, tuple[Value, ...]],
        after: tuple[Kind, int, int, tuple[Value, ...]],
    ) -> tuple[Kind, int, int, tuple[Value, ...]] | None:
        """`mardi 3 mars`: one date, with its weekday."""
        day = before[3][0] if len(before[3]) == 1 else None
        if not isinstance(day, Day) or day.weekday is None or day.month or after[0] != "date":
            return None
        if not _BEFORE_DAY.fullmatch(self.folded.text[before[2] : after[1]]):
            return None
        if not all(isinstance(value, Day) and value.day for value in after[3]):
            return None
        days = (value for value in after[3] if isinstance(value, Day))
        joined = tuple(Day(one.year, one.month, one.day, day.weekday) for one in days)
        return "date", before[1], after[2], joined

    def _claim(self, kind: Kind, start: int, end: int, values: tuple[Value, ...]) -> Claim:
        first, last = self.folded.at[start], self.folded.to[end - 1]
        return Claim(kind, self.source[first:last], first, last, values)


def _markers(text: str) -> list[tuple[int, int]]:
    """Find the markers of numbered lists: each list starts at 1 and goes on by one."""
    last: dict[str, int] = {}
    spans: list[tuple[int, int]] = []
    doubts: dict[str, int] = {}
    for found in _MARKER.finditer(text):
        group = next(name for name in ("line", "inline", "rank") if found[name])
        name, rank = found["word"] or "", int(found[group])
        if rank not in {1, last.get(name, 0) + 1} or _counts(text, found.end()):
            continue
        if text[found.end() : found.end() + 1].isdigit() and rank == 1:
            doubts[name] = len(spans)  # `1. 840 €` is a list if a second item follows
        elif rank == 2:
            doubts.pop(name, None)
        last[name] = rank
        spans.append(found.span(group))
    return [span for at, span in enumerate(spans) if at not in doubts.values()]


def _counts(text: str, at: int) -> bool:
    """Whether what follows says what a number counts: it is no marker then."""
    found = _FOLLOWS.match(text, at)
    if found is None:
        return text[at : at + 1] == UNREADABLE
    if symbol := found["symbol"]:
        return symbol == "%" or unicodedata.category(symbol) == "Sc"
    word = found["word"]
    return word in UNITS or word in CURRENCIES or word in PERCENT or word in SHORT
