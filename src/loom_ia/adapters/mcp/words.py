"""Whose word an error is: what we say ourselves stands beside what a server can say.

Law. Only a server's own answer to a request says what became of it. What we make of anything else
carries a mark that no server knows, for every code may be one of a server's.
"""

import secrets
from collections.abc import Mapping
from typing import Any, Final, Literal, cast

from mcp_types import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND

Ours = Literal["gone", "lost", "unreadable"]
"""The session is not known any more; what came is no answer; or it is one that is not read."""

NOT_BEGUN: Final = frozenset({INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS})
"""The codes by which the protocol itself says that a request was not begun."""

_MARK: Final = secrets.token_hex(16)


def marked(word: Ours) -> dict[str, Any]:
    """Give the data of an error that is ours."""
    return {_MARK: word}


def word_of(data: object) -> Ours | None:
    """Tell what we said by an error; None when it is the server's."""
    if not isinstance(data, Mapping):
        return None
    return cast("Mapping[str, Ours]", data).get(_MARK)
