"""What went wrong, as HTTP says it: one table, and the body of RFC 9457.

Law. Every answer that is no success is made here. The table says which status an error has, its
title, and what to do about it; the detail is what the error says. The language is the one that the
request accepts.
"""

import logging
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final, cast

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette._utils import get_route_path
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from loom_ia.core import errors
from loom_ia.core.errors import LoomError
from loom_ia.graph.errors import RunError
from loom_ia.i18n import LANGUAGES, Language, lines, lookup

_logger = logging.getLogger("loom_ia.access")

MEDIA_TYPE: Final = "application/problem+json"


class ProblemItem(BaseModel):
    """One fault of a request: where it is, and what it is."""

    path: str
    message: str


class ProblemDetails(BaseModel):
    """What went wrong, as RFC 9457 has it, and what to do about it."""

    type: str = Field(description="Identifies the kind of problem.")
    title: str = Field(description="The kind of problem, in words.")
    status: int = Field(description="The status of the response.")
    detail: str = Field(description="What went wrong this time.")
    remedy: str = Field(description="What to do about it.")
    problems: list[ProblemItem] | None = Field(
        default=None, description="Every fault, where the request has several."
    )
    pending: list[str] | None = Field(
        default=None, description="The calls that wait for a decision."
    )
    last: str | int | None = Field(default=None, description="The last place that can be given.")


@dataclass(frozen=True, slots=True)
class Row:
    """How one kind of error is told."""

    status: int
    slug: str
    title: str
    remedy: str


BAD_REQUEST: Final = Row(
    400, "bad-request", "The request cannot be read", "Send a request that HTTP can read."
)
INVALID: Final = Row(
    422, "invalid-request", "The request is invalid", "Correct what is named, and send it again."
)
TOO_LARGE: Final = Row(
    413,
    "body-too-large",
    "The body of the request is too large",
    "Send less, or raise server.http.max_body_bytes.",
)
WRONG_TYPE: Final = Row(
    415,
    "unsupported-media-type",
    "The type of the body is not accepted",
    "Send Content-Type: application/json, or multipart/form-data where files may come.",
)
NOT_FOUND: Final = Row(
    404, "unknown-route", "There is nothing at this address", "See /docs for the addresses."
)
NOT_ALLOWED: Final = Row(
    405,
    "method-not-allowed",
    "This address does not take that method",
    "Use one of the methods of the header Allow.",
)
BROKEN: Final = Row(
    500,
    "internal-error",
    "Something broke here",
    "Report it with what the server wrote in its log.",
)
REFUSED: Final = Row(
    400, "refused", "The request is refused", "Correct the request, and send it again."
)

_UNKNOWN = "Check the id, and the list that holds those that exist."
_RETRY = "Try again after the time of Retry-After."
_FIX_VALUE = "Correct the value that is named; nothing was written."

