"""How each kind of problem is told: its status, its title, and what to do about it.

Law. One table for the statuses, two for the words. A kind of error that is new has a row here, or
is told as the kind above it in the tree.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from loom_ia.core import errors
from loom_ia.graph.errors import RunError


class Row(NamedTuple):
    """A kind of problem, and the status that HTTP has for it."""

    status: int
    slug: str


class WrongType(errors.CallerError):
    """The body of a request is of a type that its route does not read."""


BAD_REQUEST: Final = Row(400, "bad-request")
NOT_READY: Final = Row(503, "not-ready")
INVALID: Final = Row(422, "invalid-request")
TOO_LARGE: Final = Row(413, "body-too-large")
WRONG_TYPE: Final = Row(415, "unsupported-media-type")
NOT_FOUND: Final = Row(404, "unknown-route")
NOT_ALLOWED: Final = Row(405, "method-not-allowed")
BROKEN: Final = Row(500, "internal-error")
REFUSED: Final = Row(400, "refused")

ROWS: Final[Mapping[type[Exception], Row]] = MappingProxyType(
    {
        WrongType: WRONG_TYPE,
        errors.KeyRefused: Row(401, "key-refused"),
        errors.SignatureRefused: Row(401, "signature-refused"),
        errors.Forbidden: Row(403, "forbidden"),
        errors.JudgeSkip: Row(403, "judges-not-skipped"),
        errors.UnknownAgent: Row(404, "unknown-agent"),
        errors.UnknownGraph: Row(404, "unknown-graph"),
        errors.UnknownRun: Row(404, "unknown-run"),
        errors.UnknownSession: Row(404, "unknown-session"),
        errors.UnknownArtifact: Row(404, "unknown-file"),
        errors.UnknownTrigger: Row(404, "unknown-trigger"),
        errors.DeliveryMissing: Row(400, "delivery-missing"),
        errors.DeliveryRefused: Row(422, "delivery-refused"),
        errors.UnknownApproval: Row(404, "unknown-approval"),
        errors.CursorRefused: Row(400, "cursor-refused"),
        errors.RunExists: Row(409, "run-exists"),
        errors.RunBelow: Row(409, "run-below"),
        errors.ApprovalStale: Row(409, "approval-stale"),
        errors.ClaimConflict: Row(409, "lease-conflict"),
        errors.RaceError: Row(409, "conflict"),
        errors.RateLimited: Row(429, "rate-limited"),
        errors.DecisionRefused: Row(422, "decision-refused"),
        errors.StateRefused: Row(422, "state-refused"),
        errors.AttachmentRefused: Row(422, "attachment-refused"),
        errors.UnstorableValue: Row(422, "unstorable-value"),
        errors.UnusableId: Row(422, "unusable-id"),
        errors.HandedBack: Row(503, "handed-back"),
        errors.LoomClosed: Row(503, "closed"),
        errors.CallerError: Row(422, "refused"),
        RunError: Row(422, "input-refused"),
        errors.JournalBusy: Row(503, "journal-busy"),
        errors.JournalError: Row(500, "journal-unreadable"),
        errors.OutsideError: Row(503, "outside-error"),
        errors.ConfigError: Row(500, "configuration"),
    }
)
"""The most exact class of an error that stands here says how it is told."""

TITLES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "bad-request": "The request cannot be read",
        "not-ready": "The server is not ready",
        "invalid-request": "The request is invalid",
        "body-too-large": "The body of the request is too large",
        "unsupported-media-type": "The type of the body is not accepted",
        "unknown-route": "There is nothing at this address",
        "method-not-allowed": "This address does not take that method",
        "internal-error": "Something broke here",
        "refused": "The request is refused",
        "key-refused": "No valid key came with the request",
        "signature-refused": "What was posted is not signed as it must be",
        "forbidden": "The key does not allow this",
        "judges-not-skipped": "Judges cannot be skipped here",
        "unknown-agent": "There is no such agent",
        "unknown-graph": "There is no such graph",
        "unknown-run": "There is no such run",
        "unknown-session": "There is no such session",
        "unknown-file": "There is no such file",
        "unknown-trigger": "There is no such trigger",
        "delivery-missing": "It is not said which delivery this is",
        "delivery-refused": "What was posted begins no run",
        "unknown-approval": "No such call waits for a decision",
        "cursor-refused": "There is no such place to go on from",
        "run-exists": "The id of the run is taken",
        "run-below": "The run was opened by another one",
        "approval-stale": "The request was decided, expired, or is one of several",
        "lease-conflict": "The run is driven elsewhere",
        "conflict": "Somebody else acts on the same thing",
        "rate-limited": "Too many requests",
        "decision-refused": "The decision is refused",
        "state-refused": "The state is refused",
        "attachment-refused": "The files are refused",
        "unstorable-value": "A value cannot be kept",
        "unusable-id": "An id cannot be used",
        "handed-back": "The server stops, and the run goes on elsewhere",
        "closed": "The server is closing",
        "input-refused": "The input of the graph is refused",
        "journal-busy": "The journal does not answer in time",
        "journal-unreadable": "The journal cannot be read",
        "outside-error": "Something that the server needs does not answer",
        "configuration": "The configuration of the server is at fault",
    }
)

REMEDIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "bad-request": "Send a request that HTTP can read.",
        "not-ready": "Send requests to another server, or try again.",
        "invalid-request": "Correct what is named, and send it again.",
        "body-too-large": "Send less, or raise server.http.max_body_bytes.",
        "unsupported-media-type": "Send JSON, or a form (multipart/form-data) where files come.",
        "unknown-route": "See /docs for the addresses.",
        "method-not-allowed": "Use one of the methods of the header Allow.",
        "internal-error": "Report it with what the server wrote in its log.",
        "refused": "Correct the request, and send it again.",
        "key-refused": "Send a key in Authorization: Bearer … or in X-API-Key.",
        "signature-refused": "Sign the bytes of the body with the secret of the trigger.",
        "forbidden": "Use a key that holds what is named.",
        "judges-not-skipped": "Leave judges as it is.",
        "unknown-agent": "GET /v1/agents lists the agents.",
        "unknown-graph": "GET /v1/graphs lists the graphs.",
        "unknown-run": "Check the id, and the list that holds those that exist.",
        "unknown-session": "Check the id, and the list that holds those that exist.",
        "unknown-file": "Check the id, and the list that holds those that exist.",
        "unknown-trigger": "Check the name with whoever runs the server.",
        "delivery-missing": "Send the header that is named, with an id for each delivery.",
        "delivery-refused": "Correct the value that is named; nothing was written.",
        "unknown-approval": "Decide on one of the pending calls.",
        "cursor-refused": "Go on from the last place that is named, or from the beginning.",
        "run-exists": "Choose another run_id, or none.",
        "run-below": "Act on the run at the top, which is named.",
        "approval-stale": "Read the run again, and name one of its pending calls.",
        "lease-conflict": "Try again after the time of Retry-After.",
        "conflict": "Read it again, then retry.",
        "rate-limited": "Try again after the time of Retry-After.",
        "decision-refused": "Correct the decision; the request still waits.",
        "state-refused": "Correct the value that is named; nothing was written.",
        "attachment-refused": "Correct the files that are named.",
        "unstorable-value": "Correct the value that is named; nothing was written.",
        "unusable-id": "Correct the value that is named; nothing was written.",
        "handed-back": "Read the run that is named after Retry-After; do not begin it again.",
        "closed": "Try again after the time of Retry-After.",
        "input-refused": "Correct the value that is named; nothing was written.",
        "journal-busy": "Try again after the time of Retry-After.",
        "journal-unreadable": "Whoever runs the server looks at its log and at the journal.",
        "outside-error": "Try again after the time of Retry-After.",
        "configuration": "Whoever runs the server corrects its configuration.",
    }
)

DETAILS: Final[Mapping[int, str]] = MappingProxyType(
    {
        404: "there is no route at this address",
        405: "the route at this address takes another method",
        413: "the body has more bytes than are accepted",
        415: "the body is of a type that this address does not read",
        500: "an error that was not foreseen; the log names it",
    }
)
"""What is said where nothing more exact is known."""
