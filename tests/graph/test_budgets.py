"""Limits in dollars and in tokens: what counts, once, and what cannot be counted."""

import logging
from typing import Any

import pytest

from loom_ia.core.errors import LoomError
from loom_ia.core.model.usage import Usage
from loom_ia.graph.budgets import cost_budget, token_budget
from loom_ia.graph.errors import BudgetExhausted
from tests.graph.fake_context import FakeContext


def cost(usd: float | None) -> FakeContext:
    """Give the context of a run that cost so much."""
    return FakeContext(usage=Usage(10, 10, usd))


async def test_pm06_a_cost_over_the_limit_stops_the_run() -> None:
    """0.8 passes, 1.3 does not; the error has the total and the limit."""
    hook = cost_budget(1.0)
    await hook("step", {}, cost(0.8))
    with pytest.raises(BudgetExhausted, match=r"cost.* 1\.3 .* 1 "):
        await hook("step", {}, cost(0.8 + 0.5))


async def test_pm07_tokens_over_the_limit_stop_the_run() -> None:
    """Those that were read and those that were written."""
    hook = token_budget(1000)
    await hook("step", {}, FakeContext(usage=Usage(400, 300)))
    with pytest.raises(BudgetExhausted, match=r"1100 tokens.* 1000 tokens"):
        await hook("step", {}, FakeContext(usage=Usage(600, 500)))


async def test_the_limit_itself_is_not_over() -> None:
    """Nor is what the sum of floats adds to it."""
    await cost_budget(0.3)("step", {}, cost(0.1 + 0.1 + 0.1))
    await token_budget(20)("step", {}, FakeContext(usage=Usage(10, 10)))
    with pytest.raises(BudgetExhausted):
        await token_budget(19)("step", {}, FakeContext(usage=Usage(10, 10)))


async def test_w35_what_stays_in_the_state_is_not_counted_again() -> None:
    """The total is the run's, whatever the state shows."""
    hook, state = cost_budget(2.5), {"usage": Usage(10, 10, cost_usd=1.0)}
    for _ in range(5):
        await hook("step", state, cost(1.0))


async def test_w37_a_hook_counts_nothing_itself() -> None:
    """One object may serve any number of runs."""
    hook = cost_budget(1.0)
    for _ in range(3):
        await hook("step", {}, cost(0.9))


@pytest.mark.parametrize("make", [cost_budget, token_budget])
async def test_another_scope_has_its_own_total(make: Any) -> None:
    """Which the context gives; without it, the run's counts."""

    class Wide(FakeContext):
        async def usage_of(self, scope: str) -> Usage:
            assert scope == "tenant"
            return Usage(1000, 0, cost_usd=1000.0)

    small = Usage(1, 0, cost_usd=1.0)
    with pytest.raises(BudgetExhausted, match="tenant"):
        await make(10, scope="tenant")("step", {}, Wide(usage=small))
    await make(10, scope="run")("step", {}, Wide(usage=small))
    await make(10, scope="tenant")("step", {}, FakeContext(usage=small))


async def test_w38_tokens_without_a_cost_are_warned_of_once_per_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """They cannot be limited in dollars, and the limit does not pretend that they are."""
    hook = cost_budget(1.0)
    with caplog.at_level(logging.WARNING, "loom_ia.graph"):
        for _ in range(3):
            await hook("step", {}, cost(None))
        other = cost(None)
        other.run_id = "run-2"
        await hook("step", {}, other)
    assert [record.name for record in caplog.records] == ["loom_ia.graph"] * 2
    assert ["run-1" in r.getMessage() for r in caplog.records] == [True, False]


async def test_w38_some_priced_tokens_do_not_hide_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What a step wrote is looked at, too."""
    await cost_budget(1.0)("step", {"usage": Usage(10, 10)}, cost(0.5))
    assert len(caplog.records) == 1


@pytest.mark.parametrize("usage", [Usage(), Usage(10, 10, cost_usd=0.0)])
async def test_w38_no_token_or_a_free_one_is_not_unpriced(
    usage: Usage, caplog: pytest.LogCaptureFixture
) -> None:
    """A price of nothing is a price."""
    await cost_budget(1.0, unpriced="error")("step", {"usage": usage}, FakeContext(usage=usage))
    assert not caplog.records


async def test_w38_tokens_without_a_cost_may_stop_the_run() -> None:
    """By an error that is no exhausted budget; a host may impose it."""
    with pytest.raises(LoomError) as caught:
        await cost_budget(1.0, unpriced="error")("step", {}, cost(None))
    assert not isinstance(caught.value, BudgetExhausted)

    class Strict(FakeContext):
        unpriced = "error"

    with pytest.raises(LoomError):
        await cost_budget(1.0)("step", {}, Strict(usage=Usage(10, 10)))


def test_a_total_can_be_checked_apart() -> None:
    """As is done before each model call of a tool loop."""
    cost_budget(1.0).check(Usage(10, 10))
    with pytest.raises(BudgetExhausted):
        cost_budget(1.0).check(Usage(0, 0, cost_usd=1.5))
    with pytest.raises(BudgetExhausted):
        token_budget(10).check(Usage(6, 5))


@pytest.mark.parametrize(
    ("make", "limit", "options"),
    [
        (cost_budget, -1, {}),
        (cost_budget, float("nan"), {}),
        (token_budget, -1, {}),
        (cost_budget, 1, {"scope": "world"}),
        (token_budget, 1, {"scope": ""}),
        (cost_budget, 1, {"unpriced": "no"}),
    ],
)
def test_a_wrong_option_is_refused(make: Any, limit: float, options: dict[str, str]) -> None:
    """At the call."""
    with pytest.raises(ValueError, match="budget"):
        make(limit, **options)
