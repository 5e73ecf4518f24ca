"""One call about a run of a graph: what was asked, and what is made ready for it."""

import asyncio
import inspect
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

from loom_ia.app.graphs.desk import Desk
from loom_ia.app.instance import Instance
from loom_ia.core.errors import CallerError, told
from loom_ia.core.ids import RunId
from loom_ia.core.json import JsonValue
from loom_ia.core.state.calls import Call, Inquiry
from loom_ia.core.state.run import RunState
from loom_ia.core.state.session import SessionState
from loom_ia.engine.program import GraphProgram
from loom_ia.graph.answers import check_answer, told_answer
from loom_ia.graph.budget import StepBudget, budgets_around
from loom_ia.graph.compiled import program_of
from loom_ia.graph.definition import GraphDefinition
from loom_ia.graph.errors import DeltaError, HookAborted
from loom_ia.graph.results import Asking, interrupt_of
from loom_ia.graph.running import Host, called
from loom_ia.graph.types import Approver, RunInfo


@dataclass(slots=True)
class Order:
    """What a caller wants of one run of a graph, and who does it.

    `causes` keeps the exceptions behind failures while the call lasts.
    """

    graph: GraphDefinition[Any]
    desk: Desk
    instance: Instance
    approver: Approver | None = None
    host: Host | None = None
    token: Any = None
    follow: Any = None
    causes: dict[tuple[RunId, str], BaseException] = field(
        default_factory=dict[tuple[RunId, str], BaseException]
    )
    budget: StepBudget | None = None
    meter: "Meter | None" = None

    def program(
        self, run: RunState | None = None, state: SessionState | None = None
    ) -> GraphProgram:
        """Make the graph ready to be driven, on from `run` if it has begun."""
        limit = self.graph.step_budget
        if run is not None:
            limit = run.header.budget.max_steps if run.header.budget else None
        used = state.ledger(run).steps if run is not None and state is not None else 0
        around = budgets_around()
        self.budget = StepBudget(limit, used=min(used, limit)) if limit is not None else None
        charged = around if self.budget is None else (*around, self.budget)
        counts = {r.run_id: r.flow.started for r in _tree(run, state) if r.flow is not None}
        self.meter = Meter(charged, counts) if charged else None
        return program_of(
            self.graph,
            store=self.desk.store,
            host=self.host,
            budget=self.budget or (around[-1] if around else None),
            answers=None if self.approver is None else self._answer,
            approver=self.approver,
        )

    async def _answer(self, run: RunState, call: Call, inquiry: Inquiry | None) -> JsonValue:
        """Put a question to the function that answers in line."""
        approver = self.approver
        if approver is None:
            raise CallerError("nobody answers in line")
        log = self.instance.log(run.header.session_id)
        asking = Asking(run, call, inquiry, call.question if inquiry is None else None)
        codec = self.graph.state_type.codec
        shown = interrupt_of(asking, log.state.runs, codec)
        given = await called(approver, shown)
        if inspect.isawaitable(given):
            given = await given
        given = told_answer(given, asking.schema)
        check_answer(given, asking.schema, question=asking.id)
        return codec.to_json(given, "answer")


def _tree(run: RunState | None, state: SessionState | None) -> list[RunState]:
    if run is None or state is None:
        return []
    return list(state.tree(run.run_id)) or [run]


class Meter:
    """Charges the steps that the runs of one call start to the budgets around it."""

    def __init__(self, budgets: tuple[StepBudget, ...], counts: dict[RunId, int]) -> None:
        self._budgets = budgets
        self._counts = counts

    @property
    def left(self) -> int | None:
        """How many steps may still be started."""
        return min(budget.left for budget in self._budgets)

    def read(self, run_id: RunId, started: int) -> None:
        """Charge what a run started since the last time."""
        more = started - self._counts.get(run_id, 0)
        if more > 0:
            self._counts[run_id] = started
            for budget in self._budgets:
                budget.used += more


class Surroundings:
    """The hooks of a run's beginning and end, around a call that drives."""

    def __init__(self, graph: GraphDefinition[Any], info: RunInfo) -> None:
        self._graph = graph
        self._info = info
        self._stack = AsyncExitStack()
        self.is_entered = False

    async def begin(self) -> None:
        """Tell that a run begins, unless it goes on, and enter its context."""
        hooks = self._graph.hooks
        self.is_entered = True
        try:
            if not self._info.resumed:
                for hook in hooks.run_started:
                    await called(hook, self._told())
            if hooks.run_context is not None:
                manager = hooks.run_context(self._told())
                if inspect.isawaitable(manager):
                    manager = await manager
                if manager is None:
                    raise TypeError("run_context gave None: it gives an async context manager")
                await self._stack.enter_async_context(manager)
        except (Exception, asyncio.CancelledError) as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task and task.cancelling():
                raise
            raise self._aborted(error) from error

    def _told(self) -> RunInfo:
        return replace(self._info, input=deepcopy(dict(self._info.input)))

    async def end(self, result: Any) -> list[BaseException]:
        """Leave the context, tell how the call ended, and give what the hooks raised.

        Where it was not entered, nothing is told: the call drove nothing.
        """
        raised: list[BaseException] = []
        if not self.is_entered:
            return raised
        try:
            await self._stack.aclose()
        except Exception as error:  # noqa: BLE001 -- told with what else went wrong
            raised.append(error)
        for hook in self._graph.hooks.run_finished:
            try:
                await called(hook, result)
            except Exception as error:  # noqa: BLE001 -- told with what else went wrong
                raised.append(error)
        return raised

    async def leave(self, error: BaseException) -> None:
        """Leave the context through what cut the call."""
        await self._stack.__aexit__(type(error), error, error.__traceback__)

    def _aborted(self, error: BaseException) -> HookAborted:
        aborted = HookAborted(
            "a hook of graph {graph!r} refused the run: {reason}",
            graph=self._graph.name,
            reason=told(error),
        )
        aborted.run_id, aborted.graph = self._info.run_id, self._graph.name
        return aborted


@contextmanager
def naming(graph: GraphDefinition[Any], run_id: RunId) -> Iterator[None]:
    """Say of which run an input is, when it cannot enter its state."""
    try:
        yield
    except DeltaError as error:
        error.run_id, error.graph = run_id, graph.name
        raise


def info_of(
    graph: GraphDefinition[Any],
    run_id: RunId,
    given: Mapping[str, Any],
    *,
    resumed: bool,
    parent: tuple[RunId, int] | None = None,
) -> RunInfo:
    """Give what the hooks of a run's beginning are told."""
    return RunInfo(run_id, graph.name, dict(given), parent, resumed)
