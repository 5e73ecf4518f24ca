"""A graph as a tool: of an agent, whose call of it is a run below; or of a tool loop."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self, cast

from loom_ia.core.errors import ToolError
from loom_ia.core.events.envelope import Payload
from loom_ia.core.events.run import RunStarted
from loom_ia.core.ids import RunId
from loom_ia.core.json import JsonObject, storable_text
from loom_ia.core.model.content import ToolOutput
from loom_ia.core.model.tooling import SideEffects, ToolSpec
from loom_ia.core.ports.store import Store
from loom_ia.core.ports.tools import ToolContext
from loom_ia.core.state.calls import Call
from loom_ia.core.state.run import Completed, Failed, RunState
from loom_ia.core.state.session import SessionState
from loom_ia.engine.program import AnyProgram, Caller, Fault, GraphProgram
from loom_ia.graph.compiled import program_of
from loom_ia.graph.definition import GraphDefinition
from loom_ia.graph.delegates import started_facts
from loom_ia.graph.errors import DeltaError, HookAborted
from loom_ia.graph.run_below import RunsBelow
from loom_ia.graph.running import Host
from loom_ia.graph.types import RunResult


@dataclass(frozen=True, slots=True)
class GraphTool:
    """What an agent calls: the arguments are the input of a run below its own.

    The model reads the `output` of the final state if it is a text, or else the state. `alone`
    runs the graph where nobody opens runs.
    """

    spec: ToolSpec
    graph: GraphDefinition[Any]
    host: Host | None = None
    store: Store | None = None
    alone: Callable[[JsonObject], Awaitable[RunResult[Any]]] | None = None
    _programs: list[GraphProgram] = field(default_factory=list[GraphProgram], repr=False)
    _runs: list[RunsBelow] = field(default_factory=list[RunsBelow], repr=False)

    @classmethod
    def of(
        cls,
        graph: GraphDefinition[Any],
        name: str,
        description: str,
        side_effects: str = "none",
        *,
        host: Host | None = None,
        store: Store | None = None,
        alone: Callable[[JsonObject], Awaitable[RunResult[Any]]] | None = None,
    ) -> Self:
        """Make a tool of a graph; raises `ValueError` for a name that no model can call."""
        spec = ToolSpec(
            name=name,
            description=description,
            input_schema=input_schema(graph),
            kind="graph",
            side_effects=cast("SideEffects", side_effects),
            timeout=None,
        )
        return cls(spec, graph, host, store, alone)

    @property
    def delegate(self) -> Self:
        """What a call of it opens."""
        return self

    @property
    def program(self) -> AnyProgram:
        """What drives the run that is opened."""
        if not self._programs:
            self.graph.require_valid()
            self._programs.append(program_of(self.graph, store=self.store, host=self.host))
        return self._programs[0]

    async def check(self, arguments: JsonObject) -> str | None:
        """Tell why `arguments` cannot be the input of the graph."""
        try:
            self.graph.state_type.initial(arguments)
        except DeltaError as error:
            return str(error)
        return None

    async def opening(self, call: Call, caller: Caller) -> tuple[RunStarted, tuple[Payload, ...]]:
        """Give the first facts of the run below."""
        program = cast("GraphProgram", self.program)
        started = started_facts(self.graph, program, call.arguments)
        await self._below().begin(f"{caller.run.run_id}/{call.call_id}", started.input)
        return started, ()

    async def driven(
        self,
        child: RunState,
        call: Call,
        drive: Callable[[], Awaitable[RunState]],
        state: SessionState,
        causes: Mapping[tuple[RunId, str], BaseException],
    ) -> RunState | Fault:
        """Drive the run below inside the hooks of its graph."""
        del call
        try:
            return await self._below().drive(child, drive, state, causes)
        except HookAborted as error:
            return Fault("HookAborted", storable_text(str(error)), cause=error)

    def _below(self) -> RunsBelow:
        if not self._runs:
            self._runs.append(RunsBelow(self.graph))
        return self._runs[0]

    def output(self, child: RunState) -> ToolOutput:
        """Give what the model reads of a run that is over."""
        self._below().failure(child.run_id)
        match child.outcome:
            case Completed() if child.flow is not None:
                return _output(self.graph.state_type.result(child.flow.main.values))
            case Failed() as failed:
                return ToolOutput.of_error(storable_text(failed.error))
            case _:
                return ToolOutput.of_error(f"the graph {self.graph.name} was cancelled")

    async def call(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        """Run the graph on its own: for a tool loop, which keeps what it gave."""
        del context
        if self.alone is None:
            raise ToolError(f"the graph {self.graph.name} is called by agents only")
        result = await self.alone(arguments)
        if result.error is not None:
            raise ToolError(str(result.error))
        return _output(result.state)


def _output(state: Any) -> ToolOutput:
    values = cast("dict[str, Any]", state if isinstance(state, dict) else vars(state))
    answer = values.get("output")
    if isinstance(answer, str):
        return ToolOutput.of_text(storable_text(answer))
    return ToolOutput.of_text(storable_text(json.dumps(values, default=str, ensure_ascii=False)))


def input_schema(graph: GraphDefinition[Any]) -> JsonObject:
    """Give the JSON Schema of what a run of a graph begins with; any object without a class."""
    if graph.state is None:
        return {"type": "object"}
    from pydantic import TypeAdapter

    try:
        schema = cast("JsonObject", TypeAdapter(graph.state).json_schema())
    except Exception:  # noqa: BLE001 -- a class that has no schema takes any object
        return {"type": "object"}
    return {"type": "object", **schema}
