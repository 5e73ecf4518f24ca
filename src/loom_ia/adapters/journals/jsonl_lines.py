"""The bytes of a JSONL journal: one event per line, batches that say how long they are.

Each line but the last of a batch says how many follow, so that a batch cut by a crash shows, at
any byte: its end is not there. Only what comes last may be incomplete; anywhere else it is
damage. Places count from 1 without a hole, so the event `n` stands in line `n`.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

from pydantic_core import from_json

from loom_ia.adapters.journals.decoding import Place, corrupted

# What `to_line` writes first and, before the payload, last. Another writer's lines are parsed.
_HEAD = re.compile(rb'\{"seq":(\d+),"type":"([^"\\]*)"')
_FOLLOWING = re.compile(rb',"following":(\d+)\Z')
_PAYLOAD = b',"payload":'

FIRST_CHUNK = 1 << 14
"""How much of a file's end is read first."""


class Head(NamedTuple):
    """What a line says of itself before its payload."""

    seq: int
    type: str


def head_of(line: bytes) -> Head | None:
    """Read the head of a line; None when it is no event."""
    match = _HEAD.match(line)
    if match is not None:
        return Head(int(match[1]), match[2].decode())
    raw = _parsed(line)
    seq, event_type = raw.get("seq"), raw.get("type")
    if isinstance(seq, int) and isinstance(event_type, str):
        return Head(seq, event_type)
    return None


def following(line: bytes) -> int:
    """Read how many lines of the same batch come after this one."""
    before, found, _ = line.partition(_PAYLOAD)
    if found:
        match = _FOLLOWING.search(before)
        return int(match[1]) if match is not None else 0
    many = _parsed(line).get("following", 0)
    return many if isinstance(many, int) else 0


def whole(data: bytes, *, from_start: bool = True) -> int | None:
    """Measure the beginning of `data`, a series of lines, that holds whole batches only.

    None when `data` is only the end of a file, and too short to tell. A line with a NUL was never
    written so: it is a page that a power cut kept from the disk, and its batch is not whole.
    """
    kept = 0
    end = data.rfind(b"\n") + 1
    while end:
        start = data.rfind(b"\n", 0, end - 1) + 1
        line = data[start : end - 1]
        if b"\0" in line:
            kept = 0
        elif not following(line):
            if kept:
                return kept  # the batch before begins nowhere in the one that ends there
            kept = end
        end = start
    return kept if from_start else None


def split(data: bytes) -> list[bytes]:
    """Split lines that are all ended."""
    lines = data.split(b"\n")
    lines.pop()
    return lines


def chunks_from_the_end(size: int) -> Iterator[int]:
    """Give offsets ever nearer to the beginning of a file, the last of which is 0."""
    length = FIRST_CHUNK
    while length < size:
        yield size - length
        length *= 8
    yield 0


def after_line_break(data: bytes) -> bytes:
    """Leave out the line that `data` begins inside of."""
    return data[data.find(b"\n") + 1 :]


def check_batches(lines: Sequence[bytes], first: int, place: Place) -> None:
    """Raise `JournalCorrupted` where a batch was followed by another before it ended."""
    due = 0
    for seq, line in enumerate(lines, first):
        many = following(line)
        if due and many != due - 1:
            raise corrupted(place(seq), "the batch before this line lacks its end")
        due = many


def run_started(line: bytes, session_id: str) -> str | None:
    """Give the run that begins with this line, if it is one that begins a run."""
    if b"run.started" not in line:
        return None
    raw = _parsed(line)
    if raw.get("type") != "run.started":
        return None
    run_id = raw.get("run_id", session_id)
    return run_id if isinstance(run_id, str) else None


def text_field(line: bytes, name: str) -> str | None:
    """Read one field of the event of a line."""
    value = _parsed(line).get(name)
    return value if isinstance(value, str) else None


def _parsed(line: bytes) -> dict[str, Any]:
    try:
        raw = from_json(line)
    except ValueError:
        return {}
    return cast("dict[str, Any]", raw) if isinstance(raw, dict) else {}
