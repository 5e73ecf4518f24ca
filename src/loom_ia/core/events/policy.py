"""What policies, contracts and judges decided."""

from typing import ClassVar, Literal, TypeAlias

from loom_ia.core.events.envelope import EventStatus, Facet, Fact, Payload, SpanRule
from loom_ia.core.ids import CallId
from loom_ia.core.json import JsonObject, JsonValue
from loom_ia.core.model.base import nullable, sparse
from loom_ia.core.model.changes import Change
from loom_ia.core.model.content import ToolOutput
from loom_ia.core.model.messages import Message
from loom_ia.core.model.policy import (
    DecisionKind,
    JudgeMark,
    PolicyPoint,
    RequestChange,
    Verdict,
)
from loom_ia.core.state import rulings
from loom_ia.core.state.calls import Hold
from loom_ia.core.state.checks import Ruling
from loom_ia.core.state.run import RunState

Resolution: TypeAlias = Literal["retry", "fail", "unverified", "fallback", "error"]
"""What follows from an output that does not pass: it is made again, the run fails, it is given and
marked, another text is given, or it becomes an error that the model reads."""
SkipReason: TypeAlias = Literal[
    "caller_skip", "other_profile", "filtered", "sampled_out", "condition_false"
]


class PolicyDecided(Payload):
    """A policy decided something else than to go on, or failed (`error`).

    `call_id` is the call that it is about, if it is about one. `arguments`, `result`, `output` and
    `request` are what it put in the place of what it looked at. `attempt` counts, from 1, how often
    it was asked for another try. With `tools`, the model may call some to make its answer again.
    """

    TYPE = "policy.decided"
    CATEGORY = "policy"
    CONTENT = ("reason", "arguments", "result", "output", "request")
    SPAN: ClassVar[SpanRule] = "call"

    policy: str
    point: PolicyPoint
    decision: DecisionKind
    reason: str = sparse("")
    call_id: CallId = sparse("")
    attempt: int = sparse(0)
    tools: bool = sparse(False)
    arguments: JsonObject | None = nullable()
    result: ToolOutput | None = nullable()
    output: Message | None = nullable()
    request: RequestChange | None = nullable()
    expires_in: float | None = nullable()
    error_type: str = sparse("")
    error: bool = sparse(False)

    @property
    def status(self) -> EventStatus:
        if self.decision is DecisionKind.FAIL:
            return "error"
        return "warning" if self.error or self.decision is DecisionKind.CONTINUE else "ok"

    def facets(self) -> dict[str, Facet]:
        return {
            "policy": self.policy,
            "point": self.point.value,
            "decision": self.decision.value,
        }

    def evolve(self, run: RunState, fact: Fact) -> RunState:
        del fact
        match self.decision:
            case DecisionKind.CONTINUE:
                return run
            case DecisionKind.REPLACE:
                return self._replaced(run)
            case DecisionKind.RETRY if self.result is not None:
                return rulings.result_replaced(run, self.call_id, self.result)
            case DecisionKind.DENY:
                return rulings.denied(run, self.call_id, self.reason)
            case DecisionKind.PAUSE:
                hold = Hold(self.policy, self.reason, self.expires_in)
                return rulings.held(run, self.call_id, hold)
            case _:
                error_type = self.error_type or f"policy.{self.policy}"
                ruling = Ruling(
                    self.policy, self.point, self.decision, self.reason, error_type, self.tools
                )
                return rulings.ruled(run, ruling)

    def _replaced(self, run: RunState) -> RunState:
        if self.arguments is not None:
            return rulings.arguments_replaced(run, self.call_id, self.arguments, self.policy)
        if self.result is not None:
            return rulings.result_replaced(run, self.call_id, self.result)
        if self.output is not None:
            return rulings.answer_replaced(run, self.output)
        return run if self.request is None else rulings.request_changed(run, self.request)


