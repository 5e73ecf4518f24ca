"""Keeping what goes over the wire: each exchange, without secrets, and bounded.

Law. Headers are kept by a list of those that tell something, secrets among the rest are replaced
by name; bodies lose whatever looks like the bytes of a file.
"""

import re
import time
from base64 import b64decode
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Final

import httpx2

from loom_ia.adapters.models.bodies import is_packed_twice
from loom_ia.adapters.models.hidden import HIDDEN, without, without_piece
from loom_ia.core.json import storable_text
from loom_ia.core.model.exchange import HttpExchange
from loom_ia.core.ports.models import OnExchange

_SECRET_HEADER: Final = re.compile(r"auth|key|token|cookie|secret|signature", re.IGNORECASE)
_TELLS: Final = re.compile(r"ratelimit|tokens-(limit|remaining|reset)", re.IGNORECASE)
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]{256,}={0,2}")
_SECRET_QUERY: Final = re.compile(
    r"(?<=[?&])([^=&]*(?:key|token|secret|sig)[^=&]*)=[^&]*", re.IGNORECASE
)


class Observation:
    """Watches one exchange: tell it of the request, and of the answer or of what came instead."""

    def __init__(self, told: OnExchange, *, secret: str | None, max_bytes: int) -> None:
        self._told: OnExchange | None = told
        self._secret = secret
        self._max_bytes = max_bytes
        self._started = time.perf_counter()
        self._request: httpx2.Request | None = None

    def sent(self, request: httpx2.Request) -> None:
        """Take the request that is about to leave."""
        self._request = request
        self._started = time.perf_counter()

    def answered(self, response: httpx2.Response) -> None:
        """Take the answer whose body is about to be read; the exchange is told after that."""
        stream = response.stream
        if isinstance(stream, httpx2.AsyncByteStream):
            # As it came: whoever reads the response may change its headers.
            came = httpx2.Response(response.status_code, headers=response.headers.raw)
            response.stream = _ObservedStream(
                stream,
                self._max_bytes,
                lambda received, size, error: self._tell(came, received, size, error),
            )

    def failed(self, error: BaseException) -> None:
        """Take what came in the place of an answer; nothing when the exchange was told."""
        self._tell(None, b"", 0, type(error.__cause__ or error).__name__)

    def _tell(
        self, response: httpx2.Response | None, received: bytes, size: int, error: str
    ) -> None:
        told, self._told = self._told, None
        if told is not None and self._request is not None:
            told(self._exchange(self._request, response, received, size, error))

    def _exchange(
        self,
        request: httpx2.Request,
        response: httpx2.Response | None,
        received: bytes,
        size: int,
        error: str,
    ) -> HttpExchange:
        sent = request.content
        body, truncated = self._body(sent)
        answer, answer_truncated = self._body(_decoded(response, received, self._max_bytes))
        return HttpExchange(
            method=request.method,
            url=self._clean(_SECRET_QUERY.sub(rf"\1={HIDDEN}", str(request.url))),
            status_code=response.status_code if response else None,
            duration_ms=round((time.perf_counter() - self._started) * 1000),
            request_headers=self._headers(request.headers),
            request_body=body,
            request_bytes=len(sent),
            request_sha256=sha256(sent).hexdigest(),
            request_truncated=truncated,
            response_headers=self._headers(response.headers) if response else {},
            response_body=answer,
            response_bytes=size,
            response_truncated=answer_truncated or size > len(received),
            error=error,
        )

    def _headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        return {
            name.lower(): self._clean(value)
            if _TELLS.search(name) or not _SECRET_HEADER.search(name)
            else HIDDEN
            for name, value in headers.items()
        }

    def _body(self, data: bytes) -> tuple[str, bool]:
        text = self._clean(data.decode("utf-8", "replace"))
        text = _BASE64.sub(_sized, without_piece(self._secret, text))
        whole = text.encode()
        if len(whole) <= self._max_bytes:
            return text, False
        return whole[: self._max_bytes].decode("utf-8", "ignore"), True

    def _clean(self, text: str) -> str:
        return storable_text(without(self._secret, text))


class _ObservedStream(httpx2.AsyncByteStream):
    """A body that remembers its first bytes, and says when it was read or left."""

    def __init__(
        self,
        inner: httpx2.AsyncByteStream,
        max_bytes: int,
        ended: Callable[[bytes, int, str], None],
    ) -> None:
        self._inner = inner
        self._max_bytes = max_bytes
        self._ended: Callable[[bytes, int, str], None] | None = ended
        self._kept = bytearray()
        self._size = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._inner:
                self._size += len(piece)
                room = self._max_bytes - len(self._kept)
                if room > 0:
                    self._kept += piece[:room]
                yield piece
        except GeneratorExit:
            self._end("left")
            raise
        except BaseException as error:
            self._end(type(error).__name__)
            raise
        self._end("")

    async def aclose(self) -> None:
        self._end("left")
        await self._inner.aclose()

    def _end(self, error: str) -> None:
        ended, self._ended = self._ended, None
        if ended is not None:
            ended(bytes(self._kept), self._size, error)


def _decoded(response: httpx2.Response | None, received: bytes, max_bytes: int) -> bytes:
    """Undo the compression of what was received, as far as it goes."""
    encoding = response.headers.get("content-encoding") if response is not None else None
    if not encoding:
        return received
    if is_packed_twice(encoding):
        return b""
    headers = {"content-encoding": encoding}
    packed = httpx2.Response(200, headers=headers, stream=httpx2.ByteStream(received))
    data = bytearray()
    with suppress(httpx2.DecodingError):
        for piece in packed.iter_bytes():
            data += piece
            if len(data) > max_bytes:
                break
    return bytes(data)


def _sized(match: re.Match[str]) -> str:
    """Give the size of what was encoded, and the digest by which it is known elsewhere."""
    found = match[0]
    data = b64decode(found[: len(found) // 4 * 4])
    return f"[{len(data)} bytes, sha256 {sha256(data).hexdigest()}]"
