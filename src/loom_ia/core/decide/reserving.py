"""What the calls of models of a tree may consume together.

Before a run below another one calls its model, the most that the call may consume is kept aside.
The call is made at once if that fits what every limit leaves, what is kept aside for others taken
away. Else it waits for them: runs beside each other then go one by one, in their order. The first
of them is never kept waiting, so that one call alone, and only one, may pass a limit.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from loom_ia.core.decide.request import build_request
from loom_ia.core.ids import RunId
from loom_ia.core.model.budget import Reserve
from loom_ia.core.model.sizes import CHARACTERS_PER_TOKEN, Sizes
from loom_ia.core.plan import AgentPlan, ModelFacts
from loom_ia.core.state.calls import Call
from loom_ia.core.state.run import RunState, results_message
from loom_ia.core.state.session import Account, RunView, is_held

_EXACT: Final = 9
"""Decimals of dollars that count when amounts are compared."""


def reserve_of(view: RunView, plan: AgentPlan) -> Reserve | None:
    """Give what the next call of the model may consume; None where nothing binds a run below."""
    run = view.run
    if run.header.parent_run_id is None or not _binding(view):
        return None
    sizes = view.sizes or Sizes()
    prompt = sizes.prompt_tokens(build_request(view, plan).request)
    if run.table:
        prompt += sizes.of(results_message(run.table, plan.language)) // CHARACTERS_PER_TOKEN
    model = plan.facts_of(run.model_of("main")).id
    rank = next((i for i, facts in enumerate(plan.chain) if facts.id == model), 0)
    worst = [_worst(facts, prompt) for facts in plan.chain[rank:]]
    return Reserve(
        cost=max(reserve.cost for reserve in worst),
        tokens=max(reserve.tokens for reserve in worst),
        unbounded=any(reserve.unbounded for reserve in worst),
    )


def has_room(view: RunView, reserve: Reserve, now: datetime) -> bool:
    """Whether a call that may consume `reserve` can be made now, or must wait for others."""
    return all(
        _fits(account, reserve) or (not account.reserved.count and _is_first(account, view, now))
        for account in _binding(view)
    )


def _binding(view: RunView) -> tuple[Account, ...]:
    return tuple(account for account in view.accounts if account.budget.limits_calls)


def _worst(facts: ModelFacts, prompt: int) -> Reserve:
    longest = facts.longest_answer
    if longest is None and facts.context_window is not None:
        longest = max(facts.context_window - prompt, 0)
    cost = 0.0
    if facts.pricing is not None:
        prices = facts.pricing.at(prompt)
        read = max(prices.input, prices.cache_write, prices.cache_write_1h)
        cost = (read * prompt + prices.output * (longest or 0)) / 1_000_000
    return Reserve(
        cost=round(cost, _EXACT), tokens=prompt + (longest or 0), unbounded=longest is None
    )


def _fits(account: Account, more: Reserve) -> bool:
    budget, spent, kept = account.budget, account.ledger.spent, account.reserved
    if budget.max_calls is not None and spent.calls + kept.calls + more.calls > budget.max_calls:
        return False
    if (more.unbounded or kept.unbounded) and budget.limits_amounts:
        return False
    tokens = spent.usage.total_tokens + kept.tokens + more.tokens
    if budget.max_tokens is not None and tokens > budget.max_tokens:
        return False
    cost = round(spent.cost + kept.cost + more.cost, _EXACT)
    return budget.max_cost is None or cost <= budget.max_cost


def _is_first(account: Account, view: RunView, now: datetime) -> bool:
    """Whether no run before it, of those that a budget pays for, may still call a model."""
    lineage = set(_lineage(view))
    above = view.runs.get(account.owner)
    while above is not None and above.run_id != view.run.run_id:
        below = next(_driven(above, view, now), None)
        if below is None:
            return True
        if below.run_id not in lineage:
            return False
        above = below
    return True


def _lineage(view: RunView) -> Iterator[RunId]:
    run: RunState | None = view.run
    while run is not None:
        yield run.run_id
        run = view.runs.get(run.header.parent_run_id or "")


def _driven(above: RunState, view: RunView, now: datetime) -> Iterator[RunState]:
    """Give the runs that a run opened and that advance, in the order of its calls."""
    for call in above.table:
        child = view.runs.get(call.child_run_id) if call.child_run_id else None
        if child is None or child.outcome is not None or not _runs(call, above):
            continue
        if not is_held(child, view.runs, now):
            yield child


def _runs(call: Call, above: RunState) -> bool:
    if call.output is not None or not call.launches:
        return False
    if above.flow is not None:
        return call.launched_in == above.drive_id
    return above.step is not None and call.launched_in == above.step.span
