"""Branches of a graph that run agents, under one budget: they share it, whatever dies meanwhile."""

from typing import Any

import pytest

from loom_ia import Loom, LoomConfig, PythonTool
from loom_ia.agents import Budgets
from loom_ia.core.events import Event
from loom_ia.core.events.model import ModelResponded
from loom_ia.core.events.run import RunFailed
from loom_ia.core.model.budget import Budget, SessionBudget
from loom_ia.core.ports.journal import Journal
from loom_ia.graph import END, BudgetExhausted, Graph, agent_step
from loom_ia.testing import Host, crash_everywhere
from loom_ia.tools import tool
from tests.graph.test_host import agent, calling, config, model

NOTED: list[str] = []
BRANCHES = ("left", "middle", "right")


@pytest.fixture(autouse=True)
def _nothing_noted() -> None:
    NOTED.clear()


@tool(side_effects="irreversible")
async def note(what: str) -> str:
    """Note something.

    what: what to note.
    """
    NOTED.append(what)
    return "noted"


def spread() -> Graph[Any]:
    """Ask the same agent on three branches; one that fails says why in its place."""
    graph = Graph[Any]("spread")
    graph.add_step("split", lambda state: None, then=list(BRANCHES))
    for name in BRANCHES:
        graph.add_step(name, agent_step("writer", ask=f"Write {name}", into=name), then="meet")
    graph.add_step("meet", lambda state: None, then=END, join="all")
    return graph


def limited(**budgets: Any) -> LoomConfig:
    """An instance whose only agent takes two calls to write."""
    return config(
        model("WRITER", calling("note", what="a line"), {"text": "Written."}),
        agents=(agent("writer", PythonTool(python="note")),),
        budgets=Budgets(**budgets),
    )


def made(config: LoomConfig, store: Journal | None = None) -> Loom:
    """Mount it with its graph and its tool."""
    loom = Loom(config, store=store)
    loom.register("note", note)
    loom.register("spread", spread())
    return loom


def calls(events: tuple[Event, ...] | list[Event]) -> list[str]:
    """Give the runs whose models answered, in order."""
    return [event.run_id for event in events if isinstance(event.payload, ModelResponded)]


async def test_agents_on_branches_go_together_while_there_is_room() -> None:
    """Six calls are let, and six are made; the three first ones are asked for together."""
    async with made(limited(run=Budget(max_calls=7))) as loom:
        result = await loom.run_graph("spread", run_id="r1")
        assert [result.state[name] for name in BRANCHES] == ["Written."] * 3
        begun = calls(list(await loom.events("r1")))
        assert len(begun) == 6
        assert len(set(begun[:3])) == 3


async def test_agents_on_branches_go_one_by_one_when_each_may_take_all() -> None:
    """Their longest answer is not known: the order is that of the branches."""
    async with made(limited(run=Budget(max_tokens=100_000))) as loom:
        await loom.run_graph("spread", run_id="r1")
        runs = [run_id.split("/")[-2] for run_id in calls(list(await loom.events("r1")))]
        assert runs == [name for name in BRANCHES for _ in range(2)]


async def test_a_branch_that_nothing_is_left_for_fails_the_graph() -> None:
    """Its error is the budget's, which no fallback takes over from."""
    async with made(limited(run=Budget(max_calls=2))) as loom:
        with pytest.raises(BudgetExhausted, match="max_calls"):
            await loom.run_graph("spread", run_id="r1")
        events = list(await loom.events("r1"))
        ends = [e.payload.error_type for e in events if isinstance(e.payload, RunFailed)]
        assert ends == ["budget", "graph.BudgetExhausted"]
        assert len(calls(events)) == 2


async def test_a_session_pays_for_all_its_graphs() -> None:
    """What an earlier run of the session consumed leaves less, and another session has its own."""
    async with made(limited(session=SessionBudget(max_tokens=2_500))) as loom:
        first = await loom.run_graph("spread", run_id="r1", session_id="s")
        assert first.error is None
        with pytest.raises(BudgetExhausted, match="session"):
            await loom.run_graph("spread", run_id="r2", session_id="s")
        other = await loom.run_graph("spread", run_id="r3", session_id="other")
        assert other.error is None


async def test_a_crash_changes_nothing_for_those_who_share() -> None:
    """Wherever the process dies, the same agents answer and the same one is told of the budget."""

    async def scenario(host: Host) -> None:
        config = limited(run=Budget(max_tokens=900))
        loom = host.loom(config, tools=[note])
        loom.register("spread", spread())
        async with loom:
            result = await loom.run_graph("spread", run_id="r1", raise_on_error=False)
            assert isinstance(result.error, BudgetExhausted)
            ends = [e.payload for e in await loom.events("r1") if isinstance(e.payload, RunFailed)]
            assert {end.error_type for end in ends} == {"budget", "graph.BudgetExhausted"}

    report = await crash_everywhere(scenario, effects=lambda: {"note": len(NOTED)})
    assert report.ok, str(report)
