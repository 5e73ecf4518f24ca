"""The journals that come with the package for tests."""

import pytest

from loom_ia.adapters.journals.memory import MemoryJournal
from loom_ia.testing import JournalCounts, JournalSpy, PowerLossJournal
from tests.builders import events, started


async def test_a_kill_keeps_what_was_written_and_a_cut_what_was_flushed() -> None:
    """Each level of crash leaves what the contract promises for it, and no more."""
    journal = PowerLossJournal()
    await journal.append([started("run-1")], expected=0, sync=True)
    await journal.append(events(2, after=1, session_id="run-1"), expected=1, sync=False)
    await journal.append(events(1, session_id="other"), expected=0, sync=False)
    killed, cut = await journal.after_crash("kill"), await journal.after_crash("power")
    assert [len(await killed.read("acme", name)) for name in ("run-1", "other")] == [3, 1]
    assert [len(await cut.read("acme", name)) for name in ("run-1", "other")] == [1, 0]
    assert await cut.locate("acme", "run-1") == "run-1"
    assert len(await journal.read("acme", "run-1")) == 3


@pytest.mark.parametrize("by", ["flush", "another session", "closing"])
async def test_a_flush_covers_every_session(by: str) -> None:
    """A flush, or a sync append of any session, saves all that was written before."""
    journal = PowerLossJournal()
    await journal.append(events(2), expected=0, sync=False)
    if by == "flush":
        await journal.flush()
    elif by == "closing":
        await journal.close()
    else:
        await journal.append(events(1, session_id="other"), expected=0, sync=True)
    assert len(await (await journal.after_crash("power")).read("acme", "session-1")) == 2


async def test_what_survived_a_crash_survives_the_next() -> None:
    """The journal after a crash stands on the disk; what was deleted does not come back."""
    journal = PowerLossJournal()
    await journal.append(events(2), expected=0, sync=False)
    await journal.append(events(1, session_id="other"), expected=0, sync=False)
    await journal.delete("acme", "other")
    again = await (await journal.after_crash("kill")).after_crash("power")
    assert len(await again.read("acme", "session-1")) == 2
    assert await again.read("acme", "other") == []


async def test_a_conflict_is_not_written_by_a_crash() -> None:
    """What was refused is in no journal after a crash."""
    journal = PowerLossJournal()
    await journal.append(events(1), expected=0, sync=False)
    await journal.append(events(3), expected=0, sync=True)
    assert len(await (await journal.after_crash("kill")).read("acme", "session-1")) == 1
    assert await (await journal.after_crash("power")).read("acme", "session-1") == []


async def test_a_spy_counts() -> None:
    """Appends, conflicts, flushes, reads, events and bytes are counted as they pass."""
    spy = JournalSpy(MemoryJournal(), measure=True)
    await spy.append(events(3), expected=0, sync=True)
    await spy.append(events(1, after=3), expected=3, sync=False)
    await spy.append(events(1), expected=0, sync=True)
    await spy.flush()
    await spy.read("acme", "session-1")
    size = spy.counts.bytes
    assert 4 * 150 < size < 4 * 400
    assert spy.counts == JournalCounts(
        appends=3, conflicts=1, syncs=2, reads=1, queries=0, events=4, bytes=size
    )
