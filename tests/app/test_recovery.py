"""Going on with what dead drivers left, once or for ever, and never at the cost of the others."""

import asyncio
import logging
from collections.abc import Sequence
from datetime import timedelta

import pytest

from loom_ia.adapters.journals.memory import MemoryJournal
from loom_ia.app.cancel import cancel
from loom_ia.app.instance import DEFAULT_TENANT, Instance
from loom_ia.app.recovery import open_runs, recover, watch
from loom_ia.core.errors import JournalBusy
from loom_ia.core.events import Event, EventQuery, RunClaimed, RunStarted, UserMessage
from loom_ia.core.ids import SessionId, TenantId
from loom_ia.core.model import Message
from loom_ia.core.ports.journal import SequenceConflict
from loom_ia.core.state import Status
from loom_ia.engine.program import Program
from tests.builders import placed
from tests.engine.world import (
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
)


async def strand(world: World, *names: str, lease: float = 60.0, lock: str = "") -> None:
    """Leave runs whose driver died right after it opened them."""
    now = world.clock.now()
    for name in names:
        facts = [
            RunStarted(),
            UserMessage(message=Message.text("user", "go")),
            RunClaimed(worker_id="dead", lease_until=now + timedelta(seconds=lease), lock=lock),
        ]
        batch = placed(
            facts, run_id=name, session_id=name, tenant_id=DEFAULT_TENANT, agent="clerk", ts=now
        )
        await world.journal.append(batch, expected=0, sync=True)


class Flaky(MemoryJournal):
    """A journal that is busy for one session, a number of times."""

    def __init__(self, session_id: str, times: int) -> None:
        super().__init__()
        self._session_id = session_id
        self.times = times

    async def append(
        self, batch: Sequence[Event], *, expected: int, sync: bool
    ) -> int | SequenceConflict:
        self._perhaps_busy(batch[0].session_id, expected)
        return await super().append(batch, expected=expected, sync=sync)

    async def read(
        self, tenant_id: TenantId, session_id: SessionId, *, after: int = 0
    ) -> list[Event]:
        self._perhaps_busy(session_id, 1)
        return await super().read(tenant_id, session_id, after=after)

    def _perhaps_busy(self, session_id: str, expected: int) -> None:
        if session_id == self._session_id and expected and self.times:
            self.times -= 1
            raise JournalBusy("{session} is busy", session=session_id)


async def test_f18_recover_ends_what_a_dead_process_left() -> None:
    """Three open runs whose lease is over are driven to their end."""
    world = World()
    await strand(world, "a", "b", "c")
    world.clock.advance(61)
    report = await recover(world.instance(agent(Model()), "worker-2"))
    assert sorted(result.run_id for result in report) == ["a", "b", "c"]
    assert {result.status for result in report} == {Status.COMPLETED}
    assert (len(report), report.failures, report.waiting, report.driven) == (3, (), 0, 0)
    assert len(await recover(world.instance(agent(Model()), "worker-3"))) == 0


async def test_runs_that_wait_or_that_are_driven_are_counted_and_left_alone() -> None:
    """Recovery touches neither a human's decision nor another driver's run."""
    world = World()
    await strand(world, "driven")
    gate = Gate()
    paused = world.instance(agent(Model(Ask()), Hand(approval="always")), "worker-2")
    await run(paused, run_id="paused", session_id="paused")
    own = world.instance(agent(Model(gate)), "worker-3")
    async with running(run(own, run_id="own", session_id="own")) as driving:
        await gate.reached()
        report = await recover(own)
        assert (len(report), report.waiting, report.driven) == (0, 1, 2)
        assert not driving.done()
        gate.open()
        await driving


async def test_an_expired_question_is_taken_up() -> None:
    """Nobody answered in time: the run goes on without waiting for somebody to look."""
    world = World()
    program = agent(Model(Ask()), Hand(approval="always"), expires_in=10.0)
    await run(world.instance(program))
    world.clock.advance(10)
    (result,) = await recover(world.instance(program, "worker-2"))
    assert result.status is Status.COMPLETED


async def test_only_open_runs_are_found() -> None:
    """Runs that ended are not; one that was reopened is again."""
    world = World()
    instance = world.instance(agent(Model()))
    await run(instance, run_id="done", session_id="done")
    await strand(world, "left", "cancelled")
    await cancel(instance, "cancelled", by="ada")
    assert await open_runs(instance) == {"left": "left"}
    assert await open_runs(instance, session_id="done") == {}
    assert await open_runs(instance, session_id="left") == {"left": "left"}


