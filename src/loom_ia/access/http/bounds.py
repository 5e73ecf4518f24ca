"""How large the body of a request may be, counted as it comes in."""

from typing import Final

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_TOO_LARGE: Final = 413


class BodyBound:
    """Refuses the piece of a body that is too much, and a body that says so beforehand.

    A body without a length is counted; nothing beyond the bound is kept.
    """

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        announced = dict(scope["headers"]).get(b"content-length", b"")
        left = self._limit
        over = announced.isdigit() and int(announced[:20]) > left

        async def counted() -> Message:
            nonlocal left
            if over:
                raise HTTPException(_TOO_LARGE)
            message = await receive()
            if message["type"] == "http.request":
                left -= len(message.get("body", b""))
                if left < 0:
                    raise HTTPException(_TOO_LARGE)
            return message

        await self._app(scope, counted, send)
