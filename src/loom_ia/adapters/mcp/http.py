"""A server that is an address: our headers go nowhere else, and what comes back is bounded.

An answer that is no message of the protocol (a gateway's page, a refused key) is turned into one,
so that what became of a call can be told from it. Nothing that is sent is sent again elsewhere.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from typing import Any, Final, cast

import httpx2
from mcp.client.streamable_http import streamable_http_client
from mcp_types import INTERNAL_ERROR

from loom_ia.adapters.mcp.bounds import MESSAGE_BYTES, MESSAGE_VALUES
from loom_ia.adapters.mcp.words import Ours, marked
from loom_ia.core.json import count_values

_SESSION_HEADER: Final = "mcp-session-id"
_STREAM: Final = "text/event-stream"
_GOODBYE_S: Final = 2.0
_ERROR_BYTES: Final = 64 * 1024
_PACKED: Final = "it compresses its answers, which it was asked not to do"


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
        if request.method == "POST" and (call := _call_id(request)) is not None:
            return await _answered(call, request, response, kind)
        if 300 <= response.status_code < 400:
            await response.aclose()
            if request.method != "POST":
                return httpx2.Response(502)
            return _said(f"HTTP {response.status_code}: a redirection is not followed")
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            await response.aclose()
            return _said(_PACKED, word="unreadable")
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


def _call_id(request: httpx2.Request) -> object:
    """Give the id of a call of a tool; None when something else is asked."""
    document = json.loads(request.content or b"null")
    if not isinstance(document, dict):
        return None
    message = cast("dict[str, Any]", document)
    return message.get("id") if message.get("method") == "tools/call" else None


async def _answered(
    call: object, request: httpx2.Request, response: httpx2.Response, kind: str
) -> httpx2.Response:
    """Let an answer to a call through when it is one; anything else becomes a word of ours."""
    status = response.status_code
    packed = response.headers.get("content-encoding", "identity").lower() != "identity"
    if status == 200 and kind.startswith(_STREAM) and not packed:
        return response
    limit = MESSAGE_BYTES if status < 400 else _ERROR_BYTES
    body: bytes | None = None
    if not packed and not 300 <= status < 400 and status < 500:
        try:
            body = await _body(response, limit)
        except httpx2.TransportError:
            return _said("its answer was cut", word="lost")
    await response.aclose()
    if status == 404 and _SESSION_HEADER in request.headers:
        return _said("the server forgot this session", word="gone")
    if status >= 400 and (body is None or not _is_answer(body, call, errors_only=True)):
        return _said(_reason(status), word="lost" if status >= 500 else "unreadable")
    if 300 <= status < 400:
        return _said(f"HTTP {status}: a redirection is not followed", word="unreadable")
    if packed:
        return _said(_PACKED, word="unreadable")
    if body is None or not _is_answer(body, call):
        return _said("its answer cannot be read", word="unreadable")
    return httpx2.Response(status, headers={"content-type": "application/json"}, content=body)


async def _body(response: httpx2.Response, limit: int) -> bytes | None:
    """Read a body, None when it is larger than that, or holds too many values."""
    body = bytearray()
    async for chunk in cast("httpx2.AsyncByteStream", response.stream):
        body += chunk
        if len(body) > limit:
            return None
    data = bytes(body)
    return None if len(data) > MESSAGE_VALUES and count_values(data) > MESSAGE_VALUES else data


def _is_answer(body: bytes, call: object, *, errors_only: bool = False) -> bool:
    """Whether a body is an answer of the protocol to that very call."""
    try:
        document: Any = json.loads(body)
    except (ValueError, RecursionError):
        return False
    if not isinstance(document, dict):
        return False
    said = cast("dict[str, Any]", document)
    if said.get("jsonrpc") != "2.0" or said.get("id") != call or isinstance(said["id"], bool):
        return False
    error: Any = said.get("error")
    if isinstance(error, dict):
        known = cast("dict[str, Any]", error)
        is_error = type(known.get("code")) is int and isinstance(known.get("message"), str)
        return is_error and "result" not in said
    return not errors_only and "error" not in said and isinstance(said.get("result"), dict)


async def _failure(request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
    """Tell what became of a request that is no call: it may be made again."""
    status = response.status_code
    body = await _body(response, _ERROR_BYTES) or b""
    await response.aclose()
    if status == 404 and _SESSION_HEADER in request.headers:
        return _said("the server forgot this session", status, word="gone")
    if _is_error(body):
        return httpx2.Response(status, headers={"content-type": "application/json"}, content=body)
    if status >= 500:
        return _said(f"HTTP {status}", status, word="lost")
    return _said(_reason(status), status)


def _reason(status: int) -> str:
    refused = " (the server refuses the key)" if status in (401, 403) else ""
    return f"HTTP {status}{refused}"


def _is_error(body: bytes) -> bool:
    with contextlib.suppress(ValueError, RecursionError):
        document: Any = json.loads(body)
        if isinstance(document, dict):
            return isinstance(cast("dict[str, Any]", document).get("error"), dict)
    return False


def _said(message: str, status: int = 400, *, word: Ours | None = None) -> httpx2.Response:
    error: dict[str, Any] = {"code": INTERNAL_ERROR, "message": message}
    if word is not None:
        error["data"] = marked(word)
    return httpx2.Response(status, json={"jsonrpc": "2.0", "id": None, "error": error})
