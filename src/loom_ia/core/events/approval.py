"""What humans are asked and what they decide.

A request shows the exact arguments that would run; `digest` binds the decision to them.
"""

from datetime import datetime
from typing import ClassVar, Literal

from pydantic import Field

from loom_ia.core.events.envelope import EventStatus, Facet, Fact, Payload, SpanRule
from loom_ia.core.ids import CallId
from loom_ia.core.json import JsonObject
from loom_ia.core.model.base import sparse
from loom_ia.core.model.tooling import ExpiryAction
from loom_ia.core.state.calls import (
    Expired,
    Granted,
    Question,
    QuestionKind,
    Rejected,
)
from loom_ia.core.state.run import RunState


def _is_none(value: object) -> bool:
    return value is None


class ApprovalRequested(Payload):
    """A call waits for a human.

    `kind` is `unknown_effect` when the call was interrupted and may have taken effect. After
    `expire_at`, when there is one, the agent's setting decides.
    """

    TYPE = "approval.requested"
    CATEGORY = "approval"
    CONTENT = ("arguments", "reason")
    SPAN: ClassVar[SpanRule] = "call"

    call_id: CallId
    tool_name: str
    arguments: JsonObject
    digest: str
    kind: QuestionKind = "approve"
    reason: str = sparse("")
    scope: Literal["approve"] = "approve"
    expire_at: datetime | None = sparse(None)

    @property
    def status(self) -> EventStatus:
        return "warning"

    def facets(self) -> dict[str, Facet]:
        return {"tool_name": self.tool_name, "scope": self.scope}

    def evolve(self, run: RunState, fact: Fact) -> RunState:
        call = run.call(self.call_id)
        question = Question(
            kind=self.kind,
            digest=self.digest,
            arguments=self.arguments,
            reason=self.reason,
            asked_at=fact.ts,
            expire_at=self.expire_at,
            launches=call.launches if call else 0,
        )
        return run.asked(self.call_id, question)


class ApprovalGranted(Payload):
    """Somebody said yes to the call whose `digest` was shown, maybe with other arguments."""

    TYPE = "approval.granted"
    CATEGORY = "approval"
    CONTENT = ("arguments", "reason")
    BY_DRIVER = False
    SPAN: ClassVar[SpanRule] = "call"

    call_id: CallId
    tool_name: str
    digest: str
    by: str
    reason: str = sparse("")
    arguments: JsonObject | None = Field(None, exclude_if=_is_none)

    def facets(self) -> dict[str, Facet]:
        return {"tool_name": self.tool_name, "by": self.by}

    def evolve(self, run: RunState, fact: Fact) -> RunState:
        verdict = Granted(self.by, fact.ts)
        return run.granted(self.call_id, verdict, self.digest, self.arguments)


class ApprovalRejected(Payload):
    """Somebody said no; the model reads the reason."""

    TYPE = "approval.rejected"
    CATEGORY = "approval"
    CONTENT = ("reason",)
    BY_DRIVER = False
    SPAN: ClassVar[SpanRule] = "call"

    call_id: CallId
    tool_name: str
    by: str
    reason: str = sparse("")

    @property
    def status(self) -> EventStatus:
        return "warning"

    def facets(self) -> dict[str, Facet]:
        return {"tool_name": self.tool_name, "by": self.by}

    def evolve(self, run: RunState, fact: Fact) -> RunState:
        return run.turned_down(self.call_id, Rejected(self.by, fact.ts, self.reason))


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
        return run.turned_down(self.call_id, Expired(self.action, fact.ts))
