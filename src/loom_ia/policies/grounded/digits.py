"""Numbers written in digits, with every way of grouping them and of marking decimals."""

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

_SPACED: Final = re.compile(
    r"\d{1,3}(?:(?: {1,2}|')\d{3}(?!\d)){1,12}(?:[.,]\d{1,12}(?!\d))?(?![.,]?\d)"
)
_DOTTED: Final = re.compile(r"\d{1,3}(?:\.\d{3}(?!\d)){1,12}(?:,\d{1,12}(?!\d))?(?![.,]?\d)")
_COMMAED: Final = re.compile(r"\d{1,3}(?:,\d{3}(?!\d)){1,12}(?:\.\d{1,12}(?!\d))?(?![.,]?\d)")
_INDIAN: Final = re.compile(
    r"\d{1,2}(?:,\d{2}(?!\d)){1,6},\d{3}(?!\d)(?:\.\d{1,12}(?!\d))?(?![.,]?\d)"
)
_DECIMAL: Final = re.compile(r"\d{1,40}[.,]\d{1,40}(?![.,]?\d)")
_PLAIN: Final = re.compile(r"\d{1,40}(?!\d)")
_TANGLED: Final = re.compile(r"\d{1,60}(?:[.,]\d{1,60}){0,20}")
# Groups that no writing of one number allows: `1 8 4 0`.
_SPLIT: Final = re.compile(r"(?: {1,3}\d{1,12}(?![\d.,/:]\d)){1,12}")


@dataclass(frozen=True, slots=True)
class Digits:
    """A number in digits that ends at `end`: its readings, none when it cannot be read.

    `plain` are the digits when there is nothing else.
    """

    end: int
    readings: tuple[Decimal, ...]
    plain: str = ""


def digits(text: str, start: int) -> Digits:
    """Read the number whose first digit is at `start`."""
    for pattern, thousands, point in (
        (_SPACED, " '", ","),
        (_DOTTED, ".", ","),
        (_COMMAED, ",", "."),
        (_INDIAN, ",", "."),
    ):
        if found := pattern.match(text, start):
            return _grouped(found[0], thousands, point, found.end())
    if found := _DECIMAL.match(text, start):
        return Digits(found.end(), (Decimal(found[0].replace(",", ".")),))
    if (found := _PLAIN.match(text, start)) and not text.startswith((",", "."), found.end()):
        return Digits(found.end(), (Decimal(found[0]),), found[0])
    if found and not text[found.end() + 1 : found.end() + 2].isdigit():
        return Digits(found.end(), (Decimal(found[0]),), found[0])
    tangled = _TANGLED.match(text, start)
    end = tangled.end() if tangled else start + 1
    while text[end : end + 1].isdigit():
        end += 1
    return Digits(end, ())


def split(text: str, end: int) -> int:
    """Find where the digits end that follow `end` with only spaces between, or `end`."""
    found = _SPLIT.match(text, end)
    return found.end() if found else end


def _grouped(written: str, thousands: str, point: str, end: int) -> Digits:
    whole = "".join(char for char in written if char not in thousands).replace(",", ".")
    if point == "," and thousands == " '":
        return Digits(end, (Decimal(whole),))
    if point in written or written.count(thousands) > 1:
        return Digits(end, (Decimal(whole),))
    decimal = Decimal(written.replace(",", "."))
    if written.startswith("0"):
        return Digits(end, (decimal,))
    return Digits(end, (Decimal(whole), decimal))  # `1.840`
