"""What tokens cost: prices in dollars per million, by kind of token and by size of the prompt."""

from collections.abc import Mapping
from decimal import Decimal
from itertools import pairwise
from typing import Final, TypeAlias

from pydantic import ConfigDict, Field, field_validator
from pydantic_core import PydanticCustomError

from loom_ia.core.model.base import Value, sparse
from loom_ia.core.model.usage import Usage

_PER_MILLION: Final = 1_000_000

Price: TypeAlias = float
"""Dollars per million tokens."""


class Prices(Value):
    """The prices that one call was charged at, in dollars per million tokens.

    `cache_write` is for what is kept five minutes, `cache_write_1h` for what is kept an hour.
    `source` says where they come from: `config`, or the price table with its version.
    """

    input: Price = sparse(0.0)
    output: Price = sparse(0.0)
    cache_read: Price = sparse(0.0)
    cache_write: Price = sparse(0.0)
    cache_write_1h: Price = sparse(0.0)
    source: str = "config"

    def cost(self, usage: Usage) -> float:
        """Price `usage`, in dollars, exact to the twelfth decimal."""
        short = usage.cache_write_tokens - usage.cache_write_1h_tokens
        parts = (
            (self.input, usage.input_tokens),
            (self.output, usage.output_tokens),
            (self.cache_read, usage.cache_read_tokens),
            (self.cache_write, short),
            (self.cache_write_1h, usage.cache_write_1h_tokens),
        )
        total = sum((Decimal(str(price)) * tokens for price, tokens in parts), Decimal(0))
        return float(total / _PER_MILLION)


class _Section(Value):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class PriceTier(_Section):
    """Prices of a call whose prompt is longer than `above` tokens; None keeps the base price."""

    above: int = Field(gt=0, description="Tokens of the prompt, those of the cache included.")
    input: Price | None = Field(default=None, ge=0, description="Overrides the base price.")
    output: Price | None = Field(default=None, ge=0, description="Overrides the base price.")
    cache_read: Price | None = Field(default=None, ge=0, description="Overrides the base price.")
    cache_write: Price | None = Field(default=None, ge=0, description="Overrides the base price.")
    cache_write_1h: Price | None = Field(
        default=None, ge=0, description="Overrides the base price."
    )

    @property
    def given(self) -> Mapping[str, Price]:
        """The prices that this tier changes."""
        return self.model_dump(exclude={"above"}, exclude_none=True)


class Pricing(_Section):
    """Prices in dollars per million tokens.

    The highest tier that the prompt of a call exceeds, cached tokens included, prices the whole
    call.
    """

    input: Price = Field(default=0.0, ge=0, description="Tokens read, those of the cache apart.")
    output: Price = Field(default=0.0, ge=0, description="Tokens written, reasoning included.")
    cache_read: Price = Field(default=0.0, ge=0, description="Tokens read from the cache.")
    cache_write: Price = Field(
        default=0.0, ge=0, description="Tokens put in the cache for five minutes."
    )
    cache_write_1h: Price | None = Field(
        default=None,
        ge=0,
        description="Tokens put in the cache for an hour; `null` is the price of `cache_write`.",
    )
    tiers: tuple[PriceTier, ...] = Field(
        default=(),
        strict=False,
        description="Other prices for long prompts, in the order of `above`.",
    )

    @field_validator("tiers")
    @classmethod
    def _increasing(cls, tiers: tuple[PriceTier, ...]) -> tuple[PriceTier, ...]:
        if any(one.above >= other.above for one, other in pairwise(tiers)):
            raise PydanticCustomError("tiers", "tiers go by increasing `above`, each once")
        return tiers

    @property
    def source(self) -> str:
        """Where these prices come from."""
        return "config"

    def at(self, prompt_tokens: int) -> Prices:
        """Give the prices of a call whose prompt, cached tokens included, has that length."""
        base = {name: getattr(self, name) for name in _KINDS}
        for tier in self.tiers:
            if prompt_tokens > tier.above:
                base.update(tier.given)
        if base["cache_write_1h"] is None:
            base["cache_write_1h"] = base["cache_write"]
        return Prices(**base, source=self.source)

    def cost(self, usage: Usage) -> float:
        """Price `usage`, in dollars, exact to the twelfth decimal."""
        return self.at(usage.prompt_tokens).cost(usage)


class ListedPricing(Pricing):
    """Prices that a public list gives for a model: `listed_in` is its name and version."""

    listed_in: str = "list"

    @property
    def source(self) -> str:
        return self.listed_in


_KINDS: Final = ("input", "output", "cache_read", "cache_write", "cache_write_1h")
