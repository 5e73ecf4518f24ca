"""Reading the files of a JSONL journal. Everything here may block.

What need not be decoded is not: a read after a place begins near the end of the file, and a query
looks at the head of each line first.
"""

import os
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from json.encoder import encode_basestring
from pathlib import Path
from typing import Final, NamedTuple

from loom_ia.adapters.journals.decoding import decode
from loom_ia.adapters.journals.jsonl_file import SessionFile, end_of, read_from
from loom_ia.adapters.journals.jsonl_lines import (
    after_line_break,
    check_batches,
    chunks_from_the_end,
    head_of,
    split,
    text_field,
    whole,
)
from loom_ia.adapters.journals.jsonl_runs import SUFFIX, name_of_file
from loom_ia.core.errors import JournalBusy, JournalCorrupted
from loom_ia.core.events.catalogue import CATALOGUE
from loom_ia.core.events.envelope import Event
from loom_ia.core.events.query import EventQuery
from loom_ia.core.ids import EventId, SessionId, TenantId, is_reserved, is_safe_id
from loom_ia.core.ports.journal import SessionEntry, SessionPage

_REMEMBERED: Final = 1000
_SETTLING_S: Final = 1.0  # a batch is written in less, unless its process was stopped


class _Lines(NamedTuple):
    """Lines of a session; the first is at the place `first`. `torn`: more bytes follow them."""

    first: int
    lines: list[bytes]
    torn: bool


class JsonlReader:
    """Reads sessions; `file_of` gives the file that can be locked when one looks damaged."""

    def __init__(self, root: Path, file_of: Callable[[TenantId, SessionId], SessionFile]) -> None:
        self._root = root
        self._file_of = file_of
        self._sessions_of: dict[EventId, SessionId] = {}  # those of the last events of pages

    def session(self, tenant_id: TenantId, session_id: SessionId, after: int) -> list[Event]:
        """Read the events of a session that follow `after`."""
        file = self._file_of(tenant_id, session_id)
        found = _lines(file.path, after)
        if not found.torn:
            # A place that an incomplete batch left may have been written anew while it was read.
            with suppress(JournalCorrupted):
                return self._decode(found, tenant_id, session_id, after)
        with suppress(JournalBusy):  # that batch is still being written: it is not there yet
            file.settle(time.monotonic() + _SETTLING_S)
        return self._decode(_lines(file.path, after), tenant_id, session_id, after)

    def sessions(self, tenant_id: TenantId, after: SessionId | None, limit: int) -> SessionPage:
        """List sessions in the order of their ids."""
        entries: list[SessionEntry] = []
        for session_id in self._ids(tenant_id):
            if after is None or session_id > after:
                entry = _entry(self._path(tenant_id, session_id), session_id)
                if entry is not None:
                    entries.append(entry)
                if len(entries) > limit:
                    return SessionPage(tuple(entries[:limit]), entries[limit - 1].session_id)
        return SessionPage(tuple(entries), None)

    def query(self, query: EventQuery) -> list[Event]:
        """Find events, by session, then by place."""
        ids = self._ids(query.tenant_id)
        if query.session_id is not None:
            is_there = is_reserved(query.session_id) or query.session_id in ids
            ids = [query.session_id] if is_there else []
        position = self._position(query, ids)
        begin, after = position or (0, 0)
        floor = query.after if position is None and query.after is not None else ""
        found: list[Event] = []
        for session_id in ids[begin:]:
            for event in self._candidates(query, session_id, after):
                if event.event_id > floor and query.matches(event):
                    found.append(event)
                    if len(found) == query.limit:
                        self._remember(event)
                        return found
            after = 0
        return found

    def _candidates(self, query: EventQuery, session_id: SessionId, after: int) -> Iterator[Event]:
        """Decode the events of a session that the head of their line does not rule out."""
        types = _types(query)
        run_id = b""
        if query.run_id is not None and query.run_id != session_id:
            run_id = encode_basestring(query.run_id).encode()
        found = _lines(self._path(query.tenant_id, session_id), after)
        for seq, line in enumerate(found.lines[after + 1 - found.first :], after + 1):
            head = head_of(line)
            if (types and head is not None and head.type not in types) or run_id not in line:
                continue
            yield from self._decode(
                _Lines(seq, [line], torn=False), query.tenant_id, session_id, seq - 1
            )

    def _position(self, query: EventQuery, ids: list[SessionId]) -> tuple[int, int] | None:
        """Find the event `query.after`: which of the sessions `ids`, and at which place."""
        if query.after is None:
            return None
        hint = self._sessions_of.get(query.after)
        order = sorted(range(len(ids)), key=lambda index: ids[index] != hint)
        needle = query.after.encode()
        for index in order:
            found = _lines(self._path(query.tenant_id, ids[index]), 0)
            for seq, line in enumerate(found.lines, 1):
                if needle in line and text_field(line, "event_id") == query.after:
                    return index, seq
        return None

    def _remember(self, last: Event) -> None:
        if len(self._sessions_of) >= _REMEMBERED:
            self._sessions_of.clear()
        self._sessions_of[last.event_id] = last.session_id

    def _decode(
        self, found: _Lines, tenant_id: TenantId, session_id: SessionId, after: int
    ) -> list[Event]:
        path = self._path(tenant_id, session_id)
        lines = found.lines[after + 1 - found.first :]

        def place(seq: int) -> str:
            return f"{path}, line {seq}"

        check_batches(lines, after + 1, place)
        return decode(
            lines, tenant_id=tenant_id, session_id=session_id, first=after + 1, place=place
        )

    def _ids(self, tenant_id: TenantId) -> list[SessionId]:
        if not is_safe_id(tenant_id):
            return []
        try:
            names = os.listdir(self._root / tenant_id)  # noqa: PTH208 - names are enough
        except FileNotFoundError:
            return []
        ids = (name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX))
        return sorted(filter(is_safe_id, ids))

    def _path(self, tenant_id: TenantId, session_id: SessionId) -> Path:
        return self._root / tenant_id / name_of_file(session_id)


