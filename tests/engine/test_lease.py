"""One driver for each run: taking the wheel, keeping it, losing it."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from loom_ia.adapters.journals.memory import MemoryJournal
from loom_ia.adapters.journals.sqlite import SqliteJournal
from loom_ia.app import approvals, runs
from loom_ia.app.approvals import Ruling
from loom_ia.app.cancel import cancel
from loom_ia.app.instance import DEFAULT_TENANT, Instance
from loom_ia.app.runs import Order, resume
from loom_ia.core.errors import ClaimConflict, JournalBusy
from loom_ia.core.events import Event, RunClaimed, RunStarted
from loom_ia.core.ports.journal import SequenceConflict
from loom_ia.core.state import RunState, Status
from loom_ia.engine.interrupt import Interrupt
from loom_ia.testing.journals import JournalSpy
from tests.engine.world import (
    LEASE,
    Ask,
    Gate,
    Hand,
    LockedJournal,
    Model,
    World,
    agent,
    run,
    running,
    settle,
    stubborn,
    text_of,
)

SENDS: dict[str, Any] = {"side_effects": "irreversible"}


async def claims(world: World, session_id: str = "session-1") -> list[tuple[str, bool, bool]]:
    """Give the claims of a session: who, whether it is a renewal, whether it is a hand-back."""
    return [
        (e.payload.worker_id, e.payload.renewal, e.payload.lease_until <= e.ts)
        for e in await world.events(session_id)
        if isinstance(e.payload, RunClaimed)
    ]


async def beat(instance: Instance, run_id: str = "run-1") -> None:
    """Let the heart of an instance beat once for one of its runs."""
    driven = instance.driven[run_id]
    await instance.heart.beat(run_id, driven.log, driven.interrupt)


async def test_the_claim_is_in_the_first_batch() -> None:
    """No other process ever sees a run that nobody drives yet."""
    world = World(spy := JournalSpy(MemoryJournal()))
    gate = Gate()
    async with running(run(world.instance(agent(Model(gate))))):
        await gate.reached()
        assert spy.counts.appends == 1
        assert await world.types("session-1") == [
            "run.started",
            "message.user",
            "run.claimed",
            "step.started",
        ]


async def test_two_instances_drive_one_run_and_one_wins() -> None:
    """The second is told who drives until when, and wrote nothing."""
    world = World()
    gate = Gate()
    async with running(run(world.instance(agent(Model(gate))))) as driving:
        await gate.reached()
        before = await world.types("session-1")
        other = world.instance(agent(Model()), "worker-2")
        with pytest.raises(ClaimConflict) as conflict:
            await resume(other, "run-1")
        assert conflict.value.worker_id == "worker-1"
        assert conflict.value.lease_until == world.clock.now() + LEASE
        assert await world.types("session-1") == before
        gate.open()
        assert (await driving).status is Status.COMPLETED


async def test_two_instances_resume_at_once_and_one_wins() -> None:
    """Of two that find the lease over, the journal lets one in."""
    world = World()
    tool = Hand(action=lambda _, __: "sent", **SENDS)
    await stranded(world, tool)
    world.clock.advance(61)
    spies = [JournalSpy(world.journal), JournalSpy(world.journal)]
    instances = [
        world.instance(agent(Model(Ask()), tool), f"worker-{n + 2}", journal=spy)
        for n, spy in enumerate(spies)
    ]
    outcomes = await asyncio.gather(
        *(resume(instance, "run-1") for instance in instances), return_exceptions=True
    )
    assert sorted(type(outcome).__name__ for outcome in outcomes) in (
        ["ClaimConflict", "RunState"],
        ["RunState", "RunState"],  # the second came when all was over
    )
    assert len(tool.runs) == 1


async def stranded(world: World, *tools: Hand, worker: str = "worker-1") -> None:
    """Leave a run whose driver died in a call of the model."""
    gate = Gate()
    instance = world.instance(agent(Model(gate), *tools), worker)
    driving = asyncio.ensure_future(run(instance))
    await gate.reached()
    instance.heart.forget("run-1")
    _kill(driving)


def _kill(driving: "asyncio.Future[RunState]") -> None:
    """Take a driver away without letting it write a word: its coroutine never goes on."""
    _DEAD.append(driving)


_DEAD: list["asyncio.Future[RunState]"] = []


@pytest.fixture(autouse=True)
async def bury() -> AsyncIterator[None]:
    """End the drivers that were taken away."""
    yield
    for driving in _DEAD:
        driving.cancel()
    await asyncio.gather(*_DEAD, return_exceptions=True)
    _DEAD.clear()


async def test_f16_a_frozen_driver_cannot_write_when_it_wakes() -> None:
    """Its lease expired and was taken: its call's result is refused and it writes nothing."""
    world = World()
    gate = Gate()
    tool = Hand(action=stubborn(gate), **SENDS)
    frozen = world.instance(agent(Model(Ask()), tool))
    async with running(run(frozen)) as driving:
        await gate.reached()
        world.clock.advance(61)
        other = world.instance(agent(Model(Ask()), Hand(**SENDS)), "worker-2")
        assert text_of(await resume(other, "run-1")) == "done"
        before = await world.types("session-1")
        gate.open()
        with pytest.raises(ClaimConflict):
            await driving
    assert await world.types("session-1") == before
    assert before.count("tool.called") == 1
    assert before[-1] == "run.completed"