ROWS: Final[Mapping[type[Exception], Row]] = MappingProxyType(
    {
        errors.KeyRefused: Row(
            401,
            "key-refused",
            "No valid key came with the request",
            "Send a key in Authorization: Bearer … or in X-API-Key.",
        ),
        errors.SignatureRefused: Row(
            401,
            "signature-refused",
            "What was posted is not signed as it must be",
            "Sign the bytes of the body with the secret of the trigger.",
        ),
        errors.Forbidden: Row(
            403, "forbidden", "The key does not allow this", "Use a key that holds what is named."
        ),
        errors.JudgeSkip: Row(
            403, "judges-not-skipped", "Judges cannot be skipped here", "Leave judges as it is."
        ),
        errors.UnknownAgent: Row(
            404, "unknown-agent", "There is no such agent", "GET /v1/agents lists the agents."
        ),
        errors.UnknownGraph: Row(
            404, "unknown-graph", "There is no such graph", "GET /v1/graphs lists the graphs."
        ),
        errors.UnknownRun: Row(404, "unknown-run", "There is no such run", _UNKNOWN),
        errors.UnknownSession: Row(404, "unknown-session", "There is no such session", _UNKNOWN),
        errors.UnknownArtifact: Row(404, "unknown-file", "There is no such file", _UNKNOWN),
        errors.UnknownTrigger: Row(
            404,
            "unknown-trigger",
            "There is no such trigger",
            "Check the name with whoever runs the server.",
        ),
        errors.DeliveryMissing: Row(
            400,
            "delivery-missing",
            "It is not said which delivery this is",
            "Send the header that is named, with an id for each delivery.",
        ),
        errors.DeliveryRefused: Row(
            422, "delivery-refused", "What was posted begins no run", _FIX_VALUE
        ),
        errors.UnknownApproval: Row(
            404,
            "unknown-approval",
            "No such call waits for a decision",
            "Decide on one of the pending calls.",
        ),
        errors.CursorRefused: Row(
            400,
            "cursor-refused",
            "There is no such place to go on from",
            "Go on from the last place that is named, or from the beginning.",
        ),
        errors.RunExists: Row(
            409, "run-exists", "The id of the run is taken", "Choose another run_id, or none."
        ),
        errors.RunBelow: Row(
            409,
            "run-below",
            "The run was opened by another one",
            "Act on the run at the top, which is named.",
        ),
        errors.ApprovalStale: Row(
            409,
            "approval-stale",
            "The request was decided, expired, or is one of several",
            "Read the run again, and name one of its pending calls.",
        ),
        errors.ClaimConflict: Row(409, "lease-conflict", "The run is driven elsewhere", _RETRY),
        errors.RaceError: Row(
            409, "conflict", "Somebody else acts on the same thing", "Read it again, then retry."
        ),
        errors.RateLimited: Row(429, "rate-limited", "Too many requests", _RETRY),
        errors.DecisionRefused: Row(
            422,
            "decision-refused",
            "The decision is refused",
            "Correct the decision; the request still waits.",
        ),
        errors.StateRefused: Row(422, "state-refused", "The state is refused", _FIX_VALUE),
        errors.AttachmentRefused: Row(
            422, "attachment-refused", "The files are refused", "Correct the files that are named."
        ),
        errors.UnstorableValue: Row(422, "unstorable-value", "A value cannot be kept", _FIX_VALUE),
        errors.UnusableId: Row(422, "unusable-id", "An id cannot be used", _FIX_VALUE),
        errors.HandedBack: Row(
            503,
            "handed-back",
            "The server stops, and the run goes on elsewhere",
            "Read the run that is named after the time of Retry-After; do not begin it again.",
        ),
        errors.LoomClosed: Row(503, "closed", "The server is closing", _RETRY),
        errors.CallerError: Row(422, "refused", "The request is refused", _FIX_VALUE),
        RunError: Row(422, "input-refused", "The input of the graph is refused", _FIX_VALUE),
        errors.JournalBusy: Row(503, "journal-busy", "The journal does not answer in time", _RETRY),
        errors.JournalError: Row(
            500,
            "journal-unreadable",
            "The journal cannot be read",
            "Whoever runs the server looks at its log and at the journal.",
        ),
        errors.OutsideError: Row(
            503, "outside-error", "Something that the server needs does not answer", _RETRY
        ),
        errors.ConfigError: Row(
            500,
            "configuration",
            "The configuration of the server is at fault",
            "Whoever runs the server corrects its configuration.",
        ),
    }
)
"""The most exact class of an error that stands here says how it is told."""

_WAITS: Final = frozenset({409, 429, 503})


def row_of(error: Exception) -> Row:
    """Find how an error is told."""
    return next((ROWS[kind] for kind in type(error).__mro__ if kind in ROWS), BROKEN)


def language_of(accepted: str) -> Language:
    """Choose the language that a header Accept-Language likes best among ours; English else."""
    best: tuple[float, Language] = (0.0, "en")
    for part in accepted.split(",")[:20]:
        name, _, weight = part.partition(";")
        quality = _quality(weight)
        for each in LANGUAGES:
            if name.strip().lower()[:2] == each and quality > best[0]:
                best = (quality, each)
    return best[1]


def _quality(weight: str) -> float:
    try:
        value = float(weight.strip().removeprefix("q=") or 1)
    except ValueError:
        return 0.0
    return value if 0 <= value <= 1 else 0.0


def told(error: LoomError, language: Language) -> dict[str, Any]:
    """Give the body that tells an error."""
    row = row_of(error)
    sentences = lines(error, language)
    extra: dict[str, Any] = {}
    if problems := cast("Sequence[errors.Problem]", getattr(error, "problems", ())):
        extra["problems"] = [
            {"path": p.path or p.file, "message": sentence}
            for p, sentence in zip(problems, sentences, strict=True)
        ]
    if isinstance(error, errors.UnknownApproval | errors.ApprovalStale):
        extra["pending"] = list(error.pending)
    if isinstance(error, errors.CursorRefused):
        extra["last"] = error.last
    if isinstance(error, errors.ConfigError):  # it may show what is in files of the server
        sentences, extra = (lookup(error.template, language).format(**error.params),), {}
    return body(row, "\n".join(sentences), language, **extra)


