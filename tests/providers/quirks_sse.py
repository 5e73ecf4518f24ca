"""How events are laid out on the wire: all of it is allowed, little of it is usual."""

import json
from typing import Any, Final

from tests.providers.chunks import chunk, said, stream
from tests.providers.formats.chat import DONE
from tests.providers.quirk import Quirk, Understood
from tests.providers.replies import Raw, sse

_LONG: Final = "mot " * 75_000
_CHUNKS: Final[list[dict[str, Any]]] = [*said("Bonjour", " ça va ?"), chunk({}, "stop")]
_TEXT: Final = Understood("Bonjour ça va ?")
_LINES: Final = [json.dumps(each, ensure_ascii=False) for each in _CHUNKS]
_PAUSE: Final = 0.01  # seconds: so that two pieces are not received as one


def _raw(*events: bytes) -> Raw:
    return Raw([*events, DONE])


def _ends(end: str) -> Raw:
    written = [sse(line).decode().replace("\n", end).encode() for line in (*_LINES, "[DONE]")]
    return Raw(written)


def _cut_in_character() -> Raw:
    """Cut the only character of two bytes in the middle."""
    whole = b"".join(sse(line) for line in _LINES) + DONE
    middle = whole.index("ç".encode()) + 1
    return Raw([whole[:middle], whole[middle:]], pause=_PAUSE)


def _many_lines(line: str) -> bytes:
    pieces = line.replace(", ", ",\n").split("\n")
    return "".join(f"data: {piece}\n" for piece in pieces).encode() + b"\n"


EVENTS: Final[tuple[Quirk, ...]] = (
    Quirk("a line of 300 kB", stream(*said(_LONG), chunk({}, "stop")), Understood(_LONG)),
    Quirk(
        "comments between events",
        _raw(
            b": OPENROUTER PROCESSING\n\n",
            sse(_LINES[0]),
            b": keep-alive\n\n:\n",
            *(sse(line) + b": keep-alive\n\n" for line in _LINES[1:]),
        ),
        _TEXT,
    ),
    Quirk("lines that end in CRLF", _ends("\r\n"), _TEXT),
    Quirk("lines that end in CR", _ends("\r"), _TEXT),
    Quirk(
        "no space after data:",
        Raw([f"data:{line}\n\n".encode() for line in (*_LINES, "[DONE]")]),
        _TEXT,
    ),
    Quirk("data in many lines", _raw(*(_many_lines(line) for line in _LINES)), _TEXT),
    Quirk("an event cut inside a character", _cut_in_character(), _TEXT),
    Quirk(
        "every byte alone",
        Raw([bytes([byte]) for line in _LINES for byte in sse(line)] + [DONE]),
        _TEXT,
    ),
    Quirk(
        "all the events in one piece",
        Raw([b"".join(sse(line) for line in _LINES) + DONE]),
        _TEXT,
    ),
    Quirk(
        "a byte order mark at the start",
        _raw(b"\xef\xbb\xbf" + sse(_LINES[0]), *(sse(line) for line in _LINES[1:])),
        _TEXT,
    ),
    Quirk(
        "names, ids and delays of events",
        _raw(*(b"id: 7\nretry: 3000\n" + sse(line, "message") for line in _LINES)),
        _TEXT,
    ),
    Quirk(
        "no blank line at the end",
        Raw([*(sse(line) for line in _LINES), b"data: [DONE]"]),
        _TEXT,
    ),
)
