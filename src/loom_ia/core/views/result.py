"""What a run gave: its status, its answer, what it consumed, and what it waits for."""

from copy import deepcopy
from datetime import datetime
from typing import Literal

from pydantic import Field

from loom_ia.core.ids import CallId, RunId, SessionId
from loom_ia.core.json import JsonObject, JsonValue
from loom_ia.core.model.artifacts import StoredArtifact
from loom_ia.core.model.base import Value, sparse
from loom_ia.core.model.messages import Message
from loom_ia.core.model.policy import Verdict
from loom_ia.core.model.usage import Usage
from loom_ia.core.state.calls import QuestionKind
from loom_ia.core.state.questions import Asking, open_questions
from loom_ia.core.state.run import Completed, Failed, FinalizingReason, RunState, Status
from loom_ia.core.state.session import SessionState, state_of
from loom_ia.core.views.budget import BudgetUse, budget_uses
from loom_ia.core.views.effects import EffectRecord, effects_of
from loom_ia.core.views.notice import own_words, sentence_of


class PendingApproval(Value):
    """What waits for a human: what he is shown of it.

    `call_id` is what a decision gives back, on the id of the run at the top: the id of the call,
    followed by `@2` and so on when it was granted before; for what a step of a graph asks, and for
    what a run below asks, the id of the question. `run_id` is the run that asks. `kind` is
    `unknown_effect` when the call was interrupted and may have taken effect, and `input` when a
    step wants an answer: `payload` is what it shows, `answer_schema` what the answer must fit.
    `sentence` says what is asked in a line, in the tool's `own_words` if it has some.
    """

    run_id: RunId
    call_id: CallId
    tool_name: str
    arguments: JsonObject
    kind: QuestionKind = "approve"
    reason: str = ""
    scope: Literal["approve"] = "approve"
    expire_at: datetime | None = None
    payload: JsonValue = None
    answer_schema: JsonValue = None
    sentence: str = ""
    own_words: bool = sparse(False)


class RunResult(Value):
    """Where a run stands and what it gave.

    `text` is the answer as plain text, empty until the run is completed; `cost_usd` is in dollars.
    `unpriced_calls` counts the calls that `cost_usd` leaves out, for no price is known of them.
    `data` is the document that the schema of the answer found in it. `unverified` tells that the
    answer did not pass its checks and is given all the same, `fallback` that it is the text to be
    given in that case. `verdicts` are the marks of judges, in order. `budget` has the limits
    that stop the run, and what was spent of each. `finalizing` says why the run had to conclude,
    None when it did so by itself. `effects` are what the run, and those below it, did to the
    outside world or may have done. A result may be of a run that is not over: then it says what was
    true when it was read. `state` is the state of the session as the run sees it. `redacted` tells
    that what users, models and tools said was left out.
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
    budget: tuple[BudgetUse, ...] = ()
    finalizing: FinalizingReason | None = None
    artifacts: tuple[StoredArtifact, ...] = ()
    pending_approvals: tuple[PendingApproval, ...] = ()
    state: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    data: JsonValue = None
    unverified: bool = False
    fallback: bool = False
    verdicts: tuple[Verdict, ...] = ()
    effects: tuple[EffectRecord, ...] = ()
    redacted: bool = sparse(False)

    @property
    def ok(self) -> bool:
        """Whether the run is completed."""
        return self.status is Status.COMPLETED


def pending_question(asking: Asking, root_id: RunId) -> PendingApproval:
    """Show what waits for a human, to whoever decides on the run `root_id`."""
    run, call, inquiry, question = asking.run, asking.call, asking.inquiry, asking.question
    if inquiry is None:
        return PendingApproval(
            run_id=run.run_id,
            call_id=address_of(asking, root_id),
            tool_name=call.name,
            arguments=question.arguments if question else call.arguments,
            kind=asking.kind,
            reason=question.reason if question else "",
            expire_at=asking.expire_at,
            sentence=sentence_of(asking),
            own_words=bool(own_words(asking)),
        )
    shown = inquiry.payload if isinstance(inquiry.payload, dict) else {}
    arguments = shown.get("arguments") if inquiry.kind == "approve" else None
    return PendingApproval(
        run_id=run.run_id,
        call_id=address_of(asking, root_id),
        tool_name=inquiry.tool_name or call.name,
        arguments=arguments if isinstance(arguments, dict) else {},
        kind=inquiry.kind,
        expire_at=inquiry.expire_at,
        payload=inquiry.payload,
        answer_schema=inquiry.answer_schema,
        sentence=sentence_of(asking),
        own_words=bool(own_words(asking)),
    )


def address_of(asking: Asking, root_id: RunId) -> CallId:
    """Give the name under which a question is answered on the run `root_id`."""
    own = asking.inquiry is None and asking.run.run_id == root_id and asking.run.flow is None
    return asking.call.address if own else asking.id or asking.call.address


def run_result(run: RunState, session: SessionState | None = None) -> RunResult:
    """Give the result of a run as it is.

    With its `session`, what the runs below it consumed and ask is its own, too.
    """
    outcome = run.outcome
    spent = run.spent if session is None else session.ledger(run).spent
    runs = {run.run_id: run} if session is None else session.runs
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
        usage=spent.usage,
        cost_usd=spent.cost,
        unpriced_calls=spent.unpriced,
        budget=() if session is None else budget_uses(run, session),
        finalizing=run.finalizing,
        artifacts=run.artifacts if session is None else _files(run, session),
        data=outcome.data if isinstance(outcome, Completed) else None,
        unverified=isinstance(outcome, Completed) and outcome.unverified,
        fallback=isinstance(outcome, Completed) and outcome.fallback,
        verdicts=run.checks.verdicts,
        pending_approvals=tuple(
            pending_question(asking, run.run_id) for asking in open_questions(run, runs)
        ),
        state={} if session is None else deepcopy(state_of(session, run)),
        effects=effects_of(run, session),
    )


def _files(run: RunState, session: SessionState) -> tuple[StoredArtifact, ...]:
    """Give the files of a run, then what the tools of the runs below it made; each once."""
    files = {file.uri: file for file in run.artifacts}
    for below in session.tree(run.run_id):
        for file in below.artifacts:
            if file.origin == "tool_output":
                files.setdefault(file.uri, file)
    return tuple(files.values())
