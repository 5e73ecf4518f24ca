"""A write or a flush that is cut short on one side goes on in the journal: nobody may forget it."""

import asyncio
from collections.abc import Sequence

import pytest

from loom_ia.core.events import RunStarted, UserMessage
from loom_ia.core.events.envelope import Event
from loom_ia.core.model.messages import Message
from loom_ia.core.ports.journal import SequenceConflict
from loom_ia.engine.log import Pen, SessionLog
from loom_ia.testing import JournalSpy, ManualClock, PowerLossJournal


class Slow(JournalSpy):
    """A journal whose writes and flushes wait for the test."""

    def __init__(self) -> None:
        super().__init__(PowerLossJournal())
        self.begun = asyncio.Event()
        self.may_end = asyncio.Event()

    async def append(
        self, batch: Sequence[Event], *, expected: int, sync: bool
    ) -> int | SequenceConflict:
        await self._wait()
        return await super().append(batch, expected=expected, sync=sync)

    async def flush(self) -> None:
        await self._wait()
        await super().flush()

    async def _wait(self) -> None:
        self.begun.set()
        await self.may_end.wait()


@pytest.fixture
async def journal() -> Slow:
    """A slow journal, let go for now."""
    journal = Slow()
    journal.may_end.set()
    return journal


async def opened(journal: Slow) -> tuple[SessionLog, Pen]:
    """Open a run."""
    log = SessionLog(journal, ManualClock(), "default", "s")
    pen = log.pen("r1", lambda run, now: ())
    pen.begin(RunStarted(), agent="clerk", root_run_id="r1")
    await pen.commit(sync=True)
    journal.begun.clear()
    journal.may_end.clear()
    return log, pen


async def test_a_cancelled_write_is_not_made_twice(journal: Slow) -> None:
    """Facts that were being written when their writer was cancelled are written, and once."""
    _, pen = await opened(journal)
    pen.stage(UserMessage(message=Message.text("user", "first")))
    writing = asyncio.create_task(pen.commit(sync=False))
    await journal.begun.wait()
    writing.cancel()
    journal.may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await writing
    pen.stage(UserMessage(message=Message.text("user", "second")))
    await pen.commit(sync=True)
    events = await journal.read("default", "s")
    said = [e.payload.message.as_text() for e in events if isinstance(e.payload, UserMessage)]
    assert said == ["first", "second"]
    assert len({event.event_id for event in events}) == len(events) == 3


async def test_nobody_acts_on_a_flush_that_is_under_way(journal: Slow) -> None:
    """Whoever asks for a flush waits for it, though another asked for it before."""
    log, pen = await opened(journal)
    journal.may_end.set()
    pen.stage(UserMessage(message=Message.text("user", "first")))
    await pen.commit(sync=False)
    journal.begun.clear()
    journal.may_end.clear()
    first = asyncio.create_task(log.flush())
    await journal.begun.wait()
    second = asyncio.create_task(log.flush())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not second.done()
    journal.may_end.set()
    await asyncio.gather(first, second)
    assert not log.has_unflushed_facts()


async def test_what_is_written_during_a_flush_is_flushed_later(journal: Slow) -> None:
    """A flush does not cover what is written while it is under way."""
    log, pen = await opened(journal)
    journal.may_end.set()
    pen.stage(UserMessage(message=Message.text("user", "first")))
    await pen.commit(sync=False)
    journal.begun.clear()
    journal.may_end.clear()
    flushing = asyncio.create_task(log.flush())
    await journal.begun.wait()
    pen.stage(UserMessage(message=Message.text("user", "second")))
    writing = asyncio.create_task(pen.commit(sync=False))
    journal.may_end.set()
    await asyncio.gather(flushing, writing)
    assert log.has_unflushed_facts()
