"""What humans are asked and what they decide.

A request shows the exact arguments that would run; `digest` binds the decision to them.
"""

from datetime import datetime
from typing import ClassVar, Literal

from loom_ia.core.events.envelope import EventStatus, Facet, Fact, Payload, SpanRule
from loom_ia.core.ids import CallId, EventId
from loom_ia.core.json import JsonObject, JsonValue
from loom_ia.core.model.base import nullable, sparse
from loom_ia.core.model.changes import Change
from loom_ia.core.model.tooling import ExpiryAction, SideEffects
from loom_ia.core.state import acting, steps
from loom_ia.core.state.calls import (
    AskedAt,
    Expired,
    Granted,
    Inquiry,
    Question,
    QuestionKind,
    Rejected,
)
from loom_ia.core.state.run import RunState


class ApprovalRequested(Payload):
    """A call waits for a human.

    `kind` is `unknown_effect` when the call was interrupted and may have taken effect. After
    `expire_at`, when there is one, the agent's setting decides. `policy` names the policy
    that wants it, for `reason`. `side_effects` says what the call may do to the outside world, if
    anything.

    What a step of a graph asks has a `key`, and the id of this event names it. `asked` tells where:
    inside the step, at its end (`mid`: it runs again once answered, `after`: it does not), or in a
    hook. `payload` is what it shows, `answer_schema` what the answer must fit, `into` where the
    answer goes in the state; `changes` are made at once. A tool that a step wants to call is named
    by `tool` and `tool_call_id`. `starts` counts how often the effect `key` had been started.
    `notice` is the sentence that the tool says of the call to the person who decides.
    """

    TYPE = "approval.requested"
    CATEGORY = "approval"
    CONTENT = ("arguments", "reason", "payload", "changes", "notice")
    SPAN: ClassVar[SpanRule] = "call"

    call_id: CallId
    tool_name: str
    arguments: JsonObject = sparse({})
    digest: str = sparse("")
    kind: QuestionKind = "approve"
    reason: str = sparse("")
    policy: str = sparse("")
    scope: Literal["approve"] = "approve"
    expire_at: datetime | None = sparse(None)
    asked: AskedAt | None = sparse(None)
    key: str = sparse("")
    payload: JsonValue = nullable()
    answer_schema: JsonValue = nullable()
    into: str = sparse("")
    changes: tuple[Change, ...] = sparse(())
    tool: str = sparse("")
    tool_call_id: str = sparse("")
    position: int = sparse(0)
    starts: int = sparse(0)
    side_effects: SideEffects | None = sparse(None)
    notice: str = sparse("")

    @property
    def status(self) -> EventStatus:
        return "warning"

    def facets(self) -> dict[str, Facet]:
        return {"tool_name": self.tool_name, "scope": self.scope}

    def evolve(self, run: RunState, fact: Fact) -> RunState:
        if self.asked is not None:
            return steps.inquired(
                run, self.call_id, self.tool_name, self._inquiry(fact), self.changes
            )
        call = run.call(self.call_id)
        question = Question(
            kind=self.kind,
            digest=self.digest,
            arguments=self.arguments,
            reason=self.reason,
            asked_at=fact.ts,
            expire_at=self.expire_at,
            launches=call.launches if call else 0,
            id=fact.event_id,
            notice=self.notice,
        )
        run = run.asked(self.call_id, question)
        return acting.planned(run, self.call_id, self.tool_name, self.side_effects, fact.ts)

    def _inquiry(self, fact: Fact) -> Inquiry:
        return Inquiry(
            id=fact.event_id,
            key=self.key,
            kind=self.kind,
            asked=self.asked or "inside",
            payload=self.payload,
            answer_schema=self.answer_schema,
            asked_at=fact.ts,
            expire_at=self.expire_at,
            into=self.into,
            tool_name=self.tool,
            tool_call_id=self.tool_call_id,
            position=self.position,
            starts=self.starts,
        )


