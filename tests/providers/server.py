"""A provider on the loopback: it answers in three formats what a test says, and tells what it saw.

async with Provider() as provider:
    provider.reply(Says("Hello there."))
    client = AsyncAnthropic(api_key="k", base_url=provider.url, max_retries=0)
    ...
    assert provider.requests[0].body["max_tokens"] == 100
"""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Self

from tests.providers.formats.anthropic import error as anthropic_error
from tests.providers.formats.chat import error as openai_error
from tests.providers.formats.common import model_of
from tests.providers.playing import JSON, Performance
from tests.providers.replies import (
    Answer,
    Called,
    Declined,
    Fails,
    Hidden,
    Raw,
    Reply,
    Says,
    Silent,
    Text,
    Thought,
    Tokens,
    sse,
)
from tests.providers.wire import Connection, Moment, Request

__all__ = [
    "Called",
    "Declined",
    "Fails",
    "Hidden",
    "Moment",
    "Provider",
    "Raw",
    "Request",
    "Says",
    "Silent",
    "Text",
    "Thought",
    "Tokens",
    "anthropic_error",
    "openai_error",
    "sse",
    "unused_url",
]

NO_REPLY: Final = 599


@dataclass(frozen=True)
class _Queued:
    """A reply, and which requests it is for."""

    answer: Answer
    path: str | None
    model: str | None

    def fits(self, request: Request) -> bool:
        """Whether it may answer `request`."""
        by_path = self.path is None or request.path.endswith(self.path)
        return by_path and self.model in (None, model_of(request))


class Provider:
    """A server of models: `url` is its address, `requests` what it was asked.

    `connections` counts those that are open, `opened` those that ever were. Leaving it closes all
    of them, and raises `AssertionError` when there are `faults`: a request for which there was no
    reply, or a reply that could not be written.
    """

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[Request] = []
        self.faults: list[str] = []
        self.opened = 0
        self._queue: list[_Queued] = []
        self._defaults: list[_Queued] = []
        self._lock = threading.Lock()
        self._open: set[asyncio.Task[None]] = set()
        self._received: dict[int, Moment] = {}
        self._none_open = Moment()
        self._none_open.set()

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._open)

    @property
    def left(self) -> int:
        """How many replies wait for their request."""
        return len(self._queue)

    def reply(self, *answers: Answer, path: str | None = None, model: str | None = None) -> None:
        """Queue replies, one for each request to come.

        `path` and `model` keep them for the requests whose path ends so, whose model is that. An
        answer may also be a function of the request.
        """
        with self._lock:
            self._queue += [_Queued(answer, path, model) for answer in answers]

    def default(self, answer: Answer, *, path: str | None = None, model: str | None = None) -> None:
        """Answer so, as often as needed, the requests that no queued reply is for."""
        with self._lock:
            self._defaults.insert(0, _Queued(answer, path, model))

    async def received(self, number: int = 1, timeout: float = 5.0) -> Request:
        """Wait until so many requests came, and give the last one of these."""
        await self._arrival(number).wait(timeout)
        return self.requests[number - 1]

    async def idle(self, timeout: float = 1.0) -> None:
        """Wait until no connection is open. Raises `TimeoutError` when one still is."""
        await self._none_open.wait(timeout)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(self, error: type[BaseException] | None, *_: object) -> None:
        self._server.close()
        tasks = list(self._open)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._server.wait_closed()
        if error is None and self.faults:
            raise AssertionError("\n".join(self.faults))

    @classmethod
    @contextmanager
    def in_thread(cls) -> Iterator[Self]:
        """Serve from a thread, for a test that has no loop of its own."""
        provider, ready = cls(), threading.Event()
        ending: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

        async def serve() -> None:
            async with provider:
                ended = asyncio.Event()
                ending.append((asyncio.get_running_loop(), ended))
                ready.set()
                await ended.wait()
                faults, provider.faults = provider.faults, []
            provider.faults = faults

        thread = threading.Thread(target=asyncio.run, args=(serve(),), daemon=True)
        thread.start()
        ready.wait()
        try:
            yield provider
        finally:
            loop, ended = ending[0]
            loop.call_soon_threadsafe(ended.set)
            thread.join()
        if provider.faults:
            raise AssertionError("\n".join(provider.faults))

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._open:
            self._none_open = Moment()
        self.opened += 1
        task = asyncio.ensure_future(self._serve(Connection(reader, writer)))
        self._open.add(task)
        task.add_done_callback(self._closed)

    def _closed(self, task: asyncio.Task[None]) -> None:
        self._open.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.faults.append(f"a connection failed: {error!r}")
        if not self._open:
            self._none_open.set()

    def _arrival(self, number: int) -> Moment:
        with self._lock:
            return self._received.setdefault(number, Moment())

    async def _serve(self, connection: Connection) -> None:
        """Answer the requests of a connection, one after the other."""
        pump = asyncio.ensure_future(connection.pump())
        at_once = True
        try:
            while not connection.cut_off:
                request = await connection.request()
                if request is None:
                    break
                request.number = len(self.requests)
                self.requests.append(request)
                self._arrival(len(self.requests)).set()
                if not await self._watch(connection, request):
                    break
                if request.headers.get("connection", "").lower() == "close":
                    break
            at_once = False
        finally:
            pump.cancel()
            await connection.close(at_once=at_once)

    async def _watch(self, connection: Connection, request: Request) -> bool:
        """Perform the reply while the client is there; say whether it was until the end."""
        performing = asyncio.ensure_future(self._perform(connection, request))
        leaving = asyncio.ensure_future(connection.gone.wait())
        try:
            await asyncio.wait((performing, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            if not performing.done():
                performing.cancel()
            await asyncio.wait((performing,))
        if not performing.cancelled() and performing.exception() is None:
            request.ended.set()
            return True
        fault = None if performing.cancelled() else performing.exception()
        if fault is None or isinstance(fault, ConnectionError):
            request.disconnected.set()
        else:
            await self._fault(connection, request, f"the reply failed: {fault!r}")
        return False

    async def _perform(self, connection: Connection, request: Request) -> None:
        answer = self._take(request)
        if answer is None:
            asked = f"{request.method} {request.path}, model {model_of(request)!r}"
            await self._fault(connection, request, f"no reply was queued for {asked}")
            return
        await Performance(connection, request).play(answer)

    def _take(self, request: Request) -> Reply | None:
        with self._lock:
            found = next((queued for queued in self._queue if queued.fits(request)), None)
            if found is not None:
                self._queue.remove(found)
            else:
                found = next((queued for queued in self._defaults if queued.fits(request)), None)
        if found is None:
            return None
        return found.answer(request) if callable(found.answer) else found.answer

    async def _fault(self, connection: Connection, request: Request, text: str) -> None:
        """Make the test fail plainly."""
        self.faults.append(f"request {request.number}: {text}")
        if connection.started:
            await connection.cut("reset")
            return
        body = json.dumps({"type": "error", "error": {"type": "no_reply", "message": text}})
        await connection.whole(NO_REPLY, JSON, body.encode())


async def unused_url() -> str:
    """Give an address where nobody listens."""
    async with Provider() as provider:
        return provider.url
