"""The points where code may intervene, the decisions that exist, and which one fits where.

The table is the law: a decision that a point does not allow is refused when the configuration is
loaded, so it can never be taken at run time.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from loom_ia.core.json import JsonObject
from loom_ia.core.model.base import Value, nullable, sparse
from loom_ia.core.model.request import ToolChoice


class PolicyPoint(StrEnum):
    """Where a policy is asked."""

    BEFORE_MODEL = "before_model"
    AFTER_MODEL = "after_model"
    BEFORE_TOOL = "before_tool"
    AFTER_TOOL = "after_tool"
    ON_OUTPUT = "on_output"

    @property
    def is_of_tools(self) -> bool:
        """Whether what is looked at is a call of a tool."""
        return self in (PolicyPoint.BEFORE_TOOL, PolicyPoint.AFTER_TOOL)


class DecisionKind(StrEnum):
    """What a policy may answer."""

    CONTINUE = "continue"
    REPLACE = "replace"
    RETRY = "retry"
    DENY = "deny"
    PAUSE = "pause"
    STOP = "stop"
    FAIL = "fail"


_D = DecisionKind

ALLOWED: Final[Mapping[PolicyPoint, frozenset[DecisionKind]]] = MappingProxyType(
    {
        PolicyPoint.BEFORE_MODEL: frozenset({_D.CONTINUE, _D.REPLACE, _D.STOP, _D.FAIL}),
        PolicyPoint.AFTER_MODEL: frozenset({_D.CONTINUE, _D.RETRY, _D.STOP, _D.FAIL}),
        PolicyPoint.BEFORE_TOOL: frozenset({_D.CONTINUE, _D.REPLACE, _D.DENY, _D.PAUSE, _D.FAIL}),
        PolicyPoint.AFTER_TOOL: frozenset({_D.CONTINUE, _D.REPLACE, _D.RETRY, _D.FAIL}),
        PolicyPoint.ON_OUTPUT: frozenset({_D.CONTINUE, _D.REPLACE, _D.RETRY, _D.FAIL}),
    }
)
"""Which decisions each point allows."""


def is_allowed(point: PolicyPoint, decision: DecisionKind) -> bool:
    """Tell whether `decision` may be taken at `point`."""
    return decision in ALLOWED[point]


class RequestChange(Value):
    """What a policy changed in the request of the coming call of the model.

    A part that is absent stays as it was. `tools` are the names of those that are offered, `added`
    what the user is made to say besides, at the end, for this call alone.
    """

    system: str | None = nullable()
    tools: tuple[str, ...] | None = nullable()
    tool_choice: ToolChoice | None = nullable()
    max_tokens: int | None = nullable()
    params: JsonObject | None = nullable()
    added: tuple[str, ...] = sparse(())

    def over(self, earlier: "RequestChange | None") -> "RequestChange":
        """Give this change made after an `earlier` one."""
        if earlier is None:
            return self
        return earlier.model_copy(update={name: getattr(self, name) for name in self.said})

    @property
    def said(self) -> tuple[str, ...]:
        """The parts that are changed."""
        return tuple(n for n in type(self).model_fields if getattr(self, n) not in (None, ()))


class JudgeMark(Value):
    """How an output meets one criterion: a score from 0 to 1, and the least that is accepted."""

    name: str
    score: float
    min_score: float
    blocking: bool = True
    reason: str = sparse("")

    @property
    def passed(self) -> bool:
        """Whether the score is high enough."""
        return self.score >= self.min_score


class Verdict(Value):
    """What a judge said of an output, the `attempt`-th of the run."""

    judge: str
    target: str = "output"
    criteria: tuple[JudgeMark, ...]
    passed: bool
    blocked: bool
    attempt: int = 1


JudgeMode: TypeAlias = Literal["auto", "force", "skip"]
"""Whether judges look: as they say themselves, always, or never."""
