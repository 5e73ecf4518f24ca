"""What a run and those below it ask of humans: one walk, whoever shows it or answers it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from loom_ia.core.ids import RunId
from loom_ia.core.json import JsonObject, JsonValue
from loom_ia.core.state.calls import Call, Inquiry, Question, QuestionKind
from loom_ia.core.state.run import RunState

DECISION: Final[JsonObject] = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "reason": {"type": "string"},
        "arguments": {"type": "object"},
    },
    "required": ["approved"],
    "additionalProperties": False,
}
"""What answers a question of the kinds `approve` and `unknown_effect`."""


@dataclass(frozen=True, slots=True)
class Asking:
    """A question that is open: who asks, and what.

    A step asks with an `inquiry`; about a call of a tool, or a step whose effect is not known, the
    engine asks with a `question`.
    """

    run: RunState
    call: Call
    inquiry: Inquiry | None
    question: Question | None

    @property
    def id(self) -> str:
        """The name under which it is answered in the whole store."""
        if self.inquiry is not None:
            return self.inquiry.id
        return self.question.id if self.question is not None else ""

    @property
    def kind(self) -> QuestionKind:
        """What kind of answer is wanted."""
        if self.inquiry is not None:
            return self.inquiry.kind
        return self.question.kind if self.question is not None else "approve"

    @property
    def schema(self) -> JsonValue:
        """What an answer must fit."""
        if self.inquiry is None or self.inquiry.kind != "input":
            return DECISION
        return self.inquiry.answer_schema

    @property
    def expire_at(self) -> datetime | None:
        """When it closes, if it does."""
        asked = self.inquiry or self.question
        return asked.expire_at if asked is not None else None


def open_questions(run: RunState, runs: Mapping[RunId, RunState]) -> Iterator[Asking]:
    """Give what a run and those below it ask: branches in declaration order, then by place."""
    if run.outcome is not None:
        return
    for call in _ordered(run):
        if call.child_run_id and call.output is None:
            child = runs.get(call.child_run_id)
            if child is not None:
                yield from open_questions(child, runs)
        for inquiry in call.open_inquiries:
            yield Asking(run, call, inquiry, None)
        if call.output is None and call.question is not None and call.question.is_open:
            yield Asking(run, call, None, call.question)


def _ordered(run: RunState) -> Iterable[Call]:
    if run.flow is None:
        return run.table
    order = {path: rank for rank, path in enumerate(run.flow.lines)}
    return sorted(run.table, key=lambda c: order.get("/".join(c.call_id.split("/")[:-2]), 0))
