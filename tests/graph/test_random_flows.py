"""Laws of every run of a graph: crashes change nothing, a fold is the state, none is stuck."""

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loom_ia.core.decide import decide
from loom_ia.core.decide.effects import Move
from loom_ia.core.events.envelope import Event
from loom_ia.core.events.fold import apply, begin
from loom_ia.core.plan import GraphPlan
from loom_ia.core.state.session import SessionState
from loom_ia.graph import Graph, MemoryStore, RunResult, fold
from loom_ia.graph.children import ChildGraph
from loom_ia.graph.compiled import plan_of
from loom_ia.testing import crash_everywhere
from tests.graph.random_flows import (
    Below,
    Block,
    Over,
    Plain,
    Split,
    World,
    answer,
    blocks,
    flow,
    small,
)

Flow = Graph[dict[str, Any]]

WIDE: Block = (
    Split(
        (
            (Plain(effects=(("irreversible", False),), sleeps=2), Plain(asks="inside")),
            (Over(4, 2, fails=True, takes=False, effect=True), Plain(fails=True)),
            (Below((Plain(asks="mid", effects=(("none", False),)), Plain(goes=True))),),
        )
    ),
    Split(((Plain(sleeps=3),), (Plain(), Plain()), (Plain(sleeps=1),)), "any"),
    Plain(acts="irreversible", idempotent=False, turns=2, asks="after"),
    Plain(falls_back=True, effects=(("reversible", True),)),
)
"""A bit of everything."""


def examples(many: int) -> settings:
    """Try so many recipes; some take long to make."""
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large]
    return settings(max_examples=many, deadline=None, suppress_health_check=slow)


async def played(graph: Flow, store: MemoryStore) -> RunResult[dict[str, Any]]:
    """Run a graph to its end, whatever it asks."""
    result = await graph.run(store=store, run_id="run")
    while result.yielded:
        answers = {asked.id: answer(asked) for asked in result.interrupts}
        result = await graph.resume("run", answers=answers, store=store)
    return result


async def crash(block: Block, *, hooked: bool, level: Any, doubles: int) -> None:
    """Crash the run of a recipe everywhere."""
    world = World()
    await played(flow(block, world, hooked=hooked), MemoryStore())
    due, world = set(world.made), World()
    report = await crash_everywhere(
        flow(block, world, hooked=hooked), answer=answer, level=level, doubles=doubles
    )
    assert report.ok, report
    assert set(world.made) == due  # made again maybe, but under no other key


@pytest.mark.parametrize("level", ["kill", "power"])
@pytest.mark.parametrize("block", [(node,) for node in WIDE], ids=["all", "any", "acts", "fails"])
async def test_each_part_survives_a_crash_anywhere(block: Block, level: str) -> None:
    """A graph that branches, asks, acts or fails ends the same after any crash."""
    await crash(block, hooked=block == WIDE[2:3], level=level, doubles=0)


@given(block=small, hooked=st.booleans(), level=st.sampled_from(["kill", "power"]))
@examples(10)
def test_a_crash_anywhere_changes_nothing(block: Block, hooked: bool, level: str) -> None:
    """A run that crashes at any write ends in the same state, with the same effects recorded."""
    asyncio.run(crash(block, hooked=hooked, level=level, doubles=0))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("level", ["kill", "power"])
async def test_a_bit_of_everything_survives_two_crashes(level: str) -> None:
    """One graph that does all that graphs do ends the same after any two crashes."""
    await crash(WIDE, hooked=True, level=level, doubles=1)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@given(block=blocks, hooked=st.booleans(), level=st.sampled_from(["kill", "power"]))
@examples(300)
def test_two_crashes_anywhere_change_nothing(block: Block, hooked: bool, level: str) -> None:
    """A run that crashes twice ends as well as one that never does."""
    asyncio.run(crash(block, hooked=hooked, level=level, doubles=1))


async def look_at_every_prefix(block: Block, *, hooked: bool) -> None:
    """Fold every beginning of a journal in both ways, and ask what comes next."""
    graph, store = flow(block, World(), hooked=hooked), MemoryStore()
    result = await played(graph, store)
    events = await graph.events("run", store=store)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert fold(events) == result.state
    for n in range(1, len(events) + 1):
        assert fold(events[:n]) == await graph.state_at("run", n, store=store)
    for child in {event.run_id for event in events} - {"run"}:
        own = [event for event in events if event.run_id == child]
        for n in range(1, len(own) + 1):
            there = await graph.state_at(child, own[n - 1].seq, store=store)
            assert fold(own[:n]) == there
    decide_everywhere(await store.journal.read("default", "run"), graph)


