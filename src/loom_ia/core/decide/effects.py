"""What a decision asks for: a closed union of frozen values, performed elsewhere.

`Decision` stays the word of policies; what `decide` returns is a move.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from loom_ia.core.events.envelope import Payload
from loom_ia.core.model.request import ModelRequest
from loom_ia.core.state.calls import Call


@dataclass(frozen=True, slots=True)
class Emit:
    """Write these facts; nothing outside happens."""

    facts: tuple[Payload, ...]


@dataclass(frozen=True, slots=True)
class CallModel:
    """Call the main model. `parts` identify each part of the request, `digest` the whole."""

    request: ModelRequest
    parts: Mapping[str, str]
    digest: str


@dataclass(frozen=True, slots=True)
class RunCalls:
    """Run calls that the journal already says were launched. `acts` when a tool has effects."""

    calls: tuple[Call, ...]
    acts: bool


@dataclass(frozen=True, slots=True)
class AskApprover:
    """Put the open questions to the function that answers in line."""

    calls: tuple[Call, ...]


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing can advance before a human answers, or before `until` when questions expire."""

    until: datetime | None


@dataclass(frozen=True, slots=True)
class Finished:
    """The run is over."""


Effect: TypeAlias = CallModel | RunCalls | AskApprover
Move: TypeAlias = Emit | Effect | Wait | Finished
