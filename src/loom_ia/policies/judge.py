"""A judge: a model that marks an output by written criteria, when code says that it looks.

Law. The model only marks. Whether it is asked, what its marks mean and what follows is decided
here; marks that cannot be read are an error, never a pass.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, Final, Literal, TypeAlias, cast

from loom_ia.core.errors import InvalidDecision
from loom_ia.core.events.envelope import Payload
from loom_ia.core.events.policy import GuardChecked, JudgeEvaluated, SkipReason
from loom_ia.core.json import JsonObject, JsonValue, storable_text
from loom_ia.core.model.content import TextBlock
from loom_ia.core.model.context import ContextItem
from loom_ia.core.model.decisions import CONTINUE, Fail, Replace, Retry
from loom_ia.core.model.messages import Message
from loom_ia.core.model.policy import JudgeMark, PolicyPoint
from loom_ia.core.model.request import ModelRequest
from loom_ia.core.model.tooling import ToolSpec
from loom_ia.core.plan import ModelFacts
from loom_ia.core.ports.policies import OnOutput, Subject
from loom_ia.core.prompts import Language, prompt_text
from loom_ia.engine.material import Gathered, Section, gather
from loom_ia.engine.sections import tagged
from loom_ia.engine.stages import Asked, Asking, Chain, Heard
from loom_ia.engine.threads import tool_threads
from loom_ia.policies.contract import OnFailure
from loom_ia.policies.function import OnError, failure

Condition: TypeAlias = Callable[[OnOutput], object]
"""Tells, by True or False, whether a judge looks; it may be async."""
VERDICT: Final = "verdict"
_LONGEST_REASON: Final = 1_000


@dataclass(frozen=True, slots=True)
class Criterion:
    """A rule in words, the least score that is accepted, and whether less than that blocks."""

    name: str
    rule: str
    min_score: float = 0.8
    blocking: bool = True


@dataclass(frozen=True, slots=True)
class When:
    """When a judge looks: in this part of the runs, if this holds, for these tenants, there."""

    sample: float = 1.0
    condition: Condition | None = None
    tenants: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class JudgeStage:
    """A judge as an agent uses it."""

    judge: str
    chain: Chain
    criteria: tuple[Criterion, ...]
    context: tuple[ContextItem, ...] = ()
    when: When = When()
    max_attempts: int = 1
    with_tools: bool = True
    on_failure: OnFailure = "fail"
    fallback_message: str = ""
    on_error: OnError = "block"
    forces_tool: Mapping[str, bool] = field(default_factory=dict[str, bool])
    language: Language = "en"
    profile: str | None = None
    timeout: float | None = None
    points: frozenset[PolicyPoint] = frozenset({PolicyPoint.ON_OUTPUT})
    once: bool = True
    tools: frozenset[str] | None = None

    @property
    def name(self) -> str:
        """What the journal calls it."""
        return f"loom.judge.{self.judge}"

    async def hear(self, subject: Subject, asking: Asking) -> Heard:
        """Look at an answer, or say why not."""
        if not isinstance(subject, OnOutput):
            return Heard()
        skipped = await self._skipped(subject, asking)
        if skipped is not None:
            fact = GuardChecked(guard="judge", policy=self.name, outcome="skipped", reason=skipped)
            return Heard(CONTINUE, (fact,))
        found = await gather(
            self.context, self.judge, asking.caller, self.language, needs_all=False
        )
        said = self._said(found, subject)
        asked = await asking.ask_model(
            self.judge, self.chain, lambda facts: self._request(facts, said)
        )
        try:
            marks = self._marks(asked.arguments)
        except InvalidDecision as error:
            return replace(self.failed(str(error)), facts=asked.facts)
        return self._judged(marks, asked, asking)

    def failed(self, error: str) -> Heard:
        """Fail the run, or go on, as the configuration says."""
        return failure(error, self.on_error)

    # -- whether it looks -------------------------------------------------------------------------

    async def _skipped(self, subject: OnOutput, asking: Asking) -> SkipReason | None:
        when, mode = self.when, asking.judges
        if mode == "skip":
            return "caller_skip"
        if mode == "force":
            return None
        if when.profiles and self.profile not in when.profiles:
            return "other_profile"
        if when.tenants and subject.tenant_id not in when.tenants:
            return "filtered"
        if not sampled(_drawn_for(asking), self.judge, when.sample):
            return "sampled_out"
        if when.condition is not None and not await _holds(when.condition, subject):
            return "condition_false"
        return None

    # -- what it is asked -------------------------------------------------------------------------

    def _said(self, found: Gathered, subject: OnOutput) -> Message:
        """Put together what it reads: criteria, what it declared, and the output."""
        rules = "\n".join(f"- {c.name}: {c.rule}" for c in self.criteria)
        own = (Section("criteria", rules), Section("output", subject.text))
        text = TextBlock(text=storable_text(tagged((*found.sections, *own))))
        return Message(role="user", blocks=(text, *found.files))

    def _request(self, facts: ModelFacts, said: Message) -> ModelRequest:
        forced = self.forces_tool.get(facts.id, True)
        return ModelRequest(
            model=facts.id,
            system=prompt_text(self.language, "judge_system"),
            history=(),
            messages=(said,),
            tools=(verdict_tool(self.language, tuple(c.name for c in self.criteria)),),
            tool_choice="required" if forced else "auto",
            max_tokens=facts.max_tokens,
            params=facts.params,
            language=self.language,
        )

    # -- what it said -----------------------------------------------------------------------------

    def _marks(self, said: Mapping[str, object]) -> tuple[JudgeMark, ...]:
        """Read marks: each criterion once, each score a number from 0 to 1."""
        given = said.get("criteria")
        if not isinstance(given, list):
            raise InvalidDecision("the judge gave no list of criteria")
        found: dict[str, tuple[float, str]] = {}
        for item in cast("list[Any]", given):
            if not isinstance(item, dict):
                raise InvalidDecision("the judge gave a criterion that is no object")
            entry = cast("dict[str, Any]", item)
            name, score = entry.get("name"), _score(entry.get("score"))
            if not isinstance(name, str) or score is None:
                raise InvalidDecision("the judge gave a score that is no number from 0 to 1")
            if name in found:
                raise InvalidDecision("the judge marked {name} twice", name=name)
            reason = entry.get("reason")
            found[name] = (score, reason if isinstance(reason, str) else "")
        known = {criterion.name for criterion in self.criteria}
        if found.keys() != known:
            odd = ", ".join(sorted(found.keys() ^ known))
            raise InvalidDecision("the judge did not mark the criteria asked for: {odd}", odd=odd)
        return tuple(
            JudgeMark(
                name=c.name,
                score=found[c.name][0],
                min_score=c.min_score,
                blocking=c.blocking,
                reason=storable_text(found[c.name][1][:_LONGEST_REASON]),
            )
            for c in self.criteria
        )

    def _judged(self, marks: tuple[JudgeMark, ...], asked: Asked, asking: Asking) -> Heard:
        attempt = asking.attempt
        failed = tuple(mark for mark in marks if not mark.passed)
        blocked = any(mark.blocking for mark in failed)
        target = _target(asking)
        evaluated = JudgeEvaluated(
            judge=self.judge,
            policy=self.name,
            target=target,
            model=asked.model,
            model_id=asked.model_id,
            criteria=marks,
            passed=not failed,
            blocked=blocked,
            attempt=attempt,
        )
        facts: tuple[Payload, ...] = (*asked.facts, evaluated)
        if not blocked:
            return Heard(CONTINUE, (*facts, self._checked(target, attempt)))
        reason = "; ".join(self._told(mark) for mark in failed if mark.blocking)
        if attempt <= self.max_attempts and asking.may_retry:
            checked = self._checked(target, attempt, reason, "retry")
            return Heard(Retry(reason), (*facts, checked), tools=self.with_tools)
        checked = self._checked(target, attempt, reason, self.on_failure)
        match self.on_failure:
            case "fail":
                return Heard(Fail(reason), (*facts, checked), error_type="guard.judge")
            case "unverified":
                return Heard(CONTINUE, (*facts, checked))
            case "fallback":
                return Heard(Replace(self.fallback_message), (*facts, checked), ends=True)

    def _told(self, mark: JudgeMark) -> str:
        return prompt_text(
            self.language,
            "judge_failed",
            name=mark.name,
            score=f"{mark.score:g}",
            least=f"{mark.min_score:g}",
            reason=mark.reason or "-",
        )

    def _checked(
        self,
        target: str,
        attempt: int,
        reason: str = "",
        resolution: Literal["retry", "fail", "unverified", "fallback"] | None = None,
    ) -> GuardChecked:
        return GuardChecked(
            guard="judge",
            policy=self.name,
            target=target,
            outcome="failed" if resolution else "passed",
            reason=storable_text(reason),
            attempt=attempt,
            resolution=resolution,
        )


def sampled(run_id: str, judge: str, rate: float) -> bool:
    """Tell whether a run is one of those that a judge looks at: the same ones each time.

    The first eight bytes of a SHA-256 of both names, as a part of one, are compared with `rate`.
    """
    drawn = int.from_bytes(sha256(f"{run_id}:{judge}".encode()).digest()[:8], "big")
    return drawn / 2**64 < rate


def verdict_tool(language: Language, names: tuple[str, ...]) -> ToolSpec:
    """Give the one thing that a judge may call."""
    item: JsonObject = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "enum": cast("JsonValue", list(names))},
            "score": {"type": "number", "minimum": 0, "maximum": 1},
            "reason": {"type": "string"},
        },
        "required": ["name", "score", "reason"],
        "additionalProperties": False,
    }
    schema: JsonObject = {
        "type": "object",
        "properties": {"criteria": {"type": "array", "items": item}},
        "required": ["criteria"],
        "additionalProperties": False,
    }
    return ToolSpec(name=VERDICT, description=prompt_text(language, "verdict"), input_schema=schema)


def _score(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= 1 else None


def _drawn_for(asking: Asking) -> str:
    """Give the run that the lot is drawn for: the caller's, when a role's is looked at."""
    header = asking.run.header
    return (header.parent_run_id or "") if getattr(header, "role", "") else header.run_id


def _target(asking: Asking) -> str:
    role = getattr(asking.run.header, "role", "")
    return f"role:{role}" if role else "output"


async def _holds(condition: Condition, subject: OnOutput) -> bool:
    answer = await tool_threads.run(lambda: condition(subject))
    if inspect.isawaitable(answer):
        answer = cast("object", await answer)
    if not isinstance(answer, bool):
        raise InvalidDecision(
            "the condition of a judge answered {answer!r}, which is neither True nor False",
            answer=answer,
        )
    return answer
