"""A run of a graph that may be asked for again, as by a client that lost the answer.

Law. Only what a client can do is done: run it, go on with it, answer. A run that is over stays so.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from loom_ia.access.graph import Graph
from loom_ia.app.instance import DEFAULT_TENANT
from loom_ia.core.errors import RunExists
from loom_ia.core.ids import RunId
from loom_ia.core.plan import StepFacts
from loom_ia.core.state.run import Failed
from loom_ia.engine.log import SessionLog
from loom_ia.engine.values import JournalStore
from loom_ia.graph.children import ChildGraph
from loom_ia.graph.compiled import plan_of
from loom_ia.graph.definition import GraphDefinition
from loom_ia.graph.results import error_of, result_of
from loom_ia.graph.types import Interrupt, RunResult

Answer: TypeAlias = Callable[[Interrupt], Any]
"""Told each question, gives what answers it."""


async def drive_graph(
    graph: Graph[Any],
    given: Any,
    *,
    store: JournalStore,
    run_id: RunId,
    answer: Answer | None,
    asked_before: bool,
) -> RunResult[Any]:
    """Run a graph, or go on with the run that bears this id, and answer what it asks."""
    try:
        result = await graph.run(given, store=store, run_id=run_id, raise_on_error=False)
    except RunExists:
        if not asked_before:
            raise
        result = await _gone_on_with(graph, store, run_id)
    while answer is not None and result.yielded:
        answers = {asked.id: await _answered(answer, asked) for asked in result.interrupts}
        result = await graph.resume(run_id, answers=answers, store=store, raise_on_error=False)
    return result


async def _gone_on_with(graph: Graph[Any], store: JournalStore, run_id: RunId) -> RunResult[Any]:
    log = SessionLog(store.journal, store.clock, DEFAULT_TENANT, run_id)
    await log.catch_up()
    run = log.run(run_id)
    if run is not None and isinstance(run.outcome, Failed):  # to resume it would try it again
        return result_of(graph, run, log.state, error=error_of(run, {}))
    return await graph.resume(run_id, store=store, take_over=True, raise_on_error=False)


async def _answered(answer: Answer, asked: Interrupt) -> Any:
    given = answer(asked)
    return await given if inspect.isawaitable(given) else given


def steps_of(graph: GraphDefinition[Any]) -> Mapping[str, StepFacts]:
    """Give the declarations of the steps of a graph, and of those below it, by name."""
    return {
        name: facts
        for one in reversed(list(_tree(graph)))
        for name, facts in plan_of(one).tools.items()
    }


def _tree(graph: GraphDefinition[Any]) -> Iterator[GraphDefinition[Any]]:
    seen: list[GraphDefinition[Any]] = []
    due = [graph]
    while due:
        one = due.pop(0)
        if one in seen:
            continue
        seen.append(one)
        yield one
        due += [s.child.graph for s in one.steps.values() if isinstance(s.child, ChildGraph)]
