"""HTTP/1.1 as a server reads and writes it, and what it knows of its client."""

import asyncio
import contextlib
import json
import socket
import struct
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

Cut: TypeAlias = Literal["close", "reset", "end"]
"""How a response ends too soon: the connection closes, or is reset, or the body ends in order."""

_RESET: Final = struct.pack("ii", 1, 0)
_REASONS: Final = {200: "OK", 400: "Bad Request", 429: "Too Many Requests", 599: "No Reply"}
_LIMIT: Final = 2**20  # bytes of head of a request


class Moment:
    """Something that happens once: it can be waited for in any loop and in any thread."""

    def __init__(self) -> None:
        self.at: float | None = None
        self._happened = threading.Event()
        self._waiting: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()

    def set(self) -> None:
        """Say that it happened, now."""
        if self.at is None:
            self.at = time.monotonic()
        self._happened.set()
        for loop, event in list(self._waiting):
            with contextlib.suppress(RuntimeError):  # that loop is over
                loop.call_soon_threadsafe(event.set)

    def is_set(self) -> bool:
        """Whether it happened."""
        return self._happened.is_set()

    async def wait(self, timeout: float = 5.0) -> float:
        """Wait for it and give its instant. Raises `TimeoutError` after `timeout` seconds."""
        event = asyncio.Event()
        key = (asyncio.get_running_loop(), event)
        self._waiting.add(key)
        try:
            async with asyncio.timeout(timeout):
                if not self.is_set():
                    await event.wait()
        finally:
            self._waiting.discard(key)
        return self.at or 0.0

    def wait_in_thread(self, timeout: float = 5.0) -> float:
        """Wait as `wait` does, from a thread that has no loop."""
        if not self._happened.wait(timeout):
            raise TimeoutError
        return self.at or 0.0


@dataclass(eq=False)
class Request:
    """What a client sent: `at` is a `time.monotonic()`, `headers` have lower-case names.

    `number` is its place among the requests of the server, from 0.
    `body` is the JSON, or None when it is none. `held` happens when the reply begins to wait:
    silent, paused or hanging. `ended` happens when the reply was performed to its end,
    `disconnected` when the client left before that.
    """

    method: str
    path: str
    query: str
    headers: dict[str, str]
    raw: bytes
    body: Any
    number: int = 0
    at: float = field(default_factory=time.monotonic)
    held: Moment = field(default_factory=Moment)
    ended: Moment = field(default_factory=Moment)
    disconnected: Moment = field(default_factory=Moment)


class Connection:
    """One connection: requests come out of it, a response goes in. `gone` is set by its client."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.gone = asyncio.Event()
        self.started = False
        self.cut_off = False
        self._from_client = reader
        self._writer = writer
        # So that `drain` waits for everything to be sent.
        writer.transport.set_write_buffer_limits(high=0)
        self._received = asyncio.StreamReader(limit=_LIMIT)
        self._chunked = False

    async def pump(self) -> None:
        """Take in what the client sends, which is how its leaving is noticed at any time."""
        with contextlib.suppress(ConnectionError):
            while data := await self._from_client.read(2**16):
                self._received.feed_data(data)
        self.gone.set()
        self._received.feed_eof()

    async def request(self) -> Request | None:
        """Read the next request, or None when the client left."""
        try:
            head = await self._received.readuntil(b"\r\n\r\n")
            first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
            method, target, _ = first.split(" ")
            pairs = (line.partition(":") for line in lines)
            headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
            raw = await self._received.readexactly(int(headers.get("content-length", 0)))
        except asyncio.IncompleteReadError:
            return None
        path, _, query = target.partition("?")
        self.started = False
        return Request(method, path, query, headers, raw, _json(raw))

    async def start(self, status: int, headers: Mapping[str, str]) -> None:
        """Send the head; the body comes in chunks when the headers do not give its length."""
        self.started = True
        known = {name.lower(): value for name, value in headers.items()}
        self._chunked = "content-length" not in known
        if self._chunked:
            known["transfer-encoding"] = "chunked"
        lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Status')}"]
        lines += [f"{name}: {value}" for name, value in known.items()]
        await self._write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))

    async def send(self, data: bytes) -> None:
        """Send a piece of the body at once."""
        if data:
            await self._write(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)

    async def finish(self) -> None:
        """End the response in good order."""
        if self._chunked:
            await self._write(b"0\r\n\r\n")

    async def whole(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Send a response that is known from its beginning."""
        await self.start(status, {**headers, "content-length": str(len(body))})
        await self.send(body)

    async def cut(self, how: Cut) -> None:
        """End the response too soon; what was sent before is received."""
        if how == "end":
            await self.finish()
            return
        self.cut_off = True
        transport = self._writer.transport
        if how == "reset":
            opened: socket.socket | None = transport.get_extra_info("socket")
            if opened is not None:
                opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            transport.abort()
        else:
            self._writer.close()

    async def close(self, *, at_once: bool) -> None:
        """Close the connection, `at_once` or after what is still to be sent."""
        if at_once:
            self._writer.transport.abort()
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()

    async def _write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()


def _json(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except ValueError:
        return None
