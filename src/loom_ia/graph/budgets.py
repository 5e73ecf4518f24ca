"""Limits in dollars and in tokens, as hooks after the steps of a graph.

A hook keeps no count: it reads what the run has consumed, which is a fact of the journal, so that
one hook serves any number of runs and a resume goes on with the rest.
"""

import inspect
import logging
import math
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol, TypeAlias, cast, get_args

from loom_ia.core.errors import LoomError
from loom_ia.core.model.usage import Usage
from loom_ia.graph.context import StepContext
from loom_ia.graph.errors import BudgetExhausted
from loom_ia.graph.transcript import value_of

Scope: TypeAlias = Literal["run", "session", "tenant"]
Unpriced: TypeAlias = Literal["warn", "error"]

_log = logging.getLogger("loom_ia.graph")

_CENT: Final = 1e-9
"""What sums of floats may be over a limit by without being over it."""
_REMEMBERED: Final = 10_000


class BudgetHook(Protocol):
    """A hook after steps that stops a run which consumed too much.

    `check(usage)` raises `BudgetExhausted` when that total, of its `scope`, is over the limit;
    it is asked before each model call of a tool loop too.
    """

    @property
    def scope(self) -> Scope: ...

    def check(self, usage: Usage) -> None: ...

    async def __call__(self, step: str, state: Any, ctx: StepContext) -> None: ...


def cost_budget(usd: float, *, scope: Scope = "run", unpriced: Unpriced = "warn") -> BudgetHook:
    """Make an after hook that stops a run once it cost more than `usd` dollars.

    `scope` says whose total counts: the run's, its session's or its tenant's. Tokens of which no
    cost is known cannot be limited: `unpriced` says whether that is a warning, once per run, or
    stops it.
    """
    if isinstance(usd, bool) or math.isnan(usd) or usd < 0:
        raise ValueError(f"cost_budget({usd}): a limit is a number of dollars, not negative")
    _known("cost_budget", "scope", scope, Scope)
    _known("cost_budget", "unpriced", unpriced, Unpriced)
    return _CostBudget(usd, scope, unpriced)


def token_budget(tokens: int, *, scope: Scope = "run") -> BudgetHook:
    """Make an after hook that stops a run once it read and wrote more than `tokens` tokens."""
    if isinstance(tokens, bool) or tokens < 0:
        raise ValueError(f"token_budget({tokens}): a limit is a number of tokens, not negative")
    _known("token_budget", "scope", scope, Scope)
    return _TokenBudget(tokens, scope)


@dataclass(frozen=True, slots=True, eq=False)
class _TokenBudget:
    limit: int
    scope: Scope

    def check(self, usage: Usage) -> None:
        if usage.total_tokens > self.limit:
            raise BudgetExhausted(
                "the {scope} used {total} tokens, over its limit of {limit} tokens",
                scope=self.scope,
                total=usage.total_tokens,
                limit=self.limit,
            )

    async def __call__(self, step: str, state: Any, ctx: StepContext) -> None:
        self.check(await _total(ctx, self.scope))


@dataclass(frozen=True, slots=True, eq=False)
class _CostBudget:
    limit: float
    scope: Scope
    unpriced: Unpriced
    warned: OrderedDict[str, None] = field(default_factory=OrderedDict[str, None])

    def check(self, usage: Usage) -> None:
        cost = usage.cost_usd or 0.0
        if cost > self.limit + _CENT:
            raise BudgetExhausted(
                "the cost of the {scope} is {total} dollars, over its limit of {limit} dollars",
                scope=self.scope,
                total=f"{cost:g}",
                limit=f"{self.limit:g}",
            )

    async def __call__(self, step: str, state: Any, ctx: StepContext) -> None:
        total = await _total(ctx, self.scope)
        self.check(total)
        if not (_is_unpriced(total) or _is_unpriced(value_of(state, "usage"))):
            return
        if "error" in (self.unpriced, getattr(ctx, "unpriced", None)):
            raise LoomError(
                "the step {step} used tokens whose cost is not known, so that a limit of {limit}"
                " dollars cannot be kept: give the model its prices",
                step=step,
                limit=f"{self.limit:g}",
            )
        self._warn(step, ctx.run_id)

    def _warn(self, step: str, run_id: str) -> None:
        if run_id in self.warned:
            return
        self.warned[run_id] = None
        if len(self.warned) > _REMEMBERED:
            self.warned.popitem(last=False)
        _log.warning(
            "run %s: the step %s used tokens whose cost is not known; they count for nothing in"
            " its limit of %g dollars",
            run_id,
            step,
            self.limit,
        )


async def _total(ctx: StepContext, scope: Scope) -> Usage:
    usage_of = getattr(ctx, "usage_of", None)
    if scope == "run" or usage_of is None:
        return ctx.usage
    total = usage_of(scope)
    return cast("Usage", await total if inspect.isawaitable(total) else total)


def _is_unpriced(usage: object) -> bool:
    return isinstance(usage, Usage) and usage.cost_usd is None and usage.total_tokens > 0


def _known(function: str, option: str, value: str, kind: Any) -> None:
    choices = get_args(kind)
    if value not in choices:
        raise ValueError(f"{function}({option}={value!r}): it is one of {', '.join(choices)}")
