"""Where the command writes: the answer on standard output, all the rest on standard error.

A reader who goes away (`| head`) is no failure: what would still be said is dropped, and the run
goes on. What others wrote is shown with its control characters escaped, so that nobody's text
commands the terminal; an answer in a pipe stays what it is, to the byte.
"""

import contextlib
import io
import json
import os
import sys
from typing import Any, Final, TextIO, cast

_ESCAPE: Final = "backslashreplace"


def prepare() -> None:
    """Make the streams take any text."""
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


def say(text: str = "") -> None:
    """Write a line about the answer."""
    _write(sys.stderr, text + "\n")


def show(text: str = "") -> None:
    """Write a line of the answer, when it is a text of ours."""
    _write(sys.stdout, text + "\n")


def answer(text: str, end: str = "\n") -> None:
    """Write a piece of what a model answered."""
    stream: TextIO | None = sys.stdout
    if stream is not None and not stream.closed and stream.isatty():
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
