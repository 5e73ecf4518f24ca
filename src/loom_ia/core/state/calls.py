"""A call on the table, from the moment a model asks for it to the moment its result is known.

A call is settled once it has an output. A call that was launched and has none was either launched
by the open step, and is running, or by an earlier one, and was interrupted: its effect is unknown.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, TypeAlias

from loom_ia.core.ids import CallId, RunId, SpanId
from loom_ia.core.json import JsonObject, JsonValue, canonical
from loom_ia.core.model.content import ToolOutput
from loom_ia.core.model.tooling import Assessment, ExpiryAction, ToolSpec
from loom_ia.core.state.frozen import Evolving

QuestionKind: TypeAlias = Literal["approve", "unknown_effect", "input"]
AskedAt: TypeAlias = Literal["inside", "mid", "after", "hook"]
"""Where a step asks: inside itself, at its end to run again, at its end for good, or in a hook."""
EffectPhase: TypeAlias = Literal["started", "done", "failed"]
AT_LAUNCH: Final = "at_launch"
"""The second look at a call, once a human let it go."""


@dataclass(frozen=True, slots=True)
class Granted:
    """A human, a rule or a function said yes, for one launch."""

    by: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Rejected:
    """The answer is no, for this reason."""

    by: str
    at: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class Expired:
    """Nobody answered in time; `action` says what becomes of the call."""

    action: ExpiryAction
    at: datetime


Verdict: TypeAlias = Granted | Rejected | Expired


@dataclass(frozen=True)
class Question(Evolving):
    """What a human must answer about a call.

    `digest` identifies the exact tool and arguments that were shown; `launches` how often the call
    had been launched when it was asked, so that an answer never covers a later launch. `number`
    counts the questions about the same call, from 1 on; `id` is that of the request. `notice` is
    the sentence that its tool says of the call, `told` the targets whose notice was settled.
    """

    kind: QuestionKind
    digest: str
    arguments: JsonObject
    reason: str
    asked_at: datetime
    expire_at: datetime | None
    launches: int
    number: int = 1
    verdict: Verdict | None = None
    id: str = ""
    notice: str = ""
    told: tuple[str, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether the answer is still awaited."""
        return self.verdict is None


@dataclass(frozen=True)
class Inquiry(Evolving):
    """What a step asked, under a key: `id` names it in the whole store.

    `answer` is in the form of the journal. `starts` counts how often the effect `key` had been
    started when an inquiry about it was made. `told` are the targets whose notice was settled.
    """

    id: str
    key: str
    kind: QuestionKind
    asked: AskedAt
    payload: JsonValue
    answer_schema: JsonValue
    asked_at: datetime
    expire_at: datetime | None
    into: str = ""
    tool_name: str = ""
    tool_call_id: str = ""
    position: int = 0
    starts: int = 0
    answer: JsonValue = None
    is_open: bool = True
    told: tuple[str, ...] = ()

    @property
    def is_refused(self) -> bool:
        """Whether somebody did not let an effect be repeated whose end nobody saw."""
        if self.is_open or self.kind != "unknown_effect":
            return False
        return not (isinstance(self.answer, dict) and self.answer.get("approved") is True)


@dataclass(frozen=True, slots=True)
class Effect:
    """What is known of an effect of a step; `starts` counts the times that it was begun."""

    key: str
    position: int
    starts: int = 0
    done: bool = False
    result: JsonValue = None


@dataclass(frozen=True, slots=True)
class Failure:
    """How a step failed: the name of the error, what it says, and the key that it is about."""

    error_type: str
    error: str
    key: str = ""


@dataclass(frozen=True, slots=True)
class Hold:
    """A policy wants somebody to let a call go; the request is open `expires_in` seconds."""

    policy: str
    reason: str
    expires_in: float | None = None


