"""Following a run: every fact once, in order, and what is said meanwhile, without touching it."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import pytest

from loom_ia.adapters.journals.jsonl import JsonlJournal
from loom_ia.adapters.journals.memory import MemoryJournal
from loom_ia.app import runs
from loom_ia.app.cancel import cancel
from loom_ia.app.following import Following, Manner, follow
from loom_ia.app.instance import Instance
from loom_ia.app.runs import Order
from loom_ia.core.errors import CursorRefused, ModelError, UnknownRun
from loom_ia.core.events import Event
from loom_ia.core.model import (
    ModelChunk,
    ModelRequest,
    Retry,
    Stopped,
    TextDelta,
    Usage,
    UsageReported,
)
from loom_ia.engine.streaming import LiveItem
from loom_ia.engine.voices import Spoken, Unsaid
from loom_ia.testing.journals import JournalSpy
from tests.engine.world import Ask, Gate, Hand, Model, World, agent, run, running

SESSION, RUN = "session-1", "run-1"
DELTAS = Manner(deltas=True)


async def drained(following: Following) -> list[LiveItem]:
    """Take everything until the end."""
    items: list[LiveItem] = []
    while (found := await following.next()) is not None:
        items += found
    following.close()
    return items


async def followed(
    instance: Instance, after: int | str = 0, manner: Manner | None = None
) -> list[LiveItem]:
    """Follow the run from a place to the end."""
    return await drained(await follow(instance, RUN, after_seq=after, manner=manner or Manner()))


def seqs(items: Sequence[LiveItem]) -> list[int]:
    """Give the places of the events among items."""
    return [item.seq for item in items if isinstance(item, Event)]


def shown(items: Sequence[LiveItem]) -> str:
    """Give the text that somebody has on the screen who does as the items say."""
    texts: dict[str, str] = {}
    whole: list[str] = []
    for item in items:
        if isinstance(item, Unsaid):
            texts.pop(item.run_id, None)
        elif isinstance(item, Spoken):
            if item.offset == 0:
                whole.append(texts.pop(item.run_id, ""))
            text = texts.get(item.run_id, "")
            assert item.offset == len(text)
            texts[item.run_id] = text + item.text
    return "".join([*whole, *texts.values()])


def submitted(instance: Instance) -> asyncio.Task[Any]:
    """Submit the run in a task."""
    return asyncio.ensure_future(runs.submit(instance, Order("clerk", "go", SESSION, RUN)))


class Speaker(Model):
    """Says each text, and stops at a gate or fails in the middle."""

    def __init__(self, *steps: str | Gate | BaseException, attempts: int = 1) -> None:
        super().__init__()
        self.spec = self.spec.model_copy(
            update={"retry": Retry(max_attempts=attempts, initial_delay=0.0, max_delay=0.0)}
        )
        self.steps = list(steps)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
        del request
        while self.steps:
            step = self.steps.pop(0)
            if isinstance(step, BaseException):
                raise step
            if isinstance(step, Gate):
                await step.stop()
            else:
                yield TextDelta(step)
        yield UsageReported(Usage(input_tokens=1, output_tokens=1))
        yield Stopped("end")


async def test_every_place_can_be_gone_on_from() -> None:
    """PUB-42: what follows each place, with what came before, is the journal: once, in order."""
    world = World()
    instance = world.instance(agent(Model([Ask(), Ask()], Ask(), "done"), Hand()))
    await run(instance)
    places = [event.seq for event in await world.events(SESSION)]
    for place in (0, *places):
        assert seqs(await followed(instance, place)) == places[place:]
    other = world.instance(agent(Model()), "worker-2")
    assert seqs(await followed(other, 3)) == places[3:]


@pytest.mark.parametrize("after", ["abc", "-1", "1.5", "", " 1", "٣", "1e3", "9" * 30, 99, -7])
async def test_a_place_that_is_none_is_refused_with_the_last_one(after: int | str) -> None:
    """A cursor that is malformed or beyond the end is never an empty success."""
    world = World()
    instance = world.instance(agent(Model("done")))
    await run(instance)
    last = len(await world.events(SESSION))
    with pytest.raises(CursorRefused, match=f"the last valid one is {last}") as refused:
        await followed(instance, after)
    assert refused.value.last == last


async def test_a_place_after_the_run_is_refused_though_its_session_goes_on() -> None:
    """The end is that of the run, not of the session that others go on with."""
    world = World()
    instance = world.instance(agent(Model("done", "done")))
    await run(instance)
    last = len(await world.events(SESSION))
    await run(instance, run_id="run-2")
    assert seqs(await followed(instance, last)) == []
    with pytest.raises(CursorRefused) as refused:
        await followed(instance, last + 1)
    assert refused.value.last == last
    with pytest.raises(UnknownRun):
        await follow(instance, "run-9")


async def test_whoever_opened_the_run_what_it_says_is_heard() -> None:
    """A run in the background is heard: the pieces add up to the text, the end comes last."""
    world = World()
    gate = Gate()
    instance = world.instance(agent(Speaker(gate, "it ", "makes ", "three")))
    await submitted(instance)
    await gate.reached()
    following = await follow(instance, RUN, manner=DELTAS)
    gate.open()
    items = await drained(following)
    assert shown(items) == "it makes three"
    assert isinstance(items[-1], Event)
    assert items[-1].type == "run.completed"
    kinds = [item.type if isinstance(item, Event) else "" for item in items]
    assert kinds.index("step.started") < kinds.index("") < kinds.index("model.responded")
    assert seqs(items) == seqs(await world.events(SESSION))
    await instance.close()


async def test_who_comes_in_the_middle_of_an_answer_hears_it_from_its_beginning() -> None:
    """No half of a text is given without the other: the first piece has all that was said."""
    world = World()
    gate = Gate()
    instance = world.instance(agent(Speaker("it makes ", gate, "three")))
    await submitted(instance)
    await gate.reached()
    following = await follow(instance, RUN, after_seq=1, manner=DELTAS)
    first = await following.next()
    assert first is not None
    assert [i for i in first if isinstance(i, Spoken)] == [Spoken("it makes ", RUN, 0)]
    gate.open()
    rest = await drained(following)
    assert [i for i in rest if isinstance(i, Spoken)] == [Spoken("three", RUN, 9)]
    await instance.close()


async def test_an_attempt_that_is_given_up_is_taken_back() -> None:
    """A model that fails in the middle and is asked again: what was heard is dropped, once."""
    world = World()
    gate, again = Gate(), Gate()
    cut = ModelError("transient", "cut")
    model = Speaker("it mak", gate, cut, again, "it makes three", attempts=2)
    instance = world.instance(agent(model))
    await submitted(instance)
    await gate.reached()
    following = await follow(instance, RUN, manner=DELTAS)
    late = await follow(instance, RUN, manner=DELTAS)
    heard = list(await following.next() or ())
    assert shown(heard) == "it mak"
    gate.open()
    await again.reached()
    again.open()
    heard += await drained(following)
    assert [i for i in heard if isinstance(i, Unsaid)] == [Unsaid(RUN)]
    assert shown(heard) == "it makes three"
    unheard = await drained(late)
    assert not [i for i in unheard if isinstance(i, Unsaid)]
    assert shown(unheard) == "it makes three"
    await instance.close()


async def test_a_run_that_is_stopped_takes_back_what_it_was_saying() -> None:
    """An answer that never became a fact is dropped before the fact that ends the run."""
    world = World()
    gate = Gate()
    instance = world.instance(agent(Speaker("it mak", gate)))
    await submitted(instance)
    await gate.reached()
    following = await follow(instance, RUN, manner=DELTAS)
    heard = list(await following.next() or ())
    assert await cancel(instance, RUN, by="ana")
    heard += await drained(following)
    assert shown(heard) == ""
    kinds = [
        type(item) if isinstance(item, Unsaid) else getattr(item, "type", "") for item in heard
    ]
    assert kinds.index(Unsaid) < kinds.index("run.cancelled")
    await instance.close()


async def test_a_text_that_is_held_back_is_not_heard_before_its_checks() -> None:
    """With `after_guards`, the text comes whole, after the answer and before the end."""
    world = World()
    gate = Gate()
    instance = world.instance(
        agent(Speaker(gate, "it ", "makes three"), stream_output="after_guards")
    )
    await submitted(instance)
    await gate.reached()
    following = await follow(instance, RUN, manner=DELTAS)
    gate.open()
    items = await drained(following)
    said = [i for i in items if isinstance(i, Spoken)]
    assert said == [Spoken("it makes three", RUN, 0)]
    kinds = [item.type if isinstance(item, Event) else "" for item in items]
    assert kinds.index("model.responded") < kinds.index("") == len(kinds) - 2
    await instance.close()


async def test_who_is_slow_misses_nothing_and_keeps_little() -> None:
    """A follower that never asks holds a bounded number of facts, then has them all."""
    world = World()
    gate = Gate()
    model = Model(*[Ask() for _ in range(120)], last="done")
    hand = Hand(action=lambda *_: gate.stop())
    instance = world.instance(agent(model, hand, max_iterations=200))
    await submitted(instance)
    await gate.reached()
    following = await follow(instance, RUN, manner=DELTAS)
    items = list(await following.next() or ())
    gate.open()
    await instance.drain()
    assert len(following._events) <= 256
    written = seqs(await world.events(SESSION))
    assert len(written) > 512
    items += await drained(following)
    assert seqs(items) == written
    await instance.close()


async def test_an_answer_of_many_pieces_costs_a_slow_follower_one() -> None:
    """What was said meanwhile comes in one piece, and nothing of it is lost."""
    world = World()
    gate = Gate()
    pieces = [f"{number} " for number in range(5_000)]
    instance = world.instance(agent(Speaker(gate, *pieces)))
    await submitted(instance)
    await gate.reached()
    following = await follow(instance, RUN, manner=DELTAS)
    gate.open()
    await instance.drain()
    items = await drained(following)
    assert shown(items) == "".join(pieces)
    assert len([i for i in items if isinstance(i, Spoken)]) == 1
    await instance.close()


async def test_following_ends_when_it_is_told_and_changes_nothing() -> None:
    """PUB-43: readers that leave are not felt by the run, which goes on to its end."""
    world = World()
    gate = Gate()
    instance = world.instance(agent(Speaker(gate, "three")))
    await submitted(instance)
    await gate.reached()
    leaving = [await follow(instance, RUN, manner=DELTAS) for _ in range(5)]
    for following in leaving:
        await following.next()
    async with running(leaving[0].next()) as waiting:
        await asyncio.sleep(0)
        leaving[0].end()
        assert await waiting is None
    for following in leaving:
        following.close()
    log, _ = await instance.find(RUN)
    assert (log.followers, log.voices.ears) == ([], [])
    gate.open()
    await instance.drain()
    assert (await world.types(SESSION))[-1] == "run.completed"
    await instance.close()


async def test_a_wait_that_brings_nothing_says_so() -> None:
    """A timeout gives nothing, and following goes on."""
    world = World()
    gate = Gate()
    instance = world.instance(agent(Speaker(gate, "three")))
    await submitted(instance)
    await gate.reached()
    following = await follow(instance, RUN)
    assert await following.next()
    assert await following.next(0.01) == ()
    gate.open()
    assert seqs(await drained(following))[-1] == len(await world.events(SESSION))
    await instance.close()


async def test_what_is_told_outside_survives_a_power_cut() -> None:
    """With `flushed`, no fact is given before a flush that covers it."""
    journal = _Remembering()
    world = World(journal)
    gate = Gate()
    instance = world.instance(agent(Model(Ask(), "done"), Hand(action=lambda *_: gate.stop())))
    await submitted(instance)
    await gate.reached()
    following = await follow(instance, RUN, manner=Manner(flushed=True))
    seen: list[int] = []
    while (found := await following.next()) is not None:
        assert max(seqs(found)) <= journal.flushed
        seen += seqs(found)
        if any(item.type == "tool.called" for item in found if isinstance(item, Event)):
            gate.open()  # the driver itself does not flush this one
    assert seen == seqs(await world.events(SESSION))
    await instance.close()


class _Remembering(MemoryJournal):
    """A journal that claims to be durable, and remembers what was flushed."""

    def __init__(self) -> None:
        super().__init__()
        self.flushed = 0
        self.last = 0

    @property
    def durable(self) -> bool:
        return True

    async def append(self, batch: Sequence[Event], *, expected: int, sync: bool) -> Any:
        outcome = await super().append(batch, expected=expected, sync=sync)
        if isinstance(outcome, int):
            self.last = outcome
            self.flushed = outcome if sync else self.flushed
        return outcome

    async def flush(self) -> None:
        covered = self.last
        await asyncio.sleep(0)
        self.flushed = covered


async def test_a_run_that_is_driven_here_is_not_looked_for_in_the_journal() -> None:
    """Followers of a run of this instance never read, save to begin."""
    spy = JournalSpy(World().journal)
    world = World(spy)
    gate = Gate()
    instance = world.instance(agent(Speaker(gate, "three")))
    await submitted(instance)
    await gate.reached()
    many = [await follow(instance, RUN, manner=Manner(poll=0.001)) for _ in range(3)]
    for following in many:
        await following.next()
    before = spy.counts.reads
    assert [await following.next(0.05) for following in many] == [(), (), ()]
    assert spy.counts.reads == before
    gate.open()
    await asyncio.gather(*(drained(following) for following in many))
    assert spy.counts.reads == before
    await instance.close()


async def test_what_another_process_writes_is_seen_in_order(tmp_path: Path) -> None:
    """Two instances on one journal: the one that does not drive gives the same facts."""
    world = World(JsonlJournal(tmp_path))
    gate = Gate()
    driving = world.instance(agent(Model(Ask(), "done"), Hand(action=lambda *_: gate.stop())))
    reading = world.instance(agent(Model()), "worker-2", journal=JsonlJournal(tmp_path))
    await submitted(driving)
    await gate.reached()
    following = await follow(reading, RUN, manner=Manner(deltas=True, flushed=True, poll=0.01))
    first = await following.next()
    gate.open()
    items = [*(first or ()), *await drained(following)]
    assert items == await world.events(SESSION)
    await driving.close()
    await reading.close()


async def test_runs_that_share_a_session_are_told_apart_whoever_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes write one session at once, a third follows both runs, a few facts at a time."""
    monkeypatch.setattr("loom_ia.app.following._KEPT", 3)
    world = World(JsonlJournal(tmp_path))
    replies = [[Ask(), Ask()], Ask(), Ask(), "done"]
    one, two = (
        world.instance(agent(Model(*replies), Hand()), name, journal=JsonlJournal(tmp_path))
        for name in ("worker-1", "worker-2")
    )
    reading = world.instance(agent(Model()), "worker-3", journal=JsonlJournal(tmp_path))
    for instance, run_id in ((one, "run-1"), (two, "run-2")):
        await runs.submit(instance, Order("clerk", "go", SESSION, run_id))
    manner = Manner(flushed=True, deltas=True, poll=0.001)
    both = [
        await follow(instance, run_id, manner=manner)
        for run_id in ("run-1", "run-2")
        for instance in (one, two, reading)
    ]
    told = await asyncio.gather(*(drained(following) for following in both))
    written = await world.events(SESSION)
    assert [event.seq for event in written] == list(range(1, len(written) + 1))
    for following, items in zip(both, told, strict=True):
        facts = [item for item in items if isinstance(item, Event)]
        assert facts == [event for event in written if event.run_id == following.run_id]
    for instance in (one, two, reading):
        await instance.close()


async def test_a_session_that_is_deleted_ends_what_follows_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody waits for ever for a run that is no more."""
    monkeypatch.setattr("loom_ia.app.following._LOOK_FOR_S", 0.0)
    world = World()
    instance = world.instance(agent(Model(Ask()), Hand(approval="always")))
    await run(instance)
    following = await follow(instance, RUN, manner=Manner(poll=0.001))
    assert await following.next()
    await world.journal.delete("default", SESSION)
    async with asyncio.timeout(5):
        assert await following.next() is None
    await instance.close()
