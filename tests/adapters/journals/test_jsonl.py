"""What is particular to a journal of files: torn ends, damage, names, other writers."""

import fcntl
import json
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from loom_ia.adapters.journals import disk, flock, jsonl, jsonl_reading
from loom_ia.adapters.journals.jsonl import JsonlJournal
from loom_ia.core.errors import (
    JournalBusy,
    JournalCorrupted,
    NewerJournal,
    RunExists,
    UnusableId,
)
from loom_ia.core.events import EventQuery, to_line
from loom_ia.core.ids import STORE_STREAM
from loom_ia.core.ports import SequenceConflict
from tests.builders import events, placed, said, started


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Where the journal's files are."""
    return tmp_path / "journal"


@pytest.fixture
async def written(root: Path) -> bytes:
    """The bytes of a session of two batches: two events, then three."""
    journal = JsonlJournal(root)
    await journal.append(events(2), expected=0, sync=False)
    await journal.append(events(3, after=2), expected=2, sync=False)
    await journal.close()
    return session_file(root).read_bytes()


def session_file(root: Path, session_id: str = "session-1") -> Path:
    """Give the file of a session."""
    return root / "acme" / f"{session_id}.jsonl"


async def test_a_line_says_how_many_follow(written: bytes) -> None:
    """Each line but the last of a batch tells how many of its batch come after it."""
    told = [json.loads(line).get("following", 0) for line in written.splitlines()]
    assert told == [1, 0, 2, 1, 0]


