"""The points where code may intervene, the decisions that exist, and which one fits where.

The table is the law: a decision that a point does not allow is refused when the configuration is
loaded, so it can never be taken at run time.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class PolicyPoint(StrEnum):
    """Where a policy is asked."""

    BEFORE_MODEL = "before_model"
    AFTER_MODEL = "after_model"
    BEFORE_TOOL = "before_tool"
    AFTER_TOOL = "after_tool"
    ON_OUTPUT = "on_output"


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
