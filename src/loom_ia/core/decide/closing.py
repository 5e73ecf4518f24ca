"""The facts that end a run: status and totals appear together."""

from datetime import datetime, timedelta

from loom_ia.core.events.run import RunCancelled, RunCompleted, RunFailed, StepCompleted
from loom_ia.core.json import digest
from loom_ia.core.model.content import ToolOutput
from loom_ia.core.model.messages import Message
from loom_ia.core.spans import span
from loom_ia.core.state.run import RunState, Step


def completed(run: RunState, output: Message) -> RunCompleted:
    """End `run` with its answer; what a terminal call said of its own is said of the run."""
    checks = run.checks
    given = run.table[0].output if run.answer is None and len(run.table) == 1 else None
    given = given or ToolOutput()
    return RunCompleted(
        output=output,
        iterations=run.iterations,
        usage=run.spent.usage,
        cost_usd=run.spent.cost,
        state_hash=digest(dict(run.flow.main.values))[:32] if run.flow else "",
        data=given.data if checks.data is None else checks.data,
        unverified=checks.unverified or given.unverified,
        fallback=checks.fallback or given.fallback,
    )


def failed(
    run: RunState, error_type: str, error: str, *, step: str = "", key: str = ""
) -> RunFailed:
    """End `run` without an answer; `step` is the one of the graph at fault, if one is."""
    return RunFailed(
        error_type=error_type,
        error=error,
        step=step,
        key=key,
        iterations=run.iterations,
        usage=run.spent.usage,
        cost_usd=run.spent.cost,
    )


def close_step(step: Step, now: datetime) -> StepCompleted:
    """End the open step."""
    duration = max(now - step.started_at, timedelta())
    return StepCompleted(step_no=step.number, duration_ms=round(duration.total_seconds() * 1000))


def is_out_of_time(run: RunState, timeout: float | None, now: datetime) -> bool:
    """Whether `run` was driven as long as it may be; `timeout` is in seconds."""
    return timeout is not None and run.driven(now) >= span(timeout)


def timed_out(run: RunState, timeout: float | None) -> RunFailed:
    """End `run` because it was driven longer than its agent allows, in seconds."""
    return failed(run, "timeout", f"the run was driven for more than {timeout:g} s")


def cancelled(run: RunState, by: str, *, with_parent: bool = False) -> RunCancelled:
    """End `run` because somebody asked for it, or for the end of the run that opened it."""
    return RunCancelled(
        reason="parent" if with_parent else "requested",
        by=by,
        iterations=run.iterations,
        usage=run.spent.usage,
        cost_usd=run.spent.cost,
        withdrawn=tuple(call.call_id for call in run.pending),
    )
