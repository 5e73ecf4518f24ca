"""The names of tools that come from a source, as models see them.

Law. A name depends on the prefix and on the source's own name alone: not on the other tools, nor on
when it is asked for. So it is the same after a restart, and can be known before the source is.
"""

import re
from typing import Final

from loom_ia.core.json import digest

LONGEST_NAME: Final = 64
SEPARATOR: Final = "__"
"""Stands between a prefix and a name; no prefix holds it."""

_ILLEGAL: Final = re.compile(r"[^A-Za-z0-9_-]")
_MARK: Final = 8


def shown_name(prefix: str, own: str) -> str:
    """Give the name under which models see the tool `own` of the source `prefix`.

    One that no provider takes is made legal: other characters become `_`, it is cut at its end, and
    a mark made of the whole name keeps it apart from those that look like it.
    """
    whole = f"{prefix}{SEPARATOR}{own}"
    legal = _ILLEGAL.sub("_", whole)
    if legal == whole and own and len(whole) <= LONGEST_NAME:
        return whole
    return f"{legal[: LONGEST_NAME - _MARK - 1]}_{digest(whole)[:_MARK]}"


def prefix_of(name: str) -> str:
    """Give the prefix of a name that models see; empty when it has none."""
    prefix, separator, _ = name.partition(SEPARATOR)
    return prefix if separator else ""
