"""What a run may consume."""

from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

from pydantic import Field

from loom_ia.core.model.base import Value

BudgetLimit: TypeAlias = Literal["max_cost", "max_tokens", "max_calls"]
BudgetAction: TypeAlias = Literal["stop", "warn"]


class Excess(NamedTuple):
    """A limit that was reached: its value, and what was spent."""

    limit: BudgetLimit
    value: float
    spent: float


class Budget(Value):
    """Limits of one run; None is no limit. `max_cost` is in dollars, `max_calls` of models.

    They are looked at before each call of the main model, so that a run may pass a limit by what
    one call consumes.
    """

    max_cost: float | None = Field(default=None, gt=0)
    max_tokens: int | None = Field(default=None, gt=0)
    max_calls: int | None = Field(default=None, gt=0)

    def reached(self, *, cost: float, tokens: int, calls: int) -> Iterator[Excess]:
        """Give the limits that are reached by what was spent."""
        if self.max_cost is not None and cost >= self.max_cost:
            yield Excess("max_cost", self.max_cost, cost)
        if self.max_tokens is not None and tokens >= self.max_tokens:
            yield Excess("max_tokens", self.max_tokens, tokens)
        if self.max_calls is not None and calls >= self.max_calls:
            yield Excess("max_calls", self.max_calls, calls)
