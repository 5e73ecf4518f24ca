"""The prices that the package genai-prices lists."""

import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final, NoReturn

import pytest
from genai_prices import Usage as Listed
from genai_prices import __version__, calc_price
from genai_prices.data import providers

from loom_ia.adapters.prices.genai import listed_pricing
from loom_ia.core.model import ModelSpec, Usage
from loom_ia.core.model.pricing import ListedPricing, Pricing

NOW: Final = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
USAGES: Final = (
    Usage(),
    Usage(input_tokens=1),
    Usage(input_tokens=1_234, output_tokens=567, reasoning_tokens=500),
    Usage(input_tokens=7, output_tokens=3, cache_read_tokens=99_990),
    Usage(input_tokens=10, output_tokens=3, cache_write_tokens=4_000),
    Usage(
        input_tokens=11,
        output_tokens=13,
        cache_read_tokens=17,
        cache_write_tokens=1_900,
        cache_write_1h_tokens=1_200,
    ),
    Usage(input_tokens=99_999, output_tokens=1, cache_read_tokens=1),
    Usage(input_tokens=99_999, output_tokens=1, cache_write_tokens=2),
    Usage(input_tokens=200_000, output_tokens=10),
    Usage(input_tokens=200_001, output_tokens=10),
    Usage(input_tokens=272_000, output_tokens=999),
    Usage(input_tokens=2_001, output_tokens=999, cache_read_tokens=270_000),
    Usage(
        input_tokens=123_457,
        output_tokens=64_001,
        cache_read_tokens=400_003,
        cache_write_tokens=300_007,
        cache_write_1h_tokens=100_003,
    ),
)
WITHOUT_TOKENS: Final = {
    "gpt-live-1",
    "gpt-live-transcribe",
    "gpt-realtime-translate",
    "gpt-realtime-whisper",
    "gpt-transcribe",
    "moderation",
    "tts-1",
    "tts-1-hd",
    "whisper-1",
}
"""The models of OpenAI that are not priced by the token: sound by the hour, and a free one."""

TUNED: Final = {
    "ft:gpt-4o": "ft:gpt-4o-2024-08-06:acme::x",
    "ft:gpt-4o-mini": "ft:gpt-4o-mini-2024-07-18:acme::x",
}
"""The models whose id in the list is the beginning of a name, and no name."""


def spec_of(model: str, sdk: str = "openai", **more: Any) -> ModelSpec:
    """Describe a model."""
    return ModelSpec.model_validate({"id": "M", "sdk": sdk, "model": model, **more})


def named(provider_id: str) -> list[str]:
    """Give a name of each model that is listed of a provider."""
    models = next(each.models for each in providers if each.id == provider_id)
    return [TUNED.get(model.id, model.id) for model in models]


def listed(usage: Usage) -> Listed:
    """Write a usage as the package counts: what went through the cache is inside what was read."""
    return Listed(
        input_tokens=usage.prompt_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        cache_write_1h_tokens=usage.cache_write_1h_tokens,
        output_tokens=usage.output_tokens,
    )


def same_costs(pricing: Pricing, model: str, **where: Any) -> Iterator[bool]:
    """Compare each usage with what the package itself computes."""
    for usage in USAGES:
        asked: dict[str, Any] = {"genai_request_timestamp": NOW, **where}
        expected = calc_price(listed(usage), model, **asked)
        yield pricing.cost(usage) == float(expected.total_price)


@pytest.mark.parametrize(
    ("provider", "model"),
    [(provider, model) for provider in ("anthropic", "openai") for model in named(provider)],
)
def test_a_cost_is_that_of_the_list(provider: str, model: str) -> None:
    """Every model of the two providers costs what the package says, at every length of prompt."""
    pricing = listed_pricing(spec_of(model, provider), NOW)
    if model in WITHOUT_TOKENS:
        assert pricing is None
        return
    assert pricing is not None
    assert all(same_costs(pricing, model, provider_id=provider))


def test_the_list_is_named_with_its_version() -> None:
    """What is journalled with a cost says where it comes from."""
    pricing = listed_pricing(spec_of("claude-haiku-5-5", "anthropic"), NOW)
    assert isinstance(pricing, ListedPricing)
    assert pricing.source == f"genai-prices {__version__}"
    assert pricing.at(0).source == pricing.source


