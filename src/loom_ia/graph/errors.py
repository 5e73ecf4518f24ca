"""What can go wrong with a graph, as one branch of the tree of `loom_ia.core.errors`.

LoomError
├── RunError               raised by run, resume and fork; carries the result
│   ├── StepFailed · Blocked · HookAborted · RouteError · StepNotFound
│   ├── MaxIterationsExceeded · BudgetExhausted · RunTimeout
│   ├── CheckpointFailed · UnknownEffect · NonDeterministicStep · NotResumable
│   └── DeltaError         what a step gave, or an input, is at fault
│       ├── MergeError ── MergeConflict
│       └── UnknownKey · NotSerializable · ReservedKey
├── RunNotFound (an UnknownRun) · RunExists · RunLocked · GraphChanged · CorruptCheckpoint
├── UnknownInterrupt · ExpiredInterrupt · InvalidAnswer · AmbiguousAnswer
├── StoreError ── KeyNotFound · NestedTransaction
├── InvalidGraph · DuplicateStep · PatternError       (also a ValueError)
├── DuplicateKey · ChildYielded                       inside a step
└── StreamInterrupted · ModelError                    of a model
"""

from collections.abc import Sequence
from typing import Any

from loom_ia.core.errors import (
    CallerError,
    JournalCorrupted,
    KeyNotFound,
    LoomError,
    ModelError,
    NestedTransaction,
    OutsideError,
    RaceError,
    RunExists,
    StoreError,
    StreamInterrupted,
    UnknownRun,
)


class RunError(LoomError):
    """A run of a graph ended badly, or did not begin.

    `result` is where it stands, None when nothing was written; `step` the step at fault, if one
    is. `also` has what the hooks of the run's end raised besides.
    """

    def __init__(self, template: str, /, **params: object) -> None:
        super().__init__(template, **params)
        self.result: Any = None
        self.run_id: str = ""
        self.graph: str = ""
        self.step: str | None = None
        self.also: tuple[BaseException, ...] = ()


class StepFailed(RunError):
    """A step raised, or was too long (`TimeoutError`); `__cause__` is what it raised."""


class Blocked(RunError):
    """A step or a hook refused: `reason`."""

    reason: str = ""


class HookAborted(RunError):
    """A hook raised; `__cause__` is what it raised."""


class RouteError(RunError):
    """A router raised, or gave no target; `__cause__` is what it raised."""


class StepNotFound(RunError):
    """There is no such step: `step`. `problems` has all that is wrong with the graph."""

    problems: Sequence[Any] = ()


class MaxIterationsExceeded(RunError):
    """The graph started as many steps as it may."""


class BudgetExhausted(RunError):
    """No step, token or dollar is left."""


class RunTimeout(RunError):
    """The run was driven longer than its graph allows; resuming gives a fresh allowance."""


class CheckpointFailed(RunError):
    """A fact could not be written; `__cause__` is what the store raised."""


class UnknownEffect(RunError):
    """Nobody saw the end of an effect that may not be repeated; `key` names it, if it has one."""

    key: str | None = None


class NonDeterministicStep(RunError):
    """A step that ran again asked for other keys than before."""


class NotResumable(RunError):
    """A run paused without a store: nobody can ever go on with it."""


class DeltaError(RunError):
    """What a step gave, or what a caller gives, cannot enter the state."""

    key: str | None = None


class MergeError(DeltaError):
    """A value is of another type than the merge of its key takes."""


class MergeConflict(MergeError):
    """Several branches wrote one key that has no merge."""

    branches: tuple[str, ...] = ()


class UnknownKey(DeltaError):
    """A typed state has no such key."""


class ReservedKey(DeltaError):
    """A key that starts with `__`: those are not of the state."""


class NotSerializable(DeltaError):
    """A value that the journal cannot hold; `key_path` is its place, such as `scores[2].value`."""

    key_path: str = ""


class RunNotFound(UnknownRun):
    """The store has no run of that id."""


class RunLocked(RaceError):
    """Another driver holds the run."""


class GraphChanged(CallerError):
    """The run began under another shape of the graph; nothing was written."""


class CorruptCheckpoint(JournalCorrupted):
    """A checkpoint, or an event of a run, cannot be read."""


class UnknownInterrupt(CallerError):
    """No question of that id is open: it is unknown, or was answered."""


class ExpiredInterrupt(CallerError):
    """The question can no longer be answered."""


class InvalidAnswer(CallerError):
    """The answer does not fit what was asked."""


class AmbiguousAnswer(CallerError):
    """Several questions are open: say which one is answered."""


class InvalidGraph(CallerError, ValueError):
    """The graph cannot run; `problems` lists what is wrong."""

    def __init__(self, template: str, /, *, problems: Sequence[Any] = (), **params: object) -> None:
        super().__init__(template, **params)
        self.problems = tuple(problems)


class DuplicateStep(CallerError, ValueError):
    """A step of that name was added already."""


class PatternError(CallerError, ValueError):
    """A pattern is malformed, or matches no tool."""


class DuplicateKey(CallerError):
    """A key was used twice in one execution of a step."""


class ChildYielded(OutsideError):
    """A sub-graph paused where that is not allowed."""


__all__ = [
    "AmbiguousAnswer",
    "Blocked",
    "BudgetExhausted",
    "CheckpointFailed",
    "ChildYielded",
    "CorruptCheckpoint",
    "DeltaError",
    "DuplicateKey",
    "DuplicateStep",
    "ExpiredInterrupt",
    "GraphChanged",
    "HookAborted",
    "InvalidAnswer",
    "InvalidGraph",
    "KeyNotFound",
    "LoomError",
    "MaxIterationsExceeded",
    "MergeConflict",
    "MergeError",
    "ModelError",
    "NestedTransaction",
    "NonDeterministicStep",
    "NotResumable",
    "NotSerializable",
    "PatternError",
    "ReservedKey",
    "RouteError",
    "RunError",
    "RunExists",
    "RunLocked",
    "RunNotFound",
    "RunTimeout",
    "StepFailed",
    "StepNotFound",
    "StoreError",
    "StreamInterrupted",
    "UnknownEffect",
    "UnknownInterrupt",
    "UnknownKey",
]
