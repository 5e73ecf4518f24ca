"""A graph as the engine drives it: what decisions may know of it, and the code behind."""

from collections.abc import Callable
from dataclasses import replace
from types import MappingProxyType
from typing import Any
from weakref import WeakKeyDictionary

from loom_ia.core.model.budget import Budget
from loom_ia.core.model.tooling import ToolKind
from loom_ia.core.plan import GraphPlan, StepFacts
from loom_ia.core.ports.store import Store
from loom_ia.core.prompts import Language
from loom_ia.engine.program import GraphProgram
from loom_ia.graph.bindings import Approver, GraphBindings
from loom_ia.graph.budget import StepBudget
from loom_ia.graph.children import ChildAgent, ChildGraph
from loom_ia.graph.definition import GraphDefinition
from loom_ia.graph.routers import leads_of
from loom_ia.graph.running import Host
from loom_ia.graph.step_definition import StepDefinition


def plan_of(
    graph: GraphDefinition[Any], *, inline: bool = False, language: Language = "en"
) -> GraphPlan:
    """Give what decisions may know of a graph; `inline` tells that a function answers."""
    build, kept = graph.build, _PLANS.get(graph)
    if kept is None or kept[0] != build:
        kept = _PLANS[graph] = (build, _plan(graph))
    plan = kept[1]
    if plan.inline_approver == inline and plan.language == language:
        return plan
    return replace(plan, inline_approver=inline, language=language)


_PLANS: WeakKeyDictionary[GraphDefinition[Any], tuple[tuple[object, ...], GraphPlan]] = (
    WeakKeyDictionary()
)
"""Plans of graphs as they were built last: a fingerprint costs more than a short run."""


def _plan(graph: GraphDefinition[Any]) -> GraphPlan:
    steps = {name: _facts(step) for name, step in graph.steps.items()}
    for old, new in graph.migrations.items():
        if old not in steps:
            steps[old] = _facts(graph.steps[new], old)
    limit = graph.step_budget
    return GraphPlan(
        name=graph.name,
        entry=graph.entry or "",
        tools=MappingProxyType(steps),
        max_iterations=graph.max_iterations,
        per_segment=graph.iterations_per == "segment",
        timeout=graph.timeout,
        budget=None
        if limit is None
        else Budget.trusted(max_cost=None, max_tokens=None, max_calls=None, max_steps=limit),
        before=len(graph.hooks.before),
        after=len(graph.hooks.after),
        merge=graph.state_type.merges.table(),
        parts=graph.fingerprint_parts(),
        digest=graph.fingerprint(),
    )


def program_of(  # noqa: PLR0913 -- one keyword for each thing that surrounds a graph
    graph: GraphDefinition[Any],
    *,
    store: Store | None = None,
    host: Host | None = None,
    budget: StepBudget | None = None,
    answers: Approver | None = None,
    approver: Callable[..., object] | None = None,
    limits: Budget | None = None,
    session_limits: Budget | None = None,
    language: Language = "en",
) -> GraphProgram:
    """Give a graph ready to be driven.

    `limits` are those of whoever hosts it, `session_limits` what all the runs of a session have.
    """
    bindings = GraphBindings(
        graph,
        store,
        host,
        budget,
        answers,
        tuple(check for hook in graph.hooks.after if (check := getattr(hook, "check", None))),
    )
    plan = plan_of(graph, inline=answers is not None, language=language)
    return GraphProgram(bounded(plan, limits, session_limits), bindings, approver)


def bounded(plan: GraphPlan, limits: Budget | None, session_limits: Budget | None) -> GraphPlan:
    """Add the limits of whoever hosts a graph to its own."""
    if limits is not None:
        plan = replace(plan, budget=_smaller(plan.budget, limits))
    if session_limits is not None:
        plan = replace(plan, session_budget=session_limits)
    return plan


def _smaller(own: Budget | None, limits: Budget) -> Budget:
    """Give the limits of whoever hosts a graph, with the graph's own steps if they are fewer."""
    steps = [b.max_steps for b in (own, limits) if b is not None and b.max_steps is not None]
    return limits.model_copy(update={"max_steps": min(steps, default=None)})


def _facts(step: StepDefinition, name: str | None = None) -> StepFacts:
    kind: ToolKind = "step"
    bubbles = True
    if isinstance(step.child, ChildGraph):
        kind, bubbles = "graph", step.child.on_yield == "bubble"
    elif isinstance(step.child, ChildAgent):
        kind = "subagent"
    return StepFacts(
        name=name or step.name,
        kind=kind,
        leads=leads_of(step.router),
        side_effects=step.side_effects,
        idempotent=step.idempotent,
        on_unknown=step.on_unknown,
        fallback=step.fallback or "",
        join=step.join,
        bubbles=bubbles,
    )
