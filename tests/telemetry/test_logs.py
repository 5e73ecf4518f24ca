"""The package's log goes where it is asked to, one line a record, without touching the root's."""

import io
import json
import logging
import re
from collections.abc import Iterator

import pytest

from loom_ia.telemetry import configure_logging

LOG = logging.getLogger("loom_ia.engine.tools")


@pytest.fixture(autouse=True)
def _restore() -> Iterator[None]:
    """Leave the logger as it was."""
    log = logging.getLogger("loom_ia")
    kept = (list(log.handlers), log.level, log.propagate)
    yield
    log.handlers[:], log.level, log.propagate = kept
    log.setLevel(kept[1])


def is_ours(handler: logging.Handler) -> bool:
    """Whether a handler is the one that this package gives its logger."""
    return type(handler).__module__ == configure_logging.__module__


def test_the_root_is_left_alone() -> None:
    """Only the logger of the package gets a handler, and one only, however often it is asked."""
    root = logging.getLogger()
    before = list(root.handlers)
    own = logging.NullHandler()
    log = logging.getLogger("loom_ia")
    log.addHandler(own)
    kept = [handler for handler in log.handlers if not is_ours(handler)]
    for _ in range(3):
        configure_logging(stream=io.StringIO())
    assert root.handlers == before
    assert own in log.handlers
    assert [handler for handler in log.handlers if not is_ours(handler)] == kept
    assert sum(map(is_ours, log.handlers)) == 1


def test_json_lines_carry_the_ids() -> None:
    """A JSON line says when, how serious, who and where; nothing else than what was logged."""
    stream = io.StringIO()
    configure_logging("INFO", "json", stream)
    LOG.info("tool %s", "x", extra={"run_id": "r", "span_id": "s", "tenant_id": "t"})
    LOG.debug("not at this level")
    (line,) = stream.getvalue().splitlines()
    entry = json.loads(line)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", entry.pop("ts"))
    assert entry == {
        "level": "INFO",
        "logger": "loom_ia.engine.tools",
        "message": "tool x",
        "run_id": "r",
        "span_id": "s",
        "tenant_id": "t",
    }


@pytest.mark.parametrize("format", ["console", "json"])
def test_a_record_is_one_line_that_commands_nothing(format: str) -> None:
    """Line breaks, escapes and marks that reverse the reading are written out."""
    stream = io.StringIO()
    configure_logging("INFO", "json" if format == "json" else "console", stream)
    LOG.info("a\nb\x1b[31m\u202eé")
    text = stream.getvalue()
    assert text.count("\n") == 1
    assert "\x1b" not in text
    assert "\u202e" not in text


@pytest.mark.parametrize("format", ["console", "json"])
def test_an_exception_keeps_its_type_and_place_alone(format: str) -> None:
    """The text of an exception may be somebody's content: it is not logged."""
    stream = io.StringIO()
    configure_logging("INFO", "json" if format == "json" else "console", stream)
    try:
        raise ValueError("a secret")
    except ValueError:
        LOG.exception("it failed")
    text = stream.getvalue()
    assert "ValueError" in text
    assert "test_logs.py:" in text
    assert "secret" not in text
    assert text.count("\n") == 1
