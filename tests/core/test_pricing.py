"""What a call costs: the kinds of tokens, the tiers of long prompts, exactly."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from loom_ia.core.model import Prices, PriceTier, Pricing, Usage
from loom_ia.core.model.pricing import ListedPricing

LONG = Pricing(
    input=3,
    output=15,
    cache_read=0.3,
    cache_write=3.75,
    cache_write_1h=6,
    tiers=(
        PriceTier(above=200_000, input=6, output=22.5),
        PriceTier(above=500_000, output=30, cache_read=1, cache_write=8, cache_write_1h=12),
    ),
)


@pytest.mark.parametrize(
    ("usage", "cost"),
    [
        ({}, 0),
        ({"input_tokens": 1}, 0.000003),
        ({"output_tokens": 1_000_000}, 15),
        ({"cache_read_tokens": 1000}, 0.0003),
        ({"cache_write_tokens": 1000}, 0.00375),
        ({"cache_write_tokens": 1000, "cache_write_1h_tokens": 1000}, 0.006),
        ({"cache_write_tokens": 1000, "cache_write_1h_tokens": 400}, 0.00465),
        ({"output_tokens": 1000, "reasoning_tokens": 900}, 0.015),
        ({"input_tokens": 1000, "output_tokens": 200, "cache_read_tokens": 50}, 0.006015),
    ],
)
def test_each_kind_of_token_has_its_price(usage: dict[str, Any], cost: float) -> None:
    """Dollars per million; reasoning is inside what was written, an hour inside what was kept."""
    assert LONG.cost(Usage(**usage)) == cost


@pytest.mark.parametrize(
    ("prompt", "prices"),
    [
        (0, (3, 15, 0.3, 3.75, 6)),
        (199_999, (3, 15, 0.3, 3.75, 6)),
        (200_000, (3, 15, 0.3, 3.75, 6)),
        (200_001, (6, 22.5, 0.3, 3.75, 6)),
        (500_000, (6, 22.5, 0.3, 3.75, 6)),
        (500_001, (6, 30, 1, 8, 12)),
        (10_000_000, (6, 30, 1, 8, 12)),
    ],
)
def test_a_tier_begins_above_its_limit(prompt: int, prices: tuple[float, ...]) -> None:
    """The highest one that is passed prices the call, and keeps what it does not change."""
    at = LONG.at(prompt)
    assert (at.input, at.output, at.cache_read, at.cache_write, at.cache_write_1h) == prices
    assert at.source == "config"


@pytest.mark.parametrize(
    ("read", "dollars"),
    [
        ({"input_tokens": 200_000}, 0.6),
        ({"input_tokens": 200_001}, 1.200006),
        ({"input_tokens": 1, "cache_read_tokens": 200_000}, 0.060006),
        ({"input_tokens": 1, "cache_write_tokens": 200_000}, 0.750006),
    ],
)
def test_a_tier_prices_the_whole_call(read: dict[str, Any], dollars: float) -> None:
    """Tokens of the cache bring a prompt into it, those that are written do not."""
    assert LONG.cost(Usage(**read)) == dollars
    assert LONG.cost(Usage(output_tokens=900_000)) == 13.5


def test_an_hour_costs_what_five_minutes_do_unless_it_is_said() -> None:
    """In the base prices and in each tier."""
    pricing = Pricing(cache_write=2, tiers=(PriceTier(above=10, cache_write=4),))
    assert (pricing.at(10).cache_write_1h, pricing.at(11).cache_write_1h) == (2, 4)
    given = Pricing(cache_write=2, cache_write_1h=3, tiers=(PriceTier(above=10, cache_write=4),))
    assert (given.at(10).cache_write_1h, given.at(11).cache_write_1h) == (3, 3)
    free = Pricing(cache_write=2, cache_write_1h=0)
    assert free.at(0).cache_write_1h == 0


def test_a_tier_may_make_something_free() -> None:
    """Zero is a price."""
    pricing = Pricing(input=2, tiers=(PriceTier(above=10, input=0),))
    assert pricing.cost(Usage(input_tokens=11)) == 0


@pytest.mark.parametrize("above", [(5, 5), (6, 5), (1, 9, 3)])
def test_tiers_go_by_increasing_limits(above: tuple[int, ...]) -> None:
    """Else it would not be clear which one counts."""
    tiers: Any = [{"above": limit, "input": 1} for limit in above]
    with pytest.raises(ValidationError, match="increasing `above`"):
        Pricing(tiers=tiers)


@pytest.mark.parametrize(
    "fault",
    [
        *({"input": -1}, {"input": float("inf")}, {"input": float("nan")}, {"inputs": 1}),
        *({"tiers": [{"above": 0}]}, {"tiers": [{"above": 5, "output": -1}]}, {"input": "1"}),
    ],
    ids=str,
)
def test_a_price_is_a_number_that_is_not_negative(fault: Any) -> None:
    """And each has its own name."""
    with pytest.raises(ValidationError):
        Pricing(**fault)


@pytest.mark.parametrize(
    ("price", "tokens", "cost"),
    [(0.1, 3, 3e-7), (0.07, 3, 2.1e-7), (1.1, 1_000_003, 1.1000033), (0.000001, 1, 1e-12)],
)
def test_costs_are_exact_in_decimals(price: float, tokens: int, cost: float) -> None:
    """What binary fractions would lose is not lost."""
    assert Pricing(input=price).cost(Usage(input_tokens=tokens)) == cost


_PRICE = st.decimals(0, 1000, places=4).map(float)
_COUNT = st.integers(0, 10_000_000)


@given(st.tuples(*[_PRICE] * 5), st.tuples(*[_COUNT] * 4), st.integers(0, 10_000_000))
def test_a_cost_is_the_sum_of_its_parts(
    prices: tuple[float, ...], counts: tuple[int, ...], hour: int
) -> None:
    """Whatever the numbers, to the last decimal that a float holds."""
    read, wrote, cached, kept = counts
    hour = min(hour, kept)
    usage = Usage(
        input_tokens=read,
        output_tokens=wrote,
        cache_read_tokens=cached,
        cache_write_tokens=kept,
        cache_write_1h_tokens=hour,
    )
    exact = [Decimal(str(price)) for price in prices]
    parts = zip(exact, (read, wrote, cached, kept - hour, hour), strict=True)
    names = ("input", "output", "cache_read", "cache_write", "cache_write_1h")
    cost = Prices(**dict(zip(names, prices, strict=True))).cost(usage)
    assert cost == float(sum(price * count for price, count in parts) / 1_000_000)


def test_prices_of_a_list_name_it() -> None:
    """A journal tells where the prices of a call come from, a tier's too."""
    listed = ListedPricing(
        input=2, tiers=(PriceTier(above=10, input=4),), listed_in="genai-prices 0.2.1"
    )
    assert [listed.at(prompt).source for prompt in (0, 11)] == ["genai-prices 0.2.1"] * 2
    assert listed.at(11).input == 4
    assert listed.cost(Usage(input_tokens=11)) == 0.000044
    read_back = Prices.model_validate_json(listed.at(11).model_dump_json())
    assert read_back == listed.at(11)


def test_what_costs_nothing_is_not_written() -> None:
    """Prices of zero take no room in a journal; the source always stands there."""
    assert Pricing().at(0).model_dump() == {"source": "config"}


def test_the_prices_of_a_fact_give_its_cost_again() -> None:
    """What a journal keeps is enough, without the tiers."""
    usage = Usage(input_tokens=300_000, output_tokens=7, cache_read_tokens=11)
    assert LONG.at(usage.prompt_tokens).cost(usage) == LONG.cost(usage)
