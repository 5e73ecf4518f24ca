"""What the name of a number says of it, in the arguments of a call or the result of a tool."""

import math
import re
from decimal import Decimal
from typing import Final

from loom_ia.policies.grounded.fold import fold
from loom_ia.policies.grounded.lexicon import CURRENCIES, UNITS
from loom_ia.policies.grounded.sets import word_set
from loom_ia.policies.grounded.values import (
    Amount,
    Count,
    Day,
    Kind,
    Percentage,
    Phone,
    Quantity,
    Reference,
    Unnamed,
    Value,
)

MOST_DIGITS: Final = 400
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORDS: Final = re.compile(r"[a-z]{1,40}[23]?(?![a-z])|\d{1,40}")
_RATES: Final = frozenset(["taux", "rate", "ratio"])
_PERCENTAGES: Final = _RATES | frozenset(["pct", "percent", "percentage", "pourcentage"])
_NO_RATES: Final = word_set("horaire hourly daily journalier jour day hour heure change exchange")
_MONEY: Final = word_set("montant prix price amount cout cost acompte deposit tarif fee ht ttc")
_NAMES: Final = frozenset(["id", "ids", "ref", "reference", "numero", "siret", "siren"])
_PHONES: Final = frozenset(["phone", "telephone", "tel", "mobile", "portable"])
_COUNTS: Final = word_set("quantite quantity qty qte nb nbre nombre count age")
_CENTS: Final = frozenset(["cents", "centimes", "cent", "centime", "pence"])
CURRENCY_NAMES: Final = frozenset(["currency", "devise", "monnaie"])
UNIT_NAMES: Final = frozenset(["unit", "unite"])


def exact(number: float | Decimal) -> Decimal | None:
    """Return `number` as it is written, or None for what is none or has over 400 digits."""
    if isinstance(number, float):
        return Decimal(repr(number)) if math.isfinite(number) else None
    whole = Decimal(number)
    return whole if whole.is_finite() and abs(whole.adjusted()) <= MOST_DIGITS else None


def named(
    name: str, number: Decimal, currency: str | None = None, unit: str | None = None
) -> tuple[Kind, tuple[Value, ...]]:
    """Return what `number` says under `name`, and its kind.

    `currency` and `unit` are those that its object states for all its numbers.
    """
    words = _words(name)
    known = set(words)
    last = words[-1] if words else ""
    whole = number == number.to_integral_value()
    if known & _PERCENTAGES and not known & _NO_RATES:
        ratio = bool(known & _RATES) and abs(number) <= 1
        shares = (number, 100 * number) if ratio else (number,)
        return "percentage", tuple(Percentage(one) for one in shares)
    if last in _CENTS or (unit in _CENTS and (known & _MONEY or not known & _COUNTS)):
        return "amount", (Amount(number / 100, currency),)
    code = next((CURRENCIES[word] for word in words if word in CURRENCIES and len(word) > 2), None)
    if code or known & _MONEY:
        return "amount", (Amount(number, code or currency),)
    if known & _PHONES and whole:
        return "phone", (Phone(f"+{number:f}"),)
    if known & _NAMES and whole:
        return "reference", (Reference(f"{number:f}", cued=True),)
    if last in UNITS and last not in {"a", "d", "s", "t", "l", "p", "go", "min"}:
        return _measured(number, UNITS[last])
    if known & _COUNTS:
        if unit in UNITS:
            return _measured(number, UNITS[unit])
        return "number", (Count(number, frozenset({"*"})),)
    return "number", (Unnamed(number, currency),)


def _measured(number: Decimal, unit: str) -> tuple[Kind, tuple[Value, ...]]:
    if unit == "year" and 1900 <= number < 2100:
        return "date", (Day(int(number)), Unnamed(number))
    if unit == "hour":
        return "number", (Quantity(60 * number, "minute"),)
    return "number", (Quantity(number, unit),)


def _words(name: str) -> list[str]:
    return _WORDS.findall(fold(_CAMEL.sub(" ", name).replace("_", " ")).text)


def words(name: str) -> frozenset[str]:
    """Return the words of a name: `montantHT` and `montant_ht` have the same two."""
    return frozenset(_words(name))
