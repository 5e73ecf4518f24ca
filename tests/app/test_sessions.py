"""Several runs of one session: one after the other, at once, and in several processes."""

import asyncio

import pytest

from loom_ia.adapters.journals.memory import MemoryJournal
from loom_ia.app import runs
from loom_ia.app.instance import Instance
from loom_ia.app.reading import events as read_events
from loom_ia.app.runs import Order
from loom_ia.core.errors import RunExists, UnknownAgent, UnknownRun, UnstorableValue, UnusableId
from loom_ia.core.model import CallerContext, Message
from loom_ia.core.state import Status
from loom_ia.testing.journals import JournalSpy
from tests.core.validity import faults
from tests.engine.world import Ask, Gate, Hand, Model, World, agent, run, running, text_of


async def test_g1_the_second_run_reads_the_first_exchange() -> None:
    """In the process that drove the first, and in one that only has the journal."""
    world = World()
    model = Model(Ask(), last="forty-two")
    tool = Hand(action=lambda _, __: "42")
    await run(world.instance(agent(model, tool)), "how much?")
    for number, worker in enumerate(["worker-1", "worker-2"], 2):
        model.replies[0] = "again"
        state = await run(
            world.instance(agent(model, tool), worker), "sure?", run_id=f"run-{number}"
        )
        assert text_of(state) == "again"
    for request in model.requests[2:]:
        assert [m.role for m in request.history][:4] == ["user", "assistant", "tool", "assistant"]
        assert request.history[0].as_text() == "how much?"
        assert request.history[3].as_text() == "forty-two"
        assert faults(request.conversation()) == []
    assert len(model.requests[3].history) == 6


async def test_pub_15_two_runs_at_once_in_one_session_do_not_mix() -> None:
    """Their events may interleave, their turns do not, and places are unique."""
    world = World()
    gate = Gate()
    model = Model([Ask(), Ask()], Ask())
    tool = Hand(action=lambda _, __: gate.stop())
    one, two = (world.instance(agent(model, tool), f"worker-{n}") for n in (1, 2))
    async with running(run(one, "first"), run(two, "second", run_id="run-2")) as drives:
        await gate.reached()
        gate.open()
        states = await asyncio.gather(*drives)
    assert {state.status for state in states} == {Status.COMPLETED}
    written = await world.events("session-1")
    assert [e.seq for e in written] == list(range(1, len(written) + 1))
    await run(world.instance(agent(model, tool), "worker-3"), "third", run_id="run-3")
    history = model.requests[-1].history
    assert faults(history) == []
    assert sorted(m.as_text() for m in history if m.role == "user") == ["first", "second"]


async def test_pub_16_twenty_first_runs_at_once_in_one_new_session() -> None:
    """Every one of twenty processes gets its run, and no conflict reaches a caller."""
    world = World(spy := JournalSpy(MemoryJournal()))
    states = await asyncio.gather(
        *(
            run(world.instance(agent(Model(Ask()), Hand()), f"worker-{n}"), run_id=f"run-{n}")
            for n in range(20)
        )
    )
    assert {state.status for state in states} == {Status.COMPLETED}
    written = await world.events("session-1")
    assert [e.seq for e in written] == list(range(1, len(written) + 1))
    assert spy.counts.events == len(written)


async def test_the_model_is_told_what_waits_elsewhere_in_the_session() -> None:
    """A run knows of the calls of other runs that a human has not decided."""
    world = World()
    tool = Hand(approval="always")
    await run(world.instance(agent(Model(Ask(arguments={"to": "ada"})), tool)))
    model = Model("noted")
    await run(world.instance(agent(model, tool), "worker-2"), "and?", run_id="run-2")
    assert 'act (c0.0) {"to": "ada"}' in model.requests[0].system
    assert model.requests[0].history == ()


async def opened_and_driven(instance: Instance, order: Order) -> None:
    """Open a run and drive it."""
    opened = await runs.open_run(instance, order)
    await runs.drive(instance, opened.pen, opened.program)


@pytest.mark.parametrize(
    ("order", "error"),
    [
        (Order("nobody", "go"), UnknownAgent),
        (Order("clerk", "go", session_id="../etc"), UnusableId),
        (Order("clerk", "go", run_id="a b"), UnusableId),
        (Order("clerk", "go", "session-1", "run-1"), RunExists),
        (
            Order("clerk", "go", context=CallerContext(metadata={"n": float("inf")})),
            UnstorableValue,
        ),
    ],
)
async def test_what_is_refused_writes_nothing(order: Order, error: type[Exception]) -> None:
    """An order that cannot be is refused before anything exists."""
    world = World()
    instance = world.instance(agent(Model()))
    await run(instance)
    before = await world.journal.sessions("default")
    with pytest.raises(error):
        await opened_and_driven(instance, order)
    assert await world.journal.sessions("default") == before
    assert instance.driven == {}


async def test_what_people_say_is_mended_and_flagged() -> None:
    """Half a character becomes a mark, and the fact says so; the rest is untouched."""
    world = World()
    instance = world.instance(agent(Model()))
    await run(instance, "half \ud83d")
    await run(instance, "whole \U0001f600", run_id="run-2")
    said = [e.payload for e in await world.events("session-1") if e.type == "message.user"]
    assert [(s.message.as_text(), s.mended) for s in said] == [  # type: ignore[attr-defined]
        ("half \ufffd", ("message",)),
        ("whole \U0001f600", ()),
    ]


async def test_a_message_of_blocks_is_taken_as_it_is() -> None:
    """Callers may build the message themselves."""
    world = World()
    opened = await runs.open_run(
        world.instance(agent(Model())), Order("clerk", Message.text("user", "hi"), "session-1")
    )
    assert opened.pen.run.conversation.messages[0].as_text() == "hi"


async def test_reading_a_run_gives_its_events_in_any_session() -> None:
    """A run id alone finds them, and a run that does not exist is said to be so."""
    world = World()
    await run(world.instance(agent(Model())), run_id="run-1")
    await run(world.instance(agent(Model())), run_id="run-2")
    reader = world.instance(agent(Model()), "reader")
    own = await read_events(reader, "run-2")
    assert {e.run_id for e in own} == {"run-2"}
    assert own == (await world.events("session-1"))[len(own) :]
    assert await read_events(reader, "run-2", after_seq=own[-2].seq) == own[-1:]
    with pytest.raises(UnknownRun, match="run-9"):
        await read_events(reader, "run-9")
