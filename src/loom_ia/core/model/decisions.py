"""The decisions that code may take; each point says which of them fit there."""

from dataclasses import dataclass
from typing import Any, Final, TypeAlias


@dataclass(frozen=True, slots=True)
class Continue:
    """Go on."""


@dataclass(frozen=True, slots=True)
class Replace:
    """Go on with `value` in the place of what was looked at.

    It is a model request, the arguments of a call, what a tool gave, or an answer, as the point
    says; an answer may be plain text.
    """

    value: Any


@dataclass(frozen=True, slots=True)
class Retry:
    """Have it made again by whoever made it, who reads this feedback."""

    feedback: str


@dataclass(frozen=True, slots=True)
class Deny:
    """What was to happen does not, for this reason."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Pause:
    """Somebody must say whether to go on; `expires_in` is in seconds."""

    reason: str = ""
    expires_in: float | None = None


@dataclass(frozen=True, slots=True)
class Stop:
    """No more is to be done: a graph is completed here, an agent gives a last answer."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Fail:
    """The run fails, for this reason."""

    reason: str = ""


CONTINUE: Final = Continue()
"""Go on."""

Decision: TypeAlias = Continue | Replace | Retry | Deny | Pause | Stop | Fail
"""What a policy may answer; each point allows some of them."""
HookDecision: TypeAlias = Continue | Deny | Pause | Stop | Fail
"""What a hook of a graph may answer."""
