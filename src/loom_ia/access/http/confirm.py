"""The page where somebody who was told decides: `GET` shows, `POST` decides.

Law. The link is the permission: no key is asked, and nothing but its request can be reached.
Reading it, with any method but `POST`, any number of times, by any robot, decides nothing. A form
decides only if it says exactly what it decides. Whatever is odd fails closed, on a page that says
what to do.
"""

import hmac
import logging
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Final
from urllib.parse import parse_qsl, quote, urlsplit

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from loom_ia.access.api import Loom
from loom_ia.access.http import confirm_page as page
from loom_ia.access.http.answer_form import FieldFault, fields_of, read
from loom_ia.access.http.problems import language_of
from loom_ia.app.approvals import NO_ANSWER
from loom_ia.app.linked import Linked
from loom_ia.core.errors import (
    ApprovalStale,
    CallerError,
    LinkRefused,
    LoomError,
    UnknownApproval,
)
from loom_ia.i18n import LANGUAGES, Language, render, speak
from loom_ia.i18n import translate as _

_logger = logging.getLogger("loom_ia.access")

MOST_BODY: Final = 65_536
_MOST_FIELDS: Final = 64
_PER_MINUTE: Final = 240
_MOST_CALLERS: Final = 1_024
_FORM: Final = "application/x-www-form-urlencoded"
_HEADERS: Final[Mapping[str, str]] = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": page.POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "X-Robots-Tag": "noindex, nofollow, noarchive",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_DECISIONS: Final[Mapping[str, bool]] = {"accorder": True, "refuser": False}

_Handler = Callable[[Request, Language], Awaitable[Response]]


class _Refusal(Exception):
    """Why a request is not even looked at: a status, what to say, and what to do."""

    def __init__(self, status: int, title: str, remedy: str) -> None:
        super().__init__(title)
        self.status, self.title, self.remedy = status, title, remedy


