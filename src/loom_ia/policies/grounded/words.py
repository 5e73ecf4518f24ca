"""Numbers written in words, in French and in English."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Final


def _from(start: int, words: str) -> dict[str, int]:
    return {word: number for number, word in enumerate(words.split(), start=start)}


_UNITS: Final = {
    **_from(0, "zero un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze"),
    **_from(15, "quinze seize"),
    **_from(0, "zero one two three four five six seven eight nine ten eleven twelve thirteen"),
    **_from(14, "fourteen fifteen sixteen seventeen eighteen nineteen"),
    "une": 1,
}
_TENS: Final = {
    "vingt": 20, "vingts": 20, "trente": 30, "quarante": 40, "cinquante": 50, "soixante": 60,
    "septante": 70, "huitante": 80, "octante": 80, "nonante": 90, "twenty": 20, "thirty": 30,
    "forty": 40, "fourty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80,
    "ninety": 90,
}  # fmt: skip
_HUNDREDS: Final = frozenset({"cent", "cents", "hundred", "hundreds"})
SCALES: Final = {
    "mille": 10**3, "mil": 10**3, "millier": 10**3, "milliers": 10**3, "thousand": 10**3,
    "thousands": 10**3, "million": 10**6, "millions": 10**6, "milliard": 10**9,
    "milliards": 10**9, "billion": 10**9, "billions": 10**9,
}  # fmt: skip
_LOTS: Final = {
    "huitaine": 8, "dizaine": 10, "dizaines": 10, "douzaine": 12, "douzaines": 12, "dozen": 12,
    "dozens": 12, "couple": 2, "quinzaine": 15, "vingtaine": 20, "trentaine": 30, "quarantaine": 40,
    "cinquantaine": 50, "soixantaine": 60, "centaine": 100, "centaines": 100,
}  # fmt: skip
_UNITS.update({f"{word}s": number for word, number in _UNITS.items() if number > 1})
"""`quatres` is a fault of spelling, and a number all the same."""
NUMBER_WORDS: Final = frozenset({*_UNITS, *_TENS, *_HUNDREDS, *SCALES, *_LOTS})
JOINED: Final = re.compile(f"(?:{'|'.join(sorted(NUMBER_WORDS, key=len, reverse=True))}){{2,6}}")
"""Number words written as one."""
FRENCH_UNITS: Final = frozenset(["deux", "trois", "quatre", "cinq", "sept", "huit", "neuf"])
_LEADS: Final = frozenset(["a", "an"])
_LONGEST: Final = 32

_WORD: Final = re.compile(r"[a-z]{1,20}(?![a-z])")
_GAP: Final = re.compile(r"[ -]{1,3}|\n(?! ?\n)")
_POINT: Final = re.compile(r" (?:virgule|point) ")
_ONES: Final = frozenset({"un", "une", "onze"})


@dataclass(frozen=True, slots=True)
class Spelt:
    """A number in words that ends at `end`; `words` are those it is made of."""

    number: Decimal
    end: int
    words: tuple[str, ...]


def spelt(text: str, start: int) -> Spelt | None:
    """Read the number in words that starts at `start` of a folded text, if one does."""
    sum_ = _Sum()
    words: list[str] = []
    end = start
    for word, after in _words(text, start):
        if word in {"et", "and"} or (word in _LEADS and not words):
            words.append(word)  # a link counts when a number follows it
            continue
        if words and words[-1] == "et" and word not in _ONES:
            break
        if words and words[-1] == "and" and sum_.floor > 1000:
            break
        if not sum_.add(word):
            break
        words.append(word)
        end = after
    if end == start:
        return None
    while words[-1] in {"et", "and"}:
        words.pop()
    if words[0] in _LEADS and words[1] not in _HUNDREDS | SCALES.keys() | _LOTS.keys():
        return None
    return _decimals(text, Spelt(Decimal(sum_.total + sum_.current), end, tuple(words)))


def _decimals(text: str, whole: Spelt) -> Spelt:
    point = _POINT.match(text, whole.end)
    if point is None:
        return whole
    zeros, at = "", point.end()
    while text.startswith("zero ", at) and len(zeros) < 6:
        zeros, at = zeros + "0", at + 5
    sum_, end = _Sum(), at
    digits = ""
    for word, after in _words(text, at):
        if not sum_.add(word):
            if word not in _UNITS or not 0 <= _UNITS[word] <= 9 or len(digits) > 12:
                break
            digits += str(sum_.total + sum_.current)  # `point two five`: digit by digit
            sum_ = _Sum()
            sum_.add(word)
        end = after
    if end == at:
        return whole
    number = Decimal(f"{whole.number}.{zeros}{digits}{sum_.total + sum_.current}")
    return Spelt(number, end, (*whole.words, "point"))


def _words(text: str, start: int) -> Iterator[tuple[str, int]]:
    """Give the words from `start`, a space or a hyphen apart, and where each one ends."""
    at = start
    for _ in range(_LONGEST):
        word = _WORD.match(text, at)
        if word is None:
            return
        yield word[0], word.end()
        gap = _GAP.match(text, word.end())
        if gap is None:
            return
        at = gap.end()


class _Sum:
    """A number that is being read: `floor` is what the next word must stay under."""

    def __init__(self) -> None:
        self.total = 0
        self.current = 0
        self.floor = 10**15
        self.scale = 10**15
        self.last = ""

    def add(self, word: str) -> bool:
        """Take one more word; False when it belongs to another number."""
        known = self._take(word)
        if known:
            self.last = word
        return known

    def _take(self, word: str) -> bool:
        if word in _UNITS:
            return self._small(_UNITS[word], 0)
        if word in _TENS:
            if _TENS[word] == 20 and _UNITS.get(self.last) == 4 and self.last == "quatre":
                self.current += 76
                self.floor = 20
                return True
            return self._small(_TENS[word], 20 if _TENS[word] in (60, 80) else 10)
        if word in _HUNDREDS:
            return self._hundred()
        if word in SCALES:
            return self._scale(SCALES[word])
        return word in _LOTS and self._lot(_LOTS[word])

    def _small(self, value: int, floor: int) -> bool:
        teen = self.last == "dix" and 7 <= value <= 9
        if (value >= self.floor and not teen) or (value == 0 and self.last):
            return False
        self.current += value
        self.floor = floor
        return True

    def _hundred(self) -> bool:
        if 0 < self.current < 100:
            self.current *= 100
        elif self.current == 0 and self.floor > 100:
            self.current = 100
        else:
            return False
        self.floor = 100
        return True

    def _scale(self, scale: int) -> bool:
        if self.last and self.current == 0:
            if self.total == 0 or scale <= self.scale:
                return False
            self.total *= scale  # a thousand billions
        elif scale >= self.scale:
            return False
        else:
            self.total += (self.current or 1) * scale
        self.current = 0
        self.floor = self.scale = scale
        return True

    def _lot(self, size: int) -> bool:
        if self.total or self.current >= 10:
            return False
        self.current = (self.current or 1) * size
        self.floor = 0
        return True
