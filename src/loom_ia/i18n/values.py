"""Numbers and dates, as the reader writes them. Instants are always shown in UTC."""

from datetime import datetime
from typing import Final

from loom_ia.i18n.language import Language, current

_THOUSANDS: Final[dict[Language, str]] = {"en": ",", "fr": "\N{NARROW NO-BREAK SPACE}"}
_DAYS: Final[dict[Language, str]] = {"en": "%Y-%m-%d", "fr": "%d/%m/%Y"}


def count(number: int, *, estimated: bool = False) -> str:
    """Write a number of things: `12,345`, in French with a narrow space; `≈12,345` if estimated."""
    written = f"{number:,}".replace(",", _THOUSANDS[current()])
    return f"≈{written}" if estimated else written


def day(instant: datetime) -> str:
    """Write a day: `2026-11-30`, and in French `30/11/2026`."""
    return instant.strftime(_DAYS[current()])


def moment(instant: datetime) -> str:
    """Write a day and a time of the day, to the second."""
    return f"{day(instant)} {instant:%H:%M:%S}"