def decide_everywhere(events: Sequence[Event], graph: Flow) -> None:
    """Ask what comes next after every prefix of a journal, for each of its runs."""
    plans = {plan.name: plan for plan in _plans(graph)}
    session = SessionState()
    for event in events:
        before = session.runs.get(event.run_id)
        session.put(begin(event) if before is None else apply(before, event))
        for run in list(session.runs.values()):
            move = decide(session.view(run), plans[run.header.agent], event.ts)
            assert isinstance(move, get_args(Move))


def _plans(graph: Any) -> list[GraphPlan]:
    below = [s.child.graph for s in graph.steps.values() if isinstance(s.child, ChildGraph)]
    return [plan_of(graph), *(plan for child in below for plan in _plans(child))]


@given(block=small, hooked=st.booleans())
@examples(20)
def test_every_prefix_of_a_journal_is_a_state(block: Block, hooked: bool) -> None:
    """For every n, the fold of n events is the state at n, and something comes next."""
    asyncio.run(look_at_every_prefix(block, hooked=hooked))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@given(block=blocks, hooked=st.booleans())
@examples(300)
def test_every_prefix_of_a_long_journal_is_a_state(block: Block, hooked: bool) -> None:
    """The same, for graphs that are two levels deep."""
    asyncio.run(look_at_every_prefix(block, hooked=hooked))


async def test_every_prefix_of_a_bit_of_everything() -> None:
    """The same, for one graph that does all that graphs do."""
    await look_at_every_prefix(WIDE, hooked=True)


@pytest.mark.parametrize("block", [(node,) for node in WIDE], ids=["all", "any", "acts", "fails"])
async def test_a_fork_at_every_place_ends_as_its_source(block: Block) -> None:
    """Wherever a run is left, also inside branches and children, its fork comes to the same."""
    graph, store = flow(block, World(), hooked=True), MemoryStore()
    state = (await played(graph, store)).state
    source = await graph.events("run", store=store)
    for event in source:
        forked = await graph.fork("run", at=event.seq, store=store, new_run_id=f"f{event.seq}")
        while forked.yielded:
            answers = {asked.id: answer(asked) for asked in forked.interrupts}
            forked = await graph.resume(forked.run_id, answers=answers, store=store)
        assert forked.state == state, event
        events = await graph.events(forked.run_id, store=store)
        assert fold(events) == state
    assert await graph.events("run", store=store) == source


@given(block=blocks)
@examples(12)
def test_the_order_of_completion_is_no_matter_anywhere(block: Block) -> None:
    """Steps of branches that end in any order give one state."""
    states = [asyncio.run(shuffled(block, seed)) for seed in range(4)]
    assert all(state == states[0] for state in states)


async def shuffled(block: Block, seed: int) -> dict[str, Any]:
    """Run a recipe whose steps take turns as a lot decides."""
    rng = Random(seed)

    async def rest(step: str) -> None:
        del step
        for _ in range(rng.randint(0, 12)):
            await asyncio.sleep(0)

    return (await played(flow(block, World(rest=rest)), MemoryStore())).state


async def test_pub48_a_hundred_shuffled_orders_give_one_state() -> None:
    """Branches and items that end in a hundred different orders are merged as they are declared."""
    block: Block = (
        Split(
            (
                (Plain(), Plain()),
                (Plain(), Over(4, 3, fails=True, takes=True, effect=False)),
                (Split(((Plain(),), (Plain(),))), Plain()),
            )
        ),
        Over(4, 4, fails=False, takes=False, effect=True),
    )
    orders: set[tuple[str, ...]] = set()
    states: list[dict[str, Any]] = []
    for seed in range(100):
        rng, ended = Random(seed), list[str]()

        async def rest(step: str, rng: Random = rng, ended: list[str] = ended) -> None:
            for _ in range(rng.randint(0, 8)):
                await asyncio.sleep(0)
            ended.append(step)

        states.append((await flow(block, World(rest=rest)).run()).state)
        orders.add(tuple(ended))
    assert all(state == states[0] for state in states)
    assert len(orders) > 50
