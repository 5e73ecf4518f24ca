"""The numbers that a text has, read as a French reader reads them."""

import re
from collections.abc import Iterable
from typing import Final

_SPACES: Final = "\u0020\u00a0\u202f"
_NUMBER: Final = re.compile(
    rf"""(?<![\w.,])
    (?P<sign>-?)
    (?P<whole> \d{{1,3}} (?: [{_SPACES}]\d{{3}} )+ (?!\d) | \d+ )
    (?: [.,] (?P<part>\d+) )?""",
    re.VERBOSE,
)


def numbers(texts: Iterable[str]) -> tuple[int | float, ...]:
    """Give each number once, in order: `1 250,50` is 1250.5, and `10.0` is 10."""
    found: dict[float, int | float] = {}
    for text in texts:
        for match in _NUMBER.finditer(text):
            whole = re.sub(rf"[{_SPACES}]", "", match["whole"])
            value = float(f"{match['sign']}{whole}.{match['part'] or 0}")
            found.setdefault(value, int(value) if value.is_integer() else value)
    return tuple(found.values())
