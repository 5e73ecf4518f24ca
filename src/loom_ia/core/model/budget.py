"""What a run may consume."""

from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

from pydantic import ConfigDict, Field

from loom_ia.core.model.base import Value, sparse

BudgetLimit: TypeAlias = Literal["max_cost", "max_tokens", "max_calls", "max_steps"]
BudgetAction: TypeAlias = Literal["stop", "warn"]
BudgetScope: TypeAlias = Literal["run", "session"]


class Excess(NamedTuple):
    """A limit that was reached: its value, what was spent, and whose limit it is."""

    limit: BudgetLimit
    value: float
    spent: float
    scope: BudgetScope = "run"

    @property
    def key(self) -> str:
        """What identifies the limit among those of a run."""
        return self.limit if self.scope == "run" else f"{self.scope}.{self.limit}"


class Budget(Value):
    """Limits of one run; None is no limit. `max_cost` is in dollars, `max_calls` of models.

    They are looked at before each call of the main model, so that a run may pass a limit by what
    one call consumes, and `max_steps` before each step of a graph. What the runs below consume
    counts as the run's own.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    max_cost: float | None = Field(
        default=None, gt=0, description="Dollars; the model needs a `pricing`."
    )
    max_tokens: int | None = Field(default=None, gt=0, description="Tokens, read and written.")
    max_calls: int | None = Field(default=None, gt=0, description="Calls of models.")
    max_steps: int | None = Field(default=None, gt=0, description="Steps of graphs.")

    def over(self, general: "Budget") -> "Budget":
        """Give these limits, and those of `general` where nothing is said here.

        A limit that is given as None is lifted.
        """
        said = {name: getattr(self, name) for name in self.model_fields_set}
        return general.model_copy(update=said)

    def left(self, *, cost: float, tokens: int, calls: int) -> "Budget | None":
        """Give what remains of these limits once so much is spent; None when one is used up."""
        if any(self.reached(cost=cost, tokens=tokens, calls=calls)):
            return None
        return self.model_copy(
            update={
                "max_cost": None if self.max_cost is None else self.max_cost - cost,
                "max_tokens": None if self.max_tokens is None else self.max_tokens - tokens,
                "max_calls": None if self.max_calls is None else self.max_calls - calls,
            }
        )

    def share(self, part: float) -> "Budget":
        """Give a part, from 0 to 1, of each limit: at least one token, and one call."""
        cost, tokens, calls = self.max_cost, self.max_tokens, self.max_calls
        return Budget(
            max_cost=None if cost is None else cost * part,
            max_tokens=None if tokens is None else max(int(tokens * part), 1),
            max_calls=None if calls is None else max(int(calls * part), 1),
            max_steps=self.max_steps,
        )

    def within(self, other: "Budget") -> "Budget":
        """Give the narrower of each limit."""
        narrow = {name: _narrower(getattr(self, name), limit) for name, limit in other}
        return self.model_copy(update=narrow)

    def reached(self, *, cost: float, tokens: int, calls: int) -> Iterator[Excess]:
        """Give the limits that are reached by what was spent."""
        if self.max_cost is not None and cost >= self.max_cost:
            yield Excess("max_cost", self.max_cost, cost)
        if self.max_tokens is not None and tokens >= self.max_tokens:
            yield Excess("max_tokens", self.max_tokens, tokens)
        if self.max_calls is not None and calls >= self.max_calls:
            yield Excess("max_calls", self.max_calls, calls)

    @property
    def limits_calls(self) -> bool:
        """Whether something bounds what models consume."""
        return self.limits_amounts or self.max_calls is not None

    @property
    def limits_amounts(self) -> bool:
        """Whether dollars or tokens are bounded."""
        return self.max_cost is not None or self.max_tokens is not None

    @property
    def is_empty(self) -> bool:
        """Whether nothing is limited."""
        return not self.limits_calls and self.max_steps is None


class SessionBudget(Value):
    """Limits of a whole session, of which a run sees what was consumed before it; None is none."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    max_cost: float | None = Field(
        default=None, gt=0, description="Dollars; the model needs a `pricing`."
    )
    max_tokens: int | None = Field(default=None, gt=0, description="Tokens, read and written.")

    def over(self, general: "SessionBudget") -> "SessionBudget":
        """Give these limits, and those of `general` where nothing is said here."""
        said = {name: getattr(self, name) for name in self.model_fields_set}
        return general.model_copy(update=said)

    @property
    def limits(self) -> Budget:
        """The same limits, as those of a run."""
        return Budget(max_cost=self.max_cost, max_tokens=self.max_tokens)


class Reserve(Value):
    """The most that a call may consume: dollars, tokens and calls of models.

    `unbounded` tells that the longest answer is not known, so that it may take all that is left.
    """

    cost: float = sparse(0.0)
    tokens: int = sparse(0)
    calls: int = 1
    unbounded: bool = sparse(False)


def _narrower(one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)
