"""What a decision asks for: a closed union of frozen values, performed elsewhere.

`Decision` stays the word of policies; what `decide` returns is a move.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from loom_ia.core.events.envelope import Payload
from loom_ia.core.ids import CallId, RunId
from loom_ia.core.model.budget import Reserve
from loom_ia.core.model.policy import PolicyPoint
from loom_ia.core.model.request import ModelRequest
from loom_ia.core.state.calls import Call
from loom_ia.core.state.flow import Line


@dataclass(frozen=True, slots=True)
class Opening:
    """A call that is delegated to a run of its own, `child_run_id`."""

    call_id: CallId
    name: str
    child_run_id: RunId


@dataclass(frozen=True, slots=True)
class Emit:
    """Write these facts; nothing outside happens.

    `opens` are the calls among them that open runs of their own, which begin in the same batch.
    """

    facts: tuple[Payload, ...]
    opens: tuple[Opening, ...] = ()


@dataclass(frozen=True, slots=True)
class CallModel:
    """Call the main model. `parts` identify each part of the request, `digest` the whole."""

    request: ModelRequest
    parts: Mapping[str, str]
    digest: str


@dataclass(frozen=True, slots=True)
class AwaitRoom:
    """Wait until other runs of the tree leave room for a call that may consume `reserve`."""

    reserve: Reserve


@dataclass(frozen=True, slots=True)
class RunCalls:
    """Run calls that the journal already says were launched. `acts` when a tool has effects."""

    calls: tuple[Call, ...]
    acts: bool


@dataclass(frozen=True, slots=True)
class RunSteps:
    """See to it that these steps of a graph run, until one of them ends, or until an instant.

    `acts` when one has effects outside. Several lines go on beside each other: what was begun
    before goes on.
    """

    calls: tuple[Call, ...]
    acts: bool
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class StopSteps:
    """Stop these steps: nobody waits for them any more."""

    calls: tuple[Call, ...]


@dataclass(frozen=True, slots=True)
class Review:
    """Ask the policies of a point about calls, or about the present turn of the model.

    With `at_launch` they look at calls again that a human let go.
    """

    point: PolicyPoint
    calls: tuple[Call, ...] = ()
    at_launch: bool = False


@dataclass(frozen=True, slots=True)
class ReviewStep:
    """Ask the hooks of a step that is due, or that ended."""

    line: Line
    call_id: CallId
    after: bool


@dataclass(frozen=True, slots=True)
class Route:
    """Ask where a line goes on: its step ended, or its branches met."""

    line: Line


@dataclass(frozen=True, slots=True)
class Meet:
    """Merge what branches did, and go on from there."""

    line: Line
    branches: tuple[Line, ...]


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


Effect: TypeAlias = (
    CallModel
    | AwaitRoom
    | RunCalls
    | AskApprover
    | Review
    | RunSteps
    | StopSteps
    | ReviewStep
    | Route
    | Meet
)
Move: TypeAlias = Emit | Effect | Wait | Finished
