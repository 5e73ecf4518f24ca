"""One connection to a server, opened and closed by a task of its own.

Law. Only the task that opened a connection closes it, for what it opens must be left where it was
entered; calls come from any task. A connection that was lost stays lost: another one is made.
"""

import asyncio
import contextvars
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, Final, cast

from mcp_types import PARSE_ERROR

from loom_ia.adapters.mcp.bounds import ERROR_CHARS, LIST_PAGES, TOOLS
from loom_ia.adapters.mcp.definitions import Listed, read_page
from loom_ia.adapters.mcp.http import address_streams
from loom_ia.adapters.mcp.session import CONNECTION_CLOSED, MCPError, Session, make_session
from loom_ia.adapters.mcp.settings import Settings
from loom_ia.adapters.mcp.stdio import Errors, Program, program_streams
from loom_ia.adapters.mcp.words import NOT_BEGUN, word_of
from loom_ia.core.errors import SourceUnavailable, told
from loom_ia.core.json import JsonObject, storable_text

_log = logging.getLogger("loom_ia.mcp")

_PROBE_SHARE: Final = 0.6
"""What a server is left of `connect_timeout` to say that it speaks the newer protocol."""
_CLOSE_S: Final = 10.0
"""How long closing may take before it is cut short."""
_LIST_AGE_S: Final = 300.0
"""After how long a list is asked for again, though nothing was said of a change."""


class Lost(Exception):
    """The connection ended while something was asked; `is_undone` when nothing was done for it."""

    def __init__(self, is_undone: bool = False) -> None:
        super().__init__()
        self.is_undone = is_undone


class Refused(Exception):
    """The server answered by an error; `is_begun` unless the protocol says that nothing was."""

    def __init__(self, text: str, *, is_begun: bool = True) -> None:
        super().__init__(text)
        self.is_begun = is_begun


class Unreadable(Refused):
    """What came is no answer that can be read; the text is ours."""


