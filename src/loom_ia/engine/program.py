"""A plan with its bindings: everything that driving a run needs and a decision must not see."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from loom_ia.core.events.envelope import Payload
from loom_ia.core.events.run import RunStarted
from loom_ia.core.ids import CallId, RunId
from loom_ia.core.json import JsonObject, JsonValue
from loom_ia.core.model.changes import Change
from loom_ia.core.model.content import ToolOutput
from loom_ia.core.model.tooling import SideEffects
from loom_ia.core.model.usage import Usage
from loom_ia.core.plan import AgentPlan, GraphPlan
from loom_ia.core.ports.artifacts import ArtifactStore
from loom_ia.core.ports.idempotency import IdempotencyStore
from loom_ia.core.ports.models import ModelClient
from loom_ia.core.ports.sources import OfferedTool, ToolSource
from loom_ia.core.ports.tools import Tool
from loom_ia.core.state.calls import AskedAt, Call, EffectPhase, Inquiry, QuestionKind
from loom_ia.core.state.flow import Line, Mapped
from loom_ia.core.state.run import RunState
from loom_ia.core.state.session import SessionState
from loom_ia.core.views.result import PendingApproval
from loom_ia.engine.breaker import Circuits
from loom_ia.engine.stages import Stages


@dataclass(frozen=True, slots=True)
class Approved:
    """Yes; `arguments` replaces those that were shown, `answer` is what a step asked for."""

    by: str = ""
    reason: str = ""
    arguments: JsonObject | None = None
    answer: JsonValue = None


@dataclass(frozen=True, slots=True)
class Rejected:
    """No, for this reason, which the model reads."""

    reason: str = ""
    by: str = ""


ApprovalDecision: TypeAlias = Approved | Rejected
Approver: TypeAlias = Callable[[PendingApproval], ApprovalDecision | Awaitable[ApprovalDecision]]
Answers: TypeAlias = Callable[[RunState, Call, Inquiry | None], Awaitable[JsonValue]]
"""Gives what answers a question of a run in line, in the form of the journal."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """What a source gave, as an agent sees it.

    `tools` are by the name that models see, `withheld` has reasons by the source's own names.
    `digest` identifies the specs of the tools: never empty. `own` has the source's own names, by
    those that models see.
    """

    tools: Mapping[str, Tool]
    withheld: Mapping[str, str]
    digest: str
    own: Mapping[str, str] = field(default_factory=dict[str, str])


class Fit(Protocol):
    """Makes of what a source gives what an agent sees: chosen, named, with what was said last."""

    def __call__(self, offered: Sequence[OfferedTool], withheld: Mapping[str, str]) -> Fitted:
        """Fit the tools; one that cannot be fitted is withheld, as those that already are."""
        ...


@dataclass(frozen=True, slots=True)
class SourceBinding:
    """A source of tools of an agent. `required`: without it the run fails.

    `prefixes` are those of the names of its tools; opening it may take `open_timeout` seconds.
    """

    name: str
    source: ToolSource
    fit: Fit
    prefixes: tuple[str, ...]
    required: bool = False
    open_timeout: float = 60.0


@dataclass(frozen=True, slots=True)
class Program:
    """An agent ready to be driven.

    `models` has the clients of the plan's chain, by their id. Without `artifacts` nothing can be
    put away; without `idempotency` keys are kept in the journal. `circuits` are those of the whole
    instance. With `captures_exchanges`, what goes over the wire to a provider is a fact.
    `stages` are those who are asked at the points of `plan.reviews`, in order; with
    `keeps_judges`, no caller may skip those who judge. `approver` decides
    in line; below a graph it is the one of the graph, and `answers` asks it. `sources` give tools
    besides, anew for each drive.
    """

    plan: AgentPlan
    models: Mapping[str, ModelClient]
    tools: Mapping[str, Tool]
    approver: Callable[..., object] | None = None
    answers: Answers | None = None
    artifacts: ArtifactStore | None = None
    idempotency: IdempotencyStore | None = None
    circuits: Circuits = field(default_factory=Circuits)
    captures_exchanges: bool = False
    stages: Stages = ()
    keeps_judges: bool = False
    sources: tuple[SourceBinding, ...] = ()


# -- graphs ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Asked:
    """What a step, or a hook, wants to know: see `approval.requested` for the fields."""

    key: str
    asked: AskedAt
    kind: QuestionKind = "input"
    payload: JsonValue = None
    answer_schema: JsonValue = None
    into: str = ""
    expires_in: float | None = None
    tool: str = ""
    tool_call_id: str = ""
    position: int = 0
    starts: int = 0


@dataclass(frozen=True, slots=True)
class Done:
    """A step ended: what it does to the state, and the route that it chose, if it did.

    With `questions` it waits for their answers: before it runs again, or before its router is
    asked. `again` tells which.
    """

    changes: tuple[Change, ...] = ()
    goto: JsonValue = None
    usage: Usage | None = None
    questions: tuple[Asked, ...] = ()
    again: bool = False


@dataclass(frozen=True, slots=True)
class Fault:
    """A step, a hook or a router failed: `error` names the kind of the failure.

    `cause` is the exception, for whoever drives the run. The step is tried again in `retry_in`
    seconds, if that is given. `is_unknown` tells that its effect may have happened.
    """

    error: str
    text: str
    key: str = ""
    cause: BaseException | None = None
    changes: tuple[Change, ...] = ()
    retry_in: float | None = None
    is_unknown: bool = False


@dataclass(frozen=True, slots=True)
class Routing:
    """Where a line goes on; several targets are branches. `over` splits it over a list."""

    to: tuple[str, ...]
    inputs: tuple[JsonObject, ...] = ()
    label: str = ""
    over: Mapped | None = None
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True, slots=True)
class Passed:
    """Hooks let a step pass: the first `passed` of them; one of them may ask, or end the run."""

    passed: int
    changes: tuple[Change, ...] = ()
    question: Asked | None = None
    stops: bool = False


class StepWork(Protocol):
    """What a step that runs may do: read what is known of it, and record its effects."""

    @property
    def call(self) -> Call:
        """The step as it is now."""
        ...

    @property
    def line(self) -> Line:
        """The line that it is on."""
        ...

    @property
    def run(self) -> RunState:
        """The run as it is now."""
        ...

    @property
    def usage(self) -> Usage:
        """What the run and those below it consumed."""
        ...

    async def record(
        self,
        key: str,
        phase: EffectPhase,
        position: int,
        result: JsonValue = None,
        side_effects: SideEffects | None = None,
    ) -> None:
        """Write that an effect began or ended; what began is safe before this returns."""
        ...

    @property
    def is_followed(self) -> bool:
        """Whether somebody reads pieces of text."""
        ...

    def token(self, text: str) -> None:
        """Show a piece of text to whoever follows."""
        ...


@dataclass(frozen=True, slots=True)
class Caller:
    """Who opens a run: its own run, those of its session, and where its files are, if anywhere."""

    run: RunState
    session: SessionState
    artifacts: ArtifactStore | None = None


class Delegate(Protocol):
    """What a call opens: another run, and what its end is worth to the caller."""

    @property
    def program(self) -> "AnyProgram":
        """What drives the run that is opened."""
        ...

    async def opening(self, call: Call, caller: Caller) -> "tuple[RunStarted, tuple[Payload, ...]]":
        """Give the first facts of the run; raises what fails the call."""
        ...


class ToolDelegate(Delegate, Protocol):
    """What a tool of an agent opens."""

    def output(self, child: RunState) -> ToolOutput:
        """Give what the model reads of a run that is over."""
        ...


class StepDelegate(Delegate, Protocol):
    """What a step of a graph opens."""

    @property
    def bubbles(self) -> bool:
        """Whether the questions of the run are questions of the graph."""
        ...

    async def driven(
        self,
        child: RunState,
        call: Call,
        drive: Callable[[], Awaitable[RunState]],
        state: SessionState,
        causes: Mapping[tuple[RunId, str], BaseException],
    ) -> "RunState | Fault":
        """Have the run driven, inside what its author put around it and within its time."""
        ...

    def ended(
        self,
        child: RunState,
        call: Call,
        caller: RunState,
        state: SessionState,
        causes: Mapping[tuple[RunId, str], BaseException],
    ) -> "Done | Fault":
        """Give what a run that is over, or that waits and does not bubble, is worth."""
        ...


class Bindings(Protocol):
    """The code of a graph: everything that its author wrote, called by the performers alone."""

    async def execute(self, work: StepWork) -> Done | Fault:
        """Run a step once."""
        ...

    async def route(self, line: Line, run: RunState) -> Routing | Fault:
        """Ask where a line goes on."""
        ...

    async def review(
        self, line: Line, call_id: CallId, run: RunState, usage: Usage, *, after: bool
    ) -> Passed | Fault:
        """Ask the hooks about a step that is due, or that ended."""
        ...

    def meet(self, line: Line, branches: Sequence[Line]) -> Sequence[Change] | Fault:
        """Merge what branches did."""
        ...

    def delegate(self, step: str) -> StepDelegate | None:
        """Give what a step opens, None when it is plain code."""
        ...

    async def answer(self, run: RunState, call: Call, inquiry: Inquiry | None) -> JsonValue | None:
        """Ask the function that answers in line; raises what makes the answer unusable."""
        ...


@dataclass(frozen=True, slots=True)
class GraphProgram:
    """A graph ready to be driven.

    `answers` asks who answers in line, `approver`, when it is not the one of the bindings.
    """

    plan: GraphPlan
    bindings: Bindings
    approver: Callable[..., object] | None = None
    answers: Answers | None = None


AnyProgram: TypeAlias = Program | GraphProgram
