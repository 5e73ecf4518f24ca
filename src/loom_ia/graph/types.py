"""The words of the graph library: what authors return, and what callers get back.

Plain values only. Nothing here runs anything, so that every other module of the package may see
it.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Generic, Literal, Self, TypeAlias, TypeVar, final

from loom_ia.core.model.usage import Usage

S = TypeVar("S")


@final
class Sentinel:
    """A named value that is only ever compared by identity; it is false."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name

    def __bool__(self) -> bool:
        return False

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        del memo
        return self


END: Final = Sentinel("END")
"""What a router returns to halt."""
MISSING: Final = Sentinel("MISSING")
"""What a merge is given in place of a value that is not there."""
DELETE: Final = Sentinel("DELETE")
"""As a value of a delta, removes the key."""

Delta: TypeAlias = Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Send:
    """One parallel branch at `step`, with `input` added to its state only."""

    step: str
    input: Mapping[str, Any] = field(default_factory=dict[str, Any])


Target: TypeAlias = str | Sentinel | Sequence[str | Send]
"""A step's name, `END` (or ""), or several targets: parallel branches."""

Router: TypeAlias = Callable[[Any], Target | Awaitable[Target]]
Merge: TypeAlias = Callable[[Any, Any], Any]
"""`(existing, incoming) -> merged`; `existing` may be `MISSING`. It must be pure."""

Phase: TypeAlias = Literal["mid", "after"]
Schema: TypeAlias = Any
"""A JSON Schema (a dict), a type, a dataclass or a Pydantic model."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Returned by a step: the run pauses after it, until somebody answers.

    With the phase "mid" the step runs again once answered, its context's `answer` being the
    answer; with "after" its router runs. `update` is merged at the pause. The answer is put in the
    state under `into`, if given. It must fit `schema`; it is refused after `expires_in` seconds.
    """

    prompt: Any = None
    schema: Schema = None
    phase: Phase = "mid"
    key: str = "ask"
    update: Delta = None
    into: str | None = None
    expires_in: float | None = None

    def __post_init__(self) -> None:
        if self.phase not in ("mid", "after"):
            raise ValueError(f"Ask(phase={self.phase!r}): it is 'mid' or 'after'")


@dataclass(frozen=True, slots=True)
class Goto:
    """Returned by a step: where to go, instead of asking its router."""

    to: Target
    update: Delta = None


Step: TypeAlias = Callable[..., Any]
"""`f(state)` or `f(state, ctx)`, sync or async, giving a delta, an `Ask` or a `Goto`."""


