"""A run that goes on takes the limits that are given now, and says so when they changed."""

from typing import Any

import pytest

from loom_ia import Loom
from loom_ia.adapters.journals.memory import MemoryJournal
from loom_ia.core.events.run import RunResumed
from loom_ia.core.model.budget import Budget, SessionBudget
from loom_ia.core.state import Status
from loom_ia.graph import BudgetExhausted, Graph, MemoryStore, RunResult, StopReason
from tests.graph.test_shared_budget import limited, made


def counting(step_budget: int | None) -> Graph[Any]:
    """Count without end, within so many steps."""
    graph = Graph[Any]("count", step_budget=step_budget)
    graph.add_step("turn", lambda s: {"n": s.get("n", 0) + 1}, then="turn")
    return graph


async def stopped(store: MemoryStore, step_budget: int | None, *, first: bool) -> RunResult[Any]:
    """Run, or resume, until the budget of steps is used up."""
    graph = counting(step_budget)
    going = graph.run(store=store, run_id="r1") if first else graph.resume("r1", store=store)
    with pytest.raises(BudgetExhausted) as caught:
        await going
    assert caught.value.result is not None
    return caught.value.result


async def test_a_larger_step_budget_lets_a_run_go_on() -> None:
    """What was started is counted against it; the same one again lets nothing more."""
    store = MemoryStore()
    first = await stopped(store, 3, first=True)
    assert (first.state["n"], first.budget_left) == (3, 0)
    assert (await stopped(store, 3, first=False)).state["n"] == 3
    second = await stopped(store, 5, first=False)
    assert (second.state["n"], second.budget_left) == (5, 0)


async def test_a_smaller_step_budget_binds_too() -> None:
    """A run that passed it already starts nothing more."""
    store = MemoryStore()
    assert (await stopped(store, 4, first=True)).state["n"] == 4
    assert (await stopped(store, 2, first=False)).state["n"] == 4


async def test_a_fork_keeps_its_own_budget() -> None:
    """What it was given when it was made is not the code's to change."""
    store = MemoryStore()
    await stopped(store, 3, first=True)
    graph = counting(3)
    steps = [item.seq for item in await graph.history("r1", store=store)]
    with pytest.raises(BudgetExhausted) as caught:
        await graph.fork("r1", at=steps[-1], store=store, new_run_id="r2", step_budget=4)
    assert caught.value.result is not None
    ended = caught.value.result.state["n"]
    with pytest.raises(BudgetExhausted) as caught:
        await graph.resume("r2", store=store)
    assert caught.value.result is not None
    assert caught.value.result.state["n"] == ended


async def told(loom: Loom, run_id: str) -> list[tuple[Budget | None, Budget | None]]:
    """Give the limits that were taken when runs went on."""
    found = [event.payload for event in await loom.events(run_id)]
    return [(p.budget, p.session_budget) for p in found if isinstance(p, RunResumed)]


async def test_a_run_of_a_host_takes_the_limits_of_its_configuration() -> None:
    """The fact has those that changed alone, an empty one where nothing is limited any more."""
    journal = MemoryJournal()

    async with made(limited(run=Budget(max_calls=2)), journal) as loom:
        result = await loom.run_graph("spread", run_id="r1", raise_on_error=False)
        assert result.stop is StopReason.BUDGET
    wide = SessionBudget(max_tokens=10**6)
    async with made(limited(run=Budget(max_calls=3), session=wide), journal) as loom:
        assert (await loom.resume("r1")).status is Status.FAILED
    async with made(limited(session=wide), journal) as loom:
        assert (await loom.resume("r1")).status is Status.COMPLETED
        changed = [limits for limits in await told(loom, "r1") if limits != (None, None)]
    assert changed == [
        (Budget(max_calls=3), wide.limits),
        (Budget(), None),
    ]