@pytest.mark.parametrize("place", [1, 10, 50])
async def test_pub_13_a_journal_that_is_busy_for_a_moment_loses_no_run(place: int) -> None:
    """The run is tried again within the same recovery."""
    names = [f"run-{n}" for n in range(1, 51)]
    world = World(Flaky(f"run-{place}", times=2))
    await strand(world, *names)
    world.clock.advance(61)
    report = await recover(world.instance(agent(Model()), "worker-2"))
    assert (len(report), report.failures) == (50, ())


async def test_pub_13_a_run_that_could_not_be_recovered_is_told_and_tried_again() -> None:
    """The others are recovered, the failure bears its reason, and nothing stays in limbo."""
    journal = Flaky("run-10", times=99)
    world = World(journal)
    await strand(world, *(f"run-{n}" for n in range(1, 51)))
    world.clock.advance(61)
    instance = world.instance(agent(Model()), "worker-2")
    report = await recover(instance)
    assert len(report) == 49
    ((failure),) = report.failures
    assert (failure.run_id, failure.session_id) == ("run-10", "run-10")
    assert isinstance(failure.error, JournalBusy)
    journal.times = 0
    (result,) = await recover(instance)
    assert (result.run_id, result.status) == ("run-10", Status.COMPLETED)


async def test_a_fault_of_one_run_does_not_touch_the_others() -> None:
    """Whatever it is, an agent that is gone or a bug, the rest is recovered."""
    world = World()
    await strand(world, "a", "b")
    world.clock.advance(61)
    instance = world.instance(agent(Model()), "worker-2")
    program = instance.program("clerk")
    asked: list[str] = []

    def programs() -> dict[str, Program]:
        asked.append("")
        if len(asked) == 1:
            raise OSError("the disk is gone")
        return {"clerk": program}

    instance.programs = programs
    report = await recover(instance)
    assert len(report) == 1
    assert isinstance(report.failures[0].error, OSError)


async def watched(instance: Instance) -> None:
    """Watch without a pause."""
    await watch(instance, interval=0)


async def test_pub_14_a_live_worker_takes_what_a_dying_one_leaves() -> None:
    """It started before, lives, and takes the run when the lease is over, without any command."""
    world = World()
    gate = Gate()
    instance = world.instance(agent(Model(gate)), "worker-2")
    async with running(watched(instance)):
        await settle()
        await strand(world, "a")
        await settle()
        assert gate.reached_by == 0, "its driver may still live"
        world.clock.advance(61)
        await gate.reached()
        gate.open()
        while instance.driven:  # noqa: ASYNC110
            await asyncio.sleep(0)
    assert (await world.types("a"))[-1] == "run.completed"


async def test_pub_14_a_free_lock_makes_the_live_worker_faster_than_the_lease() -> None:
    """Where the journal has locks, a killed driver's run is taken at the next look."""
    journal = LockedJournal()
    world = World(journal)
    gate = Gate()
    async with running(watched(world.instance(agent(Model(gate)), "worker-2"))):
        await strand(world, "a", lock="lock-of-dead")
        await settle()
        assert gate.reached_by == 0
        journal.held.dead.add("dead")
        await gate.reached()


async def test_a_long_run_never_keeps_the_watch_from_looking() -> None:
    """Neither a run of its own nor one that it took up delays the others."""
    world = World()
    gate = Gate()
    instance = world.instance(agent(Model(gate)), "worker-2")
    async with running(run(instance, run_id="own", session_id="own")):
        await gate.reached()
        await strand(world, "first", lease=0)
        async with running(watched(instance)):
            while gate.reached_by < 2:  # noqa: ASYNC110
                await asyncio.sleep(0)
            await strand(world, "second", lease=0)
            while gate.reached_by < 3:  # noqa: ASYNC110
                await asyncio.sleep(0)
        assert list(instance.driven) == ["own"], "what the watch took up ends with it"
        assert (await world.types("second"))[-1] == "run.claimed"


async def test_a_watch_survives_a_journal_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    """A look that could not be taken is told, and taken again."""

    class Down(MemoryJournal):
        down = True

        async def query(self, query: EventQuery) -> list[Event]:
            if self.down:
                raise JournalBusy("the journal is down")
            return await super().query(query)

    journal = Down()
    world = World(journal)
    await strand(world, "a", lease=0)
    gate = Gate()
    with caplog.at_level(logging.WARNING, "loom_ia.app"):
        async with running(watched(world.instance(agent(Model(gate)), "worker-2"))):
            await settle()
            journal.down = False
            await gate.reached()
    assert "recovery not possible now: the journal is down" in caplog.text
