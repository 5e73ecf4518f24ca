"""The connection that reads a SQLite journal. One thread uses it; everything here may block."""

import sqlite3
from datetime import UTC, datetime
from json.encoder import encode_basestring
from pathlib import Path
from typing import Any, Final

from loom_ia.adapters.journals import sqlite_file
from loom_ia.adapters.journals.decoding import decode
from loom_ia.core.errors import JournalError
from loom_ia.core.events.catalogue import CATALOGUE
from loom_ia.core.events.envelope import Event, timestamp
from loom_ia.core.events.query import EventQuery
from loom_ia.core.ids import EventId, RunId, SessionId, TenantId
from loom_ia.core.ports.journal import SessionEntry, SessionPage

_AT_ONCE: Final = 500
_REMEMBERED: Final = 1000

_Where = dict[str, tuple[object, ...]]


class SqliteReader:
    """Reads committed events; it waits for no writer."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._closed = False
        self._ends: dict[tuple[EventId, SessionId | None], int] = {}  # of the pages given last

    def session(self, tenant_id: TenantId, session_id: SessionId, after: int) -> list[Event]:
        """Read the events of a session that follow `after`."""
        with sqlite_file.telling(self._path):
            # One value for the reason that `sqlite_file.rows` gives; a line holds no line break.
            cursor = self._opened().execute(
                "SELECT group_concat(line, char(10)) FROM (SELECT line FROM lines WHERE session ="
                " (SELECT id FROM sessions WHERE tenant_id = ? AND session_id = ?) AND seq > ?"
                " ORDER BY seq)",
                (tenant_id, session_id, after),
            )
            (text,) = cursor.fetchone()
        lines: list[str] = text.split("\n") if text else []
        return self._decode(lines, tenant_id, session_id, after + 1)

    def locate(self, tenant_id: TenantId, run_id: RunId) -> SessionId | None:
        """Find the session of a run."""
        with sqlite_file.telling(self._path):
            return sqlite_file.session_of_run(self._opened(), tenant_id, run_id)

    def sessions(self, tenant_id: TenantId, after: SessionId | None, limit: int) -> SessionPage:
        """List sessions in the order of their ids."""
        with sqlite_file.telling(self._path):
            found = sqlite_file.rows(
                self._opened(),
                "session_id, seq, ts",
                "SELECT session_id, seq, line ->> '$.ts' AS ts FROM sessions"
                " JOIN lines ON lines.session = sessions.id AND seq ="
                " (SELECT max(seq) FROM lines WHERE session = sessions.id)"
                " WHERE tenant_id = ? AND session_id > ? AND substr(session_id, 1, 1) <> '/'"
                " ORDER BY session_id LIMIT ?",
                (tenant_id, after or "", limit + 1),
            )
        entries = tuple(
            SessionEntry(session_id, seq, datetime.fromisoformat(ts).astimezone(UTC))
            for session_id, seq, ts in found[:limit]
        )
        return SessionPage(entries, entries[-1].session_id if len(found) > limit else None)

    def query(self, query: EventQuery) -> list[Event]:
        """Find events: SQL sorts out what a line tells undecoded, `matches` decides."""
        with sqlite_file.telling(self._path):
            connection = self._opened()
            where = _conditions(query)
            position = self._position(connection, query)
            if position is None and query.after is not None:
                where["event_id > ?"] = (query.after,)
            found: list[Event] = []
            position = position or 0
            while len(found) < query.limit:
                page = _page(connection, where, position)
                for position, session_id, seq, line in page:
                    (event,) = self._decode([line], query.tenant_id, session_id, seq)
                    if query.matches(event):
                        found.append(event)
                        if len(found) == query.limit:
                            self._remember(query, event, position)
                            break
                if len(page) < _AT_ONCE:
                    break
        return found

    def close(self) -> None:
        """Close the connection."""
        self._closed = True
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _opened(self) -> sqlite3.Connection:
        if self._closed:
            raise JournalError("{path}: this journal was closed", path=self._path)
        if self._connection is None:
            self._connection = sqlite_file.connect(self._path)
        return self._connection

    def _decode(
        self, lines: list[str], tenant_id: TenantId, session_id: SessionId, first: int
    ) -> list[Event]:
        def place(seq: int) -> str:
            return f"{self._path}, session {session_id}, event {seq}"

        return decode(lines, tenant_id=tenant_id, session_id=session_id, first=first, place=place)

    def _position(self, connection: sqlite3.Connection, query: EventQuery) -> int | None:
        """Find the row of `query.after`; None when no event that could be asked for bears it."""
        if query.after is None:
            return None
        seen = self._ends.get((query.after, query.session_id), 0)
        # `instr` before the id itself: it costs a tenth of reading JSON, and sorts out nearly all.
        for hint in ({"id = ?": (seen,)}, {"instr(line, ?)": (query.after,)}):
            where: _Where = {**_scope(query), **hint, "event_id = ?": (query.after,)}
            sql = f"SELECT id FROM events WHERE {' AND '.join(where)} ORDER BY id LIMIT 1"  # noqa: S608
            row = connection.execute(sql, _values(where)).fetchone()
            if row is not None:
                return row[0]
        return None

    def _remember(self, query: EventQuery, last: Event, position: int) -> None:
        if len(self._ends) >= _REMEMBERED:
            self._ends.clear()
        self._ends[last.event_id, query.session_id] = position


def _page(connection: sqlite3.Connection, where: _Where, position: int) -> list[list[Any]]:
    conditions = " AND ".join([*where, "id > ?"])
    return sqlite_file.rows(
        connection,
        "id, session_id, seq, line",
        f"SELECT id, session_id, seq, line FROM events WHERE {conditions}"  # noqa: S608
        f" ORDER BY id LIMIT {_AT_ONCE}",
        (*_values(where), position),
    )


def _scope(query: EventQuery) -> _Where:
    where: _Where = {"tenant_id = ?": (query.tenant_id,)}
    if query.session_id is not None:
        where["session_id = ?"] = (query.session_id,)
    else:  # the reserved streams are for those who name them
        where["substr(session_id, 1, 1) <> '/'"] = ()
    return where


def _conditions(query: EventQuery) -> _Where:
    """Say in SQL what it can check of `query`; the columns are those of the view."""
    where = _scope(query)
    if query.run_id is not None:  # a run's own session may bear its name, which the line leaves out
        written = encode_basestring(query.run_id)
        where["(session_id = ? OR instr(line, ?))"] = (query.run_id, written)
    types = _types(query)
    if types:
        where[f"type IN ({', '.join('?' * len(types))})"] = tuple(types)
    for column in ("agent", "role"):
        value: str | None = getattr(query, column)
        if value is not None:
            where[f"{column} = ?"] = (value,)
    if query.since is not None:
        where["ts >= ?"] = (timestamp(query.since.astimezone(UTC)),)
    if query.until is not None:
        where["ts < ?"] = (timestamp(query.until.astimezone(UTC)),)
    return where


def _types(query: EventQuery) -> list[str]:
    """List the types that `query` can find; none when it is not about types this version knows."""
    if query.types or not query.categories or "unknown" in query.categories:
        return list(query.types)
    return [name for name, payload in CATALOGUE.items() if payload.CATEGORY in query.categories]


def _values(where: _Where) -> tuple[object, ...]:
    return tuple(value for values in where.values() for value in values)
