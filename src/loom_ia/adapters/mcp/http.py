"""A server that is an address: our headers go nowhere else, and what comes back is bounded.

An answer that is no message of the protocol (a gateway's page, a refused key) is turned into one,
so that what became of a call can be told from it.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from typing import Any, Final, cast

import httpx2
from mcp.client.streamable_http import streamable_http_client
from mcp_types import INTERNAL_ERROR

from loom_ia.adapters.mcp.bounds import MESSAGE_BYTES

SESSION_GONE: Final = -32_098
"""The code of an answer that says that the server forgot this session: it did nothing."""

NO_ANSWER: Final = -32_097
"""The code of an answer that is not the server's: nobody knows what it did."""

_SESSION_HEADER: Final = "mcp-session-id"
_STREAM: Final = "text/event-stream"
_GOODBYE_S: Final = 2.0
_ERROR_BYTES: Final = 64 * 1024


@contextlib.asynccontextmanager
async def address_streams(
    url: str, headers: Mapping[str, str], connect_timeout: float, gone: Callable[[], None]
) -> AsyncGenerator[tuple[Any, Any]]:
    """Give the streams that a session speaks through; `gone` is called once they are closed."""
    timeout = httpx2.Timeout(connect_timeout, read=None)  # how long a call may take is its own
    client = httpx2.AsyncClient(
        headers={**headers, "accept-encoding": "identity"},
        timeout=timeout,
        transport=_Bounded(httpx2.AsyncHTTPTransport()),
        follow_redirects=False,
        trust_env=False,
    )
    try:
        async with (
            client,
            streamable_http_client(
                url, http_client=client, max_sse_event_size=MESSAGE_BYTES
            ) as streams,
        ):
            yield streams
    finally:
        gone()


class _Bounded(httpx2.AsyncBaseTransport):
    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.method == "DELETE":
            return await self._goodbye(request)
        response = await self._inner.handle_async_request(request)
        kind = response.headers.get("content-type", "").lower()
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            await response.aclose()
            return _said(INTERNAL_ERROR, "it compresses its answers, which it was asked not to do")
        if response.status_code >= 400 and request.method == "POST":
            return await _failure(request, response)
        if not kind.startswith(_STREAM):
            response.stream = _Counted(cast("httpx2.AsyncByteStream", response.stream))
        return response

    async def _goodbye(self, request: httpx2.Request) -> httpx2.Response:
        """Tell the server that we leave, without waiting for one that does not listen."""
        with contextlib.suppress(TimeoutError, httpx2.TransportError):
            async with asyncio.timeout(_GOODBYE_S):
                response = await self._inner.handle_async_request(request)
                await response.aclose()
        return httpx2.Response(204)

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Counted(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._inner:
            size += len(chunk)
            if size > MESSAGE_BYTES:
                yield _TOO_LARGE
                return
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


_TOO_LARGE: Final = b"\x00"
"""What makes a document unreadable: the call fails by that, and the connection lasts."""


async def _failure(request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
    body = b""
    async for chunk in cast("httpx2.AsyncByteStream", response.stream):
        body += chunk[:_ERROR_BYTES]
        if len(body) >= _ERROR_BYTES:
            break
    await response.aclose()
    status = response.status_code
    if status == 404 and _SESSION_HEADER in request.headers:
        return _said(SESSION_GONE, "the server forgot this session", status)
    if _is_error(body):
        return httpx2.Response(status, headers={"content-type": "application/json"}, content=body)
    if status >= 500:
        return _said(NO_ANSWER, f"HTTP {status}", status)
    refused = " (the server refuses the key)" if status in (401, 403) else ""
    return _said(INTERNAL_ERROR, f"HTTP {status}{refused}", status)


def _is_error(body: bytes) -> bool:
    with contextlib.suppress(ValueError, RecursionError):
        document: Any = json.loads(body)
        if isinstance(document, dict):
            return isinstance(cast("dict[str, Any]", document).get("error"), dict)
    return False


def _said(code: int, message: str, status: int = 400) -> httpx2.Response:
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}
    return httpx2.Response(status, json=error)
