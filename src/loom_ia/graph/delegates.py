"""How a graph opens runs below its own: a child graph, or an agent of the host.

What comes back of a child is a change: what was added to a list, the difference of a number, the
value otherwise, so that nothing that it was given comes back twice.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from loom_ia.core.errors import CallerError
from loom_ia.core.events.envelope import Payload
from loom_ia.core.events.message import UserMessage
from loom_ia.core.events.run import RunStarted
from loom_ia.core.ids import RunId
from loom_ia.core.json import storable_text
from loom_ia.core.model.changes import Values
from loom_ia.core.model.messages import Message
from loom_ia.core.state.calls import Call
from loom_ia.core.state.flow import Flow, path_of
from loom_ia.core.state.run import Completed, RunState
from loom_ia.core.state.session import SessionState
from loom_ia.engine.program import (
    AnyProgram,
    Done,
    Fault,
    GraphProgram,
    Program,
    StepDelegate,
)
from loom_ia.graph import errors
from loom_ia.graph.children import ChildAgent, ChildGraph
from loom_ia.graph.definition import GraphDefinition
from loom_ia.graph.results import error_of, result_of
from loom_ia.graph.running import called
from loom_ia.graph.step_definition import StepDefinition

if TYPE_CHECKING:
    from loom_ia.graph.bindings import GraphBindings

Causes = Mapping[tuple[RunId, str], BaseException]


def delegate_of(bindings: "GraphBindings", step: StepDefinition) -> StepDelegate | None:
    """Give what a step opens, None when it is plain code."""
    child = step.child
    if isinstance(child, ChildGraph):
        return _GraphBelow(bindings, step, child)
    if isinstance(child, ChildAgent):
        return _AgentBelow(bindings, step, child)
    return None


def started_facts(graph: GraphDefinition[Any], program: GraphProgram, given: Any) -> RunStarted:
    """Give the first fact of a run of a graph; raises a `DeltaError` for an unusable input."""
    plan = program.plan
    return RunStarted(
        program="graph",
        language=plan.language,
        plan=plan.digest,
        budget=plan.budget,
        entry=plan.entry,
        input=graph.state_type.initial(given),
        joins=plan.joins,
        merge=dict(plan.merge),
        parts=dict(plan.parts),
    )


class _GraphBelow:
    """A graph as a step of another one."""

    def __init__(self, bindings: "GraphBindings", step: StepDefinition, child: ChildGraph) -> None:
        from loom_ia.graph.compiled import program_of

        self._bindings = bindings
        self._step = step
        self._child = child
        self._program = program_of(
            child.graph,
            store=bindings.store,
            host=bindings.host,
            budget=bindings.budget,
            answers=bindings.answers,
        )

    @property
    def program(self) -> AnyProgram:
        return self._program

    @property
    def bubbles(self) -> bool:
        return self._child.on_yield == "bubble"

    async def opening(self, call: Call, caller: RunState) -> tuple[RunStarted, tuple[Payload, ...]]:
        child = self._child.graph
        child.require_valid()
        flow = caller.flow or Flow({}, {})
        line = flow.lines[path_of(call.call_id)]
        view = self._bindings.graph.state_type.view(line.values, line.extra)
        given = await self._input(view)
        return started_facts(child, self._program, given), ()

    async def _input(self, view: Any) -> Any:
        inputs = self._child.inputs
        if callable(inputs):
            return await called(inputs, view)
        seen = _as_mapping(view, self._bindings.graph)
        keys = self._child.graph.state_type.keys
        if inputs is not None:
            return {key: seen[key] for key in inputs if key in seen}
        return {key: value for key, value in seen.items() if keys is None or key in keys}

    def ended(self, child: RunState, call: Call, caller: RunState, causes: Causes) -> Done | Fault:
        if child.outcome is None:
            return self._waiting(child, call, caller)
        if not isinstance(child.outcome, Completed):
            return _failed(child, causes)
        flow = child.flow or Flow({}, {})
        try:
            delta = self._output(flow.initial, flow.main.values)
            return self._done(delta, call, caller)
        except Exception as error:  # noqa: BLE001 -- code of the user, whose fault fails the step
            return _fault_of(error)

    def _output(self, before: Values, after: Values) -> Mapping[str, Any] | None:
        outputs = self._child.outputs
        if callable(outputs):
            return outputs(self._child.graph.state_type.view(after))
        types = self._bindings.graph.state_type
        keys: Sequence[str] = (
            tuple(outputs)
            if outputs is not None
            else tuple(
                key for key in {**before, **after} if types.keys is None or key in types.keys
            )
        )
        codec = self._child.graph.state_type.codec
        return types.merges.returned(before, after, keys, codec=codec)

    def _waiting(self, child: RunState, call: Call, caller: RunState) -> Done | Fault:
        if not callable(self._child.on_yield):
            cause = errors.ChildYielded(
                "the graph {graph!r} paused, and step {step!r} traps that",
                graph=child.header.agent,
                step=self._step.name,
            )
            return Fault("StepFailed", str(cause), cause=cause)
        session = SessionState()
        session.runs[child.run_id] = child
        try:
            delta = self._child.on_yield(result_of(self._child.graph, child, session))
            return self._done(delta, call, caller)
        except Exception as error:  # noqa: BLE001 -- code of the user, whose fault fails the step
            return _fault_of(error)

    def _done(self, delta: Mapping[str, Any] | None, call: Call, caller: RunState) -> Done:
        if not delta:
            return Done()
        flow = caller.flow or Flow({}, {})
        line = flow.lines[path_of(call.call_id)]
        return Done(self._bindings.changes(line, delta))


class _AgentBelow:
    """An agent of the host as a step of a graph."""

    bubbles = True

    def __init__(self, bindings: "GraphBindings", step: StepDefinition, child: ChildAgent) -> None:
        self._bindings = bindings
        self._step = step
        self._child = child

    @property
    def program(self) -> Program:
        host = self._bindings.host
        if host is None:
            raise CallerError(
                "step {step!r} runs the agent {agent!r}, which needs a host: run the graph through "
                "a Loom",
                step=self._step.name,
                agent=self._child.agent,
            )
        return cast("Program", host.agent(self._child.agent))

    async def opening(self, call: Call, caller: RunState) -> tuple[RunStarted, tuple[Payload, ...]]:
        flow = caller.flow or Flow({}, {})
        line = flow.lines[path_of(call.call_id)]
        ask = self._child.ask
        if callable(ask):
            view = self._bindings.graph.state_type.view(line.values, line.extra)
            ask = cast("str", await called(ask, view))
        return agent_opening(self.program, ask)

    def ended(self, child: RunState, call: Call, caller: RunState, causes: Causes) -> Done | Fault:
        if not isinstance(child.outcome, Completed):
            return _failed(child, causes)
        flow = caller.flow or Flow({}, {})
        line = flow.lines[path_of(call.call_id)]
        text = child.outcome.output.as_text()
        try:
            return Done(self._bindings.changes(line, {self._child.into: text}))
        except errors.DeltaError as error:
            return _fault_of(error)


def agent_opening(program: Program, message: str) -> tuple[RunStarted, tuple[Payload, ...]]:
    """Give the first facts of a run of an agent that another run opens."""
    started = RunStarted(language=program.plan.language, plan=program.plan.digest)
    return started, (UserMessage(message=Message.text("user", storable_text(message))),)


def _failed(child: RunState, causes: Causes) -> Fault:
    cause: BaseException | None = error_of(child, causes)
    if child.flow is None or cause is None:
        outcome = child.outcome
        reason = getattr(outcome, "error", None) or "it was cancelled"
        cause = CallerError(
            "the run {run_id} of {agent!r} failed: {reason}",
            run_id=child.run_id,
            agent=child.header.agent,
            reason=reason,
        )
    if isinstance(cause, errors.BudgetExhausted):
        return Fault("BudgetExhausted", str(cause), cause=cause)
    return Fault("StepFailed", storable_text(str(cause)), cause=cause)


def _fault_of(error: Exception) -> Fault:
    if isinstance(error, errors.DeltaError):
        key = error.key_path if isinstance(error, errors.NotSerializable) else error.key or ""
        return Fault(type(error).__name__, str(error), key, error)
    return Fault("StepFailed", storable_text(str(error)), cause=error)


def _as_mapping(view: Any, graph: GraphDefinition[Any]) -> Mapping[str, Any]:
    if isinstance(view, Mapping):
        return cast("Mapping[str, Any]", view)
    return {key: getattr(view, key) for key in graph.state_type.keys or ()}
