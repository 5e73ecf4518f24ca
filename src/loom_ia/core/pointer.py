"""JSON Pointers (RFC 6901): where a value stands inside a document."""

import re
from typing import Final

from loom_ia.core.json import MAX_DEPTH, JsonValue

LONGEST: Final = 1024
_BAD_ESCAPE: Final = re.compile(r"~(?![01])")
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,9}")


class Nothing:
    """What a pointer gives when it leads to nothing: null is a value."""


NOTHING: Final = Nothing()


def is_pointer(text: str) -> bool:
    """Whether a text is a pointer, of 1024 characters and 64 names at most."""
    if text and not text.startswith("/"):
        return False
    is_short = len(text) <= LONGEST and text.count("/") <= MAX_DEPTH
    return is_short and not _BAD_ESCAPE.search(text)


def at(document: JsonValue, pointer: str) -> JsonValue | Nothing:
    """Give what stands at a pointer, `NOTHING` when nothing does."""
    value = document
    for token in _tokens(pointer):
        match value:
            case dict() if token in value:
                value = value[token]
            case list() if _INDEX.fullmatch(token) and int(token) < len(value):
                value = value[int(token)]
            case _:
                return NOTHING
    return value


def _tokens(pointer: str) -> list[str]:
    if not pointer:
        return []
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer[1:].split("/")]
