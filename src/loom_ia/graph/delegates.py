"""How a graph opens runs below its own: a child graph, or an agent of the host.

What comes back of a child is a change: what was added to a list, the difference of a number, the
value otherwise, so that nothing that it was given comes back twice.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

from loom_ia.core.errors import CallerError
from loom_ia.core.events.envelope import Payload
from loom_ia.core.events.run import RunStarted
from loom_ia.core.ids import RunId
from loom_ia.core.json import storable_text
from loom_ia.core.model.changes import Values
from loom_ia.core.state.calls import Call
from loom_ia.core.state.flow import Flow, path_of
from loom_ia.core.state.run import BUDGET_FAILURE, Completed, RunState
from loom_ia.core.state.session import SessionState
from loom_ia.engine.opening import agent_opening
from loom_ia.engine.program import (
    AnyProgram,
    Caller,
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
from loom_ia.graph.run_below import RunsBelow
from loom_ia.graph.running import called
from loom_ia.graph.step_definition import StepDefinition

if TYPE_CHECKING:
    from loom_ia.graph.bindings import GraphBindings

Causes = Mapping[tuple[RunId, str], BaseException]

MAX_DEPTH: Final = 50
"""How many graphs may stand below one another: each takes of the stack of the interpreter."""


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
        session_budget=plan.session_budget,
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
        self._runs = RunsBelow(child.graph)

    @property
    def program(self) -> AnyProgram:
        return self._program

    @property
    def bubbles(self) -> bool:
        return self._child.on_yield == "bubble"

    async def opening(self, call: Call, caller: Caller) -> tuple[RunStarted, tuple[Payload, ...]]:
        child = self._child.graph
        if caller.run.header.depth >= MAX_DEPTH:
            raise errors.InvalidGraph(
                "graph {graph!r} would be run {depth} graphs below the first one, and {most} is "
                "the most: end what calls itself earlier, or write it as a loop of steps",
                graph=child.name,
                depth=caller.run.header.depth + 1,
                most=MAX_DEPTH,
            )
        child.require_valid()
        flow = caller.run.flow or Flow({}, {})
        line = flow.lines[path_of(call.call_id)]
        view = self._bindings.graph.state_type.view(line.values, line.extra)
        started = started_facts(child, self._program, await self._input(view))
        await self._runs.begin(f"{caller.run.run_id}/{call.call_id}", started.input)
        return started, ()

    async def driven(
        self,
        child: RunState,
        call: Call,
        drive: Callable[[], Awaitable[RunState]],
        state: SessionState,
        causes: Causes,
    ) -> RunState | Fault:
        """Drive the child inside the hooks of its own graph."""

        async def in_time() -> RunState:
            return await _within_time(drive, self._step)

        try:
            return await self._runs.drive(child, in_time, state, causes)
        except _TimeLimit as late:
            return _tried_again(late.fault, self._step, call)
        except errors.HookAborted as error:
            return _fault_of(error)

    async def _input(self, view: Any) -> Any:
        inputs = self._child.inputs
        if callable(inputs):
            return await called(inputs, view)
        seen = _as_mapping(view, self._bindings.graph)
        keys = self._child.graph.state_type.keys
        if inputs is not None:
            return {key: seen[key] for key in inputs if key in seen}
        return {key: value for key, value in seen.items() if keys is None or key in keys}

    def ended(
        self,
        child: RunState,
        call: Call,
        caller: RunState,
        state: SessionState,
        causes: Causes,
    ) -> Done | Fault:
        if child.outcome is None:
            return self._waiting(child, call, caller, state)
        if not isinstance(child.outcome, Completed):
            error = self._runs.failure(child.run_id)
            return _tried_again(_failed(child, causes, error), self._step, call)
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

    def _waiting(
        self, child: RunState, call: Call, caller: RunState, state: SessionState
    ) -> Done | Fault:
        if not callable(self._child.on_yield):
            cause = errors.ChildYielded(
                "the graph {graph!r} paused, and step {step!r} traps that",
                graph=child.header.agent,
                step=self._step.name,
            )
            return Fault("StepFailed", str(cause), cause=cause)
        try:
            delta = self._child.on_yield(result_of(self._child.graph, child, state))
            return self._done(delta, call, caller)
        except Exception as error:  # noqa: BLE001 -- code of the user, whose fault fails the step
            return _fault_of(error)

    def _done(self, given: Any, call: Call, caller: RunState) -> Done:
        if given is not None and not isinstance(given, Mapping):
            raise errors.DeltaError(
                "the graph {graph} as a step gave a value of type {type}: outputs= and on_yield="
                " give a mapping of what changes, or None",
                graph=self._child.graph.name,
                type=type(given).__name__,
            )
        delta = cast("Mapping[str, Any]", given)
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

    async def driven(
        self,
        child: RunState,
        call: Call,
        drive: Callable[[], Awaitable[RunState]],
        state: SessionState,
        causes: Causes,
    ) -> RunState | Fault:
        del child, state, causes
        try:
            return await _within_time(drive, self._step)
        except _TimeLimit as late:
            return _tried_again(late.fault, self._step, call)

    async def opening(self, call: Call, caller: Caller) -> tuple[RunStarted, tuple[Payload, ...]]:
        flow = caller.run.flow or Flow({}, {})
        line = flow.lines[path_of(call.call_id)]
        ask = self._child.ask
        if callable(ask):
            view = self._bindings.graph.state_type.view(line.values, line.extra)
            ask = cast("str", await called(ask, view))
        return agent_opening(self.program, ask)

    def ended(
        self,
        child: RunState,
        call: Call,
        caller: RunState,
        state: SessionState,
        causes: Causes,
    ) -> Done | Fault:
        del state
        if not isinstance(child.outcome, Completed):
            return _tried_again(_failed(child, causes), self._step, call)
        flow = caller.flow or Flow({}, {})
        line = flow.lines[path_of(call.call_id)]
        text = child.outcome.output.as_text()
        try:
            return Done(self._bindings.changes(line, {self._child.into: text}))
        except errors.DeltaError as error:
            return _fault_of(error)


class _TimeLimit(Exception):
    """A run below was cut for the time of its step; it is open still."""

    def __init__(self, step: StepDefinition) -> None:
        super().__init__(f"the step took more than {step.timeout:g} s")
        cause = TimeoutError(str(self))
        self.fault = Fault("StepFailed", str(self), cause=cause)


async def _within_time(drive: Callable[[], Awaitable[RunState]], step: StepDefinition) -> RunState:
    """Drive a run below for as long as its step may take; raises `_TimeLimit` after that."""
    limit = asyncio.timeout(step.timeout)
    try:
        async with limit:
            return await drive()
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise _TimeLimit(step) from error


def _tried_again(fault: Fault, step: StepDefinition, call: Call) -> Fault:
    """Let a step whose run below failed be tried again, if its author said so."""
    if fault.error != "StepFailed" or fault.cause is None:
        return fault
    causes = [fault.cause, fault.cause.__cause__]
    waits = [step.retry_in(cause, call.attempt) for cause in causes if cause is not None]
    return replace(fault, retry_in=next((wait for wait in waits if wait is not None), None))


def _failed(child: RunState, causes: Causes, error: errors.RunError | None = None) -> Fault:
    cause: BaseException | None = error or error_of(child, causes)
    if child.flow is None or cause is None:
        outcome = child.outcome
        reason = getattr(outcome, "error", None) or "it was cancelled"
        if getattr(outcome, "error_type", "") == BUDGET_FAILURE:
            return Fault("BudgetExhausted", storable_text(reason))
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