@dataclass(eq=False, slots=True)
class Connection:
    """A server that was reached."""

    settings: Settings
    legacy: bool = False
    """Whether it is only spoken to in the older protocol."""
    errors: Errors = field(init=False)
    is_lost: asyncio.Event = field(default_factory=asyncio.Event)
    died_asked: bool = False
    """Whether it ended when it was asked which protocol it speaks."""
    _session: Session | None = None
    _owner: "asyncio.Task[None] | None" = None
    _leave: asyncio.Event = field(default_factory=asyncio.Event)
    _listed: Listed | None = None
    _listed_at: float = 0.0
    _listing: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self.errors = Errors(self.settings.name)

    @property
    def is_usable(self) -> bool:
        """Whether the other side is there, as far as is known."""
        return self._session is not None and not self.is_lost.is_set()

    async def open(self) -> None:
        """Connect, agree on a protocol and ask for the tools; raises `SourceUnavailable`.

        Cancelled, it lets go of what it opened.
        """
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        context = contextvars.Context()  # whoever comes first leaves nothing of his in here
        self._owner = asyncio.create_task(self._own(ready), context=context)
        try:
            async with asyncio.timeout(self.settings.connect_timeout):
                await asyncio.shield(ready)
        except BaseException as error:
            await self.close()
            if isinstance(error, TimeoutError):
                raise self._unavailable(
                    f"no answer in {self.settings.connect_timeout:g} s"
                ) from error
            raise

    async def _own(self, ready: "asyncio.Future[None]") -> None:
        is_asked = False
        try:
            async with AsyncExitStack() as stack:
                streams = await stack.enter_async_context(self._streams())
                session = make_session(streams, version("loom-ia"), self._lost, self._changed)
                await stack.enter_async_context(session)
                is_asked = self.settings.transport == "stdio" and not self.legacy
                await session.negotiate(
                    self.settings.connect_timeout * _PROBE_SHARE, legacy=self.legacy
                )
                self.legacy |= session.kept_quiet
                is_asked = False
                self._session = session
                await self.tools()
                if not ready.done():
                    ready.set_result(None)
                await self._until_left()
        except Exception as error:  # noqa: BLE001 (a transport may raise anything, and in groups)
            self.died_asked = is_asked and self.is_lost.is_set()
            if ready.done():
                _log.debug("[%s] connection lost: %s", self.settings.name, told(_first(error)))
            else:
                ready.set_exception(self._why(error))
        finally:
            self._lost()
            if not ready.done():
                ready.set_exception(self._unavailable("it was closed"))
            if ready.exception() is not None:
                pass  # looked at, so that nobody who left is told of it by the loop

    async def _until_left(self) -> None:
        waits = [asyncio.ensure_future(e.wait()) for e in (self._leave, self.is_lost)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    @asynccontextmanager
    async def _streams(self) -> AsyncGenerator[tuple[Any, Any]]:
        its = self.settings
        if its.transport == "http":
            async with address_streams(
                its.url, its.headers, its.connect_timeout, self._lost
            ) as streams:
                yield streams
            return
        program = Program(its.name, its.command, its.args, its.env, its.cwd)
        async with program_streams(program, self.errors, self._lost) as streams:
            yield streams

    def _lost(self) -> None:
        self.is_lost.set()

    def _changed(self) -> None:
        self._listed = None

    def _why(self, error: BaseException) -> SourceUnavailable:
        first = _first(error)
        if isinstance(first, SourceUnavailable):
            return first
        if isinstance(first, Lost) or (
            isinstance(first, MCPError) and first.code == CONNECTION_CLOSED
        ):
            return self._unavailable("it left before it had answered")
        if isinstance(first, MCPError):
            return self._unavailable(sentence(first.message))
        return self._unavailable(told(first))

    def _unavailable(self, reason: str) -> SourceUnavailable:
        said = " | ".join([*self.errors.lines][-3:])
        if said:
            return SourceUnavailable(
                "the MCP server {server} cannot be reached: {reason}; it last wrote: {said}",
                server=self.settings.name,
                reason=reason,
                said=said,
            )
        return SourceUnavailable(
            "the MCP server {server} cannot be reached: {reason}",
            server=self.settings.name,
            reason=reason,
        )

    async def close(self) -> None:
        """Close it and wait until all of it is gone; closing twice does nothing."""
        owner = self._owner
        if owner is None:
            return
        self._leave.set()
        if self._session is None:
            owner.cancel()
        for patience in (_CLOSE_S, _CLOSE_S, None):
            await asyncio.wait((owner,), timeout=patience)
            if owner.done():
                return
            owner.cancel()

    async def check(self) -> None:
        """Find out whether the server answers; raises `Lost` or `Refused`.

        In the newer protocol it tells of no change by itself: it is asked for its tools again.
        """
        session = self._usable()
        if session.is_modern:
            self._listed = None
            await self.tools()
        else:
            await self._asked(session.alive)

    async def tools(self) -> Listed:
        """Give what the server offers, asked again after a change and from time to time."""
        loop = asyncio.get_running_loop()
        async with self._listing:
            session = self._usable()
            known = self._listed
            if known is not None and loop.time() - self._listed_at < _LIST_AGE_S:
                return known
            listed = Listed()
            self._listed, self._listed_at = listed, loop.time()  # a change from here on is seen
            try:
                await self._read_all(session, listed)
            except BaseException:
                self._listed = None
                raise
            return listed

    async def _read_all(self, session: Session, listed: Listed) -> None:
        cursor: str | None = None
        for _ in range(LIST_PAGES):
            asked = cursor
            page = await self._asked(lambda at=asked: session.page(at))
            cursor = await read_page(page, listed)
            if not cursor or listed.is_cut or len(listed.definitions) >= TOOLS:
                listed.is_cut |= bool(cursor)
                return
        listed.is_cut = True

    async def call(self, name: str, arguments: JsonObject, meta: JsonObject) -> Any:
        """Give what a call gave, as it came; raises `Lost` or `Refused`."""
        session = self._usable(is_undone=True)
        asked = cast("dict[str, Any]", arguments)
        return await self._asked(lambda: session.call(name, asked, cast("dict[str, Any]", meta)))

    def _usable(self, *, is_undone: bool = False) -> Session:
        if self._session is None or self.is_lost.is_set():
            raise Lost(is_undone)
        return self._session

    async def _asked(self, ask: Callable[[], Any]) -> Any:
        try:
            return await ask()
        except MCPError as error:
            word = word_of(error.error.data)
            if word == "gone" or error.code == CONNECTION_CLOSED:
                self._lost()
                raise Lost from error
            if word == "lost":
                raise Lost from error
            if word == "unreadable" or error.code == PARSE_ERROR:  # the SDK says so of a stream
                raise Unreadable(sentence(error.message)) from error
            is_begun = error.code not in NOT_BEGUN
            raise Refused(sentence(error.message), is_begun=is_begun) from error
        except (ValueError, RuntimeError) as error:  # of the SDK: what came is no answer
            raise Unreadable(f"its answer cannot be read ({type(error).__name__})") from error


def sentence(text: str) -> str:
    """Cut a sentence of a server's to what an error may hold."""
    text = storable_text(text)
    return text if len(text) <= ERROR_CHARS else f"{text[:ERROR_CHARS]}…"


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error
