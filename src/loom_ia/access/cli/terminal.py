"""Where the command writes: the answer on standard output, all the rest on standard error.

A reader who goes away (`| head`) is no failure: what would still be said is dropped, and the run
goes on. What others wrote is shown with its control characters escaped, so that nobody's text
commands the terminal; an answer in a pipe stays what it is, to the byte. Colours are for a terminal
alone, when `rich` is installed and nobody refused them.
"""

import contextlib
import io
import json
import os
import sys
from contextvars import ContextVar
from importlib.util import find_spec
from typing import Any, Final, Literal, TextIO, TypeAlias, cast

Style: TypeAlias = Literal["", "bold", "dim", "green", "cyan", "magenta", "yellow", "red"]

_ESCAPE: Final = "backslashreplace"
_DUMB: Final = frozenset({"dumb", "unknown"})
_colourless: ContextVar[bool] = ContextVar("_colourless", default=False)


class _StandardError:
    """Standard error as it is when something is written: it moves while a tree is drawn."""

    def write(self, text: str, /) -> int:
        return sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()


STANDARD_ERROR: Final = cast("TextIO", _StandardError())
"""For who keeps a stream, as a log does."""


def prepare(*, colourless: bool = False) -> None:
    """Make the streams take any text; `colourless` refuses colours."""
    _colourless.set(colourless)
    ways = (("stdin", "surrogateescape"), ("stdout", _ESCAPE), ("stderr", _ESCAPE))
    for name, errors in ways:
        stream: object = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            cast("io.TextIOWrapper[Any]", stream).reconfigure(errors=errors)


def finish() -> None:
    """Write what is still held back; nobody may be there to read it."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):  # it was said when it happened
            _write(stream, "")


def say(text: str = "", style: Style = "") -> None:
    """Write a line about the answer."""
    _write(sys.stderr, _painted(sys.stderr, text, style) + "\n")


def show(text: str = "", style: Style = "") -> None:
    """Write a line of the answer, when it is a text of ours."""
    _write(sys.stdout, _painted(sys.stdout, text, style) + "\n")


def ask(question: str) -> str | None:
    """Ask the person at the terminal; None when there is nobody to ask."""
    if not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
        return None
    _write(sys.stderr, question)
    return sys.stdin.readline().strip()


def is_screen(stream: TextIO | None) -> bool:
    """Whether `rich` can draw there: it is installed, and the terminal does what it is told."""
    able = os.environ.get("TERM", "").lower() not in _DUMB
    return able and is_terminal(stream) and find_spec("rich") is not None


def has_colours(stream: TextIO | None) -> bool:
    """Whether colours are for that stream."""
    return not _colourless.get() and not os.environ.get("NO_COLOR") and is_screen(stream)


def answer(text: str, end: str = "\n") -> None:
    """Write a piece of what a model answered."""
    stream: TextIO | None = sys.stdout
    if is_terminal(stream):
        text = printable(text)
    _write(stream, text + end)


def show_json(value: object) -> None:
    """Write the answer as one JSON document."""
    show(json.dumps(value, ensure_ascii=False, indent=2))


def printable(text: str) -> str:
    """Escape what would command a terminal or reverse the reading; lines and tabs stay."""
    return "".join(c if c.isprintable() or c in _HARMLESS else _escaped(c) for c in text)


_HARMLESS: Final = frozenset("\n\t\u00a0\u00ad\u200d\u2009\u202f\u3000")
"""Typography that Python does not call printable."""


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()


def is_terminal(stream: TextIO | None) -> bool:
    """Whether somebody reads there what is written."""
    return stream is not None and not stream.closed and stream.isatty()


def _painted(stream: TextIO | None, text: str, style: Style) -> str:
    if not (style and has_colours(stream)):
        return text
    from rich.style import Style as Painter

    return Painter.parse(style).render(text)


def _write(stream: TextIO | None, text: str) -> None:
    if stream is None or stream.closed:
        return
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        _abandon(stream)
    except OSError:  # a full disk: an answer that is lost is a failure
        _abandon(stream)
        raise


def _abandon(stream: TextIO) -> None:
    """Send what follows nowhere: the reader has gone."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
