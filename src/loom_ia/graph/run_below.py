"""A run of a graph below another run, driven inside the hooks of its own graph."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from loom_ia.core.ids import RunId
from loom_ia.core.model.changes import Values
from loom_ia.core.state.flow import Flow
from loom_ia.core.state.run import RunState
from loom_ia.core.state.session import SessionState
from loom_ia.graph import errors
from loom_ia.graph.definition import GraphDefinition
from loom_ia.graph.results import budget_left, error_of, result_of
from loom_ia.graph.surroundings import Surroundings, info_of, not_finished
from loom_ia.graph.types import Hooks

_NONE: Final = Hooks()


class RunsBelow:
    """The runs of one graph below others: tells its hooks of their beginning and of each drive."""

    def __init__(self, graph: GraphDefinition[Any]) -> None:
        self._graph = graph
        self._begun: set[RunId] = set()
        self._errors: dict[RunId, errors.RunError] = {}

    async def begin(self, run_id: RunId, given: Values) -> None:
        """Tell that a run begins, once; raises `HookAborted`."""
        if run_id not in self._begun:
            await self._around(run_id, given, resumed=False).start()
            self._begun.add(run_id)

    async def drive(
        self,
        child: RunState,
        drive: Callable[[], Awaitable[RunState]],
        state: SessionState,
        causes: Mapping[tuple[RunId, str], BaseException],
    ) -> RunState:
        """Drive a run; raises `HookAborted` when a hook refuses it, or fails where it ended well.

        What the hooks raise after a failure is told with that failure.
        """
        before = child.flow or Flow({}, {})
        resumed = child.run_id not in self._begun
        around = self._around(child.run_id, {} if resumed else before.initial, resumed=resumed)
        self._begun.discard(child.run_id)
        await around.enter()
        try:
            child = await drive()
        except BaseException as error:
            await around.leave(error)
            raise
        failure = error_of(child, causes)
        if failure is None and around.is_empty:
            return child
        result = result_of(
            self._graph,
            child,
            state,
            steps=child.flow.executed - before.executed if child.flow else 0,
            error=failure,
            budget_left=budget_left(child, state),
        )
        raised = await around.end(result)
        if failure is None:
            if raised:
                raise not_finished(result, raised)
            return child
        failure.result, failure.also = result, tuple(raised)
        self._errors[child.run_id] = failure
        return child

    def failure(self, run_id: RunId) -> errors.RunError | None:
        """Give, once, the error that a run just driven ended with."""
        return self._errors.pop(run_id, None)

    def _around(self, run_id: RunId, given: Values, *, resumed: bool) -> Surroundings:
        graph = self._graph
        read = graph.state_type.codec.from_json
        values = {key: read(value) for key, value in given.items()} if graph.hooks != _NONE else {}
        return Surroundings(graph, info_of(graph, run_id, values, resumed=resumed))
