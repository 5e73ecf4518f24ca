"""What a run gave: its status, its answer, what it consumed, and what it waits for."""

from datetime import datetime
from typing import Literal

from loom_ia.core.ids import CallId, RunId, SessionId
from loom_ia.core.json import JsonObject
from loom_ia.core.model.artifacts import StoredArtifact
from loom_ia.core.model.base import Value
from loom_ia.core.model.messages import Message
from loom_ia.core.model.usage import Usage
from loom_ia.core.state.calls import Call, QuestionKind
from loom_ia.core.state.run import Completed, Failed, FinalizingReason, RunState, Status


class PendingApproval(Value):
    """A call that waits for a human: what he is shown of it.

    `call_id` is what a decision gives back: the id of the call, followed by `@2` and so on when it
    was granted before. `kind` is `unknown_effect` when the call was interrupted and may have taken
    effect.
    """

    run_id: RunId
    call_id: CallId
    tool_name: str
    arguments: JsonObject
    kind: QuestionKind = "approve"
    reason: str = ""
    scope: Literal["approve"] = "approve"
    expire_at: datetime | None = None


class RunResult(Value):
    """Where a run stands and what it gave.

    `text` is the answer as plain text, empty until the run is completed; `cost_usd` is in dollars.
    `unpriced_calls` counts the calls that `cost_usd` leaves out, for no price is known of them.
    `finalizing` says why the run had to conclude, None when it did so by itself. A result may be of
    a run that is not over: then it says what was true when it was read.
    """

    run_id: RunId
    session_id: SessionId
    agent: str
    status: Status
    text: str = ""
    output: Message | None = None
    error_type: str | None = None
    error: str | None = None
    iterations: int = 0
    usage: Usage = Usage()
    cost_usd: float = 0.0
    unpriced_calls: int = 0
    finalizing: FinalizingReason | None = None
    artifacts: tuple[StoredArtifact, ...] = ()
    pending_approvals: tuple[PendingApproval, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the run is completed."""
        return self.status is Status.COMPLETED


def pending_approval(run_id: RunId, call: Call) -> PendingApproval:
    """Show a call that waits for a human."""
    question = call.question
    if question is None:
        return PendingApproval(
            run_id=run_id, call_id=call.call_id, tool_name=call.name, arguments=call.arguments
        )
    return PendingApproval(
        run_id=run_id,
        call_id=call.address,
        tool_name=call.name,
        arguments=question.arguments,
        kind=question.kind,
        reason=question.reason,
        expire_at=question.expire_at,
    )


def run_result(run: RunState) -> RunResult:
    """Give the result of a run as it is."""
    outcome = run.outcome
    output = outcome.output if isinstance(outcome, Completed) else None
    return RunResult(
        run_id=run.run_id,
        session_id=run.header.session_id,
        agent=run.header.agent,
        status=run.status,
        text=output.as_text() if output else "",
        output=output,
        error_type=outcome.error_type if isinstance(outcome, Failed) else None,
        error=outcome.error if isinstance(outcome, Failed) else None,
        iterations=run.iterations,
        usage=run.spent.usage,
        cost_usd=run.spent.cost,
        unpriced_calls=run.spent.unpriced,
        finalizing=run.finalizing,
        artifacts=run.artifacts,
        pending_approvals=tuple(pending_approval(run.run_id, call) for call in run.pending),
    )
