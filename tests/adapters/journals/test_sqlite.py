"""What is particular to a journal of one SQLite file."""

import asyncio
import json
import resource
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from loom_ia.adapters.journals import sqlite, sqlite_writing
from loom_ia.adapters.journals.sqlite import SqliteJournal
from loom_ia.core.errors import JournalBusy, JournalCorrupted, JournalError, NewerJournal
from loom_ia.core.events import to_line
from tests.builders import events, placed, said, started


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the journal's file is."""
    return tmp_path / "deep" / "down" / "journal.db"


@pytest.fixture
async def journal(path: Path) -> AsyncIterator[SqliteJournal]:
    """A journal with one event."""
    opened = SqliteJournal(path)
    await opened.append(events(1), expected=0, sync=True)
    yield opened
    await opened.close()


def ask(path: Path, sql: str) -> list[tuple[object, ...]]:
    """Ask the file, as another program would."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql).fetchall()


async def test_the_settings_of_the_connections(journal: SqliteJournal, path: Path) -> None:
    """The log is written ahead, commits do not flush, readers wait for a lock."""
    assert ask(path, "PRAGMA journal_mode") == [("wal",)]
    await journal.read("acme", "session-1")
    reading, writing = journal._reader._connection, journal._writer._connection
    assert reading is not None
    assert writing is not None
    assert reading.execute("PRAGMA busy_timeout").fetchone()[0] >= 5_000
    assert writing.execute("PRAGMA synchronous").fetchone() == (1,), "NORMAL"
    assert writing.execute("PRAGMA secure_delete").fetchone() == (1,)


async def test_a_view_shows_whole_events(journal: SqliteJournal, path: Path) -> None:
    """Whoever reads the file with SQL finds the envelope in columns."""
    await journal.append([started("guest", after=1, session_id="session-1")], expected=1, sync=True)
    rows = ask(path, "SELECT tenant_id, session_id, seq, type, run_id, root_run_id FROM events")
    assert rows == [
        ("acme", "session-1", 1, "message.user", "run-1", "run-1"),
        ("acme", "session-1", 2, "run.started", "guest", "guest"),
    ]
    ((payload,),) = ask(path, "SELECT payload FROM events WHERE seq = 1")
    assert json.loads(str(payload))["message"]["role"] == "user"


async def test_a_held_lock_is_waited_for(journal: SqliteJournal, path: Path) -> None:
    """An append goes through when another process gives its lock back."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        waiting = asyncio.ensure_future(journal.append(events(1, after=1), expected=1, sync=True))
        behind = asyncio.ensure_future(
            journal.append(events(1, session_id="other"), expected=0, sync=False)
        )
        await asyncio.sleep(0)
        assert await journal.read("acme", "session-1", after=1) == []
        other.execute("COMMIT")
        assert await waiting == 2
        assert await behind == 1


