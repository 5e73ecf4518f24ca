"""The contract of an output: its form, checked by code; and what follows when it is not kept.

An output is first cleaned without a model. One that still does not fit is made again by the model
that wrote it, in its own conversation, as often as the contract says. Then the run fails, or the
output is given and marked, or another text is given. What a tool gives is never made again: the
model reads why it was refused.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from loom_ia.core.events.envelope import Payload
from loom_ia.core.events.policy import GuardChecked
from loom_ia.core.json import JsonObject, JsonValue, canonical, storable_text
from loom_ia.core.model.decisions import CONTINUE, Fail, Replace, Retry
from loom_ia.core.model.policy import PolicyPoint
from loom_ia.core.ports.policies import AfterTool, OnOutput, Subject
from loom_ia.core.schema import first_fault
from loom_ia.engine.stages import Asking, Heard
from loom_ia.policies.patterns import search

OnFailure: TypeAlias = Literal["fail", "unverified", "fallback"]
Grounds: TypeAlias = Callable[[str, JsonValue, OnOutput | AfterTool, Asking], list[str]]
"""Gives the values of an output that nothing grounds, each with its place."""

NAME: Final = "loom.contract"
_MOST_SHOWN: Final = 300


@dataclass(frozen=True, slots=True)
class Contract:
    """What an output must be; `max_chars` counts characters, `max_attempts` other tries."""

    schema: JsonObject | None = None
    must_match: str | None = None
    must_not_match: str | None = None
    max_chars: int | None = None
    normalize: bool = True
    max_attempts: int = 1
    tools: bool = False
    on_failure: OnFailure = "fail"
    fallback_message: str = ""
    grounds: Grounds | None = None


@dataclass(frozen=True, slots=True)
class Checked:
    """An output that was looked at: as it is once cleaned, and what is wrong with it."""

    text: str
    data: JsonValue = None
    problems: tuple[str, ...] = ()


async def check(text: str, contract: Contract, *, is_json: bool = False) -> Checked:
    """Clean an output and look at it. `is_json` tells that it is a document already."""
    cleaned = normalized(text, contract) if contract.normalize and not is_json else text
    problems: list[str] = []
    data: JsonValue = None
    if not cleaned.strip():
        return Checked(cleaned, None, ("it is empty",))
    if contract.schema is not None:
        data, problem = _document(cleaned, contract.schema)
        problems += [problem] if problem else []
    if contract.max_chars is not None and len(cleaned) > contract.max_chars:
        problems.append(f"it has {len(cleaned)} characters, and at most {contract.max_chars} fit")
    problems += await _patterns(cleaned, contract)
    return Checked(cleaned, None if problems else data, tuple(problems))


def normalized(text: str, contract: Contract) -> str:
    """Take off what stands around an output: spaces, a fence, and prose around a document."""
    cleaned = unfenced(text.strip())
    if contract.schema is None or _is_json(cleaned):
        return cleaned
    inside = _fenced_part(text)
    if inside is not None and _is_json(inside):
        return inside
    for opening, closing in (("{", "}"), ("[", "]")):
        start, end = cleaned.find(opening), cleaned.rfind(closing)
        if 0 <= start < end and _is_json(cleaned[start : end + 1]):
            return cleaned[start : end + 1]
    return cleaned


def unfenced(text: str) -> str:
    """Take off the fence that encloses the whole of a text."""
    if not (text.startswith("```") and text.endswith("```") and len(text) >= 6):
        return text
    first, newline, rest = text.partition("\n")
    if not newline or "```" in rest[:-3] or " " in first[3:].strip():
        return text
    return rest[:-3].strip()


def _fenced_part(text: str) -> str | None:
    start = text.find("```")
    end = text.find("```", start + 3)
    if start < 0 or end < 0:
        return None
    return text[start + 3 : end].partition("\n")[2].strip()


def _is_json(text: str) -> bool:
    return _parsed(text)[1] == ""


def _parsed(text: str) -> tuple[JsonValue, str]:
    from pydantic_core import from_json

    try:
        return from_json(text, allow_inf_nan=False), ""
    except ValueError as error:
        return None, str(error)


def _document(text: str, schema: JsonObject) -> tuple[JsonValue, str]:
    data, problem = _parsed(text)
    if problem:
        return None, f"it is not a JSON document: {problem}"
    fault = first_fault(data, schema)
    if fault is None:
        return data, ""
    place = ".".join(str(part) for part in fault.absolute_path)
    said = str(fault.message)[:_MOST_SHOWN]
    return None, f"{place}: {said}" if place else said


async def _patterns(text: str, contract: Contract) -> list[str]:
    problems: list[str] = []
    if contract.must_match is not None:
        found = await search(contract.must_match, text)
        if found.late:
            problems.append(f"{contract.must_match!r} takes too long on it")
        elif not found:
            problems.append(f"it does not match {contract.must_match!r}")
    if contract.must_not_match is not None:
        found = await search(contract.must_not_match, text, with_place=True)
        if found.late:
            problems.append(f"{contract.must_not_match!r} takes too long on it")
        elif found:
            # Where, never what: the text is what must not be shown.
            place = f"{found.end - found.start} characters from character {found.start + 1} on"
            problems.append(f"{place} match {contract.must_not_match!r}, which it must not")
    return problems


@dataclass(frozen=True, slots=True)
class ContractStage:
    """The contract of the answer of an agent, or of a role."""

    contract: Contract
    name: str = NAME
    points: frozenset[PolicyPoint] = frozenset({PolicyPoint.ON_OUTPUT})
    once: bool = True
    timeout: float | None = 60.0
    tools: frozenset[str] | None = None

    async def hear(self, subject: Subject, asking: Asking) -> Heard:
        """Look at an answer."""
        if not isinstance(subject, OnOutput):
            return Heard()
        contract, attempt = self.contract, asking.attempt
        checked = await check(subject.text, contract)
        problems = list(checked.problems)
        if not problems and contract.grounds is not None:
            problems = contract.grounds(checked.text, checked.data, subject, asking)
        if not problems:
            return self._passed(subject, checked, attempt)
        reason = storable_text("; ".join(problems))
        if attempt <= contract.max_attempts and asking.may_retry:
            facts = (self._failed(reason, attempt, "retry"),)
            return Heard(Retry(reason), facts, tools=contract.tools)
        match contract.on_failure:
            case "fail":
                facts = (self._failed(reason, attempt, "fail"),)
                return Heard(Fail(reason), facts, error_type="guard.contract")
            case "unverified":
                return Heard(CONTINUE, (self._failed(reason, attempt, "unverified"),))
            case "fallback":
                facts = (self._failed(reason, attempt, "fallback"),)
                return Heard(Replace(contract.fallback_message), facts, ends=True)

    def failed(self, error: str) -> Heard:
        """Fail the run: an output that nobody could look at is not given."""
        return Heard(Fail(error), is_error=True)

    def _passed(self, subject: OnOutput, checked: Checked, attempt: int) -> Heard:
        changed = checked.text != subject.text
        fact = GuardChecked(
            guard="contract",
            policy=self.name,
            outcome="passed",
            attempt=attempt,
            normalized=changed,
            data=checked.data,
        )
        return Heard(Replace(checked.text) if changed else CONTINUE, (fact,))

    def _failed(
        self,
        reason: str,
        attempt: int,
        resolution: Literal["retry", "fail", "unverified", "fallback"],
    ) -> GuardChecked:
        return GuardChecked(
            guard="contract",
            policy=self.name,
            outcome="failed",
            reason=reason,
            attempt=attempt,
            resolution=resolution,
        )


@dataclass(frozen=True, slots=True)
class ToolContractStage:
    """The contracts of what tools give, by the name of the tool."""

    contracts: Mapping[str, Contract] = field(default_factory=dict[str, Contract])
    name: str = NAME
    points: frozenset[PolicyPoint] = frozenset({PolicyPoint.AFTER_TOOL})
    once: bool = False
    timeout: float | None = 60.0

    @property
    def tools(self) -> frozenset[str] | None:
        """The tools that have a contract."""
        return frozenset(self.contracts)

    async def hear(self, subject: Subject, asking: Asking) -> Heard:
        """Look at what a tool gave; an error is no output."""
        if not isinstance(subject, AfterTool) or subject.output.is_error:
            return Heard()
        contract, output = self.contracts[subject.spec.name], subject.output
        is_json = output.data is not None
        text = canonical(output.data) if is_json else output.text
        checked = await check(text, contract, is_json=is_json)
        facts: tuple[Payload, ...] = (self._fact(subject, checked),)
        if checked.problems:
            return Heard(Retry("; ".join(checked.problems)), facts)
        if checked.data is None or is_json:
            return Heard(CONTINUE, facts)
        kept = output.model_copy(update={"data": checked.data})
        return Heard(Replace(kept), facts)

    def failed(self, error: str) -> Heard:
        """Refuse what the tool gave: nobody could look at it."""
        return Heard(Retry(error), is_error=True, reason=error)

    def _fact(self, subject: AfterTool, checked: Checked) -> GuardChecked:
        failed = bool(checked.problems)
        return GuardChecked(
            guard="contract",
            policy=self.name,
            target=f"tool:{subject.spec.name}",
            outcome="failed" if failed else "passed",
            reason=storable_text("; ".join(checked.problems)),
            resolution="error" if failed else None,
            call_id=subject.call_id,
        )
