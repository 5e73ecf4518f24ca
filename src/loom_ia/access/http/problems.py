"""What went wrong, as HTTP says it: one table, and the body of RFC 9457.

Law. Every answer that is no success is made here. The table says which status an error has, its
title, and what to do about it; the detail is what the error says. The language is the one that the
request accepts.
"""

import logging
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final, cast

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette._utils import get_route_path
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from loom_ia.access.http.rows import (
    BAD_REQUEST,
    BROKEN,
    DETAILS,
    INVALID,
    NOT_ALLOWED,
    NOT_FOUND,
    REFUSED,
    REMEDIES,
    ROWS,
    TITLES,
    TOO_LARGE,
    WRONG_TYPE,
    Row,
)
from loom_ia.core import errors
from loom_ia.core.errors import LoomError
from loom_ia.i18n import LANGUAGES, Language, lines
from loom_ia.i18n.catalogue import filled

_logger = logging.getLogger("loom_ia.access")

OURS: Final = "loom"
"""The type of a fault that is told in our own words: a template, and what fills it."""

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
        sentences, extra = (filled(error.template, error.params, language),), {}
    return body(row, "\n".join(sentences), language, **extra)


def body(row: Row, detail: str, language: Language, **extra: Any) -> dict[str, Any]:
    """Give the body that tells one kind of problem."""
    return {
        "type": f"urn:loom-ia:problem:{row.slug}",
        "title": filled(TITLES[row.slug], {}, language),
        "status": row.status,
        "detail": detail,
        "remedy": filled(REMEDIES[row.slug], {}, language),
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
        return invalid(faults_of(found, language), language)

    async def on_refusal(request: Request, error: Exception) -> Response:
        language = language_of(request.headers.get("accept-language", ""))
        refusal = cast("HTTPException", error)
        rows = {404: NOT_FOUND, 405: NOT_ALLOWED, 413: TOO_LARGE, 415: WRONG_TYPE, 400: BAD_REQUEST}
        row = rows.get(refusal.status_code, REFUSED)
        said = DETAILS.get(refusal.status_code, str(refusal.detail))
        document = body(row, filled(said, {}, language), language)
        document["status"] = refusal.status_code
        headers = dict(refusal.headers or {})
        methods = allowed(get_route_path(request.scope))
        if refusal.status_code == HTTPStatus.METHOD_NOT_ALLOWED and methods:
            headers["Allow"] = ", ".join(sorted(methods))
        return answer(document, headers)

    app.add_exception_handler(LoomError, on_error)
    app.add_exception_handler(RequestValidationError, on_invalid)
    app.add_exception_handler(HTTPException, on_refusal)


def faults_of(found: Iterable[Mapping[str, Any]], language: Language) -> list[tuple[str, str]]:
    """Name what is refused: the place as the caller wrote it, and why; never the value.

    Pydantic says what it refuses in English.
    """
    return [(".".join(map(str, each["loc"])), _why(each, language)) for each in found]


def _why(fault: Mapping[str, Any], language: Language) -> str:
    if fault["type"] != OURS:
        return str(fault["msg"])
    return filled(fault["msg"], fault["ctx"], language)


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
            detail = filled(DETAILS[BROKEN.status], {}, language)
            await answer(body(BROKEN, detail, language))(scope, receive, send)


def _place(scope: Scope) -> str:
    """Name the route of a request, without what was put in its address."""
    route = scope.get("route")
    return f"{scope['method']} {getattr(route, 'path', '?')}"
