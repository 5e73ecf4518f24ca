"""No value without a source: what an answer claims, and what a call is given.

Sources are what the user said, what tools gave and the state of the session, in the run and in the
conversation before it. What a model wrote is none: neither earlier answers, nor what a role or
another agent gave. What a human wrote into a call is his word.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from loom_ia.core.events.policy import GuardChecked
from loom_ia.core.json import JsonValue, storable_text
from loom_ia.core.model.content import ToolOutput
from loom_ia.core.model.decisions import CONTINUE, Deny, Fail
from loom_ia.core.model.messages import Message, is_repair
from loom_ia.core.model.policy import PolicyPoint
from loom_ia.core.ports.policies import AfterTool, BeforeTool, OnOutput, Subject
from loom_ia.core.prompts import Language, TextName, prompt_text
from loom_ia.core.state.results import results_of
from loom_ia.core.state.run import RunState
from loom_ia.core.state.session import RunView, state_of
from loom_ia.engine.stages import Asking, Heard
from loom_ia.policies.grounded import ALL, Kind, Missing, Sources, missing

NAME: Final = "loom.grounded"
_MOST_TOLD: Final = 20


@dataclass(frozen=True, slots=True)
class Ground:
    """What is looked for, what needs no source, and the tools whose results a model wrote."""

    kinds: frozenset[Kind] = ALL
    allow: tuple[str, ...] = ()
    written: frozenset[str] = frozenset()

    def missing(self, content: JsonValue, view: RunView) -> tuple[Missing, ...]:
        """Give what `content` claims and no source of a run holds."""
        sources = sources_of(view, self.written)
        return missing(content, sources, kinds=self.kinds, allow=self.allow)

    def of_answer(
        self, text: str, data: JsonValue, subject: OnOutput | AfterTool, asking: Asking
    ) -> list[str]:
        """Give what is wrong with an answer."""
        found = self.missing(text if data is None else data, asking.view)
        language = subject.context.language
        return [prompt_text(language, "ungrounded", claims=told(found, language))] if found else []


@dataclass(frozen=True, slots=True)
class GroundingStage:
    """Refuses a call whose arguments hold what no source does, by the name of the tool."""

    grounds: dict[str, Ground] = field(default_factory=dict[str, Ground])
    name: str = NAME
    points: frozenset[PolicyPoint] = frozenset({PolicyPoint.BEFORE_TOOL})
    once: bool = False
    timeout: float | None = 60.0

    @property
    def tools(self) -> frozenset[str] | None:
        """The tools whose calls are looked at."""
        return frozenset(self.grounds)

    async def hear(self, subject: Subject, asking: Asking) -> Heard:
        """Look at the arguments of a call; those that a human wrote are let through."""
        if not isinstance(subject, BeforeTool):
            return Heard()
        call = asking.run.call(subject.call_id)
        if call is not None and call.edited:
            return Heard()
        ground = self.grounds[subject.spec.name]
        found = ground.missing(dict(subject.arguments), asking.view)
        reason = ""
        if found:
            language = subject.context.language
            reason = storable_text(
                prompt_text(language, "ungrounded", claims=told(found, language))
            )
        fact = GuardChecked(
            guard="grounded",
            policy=self.name,
            target=f"tool:{subject.spec.name}",
            outcome="failed" if found else "passed",
            reason=reason,
            resolution="error" if found else None,
            call_id=subject.call_id,
        )
        return Heard(Deny(reason) if found else CONTINUE, (fact,))

    def failed(self, error: str) -> Heard:
        """Fail the run: what nobody could look at is not done."""
        return Heard(Fail(error), is_error=True)


_CLAIMS: Final[dict[Kind, TextName]] = {
    "amount": "claim_amount",
    "percentage": "claim_percentage",
    "date": "claim_date",
    "reference": "claim_reference",
    "email": "claim_email",
    "phone": "claim_phone",
    "iban": "claim_iban",
    "number": "claim_number",
}


def told(found: Iterable[Missing], language: Language) -> str:
    """List claims, each with its place."""
    names = [_claim(claim, language) for claim in found]
    more = ["…"] if len(names) > _MOST_TOLD else []
    return "; ".join([*names[:_MOST_TOLD], *more])


def _claim(claim: Missing, language: Language) -> str:
    said = prompt_text(language, _CLAIMS[claim.kind], text=repr(claim.text), place=claim.place)
    return said if claim.readable else prompt_text(language, "claim_unreadable", claim=said)


def sources_of(view: RunView, written: frozenset[str] = frozenset()) -> Sources:
    """Give what grounds the values of a run; `written` are tools whose results a model wrote."""
    run = _source(view)
    texts: list[str] = []
    values: list[object] = [state_of(view, run)]
    for output in (*_of_history(view.history, written), *_of_run(run, written)):
        if output.data is not None:
            values.append(output.data)
        texts.append(output.text)
    said = (*view.history, *run.conversation.messages)
    texts += [m.as_text() for m in said if m.role == "user" and not is_repair(m)]
    return Sources.of(texts=texts, values=values)


def _source(view: RunView) -> RunState:
    """Give the run whose sources count: the caller's, when the run is that of a role."""
    header = view.run.header
    parent = header.parent_run_id
    return view.runs.get(parent, view.run) if header.role and parent else view.run


def _of_run(run: RunState, written: frozenset[str]) -> Iterator[ToolOutput]:
    for result in results_of(run):
        if result.name not in written and not result.output.is_error:
            yield result.output


def _of_history(history: Iterable[Message], written: frozenset[str]) -> Iterator[ToolOutput]:
    names: dict[str, str] = {}
    for message in history:
        names |= {call.call_id: call.name for call in message.calls}
        for result in message.results:
            if names.get(result.call_id, "") not in written and not result.output.is_error:
                yield result.output
