"""Which kind of fact holds which kind of claim."""

from collections.abc import Mapping
from typing import Final

HELD_BY: Final[Mapping[str, tuple[str, ...]]] = {
    "amount": ("amount", "number"),
    "percentage": ("percentage", "number"),
    "quantity": ("quantity", "number"),
    "count": ("count", "number"),
    "number": ("number", "count", "amount"),
    "unnamed": ("number", "count", "amount", "quantity", "percentage"),
    "day": ("day",),
    "time": ("time",),
    "relative": ("relative",),
    "reference": ("reference", "digits"),
    "cued": ("reference", "digits", "ending"),
    "email": ("email",),
    "phone": ("phone",),
    "iban": ("iban",),
}
"""For each form of claim, the forms of fact that hold it when their values are equal.

An `amount` is money, a `quantity` has a unit that is known (15 days), a `count` counts things that
are not (15 radiators), and a `number` counts nothing that is said. `unnamed` is a number of JSON
whose name says nothing. `cued` is a reference that a word announces (`devis 042`), `ending` the
end of a longer one, and `digits` a number that is only digits. Money in two currencies differs,
and so do quantities of two units and counts of two things.
"""
