"""What stands in the tree of a run: steps, the answers of models and the calls of tools.

Texts are whole here: who shows the tree decides what to cut.
"""

from datetime import datetime
from typing import Literal, TypeAlias

from loom_ia.core.events.model import FailureKind, FallbackReason
from loom_ia.core.events.policy import Resolution
from loom_ia.core.ids import CallId, RunId
from loom_ia.core.json import JsonObject
from loom_ia.core.model.base import Value
from loom_ia.core.model.chunks import StopReason
from loom_ia.core.model.policy import DecisionKind, JudgeMark, PolicyPoint
from loom_ia.core.model.tooling import Reconciled, ToolKind
from loom_ia.core.model.usage import Usage
from loom_ia.core.state.calls import QuestionKind
from loom_ia.core.state.run import FinalizingReason, StepEffect

Verdict: TypeAlias = Literal["granted", "rejected", "expired"]
ToolOutcome: TypeAlias = Literal["ok", "error", "unknown", "stopped"]


class Approval(Value):
    """A request to a human and what came of it; `verdict` is None while nobody answered."""

    kind: QuestionKind = "approve"
    question: str = ""
    requested_at: datetime
    expire_at: datetime | None = None
    verdict: Verdict | None = None
    by: str = ""
    reason: str = ""
    decided_at: datetime | None = None
    edited: bool = False


class AskedCall(Value):
    """A call as a model asked for it; `problem` says why it could not run as it is."""

    call_id: CallId
    name: str
    arguments: JsonObject
    problem: str = ""


class ModelItem(Value):
    """One answer of a model: `model` is the name in the configuration, `cost_usd` in dollars.

    `unpriced` tells that no price is known of it, so that its cost is not 0 but unknown.
    """

    kind: Literal["model"] = "model"
    model: str
    model_id: str
    role: str
    latency_ms: int
    usage: Usage
    cost_usd: float
    unpriced: bool = False
    stop_reason: StopReason
    text: str
    calls: tuple[AskedCall, ...] = ()


class AttemptItem(Value):
    """A call of a model that gave no answer; `delay_s` is the wait before the next, in seconds.

    After the `final` one there was none. `usage` is what it consumed, None when that is nothing.
    """

    kind: Literal["attempt"] = "attempt"
    model: str
    model_id: str
    role: str
    attempt: int
    error_kind: FailureKind
    error: str
    http_status: int | None = None
    delay_s: float = 0.0
    usage: Usage | None = None
    cost_usd: float = 0.0
    unpriced: bool = False
    final: bool = False


class FallbackItem(Value):
    """Another model took over in a slot, which is `main` for the orchestrator."""

    kind: Literal["fallback"] = "fallback"
    slot: str
    from_model: str
    to_model: str
    reason: FallbackReason
    error: str


class CircuitItem(Value):
    """A model that failed too often is left alone for `cooldown_s` seconds."""

    kind: Literal["circuit"] = "circuit"
    target: str
    failures: int
    cooldown_s: float


class SourceItem(Value):
    """A source of tools could not be reached, or its `tool` was not offered, for this `reason`."""

    kind: Literal["source"] = "source"
    source: str
    tool: str = ""
    reason: str
    required: bool = False


class LimitItem(Value):
    """A limit of the budget was reached: `spent` of `value`, in dollars, tokens or calls."""

    kind: Literal["limit"] = "limit"
    limit: str
    value: float
    spent: float


class ConcludingItem(Value):
    """The run had to conclude, without tools."""

    kind: Literal["concluding"] = "concluding"
    reason: FinalizingReason


class FailureItem(Value):
    """The run failed here, and was resumed afterwards."""

    kind: Literal["failure"] = "failure"
    error_type: str
    error: str


class ToolItem(Value):
    """One call: `outcome` is None while its end is not known.

    `launched` is false for a call that was settled without being started. `resumed` tells that it
    had been started before, `reconciled` what the outside world told of its effect when it was
    asked.
    """

    kind: Literal["tool"] = "tool"
    tool_kind: ToolKind = "python"
    call_id: CallId
    name: str
    launched: bool = True
    resumed: bool = False
    latency_ms: int | None = None
    arguments: JsonObject
    outcome: ToolOutcome | None = None
    reconciled: Reconciled | None = None
    result: str = ""
    approvals: tuple[Approval, ...] = ()
    child_run_id: RunId = ""


class StepItem(Value):
    """One execution of a step of a graph: `occurrence` is the how-manieth time it was reached.

    `attempt` counts what was tried again. `outcome` is None while its end is not known, or while it
    waits for an answer. `changed` are the keys of the state that it changed. A step that is a run
    of its own has `child_run_id`.
    """

    kind: Literal["step"] = "step"
    call_id: CallId
    name: str
    occurrence: int
    attempt: int = 1
    resumed: bool = False
    latency_ms: int | None = None
    outcome: ToolOutcome | None = None
    changed: tuple[str, ...] = ()
    error: str = ""
    approvals: tuple[Approval, ...] = ()
    child_run_id: RunId = ""


class RouteItem(Value):
    """Where a graph went on: `to` is empty for the end, and has several steps for branches."""

    kind: Literal["route"] = "route"
    source: tuple[str, ...]
    to: tuple[str, ...] = ()
    label: str = ""


class DecisionItem(Value):
    """A policy decided something; with `error`, it failed itself. `call_id` is its call, if any."""

    kind: Literal["decision"] = "decision"
    policy: str
    point: PolicyPoint
    decision: DecisionKind
    reason: str = ""
    call_id: CallId = ""
    error: bool = False


class GuardItem(Value):
    """A contract, a judge or a check of grounds looked at an output, or was skipped.

    `reason` is the diagnostic, or why it was skipped; `resolution` is what follows when it failed.
    """

    kind: Literal["guard"] = "guard"
    guard: Literal["contract", "judge", "grounded"]
    policy: str
    target: str
    outcome: Literal["passed", "failed", "skipped"]
    reason: str = ""
    normalized: bool = False
    resolution: Resolution | None = None
    call_id: CallId = ""


class VerdictItem(Value):
    """The marks of a judge; `blocked` tells that a blocking criterion is not met."""

    kind: Literal["verdict"] = "verdict"
    judge: str
    target: str
    model_id: str
    criteria: tuple[JudgeMark, ...]
    passed: bool
    blocked: bool


class RepairItem(Value):
    """An answer is asked for again: what the model reads, and which `policy` says so."""

    kind: Literal["repair"] = "repair"
    policy: str
    text: str


CheckItem: TypeAlias = DecisionItem | GuardItem | VerdictItem | RepairItem
"""What those who look at a run said."""

Item: TypeAlias = (
    ModelItem
    | ToolItem
    | StepItem
    | RouteItem
    | AttemptItem
    | FallbackItem
    | CircuitItem
    | SourceItem
    | LimitItem
    | ConcludingItem
    | FailureItem
    | CheckItem
)


class TraceStep(Value):
    """One effect of the run; `duration_ms` is None while it is not over."""

    number: int
    effect: StepEffect
    duration_ms: int | None = None
    items: tuple[Item, ...] = ()
