"""The facts that end a run: status and totals appear together."""

from loom_ia.core.events.run import RunCancelled, RunCompleted, RunFailed
from loom_ia.core.model.messages import Message
from loom_ia.core.state.run import RunState


def completed(run: RunState, output: Message) -> RunCompleted:
    """End `run` with its answer."""
    return RunCompleted(
        output=output,
        iterations=run.iterations,
        usage=run.spent.usage,
        cost_usd=run.spent.cost,
    )


def failed(run: RunState, error_type: str, error: str) -> RunFailed:
    """End `run` without an answer."""
    return RunFailed(
        error_type=error_type,
        error=error,
        iterations=run.iterations,
        usage=run.spent.usage,
        cost_usd=run.spent.cost,
    )


def timed_out(run: RunState, timeout: float | None) -> RunFailed:
    """End `run` because it was driven longer than its agent allows, in seconds."""
    return failed(run, "timeout", f"the run was driven for more than {timeout:g} s")


def cancelled(run: RunState, by: str) -> RunCancelled:
    """End `run` because somebody asked for it."""
    return RunCancelled(
        by=by,
        iterations=run.iterations,
        usage=run.spent.usage,
        cost_usd=run.spent.cost,
        withdrawn=tuple(call.call_id for call in run.pending),
    )
