"""Stories for the tests of the core: facts told in order, folded as a journal would be."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from loom_ia.core.decide import AskApprover, CallModel, Emit, Finished, Move, RunCalls, Wait, decide
from loom_ia.core.events import (
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRejected,
    ApprovalRequested,
    Draft,
    Event,
    ModelResponded,
    Payload,
    RunClaimed,
    RunFailed,
    RunFinalizing,
    RunStarted,
    StepCompleted,
    StepStarted,
    ToolCalled,
    ToolCompleted,
    UserMessage,
    from_line,
    to_line,
)
from loom_ia.core.json import JsonObject
from loom_ia.core.model import (
    Message,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolOutput,
    ToolSpec,
    Usage,
    arguments_digest,
)
from loom_ia.core.model.content import AnyBlock
from loom_ia.core.plan import AgentPlan, agent_plan
from loom_ia.core.state import RunState, SessionState
from loom_ia.engine.log import apply, begin, draft_of
from loom_ia.testing.clock import ManualClock

LEASE = timedelta(seconds=60)
ARGUMENTS: JsonObject = {"n": 1}


class Story:
    """One session, told fact by fact; `run` is the run of which facts are told now."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.session = SessionState()
        self.events: list[Event] = []
        self.run_id = ""

    def open(self, run_id: str = "run-1", text: str = "go", **started: Any) -> "Story":
        """Begin a run; what is told from here on is about it."""
        self.run_id = run_id
        draft = Draft(
            event_id=self.clock.new_id(),
            ts=self.clock.now(),
            tenant_id="acme",
            session_id="session-1",
            run_id=run_id,
            root_run_id=run_id,
            span_id=run_id,
            parent_span_id=None,
            agent="clerk",
            role=None,
            payload=RunStarted(**started),
        )
        self._take(draft)
        return self.tell(said(text), self.claimed())

    def about(self, run_id: str) -> "Story":
        """Go on with another run."""
        self.run_id = run_id
        return self

    def tell(self, *facts: Payload, after: float = 0.0) -> "Story":
        """Let `after` seconds pass before each fact, and fold it."""
        for fact in facts:
            self.clock.advance(after)
            self._take(draft_of(fact, self.run, self.clock))
        return self

    def claimed(self, worker: str = "worker-1", *, renewal: bool = False) -> RunClaimed:
        """Give the claim of a driver, from now on."""
        until = self.clock.now() + LEASE
        return RunClaimed(worker_id=worker, lease_until=until, renewal=renewal)

    def handed_back(self, worker: str = "worker-1") -> RunClaimed:
        """Give the fact of a driver who lets go, now."""
        return RunClaimed(worker_id=worker, lease_until=self.clock.now())

    @property
    def run(self) -> RunState:
        """The run as it is."""
        return self.session.runs[self.run_id]

    def move(self, plan: AgentPlan, *, later: float = 0.0) -> Move:
        """Decide what is next, `later` seconds from now."""
        now = self.clock.now() + timedelta(seconds=later)
        return decide(self.session.view(self.run), plan, now)

    def _take(self, draft: Draft) -> None:
        event = draft.placed(len(self.events) + 1)
        self.events.append(event)
        fold(self.session, [event])


def fold(session: SessionState, events: Sequence[Event]) -> SessionState:
    """Fold events into a session, one after the other."""
    for event in events:
        run = session.runs.get(event.run_id)
        session.put(begin(event) if run is None else apply(run, event))
        session.last_seq = event.seq
    return session


def reread(events: Sequence[Event]) -> list[Event]:
    """Write events down and read them back, as the next process would."""
    return [from_line(to_line(e), tenant_id=e.tenant_id, session_id=e.session_id) for e in events]


# -- agents --------------------------------------------------------------------------------------


def tool(name: str = "act", **declared: Any) -> ToolSpec:
    """Declare a tool."""
    return ToolSpec(name=name, description="acts", input_schema={"type": "object"}, **declared)


def plan(*tools: ToolSpec, **settings: Any) -> AgentPlan:
    """Plan an agent with these tools."""
    return agent_plan(name="clerk", model="M", system="Be brief.", tools=tools, **settings)


# -- facts ---------------------------------------------------------------------------------------


def said(text: str) -> UserMessage:
    """Tell what the user asks."""
    return UserMessage(message=Message.text("user", text))


def model_step(number: int = 1) -> StepStarted:
    """Announce a call of the model."""
    return StepStarted(step_no=number, effect="model_call")


def tool_step(number: int = 2) -> StepStarted:
    """Announce a batch of calls."""
    return StepStarted(step_no=number, effect="tool_batch")


def step_over(number: int = 1, seconds: float = 0.0) -> StepCompleted:
    """Close a step."""
    return StepCompleted(step_no=number, duration_ms=round(seconds * 1000))