async def test_f16_a_frozen_driver_cannot_write_while_the_other_works() -> None:
    """The same while the run is still open in other hands."""
    world = World()
    gate, busy = Gate(), Gate()
    frozen = world.instance(agent(Model(gate)))
    async with running(run(frozen)) as driving:
        await gate.reached()
        world.clock.advance(61)
        other = world.instance(agent(Model(busy)), "worker-2")
        async with running(resume(other, "run-1")) as taken:
            await busy.reached()
            before = await world.types("session-1")
            gate.open()
            with pytest.raises(ClaimConflict):
                await driving
            assert await world.types("session-1") == before
            busy.open()
            assert (await taken).status is Status.COMPLETED


async def test_a_lease_that_expired_and_that_nobody_took_is_claimed_again() -> None:
    """A driver that was slow goes on, and interrupts nothing of its own."""
    world = World()
    gate = Gate()
    async with running(run(world.instance(agent(Model(gate), Hand())))) as driving:
        await gate.reached()
        world.clock.advance(3600)
        gate.open()
        assert text_of(await driving) == "done"
    assert await claims(world) == [("worker-1", False, False), ("worker-1", True, False)]


async def test_each_fact_of_the_driver_extends_its_lease() -> None:
    """A run that writes needs no heart, however long it lasts."""
    world = World()

    def slow(_: object, __: object) -> str:
        world.clock.advance(50)
        return "ok"

    state = await run(world.instance(agent(Model(*[Ask()] * 5), Hand(action=slow))))
    assert state.status is Status.COMPLETED
    assert await claims(world) == [("worker-1", False, False)]


@pytest.mark.parametrize(
    ("silence", "renewed"), [(0, False), (14, False), (16, True), (59, True), (61, True)]
)
async def test_the_heart_extends_a_lease_before_it_was_quiet_for_a_third(
    silence: float, *, renewed: bool
) -> None:
    """A beat writes only when nothing else did, and then the lease is whole again."""
    world = World()
    gate = Gate()
    instance = world.instance(agent(Model(gate)))
    async with running(run(instance)) as driving:
        await gate.reached()
        world.clock.advance(silence)
        await beat(instance)
        assert (await claims(world))[1:] == ([("worker-1", True, False)] if renewed else [])
        lease = instance.driven["run-1"].log.state.runs["run-1"].lease
        assert lease is not None
        if renewed:
            assert lease.until == world.clock.now() + LEASE
        gate.open()
        assert (await driving).status is Status.COMPLETED


async def test_the_heart_beats_by_itself() -> None:
    """A lease is kept without anybody asking for it."""
    renewal = asyncio.Event()

    class Telling(MemoryJournal):
        async def append(
            self, batch: Sequence[Event], *, expected: int, sync: bool
        ) -> int | SequenceConflict:
            if any(isinstance(e.payload, RunClaimed) and e.payload.renewal for e in batch):
                renewal.set()
            return await super().append(batch, expected=expected, sync=sync)

    world = World(Telling(), lease=timedelta(milliseconds=6))
    gate = Gate()
    instance = world.instance(agent(Model(gate)))
    async with running(run(instance)) as driving:
        await gate.reached()
        world.clock.advance(0.003)
        await renewal.wait()
        gate.open()
        assert (await driving).status is Status.COMPLETED
    await instance.close()


async def test_a_heart_survives_a_journal_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    """A beat that could not be written is told and tried again; the run goes on."""

    class Failing(JournalSpy):
        failing = False

        async def append(
            self, batch: Sequence[Event], *, expected: int, sync: bool
        ) -> int | SequenceConflict:
            if self.failing:
                raise JournalBusy("not now")
            return await super().append(batch, expected=expected, sync=sync)

    journal = Failing(MemoryJournal())
    world = World(journal)
    gate = Gate()
    instance = world.instance(agent(Model(gate)))
    async with running(run(instance)) as driving:
        await gate.reached()
        world.clock.advance(30)
        journal.failing = True
        with caplog.at_level(logging.WARNING, "loom_ia.engine"):
            await beat(instance)
        assert "lease of run run-1 not extended" in caplog.text
        journal.failing = False
        await beat(instance)
        assert (await claims(world))[-1] == ("worker-1", True, False)
        gate.open()
        assert (await driving).status is Status.COMPLETED


