"""The graph library: one class that builds a graph, and forwards what runs it."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, TypeVar

from loom_ia.app.graphs import cancelling, forking, reading, streaming
from loom_ia.app.graphs.desk import desk_of
from loom_ia.app.graphs.driving import Manner
from loom_ia.app.graphs.order import Order
from loom_ia.app.graphs.resuming import Resumption, resume_graph
from loom_ia.app.graphs.running import run_graph
from loom_ia.core.ports.store import Store
from loom_ia.graph.children import ChildGraph, Inputs, OnYield, Outputs
from loom_ia.graph.definition import GraphDefinition
from loom_ia.graph.types import (
    Approver,
    CheckpointInfo,
    GraphEvent,
    RunResult,
    Step,
    StreamItem,
)

S = TypeVar("S")


class Graph(GraphDefinition[S]):
    """A graph of steps, and what runs it; see `GraphDefinition` for how it is built.

    A store given to a run holds its journal. Without one the run is kept in memory and ends with
    the call.
    """

    async def run(
        self,
        input: Mapping[str, Any] | S | None = None,
        *,
        store: Store | None = None,
        run_id: str | None = None,
        approver: Approver | None = None,
        raise_on_error: bool = True,
        allow_unresumable: bool = False,
    ) -> RunResult[S]:
        """Run the graph from its entry until it is over or waits.

        `run_id` must be new in the store (`RunExists`). With `approver`, a function answers each
        question in line and the run never pauses. Raises the exception of a run that failed, which
        carries the result, unless `raise_on_error` is false: it is then in `result.error`. A pause
        without a store raises `NotResumable`, unless `allow_unresumable`.
        """
        order = self._order(store, approver)
        manner = Manner(raise_on_error, allow_unresumable or store is not None)
        return await run_graph(order, input, run_id, manner)

    async def resume(
        self,
        run_id: str,
        input: Mapping[str, Any] | None = None,
        *,
        store: Store,
        answers: Mapping[str, Any] | None = None,
        allow_changed: bool = False,
        take_over: bool = False,
        approver: Approver | None = None,
        raise_on_error: bool = True,
    ) -> RunResult[S]:
        """Go on with a run that waits, was interrupted, or failed.

        `input` is merged into the state; while one question is open and `answers` is not given, it
        is also its answer. `answers` gives what answers each question by its id. Raises
        `RunNotFound`, `RunLocked` (unless `take_over`), `GraphChanged` (unless `allow_changed`),
        `UnknownInterrupt`, `ExpiredInterrupt`, `InvalidAnswer`, `AmbiguousAnswer`; nothing is
        written then. Otherwise as `run`.
        """
        said = Resumption(input, answers, allow_changed, take_over)
        return await resume_graph(
            self._order(store, approver), run_id, said, Manner(raise_on_error)
        )

    async def fork(
        self,
        run_id: str,
        *,
        at: int,
        store: Store,
        input: Mapping[str, Any] | None = None,
        new_run_id: str | None = None,
        step_budget: int | None = None,
        raise_on_error: bool = True,
    ) -> RunResult[S]:
        """Begin a run where another one stood at place `at`, and drive it; the other is untouched.

        `input` is merged into its state, and answers the question that was open there. Raises
        `RunNotFound`, `ValueError` for a place that the run has not. Otherwise as `run`.
        """
        what = forking.Fork(at, input, new_run_id, step_budget)
        return await forking.fork(self._order(store), run_id, what, Manner(raise_on_error))

    async def cancel(self, run_id: str, *, store: Store, by: str | None = None) -> bool:
        """Stop a run for good; False when it was over already. Raises `RunNotFound`."""
        return await cancelling.cancel(self._order(store), run_id, by or "python")

    async def recover(self, *, store: Store) -> list[RunResult[S]]:
        """Go on with every run of this graph that is open, does not wait, and nobody drives."""
        return await cancelling.recover(lambda: self._order(store), Manner(raise_on_error=False))

    def stream(
        self,
        input: Mapping[str, Any] | S | None = None,
        *,
        store: Store | None = None,
        run_id: str | None = None,
        mode: str | Sequence[str] = "updates",
    ) -> AsyncIterator[StreamItem]:
        """Run the graph and give what happens as it does, in one or several modes.

        "updates" gives `StepCompleted` and `Interrupted`, "values" `StateChanged`, "tokens" `Token`
        and "events" `GraphEvent`; all end with one `RunFinished`. Leaving the iteration abandons
        the run, which stays resumable.
        """
        modes = streaming.modes_of(mode)
        return streaming.stream(self._order(store), input, run_id, modes)

    def follow(self, run_id: str, *, store: Store, after_seq: int = 0) -> AsyncIterator[GraphEvent]:
        """Give the events of a run that follow `after_seq`, then new ones until it is over."""
        return streaming.follow(self._order(store), run_id, after_seq)

    async def events(self, run_id: str, *, store: Store, after_seq: int = 0) -> list[GraphEvent]:
        """Read the events of a run, and of those below it, that follow `after_seq`."""
        return await reading.events(self._order(store), run_id, after_seq)

    async def history(self, run_id: str, *, store: Store) -> list[CheckpointInfo]:
        """Read the steps of a run that were completed, failed or paused, in order."""
        return await reading.history(self._order(store), run_id)

    async def state_at(self, run_id: str, seq: int, *, store: Store) -> S:
        """Read the state of a run as it was at place `seq`."""
        return await reading.state_at(self._order(store), run_id, seq)

    def mermaid(self, run: RunResult[S] | None = None) -> str:
        """Draw the graph, and what a run visited, as a Mermaid flowchart."""
        return reading.mermaid(self, run)

    def as_step(
        self,
        *,
        inputs: Inputs = None,
        outputs: Outputs = None,
        on_yield: OnYield = "bubble",
    ) -> Step:
        """Make a step of the graph: a run below the one of the graph that has the step.

        `inputs` gives what the child begins with, a function of the parent's state or keys of it;
        `outputs` what comes back, a function of the child's final state or keys of it. By default
        all goes in, and what the child changed comes back. A pause of the child is one of the
        parent, with `on_yield="bubble"`; "trap" fails the step; a function receives the result and
        gives a delta.
        """
        return ChildGraph(self, inputs, outputs, on_yield)

    def as_tool(self, *, name: str, description: str, side_effects: str = "none") -> Any:
        """Make a tool of the graph, for the agents of a host and for tool loops."""
        from loom_ia.app.graphs.tool import graph_tool

        return graph_tool(self, name, description, side_effects)

    def _order(self, store: Store | None, approver: Approver | None = None) -> Order:
        desk = desk_of(store, self.name)
        instance = desk.instance(self.lease, self.durability)
        return Order(self, desk, instance, approver)
