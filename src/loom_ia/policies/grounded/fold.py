"""One writing for what a reader sees as the same.

Small letters without accents, ASCII digits, one kind of space, of dash and of quote; what is
invisible, and the marks of HTML and Markdown, are gone. Each character remembers where it was.
"""

import html
import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from loom_ia.policies.grounded.sets import word_set

UNREADABLE: Final = "\ue000"
"""Stands for a numeral that is not a decimal digit, such as one of Chinese."""

_ENTITY: Final = re.compile(r"&(?:[A-Za-z]{2,12}|#\d{1,7}|#[xX][0-9A-Fa-f]{1,6});")
_SHOWN: Final = re.compile(r"(?i)href|src|alt|title|value|content|action|label|placeholder")
"""Attributes that a reader sees, or follows."""
_TAG: Final = re.compile(r"</?([A-Za-z]{1,20})(\s[^<>]{0,300})?/?>|<!--[^<>]{0,300}-->")
_INLINE: Final = word_set(
    "a abbr b bdi bdo big code del em font i ins kbd mark s small span strong sub sup tt u var wbr"
)
_FRACTIONS: Final = {"½": "5", "¼": "25", "¾": "75", "⅕": "2", "⅖": "4", "⅗": "6", "⅘": "8",
                     "⅛": "125", "⅜": "375", "⅝": "625", "⅞": "875"}  # fmt: skip
_QUOTES: Final = frozenset("\u2019\u2018\u02bc\u02b9\u2032\uff07\u00b4")
_BLANKS: Final = frozenset("\u115f\u1160\u3164\uffa0\u2800\u00a0\t\r\f\v")
_TURNED: Final = frozenset("\u202d\u202e")
"""What shows a text in another order than it is written."""
# Letters of other alphabets that are drawn as Latin ones.
_DRAWN: Final = dict(
    zip(
        "\u0430\u0432\u0435\u0456\u043a\u043c\u043d\u043e\u0440\u0441\u0442\u0443\u0445"
        "\u0455\u0458\u0501\u051b\u0261\u03b1\u03b5\u03b9\u03ba\u03bd\u03bf\u03c1\u03c4"
        "\u03c5\u03c7\u017f\u0131",
        "abeikmhopctyxsjdqgaeikvoptuxsi",
        strict=True,
    )
)


@dataclass(frozen=True, slots=True)
class Folded:
    """`text` is the folded writing; `text[i]` was `source[at[i]:to[i]]`."""

    text: str
    at: tuple[int, ...]
    to: tuple[int, ...]


def fold(text: str) -> Folded:
    """Fold `text`."""
    out: list[str] = []
    at: list[int] = []
    to: list[int] = []
    i, size = 0, len(text)
    while i < size:
        taken, written = _at(text, i, out[-1] if out else "")
        out += written
        at += [i] * len(written)
        i += taken
        to += [i] * len(written)
    return Folded("".join(out), tuple(at), tuple(to))


def _at(text: str, i: int, before: str) -> tuple[int, str]:
    """How many characters are read at `i`, and what they become."""
    char = text[i]
    if char == "&" and (entity := _ENTITY.match(text, i)):
        return len(entity[0]), "".join(_one(c, before) for c in html.unescape(entity[0]))
    if char == "<" and (tag := _TAG.match(text, i)):
        if tag[2] and _SHOWN.search(tag[2]):
            return 1, " "
        inline = tag[1] is None or tag[1].lower() in _INLINE
        return len(tag[0]), "" if inline else "\n"
    if char == "`":
        return 1, ""
    if char in "*_~\\":
        return _mark(text, i, before)
    return 1, _one(char, before)


def _mark(text: str, i: int, before: str) -> tuple[int, str]:
    char, after = text[i], text[i + 1 : i + 2]
    if char == "\\":
        if after and after in "nrt":
            return 2, "\n"
        return (2, " ") if after and after in ",;: " else (1, "")
    if after == char:
        return 2, ""
    if char == "~":
        return 1, " "
    between = before.isalnum() and after.isalnum()
    if char == "_":
        return 1, "_" if between else ""
    # One star between two digits is neither emphasis nor a way to write a number.
    return 1, "|" if between and before.isdigit() and after.isdigit() else ""


def _one(char: str, before: str) -> str:
    if char in _FRACTIONS:
        lead = "," if before.isdigit() else " 0," if before.isalpha() else "0,"
        return lead + _FRACTIONS[char]
    return _plain(char)


@lru_cache(maxsize=4096)
def _plain(char: str) -> str:
    if char == "\n" or char in "\u2028\u2029\x85":
        return "\n"
    if char in _BLANKS:
        return " "
    if char in _QUOTES:
        return "'"
    if char.isascii():
        return char.lower() if char.isprintable() else ""
    return _foreign(char)


def _foreign(char: str) -> str:
    if char in _TURNED:
        return UNREADABLE
    category = unicodedata.category(char)
    if category in {"Cf", "Cc", "Mn", "Me", "Cs"}:
        return ""
    if category == "Zs":
        return " "
    if category == "Pd" or char == "\u2212":
        return "-"
    decimal = unicodedata.decimal(char, None)
    if decimal is not None:
        return str(decimal)
    parts = unicodedata.normalize("NFKD", char)
    kept = "".join(c for c in parts if unicodedata.category(c) != "Mn").lower()
    if unicodedata.numeric(char, None) is not None and not kept.isascii():
        return UNREADABLE
    if kept.isascii() or parts != char:
        return "".join(_DRAWN.get(c, c) if not c.isspace() else " " for c in kept)
    return _DRAWN.get(kept, kept)