async def test_a_heart_leaves_alone_a_run_that_is_not_written_yet(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A beat during the very first write has nothing to extend."""
    world = World()
    instance = world.instance(agent(Model()))
    opened = await runs.open_run(instance, Order("clerk", "go", "session-1", "run-1"))
    await instance.heart.beat("run-1", opened.log, Interrupt())
    assert await world.events("session-1") == []
    assert caplog.text == "", "it is no fault"


async def test_a18_the_heart_notices_a_cancel_from_elsewhere_and_stops_the_tool() -> None:
    """The tool is told to stop, and the drive ends with what the journal says."""
    world = World()
    gate = Gate()
    tool = Hand(action=lambda _, __: gate.stop())
    instance = world.instance(agent(Model(Ask()), tool))
    async with running(run(instance)) as driving:
        await gate.reached()
        other = world.instance(agent(Model()), "worker-2")
        assert await cancel(other, "run-1", by="ada")
        assert not await cancel(other, "run-1", by="ada")
        await settle()
        assert not driving.done()
        world.clock.advance(LEASE / 3)
        await beat(instance)
        state = await driving
    assert state.status is Status.CANCELLED
    assert tool.contexts[0].should_stop()
    assert (await world.types("session-1"))[-1] == "run.cancelled"


async def test_the_heart_notices_that_the_run_was_taken() -> None:
    """A driver whose run was taken by force stops at its next beat."""
    world = World()
    gate, busy = Gate(), Gate()
    instance = world.instance(agent(Model(gate)))
    async with running(run(instance)) as driving:
        await gate.reached()
        other = world.instance(agent(Model(busy)), "worker-2")
        async with running(resume(other, "run-1", take_over=True)) as taken:
            await busy.reached()
            world.clock.advance(LEASE / 3)
            await beat(instance)
            with pytest.raises(ClaimConflict, match="worker-2"):
                await driving
            busy.open()
            assert (await taken).status is Status.COMPLETED


async def test_a_driver_whose_run_another_one_ended_gives_that_end() -> None:
    """There is nothing to refuse any more: the answer is the one in the journal."""
    world = World()
    gate = Gate()
    instance = world.instance(agent(Model(gate)))
    async with running(run(instance)) as driving:
        await gate.reached()
        other = world.instance(agent(Model("from the other")), "worker-2")
        await resume(other, "run-1", take_over=True)
        world.clock.advance(LEASE / 3)
        await beat(instance)
        assert text_of(await driving) == "from the other"


async def test_a_forced_take_over_takes_a_live_lease() -> None:
    """Whoever drove is refused its next write."""
    world = World()
    gate = Gate()
    async with running(run(world.instance(agent(Model(gate))))) as driving:
        await gate.reached()
        other = world.instance(agent(Model()), "worker-2")
        assert text_of(await resume(other, "run-1", take_over=True)) == "done"
        gate.open()
        with pytest.raises(ClaimConflict):
            await driving
    assert [worker for worker, _, _ in await claims(world)] == ["worker-1", "worker-2"]


async def test_a_pause_hands_the_run_back() -> None:
    """A run that waits for a human is nobody's: whoever comes first goes on with it."""
    world = World()
    tool = Hand(approval="always")
    state = await run(world.instance(agent(Model(Ask()), tool)))
    assert state.status is Status.PAUSED
    assert (await claims(world))[-1] == ("worker-1", False, True)
    other = world.instance(agent(Model(Ask()), tool), "worker-2")
    await approvals.approve(other, Ruling("run-1", "ada"))
    assert text_of(await resume(other, "run-1")) == "done"


async def test_an_abandoned_run_is_handed_back() -> None:
    """Whoever leaves says so, and another instance goes on without waiting for the lease."""
    world = World()
    gate = Gate()
    async with running(run(world.instance(agent(Model(gate))))):
        await gate.reached()
    assert (await claims(world))[-1] == ("worker-1", False, True)
    other = world.instance(agent(Model()), "worker-2")
    assert text_of(await resume(other, "run-1")) == "done"


async def test_a_run_that_was_abandoned_before_its_first_write_does_not_exist() -> None:
    """There is nothing to hand back of a run that never began."""
    world = World()
    instance = world.instance(agent(Model()))
    opened = await runs.open_run(instance, Order("clerk", "go", "session-1", "run-1"))
    await opened.log.lock.acquire()
    async with running(runs.drive(instance, opened.pen, opened.program)):
        await settle()
    opened.log.lock.release()
    assert await world.events("session-1") == []
    assert instance.driven == {}


async def test_a_dead_workers_free_lock_lets_its_run_be_taken_at_once() -> None:
    """Where the journal has locks, a killed driver makes nobody wait."""
    journal = LockedJournal()
    world = World(journal)
    await stranded(world)
    other = world.instance(agent(Model()), "worker-2")
    with pytest.raises(ClaimConflict):
        await resume(other, "run-1")
    journal.held.dead.add("worker-1")
    assert text_of(await resume(other, "run-1")) == "done"


async def test_a_dead_workers_free_lock_on_a_real_file(tmp_path: Path) -> None:
    """The same with the locks of the operating system: the file says who lives."""
    path = tmp_path / "loom.db"
    journal, others = SqliteJournal(path), SqliteJournal(path)
    world = World(journal)
    gate = Gate()
    instance = world.instance(agent(Model(gate)))
    driving = asyncio.ensure_future(run(instance))
    await gate.reached()
    instance.heart.forget("run-1")
    _kill(driving)
    other = world.instance(agent(Model()), "worker-2", journal=others)
    with pytest.raises(ClaimConflict):
        await resume(other, "run-1")
    held = instance._lock
    assert held is not None
    held.release()
    assert text_of(await resume(other, "run-1")) == "done"
    driving.cancel()
    await asyncio.gather(driving, return_exceptions=True)
    await instance.close()
    await other.close()


async def test_an_instance_takes_its_own_run_again() -> None:
    """A lease keeps others away, never its own owner."""
    world = World()
    await stranded(world)
    again = world.instance(agent(Model()), "worker-1")
    assert text_of(await resume(again, "run-1")) == "done"


async def test_two_who_resume_one_run_in_one_instance_share_one_drive() -> None:
    """The second waits for the first and gets its end; nothing is done twice."""
    world = World()
    gate = Gate()
    tool = Hand(action=lambda _, __: gate.stop(), **SENDS)
    await stranded(world, tool)
    world.clock.advance(61)
    instance = world.instance(agent(Model(Ask()), tool), "worker-2")
    async with running(*(resume(instance, "run-1") for _ in range(3))) as waiting:
        await gate.reached()
        await settle()
        gate.open()
        states = await asyncio.gather(*waiting)
    assert {state.status for state in states} == {Status.COMPLETED}
    assert len(tool.runs) == 1


async def test_two_who_open_one_run_id_in_one_instance_do_not_disturb_each_other() -> None:
    """The second is refused; the first keeps its lease, its seat and its heart."""
    world = World()
    gate = Gate()
    instance = world.instance(agent(Model(gate)))
    first = await runs.open_run(instance, Order("clerk", "go", "session-1", "run-1"))
    second = await runs.open_run(instance, Order("clerk", "go", "session-1", "run-1"))
    async with running(runs.drive(instance, first.pen, first.program)) as driving:
        await gate.reached()
        with pytest.raises(ValueError, match="run-1"):
            await runs.drive(instance, second.pen, second.program)
        assert list(instance.driven) == ["run-1"]
        gate.open()
        assert (await driving).status is Status.COMPLETED
    assert (await claims(world)) == [("worker-1", False, False)]
    assert [e.type for e in await world.events("session-1")].count(RunStarted.TYPE) == 1


async def test_resume_waits_for_the_drive_that_is_under_way() -> None:
    """Asking for a run that this instance drives gives its end, not a second drive."""
    world = World()
    gate = Gate()
    instance = world.instance(agent(Model(gate)))
    async with running(run(instance), resume_when(gate, instance)) as (driving, waiting):
        await gate.reached()
        await settle()
        gate.open()
        assert (await driving).status is Status.COMPLETED
        assert (await waiting).status is Status.COMPLETED
    assert (await world.count("session-1"))["model.responded"] == 1


async def resume_when(gate: Gate, instance: Instance) -> object:
    """Resume the run once it is under way."""
    await gate.reached()
    return await resume(instance, "run-1")


async def test_the_logs_of_driven_sessions_are_kept() -> None:
    """However many sessions pass by, a run that is driven keeps its own."""
    world = World()
    gate = Gate()
    instance = world.instance(agent(Model(gate)))
    async with running(run(instance)) as driving:
        await gate.reached()
        log = instance.log("session-1")
        for number in range(300):
            instance.log(f"other-{number}")
        assert instance.log("session-1") is log
        assert len(instance._logs) <= 257
        gate.open()
        assert (await driving).status is Status.COMPLETED
    assert (DEFAULT_TENANT, "other-0") not in instance._logs
