"""What a run gave, as its caller reads it: the result, and the exception of a failure."""

from collections.abc import Mapping
from typing import Any, Final

from loom_ia.core.ids import RunId
from loom_ia.core.json import JsonObject
from loom_ia.core.model.usage import Usage
from loom_ia.core.state.flow import Flow
from loom_ia.core.state.questions import DECISION, Asking, open_questions
from loom_ia.core.state.run import GRAPH_FAILURE, Cancelled, Completed, Failed, RunState
from loom_ia.core.state.session import SessionState
from loom_ia.graph import errors
from loom_ia.graph.codec import Codec
from loom_ia.graph.definition import GraphDefinition
from loom_ia.graph.errors import RunError
from loom_ia.graph.running import EFFECT_QUESTION
from loom_ia.graph.types import Interrupt, RunResult, StopReason
from loom_ia.graph.visits import visits_of

Causes = Mapping[tuple[RunId, str], BaseException]

STOPS: Final[Mapping[str, StopReason]] = {
    "Blocked": StopReason.BLOCKED,
    "BudgetExhausted": StopReason.BUDGET,
    "HookAborted": StopReason.HOOK_ABORT,
    "MaxIterationsExceeded": StopReason.MAX_ITERATIONS,
    "RunTimeout": StopReason.TIMEOUT,
}
"""Why a run stopped, by the name of its failure; any other is an error."""


def interrupt_of(asking: Asking, runs: Mapping[RunId, RunState], codec: Codec) -> Interrupt:
    """Show a question."""
    run, call, inquiry, question = asking.run, asking.call, asking.inquiry, asking.question
    path = (*_path(run, runs), call.name)
    if inquiry is not None:
        return Interrupt(
            id=inquiry.id,
            kind=inquiry.kind,
            payload=codec.from_json(inquiry.payload),
            key=inquiry.key.removeprefix(
                EFFECT_QUESTION if inquiry.kind == "unknown_effect" else ""
            ),
            step=call.name,
            occurrence=call.occurrence,
            run_id=run.run_id,
            graph=run.header.agent,
            path=path,
            schema=asking.schema,
            expires_at=inquiry.expire_at,
            tool=inquiry.tool_name or None,
            call_id=inquiry.tool_call_id or None,
        )
    is_tool = run.flow is None
    payload: JsonObject = {"step": call.name, "effect": ""}
    if is_tool:
        payload = {"tool": call.name, "arguments": question.arguments if question else {}}
    return Interrupt(
        id=asking.id,
        kind=question.kind if question else "approve",
        payload=payload,
        key=call.call_id,
        step=path[-2] if is_tool and len(path) > 1 else call.name,
        occurrence=call.occurrence,
        run_id=run.run_id,
        graph=run.header.agent,
        path=path[:-1] if is_tool else path,
        schema=DECISION,
        expires_at=question.expire_at if question else None,
        tool=call.name if is_tool else None,
        call_id=call.call_id if is_tool else None,
    )


def _path(run: RunState, runs: Mapping[RunId, RunState]) -> tuple[str, ...]:
    parent = runs.get(run.header.parent_run_id or "")
    if parent is None:
        return ()
    call = run.header.parent_call_id
    return (*_path(parent, runs), call.split("/")[-2] if "/" in call else call)


def stop_of(run: RunState, runs: Mapping[RunId, RunState]) -> StopReason | None:
    """Tell why a run stopped; None while nothing keeps it from going on."""
    match run.outcome:
        case Completed():
            return StopReason.COMPLETED
        case Cancelled():
            return StopReason.CANCELLED
        case Failed() as failed:
            return STOPS.get(failed.error_type.removeprefix(GRAPH_FAILURE), StopReason.ERROR)
        case None:
            asks = next(open_questions(run, runs), None)
            return None if asks is None else StopReason.YIELDED


