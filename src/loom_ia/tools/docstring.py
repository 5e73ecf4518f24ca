"""From a docstring to what a model reads: what the tool does, and what each parameter is.

Three conventions are read: Google (`Args:`), NumPy (`Parameters`, underlined) and Sphinx
(`:param name:`). What speaks to a reader of code alone, returned values and exceptions, is left
out; the rest is kept as it stands.
"""

import inspect
import re
from collections.abc import Iterator, Sequence
from textwrap import dedent
from typing import Final, NamedTuple


class Documentation(NamedTuple):
    """The description of a tool, and those of its parameters by name."""

    description: str
    parameters: dict[str, str]


_PARAMETERS: Final = frozenset(
    {"args", "arguments", "parameters", "params", "paramètres", "keyword arguments"}
)
_LEFT_OUT: Final = frozenset({"returns", "raises", "yields", "retourne", "renvoie", "lève"})
_UNDERLINE: Final = re.compile(r"-{3,}\s*")
_GOOGLE: Final = re.compile(r"(?P<name>\w+)\s*(?:\([^)]*\))?\s*:\s*(?P<text>.*)")
_NUMPY: Final = re.compile(r"(?P<name>\w+)\s*(?::.*)?(?P<text>)")
_SPHINX: Final = re.compile(
    r":(?:(?:param|parameter|arg|argument)\s+(?:[^:]+\s)?(?P<name>\w+)"
    r"|(?:type|return|returns|rtype|raise|raises)\b[^:]*):\s*(?P<text>.*)"
)


def read_docstring(text: str | None) -> Documentation:
    """Read a docstring; None and blanks give an empty description."""
    lines = inspect.cleandoc(text or "").splitlines()
    kept: list[str] = []
    parameters: dict[str, str] = {}
    at = 0
    while at < len(lines):
        title = lines[at].rstrip(": ").lower()
        is_section = title in _PARAMETERS or title in _LEFT_OUT
        if is_section and at + 1 < len(lines) and _UNDERLINE.fullmatch(lines[at + 1]):
            end = _next_underlined(lines, at + 2)
            found = _entries(lines[at + 2 : end], _NUMPY)
        elif is_section and lines[at].rstrip().endswith(":"):
            end = _next_flush(lines, at + 1)
            found = _entries(lines[at + 1 : end], _GOOGLE)
        elif _SPHINX.match(lines[at]):
            end = _next_flush(lines, at + 1)
            found = _entries(lines[at:end], _SPHINX)
        else:
            kept.append(lines[at])
            at += 1
            continue
        if title not in _LEFT_OUT:
            parameters.update(found)
        at = end
    return Documentation("\n".join(kept).strip(), parameters)


def _next_flush(lines: Sequence[str], start: int) -> int:
    """Find the next line that is neither blank nor indented."""
    for at in range(start, len(lines)):
        if lines[at].strip() and not lines[at][0].isspace():
            return at
    return len(lines)


def _next_underlined(lines: Sequence[str], start: int) -> int:
    for at in range(start, len(lines) - 1):
        if _UNDERLINE.fullmatch(lines[at + 1]):
            return at
    return len(lines)


def _entries(body: Sequence[str], pattern: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """Give each name with its text, put on one line."""
    name, parts = "", list[str]()
    for line in dedent("\n".join(body)).splitlines():
        flush = line[:1].strip()
        entry = pattern.fullmatch(line.rstrip()) if flush else None
        if entry:
            if name:
                yield name, " ".join(parts)
            name, parts = entry["name"] or "", [entry["text"]] if entry["text"] else []
        elif line.strip():
            parts.append(line.strip())
    if name:
        yield name, " ".join(parts)