def answer(*blocks: AnyBlock | str, problems: dict[str, str] | None = None) -> ModelResponded:
    """Tell what the model answers; text stands for a block of text."""
    given = tuple(TextBlock(text=b) if isinstance(b, str) else b for b in blocks)
    return ModelResponded(
        model="M",
        model_id="fake-1",
        message=Message(role="assistant", blocks=given),
        usage=Usage(input_tokens=10, output_tokens=2),
        cost_usd=0.5,
        stop_reason="end",
        request_hash="",
        request_parts={},
        problems=problems or {},
    )


def thought(text: str) -> ReasoningBlock:
    """Give a block of reasoning."""
    return ReasoningBlock(text=text)


def ask(call_id: str, name: str = "act", arguments: JsonObject | None = None) -> ToolCallBlock:
    """Give a call that the model asks for."""
    given = ARGUMENTS if arguments is None else arguments
    return ToolCallBlock(call_id=call_id, name=name, arguments=given)


def table(*calls: ToolCallBlock, problems: dict[str, str] | None = None) -> tuple[Payload, ...]:
    """Tell how the model put calls on the table."""
    return (model_step(), answer(*calls, problems=problems), step_over())


def called(call_id: str, arguments: JsonObject | None = None, *, again: bool = False) -> ToolCalled:
    """Launch a call."""
    given = ARGUMENTS if arguments is None else arguments
    return ToolCalled(call_id=call_id, tool_name="act", arguments=given, resumed=again)


def done(call_id: str, text: str = "ok", *, unknown: bool = False) -> ToolCompleted:
    """Give the result of a call."""
    return ToolCompleted(
        call_id=call_id,
        tool_name="act",
        output=ToolOutput.of_error(text) if unknown else ToolOutput.of_text(text),
        outcome="unknown" if unknown else None,
    )


def question(
    story: Story,
    call_id: str,
    *,
    kind: Any = "approve",
    arguments: JsonObject | None = None,
    expires_in: float | None = 100.0,
) -> ApprovalRequested:
    """Put a question about a call to a human."""
    given = ARGUMENTS if arguments is None else arguments
    end = None if expires_in is None else story.clock.now() + timedelta(seconds=expires_in)
    return ApprovalRequested(
        call_id=call_id,
        tool_name="act",
        arguments=given,
        digest=arguments_digest("act", given),
        kind=kind,
        expire_at=end,
    )


def yes(
    call_id: str, *, shown: JsonObject | None = None, edited: JsonObject | None = None
) -> ApprovalGranted:
    """Grant a call whose arguments were `shown`."""
    given = ARGUMENTS if shown is None else shown
    return ApprovalGranted(
        call_id=call_id,
        tool_name="act",
        digest=arguments_digest("act", given),
        by="ada",
        arguments=edited,
    )


def no(call_id: str, reason: str = "") -> ApprovalRejected:
    """Refuse a call."""
    return ApprovalRejected(call_id=call_id, tool_name="act", by="ada", reason=reason)


def expired(story: Story, call_id: str, action: Any = "deny") -> ApprovalExpired:
    """Tell that nobody answered."""
    return ApprovalExpired(
        call_id=call_id, tool_name="act", action=action, expire_at=story.clock.now()
    )


# -- moves in words ------------------------------------------------------------------------------


def words(move: Move) -> tuple[str, ...]:
    """Say a move in words, one for each fact that it would write."""
    match move:
        case Emit(facts):
            return tuple(_fact_in_words(fact) for fact in facts)
        case CallModel(request):
            return (f"CallModel {request.tool_choice}",)
        case RunCalls(calls, acts):
            return (f"RunCalls {' '.join(c.call_id for c in calls)}{' acts' if acts else ''}",)
        case AskApprover(calls):
            return (f"AskApprover {' '.join(c.call_id for c in calls)}",)
        case Wait(until):
            return ("Wait" if until is None else f"Wait until {until:%H:%M:%S}",)
        case Finished():
            return ("Finished",)
        case other:
            return (type(other).__name__,)


def texts(move: Move) -> str:
    """Give what the model would read of the results that a move settles."""
    facts = move.facts if isinstance(move, Emit) else ()
    return "\n".join(fact.output.text for fact in facts if isinstance(fact, ToolCompleted))


def _fact_in_words(fact: Payload) -> str:
    match fact:
        case StepStarted():
            return f"step {fact.effect}"
        case ToolCalled():
            return f"called {fact.call_id}{' again' if fact.resumed else ''}"
        case ToolCompleted():
            end = fact.outcome or ("error" if fact.output.is_error else "ok")
            return f"completed {fact.call_id} {end}"
        case ApprovalRequested():
            return f"requested {fact.call_id} {fact.kind}"
        case ApprovalExpired():
            return f"expired {fact.call_id} {fact.action}"
        case RunFailed():
            return f"failed {fact.error_type}"
        case RunFinalizing():
            return f"finalizing {fact.reason}"
        case _:
            return fact.type
