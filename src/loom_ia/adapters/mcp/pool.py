"""The connections to one server: one for the process, for each tenant, or for each run.

Law. A connection that is lost is made again, but not at once nor for ever: see `health`. Whoever
waits for a connection waits for the same one as the others, and giving up on it stops none of them.
"""

import asyncio
import contextlib
import importlib
import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from loom_ia.adapters.mcp.definitions import Definition, Listed
from loom_ia.adapters.mcp.health import Health
from loom_ia.adapters.mcp.settings import Settings
from loom_ia.adapters.mcp.tool import Asking
from loom_ia.core.errors import SourceUnavailable, ToolError, UnknownEffect
from loom_ia.core.json import JsonObject
from loom_ia.core.prompts import TextName, prompt_text

if TYPE_CHECKING:
    from loom_ia.adapters.mcp.connection import Connection

_log = logging.getLogger("loom_ia.mcp")
_LASTING_S: Final = 60.0
"""After how long a connection that ends says nothing bad of its server."""
_NOWHERE: Final = logging.NullHandler()
_MODULE: Final = "loom_ia.adapters.mcp.connection"


async def load() -> None:
    """Import what speaks the protocol, which takes a second, where it holds nobody up."""
    if _MODULE not in sys.modules:
        await asyncio.to_thread(importlib.import_module, _MODULE)
        # Without a handler of its own, its warnings would go to standard error by themselves.
        logging.getLogger("mcp").addHandler(_NOWHERE)


class ServerFailed(Exception):
    """The server says that a call failed, which does not say that it did nothing before."""