class Refused(Exception):
    """Raised by a step or a hook: the run stops as blocked; `update` is merged first."""

    def __init__(self, reason: str, update: Delta = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.update = update


class StopReason(StrEnum):
    """Why a run ended, or stands."""

    COMPLETED = "completed"
    YIELDED = "yielded"
    MAX_ITERATIONS = "max_iter"
    BUDGET = "budget"
    ERROR = "error"
    HOOK_ABORT = "hook_abort"
    BLOCKED = "blocked"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"


class Durability(StrEnum):
    """When the facts of a run are written.

    `REQUIRED`: each append is awaited before going on, and one that fails stops the run.
    `BEST_EFFORT`: awaited; one that fails is logged, kept, and written before the next.
    `BATCHED`: at pauses, at the end, and at least every second. `NONE`: at pauses only. A pause and
    an irreversible effect are always `REQUIRED`.
    """

    REQUIRED = "required"
    BEST_EFFORT = "best_effort"
    BATCHED = "batched"
    NONE = "none"


InterruptKind: TypeAlias = Literal["input", "approve", "unknown_effect"]


@dataclass(frozen=True, slots=True)
class Interrupt:
    """A question that is open.

    `id` is opaque and unique in the store. `payload` is what the step asked; for the kind
    "approve", `{"tool", "arguments"}`. `run_id` is the run that asks, a child's when it bubbled,
    and `path` the names of the steps from the root graph down to the one that asks.
    """

    id: str
    kind: InterruptKind
    payload: Any
    key: str
    step: str
    occurrence: int
    run_id: str
    graph: str
    path: tuple[str, ...]
    schema: Any = None
    expires_at: datetime | None = None
    tool: str | None = None
    call_id: str | None = None


Approver: TypeAlias = Callable[[Interrupt], Any]
"""Answers a question in line, sync or async."""


class Pictured:
    """What can be drawn over its graph: `visits` has what the picture shows, beside the fields."""

    __slots__ = ("visits",)
    visits: Any

    def drawn_with(self, visits: Any) -> Self:
        """Take what the picture shows."""
        object.__setattr__(self, "visits", visits)
        return self


@dataclass(frozen=True, slots=True)
class RunResult(Pictured, Generic[S]):
    """Where a run stands and what it gave.

    `steps` counts the occurrences of this graph's steps that this call executed, `total_steps`
    those that were started over the whole run; children count in neither. `state` is the caller's
    own copy. `usage` sums the `usage` that steps wrote, children included. `budget_left` is in
    steps, None without a step budget. `parent` is the run and the place that a fork came from.
    """

    run_id: str
    graph: str
    state: S
    stop: StopReason
    last_step: str | None
    steps: int
    total_steps: int
    interrupts: tuple[Interrupt, ...] = ()
    error: BaseException | None = None
    failed_step: str | None = None
    blocked: str | None = None
    usage: Usage | None = None
    budget_left: int | None = None
    parent: tuple[str, int] | None = None

    @property
    def yielded(self) -> bool:
        """Whether the run waits for an answer."""
        return self.stop is StopReason.YIELDED


def redrawn(result: RunResult[S], **changes: Any) -> RunResult[S]:
    """Give a result with other fields, and the same picture."""
    return replace(result, **changes).drawn_with(getattr(result, "visits", None))


@dataclass(frozen=True, slots=True)
class CheckpointInfo:
    """One step that was completed, failed or paused: `n` counts them, `seq` is its place.

    `stop` is `YIELDED` for a pause, `ERROR` for a failed step and None otherwise. `n` goes on
    across resumes; a fork starts after its source's.
    """

    n: int
    seq: int
    run_id: str
    step: str
    stop: StopReason | None
    saved_at: datetime
    budget_left: int | None = None
    parent: tuple[str, int] | None = None


@dataclass(frozen=True, slots=True)
class GraphEvent:
    """One event of the journal, with the values of the state as Python objects."""

    seq: int
    type: str
    run_id: str
    step: str | None
    payload: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RunInfo:
    """What the hook of a run's beginning is told; a copy."""

    run_id: str
    graph: str
    input: Mapping[str, Any]
    parent: tuple[str, int] | None
    resumed: bool


Hook: TypeAlias = Callable[..., Any]
"""`(step, state)` or `(step, state, ctx)`, sync or async, giving None, a delta or a decision."""


@dataclass(frozen=True, slots=True)
class Hooks:
    """Code around the steps of one graph; children are not touched by it.

    `before` and `after` are asked in order. `run_started(info)` is told of a run once,
    `run_context(info)` gives an async context manager entered around each call that drives, and
    `run_finished(result)` is told how each call that drove ended.
    """

    before: Sequence[Hook] = ()
    after: Sequence[Hook] = ()
    run_started: Sequence[Callable[[RunInfo], Any]] = ()
    run_context: Callable[[RunInfo], Any] | None = None
    run_finished: Sequence[Callable[[Any], Any]] = ()


@dataclass(frozen=True, slots=True)
class Retry:
    """How often a step is tried: `attempts` in all, when it raises one of `on`.

    The first wait is `delay` seconds, each next one `backoff` times longer, `max_delay` at most.
    """

    attempts: int = 3
    delay: float = 1.0
    backoff: float = 2.0
    max_delay: float = 60.0
    on: tuple[type[BaseException], ...] = (Exception,)

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ValueError(f"Retry(attempts={self.attempts}): at least 1, the first one counts")
        if self.delay < 0 or self.max_delay < 0 or self.backoff <= 0:
            raise ValueError("Retry: delay and max_delay are not negative, backoff is positive")

    def wait(self, attempt: int) -> float:
        """Give the seconds to wait after `attempt` attempts."""
        return min(self.delay * self.backoff ** (attempt - 1), self.max_delay)


@dataclass(frozen=True, slots=True)
class Cache:
    """Keeps what a step gave, under `key(state)`, for `ttl` seconds (None: for ever)."""

    key: Callable[[Any], Any]
    ttl: float | None = None

    def __post_init__(self) -> None:
        if self.ttl is not None and self.ttl <= 0:
            raise ValueError(f"Cache(ttl={self.ttl}): it is positive, in seconds, or None")


@dataclass(frozen=True, slots=True)
class StepCompleted:
    """A step ended; `delta` is what it changed."""

    step: str
    delta: Mapping[str, Any]
    seq: int


@dataclass(frozen=True, slots=True)
class Interrupted:
    """A question was asked."""

    interrupt: Interrupt


@dataclass(frozen=True, slots=True)
class StateChanged:
    """The state after a step."""

    step: str
    state: Any
    seq: int


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of text of a model that a step calls."""

    step: str
    text: str


@dataclass(frozen=True, slots=True)
class RunFinished:
    """The last item of a stream: how the call ended, its exception in `result.error`."""

    result: RunResult[Any]


StreamItem: TypeAlias = (
    StepCompleted | Interrupted | StateChanged | Token | GraphEvent | RunFinished
)
