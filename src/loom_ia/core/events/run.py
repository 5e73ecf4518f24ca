"""The life of a run: opened, driven step by step, closed, reopened."""

from datetime import datetime, timedelta
from typing import ClassVar, Literal

from pydantic import Field

from loom_ia.core.events.envelope import EventStatus, Facet, Fact, Payload, SpanRule
from loom_ia.core.ids import CallId, RunId
from loom_ia.core.model.base import sparse
from loom_ia.core.model.caller import CallerContext
from loom_ia.core.model.messages import Message
from loom_ia.core.model.usage import Usage
from loom_ia.core.prompts import Language
from loom_ia.core.state.run import (
    Cancelled,
    Completed,
    Failed,
    FinalizingReason,
    Header,
    Lease,
    RunState,
    StepEffect,
)


class RunStarted(Payload):
    """A run begins. `plan` is the digest of what the agent was at that moment."""

    TYPE = "run.started"
    CATEGORY = "run"
    CONTENT = ("context.metadata",)

    kind: Literal["normal"] = "normal"
    program: Literal["agent"] = "agent"
    language: Language = "en"
    plan: str = sparse("")
    context: CallerContext = Field(
        default_factory=CallerContext, exclude_if=lambda c: not c.model_fields_set
    )
    parent_run_id: RunId | None = sparse(None)
    parent_call_id: CallId | None = sparse(None)
    depth: int = sparse(0)

    def facets(self) -> dict[str, Facet]:
        return {"kind": self.kind}

    def begin(self, fact: Fact) -> RunState:
        """Give the state of a run that has just begun."""
        return RunState(
            header=Header(
                run_id=fact.run_id,
                tenant_id=fact.tenant_id,
                session_id=fact.session_id,
                root_run_id=fact.root_run_id,
                agent=fact.agent,
                language=self.language,
                context=self.context,
                parent_run_id=self.parent_run_id,
                depth=self.depth,
                started_at=fact.ts,
            )
        )

    def evolve(self, run: RunState, fact: Fact) -> RunState:
        del fact
        return run  # a run begins once


class RunClaimed(Payload):
    """A driver takes the wheel, keeps it (`renewal`), or hands it back (`lease_until` is now).

    `lock` names an operating-system lock that the driver holds while it lives: when the lock is
    free, the driver is dead whatever the lease says.
    """

    TYPE = "run.claimed"
    CATEGORY = "run"

    worker_id: str
    lease_until: datetime
    lock: str = sparse("")
    renewal: bool = sparse(False)

    def facets(self) -> dict[str, Facet]:
        return {"worker_id": self.worker_id}

    def evolve(self, run: RunState, fact: Fact) -> RunState:
        lease = Lease(self.worker_id, self.lease_until, self.lease_until - fact.ts, self.lock)
        return run.claimed(lease, fact.ts, renewal=self.renewal)


class StepStarted(Payload):
    """An effect is about to happen: a model call, or a batch of tool calls."""

    TYPE = "step.started"
    CATEGORY = "run"
    SPAN: ClassVar[SpanRule] = "own"

    step_no: int
    effect: StepEffect

    def facets(self) -> dict[str, Facet]:
        return {"effect": self.effect}

    def evolve(self, run: RunState, fact: Fact) -> RunState:
        return run.step_started(self.step_no, self.effect, fact.span_id, fact.ts)


class StepCompleted(Payload):
    """The effect of the open step is over. `duration_ms` counts the time that was driven."""

    TYPE = "step.completed"
    CATEGORY = "run"
    SPAN: ClassVar[SpanRule] = "step"

    step_no: int
    duration_ms: int = sparse(0)
    outcome: Literal["error"] | None = sparse(None)

    @property
    def status(self) -> EventStatus:
        return "error" if self.outcome == "error" else "ok"

    def facets(self) -> dict[str, Facet]:
        return {"outcome": self.outcome or "ok", "duration_ms": self.duration_ms}

    def evolve(self, run: RunState, fact: Fact) -> RunState:
        return run.step_completed(timedelta(milliseconds=self.duration_ms), fact.ts)


class RunFinalizing(Payload):
    """The run must conclude: one last answer, without tools."""

    TYPE = "run.finalizing"
    CATEGORY = "run"

    reason: FinalizingReason

    @property
    def status(self) -> EventStatus:
        return "warning"

    def facets(self) -> dict[str, Facet]:
        return {"reason": self.reason}

    def evolve(self, run: RunState, fact: Fact) -> RunState:
        del fact
        return run.finalized(self.reason)


class RunCompleted(Payload):
    """The run ended with an answer. `usage` and `cost_usd` (dollars) are its totals."""

    TYPE = "run.completed"
    CATEGORY = "run"
    CONTENT = ("output",)

    output: Message
    iterations: int
    usage: Usage = Usage()
    cost_usd: float = sparse(0.0)

    def facets(self) -> dict[str, Facet]:
        return {"iterations": self.iterations, "cost_usd": self.cost_usd}

    def evolve(self, run: RunState, fact: Fact) -> RunState:
        return run.closed(Completed(self.output), fact.ts)


class RunFailed(Payload):
    """The run ended without an answer.

    `error_type` is `model.<kind>`, `timeout`, `approval.expired`, `Interrupted` or the name of an
    exception class.
    """

    TYPE = "run.failed"
    CATEGORY = "run"
    CONTENT = ("error",)

    error_type: str
    error: str
    iterations: int
    usage: Usage = Usage()
    cost_usd: float = sparse(0.0)

    @property
    def status(self) -> EventStatus:
        return "error"

    def facets(self) -> dict[str, Facet]:
        return {"error_type": self.error_type}

    def evolve(self, run: RunState, fact: Fact) -> RunState:
        return run.closed(Failed(self.error_type, self.error), fact.ts)


class RunCancelled(Payload):
    """Somebody stopped the run. `withdrawn` lists the calls whose open questions fell with it."""

    TYPE = "run.cancelled"
    CATEGORY = "run"
    BY_DRIVER = False

    reason: Literal["requested", "parent"] = "requested"
    by: str = sparse("")
    iterations: int
    usage: Usage = Usage()
    cost_usd: float = sparse(0.0)
    withdrawn: tuple[CallId, ...] = sparse(())

    @property
    def status(self) -> EventStatus:
        return "warning"

    def facets(self) -> dict[str, Facet]:
        return {"reason": self.reason}

    def evolve(self, run: RunState, fact: Fact) -> RunState:
        return run.closed(Cancelled(self.by), fact.ts)


class RunResumed(Payload):
    """A run that failed for a cause outside itself is reopened, with a fresh allowance of time."""

    TYPE = "run.resumed"
    CATEGORY = "run"
    BY_DRIVER = False

    by: str = sparse("")

    def evolve(self, run: RunState, fact: Fact) -> RunState:
        del fact
        return run.resumed()
