"""What happened in a run, as a tree that a person reads: steps, and in each its calls.

Law. One pass over the events; a fact that fits nowhere is left out, never guessed. The same facts
read one by one give the same tree, so that a run can be watched while it lives.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, TypeAlias

from loom_ia.core.events.approval import (
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRejected,
    ApprovalRequested,
)
from loom_ia.core.events.budget import BudgetExceeded
from loom_ia.core.events.envelope import Event
from loom_ia.core.events.fold import apply
from loom_ia.core.events.graph import GraphRouted
from loom_ia.core.events.message import UserMessage
from loom_ia.core.events.model import (
    CircuitOpened,
    ModelFellBack,
    ModelResponded,
    ModelRetried,
    is_unpriced,
)
from loom_ia.core.events.policy import GuardChecked, JudgeEvaluated, PolicyDecided
from loom_ia.core.events.run import (
    RunFinalizing,
    RunResumed,
    RunStarted,
    StepCompleted,
    StepStarted,
)
from loom_ia.core.events.tool import (
    EffectReconciled,
    SourceUnavailable,
    ToolCalled,
    ToolCompleted,
    ToolWithheld,
)
from loom_ia.core.ids import CallId, RunId, SessionId
from loom_ia.core.json import JsonObject
from loom_ia.core.model.artifacts import StoredArtifact
from loom_ia.core.model.base import Value, sparse
from loom_ia.core.model.tooling import Reconciled
from loom_ia.core.model.usage import Usage
from loom_ia.core.state.run import Cancelled, Failed, RunState, Status, StepEffect
from loom_ia.core.state.session import SessionState
from loom_ia.core.views.effects import EffectRecord
from loom_ia.core.views.result import PendingApproval, RunResult, run_result
from loom_ia.core.views.trace_items import (
    Approval,
    AskedCall,
    AttemptItem,
    CheckItem,
    CircuitItem,
    ConcludingItem,
    DecisionItem,
    FailureItem,
    FallbackItem,
    GuardItem,
    Item,
    LimitItem,
    ModelItem,
    RepairItem,
    RouteItem,
    SourceItem,
    StepItem,
    ToolItem,
    ToolOutcome,
    TraceStep,
    VerdictItem,
)
from loom_ia.core.views.trace_text import trace_lines


class Trace(Value):
    """A run from its first fact to its last; `duration_ms` also counts what it waited for.

    `orphans` are the calls that were settled without being launched: refused, unknown, malformed.
    `below` has the runs that its calls opened, those of a `role` too; what they consumed is theirs,
    what they ask is among `pending` and what they did among `effects`. `artifacts` are the files
    that came with the request and those that its calls made. `str` gives what `loom inspect` shows,
    in English.
    """

    run_id: RunId
    session_id: SessionId
    agent: str
    role: str = ""
    status: Status
    started_at: datetime
    duration_ms: int
    iterations: int
    usage: Usage
    cost_usd: float
    unpriced_calls: int = 0
    request: str = ""
    artifacts: tuple[StoredArtifact, ...] = ()
    steps: tuple[TraceStep, ...] = ()
    orphans: tuple[ToolItem, ...] = ()
    pending: tuple[PendingApproval, ...] = ()
    effects: tuple[EffectRecord, ...] = ()
    below: "tuple[Trace, ...]" = ()
    error_type: str | None = None
    error: str | None = None
    cancelled_by: str | None = None
    redacted: bool = sparse(False)

    def __str__(self) -> str:
        return "\n".join(line.text for line in trace_lines(self))


def trace_of(events: Iterable[Event]) -> Trace:
    """Read the events of one run and of those below it, in order, as a tree.

    Raises `ValueError` when no run begins in `events`.
    """
    reader = TraceReader()
    for event in events:
        reader.read(event)
    return reader.trace()


@dataclass(slots=True)
class _OpenCall:
    """A call while it is read."""

    call_id: CallId
    name: str
    arguments: JsonObject
    resumed: bool = False
    done: ToolCompleted | None = None
    reconciled: Reconciled | None = None
    approvals: list[Approval] = field(default_factory=list[Approval])
    launched: bool = False
    called: ToolCalled | None = None
    known: int = 0
    """How many of the approvals came before the launch."""

    def item(self) -> ToolItem | StepItem:
        done, called = self.done, self.called
        if called is not None and called.tool_kind in _STEPS and "/" in self.call_id:
            return self._step(called)
        outcome: ToolOutcome | None = None
        if done is not None:
            outcome = done.outcome or ("error" if done.output.is_error else "ok")
        return ToolItem(
            call_id=self.call_id,
            name=self.name,
            launched=self.launched,
            resumed=self.resumed,
            latency_ms=done.latency_ms if done and self.launched else None,
            arguments=self.arguments,
            outcome=outcome,
            reconciled=self.reconciled,
            result=done.output.text if done else "",
            approvals=tuple(self.approvals),
            tool_kind=called.tool_kind if called else "python",
            child_run_id=called.child_run_id if called else "",
        )

    def _step(self, called: ToolCalled) -> StepItem:
        done = self.done
        outcome: ToolOutcome | None = None
        if done is not None:
            outcome = done.outcome or ("error" if done.output.is_error else "ok")
        return StepItem(
            call_id=self.call_id,
            name=self.name,
            occurrence=int(self.call_id.rpartition("/")[2]),
            attempt=called.attempt or 1,
            resumed=self.resumed,
            latency_ms=done.latency_ms if done else None,
            outcome=outcome,
            changed=tuple(dict.fromkeys(c.key for c in done.changes)) if done else (),
            error=done.output.text if done else "",
            approvals=tuple(self.approvals),
            child_run_id=called.child_run_id,
        )


@dataclass(slots=True)
class _OpenStep:
    """A step while it is read."""

    number: int
    effect: StepEffect
    duration_ms: int | None = None
    items: list[Item | _OpenCall] = field(default_factory=list["Item | _OpenCall"])

    def step(self) -> TraceStep:
        return TraceStep(
            number=self.number,
            effect=self.effect,
            duration_ms=self.duration_ms,
            items=tuple(i.item() if isinstance(i, _OpenCall) else i for i in self.items),
        )


_STEPS: Final = frozenset({"step", "graph", "subagent"})
"""The kinds of calls that steps of graphs are; theirs have a `/` in their ids."""
_BEFORE: Final = 0
"""The number of the step that holds what no step announced."""


class TraceReader:
    """Folds the events of the first run that it meets, and of those below it, one by one."""

    def __init__(self) -> None:
        self.session = SessionState()
        self.below: dict[RunId, TraceReader] = {}
        self.run: RunState | None = None
        self.last: datetime | None = None
        self.request = ""
        self.steps: list[_OpenStep] = []
        self.table: dict[CallId, _OpenCall] = {}
        self.asked: list[_OpenCall] = []

    def read(self, event: Event) -> None:
        """Take the next event of the session."""
        payload = event.payload
        if self.run is None:
            if isinstance(payload, RunStarted):
                self.run, self.last = payload.begin(event), event.ts
                self.session.put(self.run)
            return
        if event.run_id != self.run.run_id:
            self._read_below(event)
            return
        failed = self.run.outcome
        self.run = apply(self.run, event)
        self.session.put(self.run)
        self.last = event.ts
        if isinstance(payload, GraphRouted):
            item = RouteItem(source=payload.source, to=payload.to, label=payload.label)
            self._step().items.append(item)
        elif isinstance(payload, RunResumed) and isinstance(failed, Failed):
            kind, error = failed.error_type, failed.error
            self._step().items.append(FailureItem(error_type=kind, error=error))
        else:
            self._take(event)

    def _take(self, event: Event) -> None:
        """Take what a run did, of an agent or of a graph."""
        payload = event.payload
        match payload:
            case UserMessage(kind="repair"):
                said = payload.message.as_text()
                self._step().items.append(RepairItem(policy=payload.policy, text=said))
            case PolicyDecided() | GuardChecked() | JudgeEvaluated():
                self._step().items.append(_check(payload))
            case UserMessage():
                self.request = payload.message.as_text()
            case StepStarted():
                self.steps.append(_OpenStep(payload.step_no, payload.effect))
            case StepCompleted() if self.steps:
                self.steps[-1].duration_ms = payload.duration_ms
            case ModelResponded():
                self._answered(payload, event.role or "")
            case (
                ModelRetried()
                | ModelFellBack()
                | CircuitOpened()
                | BudgetExceeded()
                | RunFinalizing()
            ):
                self._step().items.append(_trouble(payload, event.role or ""))
            case SourceUnavailable() | ToolWithheld():
                self._step().items.append(_of_source(payload))
            case ToolCalled() | ToolCompleted():
                self._moved(payload)
            case EffectReconciled():
                self._call(payload.call_id, payload.tool_name).reconciled = payload.verdict
            case ApprovalRequested() | ApprovalGranted() | ApprovalRejected() | ApprovalExpired():
                self._asked_or_decided(payload, event.ts)
            case _:
                pass

    def _read_below(self, event: Event) -> None:
        """Read what a run below did, if it is below this one."""
        payload, runs = event.payload, self.session.runs
        if isinstance(payload, RunStarted) and payload.parent_run_id in runs:
            self.session.put(payload.begin(event))
        elif event.run_id in runs:
            self.session.put(apply(runs[event.run_id], event))
        else:
            return
        for reader in self.below.values():
            reader.read(event)
        if (
            isinstance(payload, RunStarted)
            and self.run is not None
            and payload.parent_run_id == self.run.run_id
        ):
            reader = self.below[event.run_id] = TraceReader()
            reader.read(event)

    def trace(self) -> Trace:
        """Give the tree so far; raises `ValueError` before the run begins."""
        run, last = self.run, self.last
        if run is None or last is None:
            raise ValueError("no run begins in these events")
        result: RunResult = run_result(run, self.session)
        items = (call.item() for call in self.asked if call.done and not call.launched)
        return Trace(
            run_id=run.run_id,
            session_id=run.header.session_id,
            agent=run.header.agent,
            role=run.header.role,
            status=run.status,
            started_at=run.header.started_at,
            duration_ms=round((last - run.header.started_at).total_seconds() * 1000),
            iterations=run.iterations,
            usage=run.spent.usage,
            cost_usd=run.spent.cost,
            unpriced_calls=run.spent.unpriced,
            request=self.request,
            artifacts=run.artifacts,
            steps=tuple(step.step() for step in self.steps),
            orphans=tuple(item for item in items if isinstance(item, ToolItem)),
            pending=result.pending_approvals,
            effects=result.effects,
            below=tuple(reader.trace() for reader in self.below.values()),
            error_type=result.error_type,
            error=result.error,
            cancelled_by=run.outcome.by if isinstance(run.outcome, Cancelled) else None,
        )

    def _step(self) -> _OpenStep:
        if not self.steps:
            self.steps.append(_OpenStep(_BEFORE, "model_call"))
        return self.steps[-1]

    def _answered(self, payload: ModelResponded, role: str) -> None:
        blocks = payload.message.calls
        if not payload.judge:  # a verdict is no call of the run, and leaves those it has
            self.table = {b.call_id: _OpenCall(b.call_id, b.name, b.arguments) for b in blocks}
            self.asked += self.table.values()
        calls = tuple(
            AskedCall(
                call_id=block.call_id,
                name=block.name,
                arguments=block.arguments,
                problem=payload.problems.get(block.call_id, ""),
            )
            for block in blocks
        )
        self._step().items.append(
            ModelItem(
                model=payload.model,
                model_id=payload.model_id,
                role=role,
                latency_ms=payload.latency_ms,
                usage=payload.usage,
                cost_usd=payload.cost_usd,
                unpriced=is_unpriced(payload.provider, payload.prices),
                stop_reason=payload.stop_reason,
                text=payload.message.as_text(),
                calls=calls,
            )
        )

    def _call(self, call_id: CallId, name: str) -> _OpenCall:
        call = self.table.get(call_id)
        if call is None:
            call = self.table[call_id] = _OpenCall(call_id, name, {})
            self.asked.append(call)
        return call

    def _moved(self, payload: ToolCalled | ToolCompleted) -> None:
        call = self._call(payload.call_id, payload.tool_name)
        if isinstance(payload, ToolCompleted):
            call.done = payload
            return
        if call.launched:  # launched again: the first launch stays where it was, without an end
            since, call.approvals = call.approvals[call.known :], call.approvals[: call.known]
            call = self.table[call.call_id] = _OpenCall(
                call.call_id, call.name, call.arguments, approvals=since
            )
            self.asked.append(call)
        call.known = len(call.approvals)
        call.launched, call.resumed, call.arguments = True, payload.resumed, payload.arguments
        call.called = payload
        self._step().items.append(call)

    def _asked_or_decided(
        self,
        payload: ApprovalRequested | ApprovalGranted | ApprovalRejected | ApprovalExpired,
        at: datetime,
    ) -> None:
        if not isinstance(payload, ApprovalRequested):
            self._decided(payload, at)
            return
        self._call(payload.call_id, payload.tool_name).approvals.append(
            Approval(
                kind=payload.kind,
                question=payload.reason,
                requested_at=at,
                expire_at=payload.expire_at,
            )
        )

    def _decided(
        self, payload: ApprovalGranted | ApprovalRejected | ApprovalExpired, at: datetime
    ) -> None:
        approvals = self._call(payload.call_id, payload.tool_name).approvals
        if not approvals or approvals[-1].verdict is not None:
            return
        decision: dict[str, object] = {"decided_at": at}
        match payload:
            case ApprovalGranted():
                edited = payload.arguments is not None
                decision |= {"verdict": "granted", "by": payload.by, "edited": edited}
                decision |= {"reason": payload.reason}
            case ApprovalRejected():
                decision |= {"verdict": "rejected", "by": payload.by, "reason": payload.reason}
            case ApprovalExpired():
                decision |= {"verdict": "expired"}
        approvals[-1] = approvals[-1].model_copy(update=decision)


_Trouble: TypeAlias = ModelRetried | ModelFellBack | CircuitOpened | BudgetExceeded | RunFinalizing


def _trouble(payload: _Trouble, role: str) -> Item:
    """Show what happened in the place of an answer, or to the way that the run takes."""
    match payload:
        case BudgetExceeded():
            return LimitItem(limit=payload.limit, value=payload.value, spent=payload.spent)
        case RunFinalizing():
            return ConcludingItem(reason=payload.reason)
        case ModelRetried():
            return AttemptItem(
                model=payload.model,
                model_id=payload.model_id,
                role=role,
                attempt=payload.attempt,
                error_kind=payload.error_kind,
                error=payload.error,
                http_status=payload.http_status,
                delay_s=payload.delay_s,
                usage=payload.usage,
                cost_usd=payload.cost_usd,
                unpriced=payload.usage is not None
                and is_unpriced(payload.provider, payload.prices),
                final=payload.final,
            )
        case ModelFellBack():
            return FallbackItem(
                slot=payload.slot,
                from_model=payload.from_model,
                to_model=payload.to_model,
                reason=payload.reason,
                error=payload.error,
            )
        case CircuitOpened():
            return CircuitItem(
                target=payload.target, failures=payload.failures, cooldown_s=payload.cooldown_s
            )


def _of_source(payload: SourceUnavailable | ToolWithheld) -> SourceItem:
    """Show what a run could not be given."""
    match payload:
        case SourceUnavailable():
            return SourceItem(
                source=payload.source, reason=payload.error, required=payload.required
            )
        case ToolWithheld():
            return SourceItem(source=payload.source, tool=payload.tool, reason=payload.reason)


def _check(payload: PolicyDecided | GuardChecked | JudgeEvaluated) -> CheckItem:
    """Show what somebody who looks at the run said."""
    match payload:
        case PolicyDecided():
            return DecisionItem(
                policy=payload.policy,
                point=payload.point,
                decision=payload.decision,
                reason=payload.reason,
                call_id=payload.call_id,
                error=payload.error,
            )
        case GuardChecked():
            return GuardItem(
                guard=payload.guard,
                policy=payload.policy,
                target=payload.target,
                outcome=payload.outcome,
                reason=payload.reason,
                normalized=payload.normalized,
                resolution=payload.resolution,
                call_id=payload.call_id,
            )
        case JudgeEvaluated():
            return VerdictItem(
                judge=payload.judge,
                target=payload.target,
                model_id=payload.model_id,
                criteria=payload.criteria,
                passed=payload.passed,
                blocked=payload.blocked,
            )
