"""What a step does inside itself: recorded effects, questions, and what may not be repeated."""

import asyncio
from collections import Counter
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from loom_ia.core.events.envelope import Event
from loom_ia.core.events.graph import EffectRecorded
from loom_ia.graph import (
    Ask,
    DuplicateKey,
    Graph,
    MemoryStore,
    NonDeterministicStep,
    NotSerializable,
    Retry,
    StepFailed,
    StopReason,
    UnknownEffect,
    append,
)
from loom_ia.testing import Crash
from tests.graph.mortal import Mortal, ends

State = dict[str, Any]
Flow = Graph[State]


def effect(key: str, phase: str) -> Any:
    """Tell one phase of an effect."""

    def tell(event: Event) -> bool:
        fact = event.payload
        return isinstance(fact, EffectRecorded) and (fact.key, fact.phase) == (key, phase)

    return tell


async def test_an_effect_that_is_recorded_is_never_made_again() -> None:
    """A step that runs again gets what its effects gave, from the journal."""
    made, world = list[str](), Mortal()
    graph: Flow = Graph("effects")

    @graph.step()
    async def work(state: State, ctx: Any) -> State:
        one = await ctx.effect("one", lambda: made.append("one") or (1, {"a": b"x"}))
        two = await ctx.effect("two", lambda: made.append("two") or 2)
        return {"one": one, "two": two}

    with pytest.raises(Crash):
        await graph.run(store=world.store(effect("two", "done")), run_id="run")
    with pytest.raises(Crash):
        await graph.resume("run", store=world.store(ends("work")), take_over=True)
    result = await graph.resume("run", store=world.store(), take_over=True)
    assert result.state == {"one": (1, {"a": b"x"}), "two": 2}
    assert made == ["one", "two", "two"]


async def test_an_effect_has_one_key_whoever_makes_it() -> None:
    """The key is the same for each execution, and another one for each occurrence and effect."""
    keys, world = list[str](), Mortal()
    graph: Flow = Graph("effects", "work")

    def keep(key: str) -> int:
        keys.append(key)
        return len(keys)

    @graph.step(then=lambda state: "work" if state["turn"] == 1 else "")
    async def work(state: State, ctx: Any) -> State:
        await ctx.effect("one", keep)
        await ctx.effect("two", keep)
        return {"turn": ctx.occurrence}

    with pytest.raises(Crash):
        await graph.run(store=world.store(effect("two", "done")), run_id="run")
    await graph.resume("run", store=world.store(), take_over=True)
    first, second, again, *others = keys
    assert second == again
    assert len({first, second, *others}) == 4


async def test_sync_and_async_effects_give_what_the_codec_keeps() -> None:
    """An effect may be sync or async, and its result is a copy as the codec reads it back."""
    store, given = MemoryStore(), [1, 2]
    graph: Flow = Graph("effects")

    async def later(key: str) -> datetime:
        assert key
        return datetime(2026, 1, 1, tzinfo=UTC)

    @graph.step()
    async def work(state: State, ctx: Any) -> State:
        listed = await ctx.effect("list", lambda: given)
        assert listed is not given
        return {"listed": listed, "when": await ctx.effect("when", later)}

    result = await graph.run(store=store)
    assert result.state == {"listed": [1, 2], "when": datetime(2026, 1, 1, tzinfo=UTC)}


async def test_an_effect_whose_result_cannot_be_kept_fails_the_step() -> None:
    """The place that is named is the effect."""
    graph: Flow = Graph("effects")

    @graph.step()
    async def work(state: State, ctx: Any) -> None:
        await ctx.effect("thing", lambda: {"deep": [object()]})

    with pytest.raises(NotSerializable) as caught:
        await graph.run()
    assert caught.value.key_path == "thing.deep[0]"


async def test_an_effect_that_raises_is_made_again() -> None:
    """An effect that failed is not recorded: the next attempt makes it again."""
    made: list[int] = []
    graph: Flow = Graph("effects")

    def act(key: str) -> int:
        made.append(len(made))
        if len(made) == 1:
            raise ConnectionError("down")
        return len(made)

    @graph.step(retry=Retry(attempts=2, delay=0))
    async def work(state: State, ctx: Any) -> State:
        return {"n": await ctx.effect("act", act, side_effects="irreversible")}

    assert (await graph.run()).state == {"n": 2}


async def test_effects_survive_a_retry() -> None:
    """What an attempt recorded, the next attempts are given."""
    made = Counter[str]()
    graph: Flow = Graph("effects")

    @graph.step(retry=Retry(attempts=3, delay=0))
    async def work(state: State, ctx: Any) -> State:
        await ctx.effect("one", lambda: made.update(["one"]))
        if ctx.attempt < 3:
            raise RuntimeError("again")
        return {"attempt": ctx.attempt}

    assert (await graph.run()).state == {"attempt": 3}
    assert made == {"one": 1}