def test_a_long_prompt_has_its_own_prices() -> None:
    """A tier holds every price, those that are not listed for it included."""
    pricing = listed_pricing(spec_of("claude-haiku-5-5", "anthropic"), NOW)
    assert pricing is not None
    short, long = pricing.at(100_000), pricing.at(100_001)
    assert (short.input, short.output, short.cache_read) == (0.1, 0.5, 0.01)
    assert (short.cache_write, short.cache_write_1h) == (0.125, 0.2)
    assert (long.input, long.output, long.cache_read) == (0.5, 2.5, 0.05)
    assert (long.cache_write, long.cache_write_1h) == (0.625, 1.0)


def test_a_cache_without_a_price_costs_what_is_read() -> None:
    """Tokens that no price is listed for are not free: they are ordinary ones."""
    pricing = listed_pricing(spec_of("gpt-5-pro"), NOW)
    assert pricing is not None
    assert pricing.cache_read == pricing.cache_write == pricing.cache_write_1h == pricing.input


@pytest.mark.parametrize("tier", ["flex", "priority"])
def test_what_a_request_asks_for_has_its_price(tier: str) -> None:
    """The tier of service that `params` ask for is the one that is priced."""
    spec = spec_of("gpt-5", params={"service_tier": tier, "temperature": 1})
    pricing = listed_pricing(spec, NOW)
    usual = listed_pricing(spec_of("gpt-5"), NOW)
    assert pricing is not None
    assert pricing != usual
    assert all(
        same_costs(pricing, "gpt-5", provider_id="openai", price_context={"service_tier": tier})
    )


def test_a_price_is_that_of_the_moment() -> None:
    """A price that changes on a date is taken as it is then."""
    before = listed_pricing(spec_of("o3"), datetime(2025, 6, 9, tzinfo=UTC))
    after = listed_pricing(spec_of("o3"), datetime(2025, 6, 10, tzinfo=UTC))
    assert before is not None
    assert after is not None
    assert (before.input, after.input) == (10.0, 2.0)


# ── Who is called ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("sdk", "model", "url"),
    [
        ("openai", "gpt-4.1", "https://api.openai.com/v1"),
        ("anthropic", "claude-opus-5-5", "https://api.anthropic.com"),
        ("openai", "mistral-large-latest", "https://api.mistral.ai/v1"),
        ("openai", "anthropic/claude-sonnet-4.5", "https://openrouter.ai/api/v1"),
        ("openai", "gpt-4.1", "https://ours.openai.azure.com/openai/v1"),
    ],
)
def test_an_address_that_the_list_knows_is_priced(sdk: str, model: str, url: str) -> None:
    """The provider is the one that is really called, whatever the name of the model."""
    pricing = listed_pricing(spec_of(model, sdk, base_url=url), NOW)
    assert pricing is not None
    assert all(same_costs(pricing, model, provider_api_url=url))


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost:11434/v1",
        "http://127.0.0.1:8000/v1",
        "http://[::1]:8000/v1",
        "http://10.0.0.7/v1",
        "http://llm/v1",
        "http://gpu.local:8080/v1",
        "http://localhost:4000/x.openai.azure.com",
        "https://models.example.com/v1",
        "https://proxy.example.com/https://api.openai.com/v1",
    ],
)
def test_any_other_address_is_not(url: str) -> None:
    """A server of one's own has no listed price, though its model bears a known name."""
    assert listed_pricing(spec_of("gpt-4.1", base_url=url), NOW) is None


@pytest.mark.parametrize(
    ("sdk", "model"),
    [
        ("openai", "no-such-model"),
        ("anthropic", "no-such-model"),
        ("openai", "claude-opus-5-5"),
        ("anthropic", "gpt-4.1"),
        ("fake", "gpt-4.1"),
    ],
)
def test_an_unknown_model_has_no_price(sdk: str, model: str) -> None:
    """Nor has one that the provider does not have."""
    assert listed_pricing(spec_of(model, sdk), NOW) is None


@pytest.mark.parametrize(
    ("model", "url"),
    [
        ("deepseek-chat", "https://api.deepseek.com"),  # by the hour of the day
        ("sonar", "https://api.perplexity.ai"),  # by the request
        ("sonar-deep-research", "https://api.perplexity.ai"),  # thoughts apart
    ],
)
def test_what_is_not_priced_by_its_tokens_alone_has_no_price(model: str, url: str) -> None:
    """A wrong cost is worse than none."""
    calc_price(Listed(input_tokens=1), model, provider_api_url=url)
    assert listed_pricing(spec_of(model, base_url=url), NOW) is None


def test_nothing_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    """The list is the one that is installed."""

    def refuse(*_: object) -> NoReturn:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    assert listed_pricing(spec_of("gpt-4.1"), NOW) is not None
