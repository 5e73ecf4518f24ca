"""Writing and folding: one read, no lost fact, and a rule that is asked about the run as it is."""

import asyncio
from collections.abc import Sequence
from datetime import datetime

import pytest

from loom_ia.adapters.journals.memory import MemoryJournal
from loom_ia.app.instance import DEFAULT_TENANT
from loom_ia.core.errors import JournalBusy, JournalCorrupted, RunExists, RunMoved
from loom_ia.core.events import Event, Payload, RunCancelled, RunStarted, StepStarted, UserMessage
from loom_ia.core.model import Message
from loom_ia.core.ports.journal import SequenceConflict
from loom_ia.core.state import RunState, Status
from loom_ia.engine.log import Pen, SessionLog
from loom_ia.testing.clock import ManualClock
from loom_ia.testing.journals import JournalSpy, PowerLossJournal
from tests.engine.world import Ask, Gate, Hand, Model, World, agent, run, running, settle


class SlowJournal(PowerLossJournal):
    """A durable journal whose next append stops at a gate, before or after it is written."""

    def __init__(self) -> None:
        super().__init__()
        self.before: Gate | None = None
        self.after: Gate | None = None

    async def append(
        self, batch: Sequence[Event], *, expected: int, sync: bool
    ) -> int | SequenceConflict:
        gate, self.before = self.before, None
        if gate is not None:
            await gate.stop()
        outcome = await super().append(batch, expected=expected, sync=sync)
        gate, self.after = self.after, None
        if gate is not None:
            await gate.stop()
        return outcome


class LosesTouch(MemoryJournal):
    """A journal whose next append is written and then reported as failed."""

    lost = False

    async def append(
        self, batch: Sequence[Event], *, expected: int, sync: bool
    ) -> int | SequenceConflict:
        outcome = await super().append(batch, expected=expected, sync=sync)
        if self.lost:
            self.lost = False
            raise JournalBusy("the answer was lost")
        return outcome


def said(text: str) -> UserMessage:
    """Give a fact that says something."""
    return UserMessage(message=Message.text("user", text))


def always(run: RunState | None, now: datetime) -> Sequence[Payload]:
    """Allow every write."""
    return ()


def while_open(run: RunState | None, now: datetime) -> Sequence[Payload]:
    """Allow writes until the run is closed."""
    if run is not None and run.outcome is not None:
        raise RunMoved("closed")
    return ()


def session(journal: MemoryJournal | JournalSpy, clock: ManualClock | None = None) -> SessionLog:
    """Open a session."""
    return SessionLog(journal, clock or ManualClock(), DEFAULT_TENANT, "session-1")


async def opened(log: SessionLog, run_id: str = "run-1") -> Pen:
    """Begin a run."""
    pen = log.pen(run_id, while_open)
    pen.begin(RunStarted(), agent="clerk", root_run_id=run_id)
    await pen.commit(sync=False)
    return pen


async def heard(journal: MemoryJournal) -> list[str]:
    """Read what was said in the session."""
    events = await journal.read(DEFAULT_TENANT, "session-1")
    return [
        e.payload.message.as_text() if isinstance(e.payload, UserMessage) else e.type
        for e in events
    ]


async def test_a_run_reads_its_session_once() -> None:
    """One read when it is opened, and none for a thousand events."""
    spy = JournalSpy(MemoryJournal())
    instance = World(spy).instance(agent(Model(*[Ask()] * 30), Hand(), max_iterations=99))
    state = await run(instance)
    assert state.status is Status.COMPLETED
    assert (spy.counts.reads, spy.counts.queries) == (1, 0)


async def test_a_run_in_a_session_of_its_own_reads_nothing() -> None:
    """A session that nobody named cannot have anything to read."""
    spy = JournalSpy(MemoryJournal())
    instance = World(spy).instance(agent(Model()))
    await run(instance, run_id=None, session_id=None)
    assert spy.counts.reads == 0


async def test_facts_of_two_writers_both_land_and_nobody_reads() -> None:
    """A conflict brings what the other wrote, and the write is tried again after it."""
    journal = MemoryJournal()
    one = session(JournalSpy(journal))
    pen = await opened(one)
    spy = JournalSpy(journal)
    two = session(spy, ManualClock(salt=1))
    await two.catch_up()
    pen.stage(said("one"))
    await pen.commit(sync=False)
    await two.append("run-1", lambda run, now: (said("two"),), sync=False)
    pen.stage(said("three"))
    await pen.commit(sync=False)
    assert await heard(journal) == ["run.started", "one", "two", "three"]
    assert (spy.counts.reads, spy.counts.conflicts) == (1, 1)
    messages = pen.run.conversation.messages
    assert [message.as_text() for message in messages] == ["one", "two", "three"]


