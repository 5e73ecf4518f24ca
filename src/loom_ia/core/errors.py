"""Every error that this package raises, as one tree.

    LoomError
    ├── ConfigError            the configuration is at fault; lists every problem with its place
    ├── CallerError            the caller is at fault
    │   ├── LoomClosed         used after it was left
    │   ├── Forbidden          a visitor may not do that; names the scope or the agent
    │   ├── KeyRefused         no key, or one that is unknown or expired
    │   │   └── SignatureRefused   what was posted is not signed as it must be
    │   ├── RateLimited        asked too often; carries the seconds to wait
    │   ├── CursorRefused      a place to go on from that is not in the journal
    │   ├── UnknownAgent · UnknownGraph · UnknownRun · UnknownSession · UnknownApproval
    │   ├── UnknownArtifact · UnknownTrigger
    │   ├── RunBelow           a run that another one opened: its root is what is acted on
    │   ├── RunExists          (also a ValueError)
    │   ├── ApprovalStale      already decided, expired, or several are pending
    │   ├── LinkRefused        a link to a decision that is forged, cut, or too old
    │   ├── DeliveryRefused    what was posted begins no run
    │   │   └── DeliveryMissing    it does not say which delivery it is
    │   ├── DecisionRefused    not a decision, or edited arguments that the tool refuses
    │   ├── StateRefused       values that cannot be those of a session; lists every problem
    │   ├── AttachmentRefused  lists every fault of the files given with a request
    │   ├── UnstorableValue    names the path of what the journal cannot hold
    │   └── UnusableId
    ├── OutsideError           the outside world is at fault
    │   ├── ModelError         carries the kind that decides retry and fallback
    │   │   └── StreamInterrupted  an answer that was cut before its end
    │   ├── ToolError          a message that a tool addresses to the model
    │   ├── UnknownEffect      a tool cannot tell whether its effect happened
    │   ├── SourceUnavailable  a source of tools cannot be reached
    │   ├── NoticeNotSent      nobody could be told that something waits; says if to try again
    │   ├── ArtifactStoreError files cannot be kept or read now
    │   ├── StoreError         a store of values does not answer
    │   │   ├── KeyNotFound    nothing is kept under that key
    │   │   └── NestedTransaction
    │   └── IdempotencyStoreError  what was done under a key cannot be kept or read now
    ├── RaceError              somebody else acts on the same run or session
    │   ├── ClaimConflict      another driver holds the lease
    │   ├── SessionBusy        a run of the session is being driven
    │   └── RunMoved           the run was closed by somebody else
    ├── HandedBack             this process stops: the run goes on where it is taken up
    ├── JournalError           the journal is at fault
    │   ├── JournalCorrupted   damage in the middle, with its place
    │   ├── JournalBusy        transient: trying again may work
    │   ├── NewerJournal       written by a version that this one cannot drive
    │   └── SessionUnreadable
    └── InternalError          a bug of this package

An error is raised with an English template and its parameters. `str()` gives English; the edge
translates the template and fills the same parameters, so that no text is matched anywhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal


class LoomError(Exception):
    """Base of the tree: an English `template` and the `params` that fill it."""

    def __init__(self, template: str, /, **params: object) -> None:
        super().__init__(template)
        self.template = template
        self.params = params

    def __str__(self) -> str:
        return self.template.format_map(self.params) if self.params else self.template

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault of a configuration: where it is, what it is, and what to do about it.

    `line` counts from 1 and is None when the configuration was built in Python. `path` is the
    key as a reader would write it, such as `models[HAIKU].max_tokens`. `template` and `params`
    give the sentence, as in `LoomError`.
    """

    file: str
    line: int | None
    path: str
    template: str
    params: dict[str, object]

    @property
    def message(self) -> str:
        """The sentence in English."""
        return self.template.format_map(self.params) if self.params else self.template

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line is not None else self.file
        return f"{place}: {self.path} — {self.message}" if self.path else f"{place}: {self.message}"


