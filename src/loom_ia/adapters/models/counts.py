"""Reading the numbers of tokens that a provider tells.

Law. A number that no answer can have counts as not told: a cost is made of these, and the journal
holds them.
"""

from collections.abc import Mapping
from typing import Any, Final

LARGEST: Final = 10**12


def count_of(value: object) -> int | None:
    """Give a whole number from 0 to `LARGEST`, also when it is written 5000.0 or "5000".

    None for anything else: it is as if nothing had been told.
    """
    if isinstance(value, str):
        is_number = value.isascii() and value.isdigit() and len(value) <= len(str(LARGEST))
        value = int(value) if is_number else None
    elif isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value <= LARGEST else None


def count(counts: Mapping[str, Any], name: str) -> int:
    """Give what stands under `name`; 0 when that is no count."""
    return count_of(counts.get(name)) or 0
