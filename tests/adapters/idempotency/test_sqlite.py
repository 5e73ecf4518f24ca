"""Keys in a file: other processes, other openings, and what is left on the disk."""

import asyncio
import sqlite3
import sys
from pathlib import Path

import pytest

from loom_ia.adapters.idempotency.sqlite import SqliteIdempotency
from loom_ia.core.errors import IdempotencyStoreError
from loom_ia.core.model import ToolOutput
from tests.adapters.idempotency.test_contract import LATER, NOW, SENT, reservation

ROOT = Path(__file__).parents[3]


def left_in(folder: Path) -> bytes:
    """Read every file of a folder."""
    return b"".join(file.read_bytes() for file in folder.iterdir())


async def test_processes_share_keys(tmp_path: Path) -> None:
    """Of several processes that ask for the same keys, each key is had by exactly one."""
    racing = [
        await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.adapters.idempotency.racer",
            str(tmp_path / "keys.db"),
            f"racer-{n}",
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
        )
        for n in range(3)
    ]
    outputs = await asyncio.gather(*(process.communicate() for process in racing))
    assert [process.returncode for process in racing] == [0, 0, 0]
    had = [key for output, _ in outputs for key in output.decode().split()]
    assert sorted(had, key=int) == [str(n) for n in range(30)]


async def test_a_record_outlives_its_process(tmp_path: Path) -> None:
    """What was written is there when the file is opened again."""
    first = SqliteIdempotency(tmp_path / "keys.db")
    await first.reserve(reservation(), NOW)
    await first.complete("k", "a", SENT, LATER)
    await first.close()
    await first.close()
    second = SqliteIdempotency(tmp_path / "keys.db")
    found = await second.get("k", NOW)
    await second.close()
    assert found is not None
    assert found.result == SENT


async def test_what_is_forgotten_is_in_no_file(tmp_path: Path) -> None:
    """Neither the key nor the result of a session that was forgotten can be read on the disk."""
    store = SqliteIdempotency(tmp_path / "keys.db")
    await store.reserve(reservation("confidential-key"), NOW)
    secret = ToolOutput.of_text("confidential result " * 50)
    await store.complete("confidential-key", "a", secret, LATER)
    assert b"confidential" in (tmp_path / "keys.db").read_bytes()
    assert await store.forget("t", "s") == 1
    await store.close()
    assert b"confidential" not in left_in(tmp_path)


async def test_old_results_are_removed(tmp_path: Path) -> None:
    """A result that is out of its time is not kept for ever in the file."""
    store = SqliteIdempotency(tmp_path / "keys.db")
    await store.reserve(reservation("old"), NOW)
    await store.complete("old", "a", ToolOutput.of_text("confidential"), NOW)
    await store.reserve(reservation("new"), LATER)
    await store.close()
    assert b"confidential" not in (tmp_path / "keys.db").read_bytes()


@pytest.mark.parametrize("content", ["another program", "not a database"])
async def test_a_file_that_is_not_ours(tmp_path: Path, content: str) -> None:
    """A file of something else is refused by name and left as it is."""
    path = tmp_path / "keys.db"
    if content == "another program":
        with sqlite3.connect(path) as other:
            other.execute("CREATE TABLE theirs (x)")
        other.close()
    else:
        path.write_bytes(b"no tables here, only text, and enough of it to be read" * 30)
    before = path.read_bytes()
    store = SqliteIdempotency(path)
    with pytest.raises(IdempotencyStoreError, match=r"keys\.db"):
        await store.get("k", NOW)
    await store.close()
    assert path.read_bytes() == before


async def test_a_store_that_was_closed(tmp_path: Path) -> None:
    """A store that was closed says so."""
    store = SqliteIdempotency(tmp_path / "keys.db")
    await store.close()
    with pytest.raises(IdempotencyStoreError, match="closed"):
        await store.get("k", NOW)