@pytest.mark.parametrize(
    ("options", "again"),
    [
        ({"side_effects": "none"}, True),
        ({"side_effects": "reversible", "idempotent": True}, True),
        ({"side_effects": "irreversible", "idempotent": True}, True),
        ({"side_effects": "reversible"}, False),
        ({"side_effects": "irreversible"}, False),
    ],
)
async def test_an_interrupted_effect(options: dict[str, Any], again: bool) -> None:
    """An effect without a record is made again under its key, unless it may not be repeated."""
    keys, world = list[str](), Mortal()
    graph: Flow = Graph("effects")

    @graph.step()
    async def work(state: State, ctx: Any) -> State:
        return {"n": await ctx.effect("act", lambda key: keys.append(key) or 1, **options)}

    with pytest.raises(Crash):
        await graph.run(store=world.store(effect("act", "done")), run_id="run")
    if again:
        assert (await graph.resume("run", store=world.store(), take_over=True)).state == {"n": 1}
        assert len(keys) == 2
        assert len(set(keys)) == 1
        return
    for _ in range(3):
        with pytest.raises(UnknownEffect) as caught:
            await graph.resume("run", store=world.store(), take_over=True)
        assert (caught.value.key, caught.value.step) == ("act", "work")
        assert caught.value.result.stop is StopReason.ERROR
    assert len(keys) == 1


async def test_an_effect_that_did_not_begin_is_made() -> None:
    """Dying before the start was recorded leaves an effect that surely did not happen."""
    keys, world = list[str](), Mortal()
    graph: Flow = Graph("effects")

    @graph.step()
    async def work(state: State, ctx: Any) -> None:
        await ctx.effect("act", keys.append, side_effects="irreversible")

    with pytest.raises(Crash):
        await graph.run(store=world.store(effect("act", "started")), run_id="run")
    assert not keys
    assert (await graph.resume("run", store=world.store(), take_over=True)).steps == 1
    assert len(keys) == 1


def pausing(keys: list[str]) -> Flow:
    """Make a graph that asks about an effect that nobody saw the end of."""
    graph: Flow = Graph("effects")

    @graph.step(on_unknown="pause")
    async def work(state: State, ctx: Any) -> State:
        await ctx.effect("draft", lambda: keys.append("draft"))
        sent = await ctx.effect(
            "send", lambda key: keys.append(key) or "sent", side_effects="irreversible"
        )
        return {"sent": sent}

    return graph


async def test_a_human_lets_an_unknown_effect_be_made_once_more() -> None:
    """Approved, it is made again under the same key; what was recorded before is not."""
    keys, world = list[str](), Mortal()
    graph = pausing(keys)
    with pytest.raises(Crash):
        await graph.run(store=world.store(effect("send", "done")), run_id="run")
    paused = await graph.resume("run", store=world.store(), take_over=True)
    (asked,) = paused.interrupts
    assert asked.kind == "unknown_effect"
    assert asked.payload["effect"] == "send"
    yes = {asked.id: {"approved": True}}
    with pytest.raises(Crash):
        await graph.resume("run", answers=yes, store=world.store(effect("send", "done")))
    again = await graph.resume("run", store=world.store(), take_over=True)
    assert again.interrupts[0].id != asked.id  # one approval covers one more try
    yes = {again.interrupts[0].id: {"approved": True}}
    result = await graph.resume("run", answers=yes, store=world.store())
    assert result.state == {"sent": "sent"}
    draft, *sends = keys
    assert draft == "draft"
    assert len(sends) == 3
    assert len(set(sends)) == 1


@pytest.mark.parametrize("level", ["step", "effect"])
async def test_what_a_human_refuses_is_never_done_by_a_later_resume(level: str) -> None:
    """A refusal fails the step; to go on asks again, and acts on no account."""
    acted, world = list[str](), Mortal()
    graph: Flow = Graph("refused")

    async def in_step(state: State, ctx: Any) -> None:
        acted.append("step")

    async def in_effect(state: State, ctx: Any) -> None:
        await ctx.effect("act", lambda: acted.append("effect"), side_effects="irreversible")

    if level == "step":
        graph.add_step("act", in_step, side_effects="irreversible", on_unknown="pause")
        fatal = ends("act")
    else:
        graph.add_step("act", in_effect, on_unknown="pause")
        fatal = effect("act", "done")
    with pytest.raises(Crash):
        await graph.run(store=world.store(fatal), run_id="run")
    store = world.store()
    for number in range(3):
        paused = await graph.resume("run", store=store, take_over=True)
        assert [asked.kind for asked in paused.interrupts] == ["unknown_effect"]
        no = {paused.interrupts[0].id: {"approved": False, "reason": f"no {number}"}}
        with pytest.raises(StepFailed, match=f"no {number}") as caught:
            await graph.resume("run", answers=no, store=store)
        assert caught.value.step == "act"
    assert acted == [level]
    paused = await graph.resume("run", store=store)
    yes = {paused.interrupts[0].id: {"approved": True}}
    assert (await graph.resume("run", answers=yes, store=store)).stop is StopReason.COMPLETED
    assert acted == [level] * 2