@dataclass(eq=False, slots=True)
class Line:
    """The way to one server, over one connection at a time. Implements `Caller`."""

    settings: Callable[[], Settings]
    health: Health
    clock: Callable[[], float]
    idle_timeout: float | None = None
    users: int = 0
    is_closed: bool = False
    tools: dict[str, object] = field(default_factory=dict[str, object])
    _connection: "Connection | None" = None
    _opening: "asyncio.Task[Connection] | None" = None
    _idle: asyncio.TimerHandle | None = None
    _closing: set["asyncio.Task[None]"] = field(default_factory=set["asyncio.Task[None]"])
    _legacy: bool = False
    _fresh: bool = False
    _opened_at: float = 0.0

    async def ready(self) -> Listed:
        """Give what the server offers, connecting if need be; raises `SourceUnavailable`.

        A connection that was there already is tried first: one that does not answer is replaced.
        """
        from loom_ia.adapters.mcp.connection import Lost, Refused

        for is_last in (False, True):
            connection = await self.connection()
            try:
                async with asyncio.timeout(self.settings().connect_timeout):
                    if not self._fresh:
                        await connection.check()
                    self._fresh = False
                    return await connection.tools()
            except (Lost, Refused, TimeoutError) as error:
                self._drop(connection)
                if is_last:
                    raise SourceUnavailable(
                        "the MCP server {server} does not answer any more",
                        server=self.settings().name,
                    ) from error
        raise AssertionError

    async def connection(self, *, force: bool = False) -> "Connection":
        """Give the connection, made again if need be; `force` does not wait for a bad moment."""
        known = self._connection
        if known is not None:
            if known.is_usable:
                return known
            self._drop(known)
        if self.is_closed:
            raise self._unavailable("{server} was closed")
        opening = self._opening
        if opening is None:
            self._refuse_if_ill(force)
            opening = self._opening = asyncio.ensure_future(self._open())
            opening.add_done_callback(_looked_at)
        return await asyncio.shield(opening)

    def _refuse_if_ill(self, force: bool) -> None:
        health, now = self.health, self.clock()
        if (wait := health.wait(now)) <= 0 or (force and not health.opened):
            return
        if health.opened:
            raise self._unavailable(
                "the MCP server {server} failed {failures} times in a row and is left alone for "
                "{seconds} s more",
                failures=health.failures,
                seconds=f"{wait:.0f}",
            )
        raise self._unavailable(
            "the MCP server {server} could not be reached and is tried again in {seconds} s",
            seconds=f"{wait:.0f}",
        )

    def _unavailable(self, template: str, **params: object) -> SourceUnavailable:
        return SourceUnavailable(template, server=self.settings().name, **params)

    async def _open(self) -> "Connection":
        from loom_ia.adapters.mcp.connection import Connection

        try:
            settings = self.settings()
            connection = Connection(settings, legacy=self._legacy)
            try:
                await connection.open()
            except SourceUnavailable:
                self._legacy = False
                if not connection.died_asked:
                    raise
                # Some older programs end at a question that they do not know.
                connection = Connection(settings, legacy=True)
                await connection.open()
            self._legacy = connection.legacy
            self._connection, self._fresh = connection, True
            self._opened_at = self.clock()
            return connection
        except SourceUnavailable as error:
            self.health.unreachable(self.clock())
            _log.warning("MCP server not reached: %s", self.settings().name)
            _log.debug("%s", error)
            raise
        finally:
            self._opening = None

    def _drop(self, connection: "Connection") -> None:
        if self._connection is connection:
            self._connection, now = None, self.clock()
            if now - self._opened_at > _LASTING_S:
                self.health.well()
            self.health.lost(now)
        self._end(connection)

    def _end(self, connection: "Connection") -> None:
        closing = asyncio.ensure_future(connection.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def call(self, definition: Definition, arguments: JsonObject, asking: Asking) -> object:
        """Give the result of a call as it came; see `Caller`.

        Raises `UnknownEffect` when nobody knows what became of it, `ServerFailed` when it failed
        after it may have begun, `ToolError` for anything else.
        """
        from loom_ia.adapters.mcp.connection import Lost, Refused, Unreadable

        def told(name: TextName, **params: str) -> ToolError:
            return ToolError(prompt_text(asking.language, name, **params))

        for is_last in (False, True):
            is_sent = False
            try:
                connection = await self.connection(force=True)
                if not await self._is_the_same(connection, definition):
                    raise told("server_tool_changed", tool=definition.name)
                is_sent = True
                raw = await connection.call(definition.name, arguments, asking.meta)
            except SourceUnavailable as error:
                raise told("server_lost") from error
            except Refused as error:
                if not is_sent or asking.safe or not error.is_begun:
                    raise told("server_error", said=str(error)) from error
                if isinstance(error, Unreadable):
                    raise UnknownEffect from error
                raise ServerFailed(told("server_error", said=str(error))) from error
            except Lost as error:
                may_repeat = asking.safe or error.is_undone
                if is_last or not may_repeat:
                    self._note_loss()
                    raise (told("server_lost") if may_repeat else UnknownEffect()) from error
            else:
                self.health.well()
                return raw
        raise AssertionError

    async def _is_the_same(self, connection: "Connection", definition: Definition) -> bool:
        """Whether the server still says of a tool what it said when a run was given it."""
        from loom_ia.adapters.mcp.connection import Lost

        try:
            listed = await connection.tools()
        except Lost as error:
            raise Lost(is_undone=True) from error
        known = listed.definitions.get(definition.name)
        return known is not None and known.digest == definition.digest

    def _note_loss(self) -> None:
        connection = self._connection
        if connection is not None and not connection.is_usable:
            self._drop(connection)

    def enter(self) -> None:
        """Note that a run uses this line."""
        self.users += 1
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    def leave(self) -> None:
        """Note that a run does not use this line any more: after a while, it is let go of."""
        self.users -= 1
        if self.users == 0 and self.idle_timeout is not None:
            loop = asyncio.get_running_loop()
            self._idle = loop.call_later(self.idle_timeout, self._let_go)

    def _let_go(self) -> None:
        connection, self._connection, self._idle = self._connection, None, None
        if self._opening is not None and not self.is_closed:  # nobody waits for it any more
            self.enter()
            self.leave()
        if connection is not None:
            self._end(connection)

    async def close(self) -> None:
        """Close the connection and wait until it is gone; the line is not used any more."""
        self.is_closed = True
        if self._idle is not None:
            self._idle.cancel()
        if (opening := self._opening) is not None:
            opening.cancel()
            await asyncio.wait((opening,))
        self._let_go()
        while self._closing:
            await asyncio.wait(tuple(self._closing))


def _looked_at(task: "asyncio.Task[Connection]") -> None:
    with contextlib.suppress(asyncio.CancelledError):
        task.exception()
