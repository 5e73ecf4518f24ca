"""What sources hold, indexed once, and whether it holds a claim."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Self

from loom_ia.policies.grounded.dates import language, weekday
from loom_ia.policies.grounded.fold import fold
from loom_ia.policies.grounded.matrix import HELD_BY
from loom_ia.policies.grounded.values import (
    Amount,
    Claim,
    Count,
    Day,
    Email,
    Iban,
    Percentage,
    Phone,
    Quantity,
    Reference,
    Relative,
    Time,
    Unnamed,
    Value,
)
from loom_ia.policies.grounded.walk import Leaf, leaf_claims, leaves, parsed

_PARTS: Final = 9
"""How many of the last parts of a reference its endings may have."""

_SAME: Final[dict[type[object], str]] = {
    Day: "day",
    Time: "time",
    Relative: "relative",
    Email: "email",
    Phone: "phone",
    Iban: "iban",
}
"""What is only held by its like."""
_NUMBERED: Final = (Count, Percentage, Quantity)
_Facts = dict[str, dict[object, set[str | None]]]


@dataclass(frozen=True, slots=True)
class Sources:
    """What is known: claims are held against it.

    `Sources.of` reads everything once; `a | b` holds what either does, and costs nothing.
    """

    parts: tuple[_Facts, ...] = ()

    @classmethod
    def of(cls, texts: Iterable[str] = (), values: Iterable[object] = ()) -> Self:
        """Index texts and JSON values: their numbers, their texts and their keys.

        A text that is JSON, as the result of a tool may be, is read as the value that it writes.
        A text of the sources has one reading where one is likelier: the day first in a date unless
        the sources are in English, and the thousands in `1.840 €`.
        """
        found = [leaf for text in texts for leaf in leaves(parsed(text))]
        found += [leaf for value in values for leaf in leaves(value)]
        spoken = language(fold(" ".join(_texts(found))).text)
        facts: _Facts = {}
        for leaf in found:
            for claim in leaf_claims(leaf, spoken, sourced=True):
                for value in _likeliest(claim, leaf):
                    _add(facts, value)
        return cls((facts,))

    def __or__(self, other: "Sources") -> "Sources":
        return Sources(self.parts + other.parts)

    def holds(self, claim: Claim) -> bool:
        """Whether a reading of `claim` is here; one that cannot be read never is."""
        return any(_held(facts, value) for value in claim.value for facts in self.parts)


def _texts(found: Iterable[Leaf]) -> Iterator[str]:
    for leaf in found:
        if isinstance(leaf.value, str):
            yield leaf.value.replace("_", " ") if leaf.key else leaf.value


def _likeliest(claim: Claim, leaf: Leaf) -> Iterator[Value]:
    first = claim.value[0] if claim.value else None
    year = claim.kind == "date" and isinstance(first, Day)
    doubtful = (
        len({abs(one.number) for one in claim.value if isinstance(one, _NUMBERED)})
        == 1
        < len(claim.value)
    )
    for value in claim.value:
        if isinstance(value, Amount) and isinstance(first, Amount) and value.number != first.number:
            continue
        if isinstance(value, Count | Percentage | Quantity) and value.number < 0 and doubtful:
            continue
        if year and isinstance(value, Count) and claim.text != str(leaf.value).strip():
            continue  # `en 2026` says a year
        yield value


def _add(facts: _Facts, value: Value) -> None:
    form, key, said = _form(value)
    if isinstance(value, Day):
        for part in _parts(value):
            facts.setdefault("day", {}).setdefault(part, set()).add(None)
        return
    form = {"unnamed": "number", "cued": "reference"}.get(form, form)
    facts.setdefault(form, {}).setdefault(key, set()).update(said)
    if isinstance(value, Count) and value.digits and not value.things:
        facts.setdefault("digits", {}).setdefault(value.digits, set()).add(None)
    if isinstance(value, Unnamed) and value.number == value.number.to_integral_value():
        facts.setdefault("digits", {}).setdefault(f"{value.number:f}", set()).add(None)
    if isinstance(value, Reference):
        for ending in _endings(value):
            facts.setdefault("ending", {}).setdefault(ending, set()).add(None)


def _held(facts: _Facts, value: Value) -> bool:
    form, key, said = _form(value)
    for by in HELD_BY[form]:
        known = facts.get(by, {}).get(key)
        if known is not None and _agree(form, by, said, known):
            return True
    return False


def _agree(form: str, by: str, said: Iterable[str | None], known: set[str | None]) -> bool:
    """Whether what both say beside the number is the same: a currency, a unit, a thing."""
    if form in {"amount", "unnamed"} and by in {"amount", "number"}:
        return None in said or None in known or not known.isdisjoint(said)
    if form == by == "quantity":
        return not known.isdisjoint(said)
    if form == by == "count":
        return "*" in said or "*" in known or not known.isdisjoint(said)
    return True


def _form(value: Value) -> tuple[str, object, tuple[str | None, ...]]:
    """Give the form of a value, what it is found by, and what it says beside."""
    match value:
        case Amount():
            return "amount", value.number, (value.currency,)
        case Percentage():
            return "percentage", value.number, (None,)
        case Quantity():
            return "quantity", value.number, (value.unit,)
        case Count():
            return "count" if value.things else "number", value.number, (*value.things,) or (None,)
        case Unnamed():
            return "unnamed", value.number, (value.currency,)
        case Reference():
            return "cued" if value.cued else "reference", value.text, (None,)
        case _:
            return _SAME[type(value)], value, (None,)


def _parts(day: Day) -> Iterator[Day]:
    """Give every date that is said when `day` is, such as the same without its year."""
    whole = weekday(day)
    for mask in range(1, 16):
        yield Day(
            whole.year if mask & 1 else None,
            whole.month if mask & 2 else None,
            whole.day if mask & 4 else None,
            whole.weekday if mask & 8 else None,
        )


def _endings(reference: Reference) -> Iterator[str]:
    if not reference.cued and reference.text.replace("-", "").isdigit():
        return
    parts = reference.text.split("-")[-_PARTS:]
    for at in range(1, len(parts)):
        yield "-".join(parts[at:])
