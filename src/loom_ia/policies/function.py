"""A policy made of a function, and what a configuration makes of it.

Law. What a policy may decide is declared with it and checked when it is loaded, so that a decision
which its point does not allow is never taken while a run goes on.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias, cast

from loom_ia.core.errors import InvalidDecision, Problem
from loom_ia.core.json import JsonValue
from loom_ia.core.model.decisions import Continue, Decision, Fail, Retry
from loom_ia.core.model.policy import DecisionKind, PolicyPoint, is_allowed
from loom_ia.core.ports.policies import PolicyContext, Subject
from loom_ia.engine.stages import Asking, Heard
from loom_ia.engine.threads import tool_threads

OnError: TypeAlias = Literal["block", "allow"]
_Said: TypeAlias = Decision | Awaitable[Decision]
_ONE: Final = 1


@dataclass(frozen=True)
class PolicyFunction:
    """A function under `@policy`: it can still be called as it is.

    `points` are those where it can be asked and `decisions` what it may answer besides to go on.
    `faults` tells what keeps it from being used.
    """

    function: Callable[..., Any]
    name: str
    description: str
    points: tuple[PolicyPoint, ...]
    decisions: frozenset[DecisionKind]
    takes_context: bool
    faults: tuple[Problem, ...] = ()

    def __call__(self, *args: Any) -> Any:
        """Call the function itself."""
        return self.function(*args)

    async def decide(self, subject: Subject, context: PolicyContext) -> Decision:
        """Ask the function; one that is not async runs in a thread. Raises what it raises.

        Raises `InvalidDecision` for an answer that it does not declare.
        """
        given = (subject, context) if self.takes_context else (subject,)
        if inspect.iscoroutinefunction(self.function):
            answer = await self.function(*given)
        else:
            answer = await tool_threads.run(lambda: self.function(*given))
            if inspect.isawaitable(answer):
                answer = await answer
        kind = _kind_of(answer)
        if kind is None:
            raise InvalidDecision(
                "it answered with {answer!r}, which is not a decision (CONTINUE goes on)",
                answer=answer,
            )
        if kind is not DecisionKind.CONTINUE and kind not in self.decisions:
            raise InvalidDecision(
                "it decided {decision}, which it does not declare (declared: {declared})",
                decision=kind.value,
                declared=", ".join(sorted(self.decisions)) or "nothing",
            )
        return cast("Decision", answer)


def policy(
    *,
    points: Iterable[str],
    decisions: Iterable[str] = (),
    name: str = "",
) -> Callable[[Callable[..., _Said]], PolicyFunction]:
    """Make a policy of a function of a subject, or of a subject and a `PolicyContext`.

        @policy(points=["before_tool"], decisions=["deny"])
        def no_night_mail(subject: BeforeTool, context: PolicyContext) -> Decision:
            ...

    `decisions` are those that it may take besides `CONTINUE`; each point must allow each of them.
    Faults are told when a configuration is loaded that uses it, all at once.
    """

    def made(function: Callable[..., _Said]) -> PolicyFunction:
        faults: list[Problem] = []
        title = name or getattr(function, "__name__", "policy")

        def fault(template: str, /, **params: object) -> None:
            faults.append(Problem("", None, title, template, params))

        known = _points(points, fault)
        allowed = _decisions(decisions, known, fault)
        count = len(_positional(function))
        if count not in (_ONE, 2):
            fault("a policy takes a subject, or a subject and a context, not {count}", count=count)
        if title.startswith("loom."):
            fault("names that start with loom. are reserved")
        return PolicyFunction(
            function,
            title,
            inspect.getdoc(function) or "",
            known,
            allowed,
            takes_context=count == 2,
            faults=tuple(faults),
        )

    return made


def _points(points: Iterable[str], fault: Callable[..., None]) -> tuple[PolicyPoint, ...]:
    given = (points,) if isinstance(points, str) else tuple(points)
    known = [PolicyPoint(p) for p in given if p in tuple(PolicyPoint)]
    for point in given:
        if point not in tuple(PolicyPoint):
            template = "there is no point {point} (points: {known})"
            fault(template, point=point, known=", ".join(PolicyPoint))
    if not given:
        fault("points is empty: say where it is asked")
    return tuple(dict.fromkeys(known))


def _decisions(
    decisions: Iterable[str], points: tuple[PolicyPoint, ...], fault: Callable[..., None]
) -> frozenset[DecisionKind]:
    given = (decisions,) if isinstance(decisions, str) else tuple(decisions)
    found: set[DecisionKind] = set()
    for decision in given:
        if decision not in tuple(DecisionKind):
            template = "there is no decision {decision} (decisions: {known})"
            fault(template, decision=decision, known=", ".join(DecisionKind))
            continue
        kind = DecisionKind(decision)
        found.add(kind)
        for point in points:
            if not is_allowed(point, kind):
                allowed = ", ".join(k for k in DecisionKind if is_allowed(point, k))
                template = "{point} does not allow {decision} (it allows {allowed})"
                fault(template, point=point.value, decision=decision, allowed=allowed)
    return frozenset(found)


def _positional(function: Callable[..., Any]) -> list[inspect.Parameter]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    return [p for p in parameters if p.kind in kinds and p.default is inspect.Parameter.empty]


def _kind_of(answer: object) -> DecisionKind | None:
    name = type(answer).__name__.lower()
    is_ours = type(answer).__module__ == Continue.__module__
    return DecisionKind(name) if is_ours and name in tuple(DecisionKind) else None


@dataclass(frozen=True, slots=True)
class FunctionStage:
    """A policy as an agent uses it: under its name, at these points, with these params.

    A second try is asked for at most `max_attempts` times in a run; then the run fails.
    """

    policy: PolicyFunction
    name: str
    points: frozenset[PolicyPoint]
    params: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    timeout: float | None = 5.0
    on_error: OnError = "block"
    max_attempts: int = 1
    once: bool = False
    tools: frozenset[str] | None = None

    async def hear(self, subject: Subject, asking: Asking) -> Heard:
        """Ask the function."""
        decision = await self.policy.decide(subject, subject.context)
        of_result = subject.context.point is PolicyPoint.AFTER_TOOL
        is_last = asking.attempt > self.max_attempts or not asking.may_retry
        if isinstance(decision, Retry) and not of_result and is_last:
            return Heard(Fail(decision.feedback))
        return Heard(decision)

    def failed(self, error: str) -> Heard:
        """Fail the run, or go on, as the configuration says."""
        return failure(error, self.on_error)


def failure(error: str, on_error: OnError) -> Heard:
    """Give what follows from the failure of a policy itself."""
    heard = Heard(Fail(error), is_error=True, reason=error)
    return heard if on_error == "block" else replace(heard, decision=Continue())
