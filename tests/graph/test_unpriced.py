"""A limit in dollars where no price is known: a warning, and in prod an error."""

import logging
from typing import Any

import pytest

from loom_ia import AgentSpec, Loom, LoomConfig, MainRole
from loom_ia.agents import Budgets
from loom_ia.config.load import prepare_config
from loom_ia.config.root import ProfileName
from loom_ia.core.errors import ConfigError
from loom_ia.core.model.budget import Budget, SessionBudget
from loom_ia.core.model.usage import Usage
from loom_ia.graph import Graph, Hooks, StopReason, cost_budget
from loom_ia.graph.spec import AgentStep, GraphSpec
from tests.graph.test_host import model

DOLLARS = Budgets(run=Budget(max_cost=1.0))


def described(profile: ProfileName, **more: Any) -> LoomConfig:
    """Describe an instance of a profile, whose one model has no price."""
    return LoomConfig(version=1, profile=profile, models=(model("WRITER", {"text": "ok"}),), **more)


def counted() -> Graph[Any]:
    """A graph under a hook in dollars, whose step says what it used and not what that costs."""
    graph = Graph[Any]("counted", hooks=Hooks(after=(cost_budget(1.0),)))
    graph.add_step("use", lambda state: {"usage": Usage(10, 10)})
    return graph


def calling() -> Graph[Any]:
    """A graph whose step asks for a model of the host."""
    graph = Graph[Any]("calling")

    async def ask(state: Any, ctx: Any) -> dict[str, Any]:
        ctx.model("WRITER")
        ctx.model("WRITER")
        return {"asked": True}

    graph.add_step("ask", ask)
    return graph


async def ended(graph: Graph[Any], config: LoomConfig) -> tuple[StopReason, str]:
    """Run a graph on a host, and give how it ended and what its error says."""
    loom = Loom(config)
    loom.register(graph.name, graph)
    async with loom:
        result = await loom.run_graph(graph.name, raise_on_error=False)
        return result.stop, str(result.error or "")


async def test_prod_imposes_prices_on_a_hook_in_dollars() -> None:
    """Elsewhere the hook only warns, as its author said."""
    assert (await ended(counted(), described("dev")))[0] is StopReason.COMPLETED
    stop, error = await ended(counted(), described("prod"))
    assert stop is not StopReason.COMPLETED
    assert "cost is not known" in error


async def test_a_step_cannot_call_a_model_without_a_price_in_prod() -> None:
    """When the host limits dollars; without such a limit it may."""
    stop, error = await ended(calling(), described("prod", budgets=DOLLARS))
    assert stop is StopReason.ERROR
    assert "WRITER has no pricing" in error
    assert (await ended(calling(), described("prod")))[0] is StopReason.COMPLETED


async def test_elsewhere_a_model_without_a_price_is_warned_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """And called."""
    with caplog.at_level(logging.WARNING, "loom_ia.assembly"):
        stop, _ = await ended(calling(), described("dev", budgets=DOLLARS))
    assert stop is StopReason.COMPLETED
    assert ["WRITER has no pricing" in record.getMessage() for record in caplog.records] == [True]


def in_graph(profile: ProfileName, budgets: Budgets, own: Budgets) -> LoomConfig:
    """Describe a graph that runs an agent with limits of its own."""
    main = MainRole(model="WRITER", system="Write.")
    return described(
        profile,
        budgets=budgets,
        agents=(AgentSpec(name="writer", main=main, budget=own),),
        graphs=(GraphSpec(name="g", steps={"s": AgentStep(agent="writer", ask="?", into="x")}),),
    )


@pytest.mark.parametrize(
    ("budgets", "own"),
    [
        (DOLLARS, Budgets(run=Budget(max_cost=None))),
        (Budgets(session=SessionBudget(max_cost=1.0)), Budgets()),
        (Budgets(), DOLLARS),
    ],
)
def test_the_dollars_of_a_graph_or_of_a_session_need_prices_too(
    budgets: Budgets, own: Budgets
) -> None:
    """A warning that names the model; prod refuses the configuration."""
    told = prepare_config(in_graph("dev", budgets, own)).warnings
    assert any("WRITER has no pricing" in problem.message for problem in told)
    with pytest.raises(ConfigError, match="WRITER has no pricing"):
        Loom(in_graph("prod", budgets, own))
