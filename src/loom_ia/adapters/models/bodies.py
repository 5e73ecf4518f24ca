"""How much of a body is read, and how it is decompressed.

Law. Of what is no answer, its beginning tells enough: no more of it is read, or decompressed. One
network packet may hold a thousand times its size, so that the loop is let go between two pieces;
what is compressed more than once is never decompressed.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Final

import httpx2

MOST_REFUSAL: Final = 256 * 1024
"""Bytes, decompressed, that are read of the body of an error, or of a page."""

_ENCODING: Final = "content-encoding"


def bounded(response: httpx2.Response) -> None:
    """Make `response` decompress piece by piece, and end early unless it is a success.

    The body of an error that cannot be decompressed ends where it cannot; of a success, reading
    raises `DecodingError`.
    """
    stream, encoding = response.stream, response.headers.get(_ENCODING)
    is_answer = response.is_success
    if not isinstance(stream, httpx2.AsyncByteStream) or (is_answer and not encoding):
        return
    packed = httpx2.Response(
        200, headers={_ENCODING: encoding} if encoding else None, stream=stream
    )
    response.headers.pop(_ENCODING, None)
    response.stream = _Unpacked(packed, None if is_answer else MOST_REFUSAL)


async def whole(response: httpx2.Response, most: int) -> bytes:
    """Read a body, up to the piece with which it is longer than `most` bytes."""
    data = bytearray()
    async with aclosing(response.aiter_bytes()) as pieces:
        async for piece in pieces:
            data += piece
            if len(data) > most:
                break
    return bytes(data)


def is_packed_twice(encoding: str) -> bool:
    """Whether a body with this `content-encoding` is compressed more than once."""
    codings = [each.strip().lower() for each in encoding.split(",")]
    return sum(each not in {"", "identity"} for each in codings) > 1


class _Unpacked(httpx2.AsyncByteStream):
    """A body without its compression; with `most`, its first bytes alone."""

    def __init__(self, packed: httpx2.Response, most: int | None) -> None:
        self._packed = packed
        self._most = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        try:
            if is_packed_twice(self._packed.headers.get(_ENCODING, "")):
                raise httpx2.DecodingError("it is compressed more than once")
            async with aclosing(self._packed.aiter_bytes()) as pieces:
                async for piece in pieces:
                    size += len(piece)
                    if self._most is not None and size >= self._most:
                        yield piece[: len(piece) - (size - self._most)]
                        return
                    yield piece
                    await asyncio.sleep(0)
        except httpx2.DecodingError:
            if self._most is None:
                raise

    async def aclose(self) -> None:
        await self._packed.aclose()
