"""The life of a run: opened, driven step by step, closed, reopened."""

from datetime import datetime, timedelta
from typing import ClassVar, Literal

from pydantic import Field

from loom_ia.core.events.envelope import EventStatus, Facet, Fact, Payload, SpanRule
from loom_ia.core.ids import CallId, EventId, RunId
from loom_ia.core.json import JsonValue
from loom_ia.core.model.base import nullable, sparse
from loom_ia.core.model.budget import Budget, Reserve
from loom_ia.core.model.caller import CallerContext
from loom_ia.core.model.changes import Change
from loom_ia.core.model.messages import Message
from loom_ia.core.model.policy import JudgeMode
from loom_ia.core.model.usage import Usage
from loom_ia.core.plan import Join
from loom_ia.core.prompts import Language
from loom_ia.core.state.flow import begun
from loom_ia.core.state.run import (
    Cancelled,
    Completed,
    Failed,
    FinalizingReason,
    Header,
    Lease,
    ProgramKind,
    RunState,
    StepEffect,
)


class RunStarted(Payload):
    """A run begins. `plan` is the digest of what the agent, or the graph, was at that moment.

    A run below another one says which call opened it. `budget` has the limits that bind the run
    and those below it, `judges` whether its judges look. Of a graph, `input` are the first
    values, `entry` its first step, `joins` where branches end, `merge` how keys are merged, `parts`
    what the digest covers. A run that begins in the middle says where: `stage` tells whether
    `entry` is to be called or has ended. `origin` is where a fork comes
    from, and `earlier` how many steps had ended there.

    `state` is what the caller writes in the state of the session, null to erase; `state_keys` are
    the keys that the agent reads of it, each with its default, null without one.

    The run of a role says which one it is, and the `model` that takes over in it from the start. A
    run that may consume a share of what was left to the one above has it in `budget_share`. A run
    that a webhook began names the `trigger`.
    """

    TYPE = "run.started"
    CATEGORY = "run"
    CONTENT = ("context.metadata", "input", "state", "state_keys")

    kind: Literal["normal", "fork"] = "normal"
    program: ProgramKind = "agent"
    language: Language = "en"
    plan: str = sparse("")
    context: CallerContext = Field(
        default_factory=CallerContext, exclude_if=lambda c: not c.model_fields_set
    )
    parent_run_id: RunId | None = sparse(None)
    parent_call_id: CallId | None = sparse(None)
    depth: int = sparse(0)
    budget: Budget | None = sparse(None)
    session_budget: Budget | None = sparse(None)
    judges: JudgeMode = "auto"
    entry: str = sparse("")
    stage: Literal["", "done"] = sparse("")
    input: dict[str, JsonValue] = sparse({})
    joins: dict[str, Join] = sparse({})
    merge: dict[str, str] = sparse({})
    parts: dict[str, str] = sparse({})
    origin: tuple[RunId, int] | None = sparse(None)
    earlier: int = sparse(0)
    state: dict[str, JsonValue] = sparse({})
    state_keys: dict[str, JsonValue] = sparse({})
    role: str = sparse("")
    model: str = sparse("")
    budget_share: float | None = sparse(None)
    trigger: str = sparse("")

    def facets(self) -> dict[str, Facet]:
        facets: dict[str, Facet] = {"kind": self.kind}
        if self.judges != "auto":
            facets["judges"] = self.judges
        if self.trigger:
            facets["trigger"] = self.trigger
        return facets

    def begin(self, fact: Fact) -> RunState:
        """Give the state of a run that has just begun."""
        flow = begun(self.entry, self.input, self.joins) if self.program == "graph" else None
        if flow is not None and self.stage == "done":
            flow = flow.with_line(flow.main.but(stage="done"))
        return RunState(
            flow=flow,
            models=(("main", self.model),) if self.model else (),
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
                program=self.program,
                plan=self.plan,
                parent_call_id=self.parent_call_id or "",
                budget=self.budget,
                session_budget=self.session_budget,
                judges=self.judges,
                origin=self.origin,
                earlier=self.earlier,
                parts=self.parts,
                state=self.state,
                state_keys=self.state_keys,
                role=self.role,
                budget_share=self.budget_share,
                trigger=self.trigger,
            ),
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
    """An effect is about to happen: a model call, or a batch of tool calls.

    `reserve` is the most that the call of a model may consume, kept aside until its end so that
    runs beside each other do not pass a limit together; absent where no limit binds them. When
    `numbered`, the results that the model is about to read bear their rank in the run.
    """

    TYPE = "step.started"
    CATEGORY = "run"
    SPAN: ClassVar[SpanRule] = "own"

    step_no: int
    effect: StepEffect
    reserve: Reserve | None = sparse(None)
    numbered: bool = sparse(False)

    def facets(self) -> dict[str, Facet]:
        return {"effect": self.effect}

    def evolve(self, run: RunState, fact: Fact) -> RunState:
        return run.step_started(
            self.step_no,
            self.effect,
            fact.span_id,
            fact.ts,
            reserve=self.reserve,
            numbered=self.numbered,
        )


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
    """The run ended with an answer. `usage` and `cost_usd` (dollars) are its totals.

    `data` is the document that the schema of the answer found in it. `unverified` tells that the
    answer did not pass its checks and is given all the same, `fallback` that it is the text to be
    given in that case. `state_hash` identifies the last values of a graph.
    """

    TYPE = "run.completed"
    CATEGORY = "run"
    CONTENT = ("output", "data")

    output: Message
    iterations: int
    usage: Usage = Usage()
    cost_usd: float = sparse(0.0)
    state_hash: str = sparse("")
    data: JsonValue = nullable()
    unverified: bool = sparse(False)
    fallback: bool = sparse(False)

    @property
    def status(self) -> EventStatus:
        return "warning" if self.unverified or self.fallback else "ok"

    def facets(self) -> dict[str, Facet]:
        facets: dict[str, Facet] = {"iterations": self.iterations, "cost_usd": self.cost_usd}
        facets |= {name: True for name in ("unverified", "fallback") if getattr(self, name)}
        return facets

    def evolve(self, run: RunState, fact: Fact) -> RunState:
        end = Completed(self.output, self.data, self.unverified, self.fallback)
        return run.closed(end, fact.ts)