async def test_a_lock_that_stays_is_told(
    journal: SqliteJournal, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lock held too long is `JournalBusy`, with the file, for each append that waited."""
    monkeypatch.setattr(sqlite, "PATIENCE_S", 0.02)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        outcomes = await asyncio.gather(
            *(
                journal.append(events(1, session_id=f"s-{n}"), expected=0, sync=False)
                for n in range(5)
            ),
            return_exceptions=True,
        )
        assert [type(outcome) for outcome in outcomes] == [JournalBusy] * 5
        assert str(outcomes[0]) == f"{path} stays locked by another process: try again"
    assert await journal.append(events(1, session_id="s-0"), expected=0, sync=False) == 1


async def test_what_is_no_journal_is_refused(tmp_path: Path) -> None:
    """A file that is no database, or another program's, is named and left as it is."""
    text = tmp_path / "notes.txt"
    text.write_text("not a database, and long enough to be seen as such" * 40)
    with pytest.raises(JournalCorrupted, match=r"notes\.txt: file is not a database"):
        await SqliteJournal(text).append(events(1), expected=0, sync=False)
    foreign = tmp_path / "foreign.db"
    ask(foreign, "CREATE TABLE events (x)")
    with pytest.raises(JournalError, match=r"foreign\.db belongs to another program"):
        await SqliteJournal(foreign).read("acme", "session-1")
    assert ask(foreign, "SELECT name FROM sqlite_master") == [("events",)]
    with pytest.raises(JournalError, match=str(tmp_path)):
        await SqliteJournal(tmp_path).append(events(1), expected=0, sync=False)


async def test_tables_of_a_later_version_are_refused(journal: SqliteJournal, path: Path) -> None:
    """Tables that this version does not know are not touched."""
    ask(path, "PRAGMA user_version = 9")
    with pytest.raises(NewerJournal, match="version 9; this version reads 1"):
        await SqliteJournal(path).append(events(1, after=1), expected=1, sync=False)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"seq":1}', "event 1: not an event: missing 'type'"),
        (to_line(events(1, after=6)[0]).decode(), "event 1: event 1 is due, not 7"),
    ],
)
async def test_damage_is_refused_with_its_place(
    journal: SqliteJournal, path: Path, line: str, reason: str
) -> None:
    """A row that holds no event, or another one, is told by file, session and place."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("UPDATE lines SET line = ?", (line,))
    with pytest.raises(JournalCorrupted, match=f"session-1, {reason}") as caught:
        await journal.read("acme", "session-1")
    assert str(path) in str(caught.value)


async def test_a_gap_is_refused(journal: SqliteJournal, path: Path) -> None:
    """A missing row is damage."""
    await journal.append(events(2, after=1), expected=1, sync=False)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("DELETE FROM lines WHERE seq = 2")
    with pytest.raises(JournalCorrupted, match="event 2 is due, not 3"):
        await journal.read("acme", "session-1")


async def test_deleted_bytes_are_gone(path: Path) -> None:
    """After a deletion no file holds what was said, not even the log."""
    journal = SqliteJournal(path)
    await journal.append(events(1, session_id="kept"), expected=0, sync=True)
    await journal.append(placed([said("a secret to forget")] * 3), expected=0, sync=True)
    assert any(b"secret" in file.read_bytes() for file in path.parent.glob("journal.db*"))
    assert await journal.delete("acme", "session-1") == 3
    assert not any(b"secret" in file.read_bytes() for file in path.parent.glob("journal.db*"))
    assert len(await journal.read("acme", "kept")) == 1
    await journal.close()


async def test_the_log_starts_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that became long is copied into the file, away from the loop, and reused."""
    monkeypatch.setattr(sqlite_writing, "_LONG_LOG", 200_000)
    journal = SqliteJournal(path)
    for n in range(300):
        await journal.append(events(1, after=n), expected=n, sync=n % 10 == 0)
    assert path.with_name("journal.db-wal").stat().st_size < 1_000_000
    assert len(await journal.read("acme", "session-1")) == 300
    await journal.close()
    assert ask(path, "SELECT count(*) FROM lines") == [(300,)]


async def test_a_full_disk_leaves_no_half_batch(journal: SqliteJournal, path: Path) -> None:
    """A batch that does not fit is rolled back and told with the path; later ones go through."""
    size = path.with_name("journal.db-wal").stat().st_size
    long = placed([said("x" * 50_000)] * 3, after=1)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 50_000, hard))
    try:
        with pytest.raises(JournalError, match=str(path)):
            await journal.append(long, expected=1, sync=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert len(await journal.read("acme", "session-1")) == 1
    assert await journal.append(long, expected=1, sync=True) == 4
    assert ask(path, "PRAGMA integrity_check") == [("ok",)]


@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("suffix", ["", "-wal"])
async def test_a_file_that_was_taken_away_is_not_written(
    path: Path, suffix: str, *, replaced: bool
) -> None:
    """What nobody could read again is refused, not written in silence."""
    opened = SqliteJournal(path)
    await opened.append(events(1), expected=0, sync=True)
    away = path.with_name(f"journal.db{suffix}")
    away.unlink()
    if replaced:
        away.touch()
    for sync in (False, True):
        with pytest.raises(JournalError, match=r"journal\.db: the file was deleted or replaced"):
            await opened.append(events(1, after=1), expected=1, sync=sync)
    await opened.close()
