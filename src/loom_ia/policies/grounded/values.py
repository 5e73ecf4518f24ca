"""What a claim may say. A value is plain data: equal values are the same claim."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Literal, TypeAlias, get_args

Kind: TypeAlias = Literal[
    "amount", "percentage", "date", "reference", "email", "phone", "iban", "number"
]
ALL: Final[frozenset[Kind]] = frozenset(get_args(Kind))


@dataclass(frozen=True, slots=True)
class Amount:
    """Money; `currency` is an ISO 4217 code, a symbol that has none, or None when unsaid."""

    number: Decimal
    currency: str | None = None


@dataclass(frozen=True, slots=True)
class Percentage:
    """`number` hundredths: 10 for 10 %."""

    number: Decimal


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number of a known unit; hours, minutes and seconds are all counted in minutes."""

    number: Decimal
    unit: str


@dataclass(frozen=True, slots=True)
class Count:
    """A number of `things` (stems of the words that follow), or a bare number without any."""

    number: Decimal
    things: frozenset[str] = frozenset()
    digits: str = ""
    """The digits as written, when there are only digits: `042` is not `42` in a reference."""


@dataclass(frozen=True, slots=True)
class Unnamed:
    """A number of JSON whose name says nothing; `currency` is the one that its object states."""

    number: Decimal
    currency: str | None = None


@dataclass(frozen=True, slots=True)
class Day:
    """A date, as far as it is said; `weekday` is 0 on Monday."""

    year: int | None = None
    month: int | None = None
    day: int | None = None
    weekday: int | None = None


@dataclass(frozen=True, slots=True)
class Time:
    """A time of day."""

    hour: int
    minute: int


@dataclass(frozen=True, slots=True)
class Relative:
    """A date told from today, under one name in both languages: `tomorrow`."""

    name: str


@dataclass(frozen=True, slots=True)
class Reference:
    """A name with digits, in capitals, its separators written `-`.

    `cued` when a word such as `n°` or `devis` announces it: it may then be the end of a longer one.
    """

    text: str
    cued: bool = False


@dataclass(frozen=True, slots=True)
class Email:
    """An address, in small letters."""

    address: str


@dataclass(frozen=True, slots=True)
class Phone:
    """A number with its country: `+33612345678`."""

    digits: str


@dataclass(frozen=True, slots=True)
class Iban:
    """An IBAN in capitals, without spaces."""

    text: str


Value: TypeAlias = (
    Amount
    | Percentage
    | Quantity
    | Count
    | Unnamed
    | Day
    | Time
    | Relative
    | Reference
    | Email
    | Phone
    | Iban
)


@dataclass(frozen=True, slots=True)
class Claim:
    """What a text says at `text[start:end]`, offsets in characters.

    `value` holds every reading: one, several when the writing is ambiguous (`1.840`), none when it
    stands where a claim does and cannot be read.
    """

    kind: Kind
    text: str
    start: int
    end: int
    value: tuple[Value, ...]
