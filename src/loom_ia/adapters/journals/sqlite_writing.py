"""The connection that writes to a SQLite journal, behind one lock. Everything here may block."""

import logging
import os
import sqlite3
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Final

from loom_ia.adapters.journals import disk, sqlite_file
from loom_ia.adapters.journals.batch import run_exists, started_runs
from loom_ia.core.errors import JournalError
from loom_ia.core.events.envelope import Event
from loom_ia.core.ids import RunId, SessionId, TenantId

_log = logging.getLogger(__name__)

_LONG_LOG: Final = 4 << 20  # bytes written to the log before it is copied into the file
_COMMIT_BYTES: Final = 3 * 4096  # what a small commit writes: the last pages of a table, of indexes
_SHORT_WAIT_S: Final = 0.0005
_READERS_PATIENCE_S: Final = 5.0


class SqliteWriter:
    """The one writer of this process. It opens the file when it first has to wait anyway."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = Lock()
        self._connection: sqlite3.Connection | None = None
        self._log_descriptor = -1
        self._inode = 0
        self._log_bytes = 0
        self._closed = False

    def append_at_once(
        self, batch: Sequence[Event], lines: Sequence[str], expected: int
    ) -> int | None:
        """Write `batch` and return the last place; None, and nothing written, if it must wait."""
        # A short wait: who goes to the thread makes the next ones follow him there.
        if not self._lock.acquire(timeout=_SHORT_WAIT_S):
            return None
        try:
            if self._connection is None:
                return None
            with sqlite_file.telling(self._path):
                try:
                    return self._append(self._connection, batch, lines, expected)
                except sqlite3.OperationalError as error:
                    if sqlite_file.is_busy(error):
                        return None
                    raise
        finally:
            self._lock.release()

    def append(
        self, batch: Sequence[Event], lines: Sequence[str], expected: int, deadline: float
    ) -> int | None:
        """Write `batch` and return the last place; None when `expected` is not the last one."""
        with self._waiting(deadline) as connection:
            return self._append(connection, batch, lines, expected)

    def delete(self, tenant_id: TenantId, session_id: SessionId, deadline: float) -> int:
        """Remove a session and every trace of its bytes; return how many events it had."""
        with self._waiting(deadline) as connection:
            with sqlite_file.transaction(connection):
                number, last = _session(connection, tenant_id, session_id)
                if number is None:
                    return 0
                connection.execute("DELETE FROM runs WHERE session = ?", (number,))
                connection.execute("DELETE FROM lines WHERE session = ?", (number,))
                connection.execute("DELETE FROM sessions WHERE id = ?", (number,))
            sqlite_file.wait_for_others(connection, _READERS_PATIENCE_S)
            if not sqlite_file.checkpoint(connection, truncate=True):
                _log.warning("%s: a reader keeps the log, deleted events stay there", self._path)
            return last

    def wants_checkpoint(self) -> bool:
        """Tell, once each time, that the log has become long."""
        if self._log_bytes < _LONG_LOG:
            return False
        self._log_bytes = 0
        return True

    def checkpoint(self) -> None:
        """Copy the log into the file; when that fails, the next time will do."""
        try:
            with self._waiting(time.monotonic()) as connection:
                sqlite_file.checkpoint(connection)
        except JournalError as error:
            _log.warning("the log stays long: %s", error)

    def flush(self) -> None:
        """Flush every commit made before this call, by any process."""
        descriptor = self._log_descriptor
        if descriptor >= 0:
            disk.sync_data(descriptor)

    def close(self) -> None:
        """Close the file; the last to do so in any process copies the log into it."""
        with self._lock, sqlite_file.telling(self._path):
            self._closed = True
            connection, self._connection = self._connection, None
            descriptor, self._log_descriptor = self._log_descriptor, -1
            if connection is not None:
                os.close(descriptor)
                connection.close()

    @contextmanager
    def _waiting(self, deadline: float) -> Generator[sqlite3.Connection]:
        with self._lock, sqlite_file.telling(self._path):
            connection = self._opened()
            sqlite_file.wait_for_others(connection, max(0.0, deadline - time.monotonic()))
            try:
                yield connection
            finally:
                sqlite_file.wait_for_others(connection, 0)

    def _opened(self) -> sqlite3.Connection:
        if self._closed:
            raise JournalError("{path}: this journal was closed", path=self._path)
        if self._connection is None:
            connection = sqlite_file.connect(self._path)
            try:
                self._inode = self._path.stat().st_ino
                self._log_descriptor = os.open(f"{self._path}-wal", os.O_RDONLY)
                disk.sync_folder(self._path.parent)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _require_in_place(self) -> None:
        """Refuse to go on with a file that is not there any more: nobody could open it again."""
        try:
            found = self._path.stat().st_ino
        except FileNotFoundError:
            found = None
        if found != self._inode or os.fstat(self._log_descriptor).st_nlink == 0:
            raise JournalError(
                "{path}: {reason}",
                path=self._path,
                reason="the file was deleted or replaced while it was open",
            )

    def _append(
        self,
        connection: sqlite3.Connection,
        batch: Sequence[Event],
        lines: Sequence[str],
        expected: int,
    ) -> int | None:
        tenant_id, session_id = batch[0].tenant_id, batch[0].session_id
        self._require_in_place()
        with sqlite_file.transaction(connection):
            number, last = _session(connection, tenant_id, session_id)
            if last != expected:
                return None
            if number is None:
                number = connection.execute(
                    "INSERT INTO sessions (tenant_id, session_id) VALUES (?, ?)",
                    (tenant_id, session_id),
                ).lastrowid
            for run_id in started_runs(batch):
                _claim(connection, tenant_id, run_id, number)
            connection.executemany(
                "INSERT INTO lines (session, seq, line) VALUES (?, ?, ?)",
                [(number, seq, line) for seq, line in enumerate(lines, expected + 1)],
            )
        self._log_bytes += _COMMIT_BYTES + sum(map(len, lines))
        return expected + len(lines)


def _session(
    connection: sqlite3.Connection, tenant_id: TenantId, session_id: SessionId
) -> tuple[int | None, int]:
    row = connection.execute(
        "SELECT id, (SELECT max(seq) FROM lines WHERE session = sessions.id) FROM sessions"
        " WHERE tenant_id = ? AND session_id = ?",
        (tenant_id, session_id),
    ).fetchone()
    return (None, 0) if row is None else (row[0], row[1])


def _claim(
    connection: sqlite3.Connection, tenant_id: TenantId, run_id: RunId, number: int | None
) -> None:
    try:
        connection.execute("INSERT INTO runs VALUES (?, ?, ?)", (tenant_id, run_id, number))
    except sqlite3.IntegrityError:
        owner = sqlite_file.session_of_run(connection, tenant_id, run_id)
        raise run_exists(run_id, owner or "") from None
