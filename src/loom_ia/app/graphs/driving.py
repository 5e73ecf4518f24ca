"""Driving a run of a graph, and telling how it ended."""

from dataclasses import dataclass
from typing import Any

from loom_ia.app import runs
from loom_ia.app.graphs.checkpoints import Checkpoints
from loom_ia.app.graphs.keeping import Keeping, WriteFailed
from loom_ia.app.graphs.order import Order
from loom_ia.core.errors import ClaimConflict
from loom_ia.core.state.run import RunState
from loom_ia.engine.log import Pen, SessionLog
from loom_ia.engine.program import GraphProgram
from loom_ia.graph.errors import (
    CheckpointFailed,
    NotResumable,
    RunError,
    RunLocked,
)
from loom_ia.graph.results import budget_left, error_of, result_of
from loom_ia.graph.surroundings import Surroundings, not_finished
from loom_ia.graph.types import RunResult, StopReason, redrawn


@dataclass(frozen=True, slots=True)
class Manner:
    """How a caller wants to be told of the end."""

    raise_on_error: bool = True
    allow_unresumable: bool = True


async def drive(
    order: Order,
    pen: Pen,
    program: GraphProgram,
    around: Surroundings,
    manner: Manner,
    *,
    executed_before: int = 0,
) -> RunResult[Any]:
    """Drive a run until it is over or waits, and give its result.

    Raises the exception of a run that failed, carrying the result, unless it is not wanted.
    """
    run_id, desk, instance = pen.run_id, order.desk, order.instance
    failure: RunError | None = None
    kept = Checkpoints.of(order, run_id, pen.log)
    try:
        desk.driven[run_id] = instance.sit(run_id, pen.log)
        try:
            run = await runs.drive_seated(
                instance,
                pen,
                program,
                performers=kept.performers,
                causes=order.causes,
                meter=order.meter,
                token=order.token,
            )
        except WriteFailed as error:
            run = pen.log.run(run_id) or pen.run
            failure = _not_written(order, run, error)
        finally:
            desk.driven.pop(run_id, None)
            instance.leave(run_id)
            await _settle(order)
    except ClaimConflict as conflict:
        locked = locked_by(conflict)
        await around.leave(locked)
        raise locked from conflict
    except BaseException as error:
        await around.leave(error)
        raise
    finally:
        if not (instance.alone or desk.is_hosted):
            await instance.heart.stop()
    log, run = await _as_written(order, pen.log, run)
    result = _result(order, run, log, executed_before, failure)
    await kept.close(run)
    return await told(order, result, around, manner)


async def _settle(order: Order) -> None:
    journal = order.instance.journal
    if isinstance(journal, Keeping):
        await journal.settle(order.instance.clock.now())


async def _as_written(order: Order, log: SessionLog, run: RunState) -> tuple[SessionLog, RunState]:
    """Give a run as it is in the journal, where somebody else closed it before ours was written."""
    journal = order.instance.journal
    if not isinstance(journal, Keeping) or not journal.was_overtaken:
        return log, run
    order.instance.forget(log.session_id)
    return await order.instance.find(run.run_id, log.session_id)


def _result(
    order: Order, run: RunState, log: SessionLog, before: int, failure: RunError | None
) -> RunResult[Any]:
    started = run.flow.executed if run.flow else 0
    error: BaseException | None = failure or error_of(run, order.causes)
    result = result_of(
        order.graph,
        run,
        log.state,
        steps=started - before,
        error=error,
        budget_left=budget_left(run, log.state),
    )
    if failure is not None:
        result = redrawn(result, stop=StopReason.ERROR)
    if isinstance(error, RunError):
        error.result = result
    return result


async def refused_to_write(
    order: Order,
    run: RunState,
    log: SessionLog,
    error: WriteFailed,
    around: Surroundings,
    manner: Manner,
) -> RunResult[Any]:
    """Tell that what begins a drive could not be written, as `drive` tells it of what follows."""
    result = _result(order, run, log, 0, _not_written(order, run, error))
    return await told(order, redrawn(result, steps=0), around, manner)


def _not_written(order: Order, run: RunState, error: WriteFailed) -> CheckpointFailed:
    cause = error.__cause__
    step = run.flow.last_step if run.flow else ""
    failed = CheckpointFailed(
        "graph {graph!r}: a fact of run {run_id} could not be written after step {step!r}: {type}",
        graph=order.graph.name,
        run_id=run.run_id,
        step=step,
        type=type(cause).__name__,
    )
    failed.run_id, failed.graph, failed.step = run.run_id, order.graph.name, step or None
    failed.__cause__ = cause
    return failed


async def told(
    order: Order, result: RunResult[Any], around: Surroundings, manner: Manner
) -> RunResult[Any]:
    """Tell the hooks, then raise what there is to raise."""
    error = result.error if isinstance(result.error, RunError) else None
    if error is None and result.stop is StopReason.YIELDED and not manner.allow_unresumable:
        error = NotResumable(
            "graph {graph!r} paused at {step!r} without a store: nobody can go on with it; give "
            "store=, an approver, or allow_unresumable=True",
            graph=order.graph.name,
            step=result.last_step or "",
        )
        error.result, error.run_id, error.graph = result, result.run_id, order.graph.name
        error.step = result.last_step
    raised = await around.end(result)
    if raised and error is None:
        error = not_finished(result, raised)
    elif error is not None:
        error.also = (*error.also, *raised)
    if error is None:
        return result
    if manner.raise_on_error:
        raise error
    if result.error is error:
        return result
    failed = redrawn(result, error=error)
    error.result = failed
    return failed


def locked_by(conflict: ClaimConflict) -> RunLocked:
    """Tell that somebody else drives a run."""
    return RunLocked(
        "run {run_id} is driven by {worker_id} until {until}: wait for it, or take_over=True",
        run_id=conflict.run_id,
        worker_id=conflict.worker_id,
        until=conflict.lease_until.isoformat(timespec="seconds"),
    )