class ConfigError(LoomError):
    """Say everything that is wrong in a configuration at once, sorted by place.

    `problems` is never empty; `str()` has one line for each.
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("the configuration has {count} problem(s)", count=len(problems))
        self.problems = tuple(sorted(problems, key=lambda p: (p.file, p.line or 0, p.path)))

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)


class CallerError(LoomError):
    """The caller asked for something that cannot be."""


class LoomClosed(CallerError):
    """A `Loom` was used after it was closed: make another one."""


class Forbidden(CallerError):
    """A visitor may not do that; the message names the scope or the agent that he lacks."""


class KeyRefused(CallerError):
    """No key was given where one is needed, or it is unknown or expired."""


class SignatureRefused(KeyRefused):
    """What was posted to a trigger is not signed, or not with its secret."""


class RateLimited(CallerError):
    """Too much was asked in too little time: `retry_after` seconds are to be waited."""

    def __init__(self, template: str, /, *, retry_after: float, **params: object) -> None:
        super().__init__(template, retry_after=retry_after, **params)
        self.retry_after = retry_after


class CursorRefused(CallerError, ValueError):
    """What was given as the last thing read is not in the journal; `last` is what is, if any."""

    def __init__(self, template: str, /, *, last: str | int | None, **params: object) -> None:
        super().__init__(template, last=last, **params)
        self.last = last


class UnknownAgent(CallerError):
    """No agent bears that name."""


class UnknownGraph(CallerError):
    """No graph bears that name."""


class RunBelow(CallerError, ValueError):
    """A run that another one opened cannot be acted on alone; the message names the one at the top.

    Nothing was written.
    """


class UnknownRun(CallerError):
    """No run bears that id in this journal."""


class UnknownSession(CallerError):
    """No session bears that id in this journal."""


class UnknownApproval(CallerError):
    """No request for that call id; the message lists the pending ones, as `pending` may do."""

    pending: tuple[str, ...] = ()


class UnknownArtifact(CallerError):
    """No file is kept at that address."""


class UnknownTrigger(CallerError):
    """No trigger bears that name."""


class DeliveryRefused(CallerError, ValueError):
    """What was posted to a trigger begins no run; nothing was written."""


class DeliveryMissing(DeliveryRefused):
    """A trigger that identifies deliveries was called without saying which one it is."""


class RunExists(CallerError, ValueError):
    """The chosen run id was used already; nothing was written."""


class ApprovalStale(CallerError):
    """The request was decided or expired already, or the caller must say which one.

    `pending` may list the ids of what waits.
    """

    pending: tuple[str, ...] = ()


class LinkRefused(CallerError):
    """A link to a decision is not one of ours, is damaged, or is past its time (`expired`)."""

    def __init__(self, template: str, /, *, expired: bool = False, **params: object) -> None:
        super().__init__(template, **params)
        self.expired = expired


class DecisionRefused(CallerError):
    """What was given is not a decision, or carries arguments that the tool refuses.

    Nothing was written; the request stays open.
    """


class StateRefused(CallerError, ValueError):
    """Values that the caller gives for the state of a session, or leaves out, are refused.

    `problems` has one for each key, with what to do; `str()` has a line for each. Nothing was
    written.
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("the state of the session has {count} problem(s)", count=len(problems))
        self.problems = tuple(problems)

    def __str__(self) -> str:
        return "\n".join(f"{problem.path}: {problem.message}" for problem in self.problems)