class ApprovalGranted(Payload):
    """Somebody said yes to the call whose `digest` was shown, maybe with other arguments.

    Or he answered what a step asked: `question` is the id of the request, `answer` what he said;
    `merged` tells that it was an input that has its place in the state already.
    """

    TYPE = "approval.granted"
    CATEGORY = "approval"
    CONTENT = ("arguments", "reason", "answer")
    BY_DRIVER = False
    SPAN: ClassVar[SpanRule] = "call"

    call_id: CallId
    tool_name: str
    digest: str = sparse("")
    by: str
    reason: str = sparse("")
    arguments: JsonObject | None = nullable()
    question: EventId = sparse("")
    answer: JsonValue = nullable()
    merged: bool = sparse(False)

    def facets(self) -> dict[str, Facet]:
        return {"tool_name": self.tool_name, "by": self.by}

    def evolve(self, run: RunState, fact: Fact) -> RunState:
        if self.question:
            return steps.told(run, self.call_id, self.question, self.answer, put=not self.merged)
        verdict = Granted(self.by, fact.ts)
        run = run.granted(self.call_id, verdict, self.digest, self.arguments)
        return acting.decided(run, self.call_id, fact.ts)


class ApprovalRejected(Payload):
    """Somebody said no; the model, or the step that asked `question`, reads the reason."""

    TYPE = "approval.rejected"
    CATEGORY = "approval"
    CONTENT = ("reason",)
    BY_DRIVER = False
    SPAN: ClassVar[SpanRule] = "call"

    call_id: CallId
    tool_name: str
    by: str
    reason: str = sparse("")
    question: EventId = sparse("")

    @property
    def status(self) -> EventStatus:
        return "warning"

    def facets(self) -> dict[str, Facet]:
        return {"tool_name": self.tool_name, "by": self.by}

    def evolve(self, run: RunState, fact: Fact) -> RunState:
        if self.question:
            answer: JsonObject = {"approved": False, "reason": self.reason}
            return steps.told(run, self.call_id, self.question, answer, put=True)
        run = run.turned_down(self.call_id, Rejected(self.by, fact.ts, self.reason))
        return acting.decided(run, self.call_id, fact.ts)


class ApprovalExpired(Payload):
    """Nobody answered in time: the call is denied, or the run fails."""

    TYPE = "approval.expired"
    CATEGORY = "approval"
    SPAN: ClassVar[SpanRule] = "call"

    call_id: CallId
    tool_name: str
    action: ExpiryAction
    expire_at: datetime

    @property
    def status(self) -> EventStatus:
        return "warning"

    def facets(self) -> dict[str, Facet]:
        return {"tool_name": self.tool_name, "action": self.action}

    def evolve(self, run: RunState, fact: Fact) -> RunState:
        run = run.turned_down(self.call_id, Expired(self.action, fact.ts))
        return acting.decided(run, self.call_id, fact.ts)


class ApprovalNotified(Payload):
    """A person was told that a call waits for him, or nobody could be: the last word of a target.

    `request` is the id of the event that asked, `delivery_id` what was sent with every attempt. The
    attempts may have taken place in several processes; `attempts` counts those of the last one.
    """

    TYPE = "approval.notified"
    CATEGORY = "approval"
    CONTENT = ("error",)
    BY_DRIVER = False
    SPAN: ClassVar[SpanRule] = "call"

    call_id: CallId
    request: EventId
    target: str
    delivery_id: str
    attempts: int = 1
    outcome: Literal["sent", "failed"] = "sent"
    error: str = sparse("")

    @property
    def status(self) -> EventStatus:
        return "ok" if self.outcome == "sent" else "warning"

    def facets(self) -> dict[str, Facet]:
        return {"target": self.target, "outcome": self.outcome}

    def evolve(self, run: RunState, fact: Fact) -> RunState:
        return run.noticed(self.call_id, self.request, self.target)
