"""The decisions that code may take; each point says which of them fit there."""

from dataclasses import dataclass
from typing import Final, TypeAlias


@dataclass(frozen=True, slots=True)
class Continue:
    """Go on."""


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
    """Everything was done: the run is completed here."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Fail:
    """The run fails, for this reason."""

    reason: str = ""


CONTINUE: Final = Continue()
"""Go on."""

Decision: TypeAlias = Continue | Deny | Pause | Stop | Fail