async def test_a_rule_is_asked_again_after_a_catch_up() -> None:
    """What the conflict tells may forbid the write: then nothing is written."""
    journal = MemoryJournal()
    pen = await opened(session(journal))
    other = session(journal, ManualClock(salt=1))
    await other.catch_up()
    await other.append("run-1", lambda run, now: (RunCancelled(iterations=0),), sync=True)
    pen.stage(said("too late"))
    with pytest.raises(RunMoved):
        await pen.commit(sync=False)
    assert await heard(journal) == ["run.started", "run.cancelled"]
    assert pen.run.status is Status.CANCELLED


async def test_a_rule_is_asked_about_what_was_written_during_the_wait_for_the_lock() -> None:
    """A writer of the same process that comes first counts as much as another process."""
    journal = SlowJournal()
    log = session(journal)
    pen = await opened(log)
    journal.before = gate = Gate()

    async def close() -> None:
        await log.append("run-1", lambda run, now: (RunCancelled(iterations=0),), sync=True)

    async with running(close()) as closing:
        await gate.reached()
        pen.stage(said("too late"))
        async with running(pen.commit(sync=False)) as committing:
            await settle()
            gate.open()
            await closing
            with pytest.raises(RunMoved):
                await committing
    assert await heard(journal) == ["run.started", "run.cancelled"]


async def test_a_writer_that_is_cancelled_knows_what_it_wrote() -> None:
    """The write is waited for, the fact is folded, and only then does the cancellation pass."""
    journal = SlowJournal()
    log = session(journal)
    pen = await opened(log)
    journal.after = gate = Gate()
    pen.stage(said("written"))
    committing = asyncio.ensure_future(pen.commit(sync=False))
    await gate.reached()
    committing.cancel()
    await settle()
    committing.cancel()
    await settle()
    assert not committing.done()
    gate.open()
    with pytest.raises(asyncio.CancelledError):
        await committing
    state = log.run("run-1")
    assert state is not None
    assert [m.as_text() for m in state.conversation.messages] == ["written"]
    assert log.state.last_seq == len(await journal.read(DEFAULT_TENANT, "session-1"))


async def test_what_a_failed_write_really_wrote_is_read_before_the_next() -> None:
    """A journal that lost the answer may have the facts: nothing is written twice."""
    journal = LosesTouch()
    log = session(journal)
    await opened(log)
    journal.lost = True
    with pytest.raises(JournalBusy):
        await log.append("run-1", lambda run, now: (said("maybe"),), sync=False)

    def once(run: RunState | None, now: datetime) -> Sequence[Payload]:
        assert run is not None
        return () if run.conversation.messages else (said("again"),)

    await log.append("run-1", once, sync=False)
    assert await heard(journal) == ["run.started", "maybe"]


async def test_a_fact_is_folded_once() -> None:
    """Staging folds, committing does not fold again, and the written state is that very one."""
    log = session(MemoryJournal())
    pen = await opened(log)
    pen.stage(StepStarted(step_no=1, effect="model_call"))
    ahead = pen.run
    await pen.commit(sync=False)
    assert pen.run is ahead
    assert log.run("run-1") is ahead


async def test_a_run_id_is_used_once_in_a_session() -> None:
    """Who comes second is refused and writes nothing, whether he knew or learns it by conflict."""
    journal = MemoryJournal()
    one, two = session(journal), session(journal, ManualClock(salt=1))
    await opened(one)
    with pytest.raises(RunExists):
        await opened(two)
    assert await heard(journal) == ["run.started"]


async def test_a19_a_run_id_is_used_once_whatever_the_session() -> None:
    """The second use, in another session and another process, is refused and writes nothing."""
    world = World()
    await run(world.instance(agent(Model())))
    before = await world.types("session-1")
    for worker in ("worker-1", "worker-2"):
        with pytest.raises(RunExists):
            await run(world.instance(agent(Model()), worker), session_id="session-2")
    assert await world.events("session-2") == []
    assert await world.types("session-1") == before


async def test_a_journal_with_a_hole_is_refused_with_its_place() -> None:
    """Nothing is guessed about an event that is missing."""
    journal = MemoryJournal()
    pen = await opened(session(journal))
    pen.stage(said("two"), said("three"))
    await pen.commit(sync=False)
    del journal._sessions[DEFAULT_TENANT]["session-1"][1]
    with pytest.raises(JournalCorrupted, match="from event 1 to event 3"):
        await session(journal).catch_up()


async def test_a_flush_that_failed_is_owed() -> None:
    """What is not known to survive a power cut is flushed again before the next effect."""

    class Failing(JournalSpy):
        async def flush(self) -> None:
            await super().flush()
            if self.counts.syncs == 1:
                raise JournalBusy("not now")

    spy = Failing(MemoryJournal())
    log = session(spy)
    await opened(log)
    with pytest.raises(JournalBusy):
        await log.flush()
    assert log.has_unflushed_facts()
    await log.flush()
    await log.flush()
    assert spy.counts.syncs == 2
