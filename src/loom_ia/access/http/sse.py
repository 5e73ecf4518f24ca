"""Server-sent events: what happens in a run, as frames on one long response.

Laws. Only a fact has an `id`, its place in the session, so that who comes back with the last one
misses nothing and reads nothing twice. Text that is being said has none: it is never kept, and who
comes back in the middle of an answer is given it again from its beginning. A client that reads
slowly is waited for, one that reads nothing is let go, and neither is ever felt by the run.
https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

import asyncio
import contextlib
import json
import logging
import re
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from fastapi import Response
from starlette.types import Message, Receive, Scope, Send

from loom_ia.access.followed import Followed
from loom_ia.access.http import problems
from loom_ia.core.errors import LoomError
from loom_ia.core.events.envelope import Event
from loom_ia.core.views.privacy import shown
from loom_ia.engine.streaming import LiveItem
from loom_ia.engine.voices import Spoken, Unsaid
from loom_ia.i18n import Language

_logger = logging.getLogger("loom_ia.access")

MEDIA_TYPE: Final = "text/event-stream"
KEEP_ALIVE_S = 15.0
"""After that much silence a comment is sent, so that nobody between takes the line for dead."""
STALLED_S = 60.0
"""A client that takes nothing for so long is let go; it comes back where it was."""
_FAREWELL_S: Final = 1.0
_RETRY_MS: Final = 2_000
_CHUNK: Final = 65_536
# what some clients take for the end of a line, and what is no UTF-8
_UNSAFE: Final = re.compile("[\x85\u2028\u2029\ud800-\udfff]")
HEADERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Cache-Control": "no-cache",
        "X-Accel-Buffering": "no",  # nginx would keep the frames back
        "X-Content-Type-Options": "nosniff",
    }
)


class Frames:
    """Writes each event once, however many read it: the last ones are kept, `capacity` bytes."""

    def __init__(self, capacity: int = 8_388_608) -> None:
        self._capacity = capacity
        self._size = 0
        self._kept: OrderedDict[tuple[str, int, bool], bytes] = OrderedDict()

    def of(self, item: LiveItem, *, content: bool) -> bytes:
        """Write an item as a frame; nothing for what is not told outside."""
        match item:
            case Event():
                return self._fact(item, content)
            case Spoken():
                said = {"run_id": item.run_id, "offset": item.offset, "text": item.text}
                return frame("model.delta", said)
            case Unsaid():
                return frame("model.reset", {"run_id": item.run_id})
            case _:
                return b""

    def _fact(self, event: Event, content: bool) -> bytes:
        key = (event.event_id, event.seq, content)
        kept = self._kept.get(key)
        if kept is not None:
            self._kept.move_to_end(key)
            return kept
        text = event.model_dump_json() if content else _json(shown(event, content=False))
        made = _frame(event.type, text, event.seq)
        self._kept[key] = made
        self._size += len(made)
        while self._size > self._capacity:
            self._size -= len(self._kept.popitem(last=False)[1])
        return made


def frame(name: str, data: object) -> bytes:
    """Write a frame that is no fact."""
    return _frame(name, _json(data))


def _json(data: object) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def _frame(name: str, text: str, seq: int | None = None) -> bytes:
    """Write one frame, whose JSON is on one line, whatever its reader takes for a line."""
    body = _UNSAFE.sub(_escaped, text).encode()
    place = b"" if seq is None else b"id: %d\n" % seq
    return b"%sevent: %s\ndata: %s\n\n" % (place, _one_line(name), body)


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def _one_line(name: str) -> bytes:
    """Write the type of an event, which a newer version may have chosen."""
    return "".join(name.split()).encode("utf-8", "replace")


class EventStream(Response):
    """The response that lasts as long as the run, its reader and the server do."""

    media_type = MEDIA_TYPE

    def __init__(
        self,
        followed: Followed,
        frames: Frames,
        stopping: asyncio.Event,
        *,
        language: Language = "en",
    ) -> None:
        self.status_code = 200
        self.background = None
        self.init_headers(HEADERS)
        self._followed = followed
        self._frames = frames
        self._stopping = stopping
        self._language: Language = language

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the run is over, the client has left, or the server stops."""
        pump = asyncio.create_task(self._pump(send))
        gone = asyncio.create_task(_gone(receive))
        stop = asyncio.create_task(self._stopping.wait())
        tasks = (pump, gone, stop)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if stop.done() and not pump.done():
                self._followed.end()
                await asyncio.wait({pump, gone}, timeout=_FAREWELL_S)
        finally:
            self._followed.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if pump.done() and not pump.cancelled():
            pump.result()

    async def _pump(self, send: Send) -> None:
        await self._send(
            send,
            {"type": "http.response.start", "status": 200, "headers": self.raw_headers},
        )
        try:
            async for data in self._chunks():
                await self._send(send, _body(data))
            await self._send(send, _body(b"", more=False))
        except TimeoutError:
            _logger.info("a reader of run %s takes nothing: let go", self._followed.run_id)

    async def _send(self, send: Send, message: Message) -> None:
        async with asyncio.timeout(STALLED_S):
            await send(message)

    async def _chunks(self) -> AsyncIterator[bytes]:
        yield b"retry: %d\n: what happens in the run, as it does\n\n" % _RETRY_MS
        try:
            while (items := await self._followed.next(KEEP_ALIVE_S)) is not None:
                if not items:
                    yield b": still here\n\n"
                for chunk in self._written(items):
                    yield chunk
        except LoomError as error:
            if problems.row_of(error).status >= 500:
                _logger.error("following: %s", type(error).__name__)  # noqa: TRY400
            yield frame("error", problems.told(error, self._language))
            return
        if self._followed.is_over:
            yield b": the run is over\n\n"
        else:
            yield b": to be continued: come back\n\n"

    def _written(self, items: Iterable[LiveItem]) -> Iterable[bytes]:
        """Write items in pieces of some size: several frames, or a part of one."""
        parts: list[bytes] = []
        size = 0
        for item in items:
            part = self._frames.of(item, content=self._followed.content)
            parts.append(part)
            size += len(part)
            if size >= _CHUNK:
                whole = b"".join(parts)
                for start in range(0, size, _CHUNK):
                    yield whole[start : start + _CHUNK]
                parts, size = [], 0
        if parts:
            yield b"".join(parts)


def _body(data: bytes, *, more: bool = True) -> dict[str, Any]:
    return {"type": "http.response.body", "body": data, "more_body": more}


async def _gone(receive: Receive) -> None:
    """Wait until the client has left."""
    with contextlib.suppress(asyncio.CancelledError):
        while (await receive())["type"] != "http.disconnect":
            pass
