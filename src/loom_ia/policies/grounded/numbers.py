"""Every number that is left, in digits or in words, and what it says."""

import re
import unicodedata
from collections.abc import Callable
from decimal import Decimal
from typing import Final

from loom_ia.policies.grounded import dates
from loom_ia.policies.grounded.digits import digits, split
from loom_ia.policies.grounded.fold import UNREADABLE, Folded
from loom_ia.policies.grounded.lexicon import (
    ANYTHING,
    ARTICLE_UNITS,
    ARTICLES,
    BEFORE_DAY,
    CITED,
    CODES,
    CUES,
    CURRENCIES,
    LONE_MONTHS,
    MINUTES,
    MONEY,
    MONTH_CUES,
    MONTHS,
    NAMED,
    ORDINAL_ENDS,
    ORDINALS,
    SHORT,
    STOPWORDS,
    SYNONYMS,
    WEEKDAYS,
    YEAR_CUES,
)
from loom_ia.policies.grounded.suffix import Suffix, part, suffix, year_at
from loom_ia.policies.grounded.values import (
    Amount,
    Count,
    Day,
    Kind,
    Percentage,
    Quantity,
    Reference,
    Time,
    Value,
)
from loom_ia.policies.grounded.words import FRENCH_UNITS, JOINED, NUMBER_WORDS, SCALES, Spelt, spelt

_LETTERS: Final = re.compile(r"[a-z]{1,40}")
_TOKEN: Final = re.compile(r"[^\W_]{1,60}(?:(?:[-/_]|\.(?=\w))[^\W_]{1,60}){0,8}")
_RANGE: Final = re.compile(r" ?(?:-|/|(?<= )(?:a|to|ou|or) ) ?")
_LIST: Final = re.compile(r" ?, ?| ?& ?| (?:et|and|et le|and the) ")
_CUE: Final = re.compile(rf"(?:(?<![^\W_])(?:{CUES}) ?(?:n°|no\.?|num\.?|#|:)? ?[:.]? ?|[#°] ?)\Z")
_ODD: Final = re.compile(
    r" {0,2}(?:[^\w\s(/\-×\x00]{1,3}|_)(?<![€$£%])(?=\d{3}(?!\d))|[^\w\s(/\-.,×€$£%\x00](?=\d)"
)
"""What may stand between two parts of a number that is written to mislead: `1·840`."""
_WORDS: Final = re.compile(r"[a-z]{1,30}")
_NEXT: Final = re.compile(r"[ '-]{1,2}(?P<word>[^\W\d_]{1,40})")
_ORDINAL: Final = re.compile(r"(?P<end>[a-z]{1,5})(?![\w])")
_OF_MONTH: Final = re.compile(r"[ ,]{1,2}(?:of |de )?(?:the )?(?P<month>[a-z]{3,9})(?!\w)")
_MONTH_DAY: Final = re.compile(
    r"\.?[ ](?:the |le )?(?P<day>\d{1,2})(?P<end>st|nd|rd|th)?(?![\w]|[.,:/]\d| ?[€$£%])"
)
_MORE_MINUTES: Final = re.compile(r" (?P<digits>[0-5]?\d)(?![\w]|[.,:/-]\d| ?[€$£%])")
_AFTER_CENTS: Final = re.compile(r" ?(?P<cents>\d\d)(?=[\s.,;:!?)]*(?:\n|\Z|[.,;:!?)](?!\d)| ))")
_AND: Final = re.compile(r" (?:et|and)? ?")
_FRACTION: Final = re.compile(
    r"(?:(?P<half>la moitie|(?:a|le) demi[ -]tarif|half of|half the|half[ -]price)"
    r"|(?P<rank>le|un|deux|one|two|a) (?P<third>tiers|thirds?)(?= (?:de|du|des|d'|of))"
    r"|(?P<count>le|un|trois|a|one|three) (?:quarts?|quarters?)(?= (?:de|du|des|d'|of)))(?!\w)"
)
_AGAIN: Final = re.compile(r" ?\( ?")
_AND_A_HALF: Final = re.compile(r" (?:et demie?|and a half)(?!\w)")
_DIGIT: Final = re.compile(r"\d")
_NEW: Final = frozenset(["remis", "etat", "flambant", "tout", "comme", "quoi"])
_LOOK_BACK: Final = 80

Found = tuple[Kind, int, int, tuple[Value, ...]]


