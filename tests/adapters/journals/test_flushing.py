"""Two levels of durability: what reaches the disk, and when."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest

from loom_ia.adapters.journals import disk
from loom_ia.core.errors import JournalError
from loom_ia.core.ports import Journal
from tests.builders import events, started


class Flushes:
    """The files and folders that were flushed, by name, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.files: list[str] = []
        self.folders: list[str] = []
        self.failing = False
        self.gate = Event()
        self.gate.set()
        data, folder = disk.sync_data, disk.sync_folder

        def sync_data(descriptor: int) -> None:
            if self.failing:
                raise OSError(5, "Input/output error")
            self.files.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
            self.gate.wait()
            data(descriptor)

        def sync_folder(path: Path) -> None:
            self.folders.append(path.name)
            folder(path)

        monkeypatch.setattr(disk, "sync_data", sync_data)
        monkeypatch.setattr(disk, "sync_folder", sync_folder)


@pytest.fixture
def flushes(monkeypatch: pytest.MonkeyPatch) -> Flushes:
    """Count what is asked of the disk."""
    return Flushes(monkeypatch)


async def test_only_a_sync_append_flushes(
    make_on_disk: Callable[[Path], Journal], tmp_path: Path, flushes: Flushes
) -> None:
    """An append flushes nothing unless asked, and then once; a flush does as much."""
    journal = make_on_disk(tmp_path)
    await journal.append(events(1), expected=0, sync=True)
    flushes.files.clear()
    await journal.append(events(1, after=1), expected=1, sync=False)
    await journal.append(events(1, after=2), expected=2, sync=False)
    assert flushes.files == []
    await journal.append(events(1, after=3), expected=3, sync=True)
    assert len(flushes.files) == 1
    await journal.append(events(1, after=4), expected=4, sync=False)
    await journal.flush()
    assert len(flushes.files) == 2
    await journal.append(events(9), expected=0, sync=True)
    assert len(flushes.files) == 2, "a conflict wrote nothing"
    await journal.close()


async def test_sqlite_flushes_its_log(
    make_journal: Callable[[str], Journal], flushes: Flushes
) -> None:
    """The file that a flush of SQLite covers is the write-ahead log."""
    journal = make_journal("sqlite")
    await journal.append(events(1), expected=0, sync=True)
    assert flushes.files == ["journal.db-wal"]
    await journal.close()


async def test_jsonl_flushes_every_session_written(
    make_journal: Callable[[str], Journal], flushes: Flushes
) -> None:
    """A sync append covers earlier facts of other sessions, and nothing twice."""
    journal = make_journal("jsonl")
    for name in ("a", "b"):
        await journal.append(events(1, session_id=name), expected=0, sync=False)
    await journal.append(events(1, session_id="c"), expected=0, sync=True)
    assert sorted(flushes.files) == ["a.jsonl", "b.jsonl", "c.jsonl"]
    await journal.append(events(1, after=1, session_id="a"), expected=1, sync=True)
    assert flushes.files[3:] == ["a.jsonl"]
    await journal.close()


async def test_jsonl_flushes_the_names_it_makes(
    make_journal: Callable[[str], Journal], flushes: Flushes
) -> None:
    """A new file, a new folder and the link of a run are flushed with their folders, once."""
    journal = make_journal("jsonl")
    await journal.append([started("run-1")], expected=0, sync=True)
    assert {"acme", "journal"} <= set(flushes.folders)
    assert ".runs" not in flushes.folders
    flushes.folders.clear()
    await journal.append(events(1, after=1, session_id="run-1"), expected=1, sync=True)
    assert flushes.folders == []
    guest = [started("guest", after=2, session_id="run-1")]
    await journal.append(guest, expected=2, sync=True)
    assert ".runs" in flushes.folders
    flushes.folders.clear()
    await journal.append([started("run-2")], expected=0, sync=True)
    assert flushes.folders == ["acme"]
    await journal.close()


@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
async def test_concurrent_appends_share_flushes(
    kind: str, make_journal: Callable[[str], Journal], flushes: Flushes
) -> None:
    """Of fifty sync appends at once, those that come during a flush share the next one."""
    journal = make_journal(kind)
    await journal.append(events(1, session_id="s"), expected=0, sync=True)
    flushes.files.clear()
    flushes.gate.clear()
    last = 1
    waiting: list[asyncio.Task[object]] = []
    for _ in range(50):
        batch = events(2, after=last, session_id="s")
        waiting.append(asyncio.ensure_future(journal.append(batch, expected=last, sync=True)))
        last += 2
    await asyncio.sleep(0)  # each of them wrote, and waits
    flushes.gate.set()
    assert await asyncio.gather(*waiting) == list(range(3, 102, 2))
    assert len(flushes.files) <= 2
    await journal.close()


async def test_closing_flushes(
    make_on_disk: Callable[[Path], Journal], tmp_path: Path, flushes: Flushes
) -> None:
    """What was written is flushed at the latest when the journal is closed."""
    journal = make_on_disk(tmp_path)
    await journal.append(events(1), expected=0, sync=False)
    await journal.close()
    assert len(flushes.files) == 1


async def test_a_failed_flush_is_never_forgotten(
    make_on_disk: Callable[[Path], Journal], tmp_path: Path, flushes: Flushes
) -> None:
    """Once the disk refused, no later flush of this journal claims that it succeeded."""
    journal = make_on_disk(tmp_path)
    await journal.append(events(1), expected=0, sync=True)
    flushes.failing = True
    with pytest.raises(JournalError, match="Input/output error"):
        await journal.append(events(1, after=1), expected=1, sync=True)
    flushes.failing = False
    with pytest.raises(JournalError, match="open the journal anew"):
        await journal.flush()
    with pytest.raises(JournalError, match="did not take"):
        await journal.close()
    again = make_on_disk(tmp_path)
    assert len(await again.read("acme", "session-1")) == 2
    await again.close()


async def test_a_closed_journal_says_so(
    make_on_disk: Callable[[Path], Journal], tmp_path: Path
) -> None:
    """Nothing is written to, or read from, a journal that was closed."""
    journal = make_on_disk(tmp_path)
    await journal.append(events(1), expected=0, sync=False)
    await journal.close()
    with pytest.raises(JournalError, match="was closed"):
        await journal.append(events(1, after=1), expected=1, sync=False)
    with pytest.raises(JournalError, match="was closed"):
        await journal.read("acme", "session-1")


async def test_an_unused_descriptor_is_not_kept(
    make_journal: Callable[[str], Journal], tmp_path: Path
) -> None:
    """However many sessions were written, few files stay open, and none after closing."""
    journal = make_journal("jsonl")
    for n in range(300):
        await journal.append(events(1, session_id=f"s-{n}"), expected=0, sync=n % 50 == 0)
    await journal.flush()
    assert len(_open_files(tmp_path)) <= 260
    await journal.close()
    assert _open_files(tmp_path) == []


def _open_files(folder: Path) -> list[str]:
    found: list[str] = []
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            target = descriptor.readlink()
        except FileNotFoundError:
            continue
        if target.is_relative_to(folder):
            found.append(str(target))
    return found