@contextmanager
def _opened(path: Path) -> Generator[int | None]:
    """Open a file to read it; None when it is not there."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _lines(path: Path, after: int) -> _Lines:
    """Read the whole batches of a file, beginning not later than the event after `after`."""
    with _opened(path) as descriptor:
        size = 0 if descriptor is None else os.fstat(descriptor).st_size
        if descriptor is None or size == 0:
            return _Lines(1, [], torn=False)
        for start in chunks_from_the_end(size) if after else ():
            data = after_line_break(read_from(descriptor, start, size))
            head = head_of(data.partition(b"\n")[0])
            end = whole(data, from_start=False)
            if start and end and head is not None and head.seq <= after + 1:
                return _Lines(head.seq, split(data[:end]), torn=end < len(data))
        data = read_from(descriptor, 0, size)
        end = whole(data) or 0
        return _Lines(1, split(data[:end]), torn=end < len(data))


def _entry(path: Path, session_id: SessionId) -> SessionEntry | None:
    """Describe a session by its last event; one whose end is damaged, by its file."""
    with _opened(path) as descriptor:
        if descriptor is None:
            return None
        status = os.fstat(descriptor)
        try:
            end = end_of(descriptor, status.st_size, path)
        except JournalCorrupted:
            end = None
        if end is not None and end.last == 0:
            return None
        ts = text_field(end.line, "ts") if end is not None else None
        if end is None or ts is None:
            lines = read_from(descriptor, 0).count(b"\n")
            updated_at = datetime.fromtimestamp(status.st_mtime, UTC)
            return SessionEntry(session_id, lines, updated_at) if lines else None
        return SessionEntry(session_id, end.last, datetime.fromisoformat(ts).astimezone(UTC))


def _types(query: EventQuery) -> Sequence[str]:
    """List the types that `query` can find; none when types alone cannot rule an event out."""
    if query.types or not query.categories or "unknown" in query.categories:
        return query.types
    return [name for name, payload in CATALOGUE.items() if payload.CATEGORY in query.categories]
