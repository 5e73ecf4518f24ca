"""How a reply is played on a connection: whole, piece by piece, or broken where it says so."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Final, assert_never

from tests.providers.formats.anthropic import ANTHROPIC
from tests.providers.formats.chat import CHAT
from tests.providers.formats.common import Event, Format
from tests.providers.formats.responses import RESPONSES
from tests.providers.replies import Fails, Raw, Reply, Says, Silent
from tests.providers.wire import Connection, Request

FORMATS: Final = (ANTHROPIC, CHAT, RESPONSES)
SSE: Final = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
JSON: Final = {"content-type": "application/json"}


class Performance:
    """Play one reply on a connection."""

    def __init__(self, connection: Connection, request: Request) -> None:
        self._to = connection
        self._request = request
        self._format = _format_of(request.path)

    async def play(self, reply: Reply) -> None:
        """Send the reply until its end."""
        match reply:
            case Says():
                await self._say(reply)
            case Raw():
                await self._raw(reply)
            case Fails():
                await self._fail(reply)
            case Silent():
                await self._keep_silent(reply)
            case _:
                assert_never(reply)

    async def _say(self, says: Says) -> None:
        written = self._format
        if written is None:
            raise ValueError(f"{self._request.path} belongs to no format: answer it with Raw")
        body = self._request.body
        if not (isinstance(body, dict) and body.get("stream")):
            if _breaks(says):
                raise ValueError("only a streamed answer can be broken, and none was asked for")
            whole = json.dumps(written.whole(says, self._request))
            await self._to.whole(200, self._headers(JSON, says.headers), whole.encode())
            return
        events = written.events(says, self._request)
        pieces = sum(event.kind == "content" for event in events)
        if late := [place for place in _breaks(says) if place > pieces]:
            raise ValueError(f"cannot break after piece {late[0]}: there are {pieces}")
        await self._to.start(200, self._headers(SSE, says.headers))
        await self._stream(says, written, events)

    async def _stream(self, says: Says, written: Format, events: list[Event]) -> None:
        opened = sum(event.kind == "opening" for event in events)
        for event in events[:opened]:
            await self._to.send(event.data)
        sent = 0
        if await self._broken(says, written, sent):
            return
        for event in events[opened:]:
            await self._to.send(event.data)
            if event.kind != "content":
                continue
            sent += 1
            if await self._broken(says, written, sent):
                return
            await asyncio.sleep(says.slow)
        await self._to.finish()

    async def _broken(self, says: Says, written: Format, sent: int) -> bool:
        """Do what is to be done after so many pieces; say whether the answer is over."""
        if says.pause_after is not None and says.pause_after[0] == sent:
            await self._hold(says.pause_after[1])
        if says.hang_after == sent:
            await self._hold(None)
        if says.error_after is not None and says.error_after[0] == sent:
            await self._to.send(written.error_event(says.error_after[1]))
            await self._to.finish()
            return True
        if says.cut_after == sent:
            await self._to.cut(says.cut)
            return True
        return False

    async def _raw(self, raw: Raw) -> None:
        await self._to.start(raw.status, self._headers(SSE, raw.headers))
        for rank, chunk in enumerate(raw.chunks):
            if rank:
                await asyncio.sleep(raw.pause)
            await self._to.send(chunk)
        if raw.cut:
            await self._to.cut("close" if raw.cut is True else raw.cut)
        else:
            await self._to.finish()

    async def _fail(self, fails: Fails) -> None:
        body = fails.body
        if body is None:
            if self._format is None:
                raise ValueError(f"{self._request.path} belongs to no format: give the body")
            body = self._format.error_body(fails.status, f"it fails with {fails.status}")
        kind = {"content-type": "text/html"} if isinstance(body, str) else JSON
        text = body if isinstance(body, str) else json.dumps(body)
        await self._to.whole(fails.status, self._headers(kind, fails.headers), text.encode())

    async def _keep_silent(self, silent: Silent) -> None:
        if silent.headers_first:
            await self._to.start(200, self._headers(SSE, {}))
        await self._hold(silent.before)
        if silent.then is None:
            await self._to.cut("close")
        elif silent.headers_first:
            raise ValueError("once the headers are sent, nothing can follow a silence")
        else:
            await self.play(silent.then)

    async def _hold(self, seconds: float | None) -> None:
        """Wait so long, or else for the client to leave, which ends what is being played."""
        self._request.held.set()
        if seconds is None:
            await asyncio.get_running_loop().create_future()
        else:
            await asyncio.sleep(seconds)

    def _headers(self, own: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
        given = {name.lower(): value for name, value in more.items()}
        name = self._format.request_id if self._format else "x-request-id"
        return {**own, name: f"req_{self._request.number:04d}", **given}


def _format_of(path: str) -> Format | None:
    return next((known for known in FORMATS if path.endswith(known.path)), None)


def _breaks(says: Says) -> list[int]:
    """Give the numbers of pieces after which something happens."""
    pairs: list[tuple[int, Any] | None] = [says.error_after, says.pause_after]
    places = [pair[0] for pair in pairs if pair is not None]
    return [n for n in (says.cut_after, says.hang_after, *places) if n is not None]