async def test_a_timed_out_step_that_acts_is_unknown() -> None:
    """A step that acts and was cut for its time may have acted: it is not run again blindly."""
    ran, store, now = Counter[str](), MemoryStore(), asyncio.Event()
    graph: Flow = Graph("slow")

    @graph.step(timeout=0.01, side_effects="irreversible", on_unknown="pause")
    async def act(state: State) -> State:
        ran["act"] += 1
        await now.wait()
        return {"acted": True}

    paused = await graph.run(store=store)
    assert [asked.kind for asked in paused.interrupts] == ["unknown_effect"]
    now.set()
    yes = {paused.interrupts[0].id: {"approved": True}}
    assert (await graph.resume(paused.run_id, answers=yes, store=store)).state == {"acted": True}
    assert ran == {"act": 2}


# -- questions inside a step ----------------------------------------------------------------------


async def test_w23_effects_before_a_question_are_not_repeated() -> None:
    """Code before an interrupt runs again, its effects do not, and nothing is appended twice."""
    made, runs, store = Counter[str](), Counter[str](), MemoryStore()
    graph: Flow = Graph("asking", merge={"log": append})

    @graph.step()
    async def work(state: State, ctx: Any) -> State:
        runs["work"] += 1
        draft = await ctx.effect("draft", lambda: made.update(["draft"]) or "text")
        said = await ctx.interrupt({"draft": draft})
        return {"log": [draft, said]}

    paused = await graph.run(store=store)
    assert paused.interrupts[0].payload == {"draft": "text"}
    result = await graph.resume(
        paused.run_id, answers={paused.interrupts[0].id: "fine"}, store=store
    )
    assert result.state == {"log": ["text", "fine"]}
    assert (made, runs) == ({"draft": 1}, {"work": 2})


async def test_w23_an_update_of_a_question_is_merged_once() -> None:
    """What a question changes is merged at the pause and not again."""
    store = MemoryStore()
    graph: Flow = Graph("asking", merge={"log": append})

    @graph.step()
    async def work(state: State, ctx: Any) -> Any:
        if ctx.answer is None:
            return Ask("Which?", update={"log": ["ask"]})
        return {"log": [ctx.answer]}

    paused = await graph.run(store=store)
    assert paused.state == {"log": ["ask"]}
    result = await graph.resume(
        paused.run_id, answers={paused.interrupts[0].id: "ans"}, store=store
    )
    assert result.state == {"log": ["ask", "ans"]}


async def test_an_interrupt_is_matched_by_its_key() -> None:
    """A second question of a step does not take the answer of the first."""
    store = MemoryStore()
    graph: Flow = Graph("asking")

    @graph.step()
    async def work(state: State, ctx: Any) -> State:
        first = await ctx.interrupt("first?", key="first")
        return {"said": [first, await ctx.interrupt("second?", key="second")]}

    one = await graph.run(store=store)
    two = await graph.resume(one.run_id, answers={one.interrupts[0].id: 1}, store=store)
    assert [asked.key for asked in two.interrupts] == ["second"]
    result = await graph.resume(one.run_id, answers={two.interrupts[0].id: 2}, store=store)
    assert result.state == {"said": [1, 2]}


async def test_keys_of_effects_and_questions_are_apart() -> None:
    """An effect and a question may have the same key."""
    graph: Flow = Graph("asking")

    @graph.step()
    async def work(state: State, ctx: Any) -> State:
        return {"x": [await ctx.effect("x", lambda: 1), await ctx.interrupt(key="x")]}

    assert (await graph.run(approver=lambda asked: 2)).state == {"x": [1, 2]}


@pytest.mark.parametrize("options", [{"side_effects": "ireversible"}, {"idempotent": "yes"}])
async def test_a_wrong_option_of_an_effect_is_refused_at_the_call(options: dict[str, Any]) -> None:
    """An effect with an option that means nothing is not made, and the error names the option."""
    graph: Flow = Graph("wrong")
    made: list[int] = []

    @graph.step()
    async def work(state: State, ctx: Any) -> None:
        await ctx.effect("send", lambda: made.append(1), **options)

    with pytest.raises(StepFailed) as caught:
        await graph.run()
    assert isinstance(caught.value.__cause__, ValueError)
    assert next(iter(options)) in str(caught.value.__cause__)
    assert made == []


