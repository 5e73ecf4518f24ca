"""A model as the configuration describes it."""

from decimal import Decimal
from typing import Final, Literal, TypeAlias

from pydantic import ConfigDict, Field

from loom_ia.core.json import JsonObject
from loom_ia.core.model.base import Value
from loom_ia.core.model.usage import Usage

Sdk: TypeAlias = Literal["fake"]

_PER_MILLION: Final = 1_000_000


class Pricing(Value):
    """Prices in dollars per million tokens."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    input: float = Field(default=0.0, ge=0)
    output: float = Field(default=0.0, ge=0)
    cache_read: float = Field(default=0.0, ge=0)
    cache_write: float = Field(default=0.0, ge=0)

    def cost(self, usage: Usage) -> float:
        """Price `usage`, in dollars, exact to the twelfth decimal."""
        parts = (
            (self.input, usage.input_tokens),
            (self.output, usage.output_tokens),
            (self.cache_read, usage.cache_read_tokens),
            (self.cache_write, usage.cache_write_tokens),
        )
        total = sum((Decimal(str(price)) * tokens for price, tokens in parts), Decimal(0))
        return float(total / _PER_MILLION)


class ModelSpec(Value):
    """One entry of `models`: `id` is the name inside the configuration, `model` the provider's."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    id: str = Field(min_length=1)
    sdk: Sdk
    model: str = Field(min_length=1)
    max_tokens: int | None = Field(default=None, gt=0)
    params: JsonObject = Field(default_factory=dict)
    pricing: Pricing | None = None
