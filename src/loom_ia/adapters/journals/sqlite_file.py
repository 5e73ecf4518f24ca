"""One SQLite file: its tables, its connection, and how its errors are told.

Everything here blocks. Session ids are written once and numbered, so that an event costs its line
and a few bytes; `lines.id` is the order of writing. What a line says already is not kept beside
it: the view `events` shows it to whoever reads the file with SQL.
"""

import json
import sqlite3
import time
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from loom_ia.adapters.journals import disk
from loom_ia.adapters.journals.flock import PATIENCE_S
from loom_ia.core.errors import JournalBusy, JournalCorrupted, JournalError, NewerJournal
from loom_ia.core.ids import RunId, SessionId, TenantId

_VERSION: Final = 1
_SCHEMA: Final = """
CREATE TABLE sessions (
  id INTEGER PRIMARY KEY,
  tenant_id TEXT NOT NULL,
  session_id TEXT NOT NULL,
  UNIQUE (tenant_id, session_id)
) STRICT;
CREATE TABLE lines (
  id INTEGER PRIMARY KEY,
  session INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  line TEXT NOT NULL,
  UNIQUE (session, seq)
) STRICT;
CREATE TABLE runs (
  tenant_id TEXT NOT NULL,
  run_id TEXT NOT NULL,
  session INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, run_id)
) STRICT, WITHOUT ROWID;
CREATE VIEW events AS SELECT
  lines.id, tenant_id, session_id, seq, line ->> '$.event_id' AS event_id, line ->> '$.ts' AS ts,
  coalesce(line ->> '$.run_id', session_id) AS run_id,
  coalesce(line ->> '$.root_run_id', line ->> '$.run_id', session_id) AS root_run_id,
  line ->> '$.type' AS type, line ->> '$.agent' AS agent, line ->> '$.role' AS role,
  line -> '$.payload' AS payload, line
  FROM lines JOIN sessions ON sessions.id = lines.session;
"""


def connect(path: Path) -> sqlite3.Connection:
    """Open the file, in WAL mode, with the tables there; create what is missing.

    Commits do not flush (`synchronous = NORMAL`, https://sqlite.org/pragma.html#pragma_synchronous:
    in WAL mode a power cut may roll them back, and nothing worse). Checkpoints are left to
    `checkpoint`.
    """
    with telling(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            wait_for_others(connection, PATIENCE_S)
            _use_wal(connection)
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA wal_autocheckpoint = 0")
            connection.execute("PRAGMA secure_delete = ON")
            _create(connection, path)
        except BaseException:
            connection.close()
            raise
    return connection


def wait_for_others(connection: sqlite3.Connection, seconds: float) -> None:
    """Set how long a statement waits for the lock of another process."""
    connection.execute(f"PRAGMA busy_timeout = {int(seconds * 1000)}")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Generator[None]:
    """Hold the lock of writers; commit at the end, roll back on any exception."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            with suppress(sqlite3.Error):  # the first error is the one to tell
                connection.execute("ROLLBACK")
        raise


def rows(
    connection: sqlite3.Connection, columns: str, select: str, values: Sequence[object]
) -> list[list[Any]]:
    """Fetch `columns` of what `select` gives, in its order.

    As one value: sqlite3 lets go of the interpreter at each row, and where the loop is busy it
    waits up to 5 ms to have it back. An aggregate keeps the order of the query below it.
    """
    query = f"SELECT json_group_array(json_array({columns})) FROM ({select})"  # noqa: S608
    return json.loads(connection.execute(query, values).fetchone()[0])


def session_of_run(
    connection: sqlite3.Connection, tenant_id: TenantId, run_id: RunId
) -> SessionId | None:
    """Find the session of a run."""
    row = connection.execute(
        "SELECT session_id FROM runs JOIN sessions ON sessions.id = runs.session"
        " WHERE runs.tenant_id = ? AND run_id = ?",
        (tenant_id, run_id),
    ).fetchone()
    return None if row is None else row[0]


def checkpoint(connection: sqlite3.Connection, *, truncate: bool = False) -> bool:
    """Copy the log into the file, so that it can start again; tell whether all of it was.

    The next commit will flush the header of the new log: an idle commit does it here.
    """
    mode = "TRUNCATE" if truncate else "PASSIVE"
    busy, pages, copied = connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
    connection.execute(f"PRAGMA user_version = {_VERSION}")
    return not busy and pages == copied


@contextmanager
def telling(path: Path) -> Generator[None]:
    """Turn an error of SQLite or of the system into one of the journal that names `path`."""
    try:
        with disk.telling(path):
            yield
    except sqlite3.Error as error:
        raise _told(path, getattr(error, "sqlite_errorcode", 0), str(error)) from error


def is_busy(error: sqlite3.Error) -> bool:
    """Tell whether another process holds a lock that the statement needs."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


def _told(path: Path, code: int, reason: str) -> JournalError:
    match code & 0xFF:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return JournalBusy("{path} stays locked by another process: try again", path=path)
        case sqlite3.SQLITE_FULL:
            return JournalBusy("{path}: the disk is full; make room, then try again", path=path)
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return JournalCorrupted(
                "{path}: {reason}; restore the file from a copy", path=path, reason=reason
            )
        case _:
            return JournalError("{path}: {reason}", path=path, reason=reason)


def _use_wal(connection: sqlite3.Connection) -> None:
    # While another process switches, SQLite answers BUSY at once, whatever the timeout.
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            with closing(connection.execute("PRAGMA journal_mode = WAL")) as answer:
                mode = answer.fetchone()[0]
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.005)
        else:
            if mode != "wal":
                raise sqlite3.OperationalError(f"the journal mode stays {mode}, and must be wal")
            return


def _create(connection: sqlite3.Connection, path: Path) -> None:
    if _is_created(connection, path):  # asked without a lock, for a reader waits for no writer
        return
    with transaction(connection):
        if _is_created(connection, path):
            return
        if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            raise JournalError("{path} belongs to another program: choose another file", path=path)
        for statement in _SCHEMA.split(";"):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {_VERSION}")


def _is_created(connection: sqlite3.Connection, path: Path) -> bool:
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > _VERSION:
        raise NewerJournal(
            "{path} has tables of version {version}; this version reads {known}",
            path=path,
            version=version,
            known=_VERSION,
        )
    return version == _VERSION