class Turnstile:
    """Lets each caller through so many times in any minute; it forgets the oldest callers."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock = per_minute, clock
        self._seen: OrderedDict[str, deque[float]] = OrderedDict()

    def lets(self, caller: str) -> bool:
        """Count a passage, and tell whether it is allowed."""
        now = self._clock()
        passed = self._seen.setdefault(caller, deque())
        self._seen.move_to_end(caller)
        while passed and passed[0] <= now - 60:
            passed.popleft()
        if len(self._seen) > _MOST_CALLERS:
            self._seen.popitem(last=False)
        if len(passed) >= self._most:
            return False
        passed.append(now)
        return True


def confirm_router(loom: Loom, base_path: str = "") -> APIRouter:
    """Give the routes of the page; none when no secret signs links."""
    router = APIRouter(include_in_schema=False)
    if not loom.has_links:
        return router
    desk = _Desk(loom)
    turnstile = Turnstile(_PER_MINUTE)

    async def on_request(request: Request) -> Response:
        language = _language(request)
        speak(language)
        handler = desk.decide if request.method == "POST" else desk.show
        allowed = turnstile.lets(request.client.host if request.client else "")
        return await _guarded(handler if allowed else _too_often, request, language)

    path = f"{base_path}/decide/{{token}}"
    router.add_route(path, on_request, methods=["GET", "HEAD", "POST"], include_in_schema=False)
    return router


class _Desk:
    """Shows and decides, by what a link leads to."""

    def __init__(self, loom: Loom) -> None:
        self.loom = loom
        self._public_host = urlsplit(loom.config.notices.public_url or "").netloc

    async def show(self, request: Request, language: Language) -> Response:
        """Show what waits, or how it ended."""
        found = await self.loom.linked(request.path_params["token"])
        return _answer(200, self._page(found, request, language))

    async def decide(self, request: Request, language: Language) -> Response:
        """Decide, then have the browser show how it ended."""
        token = request.path_params["token"]
        self._require_own_page(request)
        found = await self.loom.linked(token)
        form = await _form(request)
        if not hmac.compare_digest(form.get("token", "").encode(), token.encode()):
            raise _Refusal(422, *_odd_form())
        if found.settled is not None:
            return _answer(409, page.settled_page(found, language))
        try:
            granted, answer = _said(found, form)
            await self.loom.decide_by_link(
                token,
                granted=granted,
                name=form.get("name", "")[: page.LONGEST_NAME],
                reason=form.get("reason", "")[: page.LONGEST_REASON].strip(),
                answer=answer,
            )
        except (ApprovalStale, UnknownApproval):  # somebody else was faster
            found = await self.loom.linked(token)
            return _answer(409, self._page(found, request, language))
        except LinkRefused:
            raise
        except (FieldFault, CallerError) as error:
            typed = page.Typed(form, *_fault(error, language))
            return _answer(422, self._page(found, request, language, typed))
        # Relative, so that it holds under whatever path a proxy serves the page.
        where = f"{quote(token)}?lang={language}"
        return Response(status_code=303, headers={**_HEADERS, "Location": where})

    def _require_own_page(self, request: Request) -> None:
        """Refuse a form that another site sends. Our pages send no origin, or our own."""
        site = request.headers.get("sec-fetch-site", "same-origin")
        origin = request.headers.get("origin", "null")
        ours = {request.headers.get("host", ""), self._public_host}
        if site in ("same-origin", "none") and (
            origin == "null" or urlsplit(origin).netloc in ours
        ):
            return
        raise _Refusal(
            403,
            _("Nothing was decided: the form was sent from another site."),
            _("Open the link again from the message, and press one of its buttons."),
        )

    def _page(
        self,
        found: Linked,
        request: Request,
        language: Language,
        typed: page.Typed | None = None,
    ) -> str:
        if found.settled is not None:
            return page.settled_page(found, language)
        token = request.path_params["token"]
        return page.asking_page(found, token, language, typed)


def _said(found: Linked, form: Mapping[str, str]) -> tuple[bool, object]:
    """Read what a form decides. Raises `_Refusal` when it says nothing that we asked."""
    granted = _DECISIONS.get(form.get("decision", ""))
    if granted is None:
        raise _Refusal(422, *_odd_form())
    if found.pending.kind != "input":
        return granted, NO_ANSWER
    if not granted:
        raise _Refusal(422, *_odd_form())
    return True, read(fields_of(found.pending.answer_schema), form)


def _fault(error: Exception, language: Language) -> tuple[str, str]:
    if isinstance(error, FieldFault):
        said = _("This field cannot be read, or is empty: {field}", field=error.label)
        return said, error.field
    said = render(error, language) if isinstance(error, LoomError) else str(error)
    return said[:600], ""


async def _guarded(handler: _Handler, request: Request, language: Language) -> Response:
    """Answer with a page whatever happens, and log nothing of what is in it."""
    try:
        return await handler(request, language)
    except _Refusal as refusal:
        said = refusal.title, refusal.remedy
        return _answer(refusal.status, page.refusal_page(*said, language))
    except LinkRefused as error:
        title = render(error, language)
        title = f"{title[:1].upper()}{title[1:]}."
        remedy = _(
            "Open the link again from the message, the whole of it. If that does not help, ask "
            "whoever runs the agents, who can decide otherwise."
        )
        if error.expired:
            remedy = _(
                "Nothing was decided by it. Ask whoever runs the agents if a decision is still "
                "wanted."
            )
        return _answer(410 if error.expired else 404, page.refusal_page(title, remedy, language))
    except ClientDisconnect:
        raise
    except HTTPException as error:  # the server refuses bodies, too
        said = _too_long() if error.status_code == 413 else _odd_form()
        return _answer(error.status_code, page.refusal_page(*said, language))
    except Exception as error:  # noqa: BLE001 -- a person is told, whatever it is
        name = type(error).__name__  # without its text, which may hold what users said
        _logger.error("the page of a decision failed: %s", name)  # noqa: TRY400
        title = _("This cannot be shown now.")
        remedy = _("Nothing was decided. Try again in a minute.")
        return _answer(503, page.refusal_page(title, remedy, language))


async def _too_often(_request: Request, _language: Language) -> Response:
    raise _Refusal(429, _("Too many requests."), _("Wait a minute, then open the link again."))


def _answer(status: int, html: str) -> Response:
    return Response(html, status, dict(_HEADERS), "text/html; charset=utf-8")


def _language(request: Request) -> Language:
    asked = request.query_params.get("lang", "")
    accepted = language_of(request.headers.get("accept-language", ""))
    known: dict[str, Language] = {language: language for language in LANGUAGES}
    return known.get(asked, accepted)


def _odd_form() -> tuple[str, str]:
    return (
        _("Nothing was decided: the form does not say what."),
        _("Open the link again from the message, and press one of its buttons."),
    )


def _too_long() -> tuple[str, str]:
    return (
        _("Nothing was decided: what was sent is too long."),
        _("Open the link again from the message, and write less."),
    )


async def _form(request: Request) -> dict[str, str]:
    """Read the fields of a form, each once, within bounds."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _FORM:
        raise _Refusal(415, *_odd_form())
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MOST_BODY:
            raise _Refusal(413, *_too_long())
    try:
        pairs = parse_qsl(
            body.decode(), keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict"
        )
    except ValueError as error:
        raise _Refusal(422, *_odd_form()) from error
    fields = dict(pairs)
    if len(fields) != len(pairs):  # said twice is not said
        raise _Refusal(422, *_odd_form())
    return fields
