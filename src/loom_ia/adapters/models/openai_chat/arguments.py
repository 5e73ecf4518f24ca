"""The arguments of a call while they come in, and whether they are complete.

Each character is looked at once, however often one asks: a server may repeat the name of its call
with every fragment.
"""

import json
import re
from typing import Final

_MARK: Final = re.compile(r'["\\{}\[\]]')
_IN_TEXT: Final = re.compile(r'["\\]')
_BLANK: Final = " \t\n\r"
_LONGEST_SCALAR: Final = 64
"""Characters of what is neither an object nor a list, and may be complete all the same."""


class Arguments:
    """JSON text in pieces."""

    def __init__(self) -> None:
        self._unseen: list[str] = []
        self._scalar = ""
        self._depth = 0
        self._begun = False
        self._in_text = False
        self._escaped = False
        self._goes_on = False

    def add(self, piece: str) -> None:
        """Take a piece."""
        self._unseen.append(piece)

    def is_whole(self) -> bool:
        """Whether the brackets are closed, and nothing follows; a scalar has to be JSON."""
        for piece in self._unseen:
            self._see(piece)
        self._unseen = []
        if self._begun:
            return not self._depth and not self._goes_on
        if not self._scalar or len(self._scalar) > _LONGEST_SCALAR:
            return False
        try:
            json.loads(self._scalar)
        except ValueError:
            return False
        return True

    def _see(self, piece: str) -> None:
        at = 0
        if not self._begun:
            at = self._first(piece)
        while self._begun and self._depth and at < len(piece):
            at = self._next(piece, at)
        if self._begun and not self._depth and piece[at:].strip(_BLANK):
            self._goes_on = True

    def _first(self, piece: str) -> int:
        """Look for the bracket with which they begin, and give the place behind it."""
        start = len(piece) - len(piece.lstrip(_BLANK))
        if not self._scalar and piece[start : start + 1] in {"{", "["}:
            self._begun, self._depth = True, 1
            return start + 1
        if len(self._scalar) <= _LONGEST_SCALAR:
            self._scalar += piece[start if not self._scalar else 0 :][: _LONGEST_SCALAR + 1]
        return len(piece)

    def _next(self, piece: str, at: int) -> int:
        """Go behind the next character that counts."""
        if self._escaped:
            self._escaped = False
            return at + 1
        found = (_IN_TEXT if self._in_text else _MARK).search(piece, at)
        if found is None:
            return len(piece)
        match found[0]:
            case '"':
                self._in_text = not self._in_text
            case "\\":
                self._escaped = self._in_text
            case "{" | "[":
                self._depth += 1
            case _:
                self._depth -= 1
        return found.end()
