"""The prices that the package genai-prices lists, as they were when its version was published.

Law. A price is given only for who is really called, and only when every token that a call reports
is charged as the list says: a wrong cost is worse than none. Nothing is fetched.
"""

from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from loom_ia.core.model.models import ModelSpec
from loom_ia.core.model.pricing import ListedPricing, PriceTier, Pricing

if TYPE_CHECKING:
    from genai_prices.data_snapshot import DataSnapshot
    from genai_prices.types import ModelInfo, ModelPrice, Provider

_KEYS: Final = {
    "input": ("input_mtok",),
    "output": ("output_mtok",),
    "cache_read": ("cache_read_mtok", "input_mtok"),
    "cache_write": ("cache_write_5m_mtok", "cache_write_mtok", "input_mtok"),
    "cache_write_1h": ("cache_write_1h_mtok", "cache_write_mtok", "input_mtok"),
}
"""The keys of the list for each of our prices: the first that is there counts, as in the list."""

_BESIDE: Final = ("output_reasoning_mtok", "output_citation_mtok")
"""The keys of what is written that is no plain text."""

_ASKED: Final = ("service_tier", "speed")
"""The parameters of a request that change its prices."""


def listed_pricing(spec: ModelSpec, at: datetime | None = None) -> Pricing | None:
    """Give the prices of a model at some moment, now by default; None when they are not known.

    They are not for a server that the list does not recognise by its address, for a model that it
    does not have, and for one whose calls are not priced by their tokens alone.
    """
    found = _found(spec)
    if found is None:
        return None
    provider, model = found
    if _varies_in_a_day(model):
        return None
    # What another provider lists of the model is the price of an ordinary request.
    asked = _asked(spec) if any(model is each for each in provider.models) else {}
    prices = model.get_prices(at or datetime.now(UTC), asked)
    return _converted(prices) if _is_by_token(prices) else None


def _found(spec: ModelSpec) -> "tuple[Provider, ModelInfo] | None":
    provider_id = spec.sdk if spec.base_url is None else None
    if spec.base_url is not None and _is_local(spec.base_url):
        return None
    try:
        return _list().find_provider_model(spec.model, None, provider_id, spec.base_url)
    except LookupError:
        return None


@cache
def _list() -> "DataSnapshot":
    from genai_prices.data import providers
    from genai_prices.data_snapshot import DataSnapshot

    # Not the current one of the package, which another part of the process may update.
    return DataSnapshot(providers=providers, from_auto_update=False)


def _is_local(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return not ip_address(host).is_global
    except ValueError:
        return "." not in host or host.endswith((".localhost", ".local", ".internal"))


def _varies_in_a_day(model: "ModelInfo") -> bool:
    from genai_prices.types import TimeOfDateConstraint

    prices = model.prices if isinstance(model.prices, list) else []
    return any(isinstance(each.constraint, TimeOfDateConstraint) for each in prices)


def _asked(spec: ModelSpec) -> dict[str, str]:
    given = {key: spec.params.get(key) for key in _ASKED}
    return {key: value for key, value in given.items() if isinstance(value, str)}


def _is_by_token(prices: "ModelPrice") -> bool:
    """Whether the tokens that a call reports are all that is charged for a conversation."""
    beside = [getattr(prices, key) for key in _BESIDE]
    return (
        prices.input_mtok is not None
        and prices.requests_kcount is None
        and all(price is None or price == prices.output_mtok for price in beside)
    )


def _converted(prices: "ModelPrice") -> ListedPricing:
    from genai_prices import __version__

    return ListedPricing(
        **_at(prices, 1),
        tiers=tuple(PriceTier(above=above, **_at(prices, above + 1)) for above in _starts(prices)),
        listed_in=f"genai-prices {__version__}",
    )


def _starts(prices: "ModelPrice") -> list[int]:
    from genai_prices.types import TieredPrices

    listed = [getattr(prices, key) for keys in _KEYS.values() for key in keys]
    tiered = [price for price in listed if isinstance(price, TieredPrices)]
    return sorted({tier.start for price in tiered for tier in price.tiers if tier.start > 0})


def _at(prices: "ModelPrice", prompt_tokens: int) -> dict[str, float]:
    """Give our prices of a call whose prompt has that length."""
    found: dict[str, float] = {}
    for name, keys in _KEYS.items():
        listed = next((p for key in keys if (p := getattr(prices, key)) is not None), Decimal(0))
        if not isinstance(listed, Decimal):
            above = [tier.price for tier in listed.tiers if prompt_tokens > tier.start]
            listed = above[-1] if above else listed.base
        found[name] = float(listed)
    return found