def result_of(
    graph: GraphDefinition[Any],
    run: RunState,
    state: SessionState,
    *,
    steps: int = 0,
    error: BaseException | None = None,
    budget_left: int | None = None,
) -> RunResult[Any]:
    """Give the result of a run as it is; `steps` are those that this call executed."""
    runs = state.runs
    flow = run.flow or Flow({}, {})
    types = graph.state_type
    failed = run.outcome if isinstance(run.outcome, Failed) else None
    stop = stop_of(run, runs) or StopReason.ERROR
    name = failed.error_type.removeprefix(GRAPH_FAILURE) if failed else ""
    values: Any = types.result(flow.main.values) if run.flow else {}
    return RunResult(
        run_id=run.run_id,
        graph=run.header.agent,
        state=values,
        stop=stop,
        last_step=flow.last_step or None,
        steps=steps,
        total_steps=flow.started,
        interrupts=tuple(
            interrupt_of(asking, runs, types.codec) for asking in open_questions(run, runs)
        ),
        error=error,
        failed_step=(failed.step or None) if failed and name not in _NO_STEP else None,
        blocked=failed.error if failed and stop is StopReason.BLOCKED else None,
        usage=usage_of(run, state),
        budget_left=budget_left,
        parent=run.header.origin,
    ).drawn_with(visits_of(run))


_NO_STEP: Final = frozenset({"MaxIterationsExceeded", "BudgetExhausted", "RunTimeout"})


def budget_left(run: RunState, state: SessionState) -> int | None:
    """Give how many steps the run and those below it may still start; None for no limit."""
    budget = run.header.budget
    if budget is None or budget.max_steps is None:
        return None
    return max(budget.max_steps - state.ledger(run).steps, 0)


def usage_of(run: RunState, state: SessionState) -> Usage | None:
    """Sum what a run and those below it consumed, None when nothing was."""
    spent = state.ledger(run).spent
    usage = spent.usage
    if spent.cost and not usage.cost_usd:
        usage = usage.model_copy(update={"cost_usd": spent.cost})
    return None if usage == Usage() else usage


def error_of(run: RunState, causes: Causes) -> RunError | None:
    """Give the exception that says why a run failed; None for one that did not."""
    failed = run.outcome
    if not isinstance(failed, Failed):
        return None
    name = failed.error_type.removeprefix(GRAPH_FAILURE)
    kind = getattr(errors, name, None)
    error_class: type[RunError] = errors.StepFailed
    if isinstance(kind, type) and issubclass(kind, RunError):
        error_class = kind
    cause = causes.get((run.run_id, failed.step))
    if isinstance(cause, error_class) and not isinstance(cause, errors.StepFailed):
        error: RunError = cause
    else:
        unseen = error_class is errors.UnknownEffect and not failed.key
        error = error_class(
            _UNSEEN if unseen else _TEMPLATES.get(name, "graph {graph!r}, step {step!r}: {reason}"),
            graph=run.header.agent,
            step=failed.step,
            reason=failed.error,
            run_id=run.run_id,
        )
        error.__cause__ = cause
    error.run_id, error.graph, error.step = run.run_id, run.header.agent, failed.step or None
    match error:
        case errors.Blocked():
            error.reason = failed.error
        case errors.UnknownEffect():
            error.key = failed.key or None
        case errors.NotSerializable():
            error.key_path = failed.key
        case errors.StepNotFound():
            error.step = failed.key or failed.step
        case errors.DeltaError() if not error.key:
            error.key = failed.key or None
        case _:
            pass
    return error


_UNSEEN: Final = (
    "graph {graph!r}: step {step!r} was interrupted, and it is not known whether it acted, so that "
    "it is not run again; find out, then go on in a new run, or declare the step idempotent, or "
    "on_unknown='pause' to be asked"
)
_TEMPLATES: Final[Mapping[str, str]] = {
    "Blocked": "graph {graph!r} was blocked at step {step!r}: {reason}",
    "MaxIterationsExceeded": "graph {graph!r} exceeded max iterations before {step!r}: {reason}",
    "BudgetExhausted": "graph {graph!r} has its budget exhausted before {step!r}: {reason}",
    "RunTimeout": "graph {graph!r} took too long: {reason}",
    "HookAborted": "a hook of graph {graph!r} at step {step!r}: {reason}",
    "RouteError": "graph {graph!r}: {reason}",
    "StepNotFound": "graph {graph!r}: {reason}",
}