class Numbers:
    """Reads a page from its start to its end; `claims` is what it found."""

    def __init__(self, source: str, folded: Folded, text: str, joined: bool) -> None:
        self.source = source
        self.folded = folded
        self.text = text
        self.joined = joined
        self.claims: list[Found] = []
        self.done = 0  # where the last claim ended
        self.priced: tuple[str, int] | None = None  # the currency that stood before it

    def run(self) -> None:
        """Read everything."""
        at, size = 0, len(self.text)
        while at < size:
            char = self.text[at]
            if char.isdigit():
                at = self._digits(at)
            elif char == UNREADABLE:
                at = self._unreadable(at)
            elif char.isalpha():
                at = self._word(at)
            elif char == "%" or unicodedata.category(char) == "Sc":
                at = self._symbol(at)
            else:
                at += 1

    # ── What a claim is added as ────────────────────────────────────────────────────────────

    def _add(self, kind: Kind, start: int, end: int, values: tuple[Value, ...]) -> int:
        self.claims.append((kind, start, end, values))
        self.done = end
        return end

    def _unreadable(self, at: int) -> int:
        end = at
        while end < len(self.text) and self.text[end] == UNREADABLE:
            end += 1
        found = suffix(self.text, end)
        kind: Kind = {"amount": "amount", "percent": "percentage"}.get(found.form, "number")  # type: ignore[assignment]
        return self._add(kind, at, max(end, found.end if found.form else end), ())

    # ── Digits ──────────────────────────────────────────────────────────────────────────────

    def _digits(self, start: int, prefix: tuple[str, int] | None = None) -> int:
        """Read the number at `start`; `prefix` is the currency before it, and where that starts."""
        text = self.text
        number = digits(text, start)
        end = number.end
        glued = text[end : end + 1]
        begin = prefix[1] if prefix else start
        if not number.readings:
            return self._tangled(begin, start, end, prefix)
        if glued.isalpha() or glued == "_":
            return self._glued(begin, start, number.readings, number.plain, end, prefix)
        if number.plain and glued and glued in "-/" and text[end + 1 : end + 2].isalnum():
            if (stop := self._dashed(begin, start, number.plain, end, prefix)) is not None:
                return stop
        elif _ODD.match(text, end):
            return self._tangled(begin, start, self._token_end(end), prefix)
        last = split(text, end)
        if last > end and (stop := self._cut_up(begin, start, last, prefix)) is not None:
            return stop
        return self._finish(begin, start, end, number.readings, number.plain, prefix)

    def _token_end(self, at: int) -> int:
        while at < len(self.text):
            odd = _ODD.match(self.text, at)
            if odd is None and not self.text[at].isalnum():
                break
            at = odd.end() if odd else at + 1
        return at

    def _tangled(self, begin: int, start: int, end: int, prefix: tuple[str, int] | None) -> int:
        """Digits in no known order: a version or a name, and an unreadable amount beside money."""
        found = suffix(self.text, end, prefix is not None)
        if prefix or found.form in {"amount", "cents"}:
            return self._add("amount", begin, found.end if found.form else end, ())
        if found.form == "percent":
            return self._add("percentage", start, found.end, ())
        if found.form == "unit":
            return self._add("number", start, found.end, ())
        return self._add("reference", start, end, (self._reference(start, end),))

    def _cut_up(
        self, begin: int, start: int, end: int, prefix: tuple[str, int] | None
    ) -> int | None:
        """`1 8 4 0 €`, and long names written in groups."""
        written = self.text[start:end].replace(" ", "").replace("'", "")
        if written.isdigit() and len(written) >= 9:
            found = suffix(self.text, end)
            if found.form in {"", "tax"}:
                country = self.text[max(0, start - 3) : start].strip().upper()
                whole = Reference(country + written, cued=True)
                values = (Reference(written, cued=True), whole)
                return self._add("reference", start, end, values)
        found = suffix(self.text, end, prefix is not None)
        if self.joined and found.form in {"amount", "percent"} and not found.month:
            kind: Kind = "amount" if found.form == "amount" else "percentage"
            return self._add(kind, begin, found.end, ())
        return None

    def _reference(self, start: int, end: int, cued: bool = False) -> Reference:
        written = self.text[start:end].upper().replace("/", "-").replace("_", "-")
        return Reference(written.replace(".", "-"), cued)

    def _glued(
        self,
        begin: int,
        start: int,
        readings: tuple[Decimal, ...],
        plain: str,
        end: int,
        prefix: tuple[str, int] | None,
    ) -> int:
        """`15j`, `12th`, `1840eur`, `3x200`, or a name such as `3G1`."""
        text = self.text
        ordinal = _ORDINAL.match(text, end)
        if ordinal and ordinal["end"] in ORDINAL_ENDS and plain:
            return self._ordinal(start, ordinal.end(), int(plain), ordinal["end"])
        if text[end] == "x" and text[end + 1 : end + 2].isdigit():
            return self._finish(begin, start, end, readings, plain, prefix)
        found = suffix(text, end, prefix is not None)
        if found.form and found.form != "month" and found.end > end:
            return self._finish(begin, start, end, readings, plain, prefix)
        if found.times != 1 and not text[found.end : found.end + 1].isalnum():
            return self._finish(begin, start, end, readings, plain, prefix)
        if text[end] == "x" and not text[end + 1 : end + 2].isalnum():
            return self._finish(begin, start, end, readings, plain, prefix)
        token = _TOKEN.match(text, start)
        return self._name(begin, start, max(end, token.end() if token else end), prefix)

    def _name(self, begin: int, start: int, end: int, prefix: tuple[str, int] | None) -> int:
        """Add a name with digits; beside a currency, a number that cannot be read."""
        while self.text[end : end + 1].isalnum():
            end += 1
        found = suffix(self.text, end, prefix is not None)
        if prefix or found.form in {"amount", "cents"}:
            return self._add("amount", begin, max(end, found.end if found.form else end), ())
        if found.form == "percent":
            return self._add("percentage", start, found.end, ())
        written = self.text[start:end]
        if written in NAMED:
            return end
        value = self._reference(start, end, self._cued(start))
        first, _, rest = value.text.partition("-")
        if rest and first.lower() in CUES.split("|"):
            return self._add("reference", start, end, (value, Reference(rest, True)))
        return self._add("reference", start, end, (value,))

    def _dashed(
        self, begin: int, start: int, plain: str, end: int, prefix: tuple[str, int] | None
    ) -> int | None:
        """Digits with `-` or `/` inside: a range, or a reference."""
        text = self.text
        token = _TOKEN.match(text, start)
        stop = token.end() if token else end
        other = digits(text, end + 1) if text[end + 1].isdigit() else None
        if other is None:
            # `15-day`, or a name that goes on with letters
            named = suffix(text, end)
            if named.form:
                return None
            if text[end] == "/" or not any(char.isdigit() for char in text[end:stop]):
                return None
            return self._name(begin, start, stop, prefix)
        after = suffix(text, other.end, prefix is not None)
        after_word = text[other.end : other.end + 1]
        counted = prefix or after.form not in {"", "tax", "month"} or after.times != 1
        whole = not after_word.isalnum() or (counted and after.end > other.end)
        if whole and other.readings and after_word not in {"/", "_"}:
            if counted or (after.form == "month" and len(plain) <= 2):
                return None
            short = len(plain) <= 3 and len(other.plain) <= 3 and other.plain
            low = short and not plain.startswith("0") and int(plain) < int(other.plain)
            if low and text[end] == "-" and not self._cued(start):
                return None
        return self._name(begin, start, stop, prefix)

    def _cued(self, start: int) -> bool:
        """Whether a word such as `n°` or `devis` announces what starts at `start`."""
        window = self.text[max(0, start - 40) : start].rpartition("\n")[2]
        return _CUE.search(window) is not None

    # ── What a number says ──────────────────────────────────────────────────────────────────

    def _finish(
        self,
        begin: int,
        start: int,
        end: int,
        readings: tuple[Decimal, ...],
        plain: str,
        prefix: tuple[str, int] | None,
    ) -> int:
        found = suffix(self.text, end, prefix is not None)
        if not found.form and found.times == 1 and (again := _AGAIN.match(self.text, end)):
            found = self._repeated(again.end(), readings) or found
        if not prefix and not found.form and found.times == 1:
            prefix = self._carried(start)
            lent = self._lent(end, 0) if prefix is None else None
            if lent is not None:
                found = Suffix(
                    lent.form, end, lent.names, lent.times, lent.month, lent.year, lent.plus
                )
        numbers = tuple((one + found.plus) * found.times for one in readings)
        if found.form == "tax" or (not found.form and found.times != 1):
            end = max(end, found.end) if found.times != 1 else end
            plain = "" if found.times != 1 else plain
        if prefix or found.form == "amount":
            return self._amount(begin, end, numbers, prefix, found)
        handlers: dict[str, Callable[[], int]] = {
            "cents": lambda: self._cents(begin, found, numbers),
            "percent": lambda: self._percent(begin, found.end, numbers),
            "permille": lambda: self._percent(begin, found.end, tuple(n / 10 for n in numbers)),
            "unit": lambda: self._quantity(begin, start, found, numbers),
            "month": lambda: self._day(start, found, numbers),
        }
        if found.form in handlers:
            return handlers[found.form]()
        return self._bare(start, end, numbers, plain, found.form == "tax")

    def _repeated(self, start: int, readings: tuple[Decimal, ...]) -> Suffix | None:
        """Read what `15 (quinze) jours` counts."""
        words = spelt(self.text, start)
        if words is None or words.number not in readings:
            return None
        if self.text[words.end : words.end + 1] != ")":
            return None
        return suffix(self.text, words.end + 1)

    def _carried(self, start: int) -> tuple[str, int] | None:
        """Take the currency of `$100` in `$100 to 200`."""
        if self.priced is None:
            return None
        gap = self.text[self.priced[1] : start]
        return (self.priced[0], start) if len(gap) < 8 and _RANGE.fullmatch(gap) else None

    def _lent(self, end: int, depth: int) -> Suffix | None:
        """Read what the next number counts, in `100 à 200 €` and `12 et 13 mars`."""
        text = self.text
        link = _RANGE.match(text, end)
        listed = None if link else _LIST.match(text, end)
        at = link or listed
        if at is None or depth > 4:
            return None
        if text[at.end() : at.end() + 1].isdigit():
            number = digits(text, at.end())
            ready, after = bool(number.readings), number.end
        else:
            words = spelt(text, at.end())
            ready, after = words is not None, words.end if words else 0
        if not ready:
            return None
        ordinal = _ORDINAL.match(text, after)
        if ordinal and ordinal["end"] in ORDINAL_ENDS:
            after = ordinal.end()
        found = suffix(text, after)
        if not found.form:
            return self._lent(after, depth + 1)
        if found.form == "tax" or (listed and found.form != "month" and not self._between(end)):
            return None
        return found

    def _between(self, end: int) -> bool:
        window = self.text[max(0, end - 40) : end]
        return "entre " in window or "between " in window

    def _signed(self, begin: int, values: tuple[Decimal, ...]) -> tuple[Decimal, ...]:
        """Give the readings their sign: a dash may also be a bullet or a pause."""
        text, at = self.text, begin - 1
        while at >= 0 and text[at] == " " and begin - at < 3:
            at -= 1
        if at < 0 or text[at] != "-":
            return values
        spaced = begin - at > 1
        before = at - 1
        while before >= 0 and text[before] == " " and at - before < 3:
            before -= 1
        negative = tuple(-one for one in values)
        if before < 0 or text[before] == "\n":
            return values if spaced else negative
        if text[before].isalnum() or text[before] in "\x00€$£%":
            if spaced:
                return (*values, *negative) if before < at - 1 else values
            return negative if before < at - 1 else values
        return negative

    def _amount(
        self,
        begin: int,
        end: int,
        numbers: tuple[Decimal, ...],
        prefix: tuple[str, int] | None,
        found: Suffix,
    ) -> int:
        after = found.form == "amount"
        end = max(end, found.end) if after or found.times != 1 else end
        if found.form == "cents":
            found = Suffix("", end)
        names = found.names if after else ()
        if prefix and after and prefix[0] not in names:
            return self._add("amount", begin, end, ())
        names = names or ((prefix[0],) if prefix else ())
        cents, end = self._more_cents(end) if after else (Decimal(0), end)
        signed = self._signed(begin, tuple(one + cents for one in numbers))
        if names and len(readings := {abs(one) for one in signed}) > 1:
            # Money has no three decimals: `1,840 €` is 1840 only
            signed = tuple(one for one in signed if abs(one) == max(readings))
        values: tuple[Value, ...] = tuple(
            Quantity(one, name) if name == "lb" else Amount(one, name)
            for name in names
            for one in signed
        )
        self._add("amount", begin, end, values)
        self.priced = (prefix[0], end) if prefix and not after else None
        return end

    def _more_cents(self, end: int) -> tuple[Decimal, int]:
        """Read the `50` of `1 840 € 50` and of `12 euros et 50 centimes`."""
        text = self.text
        link = _AND.match(text, end)
        at = link.end() if link else end
        if text[at : at + 1].isdigit():
            number = digits(text, at)
            count, after = number.readings[0] if number.readings else Decimal(0), number.end
        elif words := spelt(text, at):
            count, after = words.number, words.end
        else:
            return Decimal(0), end
        named = suffix(text, after)
        if named.form == "cents" and 0 < count < 100:
            return count / 100, named.end
        found = _AFTER_CENTS.match(text, end)
        if found and named.form in {"", "tax"} and not self._things(found.end()):
            return Decimal(found["cents"]) / 100, found.end()
        return Decimal(0), end

    def _cents(self, begin: int, found: Suffix, numbers: tuple[Decimal, ...]) -> int:
        values = tuple(
            Amount(one / 100, name) for name in found.names for one in self._signed(begin, numbers)
        )
        return self._add("amount", begin, found.end, values)

    def _percent(self, begin: int, end: int, numbers: tuple[Decimal, ...]) -> int:
        values = tuple(Percentage(one) for one in self._signed(begin, numbers))
        return self._add("percentage", begin, max(end, begin + 1), values)

    def _quantity(self, begin: int, start: int, found: Suffix, numbers: tuple[Decimal, ...]) -> int:
        unit, end = found.names[0], max(found.end, start + 1)
        if unit == "second":
            signed = self._signed(begin, numbers)
            return self._add("number", begin, end, tuple(Quantity(n, unit) for n in signed))
        factor = MINUTES.get(unit)
        if factor is None:
            if unit == "fortnight":
                unit, numbers = "day", tuple(14 * one for one in numbers)
            signed = self._signed(begin, numbers)
            return self._add("number", begin, end, tuple(Quantity(n, unit) for n in signed))
        more, end = self._more_minutes(end) if unit == "hour" else (None, end)
        minutes = tuple(one * factor + (more or 0) for one in numbers)
        values: tuple[Value, ...] = tuple(Quantity(one, "minute") for one in minutes)
        one = minutes[0]
        if unit == "hour" and len(minutes) == 1 and one == int(one) and 0 <= one <= 24 * 60:
            clock = Time(int(one) // 60 % 24, int(one) % 60)
            values = dates.hours(self.text, (start, end), (clock,), values)
        return self._add("number", begin, end, values)

    def _more_minutes(self, end: int) -> tuple[Decimal | None, int]:
        """Read the `30` of `14 heures 30` and of `14 h 30`."""
        if found := _MORE_MINUTES.match(self.text, end):
            after = suffix(self.text, found.end())
            if after.form in {"", "tax"} or after.names == ("minute",):
                last = after.end if after.names else found.end()
                return Decimal(found["digits"]), last
        link = _AND.match(self.text, end)
        words = spelt(self.text, link.end()) if link else None
        if words and 0 < words.number < 60:
            after = suffix(self.text, words.end)
            if after.form in {"", "tax"} or after.names == ("minute",):
                return words.number, after.end if after.names else words.end
        return None, end

    def _day(self, start: int, found: Suffix, numbers: tuple[Decimal, ...]) -> int:
        number = numbers[0]
        end = max(found.end, start + 1)
        if number != int(number) or not 1 <= number <= 31:
            if 1900 <= number < 2100:
                return self._add("date", start, end, (Day(int(number), found.month),))
            return self._add("date", start, end, ())
        day = int(number)
        good = dates.valid(found.year, found.month, day)
        values = (Day(found.year, found.month, day),) if good else ()
        return self._add("date", start, end, values)

    # ── Numbers without a unit ──────────────────────────────────────────────────────────────

    def _bare(
        self, start: int, end: int, numbers: tuple[Decimal, ...], plain: str, taxed: bool
    ) -> int:
        numbers = self._signed(start, numbers)
        before = self._words_before(start)
        last = before[-1] if before else ""
        if taxed:
            return self._add("amount", start, end, tuple(Amount(one) for one in numbers))
        if plain and self._cued(start):
            name = Reference(plain, cued=True)
            return self._add("reference", start, end, (name,))
        if (len(plain) > 1 and plain.startswith("0")) or len(plain) > 15:
            return self._add("reference", start, end, (Reference(plain),))
        things = self._things(end)
        number = numbers[0]
        dated = (last in BEFORE_DAY or last in WEEKDAYS) and self._adjacent(start)
        if dated and not things and 1 <= number <= 31 and number == int(number):
            return self._add("date", start, end, (Day(day=int(number)),))
        counts: tuple[Value, ...] = tuple(Count(one, things, plain) for one in numbers)
        if len(plain) == 4 and 1900 <= int(plain) < 2100:
            kind: Kind = "date" if last in YEAR_CUES else "number"
            if kind == "date" or (not things and MONEY.isdisjoint(before)):
                return self._add(kind, start, end, (Day(int(plain)), *counts))
        if not things and not MONEY.isdisjoint(before):
            return self._add("amount", start, end, tuple(Amount(one) for one in numbers))
        return self._add("number", start, end, counts)

    def _adjacent(self, start: int) -> bool:
        return self.text[start - 1 : start] == " " and self.text[start - 2 : start - 1].isalpha()

    def _words_before(self, start: int) -> list[str]:
        """Find the six words before, in the same sentence."""
        window = self.text[max(0, start - _LOOK_BACK) : start]
        cut = max(window.rfind(mark) for mark in ("\n", ". ", "; ", "! ", "? ", "\x00"))
        return _WORDS.findall(window[cut + 1 :])[-6:]

    def _things(self, end: int) -> frozenset[str]:
        """Find the stems of the two words that say what is counted, if any does."""
        things: set[str] = set()
        at = end
        for _ in range(4):
            found = _NEXT.match(self.text, at)
            if found is None or len(things) == 2:
                break
            word, at = found["word"], found.end()
            if word in STOPWORDS:
                if things or word not in {"de", "d", "of", "des", "petits", "full"}:
                    break
                continue
            if word in NUMBER_WORDS and not things:
                break
            things.add(_stem(word))
        return frozenset(things)

    def _ordinal(self, start: int, end: int, number: int, ending: str) -> int:
        """Add a day if a month is near or `le` stands before; a rank claims nothing."""
        text = self.text
        if found := _OF_MONTH.match(text, end):
            month = MONTHS.get(found["month"])
            if month:
                year, stop = year_at(text, found.end())
                good = number <= 31 and dates.valid(year, month, number)
                return self._add("date", start, stop, (Day(year, month, number),) if good else ())
        lent = self._lent(end, 0)
        if lent is not None and lent.form == "month":
            return self._day(start, Suffix("month", end, month=lent.month, year=lent.year),
                             (Decimal(number),))  # fmt: skip
        counted = suffix(text, end)
        if counted.form == "unit":
            return self._quantity(start, start, counted, (Decimal(number),))
        if ending == "e" and number > 31:
            return self._add("amount", start, end, (Amount(Decimal(number), "EUR"),))
        before = self._words_before(start)
        last = before[-1] if before else ""
        if number > 99:
            return self._add("number", start, end, (Count(Decimal(number)),))
        dated = last in {"le", "du", "au", "the"} or last in WEEKDAYS
        if dated and 1 <= number <= 31 and not self._things(end):
            return self._add("date", start, end, (Day(day=number),))
        return end

    # ── Words ───────────────────────────────────────────────────────────────────────────────

    def _word(self, start: int) -> int:
        found = _LETTERS.match(self.text, start)
        if found is None or self.text[found.end() : found.end() + 1].isalnum():
            return self._mixed(start, found)
        word, end = found[0], found.end()
        if (stop := self._priced(start, word, end)) is not None:
            return stop
        token = _TOKEN.match(self.text, start)
        named = token and token.end() > end and self.text[end] != "."
        if token and named and _DIGIT.search(token[0]) and not self._loose(word, end):
            return self._name(start, start, token.end(), None)
        for reader in (self._fraction, self._spelt, self._month, self._weekday, self._rank):
            if (stop := reader(start, word, end)) is not None:
                return stop
        if JOINED.fullmatch(word):
            return self._unreadable_word(start, end)
        if word in CURRENCIES and self._orphan(start):
            return self._add("amount", self._orphan_start(start), end, ())
        return end

    def _unreadable_word(self, start: int, end: int) -> int:
        """`vingtdeux`: a number, but in no known writing."""
        found = suffix(self.text, end)
        kind: Kind = "amount" if found.form == "amount" else "number"
        return self._add(kind, start, found.end if found.form else end, ())

    def _loose(self, word: str, end: int) -> bool:
        """Whether the dash after `word` only links it to a number: `mi-2026`, `cinq-10`."""
        return self.text[end] == "-" and (word in NUMBER_WORDS or word in MONTHS)

    def _mixed(self, start: int, found: re.Match[str] | None) -> int:
        text = self.text
        if text[start] == "x" and text[start - 1 : start].isdigit():
            return start + 1  # `3x200`
        if found and found[0] in CODES - {"fr"} and text[found.end()].isdigit():
            return self._digits(found.end(), (CURRENCIES[found[0]], start))
        end = start
        while end < len(text) and text[end].isalnum():
            end += 1
        token = _TOKEN.match(text, start)
        end = max(end, token.end() if token else end)
        if any(char.isdigit() for char in text[start:end]):
            return self._name(start, start, end, None)
        if UNREADABLE in text[start:end]:
            return self._add("number", start, end, ())
        end = start
        while end < len(text) and text[end].isalnum():
            end += 1
        return end

    def _priced(self, start: int, word: str, end: int) -> int | None:
        """`EUR 1840`, `US$ 50`."""
        text = self.text
        code = CURRENCIES.get(word) if word in CODES else None
        at = end
        if word in {"us", "ca", "a", "c", "nz", "hk", "s"} and text[end : end + 1] == "$":
            code = {"us": "USD", "ca": "CAD", "c": "CAD", "a": "AUD"}.get(word, word.upper() + "$")
            at = end + 1
        if code is None:
            return None
        return self._after_currency(start, at, code)

    def _after_currency(self, start: int, at: int, code: str) -> int | None:
        text = self.text
        gap = at
        while text[gap : gap + 1] in {" ", "-", ":", "."} and gap - at < 2:
            gap += 1
        negative = "-" in text[at:gap]
        if text[gap : gap + 1].isdigit():
            stop = self._digits(gap, (code, start))
            if negative:
                self._negate()
            return stop
        words = spelt(text, gap)
        if words is not None and gap > at:
            return self._finish(start, gap, words.end, (words.number,), "", (code, start))
        return None

    def _negate(self) -> None:
        kind, start, end, values = self.claims[-1]
        turned = tuple(
            Amount(-one.number, one.currency) if isinstance(one, Amount) else one for one in values
        )
        self.claims[-1] = (kind, start, end, turned)

    def _symbol(self, start: int) -> int:
        """Read a currency or `%` with no number before it that could be read."""
        text, char = self.text, self.text[start]
        if char != "%":
            code = CURRENCIES.get(char, char)
            stop = self._after_currency(start, start + 1, code)
            if stop is not None:
                return stop
            after = _LETTERS.match(text, start + 1)
            if after and text[after.end() : after.end() + 1].isdigit():  # `€l84`
                return self._name(start, start + 1, after.end(), (code, start))
        if self._orphan(start):
            kind: Kind = "percentage" if char == "%" else "amount"
            return self._add(kind, self._orphan_start(start), start + 1, ())
        return start + 1

    def _orphan(self, start: int) -> bool:
        """Whether a word that is no number stands where the number of an amount does."""
        begin = self._orphan_start(start)
        if begin == start or begin < self.done:
            return False
        word = self.text[begin:start].rstrip(" -")
        for size in SHORT:
            if word == size:
                return self._orphan(begin)
        return word not in CITED and not word.endswith("'")

    def _orphan_start(self, start: int) -> int:
        text, at = self.text, start
        while at > 0 and text[at - 1] in " -" and start - at < 2:
            at -= 1
        end = at
        while at > 0 and text[at - 1].isalnum() and end - at < 40:
            at -= 1
        return at if at < end else start

    def _spelt(self, start: int, word: str, end: int) -> int | None:
        if word not in NUMBER_WORDS and word not in {"a", "an"}:
            return None
        if word in ARTICLES and self._is_article(start, word, end):
            return None
        words = spelt(self.text, start)
        if words is None:
            if word in {"a", "an"}:
                return self._finish(start, start, end, (Decimal(1),), "", None)
            return None
        if len(words.words) == 1 and self._other_meaning(start, word, end):
            return end
        return self._numbered(start, words)

    def _numbered(self, start: int, words: Spelt) -> int:
        text = self.text
        number, end = words.number, words.end
        if added := _AND_A_HALF.match(text, end):
            number += Decimal(SCALES.get(words.words[-1], 1)) / 2
            end = added.end()
        if words.words[-1] == "cents" and len(words.words) > 1:
            french = not FRENCH_UNITS.isdisjoint(words.words)
            named = suffix(text, end)
            if not french and named.form not in {"amount", "unit", "percent"}:
                values: tuple[Value, ...] = tuple(
                    Amount(number / 10000, name) for name in ("EUR", "USD")
                )
                return self._add("amount", start, end, (*values, Count(number)))
        if words.words in {("quinzaine",), ("huitaine",)}:
            found = suffix(text, end)
            if not found.form:
                return self._add("number", start, end, (Quantity(number, "day"),))
        return self._finish(start, start, end, (number,), "", None)

    def _is_article(self, start: int, word: str, end: int) -> bool:
        """Whether `un`, `a` or `one` counts nothing here."""
        text = self.text
        words = spelt(text, start)
        if words is not None and len(words.words) > 1:
            return False
        if word in {"a", "an"}:
            plain = self.source[self.folded.at[start]] in "aA"
            rate = self.done and self.done >= start - 1
            if not plain or rate or self._words_before(start)[-1:] in (["times"], ["once"]):
                return True
        found = _NEXT.match(text, end)
        after = found["word"] if found else ""
        if after in {"demi", "demie", "half", "quart", "quarter"}:
            return suffix(text, end).form != "unit"
        named = suffix(text, end)
        if named.form in {"percent", "month"}:
            return False
        return after not in ARTICLE_UNITS

    def _other_meaning(self, start: int, word: str, end: int) -> bool:
        """`neuf` that means new, `four` that is an oven, `tous deux`."""
        before = self._words_before(start)
        last = before[-1] if before else ""
        found = _NEXT.match(self.text, end)
        after = found["word"] if found else ""
        if word == "mille" and after in {"mercis", "merci", "excuses"}:
            return True
        if word == "couple":
            return after != "of"
        if word == "four":
            return last in {"le", "un", "du", "ce", "au", "votre", "mon", "son"}
        if word == "deux":
            return last in {"tous", "toutes"} or before[-2:] in (["tous", "les"], ["toutes", "les"])
        if word != "neuf" or suffix(self.text, end).form:
            return False
        if last in _NEW or (last == "a" and self._accented(start)):
            return True
        plural = after.endswith(("s", "x")) and after not in STOPWORDS
        noun = len(last) > 3 and last not in STOPWORDS and not last.endswith(("s", "x", "nt"))
        return noun and not plural

    def _accented(self, start: int) -> bool:
        return self.source[max(0, self.folded.at[start] - 2)] in "àÀ"

    def _fraction(self, start: int, word: str, end: int) -> int | None:
        if word in {"demi", "demie", "half"}:
            share = part(self.text, start)
            if share is not None:
                return self._quantity(start, start, share, (share.times,))
        if word not in {"la", "le", "half", "un", "deux", "one", "two", "a", "trois", "three"}:
            return None
        found = _FRACTION.match(self.text, start)
        if found is None or (found["count"] and suffix(self.text, end).form == "unit"):
            return None
        if found["half"]:
            return self._add("percentage", start, found.end(), (Percentage(Decimal(50)),))
        if found["third"]:
            count = 2 if found["rank"] in {"deux", "two"} else 1
            return self._add("number", start, found.end(), (Quantity(Decimal(count), "third"),))
        share = Decimal(75 if found["count"] in {"trois", "three"} else 25)
        return self._add("percentage", start, found.end(), (Percentage(share),))

    def _month(self, start: int, word: str, end: int) -> int | None:
        month = MONTHS.get(word)
        if month is None:
            return None
        text = self.text
        if found := _MONTH_DAY.match(text, end):
            day = int(found["day"])
            known = suffix(text, found.end())
            if known.form not in {"amount", "percent", "unit"} and 1 <= day <= 31:
                year, stop = year_at(text, found.end())
                good = dates.valid(year, month, day)
                return self._add("date", start, stop, (Day(year, month, day),) if good else ())
        if found := _OF_MONTH.match(text, end):  # `March first`
            rank = ORDINALS.get(found["month"])
            if rank:
                year, stop = year_at(text, found.end())
                good = dates.valid(year, month, rank)
                return self._add("date", start, stop, (Day(year, month, rank),) if good else ())
        year, stop = year_at(text, end + 1 if text[end : end + 2] in {". ", ".,"} else end)
        if year is not None:
            return self._add("date", start, stop, (Day(year, month),))
        before = self._words_before(start)
        if word in LONE_MONTHS or (word in {"may", "march"} and before[-1:] and
                                   before[-1] in MONTH_CUES and self._capital(start)):  # fmt: skip
            return self._add("date", start, end, (Day(None, month),))
        return None

    def _capital(self, start: int) -> bool:
        return self.source[self.folded.at[start]].isupper()

    def _weekday(self, start: int, word: str, end: int) -> int | None:
        if word not in WEEKDAYS:
            return None
        return self._add("date", start, end, (Day(weekday=WEEKDAYS[word]),))

    def _rank(self, start: int, word: str, end: int) -> int | None:
        """`le premier mars`, `the twelfth of March`."""
        rank = ORDINALS.get(word)
        found = _OF_MONTH.match(self.text, end) if rank else None
        month = MONTHS.get(found["month"]) if found else None
        if rank is None or found is None or month is None:
            return None
        year, stop = year_at(self.text, found.end())
        good = dates.valid(year, month, rank)
        return self._add("date", start, stop, (Day(year, month, rank),) if good else ())


def _stem(word: str) -> str:
    stem = word[:-1] if len(word) > 3 and word[-1] in "sx" else word
    stem = SYNONYMS.get(stem, SYNONYMS.get(word, stem))
    return "*" if stem in ANYTHING else stem
