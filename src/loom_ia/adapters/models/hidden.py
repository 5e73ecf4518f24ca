"""Hiding a key in what is kept or told, in whichever way somebody wrote it there."""

import json
import re
from typing import Final
from urllib.parse import quote

HIDDEN: Final = "***"

_SHORTEST_PIECE: Final = 8
_MASKED: Final = re.compile(
    r"[A-Za-z0-9_-]{2,80}\*{3,}[A-Za-z0-9_-]{1,16}"
    r"|\b(?:sk|pk|rk|key)[-_][A-Za-z0-9_-]{0,80}(?:\.{3}|…)[A-Za-z0-9_-]{1,16}"
)


def without(secret: str | None, text: str) -> str:
    """Replace `secret` in `text`, also where it is quoted, in an address or in JSON.

    A key of which a provider shows some letters among stars is hidden too.
    """
    for written in _ways(secret):
        text = text.replace(written, HIDDEN)
    return _MASKED.sub(HIDDEN, text) if secret else text


def without_piece(secret: str | None, text: str) -> str:
    """Take off the beginning of `secret` on which a text that was cut ends."""
    for written in _ways(secret):
        for length in range(len(written) - 1, _SHORTEST_PIECE - 1, -1):
            if text.endswith(written[:length]):
                return text[:-length] + HIDDEN
    return text


def _ways(secret: str | None) -> list[str]:
    """Give the ways to write a secret, the longest first."""
    if not secret or not secret.strip():
        return []
    given = {secret, secret.strip()}
    in_json = {json.dumps(each)[1:-1] for each in given}
    ways = {
        *given,
        *in_json,
        *(each.replace("/", "\\/") for each in in_json),
        *(repr(each)[1:-1] for each in given),
        *(quote(each, safe="") for each in given),
    }
    return sorted(ways, key=lambda way: (-len(way), way))
