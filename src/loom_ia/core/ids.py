"""Identifiers: built from a given instant and given entropy, never drawn here.

Every generated id is a UUIDv7 (RFC 9562, section 5.7), lower-case with dashes, so that ids sort
in the order in which they were made. Sessions, tenants and runs may also be named by the caller.

A run that another one began may bear the id of the root run, `/`, and what tells it from others. A
session never has a `/` in its id: one at the beginning makes a stream of events that is no session.
"""

import re
from typing import Final, TypeAlias

from loom_ia.core.errors import UnusableId

RunId: TypeAlias = str
SessionId: TypeAlias = str
TenantId: TypeAlias = str
EventId: TypeAlias = str
SpanId: TypeAlias = str
CallId: TypeAlias = str

STORE_STREAM: Final = "/store"
"""The stream that keeps the values of a tenant."""

_SAFE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")


def uuid7(milliseconds: int, rand: int) -> str:
    """Build a UUIDv7 from Unix milliseconds and 74 bits of `rand`.

    The 12 high bits of `rand` follow the timestamp, so a caller who counts there keeps ids
    increasing within one millisecond (RFC 9562, section 6.2).
    """
    value = (milliseconds & 0xFFFFFFFFFFFF) << 80 | 0x7 << 76
    value |= (rand >> 62 & 0xFFF) << 64 | 0b10 << 62 | rand & 0x3FFFFFFFFFFFFFFF
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def is_safe_id(value: str) -> bool:
    """Tell whether `value` can name a file on every platform."""
    return _SAFE.match(value) is not None


def require_safe_id(value: str, what: str) -> str:
    """Return `value`, or raise `UnusableId` naming `what` it was meant for."""
    if not is_safe_id(value):
        raise UnusableId(
            "{what} {value!r} cannot be used: at most 128 letters, digits, '.', '_' or '-', "
            "starting with a letter or a digit",
            what=what,
            value=value[:140],
        )
    return value


def is_reserved(session_id: SessionId) -> bool:
    """Tell whether a stream is one of this package's own, which no caller can name or list."""
    return session_id.startswith("/")