def body(row: Row, detail: str, language: Language, **extra: Any) -> dict[str, Any]:
    """Give the body that tells one kind of problem."""
    return {
        "type": f"urn:loom-ia:problem:{row.slug}",
        "title": lookup(row.title, language),
        "status": row.status,
        "detail": detail,
        "remedy": lookup(row.remedy, language),
        **extra,
    }


def answer(document: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Response:
    """Make the response of a problem."""
    import json

    content = json.dumps(document, ensure_ascii=False).encode("utf-8", "replace")
    return Response(content, document["status"], headers, MEDIA_TYPE)


def response_to(error: LoomError, language: Language) -> Response:
    """Make the response that tells an error."""
    document = told(error, language)
    headers: dict[str, str] = {}
    if document["status"] == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, errors.RateLimited):
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after)))
    elif isinstance(error, errors.ClaimConflict):
        left = (error.lease_until - datetime.now(UTC)).total_seconds()
        headers["Retry-After"] = str(max(1, math.ceil(left)))
    elif document["status"] == HTTPStatus.SERVICE_UNAVAILABLE:
        headers["Retry-After"] = "1"
    return answer(document, headers)


def invalid(faults: Iterable[tuple[str, str]], language: Language) -> Response:
    """Tell every fault of a request: its place, and what it is."""
    items = [{"path": path, "message": message} for path, message in faults]
    detail = "\n".join(f"{item['path']}: {item['message']}" for item in items)
    return answer(body(INVALID, detail, language, problems=items))


def add_handlers(app: FastAPI, allowed: Callable[[str], Collection[str]]) -> None:
    """Tell every error of the routes of `app` as a problem.

    `allowed` tells the methods that a path takes.
    """

    async def on_error(request: Request, error: Exception) -> Response:
        language = language_of(request.headers.get("accept-language", ""))
        loom_error = cast("LoomError", error)
        if row_of(loom_error).status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            _logger.error("%s: %s", _place(request.scope), type(error).__name__)
        return response_to(loom_error, language)

    async def on_invalid(request: Request, error: Exception) -> Response:
        language = language_of(request.headers.get("accept-language", ""))
        found = cast("RequestValidationError", error).errors()
        return invalid(faults_of(found), language)

    async def on_refusal(request: Request, error: Exception) -> Response:
        language = language_of(request.headers.get("accept-language", ""))
        refusal = cast("HTTPException", error)
        rows = {404: NOT_FOUND, 405: NOT_ALLOWED, 413: TOO_LARGE, 415: WRONG_TYPE, 400: BAD_REQUEST}
        row = rows.get(refusal.status_code, REFUSED)
        said = _DETAILS.get(refusal.status_code, str(refusal.detail))
        document = body(row, lookup(said, language), language)
        document["status"] = refusal.status_code
        headers = dict(refusal.headers or {})
        methods = allowed(get_route_path(request.scope))
        if refusal.status_code == HTTPStatus.METHOD_NOT_ALLOWED and methods:
            headers["Allow"] = ", ".join(sorted(methods))
        return answer(document, headers)

    app.add_exception_handler(LoomError, on_error)
    app.add_exception_handler(RequestValidationError, on_invalid)
    app.add_exception_handler(HTTPException, on_refusal)


_DETAILS: Final[Mapping[int, str]] = MappingProxyType(
    {
        404: "there is no route at this address",
        405: "the route at this address takes another method",
        413: "the body has more bytes than are accepted",
    }
)


def faults_of(found: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Name what Pydantic refuses: the place as the caller wrote it, and why; never the value."""
    return [(".".join(map(str, each["loc"])), str(each["msg"])) for each in found]


class LastResort:
    """Answers 500 to whatever no table names, and writes its type alone in the log.

    What an exception says may hold what users said, so it is not written.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = False

        async def watched(message: Any) -> None:
            nonlocal begun
            begun = begun or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except HTTPException:
            raise
        except Exception as error:
            trace = error.__traceback__
            while trace is not None and trace.tb_next is not None:
                trace = trace.tb_next
            where = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace else "?"
            _logger.error("%s: %s at %s", _place(scope), type(error).__name__, where)  # noqa: TRY400
            if begun:
                raise
            headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in scope["headers"]}
            language = language_of(headers.get("accept-language", ""))
            detail = lookup("An error that was not foreseen; it is in the log.", language)
            await answer(body(BROKEN, detail, language))(scope, receive, send)


def _place(scope: Scope) -> str:
    """Name the route of a request, without what was put in its address."""
    route = scope.get("route")
    return f"{scope['method']} {getattr(route, 'path', '?')}"