class AttachmentRefused(CallerError, ValueError):
    """Files given with a request are not accepted; nothing was written.

    `problems` is never empty and names each file in `file`; `str()` has one line for each.
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("{count} fault(s) in the attachments", count=len(problems))
        self.problems = tuple(problems)

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)


class UnstorableValue(CallerError, ValueError):
    """A value that JSON, and so the journal, cannot hold; the message names its path."""


class JudgeSkip(CallerError):
    """The judges of a run cannot be skipped here."""


class UnusableId(CallerError, ValueError):
    """An id that a file name cannot hold: it must match `[A-Za-z0-9][A-Za-z0-9._-]{0,127}`."""


class OutsideError(LoomError):
    """Something outside this package failed."""


ModelErrorKind = Literal[
    "transient",
    "overloaded",
    "quota_exhausted",
    "context_overflow",
    "auth",
    "invalid_request",
    "content_filtered",
    "truncated",
    "unavailable",
]


class ModelError(OutsideError):
    """A model call failed; `kind` says whether trying again or elsewhere can help.

    `http_status` is what the provider answered, None when it did not. `retry_after` is the wait
    that it asked for, in seconds.
    """

    def __init__(
        self,
        kind: ModelErrorKind,
        template: str,
        /,
        *,
        http_status: int | None = None,
        retry_after: float | None = None,
        **params: object,
    ) -> None:
        super().__init__(template, **params)
        self.kind: ModelErrorKind = kind
        self.http_status = http_status
        self.retry_after = retry_after


class StreamInterrupted(ModelError):
    """The answer of a model broke off before its end; what came of it is no answer."""


class ToolError(OutsideError):
    """Raised by a tool to tell the model, in exactly these words, why the call failed."""

    def __init__(self, message: str, /) -> None:
        super().__init__(message)

    def __str__(self) -> str:
        return self.template


class UnknownEffect(OutsideError):
    """Raised by a tool that cannot tell whether its effect happened.

    The tool's `on_unknown` decides what follows. The model reads `message`, or else that it is not
    known whether the call took effect.
    """

    def __init__(self, message: str = "", /) -> None:
        super().__init__(message)

    def __str__(self) -> str:
        return self.template


class SourceUnavailable(OutsideError):
    """A source of tools, such as an MCP server, cannot be reached; the message says why.

    `circuit` is set when it will be left alone from now on: after how many failures, and for how
    many seconds.
    """

    circuit: tuple[int, float] | None = None


class InvalidDecision(OutsideError):
    """A policy answered what its point does not allow, or what cannot be used."""


class NoticeNotSent(OutsideError):
    """A notice was not taken; `again` says whether another attempt may work."""

    def __init__(self, template: str, /, *, again: bool = True, **params: object) -> None:
        super().__init__(template, **params)
        self.again = again


class ArtifactStoreError(OutsideError):
    """The store of files could not keep or read one."""


class StoreError(OutsideError):
    """A store of values did not answer, or refused what was asked of it."""


class KeyNotFound(StoreError, KeyError):
    """Nothing is kept under that key of that namespace; a store may raise it with no text."""

    def __init__(
        self, template: str = "nothing is kept under that key", /, **params: object
    ) -> None:
        super().__init__(template, **params)

    __str__ = LoomError.__str__


class NestedTransaction(StoreError):
    """A transaction was begun inside another one."""


class IdempotencyStoreError(OutsideError):
    """What was done under a key could not be kept or read."""


class RaceError(LoomError):
    """Somebody else acts on the same run; this side wrote nothing."""


class ClaimConflict(RaceError):
    """Another driver holds the lease of `run_id`, as `worker_id`, until `lease_until` (UTC)."""

    def __init__(self, run_id: str, worker_id: str, lease_until: datetime) -> None:
        super().__init__(
            "run {run_id} is driven by {worker_id} until {lease_until}",
            run_id=run_id,
            worker_id=worker_id,
            lease_until=lease_until.isoformat(timespec="seconds"),
        )
        self.run_id = run_id
        self.worker_id = worker_id
        self.lease_until = lease_until


class SessionBusy(RaceError):
    """A run of the session is being driven, so the session cannot be deleted."""


class RunMoved(RaceError):
    """The run was closed or taken elsewhere while this driver worked on it."""


class HandedBack(LoomError):
    """The process that drove a run stops: the run is open, and whoever takes it up goes on."""

    def __init__(self, run_id: str) -> None:
        super().__init__(
            "this process stops: run {run_id} was handed back, and goes on where it is taken up",
            run_id=run_id,
        )
        self.run_id = run_id


class JournalError(LoomError):
    """The journal could not do what was asked."""


class JournalCorrupted(JournalError):
    """Damage in the middle of a journal, with its place; nothing is guessed around it."""


class JournalBusy(JournalError):
    """The journal did not answer in time; trying again may work."""


class NewerJournal(JournalError):
    """The journal holds events that this version cannot understand well enough to drive."""


class SessionUnreadable(JournalError):
    """A session's journal could not be read, so nothing was written to it."""


class InternalError(LoomError):
    """A bug of this package: please report it."""


def text_of(error: BaseException) -> str:
    """Give what an error says, whoever wrote its class: nothing when it cannot say it."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 -- `__str__` of the user is any code at all
        return ""


def told(error: BaseException) -> str:
    """Give the type of an error and what it says."""
    text = text_of(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
