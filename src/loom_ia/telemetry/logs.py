"""The package's own log, set up only by who asks.

Law. Only the logger `loom_ia` is touched, never the root nor a handler of the application. A line
says what was done, where and how long it took; it never holds what users, models or tools said, so
that the text of an exception is left out and its type kept. One record is one line, whatever it
holds.
"""

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import Final, Literal, TextIO, TypeAlias

LogFormat: TypeAlias = Literal["console", "json"]

LOGGER: Final = "loom_ia"
_TAGS: Final = ("run_id", "span_id", "tenant_id")


class _OwnHandler(logging.StreamHandler[TextIO]):
    """Marks the handler that `configure_logging` put there."""


def configure_logging(
    level: str | int = "INFO", format: LogFormat = "console", stream: TextIO | None = None
) -> None:
    """Write the package's log to `stream` (standard error), as text or as JSON lines.

    Each line carries `run_id`, `span_id` and `tenant_id` when it is about a run. Doing it again
    replaces what was set up before. The records no longer reach the root's handlers, which would
    say them twice.
    """
    logger = logging.getLogger(LOGGER)
    handler = _OwnHandler(stream if stream is not None else sys.stderr)
    handler.setFormatter(JsonFormatter() if format == "json" else ConsoleFormatter())
    for known in list(logger.handlers):
        if isinstance(known, _OwnHandler):
            logger.removeHandler(known)
    logger.addHandler(handler)
    logger.setLevel(level)
    logger.propagate = False


class ConsoleFormatter(logging.Formatter):
    """`2026-01-01T00:00:00.000Z INFO loom_ia.engine.tools: tool add: ok, 3 ms [run_id=…]`."""

    def format(self, record: logging.LogRecord) -> str:
        """Write a record as one line of text."""
        line = f"{_instant(record)} {record.levelname} {record.name}: {record.getMessage()}"
        if tags := " ".join(f"{name}={value}" for name, value in _tags(record).items()):
            line += f" [{tags}]"
        if where := _where(record):
            line += f" ({' < '.join(where)})"
        return one_line(line)


class JsonFormatter(logging.Formatter):
    """One JSON object on each line, in ASCII."""

    def format(self, record: logging.LogRecord) -> str:
        """Write a record as one JSON object."""
        entry: dict[str, object] = {
            "ts": _instant(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **_tags(record),
        }
        if where := _where(record):
            entry["exception"] = where
        return json.dumps(entry)


def one_line(text: str) -> str:
    """Escape what would end the line or command a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _instant(record: logging.LogRecord) -> str:
    at = datetime.fromtimestamp(record.created, UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03d}Z"


def _tags(record: logging.LogRecord) -> dict[str, str]:
    values = ((name, getattr(record, name, None)) for name in _TAGS)
    return {name: str(value) for name, value in values if value}


def _where(record: logging.LogRecord) -> list[str]:
    """Give the type of the exception and the places that it went through, without its text."""
    if not record.exc_info or record.exc_info[0] is None:
        return []
    kind, _, trace = record.exc_info
    frames = traceback.extract_tb(trace)
    return [kind.__name__, *(f"{f.filename}:{f.lineno} {f.name}" for f in reversed(frames))]