@pytest.mark.parametrize("what", ["effect", "interrupt"])
async def test_a_key_is_used_once(what: str) -> None:
    """A second use of a key in one execution is a mistake of the step."""
    graph: Flow = Graph("twice")

    @graph.step()
    async def work(state: State, ctx: Any) -> None:
        for _ in range(2):
            if what == "effect":
                await ctx.effect("x", lambda: 1)
            else:
                await ctx.interrupt(key="x")

    with pytest.raises(StepFailed) as caught:
        await graph.run(approver=lambda asked: 1)
    assert isinstance(caught.value.__cause__, DuplicateKey)
    assert "'x'" in str(caught.value.__cause__)


@pytest.mark.parametrize("first", [["a", "b"], ["a", "?q"], ["?q", "a"]])
@pytest.mark.parametrize("then", [["b", "a"], ["c", "a", "b"], ["b"], ["?r", "a", "?q"]])
async def test_other_keys_than_before_are_refused(first: list[str], then: list[str]) -> None:
    """A step that runs again must ask for what is recorded, in order, before anything new."""
    world, order = Mortal(), [first]
    graph: Flow = Graph("changing")

    @graph.step()
    async def work(state: State, ctx: Any) -> None:
        for key in order[-1]:
            if key.startswith("?"):
                await ctx.interrupt(key=key)
            else:
                await ctx.effect(key, lambda: 1)

    paused = None
    try:
        paused = await graph.run(store=world.store(ends("work")), run_id="run")
        while len(paused.interrupts) and paused.yielded:
            answers = {asked.id: 1 for asked in paused.interrupts}
            paused = await graph.resume("run", answers=answers, store=world.store(ends("work")))
    except Crash:
        pass
    order.append(then)
    with pytest.raises(NonDeterministicStep) as caught:
        await graph.resume("run", store=world.store(), take_over=True)
    assert caught.value.step == "work"
    order.append([*first, "new", "newer"])
    result = await graph.resume("run", store=world.store())
    assert result.stop is StopReason.COMPLETED


async def test_now_random_and_uuid_are_the_same_when_the_step_runs_again() -> None:
    """What a step asked of the clock and of chance is recorded."""
    seen, world = list[tuple[Any, ...]](), Mortal()
    graph: Flow = Graph("chance")

    @graph.step()
    async def work(state: State, ctx: Any) -> None:
        seen.append(
            (
                await ctx.now(),
                await ctx.random(),
                await ctx.uuid(),
                await ctx.now(),
                await ctx.random(),
                await ctx.uuid(),
            )
        )

    with pytest.raises(Crash):
        await graph.run(store=world.store(ends("work")), run_id="run")
    await graph.resume("run", store=world.store(), take_over=True)
    first, again = seen
    assert first == again
    now, random, uuid, *others = first
    assert isinstance(now, datetime)
    assert now.tzinfo is not None
    assert 0 <= random < 1
    assert str(UUID(uuid)) == uuid
    assert now <= others[0]
    assert random != others[1]
    assert uuid != others[2]


async def test_an_answer_that_was_consumed_does_not_answer_the_next_occurrence() -> None:
    """Each occurrence of a step asks for itself, and keeps its own effects."""
    made, store = list[int](), MemoryStore()
    graph: Flow = Graph("loop", "work", merge={"said": append})

    @graph.step(then=lambda state: "work" if len(state["said"]) < 2 else "")
    async def work(state: State, ctx: Any) -> State:
        await ctx.effect("one", lambda: made.append(ctx.occurrence))
        return {"said": [await ctx.interrupt("Which?")]}

    result = await graph.run(store=store)
    for said in ("one", "two"):
        (asked,) = result.interrupts
        result = await graph.resume(result.run_id, answers={asked.id: said}, store=store)
    assert result.state == {"said": ["one", "two"]}
    assert made == [1, 2]


async def test_w04_effects_of_a_failed_step_are_kept() -> None:
    """A step that fails after it acted, and is resumed, acts once."""
    sent, store, down = Counter[str](), MemoryStore(), [True]
    graph: Flow = Graph("sending")

    @graph.step()
    async def work(state: State, ctx: Any) -> State:
        await ctx.effect("send", lambda: sent.update(["mail"]), side_effects="irreversible")
        if down:
            raise ConnectionError("503")
        return {"done": True}

    with pytest.raises(StepFailed) as caught:
        await graph.run(store=store)
    down.clear()
    result = await graph.resume(caught.value.run_id, store=store)
    assert result.state == {"done": True}
    assert sent == {"mail": 1}
