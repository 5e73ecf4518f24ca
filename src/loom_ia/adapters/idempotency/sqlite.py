"""Keys in one SQLite file, for any number of processes of one host.

Each operation is one transaction that waits for the disk: a key is written twice for each effect,
and the second effect that it prevents costs more. There is no write-ahead log, so that what was
forgotten is in no file any more: deleted content is overwritten with zeros (`secure_delete`), and
the rollback journal goes with its transaction (https://sqlite.org/pragma.html#pragma_secure_delete).
"""

import asyncio
import sqlite3
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import ValidationError

from loom_ia.core.errors import IdempotencyStoreError
from loom_ia.core.ids import SessionId, TenantId
from loom_ia.core.model.content import ToolOutput
from loom_ia.core.ports.idempotency import Record

T = TypeVar("T")

_VERSION: Final = 1
_PATIENCE_S: Final = 10.0
_SCHEMA: Final = """
CREATE TABLE records (
  key TEXT PRIMARY KEY,
  state TEXT NOT NULL CHECK (state IN ('in_progress', 'completed')),
  holder TEXT NOT NULL,
  tenant_id TEXT NOT NULL,
  session_id TEXT NOT NULL,
  expires_at INTEGER NOT NULL,
  result TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX records_of_session ON records (tenant_id, session_id);
CREATE INDEX records_by_age ON records (expires_at) WHERE state = 'completed';
"""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


class SqliteIdempotency:
    """Keeps records in the file `path`, created with its folder at the first use."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._connection: sqlite3.Connection | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="loom-sqlite-keys")
        self._closed = False

    async def get(self, key: str, now: datetime) -> Record | None:
        return await self._do(lambda db: self._found(db, key, now))

    async def reserve(
        self, reservation: Record, now: datetime, *, instead_of: str | None = None
    ) -> Record | None:
        def reserve(db: sqlite3.Connection) -> Record | None:
            old = "DELETE FROM records WHERE state = 'completed' AND expires_at <= ?"
            db.execute(old, (_micros(now),))
            found = self._found(db, reservation.key, now)
            if found and (found.state == "completed" or found.holder != instead_of):
                return found
            db.execute(
                "INSERT OR REPLACE INTO records VALUES (?, 'in_progress', ?, ?, ?, ?, NULL)",
                (
                    reservation.key,
                    reservation.holder,
                    reservation.tenant_id,
                    reservation.session_id,
                    _micros(reservation.expires_at),
                ),
            )
            return None

        return await self._do(reserve)

    async def complete(
        self, key: str, holder: str, result: ToolOutput, expires_at: datetime
    ) -> bool:
        values = (result.model_dump_json(), _micros(expires_at), key, holder)
        update = (
            "UPDATE records SET state = 'completed', result = ?, expires_at = ?"
            " WHERE key = ? AND holder = ? AND state = 'in_progress'"
        )
        return await self._do(lambda db: db.execute(update, values).rowcount) > 0

    async def release(self, key: str, holder: str) -> bool:
        delete = "DELETE FROM records WHERE key = ? AND holder = ? AND state = 'in_progress'"
        return await self._do(lambda db: db.execute(delete, (key, holder)).rowcount) > 0

    async def forget(self, tenant_id: TenantId, session_id: SessionId) -> int:
        delete = "DELETE FROM records WHERE tenant_id = ? AND session_id = ?"
        return await self._do(lambda db: db.execute(delete, (tenant_id, session_id)).rowcount)

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            await asyncio.to_thread(self._shut)

    async def _do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do `work` in one transaction, in the thread of this store."""
        if self._closed:
            raise IdempotencyStoreError("{path}: this store was closed", path=self._path)

        def transaction() -> T:
            with self._telling():
                db = self._open()
                db.execute("BEGIN IMMEDIATE")
                try:
                    outcome = work(db)
                    db.execute("COMMIT")
                except BaseException:
                    if db.in_transaction:
                        with suppress(sqlite3.Error):  # the first error is the one to tell
                            db.execute("ROLLBACK")
                    raise
                return outcome

        return await asyncio.get_running_loop().run_in_executor(self._thread, transaction)

    def _found(self, db: sqlite3.Connection, key: str, now: datetime) -> Record | None:
        select = "SELECT * FROM records WHERE key = ? AND (state != 'completed' OR expires_at > ?)"
        row: tuple[Any, ...] | None = db.execute(select, (key, _micros(now))).fetchone()
        if row is None:
            return None
        _, state, holder, tenant_id, session_id, expires_at, result = row
        try:
            output = ToolOutput.model_validate_json(result) if result is not None else None
        except ValidationError as error:
            template = "{path}: the result of {key} cannot be read by this version"
            raise IdempotencyStoreError(template, path=self._path, key=key) from error
        until = _EPOCH + expires_at * _MICROSECOND
        return Record(key, state, holder, tenant_id, session_id, until, output)

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            db = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
            try:
                db.execute(f"PRAGMA busy_timeout = {int(_PATIENCE_S * 1000)}")
                db.execute("PRAGMA synchronous = EXTRA")
                db.execute("PRAGMA secure_delete = ON")
                _create(db, self._path)
            except BaseException:
                db.close()
                raise
            self._connection = db
        return self._connection

    def _shut(self) -> None:
        self._thread.shutdown()
        if self._connection is not None:
            self._connection.close()

    @contextmanager
    def _telling(self) -> Generator[None]:
        """Turn an error of SQLite or of the system into one of the store that names the file."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
            template = "{path}: {reason}"
            raise IdempotencyStoreError(template, path=self._path, reason=reason) from error


def _create(db: sqlite3.Connection, path: Path) -> None:
    db.execute("BEGIN IMMEDIATE")
    try:
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if version > _VERSION:
            template = "{path} has tables of version {version}; this version reads {known}"
            raise IdempotencyStoreError(template, path=path, version=version, known=_VERSION)
        if version == 0:
            if db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                template = "{path} belongs to another program: choose another file"
                raise IdempotencyStoreError(template, path=path)
            for statement in filter(str.strip, _SCHEMA.split(";")):
                db.execute(statement)
            db.execute(f"PRAGMA user_version = {_VERSION}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _micros(instant: datetime) -> int:
    return (instant - _EPOCH) // _MICROSECOND