class PolicyReviewed(Payload):
    """Everybody who was asked at a point let its subject pass.

    `subject` is the id of a call, or the number of the model's turn; with `at_launch` a call was
    looked at again, once a human let it go. Of a graph, the point is before or after a step, the
    first `passed` hooks let it pass, `line` is its path, `changes` are what they did to the state,
    and `stopped` tells that one of them ends the run here.
    """

    TYPE = "policy.reviewed"
    CATEGORY = "policy"
    CONTENT = ("changes",)
    SPAN: ClassVar[SpanRule] = "call"

    point: PolicyPoint | Literal["before_step", "after_step"]
    subject: str
    at_launch: bool = sparse(False)
    line: str = sparse("")
    passed: int = sparse(0)
    changes: tuple[Change, ...] = sparse(())
    stopped: bool = sparse(False)

    @property
    def call_id(self) -> CallId:
        """The call that was looked at, if it was one."""
        return self.subject

    def facets(self) -> dict[str, Facet]:
        facets: dict[str, Facet] = {"point": str(self.point)}
        if self.passed:
            facets["passed"] = self.passed
        return facets

    def evolve(self, run: RunState, fact: Fact) -> RunState:
        del fact
        if isinstance(self.point, PolicyPoint):
            return rulings.passed(run, self.point, self.subject, at_launch=self.at_launch)
        if run.flow is None:
            return run
        flow = run.flow.reviewed(self.line, self.passed, self.changes)
        return run.but(flow=flow.but(stopped=flow.stopped or self.stopped))


class GuardChecked(Payload):
    """A contract or a judge looked at an output, or did not and says why (`skipped`).

    `target` is `output`, or `tool:<name>`. `reason` is the diagnostic, or why a judge was skipped.
    `resolution` is what follows when the output failed. `normalized` tells that it was cleaned
    without a model. `data` is the document that a schema found in it.
    """

    TYPE = "guard.checked"
    CATEGORY = "guard"
    CONTENT = ("reason", "data")
    SPAN: ClassVar[SpanRule] = "call"

    guard: Literal["contract", "judge", "grounded"]
    policy: str
    target: str = "output"
    outcome: Literal["passed", "failed", "skipped"]
    reason: str = sparse("")
    attempt: int = sparse(0)
    normalized: bool = sparse(False)
    resolution: Resolution | None = sparse(None)
    call_id: CallId = sparse("")
    data: JsonValue = nullable()

    @property
    def status(self) -> EventStatus:
        if self.outcome != "failed":
            return "ok"
        return "error" if self.resolution == "fail" else "warning"

    def facets(self) -> dict[str, Facet]:
        return {"guard": self.guard, "target": self.target, "outcome": self.outcome}

    def evolve(self, run: RunState, fact: Fact) -> RunState:
        del fact
        if self.call_id:
            return run
        return rulings.guarded(
            run,
            self.policy,
            data=self.data,
            unverified=self.resolution == "unverified",
            fallback=self.resolution == "fallback",
        )


class JudgeEvaluated(Payload):
    """A judge gave an output marks. `blocked` tells that a blocking criterion is not met."""

    TYPE = "judge.evaluated"
    CATEGORY = "guard"
    CONTENT = ("criteria.reason",)

    judge: str
    policy: str
    target: str = "output"
    model: str
    model_id: str
    criteria: tuple[JudgeMark, ...]
    passed: bool
    blocked: bool
    attempt: int = sparse(0)

    @property
    def status(self) -> EventStatus:
        return "ok" if self.passed else "warning"

    def facets(self) -> dict[str, Facet]:
        return {
            "judge": self.judge,
            "target": self.target,
            "model": self.model,
            "model_id": self.model_id,
            "passed": self.passed,
            "blocked": self.blocked,
        }

    def evolve(self, run: RunState, fact: Fact) -> RunState:
        del fact
        return rulings.judged(
            run,
            Verdict(
                judge=self.judge,
                target=self.target,
                criteria=self.criteria,
                passed=self.passed,
                blocked=self.blocked,
                attempt=self.attempt or 1,
            ),
        )
