"""One process that answers over HTTP, from its first answer until its runs are handed back.

Law. A stop is asked once and takes at most `execution.shutdown_timeout` seconds: no connection is
taken any more, streams end, runs that nobody waits for are handed back after the effect under way,
answers that somebody waits for may still be given, and what is left at the end is cut where that
can be told. A second signal leaves at once; what is written stays true then, as after any crash.
"""

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import Callable, Generator
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

import uvicorn

from loom_ia.access.api import Loom
from loom_ia.access.http.app import create_app
from loom_ia.access.http.lines import LAST_PATIENCE_S, PATIENCE_S, Lines

if TYPE_CHECKING:
    from fastapi import FastAPI

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_TICKS_PER_LOOK: Final = 10

_log = logging.getLogger("loom_ia.access.http")


_LAST_WORDS_S: Final = 1.0


def _has_said_nothing(line: object) -> bool:
    """Whether a connection has not sent a whole request head yet."""
    return getattr(line, "cycle", None) is None


class Server(uvicorn.Server):
    """A server of one `Loom`, which it does not close.

    `ready` is called once it answers; `asked` once it was told to stop.
    """

    def __init__(
        self,
        loom: Loom,
        app: "FastAPI",
        *,
        ready: Callable[[], None] = lambda: None,
        asked: Callable[[], None] = lambda: None,
        proxy: str = "",
    ) -> None:
        settings: dict[str, Any] = {}
        if proxy:
            settings["forwarded_allow_ips"] = proxy
        self._patience = loom.config.execution.shutdown_timeout
        super().__init__(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                lifespan="on",
                ws="none",
                server_header=False,
                proxy_headers=bool(proxy),
                timeout_graceful_shutdown=max(1, int(self._patience)),
                **settings,
            )
        )
        self._loom = loom
        self._app = app
        self._ready = ready
        self._asked = asked
        self._signals = 0
        self._watching: asyncio.Task[None] | None = None
        self._lines = Lines()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer; what was left by others is taken up beside the first answers."""
        await super().startup(sockets)
        self._watching = asyncio.create_task(self._watch())
        self._ready()

    async def on_tick(self, counter: int) -> bool:
        """Let go of clients that read nothing of what is over for them, now and then."""
        if counter % _TICKS_PER_LOOK == 0:
            self._lines.look(self.server_state.connections, PATIENCE_S)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End streams, hand runs back, and wait for what somebody waits for."""
        self._asked()
        self._app.state.stopping.set()
        await self._hear_last()
        halting = asyncio.create_task(self._loom.halt(within=self._patience))
        cutting = asyncio.create_task(self._cut_lines())
        await super().shutdown(sockets)
        cutting.cancel()
        await halting
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)

    async def _hear_last(self) -> None:
        """Let nobody else in, and let those who just came in say what they want.

        A line that is closed before its first request looks like a refusal.
        """
        for server in self.servers:
            server.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS_S):
                while any(map(_has_said_nothing, self.server_state.connections)):  # noqa: ASYNC110 -- nobody tells
                    await asyncio.sleep(_LAST_WORDS_S / 50)

    async def _watch(self) -> None:
        """Take up what others leave, whatever goes wrong once."""
        while True:
            try:
                await self._loom.watch()
            except Exception as error:  # noqa: BLE001 -- the next look may go well
                _log.warning("recovery stopped, and begins again: %s", type(error).__name__)
                await asyncio.sleep(self._loom.config.execution.lease / 2)
            else:
                return

    async def _cut_lines(self) -> None:
        while True:
            self._lines.look(self.server_state.connections, LAST_PATIENCE_S)
            await asyncio.sleep(LAST_PATIENCE_S / 4)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Take the signals that stop, for as long as the server serves."""
        before = {number: signal.signal(number, self.handle_exit) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def leave(self, orphaned: int) -> None:
        """Stop, as whoever watched this process has gone."""
        asyncio.get_running_loop().remove_reader(orphaned)
        self.should_exit = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop at the first signal, leave at the second."""
        self._signals += 1
        if self._signals > 1:
            os._exit(128 + sig)
        self.should_exit = True


class _Relay(logging.Handler):
    """Says what the HTTP server has to say in the package's own log, without any content."""

    def emit(self, record: logging.LogRecord) -> None:
        record.name = _log.name
        if _log.isEnabledFor(record.levelno):
            _log.handle(record)


async def serve(
    loom: Loom,
    door: socket.socket,
    *,
    ready: Callable[[], None] = lambda: None,
    asked: Callable[[], None] = lambda: None,
    proxy: str = "",
    orphaned: int | None = None,
) -> None:
    """Serve a `Loom` on a socket that listens, until a signal stops it.

    `proxy` lists the addresses whose `X-Forwarded-*` headers are believed; nobody's are without it.
    `orphaned` is a pipe whose end stops the server, too: that of the process that watches it.
    When this returns the runs are handed back and the `Loom` can be closed.
    """
    app = create_app(loom)
    if not proxy:  # which chooses by itself the names that lead here
        here = socket.gethostname().lower()
        host = loom.config.server.http.host.lower()
        app.state.doorkeeper.names = frozenset({host, here, f"{here}.local"})
    voice = logging.getLogger("uvicorn.error")
    voice.handlers, voice.propagate = [_Relay(logging.WARNING)], False
    voice.setLevel(logging.WARNING)
    server = Server(loom, app, ready=ready, asked=asked, proxy=proxy)
    if orphaned is not None:
        loop = asyncio.get_running_loop()
        loop.add_reader(orphaned, server.leave, orphaned)
    await server.serve(sockets=[door])


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """Give the fastest event loop that is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop
