"""What a run says while it lives: text as it comes, facts as they are written."""

import asyncio

import pytest

from loom_ia.adapters.journals.memory import MemoryJournal
from loom_ia.app import runs
from loom_ia.app.cancel import cancel
from loom_ia.app.runs import Order, resume
from loom_ia.core.errors import DecisionRefused, ModelError
from loom_ia.core.events import Event
from loom_ia.core.ids import SessionId, TenantId
from loom_ia.core.model import Reset, TextDelta
from loom_ia.core.state import Status
from loom_ia.engine.streaming import Feed, LiveItem
from loom_ia.testing.journals import JournalSpy
from tests.engine.world import Ask, Gate, Hand, Model, World, agent, run, running, settle, text_of


async def streamed(world: World, model: Model, *tools: Hand) -> list[LiveItem]:
    """Stream a run to its end."""
    order = Order("clerk", "go", "session-1", "run-1")
    return [item async for item in runs.stream(world.instance(agent(model, *tools)), order)]


async def test_a6_a_stream_has_the_text_and_the_facts_in_order() -> None:
    """Pieces of text add up to the answer, a call is seen before the last, the end comes last."""
    world = World()
    items = await streamed(world, Model(Ask(), "it makes three"), Hand())
    deltas = [item.text for item in items if isinstance(item, TextDelta)]
    assert len(deltas) > 1
    assert "".join(deltas) == "it makes three"
    kinds = [item.type if isinstance(item, Event) else type(item).__name__ for item in items]
    last_delta = len(kinds) - 1 - kinds[::-1].index("TextDelta")
    assert kinds.index("tool.called") < last_delta
    assert kinds[-1] == "run.completed"


async def test_a_stream_has_every_fact_once() -> None:
    """Facts are those of the journal, no more and no fewer, without reading it."""
    spy = JournalSpy(World().journal)
    world = World(spy)
    items = await streamed(world, Model([Ask(), Ask()], Ask()), Hand())
    reads = spy.counts.reads
    assert [i for i in items if isinstance(i, Event)] == await world.events("session-1")
    assert reads == 1


async def test_a_stream_tells_only_of_its_own_run() -> None:
    """Other runs of the session are theirs to tell."""
    world = World()
    gate = Gate()
    instance = world.instance(agent(Model(gate)))

    async def other() -> None:
        await gate.reached()
        opened = await runs.open_run(instance, Order("clerk", "hi", "session-1", "run-2"))
        gate.open()
        await runs.drive(instance, opened.pen, opened.program)

    async with running(other()) as beside:
        order = Order("clerk", "go", "session-1", "run-1")
        items = [item async for item in runs.stream(instance, order)]
        await beside
    assert {item.run_id for item in items if isinstance(item, Event)} == {"run-1"}


async def test_a_stream_raises_what_the_drive_raises_after_its_facts() -> None:
    """A failed run ends its stream with the fact; an error of the caller is raised."""
    world = World()
    items = await streamed(world, Model(ModelError("auth", "no key")))
    assert isinstance(items[-1], Event)
    assert items[-1].type == "run.failed"
    order = Order("clerk", "go", "session-1", "run-2", approver=lambda _: None)  # type: ignore[arg-type,return-value]
    instance = world.instance(agent(Model(Ask()), Hand(approval="always")))
    with pytest.raises(DecisionRefused):
        async for _ in runs.stream(instance, order):
            pass


async def test_an_abandoned_stream_can_be_resumed() -> None:
    """Leaving the iteration stops the drive, hands the run back and loses nothing."""
    world = World()
    gate = Gate()
    tool = Hand(action=lambda _, __: gate.stop())
    instance = world.instance(agent(Model(Ask()), tool))
    stream = runs.stream(instance, Order("clerk", "go", "session-1", "run-1"))
    async for item in stream:
        if isinstance(item, Event) and item.type == "tool.called":
            break
    await stream.aclose()  # type: ignore[attr-defined]
    assert instance.driven == {}
    assert (await world.types("session-1"))[-1] == "run.claimed"
    gate.open()
    other = world.instance(agent(Model(Ask()), tool), "worker-2")
    assert text_of(await resume(other, "run-1")) == "done"


async def test_a_slow_consumer_loses_text_and_never_facts() -> None:
    """What did not fit is read again from the journal, and a reset stands for the lost text."""
    world = World()
    instance = world.instance(agent(Model(*[Ask()] * 5, "a long answer, in many pieces"), Hand()))
    opened = await runs.open_run(instance, Order("clerk", "go", "session-1", "run-1"))
    feed = Feed(opened.log, "run-1", capacity=6)
    feed.attach()
    await runs.drive(instance, opened.pen, opened.program, listener=feed.chunk)
    feed.end()
    items = [item async for item in feed.items()]
    feed.detach()
    feed.detach()
    assert [i for i in items if isinstance(i, Event)] == await world.events("session-1")
    assert isinstance(items[0], Reset)
    assert not [i for i in items if isinstance(i, TextDelta)]


@pytest.mark.parametrize("pace", [1, 2, 3, 5, 8])
async def test_a_consumer_of_any_pace_has_every_fact_once_and_in_order(pace: int) -> None:
    """Falling behind and catching up, again and again, neither loses nor repeats a fact."""
    world = World()
    instance = world.instance(agent(Model(*[Ask()] * 10), Hand(), max_iterations=99))
    opened = await runs.open_run(instance, Order("clerk", "go", "session-1", "run-1"))
    feed = Feed(opened.log, "run-1", capacity=4)
    feed.attach()
    seen: list[int] = []

    async def consume() -> None:
        count = 0
        async for item in feed.items():
            if isinstance(item, Event):
                seen.append(item.seq)
            count += 1
            if count % pace == 0:
                await settle()

    async with running(consume()) as consuming:
        await settle()
        await runs.drive(instance, opened.pen, opened.program, listener=feed.chunk)
        feed.end()
        await consuming
    assert seen == [e.seq for e in await world.events("session-1")]


async def test_a_fact_that_is_written_while_the_consumer_catches_up_is_given_once() -> None:
    """It comes with what is read and is queued as well: the second time it is passed over."""

    class Busy(MemoryJournal):
        async def read(
            self, tenant_id: TenantId, session_id: SessionId, *, after: int = 0
        ) -> list[Event]:
            if feeding:
                feeding.pop()
                await run(instance, run_id="run-2")
            return await super().read(tenant_id, session_id, after=after)

    feeding: list[bool] = []
    world = World(Busy())
    instance = world.instance(agent(Model(), Hand()))
    opened = await runs.open_run(instance, Order("clerk", "go", "session-1", "run-1"))
    feed = Feed(opened.log, "run-1", capacity=4)
    feed._root = "run-2"
    feed.attach()
    await runs.drive(instance, opened.pen, opened.program)
    feeding.append(True)
    feed._capacity = 99
    feed.end()
    seen = [item.seq async for item in feed.items() if isinstance(item, Event)]
    assert seen == [e.seq for e in await world.events("session-1") if e.run_id == "run-2"]


async def test_facts_of_another_process_reach_a_stream() -> None:
    """What a conflict brings is told too: a cancel from elsewhere ends the stream."""
    world = World()
    gate = Gate()
    instance = world.instance(agent(Model(gate)))
    other = world.instance(agent(Model()), "worker-2")

    async def cancels() -> None:
        await gate.reached()

        await cancel(other, "run-1", by="ada")
        gate.open()

    async with running(cancels()):
        order = Order("clerk", "go", "session-1", "run-1")
        items = [item async for item in runs.stream(instance, order)]
    assert isinstance(items[-1], Event)
    assert items[-1].type == "run.cancelled"


async def test_two_streams_of_one_session_live_side_by_side() -> None:
    """Each has its own run whole, whatever the other does."""
    world = World()
    instance = world.instance(agent(Model([Ask(), Ask()]), Hand()))

    async def one(run_id: str) -> list[str]:
        order = Order("clerk", "go", "session-1", run_id)
        return [i.type async for i in runs.stream(instance, order) if isinstance(i, Event)]

    first, second = await asyncio.gather(one("run-1"), one("run-2"))
    assert first == second
    assert first[-1] == "run.completed"
    state = await run(instance, run_id="run-3")
    assert state.status is Status.COMPLETED
