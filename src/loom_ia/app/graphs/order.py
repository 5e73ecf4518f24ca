"""One call about a run of a graph: what was asked, and what is made ready for it."""

import inspect
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from loom_ia.app.graphs.desk import Desk
from loom_ia.app.instance import Instance
from loom_ia.core.errors import CallerError
from loom_ia.core.ids import RunId, SessionId
from loom_ia.core.json import JsonValue
from loom_ia.core.model.budget import Budget
from loom_ia.core.plan import GraphPlan
from loom_ia.core.ports.store import Store
from loom_ia.core.prompts import Language
from loom_ia.core.state.calls import Call, Inquiry
from loom_ia.core.state.questions import Asking
from loom_ia.core.state.run import RunState
from loom_ia.core.state.session import SessionState
from loom_ia.engine.program import Answers, GraphProgram
from loom_ia.graph.answers import check_answer, told_answer
from loom_ia.graph.budget import StepBudget, budgets_around
from loom_ia.graph.compiled import bounded, plan_of, program_of
from loom_ia.graph.definition import GraphDefinition
from loom_ia.graph.errors import DeltaError
from loom_ia.graph.results import interrupt_of
from loom_ia.graph.running import Host, called


@dataclass(slots=True)
class Order:
    """What a caller wants of one run of a graph, and who does it.

    `causes` keeps the exceptions behind failures while the call lasts. Its run is in a session of
    its own unless `session_id` tells another one. `answers` asks the `approver` in another way than
    that of graphs. `store` is what steps are given where the desk has none; `limits` are those of
    the host.
    """

    graph: GraphDefinition[Any]
    desk: Desk
    instance: Instance
    approver: Callable[..., Any] | None = None
    host: Host | None = None
    session_id: SessionId | None = None
    answers: Answers | None = None
    store: Store | None = None
    limits: Budget | None = None
    session_limits: Budget | None = None
    language: Language = "en"
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
        limit = self._steps()
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
            store=self.store or self.desk.store,
            host=self.host,
            budget=self.budget or (around[-1] if around else None),
            answers=None if self.approver is None else self.answers or self._answer,
            approver=self.approver,
            limits=self.limits,
            session_limits=self.session_limits,
            language=self.language,
        )

    def plan(self) -> GraphPlan:
        """Give what decisions know of the graph, with the limits that bind a run of it now."""
        return bounded(plan_of(self.graph), self.limits, self.session_limits)

    def _steps(self) -> int | None:
        own, limits = self.graph.step_budget, self.limits
        known = (own, limits.max_steps if limits is not None else None)
        return min((steps for steps in known if steps is not None), default=None)

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


@contextmanager
def naming(graph: GraphDefinition[Any], run_id: RunId) -> Generator[None, None, None]:
    """Say of which run an input is, when it cannot enter its state."""
    try:
        yield
    except DeltaError as error:
        error.run_id, error.graph = run_id, graph.name
        raise