class RunFailed(Payload):
    """The run ended without an answer.

    `error_type` is `model.<kind>`, `timeout`, `budget` for a limit of a run above,
    `approval.expired`, `Interrupted`, the name of an exception class or, for a graph,
    `graph.<name of the error>`; then `step` is the step at fault and `key` what it is about.
    """

    TYPE = "run.failed"
    CATEGORY = "run"
    CONTENT = ("error",)

    error_type: str
    error: str
    step: str = sparse("")
    key: str = sparse("")
    iterations: int
    usage: Usage = Usage()
    cost_usd: float = sparse(0.0)

    @property
    def status(self) -> EventStatus:
        return "error"

    def facets(self) -> dict[str, Facet]:
        return {"error_type": self.error_type}

    def evolve(self, run: RunState, fact: Fact) -> RunState:
        return run.closed(Failed(self.error_type, self.error, self.step, self.key), fact.ts)


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
    """Somebody goes on with a run, with a fresh allowance of time; one that failed is reopened.

    `changes` are what the caller says to a graph, and `answers` what he answers, by the ids of the
    questions; what an answer does is told by the `approval.*` that follows.
    `budget` and `session_budget` are the limits that bind the run and those below it from now on,
    absent when they did not change; an empty one lifts them.
    """

    TYPE = "run.resumed"
    CATEGORY = "run"
    CONTENT = ("changes", "answers")
    BY_DRIVER = False

    by: str = sparse("")
    changes: tuple[Change, ...] = sparse(())
    answers: dict[EventId, JsonValue] = sparse({})
    budget: Budget | None = sparse(None)
    session_budget: Budget | None = sparse(None)

    def evolve(self, run: RunState, fact: Fact) -> RunState:
        if run.outcome is None or run.is_resumable:
            run = run.bound(self.budget, self.session_budget)
        return run.resumed(self.changes, fact.ts)


class SessionSnapshot(Payload):
    """What a fork begins with: the facts of its source, up to the place where it leaves it.

    `facts` are the events of one run in their stored form; `ids` gives the names under which the
    runs of the source go on here. What was spent there is not spent again.
    """

    TYPE = "session.snapshot"
    CATEGORY = "run"
    CONTENT = ("facts",)

    facts: tuple[str, ...]
    ids: dict[RunId, RunId]

    def evolve(self, run: RunState, fact: Fact) -> RunState:
        del fact
        return run  # folded when it is read: see `fold`
