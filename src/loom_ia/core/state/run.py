"""What a run is now, as a fold of its facts.

Nothing here is ever stored or serialised, and the status is computed from the facts, so that no
transition can contradict them. Each method takes what one event says and gives the next state;
all are total: a fact that no longer applies changes nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from loom_ia.core.ids import CallId, RunId, SessionId, SpanId, TenantId
from loom_ia.core.json import JsonObject, JsonValue
from loom_ia.core.model.artifacts import StoredArtifact
from loom_ia.core.model.budget import Budget, Reserve
from loom_ia.core.model.caller import CallerContext
from loom_ia.core.model.changes import Change
from loom_ia.core.model.content import TextBlock, ToolCallBlock, ToolOutput, ToolResultBlock
from loom_ia.core.model.messages import Message
from loom_ia.core.model.policy import (
    JudgeMode,
)
from loom_ia.core.model.session_state import StateFault
from loom_ia.core.model.tooling import Assessment
from loom_ia.core.model.usage import Usage
from loom_ia.core.prompts import Language, TextName, prompt_text
from loom_ia.core.state.acts import Act, Acts
from loom_ia.core.state.calls import (
    Call,
    Expired,
    Granted,
    Question,
    Rejected,
    to_run_again,
)
from loom_ia.core.state.checks import NO_CHECKS, Checks
from loom_ia.core.state.conversation import Conversation
from loom_ia.core.state.flow import Flow
from loom_ia.core.state.frozen import Evolving
from loom_ia.core.state.kept import NOTHING_KEPT, KeptValues, by_calls, over
from loom_ia.core.state.references import mark_of
from loom_ia.core.state.sources import NO_SOURCES, KnownSources


class Status(StrEnum):
    """Where a run stands."""

    READY_FOR_MODEL = "ready_for_model"
    AWAITING_TOOLS = "awaiting_tools"
    WAITING_CHILD = "waiting_child"
    PAUSED = "paused"
    FINALIZING = "finalizing"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_closed(self) -> bool:
        """Whether the run is over."""
        return self in _CLOSED


_CLOSED = frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELLED})

_LEASE_GRAIN: Final = 60
"""A lease is extended by at least this part of itself: less is not worth a new state."""

StepEffect: TypeAlias = Literal["model_call", "tool_batch"]
FinalizingReason: TypeAlias = Literal["iterations", "budget", "policy"]
ProgramKind: TypeAlias = Literal["agent", "graph"]


@dataclass(frozen=True, slots=True)
class Header:
    """What a run is from its first fact on. `agent` is the name of its agent, or of its graph.

    `budget` has the limits that bind the runs below it too, `session_budget` those of its session.
    `origin` is the run and the place that a fork came from, `earlier` how many steps its source had
    ended there. `parts` are what the digest of its graph covers. `state` is what its caller wrote
    in the state of the session, and `state_keys` are the keys that its agent reads, each with its
    default. `role` is the name of the role that the run is of, empty for those of agents and
    graphs. `budget_share` is the part of what was left above that `budget` is. `trigger` names the
    webhook that began the run, empty for none.
    """

    run_id: RunId
    tenant_id: TenantId
    session_id: SessionId
    root_run_id: RunId
    agent: str
    language: Language
    context: CallerContext
    parent_run_id: RunId | None
    depth: int
    started_at: datetime
    program: ProgramKind = "agent"
    plan: str = ""
    parent_call_id: CallId = ""
    budget: Budget | None = None
    session_budget: Budget | None = None
    judges: JudgeMode = "auto"
    origin: tuple[RunId, int] | None = None
    earlier: int = 0
    parts: Mapping[str, str] = field(default_factory=dict[str, str])
    state: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    state_keys: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    role: str = ""
    budget_share: float | None = None
    trigger: str = ""


@dataclass(frozen=True)
class Step(Evolving):
    """The effect that was announced last and is not over.

    `reserve` is kept aside for it until then; None when nothing is.
    """

    number: int
    effect: StepEffect
    span: SpanId
    started_at: datetime
    done: bool = False
    reserve: Reserve | None = None


@dataclass(frozen=True, slots=True)
class Spent:
    """What the run consumed so far; `cost` in dollars, `calls` of models.

    `unpriced` counts what no price is known of, so that `cost` leaves it out.
    """

    usage: Usage = Usage()  # noqa: RUF009 -- frozen, so shared safely
    cost: float = 0.0
    calls: int = 0
    unpriced: int = 0

    def plus(self, usage: Usage, cost: float, *, calls: int, unpriced: bool) -> "Spent":
        """Add what a call consumed."""
        return Spent(
            self.usage + usage, self.cost + cost, self.calls + calls, self.unpriced + unpriced
        )

    def with_others(self, other: "Spent") -> "Spent":
        """Add what another run consumed."""
        return Spent(
            self.usage + other.usage,
            self.cost + other.cost,
            self.calls + other.calls,
            self.unpriced + other.unpriced,
        )

    def since(self, before: "Spent") -> "Spent":
        """Give what was consumed after `before`, which is an earlier state of the same run."""
        return Spent(
            self.usage.since(before.usage),
            self.cost - before.cost,
            self.calls - before.calls,
            self.unpriced - before.unpriced,
        )


@dataclass(frozen=True)
class Lease(Evolving):
    """Who drives. `lock` names the operating-system lock that the driver holds, if any."""

    worker_id: str
    until: datetime
    length: timedelta
    lock: str = ""

    def is_live(self, now: datetime) -> bool:
        """Whether another driver must keep away, as far as time tells."""
        return now < self.until


@dataclass(frozen=True, slots=True)
class Completed:
    """The run ended with an answer, as `RunCompleted` says."""

    output: Message
    data: JsonValue = None
    unverified: bool = False
    fallback: bool = False


@dataclass(frozen=True, slots=True)
class Failed:
    """The run ended without an answer; some kinds may be reopened."""

    error_type: str
    error: str
    step: str = ""
    key: str = ""

    @property
    def is_resumable(self) -> bool:
        """Whether `run.resumed` may reopen it: the cause lies outside the run and may be gone."""
        return (
            self.error_type in _RESUMABLE
            or self.error_type.startswith("model.")
            or self.error_type.startswith(GRAPH_FAILURE)
        )


GRAPH_FAILURE: Final = "graph."
"""What the error type of a graph that failed begins with; all of them may be gone another time."""

BUDGET_FAILURE: Final = "budget"
"""The error type of a run that a limit of a run above ended."""

_RESUMABLE = frozenset({"timeout", BUDGET_FAILURE, "tool.source_unavailable", "Interrupted"})


@dataclass(frozen=True, slots=True)
class Cancelled:
    """Somebody stopped the run."""

    by: str


Outcome: TypeAlias = Completed | Failed | Cancelled


@dataclass(frozen=True)
class RunState(Evolving):
    """A run: its header, what was said, the calls on the table, and how it ended if it did.

    `past` has the calls whose results the model read, in the order in which it asked for them.
    """

    header: Header
    conversation: Conversation = Conversation()  # noqa: RUF009 -- frozen, so shared safely
    table: tuple[Call, ...] = ()
    past: tuple[Call, ...] = ()
    iterations: int = 0
    steps: int = 0
    step: Step | None = None
    answer: Message | None = None
    finalizing: FinalizingReason | None = None
    refused: frozenset[str] = frozenset()
    artifacts: tuple[StoredArtifact, ...] = ()
    exceeded: frozenset[str] = frozenset()
    models: tuple[tuple[str, str], ...] = ()  # slots, and the model that took over there
    spent: Spent = Spent()
    lease: Lease | None = None
    active: timedelta = timedelta()
    driven_since: datetime | None = None
    outcome: Outcome | None = None
    understood: bool = True
    flow: Flow | None = None
    drives: int = 0
    checks: Checks = NO_CHECKS
    kept: KeptValues = field(default_factory=lambda: NOTHING_KEPT)
    acts: Acts = field(default_factory=dict[tuple[CallId, str], Act])
    sources: KnownSources = NO_SOURCES

    # -- what it is ---------------------------------------------------------------------------

    @property
    def run_id(self) -> RunId:
        """The id of the run."""
        return self.header.run_id

    @property
    def status(self) -> Status:
        """The status, computed from the facts."""
        match self.outcome:
            case Completed():
                return Status.COMPLETED
            case Failed():
                return Status.FAILED
            case Cancelled():
                return Status.CANCELLED
            case None:
                return self._open_status()

    @property
    def is_open(self) -> bool:
        """Whether the run is not over."""
        return self.outcome is None

    @property
    def is_resumable(self) -> bool:
        """Whether the run failed in a way that may be reopened."""
        return isinstance(self.outcome, Failed) and self.outcome.is_resumable

    @property
    def pending(self) -> tuple[Call, ...]:
        """The calls that await a human, in order; none once the run is over."""
        if self.outcome is not None:
            return ()
        return tuple(call for call in self.table if call.awaits_answer)

    @property
    def has_offloaded(self) -> bool:
        """Whether a result was too large to be read whole, so that parts of it can be asked for."""
        return any(artifact.origin == "offload" for artifact in self.artifacts)

    @property
    def reserve(self) -> Reserve | None:
        """What is kept aside for the call of a model that is under way."""
        return None if self.step is None or self.step.done else self.step.reserve

    @property
    def has_image(self) -> bool:
        """Whether the user gave an image."""
        return any(
            file.origin == "attachment" and file.media_type.startswith("image/")
            for file in self.artifacts
        )

    def call(self, call_id: CallId) -> Call | None:
        """Find a call on the table."""
        return next((call for call in self.table if call.call_id == call_id), None)

    def model_of(self, slot: str) -> str | None:
        """Give the model that took over in a slot, None while none did."""
        return dict(self.models).get(slot)

    def driven(self, now: datetime) -> timedelta:
        """How long the run was actively driven: closed steps, plus the open drive."""
        open_for = now - self.driven_since if self.driven_since is not None else timedelta()
        return self.active + max(open_for, timedelta())

    @property
    def drive_id(self) -> str:
        """The name of the present drive: what an earlier one launched was interrupted."""
        return f"drive-{self.drives}"

    def _open_status(self) -> Status:
        if any(call.child_run_id and not call.is_settled for call in self.table):
            held = all(c.is_settled or c.awaits_answer or c.child_run_id for c in self.table)
            return Status.WAITING_CHILD if held else Status.AWAITING_TOOLS
        if self.flow is not None:
            return self._flow_status(self.flow)
        if any(not call.is_settled for call in self.table):
            waiting = all(call.is_settled or call.awaits_answer for call in self.table)
            return Status.PAUSED if waiting else Status.AWAITING_TOOLS
        return Status.FINALIZING if self.finalizing else Status.READY_FOR_MODEL

    def _flow_status(self, flow: Flow) -> Status:
        held = [line for line in flow.active() if self._is_held(line.call_id)]
        if held and all(self._is_held(line.call_id) for line in flow.active()):
            return Status.PAUSED
        return Status.AWAITING_TOOLS

    def _is_held(self, call_id: CallId) -> bool:
        call = self.call(call_id)
        return call is not None and call.awaits_answer

    @property
    def writes(self) -> KeptValues:
        """What its calls wrote in the state of the session, so far."""
        return over(self.kept, by_calls(self.table, self.run_id)) if self.table else self.kept

    # -- what its facts do to it ----------------------------------------------------------------

    def heard(self, message: Message) -> "RunState":
        """Take what the user says."""
        return self.but(conversation=self.conversation.add(message))

    def responded(
        self,
        message: Message,
        problems: dict[str, str],
        usage: Usage,
        cost: float,
        *,
        unpriced: bool = False,
        assessments: Mapping[CallId, Assessment] | None = None,
    ) -> "RunState":
        """Take an answer of the main model: calls go on the table, anything else is the answer."""
        must_drop = self.finalizing or self.header.role or self.checks.without_tools
        if message.calls and must_drop:
            message = _without_calls(message)
        calls = tuple(
            Call(
                block.call_id,
                block.name,
                block.arguments,
                problems.get(block.call_id, ""),
                assessment=assessments.get(block.call_id) if assessments else None,
            )
            for block in message.calls
        )
        return self.but(
            conversation=self.conversation.add(message),
            table=calls,
            answer=None if calls else message,
            iterations=self.iterations + 1,
            checks=self.checks.next_turn(),
            step=self.step.but(done=True) if self.step else None,
            spent=self.spent.plus(usage, cost, calls=1, unpriced=unpriced),
        )

    def fell_back(self, slot: str, model: str) -> "RunState":
        """Let another model answer for `slot`, until the run is over."""
        return self.but(models=tuple({**dict(self.models), slot: model}.items()))

    def paid(
        self, usage: Usage, cost: float, *, unpriced: bool = False, calls: int = 0
    ) -> "RunState":
        """Count what was consumed beside the answers of the run's own model.

        A call that gave no answer is no call of the budget.
        """
        return self.but(spent=self.spent.plus(usage, cost, calls=calls, unpriced=unpriced))

    def step_started(
        self,
        number: int,
        effect: StepEffect,
        span: SpanId,
        at: datetime,
        *,
        reserve: Reserve | None = None,
        numbered: bool = False,
    ) -> "RunState":
        """Announce an effect. A model call first clears the table into results to be read."""
        run = self.table_read(numbered=numbered) if effect == "model_call" else self
        return run.but(step=Step(number, effect, span, at, reserve=reserve), steps=number)

    def step_completed(self, duration: timedelta, at: datetime) -> "RunState":
        """Close the open step and count its time."""
        return self.but(step=None, active=self.active + duration, driven_since=at)

    def asked(self, call_id: CallId, question: Question) -> "RunState":
        """Put a question about a call to a human."""
        call = self.call(call_id)
        return self.with_call(call.asked(question)) if call else self

    def noticed(self, call_id: CallId, request: str, target: str) -> "RunState":
        """Note that nothing more is owed to `target` about a request, if it is still there."""
        call = self.call(call_id)
        return self.with_call(call.noticed(request, target)) if call else self

    def granted(
        self, call_id: CallId, verdict: Granted, digest: str, edited: JsonObject | None
    ) -> "RunState":
        """Take a yes, only if it is about the bytes that were shown."""
        call = self.call(call_id)
        if call is None or call.question is None or call.question.digest != digest:
            return self
        run = self.with_call(call.answered(verdict, edited))
        if edited is None or not call.question.is_open:
            return run
        return run.but(conversation=run.conversation.with_arguments(call_id, edited))

    def turned_down(self, call_id: CallId, verdict: Rejected | Expired) -> "RunState":
        """Take a no; the same call with the same arguments will not be asked again."""
        call = self.call(call_id)
        if call is None or call.question is None or not call.question.is_open:
            return self
        run = self.with_call(call.answered(verdict, None))
        if isinstance(verdict, Expired):
            return run
        return run.but(refused=run.refused | {call.question.digest})

    def launched(
        self, call_id: CallId, span: SpanId, at: datetime, *, child: RunId = ""
    ) -> "RunState":
        """Start a call in the open step."""
        call = self.call(call_id)
        step = self.step.span if self.step else ""
        if call is None:
            return self
        return self.with_call(call.launched(span, step, at).but(child_run_id=child))

    def completed(self, call_id: CallId, output: ToolOutput, *, unknown: bool) -> "RunState":
        """Take the result of a call, also after the run was closed."""
        call = self.call(call_id)
        if call is None:
            return self
        return _with_step_ended(self.with_call(call.completed(output, unknown=unknown)))

    def undone(self, call_id: CallId) -> "RunState":
        """Note that a call that was launched took no effect: it may be launched again."""
        call = self.call(call_id)
        if call is None:
            return self
        return _with_step_ended(self.with_call(call.not_done()))

    def remembered(self, call_id: CallId, result: ToolOutput) -> "RunState":
        """Keep the result of an effect that happened, whatever becomes of the call."""
        call = self.call(call_id)
        return self.with_call(call.but(remembered=result)) if call else self

    # -- limits and files -------------------------------------------------------------------------

    def exceeded_limit(self, limit: str) -> "RunState":
        """Take note of a limit that was reached, so that it is told once."""
        return self.but(exceeded=self.exceeded | {limit})

    def bound(self, budget: Budget | None, session_budget: Budget | None) -> "RunState":
        """Take other limits, None for those that stay; what was told of the old ones is past."""
        if budget is None and session_budget is None:
            return self
        header = self.header
        if budget is not None:
            header = replace(header, budget=None if budget.is_empty else budget)
        if session_budget is not None:
            kept = None if session_budget.is_empty else session_budget
            header = replace(header, session_budget=kept)
        finalizing = None if self.finalizing == "budget" else self.finalizing
        return self.but(header=header, exceeded=frozenset(), finalizing=finalizing)

    def stored(self, artifact: StoredArtifact) -> "RunState":
        """Take note of a file that is kept; the same file is noted once."""
        if artifact in self.artifacts:
            return self
        return self.but(artifacts=(*self.artifacts, artifact))

    def running(self) -> tuple[Call, ...]:
        """Give the calls that the open step launched and whose end is not known."""
        span = self.step.span if self.step else None
        return tuple(
            call
            for call in self.table
            if call.is_interrupted_or_running and call.launched_in == span
        )

    def finalized(self, reason: FinalizingReason) -> "RunState":
        """Ask for a last answer without tools."""
        return self.but(finalizing=reason, checks=self.checks.but(ruling=None))

    def claimed(self, lease: Lease, at: datetime, *, renewal: bool) -> "RunState":
        """Give the wheel to a driver. A new one starts afresh what was under way."""
        if renewal:
            return self.but(lease=lease)
        drives = self.drives + 1
        if lease.until <= at:  # handed back
            active = self.driven(at)
            return self.but(lease=lease, driven_since=None, active=active, step=None, drives=drives)
        return self.but(lease=lease, step=None, driven_since=at, drives=drives)

    def steered(self, root: "RunState") -> "RunState":
        """Follow the claim of the run at the top: one driver drives a whole tree."""
        lease = root.lease
        if lease is None or lease is self.lease:
            return self
        if root.drives == self.drives:
            return self.but(lease=lease)
        at = root.driven_since or lease.until
        return self.but(
            lease=lease,
            step=None,
            drives=root.drives,
            active=self.driven(at),
            driven_since=root.driven_since,
        )

    def touched(self, at: datetime) -> "RunState":
        """Extend the lease of the driver that wrote a fact at that instant."""
        lease = self.lease
        if lease is None or at + lease.length - lease.until < lease.length / _LEASE_GRAIN:
            return self
        return self.but(lease=lease.but(until=at + lease.length))

    def closed(self, outcome: Outcome, at: datetime) -> "RunState":
        """End the run. What was on the table stays, for whoever reopens or reads it."""
        if self.outcome is not None:
            return self
        return self.but(
            outcome=outcome,
            step=None,
            active=self.driven(at),
            driven_since=None,
        )

    def resumed(self, changes: tuple[Change, ...], at: datetime) -> "RunState":
        """Go on with a fresh allowance of time; a run that failed for a while is reopened.

        Every model of the chain may answer again: the last one to fail is not the only one left.
        """
        if self.outcome is None:
            if self.flow is None:
                return self
            since = at if self.driven_since is not None else None
            flow = self.flow.given(changes).but(segment=0)
            return self.but(flow=flow, active=timedelta(), driven_since=since)
        if not self.is_resumable:
            return self
        run = self.but(
            outcome=None, active=timedelta(), driven_since=None, step=None, lease=None, models=()
        )
        if run.flow is None:
            return run
        table = tuple(to_run_again(call) for call in run.table)
        return run.but(table=table, flow=run.flow.given(changes).but(segment=0))

    def not_understood(self) -> "RunState":
        """Note a fact of a newer version: the run can be read, not driven."""
        return self.but(understood=False)

    # -- small parts ------------------------------------------------------------------------------

    def with_call(self, call: Call) -> "RunState":
        """Put a call in the place of what it was."""
        table = tuple(call if c.call_id == call.call_id else c for c in self.table)
        return self.but(table=table)

    def table_read(self, *, numbered: bool = False) -> "RunState":
        """Clear the table into results that the model reads, with their ranks if `numbered`."""
        if not self.table:
            return self
        first = len(self.past) + 1 if numbered else None
        results = results_message(self.table, self.header.language, first=first)
        past, said = (*self.past, *self.table), self.conversation.add(results)
        return self.but(table=(), past=past, conversation=said, kept=self.writes)


def results_message(
    table: tuple[Call, ...], language: Language, *, first: int | None = None
) -> Message:
    """Give the results of `table` in call order, as the model reads them.

    A call without a result is told as cancelled, so that every call has exactly one result. Those
    that are numbered say so, from `first` on.
    """
    blocks = tuple(
        ToolResultBlock.trusted(
            cache_breakpoint=False,
            provider_meta={},
            type="tool_result",
            call_id=call.call_id,
            output=_readable(call, language, rank if first else None),
        )
        for rank, call in enumerate(table, first or 0)
    )
    return Message.trusted(role="tool", blocks=blocks)


def _readable(call: Call, language: Language, rank: int | None) -> ToolOutput:
    output = call.output
    if output is None:
        output = ToolOutput.of_error(prompt_text(language, "cancelled_call"))
    elif not output.shown:
        marker = TextBlock(text=prompt_text(language, "empty_result"))
        output = output.model_copy(update={"blocks": (marker,)})
    notes = [
        prompt_text(language, _REFUSED[fault.kind], key=fault.key, detail=fault.detail)
        for fault in output.state_refused
    ]
    if call.edited and call.launches and call.output is not None:
        notes.append(prompt_text(language, "edited", fields=", ".join(call.edited)))
    if notes:
        blocks = (*output.shown, *(TextBlock(text=note) for note in notes))
        output = output.model_copy(update={"blocks": blocks})
    if rank is not None:
        mark = TextBlock(text=mark_of(rank))
        output = output.model_copy(update={"blocks": (mark, *output.shown)})
    return output


def _with_step_ended(run: RunState) -> RunState:
    """End the open step if nothing of it is running any more."""
    step = run.step
    if step and step.effect == "tool_batch" and not run.running():
        return run.but(step=step.but(done=True))
    return run


_REFUSED: Final[Mapping[StateFault, TextName]] = MappingProxyType(
    {
        "undeclared": "state_undeclared",
        "unstorable": "state_unstorable",
        "too_large": "state_too_large",
        "no_room": "state_no_room",
        "misfit": "state_misfit",
        "missing": "state_missing",
    }
)
"""What the model reads of a value that was not kept."""


def _without_calls(message: Message) -> Message:
    blocks = tuple(block for block in message.blocks if not isinstance(block, ToolCallBlock))
    return message.model_copy(update={"blocks": blocks or (TextBlock(text=""),)})


__all__ = [
    "Cancelled",
    "Completed",
    "Failed",
    "FinalizingReason",
    "Header",
    "Lease",
    "Outcome",
    "RunState",
    "Spent",
    "Status",
    "Step",
    "StepEffect",
    "results_message",
]