@dataclass(frozen=True)
class Call(Evolving):
    """One call of a tool, or of a step. `arguments` are those that will run, edits included.

    `problem` tells why the arguments cannot run, `assessment` what they call for; `edited` names
    the fields that a human changed; `remembered` is what the journal keeps of an effect that
    happened before its result was known; `was_granted` tells that an earlier question about it was
    answered by yes. `undone` counts the launches of which the outside world told that none took
    effect.

    `passed` are the points whose policies let it go on, and `AT_LAUNCH` when they looked again
    after a human did; `denial` is why they do not, `hold` why somebody must be asked, and
    `replaced_by` names the policy that wrote its arguments.

    A call that is delegated has the run that it opened, `child_run_id`. Of a step, `occurrence` is
    the how-manieth time it was reached and `driven_in` the drive that ran it last; `attempt` counts
    what was tried again, next at `retry_at`; `parked` tells that its last execution ended in a
    known way, so that it may simply be run again.
    """

    call_id: CallId
    name: str
    arguments: JsonObject
    problem: str = ""
    assessment: Assessment | None = None
    edited: tuple[str, ...] = ()
    question: Question | None = None
    launches: int = 0
    launched_in: SpanId = ""
    span: SpanId = ""
    launched_at: datetime | None = None
    output: ToolOutput | None = None
    unknown: bool = False
    remembered: ToolOutput | None = None
    was_granted: bool = False
    undone: int = 0
    passed: frozenset[str] = frozenset()
    denial: str = ""
    hold: Hold | None = None
    replaced_by: str = ""
    child_run_id: RunId = ""
    occurrence: int = 0
    driven_in: str = ""
    attempt: int = 1
    retry_at: datetime | None = None
    parked: bool = False
    inquiries: tuple[Inquiry, ...] = ()
    effects: tuple[Effect, ...] = ()
    failure: Failure | None = None

    @property
    def address(self) -> str:
        """The name under which its open question is answered.

        It is the id of the call, and another name once an earlier question was answered by yes, so
        that the same yes, sent again, never has the call made again.
        """
        question = self.question
        if question is None or not self.was_granted or not question.is_open:
            return self.call_id
        return f"{self.call_id}@{question.number}"

    def declared(self, tool: ToolSpec) -> ToolSpec:
        """Give what holds for this call of `tool`: what it declares, and what it said of it."""
        return tool.for_call(
            self.assessment, edited=bool(self.edited), replaced=bool(self.replaced_by)
        )

    @property
    def is_settled(self) -> bool:
        """Whether the model can be told a result."""
        return self.output is not None

    @property
    def awaits_answer(self) -> bool:
        """Whether a question about this call is open."""
        if self.output is None and self.question is not None and self.question.is_open:
            return True
        return any(inquiry.is_open for inquiry in self.inquiries)

    @property
    def open_inquiries(self) -> tuple[Inquiry, ...]:
        """What the step asked and nobody answered."""
        return tuple(inquiry for inquiry in self.inquiries if inquiry.is_open)

    def inquiry(self, key: str) -> Inquiry | None:
        """Find what was asked last under a key."""
        return next((i for i in reversed(self.inquiries) if i.key == key), None)

    def effect(self, key: str) -> Effect | None:
        """Find what is known of an effect."""
        return next((effect for effect in self.effects if effect.key == key), None)

    @property
    def is_interrupted_or_running(self) -> bool:
        """Whether it was launched and its end is not known yet."""
        return self.launches > 0 and self.output is None

    @property
    def answer(self) -> Verdict | None:
        """The verdict that bears on the next launch, if any."""
        question = self.question
        return question.verdict if question and question.launches == self.launches else None

    def past(self, point: str, *, at_launch: bool) -> "Call":
        """Go past a point."""
        return self.but(passed=self.passed | {AT_LAUNCH if at_launch else point})

    def asked(self, question: Question) -> "Call":
        """Put a question; an unknown end is forgotten until it is answered."""
        number = self.question.number + 1 if self.question else 1
        asked = question.but(number=number)
        passed = self.passed - {AT_LAUNCH}
        return self.but(question=asked, output=None, unknown=False, failure=None, passed=passed)

    def answered(self, verdict: Verdict, edited: JsonObject | None) -> "Call":
        """Take the first answer to an open question; a later one changes nothing."""
        question = self.question
        if question is None or not question.is_open:
            return self
        call = self.but(
            question=question.but(verdict=verdict),
            was_granted=self.was_granted or isinstance(verdict, Granted),
        )
        if edited is None:
            return call
        before = {name: canonical(value) for name, value in self.arguments.items()}
        after = {name: canonical(value) for name, value in edited.items()}
        names = sorted(before.keys() | after.keys())
        changed = tuple(name for name in names if before.get(name) != after.get(name))
        return call.but(arguments=edited, edited=changed)

    def launched(self, span: SpanId, step: SpanId, at: datetime) -> "Call":
        """Start the call in the step whose span is `step`."""
        return self.but(
            launches=self.launches + 1,
            span=span,
            launched_in=step,
            launched_at=at,
            parked=False,
            retry_at=None,
        )

    @property
    def is_undone(self) -> bool:
        """Whether it was launched, and is known not to have taken effect."""
        return 0 < self.launches == self.undone

    def not_done(self) -> "Call":
        """Note that nothing happened: it may be launched as if it had never been."""
        if self.output is not None and not self.unknown:
            return self
        return self.but(undone=self.launches, launched_in="")

    def set_down(self) -> "Call":
        """Note that its execution ended without an end of the call: it may be run again."""
        return self.but(launched_in="", parked=True)

    def inquired(self, inquiry: Inquiry) -> "Call":
        """Ask something; the execution is over."""
        return self.set_down().but(inquiries=(*self.inquiries, inquiry))

    def told(self, inquiry_id: str, answer: JsonValue) -> "Call":
        """Answer an inquiry that is open."""
        return self.but(
            inquiries=tuple(
                i.but(answer=answer, is_open=False) if i.id == inquiry_id and i.is_open else i
                for i in self.inquiries
            )
        )

    def noticed(self, request: str, target: str) -> "Call":
        """Note that nothing more is owed to `target` about a request."""
        question = self.question
        if question is not None and question.id == request:
            return self.but(question=question.but(told=(*question.told, target)))
        return self.but(
            inquiries=tuple(
                i.but(told=(*i.told, target)) if i.id == request else i for i in self.inquiries
            )
        )

    def acted(self, effect: Effect) -> "Call":
        """Take note of an effect, in the place of what was known of it."""
        kept = tuple(known for known in self.effects if known.key != effect.key)
        return self.but(effects=(*kept, effect))

    def completed(self, output: ToolOutput, *, unknown: bool) -> "Call":
        """Take the result; a result that is already known stays, unless its end was unknown."""
        if self.output is not None and not self.unknown:
            return self
        return self.but(output=output, unknown=unknown)


def to_run_again(call: Call) -> Call:
    """Give a step that failed as it was before it ran; one whose effect is not known stays so.

    A human who did not let it be repeated is asked again, since nobody saw its end meanwhile.
    """
    if call.output is None:
        return call
    refused = (
        call.question is not None
        and call.question.kind == "unknown_effect"
        and isinstance(call.answer, Rejected | Expired)
    )
    is_unknown = call.unknown or refused
    kept = tuple(inquiry for inquiry in call.inquiries if not inquiry.is_refused)
    call = call.but(output=None, failure=None, attempt=1, question=None, inquiries=kept)
    return call.but(unknown=False) if is_unknown else call.set_down()