async def test_a_batch_torn_anywhere_is_set_aside(
    root: Path, written: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut at any byte, the last batch is kept beside, reported, and the place is free again."""
    monkeypatch.setattr(disk, "sync_data", lambda descriptor: None)  # a thousand flushes are long
    monkeypatch.setattr(disk, "sync_folder", lambda folder: None)
    first = len(b"".join(written.splitlines(keepends=True)[:2]))
    path = session_file(root)
    aside = path.with_name("session-1.jsonl.corrupt")
    for reading_first in (True, False):
        for cut in range(first + 1, len(written)):
            path.write_bytes(written[:cut])
            aside.unlink(missing_ok=True)
            journal = JsonlJournal(root)
            if reading_first:
                assert [event.seq for event in await journal.read("acme", "session-1")] == [1, 2]
            again = events(1, after=2)
            assert await journal.append(again, expected=2, sync=False) == 3
            (damage,) = journal.damages()
            assert (damage.session_id, damage.kept_in, damage.size) == (
                "session-1",
                str(aside),
                cut - first,
            )
            assert aside.read_bytes() == written[first:cut]
            assert path.read_bytes() == written[:first] + to_line(again[0]) + b"\n"
            await journal.close()


async def test_a_first_batch_torn_leaves_an_empty_session(root: Path, written: bytes) -> None:
    """A session of which only an incomplete batch was written has no event, and can be opened."""
    session_file(root).write_bytes(written[:300])
    journal = JsonlJournal(root)
    assert (await journal.sessions("acme")).sessions == ()
    assert await journal.read("acme", "session-1") == []
    assert await journal.append(events(1), expected=0, sync=True) == 1
    await journal.close()


async def test_a_page_that_never_reached_the_disk(root: Path, written: bytes) -> None:
    """Zeros inside the last batch are what a power cut leaves of it: it is set aside."""
    first = len(b"".join(written.splitlines(keepends=True)[:2]))
    session_file(root).write_bytes(written[: first + 5] + bytes(40) + written[first + 45 :])
    journal = JsonlJournal(root)
    assert len(await journal.read("acme", "session-1")) == 2
    assert journal.damages()[0].size == len(written) - first
    await journal.close()


async def test_a_batch_being_written_is_no_damage(
    root: Path, written: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While its writer holds the lock, half a batch is not there yet, and stays where it is."""
    monkeypatch.setattr(jsonl_reading, "_SETTLING_S", 0)
    session_file(root).write_bytes(written[:-10])
    journal = JsonlJournal(root)
    with session_file(root).open("rb+") as writer:
        fcntl.flock(writer, fcntl.LOCK_EX)
        assert len(await journal.read("acme", "session-1")) == 2
        writer.seek(0, os.SEEK_END)
        writer.write(written[-10:])
    assert len(await journal.read("acme", "session-1")) == 5
    assert journal.damages() == ()
    await journal.close()


@pytest.mark.parametrize(
    ("line", "change", "reason"),
    [
        (2, lambda line: b"not JSON", "line 2: not an event: expected"),
        (2, lambda line: b"", "line 2: not an event: EOF"),
        (3, lambda line: line.replace(b'"seq":3', b'"seq":4'), "line 3: event 3 is due, not 4"),
        (4, lambda line: line.replace(b'"following":1', b'"following":3'), "line 4: the batch"),
        (3, lambda line: line.replace(b'"message":', b'"massage":'), "line 3: not an event"),
        (1, lambda line: line.replace(b'"ts":', b'"at":'), "line 1: not an event: missing 'ts'"),
    ],
)
async def test_damage_in_the_middle_is_refused_with_its_place(
    root: Path, written: bytes, line: int, change: Callable[[bytes], bytes], reason: str
) -> None:
    """A line that is no event, or not the one due, is told by file, line and reason."""
    lines = written.split(b"\n")
    lines[line - 1] = change(lines[line - 1])
    session_file(root).write_bytes(b"\n".join(lines))
    journal = JsonlJournal(root)
    with pytest.raises(JournalCorrupted, match=reason) as caught:
        await journal.read("acme", "session-1")
    assert str(session_file(root)) in str(caught.value)
    assert session_file(root).read_bytes() == b"\n".join(lines), "damage is left as it is"
    assert journal.damages() == ()
    await journal.close()


async def test_a_damaged_end_stops_writers_and_deletion_does_not_mind(
    root: Path, written: bytes
) -> None:
    """Nothing is added after a last line that is no event; the session is listed, and deletable."""
    session_file(root).write_bytes(written + b"not JSON\n")
    journal = JsonlJournal(root)
    with pytest.raises(JournalCorrupted, match="line 6: not an event"):
        await journal.append(events(1, after=5), expected=5, sync=False)
    assert [entry.last_seq for entry in (await journal.sessions("acme")).sessions] == [6]
    assert await journal.delete("acme", "session-1") == 6
    assert not session_file(root).exists()
    await journal.close()


async def test_deleting_takes_what_was_set_aside(root: Path, written: bytes) -> None:
    """Nothing of a deleted session stays, not even the incomplete batch that was kept."""
    session_file(root).write_bytes(written[:-10])
    journal = JsonlJournal(root)
    await journal.read("acme", "session-1")
    await journal.delete("acme", "session-1")
    assert [path.name for path in (root / "acme").iterdir()] == [".runs"]
    await journal.close()


async def test_other_writers_are_noticed(root: Path) -> None:
    """What another process wrote, deleted or wrote again is never taken for our own end."""
    ours, theirs = JsonlJournal(root), JsonlJournal(root)
    await ours.append(events(1), expected=0, sync=False)
    more = events(2, after=1)
    await theirs.append(more, expected=1, sync=False)
    late = await ours.append(events(1, after=1), expected=1, sync=False)
    assert late == SequenceConflict(1, tuple(more))
    assert await ours.append(events(1, after=3), expected=3, sync=False) == 4
    assert await theirs.delete("acme", "session-1") == 4
    assert await ours.append(events(1, after=4), expected=4, sync=False) == SequenceConflict(4, ())
    assert not session_file(root).exists()
    anew = events(1)
    assert await theirs.append(anew, expected=0, sync=False) == 1
    assert await ours.append(events(1), expected=0, sync=False) == SequenceConflict(0, tuple(anew))
    assert await ours.append(events(1, after=1), expected=1, sync=False) == 2
    for journal in (ours, theirs):
        await journal.close()


async def test_a_session_made_anew_is_not_the_one_that_was(root: Path) -> None:
    """A file deleted and written again, be it of the same size, is noticed."""
    ours, theirs = JsonlJournal(root), JsonlJournal(root)
    await ours.append(events(1), expected=0, sync=False)
    await theirs.delete("acme", "session-1")
    await theirs.append(events(1), expected=0, sync=False)
    assert await ours.append(events(1, after=1), expected=1, sync=False) == 2
    assert len(await theirs.read("acme", "session-1")) == 2
    for journal in (ours, theirs):
        await journal.close()


async def test_a_locked_file_is_waited_for(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An append waits for the lock of another process, and says so when it does not come."""
    monkeypatch.setattr(jsonl, "PATIENCE_S", 0.05)
    journal = JsonlJournal(root)
    await journal.append(events(1), expected=0, sync=False)
    with session_file(root).open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(JournalBusy, match=r"session-1\.jsonl stays locked"):
            await journal.append(events(1, after=1), expected=1, sync=False)
    assert await journal.append(events(1, after=1), expected=1, sync=False) == 2
    await journal.close()


async def test_runs_begin_one_at_a_time(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run waits for the one that begins; what begins no run waits for nobody."""
    monkeypatch.setattr(jsonl, "PATIENCE_S", 0.05)
    journal = JsonlJournal(root)
    await journal.append([started("run-1")], expected=0, sync=False)
    descriptor = os.open(root / "acme" / ".runs", os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with pytest.raises(JournalBusy, match="runs stays locked"):
        await journal.append([started("run-2")], expected=0, sync=False)
    assert not session_file(root, "run-2").exists()
    assert await journal.append(events(1, after=1, session_id="run-1"), expected=1, sync=False) == 2
    os.close(descriptor)
    assert await journal.append([started("run-2")], expected=0, sync=False) == 1
    await journal.close()


async def test_a_run_is_named_by_a_link_or_by_its_own_session(root: Path) -> None:
    """Only a run that does not begin the session of its name needs a link."""
    journal = JsonlJournal(root)
    await journal.append([started("alone")], expected=0, sync=False)
    await journal.append([started("guest", session_id="talk")], expected=0, sync=False)
    assert [link.name for link in (root / "acme" / ".runs").iterdir()] == ["guest"]
    link = root / "acme" / ".runs" / "guest"
    assert link.resolve() == session_file(root, "talk")
    await journal.close()


@pytest.mark.parametrize("left_in", ["talk", "gone", "new"])
async def test_what_a_crash_left_of_a_run_does_not_keep_its_id(root: Path, left_in: str) -> None:
    """A link to a session that does not hold the run is replaced."""
    journal = JsonlJournal(root)
    await journal.append(events(1, session_id="talk"), expected=0, sync=False)
    link = root / "acme" / ".runs" / "new"
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(f"../{left_in}.jsonl")
    if left_in == "gone":
        assert await journal.locate("acme", "new") is None
    if left_in == "new":
        assert await journal.append([started("new")], expected=0, sync=False) == 1
    else:
        guest = [started("new", session_id="other")]
        assert await journal.append(guest, expected=0, sync=False) == 1
        assert link.readlink() == Path("../other.jsonl")
    with pytest.raises(RunExists):
        await journal.append([started("new", after=1, session_id="talk")], expected=1, sync=False)
    await journal.close()


async def test_a_leftover_link_does_not_hide_a_run_that_opens_its_session(root: Path) -> None:
    """A run that needs no link is found where it is, whatever an older link says."""
    journal = JsonlJournal(root)
    await journal.append(events(1, session_id="talk"), expected=0, sync=False)
    link = root / "acme" / ".runs" / "new"
    link.parent.mkdir(exist_ok=True)
    link.symlink_to("../talk.jsonl")
    assert await journal.append([started("new")], expected=0, sync=False) == 1
    assert await journal.locate("acme", "new") == "new"
    await journal.close()


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", "a b", "é", "x" * 129, "a\n"])
async def test_ids_must_make_names_of_files(root: Path, name: str) -> None:
    """An id that cannot name a file is refused, and nothing is written."""
    journal = JsonlJournal(root)
    for batch in (
        events(1, session_id=name),
        events(1, tenant_id=name),
        [started(name.replace("/", " "), session_id="session-1")],
    ):
        with pytest.raises(UnusableId):
            await journal.append(batch, expected=0, sync=False)
    assert await journal.locate("acme", name) is None
    assert os.listdir(root.parent) == []  # noqa: PTH208
    await journal.close()


@pytest.mark.parametrize(
    "child", ["root/é step/1", "root/../../up/2", "root/" + "x" * 300, "root/a%2Fb/1", "root/a/b/1"]
)
async def test_the_link_of_a_child_stays_in_its_folder(root: Path, child: str) -> None:
    """Whatever the name of a step, the run that it began has one link, beside the others."""
    journal = JsonlJournal(root)
    batch = [started("root"), started(child, after=1, session_id="root")]
    await journal.append(batch, expected=0, sync=True)
    assert await journal.locate("acme", child) == "root"
    (link,) = (root / "acme" / ".runs").iterdir()
    assert link.readlink() == Path("../root.jsonl")
    assert sorted(path.name for path in (root / "acme").iterdir()) == [".runs", "root.jsonl"]
    await journal.delete("acme", "root")
    assert list((root / "acme" / ".runs").iterdir()) == []
    await journal.close()


async def test_the_stream_of_values_has_a_file_that_no_session_can_have(root: Path) -> None:
    """The reserved stream is a file of the tenant's folder, under a name that is no safe id."""
    journal = JsonlJournal(root)
    await journal.append(events(2, session_id=STORE_STREAM), expected=0, sync=True)
    assert [path.name for path in (root / "acme").iterdir()] == ["%2Fstore.jsonl"]
    for name in ("%2Fstore", "store", "x/store"):
        with suppress(UnusableId):
            assert await journal.read("acme", name) == []
    assert len(await journal.read("acme", STORE_STREAM)) == 2
    assert await journal.delete("acme", STORE_STREAM) == 2
    await journal.close()


@pytest.mark.parametrize("opening", [True, False])
async def test_a_full_disk_leaves_no_half_batch(root: Path, opening: bool) -> None:
    """A batch of which the disk takes a part is taken back whole, and its runs with it."""
    journal = JsonlJournal(root)
    if not opening:
        await journal.append(events(1), expected=0, sync=False)
    place = 0 if opening else 1
    size = session_file(root).stat().st_size if not opening else 0
    guest = [started("guest", after=place, session_id="session-1"), *events(2, after=place + 1)]
    with files_no_longer_than(size + 40), pytest.raises(JournalBusy, match=r"session-1\.jsonl"):
        await journal.append(guest, expected=place, sync=False)
    assert await journal.locate("acme", "guest") is None
    assert len(await journal.read("acme", "session-1")) == place
    assert journal.damages() == ()
    assert await journal.append(guest, expected=place, sync=True) == place + 3
    await journal.close()


@contextmanager
def files_no_longer_than(size: int) -> Iterator[None]:
    """Make the system refuse what is written beyond `size` bytes, as a full disk would."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_reading_near_the_end_of_a_long_session(root: Path) -> None:
    """Wherever a read begins, in a batch or between two, it gives exactly what follows."""
    journal = JsonlJournal(root)
    written = placed([said("x" * 900 + str(n)) for n in range(120)])
    for at in range(0, 120, 5):
        await journal.append(written[at : at + 5], expected=at, sync=False)
    for after in range(121):
        assert await journal.read("acme", "session-1", after=after) == written[after:]
    await journal.close()
    again = JsonlJournal(root)
    long_batch = placed([said("y" * 9_000) for _ in range(30)], after=120)
    assert await again.append(long_batch, expected=120, sync=False) == 150
    await again.close()
    third = JsonlJournal(root)
    assert await third.append(events(1, after=150), expected=150, sync=False) == 151
    await third.close()


async def test_lines_of_another_writer_are_understood(root: Path) -> None:
    """Fields in another order, unknown ones, and spaces are no damage."""
    (event,) = events(1)
    line = json.loads(to_line(event))
    line["payload"]["colour"] = "blue"
    path = session_file(root)
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"colour": "red", **dict(reversed(line.items()))}) + "\n")
    journal = JsonlJournal(root)
    assert await journal.read("acme", "session-1") == [event]
    assert await journal.append(events(1, after=1), expected=1, sync=False) == 2
    assert len(await journal.query(EventQuery("acme", types=("message.user",)))) == 2
    await journal.close()


async def test_a_line_of_another_schema_version_is_refused(root: Path, written: bytes) -> None:
    """What this version cannot read as it was meant is not read at all."""
    line = written.replace(b'{"seq":2,', b'{"seq":2,"schema_version":2,')
    session_file(root).write_bytes(line)
    journal = JsonlJournal(root)
    with pytest.raises(NewerJournal, match="schema version 2"):
        await journal.read("acme", "session-1")
    await journal.close()


async def test_two_descriptors_of_one_file_exclude_each_other(tmp_path: Path) -> None:
    """The lock belongs to the open file, in one process as in two."""
    path = tmp_path / "file"
    with path.open("w") as one, path.open() as two:
        assert flock.try_lock(one.fileno())
        assert not flock.try_lock(two.fileno())
        flock.unlock(one.fileno())
        assert flock.try_lock(two.fileno())
