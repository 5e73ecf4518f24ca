"""Locks that tell whether a driver lives."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from loom_ia.adapters.journals import driver_locks
from loom_ia.adapters.journals.driver_locks import FileDriverLocks
from loom_ia.core.errors import JournalBusy, JournalError, UnusableId
from loom_ia.core.ports import Journal
from tests.adapters.journals.test_processes import run_writer


def names_in(folder: Path) -> list[str]:
    """Give the names that a folder holds."""
    return [path.name for path in folder.iterdir()]


@pytest.fixture
def locks(tmp_path: Path) -> FileDriverLocks:
    """Locks of a folder that does not exist yet."""
    return FileDriverLocks(tmp_path / ".locks")


def test_a_lock_that_nobody_ever_held_is_free(locks: FileDriverLocks) -> None:
    """No file means no driver."""
    assert locks.is_free("worker-1")


def test_a_lock_of_this_process_is_held_until_released(locks: FileDriverLocks) -> None:
    """The holder sees its own lock as held; releasing it, even twice, frees it."""
    held = locks.hold("worker-1")
    assert held.name == "worker-1"
    assert not locks.is_free("worker-1")
    assert locks.is_free("worker-2")
    held.release()
    assert locks.is_free("worker-1")
    again = locks.hold("worker-1")
    held.release()
    assert not locks.is_free("worker-1")
    again.release()


def test_a_held_lock_is_not_given_twice(
    locks: FileDriverLocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two drivers never bear the same name."""
    monkeypatch.setattr(driver_locks, "_PATIENCE_S", 0)
    held = locks.hold("worker-1")
    with pytest.raises(JournalBusy, match="worker-1"):
        locks.hold("worker-1")
    held.release()


def test_what_was_taken_is_released_together(locks: FileDriverLocks) -> None:
    """Whoever closes a journal lets go of each lock that was taken through it."""
    held = locks.hold("worker-1")
    locks.hold("worker-2")
    held.release()
    locks.release()
    assert locks.is_free("worker-1")
    assert locks.is_free("worker-2")


def test_a_lock_has_a_safe_name(locks: FileDriverLocks) -> None:
    """A name that would leave the folder is refused."""
    for use in (locks.hold, locks.is_free):
        with pytest.raises(UnusableId, match="name of a lock"):
            use("../other")


def test_a_lock_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    """A folder that cannot be is an error of the journal with its path."""
    (tmp_path / "file").touch()
    with pytest.raises(JournalError, match="file"):
        FileDriverLocks(tmp_path / "file").hold("worker-1")


async def test_a_lock_lives_and_dies_with_its_process(
    locks: FileDriverLocks, tmp_path: Path
) -> None:
    """A stopped driver holds its lock; a killed one does not, and leaves no file for long."""
    process = await run_writer("hold", tmp_path / ".locks", "worker-1")
    assert process.stdout is not None
    assert await process.stdout.readline() == b"held\n"
    assert not locks.is_free("worker-1")
    process.send_signal(signal.SIGSTOP)
    assert not locks.is_free("worker-1")
    process.kill()
    await process.communicate()
    assert locks.is_free("worker-1")
    assert names_in(tmp_path / ".locks") == []


async def test_a_child_does_not_hold_the_lock_of_its_dead_parent(
    locks: FileDriverLocks, tmp_path: Path
) -> None:
    """The lock falls with the driver although a process that it forked lives on."""
    process = await run_writer("hold", tmp_path / ".locks", "worker-1", "fork")
    assert process.stdout is not None
    assert await process.stdout.readline() == b"held\n"
    assert await process.stdout.readline() == b"left behind\n"
    assert locks.is_free("worker-1")
    os.killpg(process.pid, signal.SIGKILL)
    await process.stdout.read()


@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
async def test_journals_on_disk_offer_locks_beside_them(
    kind: str, make_journal: Callable[[str], Journal], tmp_path: Path
) -> None:
    """Two journals at the same place see each other's locks, in a folder that is no session."""
    one, two = make_journal(kind), make_journal(kind)
    assert one.locks is not None
    assert two.locks is not None
    held = one.locks.hold("worker-1")
    assert not two.locks.is_free("worker-1")
    folder = tmp_path if kind == "sqlite" else tmp_path / "journal"
    assert names_in(folder / ".locks") == ["worker-1"]
    held.release()
    assert (await one.sessions("acme")).sessions == ()
    await one.close()
    await two.close()


def test_words_reach_the_other_processes_once(tmp_path: Path) -> None:
    """Nothing of before the first question, then each word once, however long the file became."""
    one, two = FileDriverLocks(tmp_path), FileDriverLocks(tmp_path)
    one.leave_word("before")
    assert list(two.words()) == []
    one.leave_word("first")
    one.leave_word("second")
    assert list(two.words()) == ["first", "second"]
    assert list(two.words()) == []
    one.leave_word("x" * 70_000)
    assert len(two.words()) == 1
    one.leave_word("anew")
    assert list(two.words()) == ["anew"]


def test_words_are_lost_where_there_is_no_room(tmp_path: Path) -> None:
    """A folder that is not there costs nobody anything."""
    locks = FileDriverLocks(tmp_path / "nowhere")
    locks.leave_word("lost")
    assert list(locks.words()) == []
