"""The calls of agents that are under way: driven apart from the protocol, told as they go on.

Law. A run is driven by a task of its own, so that what cuts a call never cuts the writing of what a
tool did. One policy, whatever the door: who goes away stops the drive, and the run stays in the
journal to be resumed. Only a client that says that a call is cancelled closes the run, unless that
one waits for a human: nothing happens in it, and somebody may be about to decide.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, TypeVar

from loom_ia.access.api import Loom
from loom_ia.access.mcp_server.progress import progress_line
from loom_ia.core.errors import LoomError
from loom_ia.core.events.envelope import Event
from loom_ia.core.ids import RunId, SessionId
from loom_ia.tenancy.visitor import Visitor

_logger = logging.getLogger("loom_ia.access")

Tell: TypeAlias = Callable[[int, str], Awaitable[None]]
"""Tells the client a line, and how many it was told with it."""

T = TypeVar("T")

_LOOK: Final = 0.05
"""Seconds between two looks at whether a run has begun."""

MOST_AT_ONCE: Final = 64
"""Calls of agents that are driven at the same time; the next ones wait for their turn."""
MOST_WAITING: Final = 1_000


class ServerStops(LoomError):
    """A run was handed back, for whoever drove it is about to end."""


@dataclass(slots=True)
class Call:
    """A call of a client: the run that it is about, and whether the client took it back."""

    visitor: Visitor
    run_id: RunId
    home: SessionId
    tell: Tell | None = None
    told: int = 0
    seen: int = 0
    cancelled: bool = False


@dataclass(slots=True)
class Calls:
    """Drives runs for calls, and ends what nobody waits for any more."""

    loom: Loom
    _open: dict[Any, Call] = field(default_factory=dict[Any, Call])
    _tasks: set[asyncio.Task[Any]] = field(default_factory=set[asyncio.Task[Any]])
    _room: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MOST_AT_ONCE))
    _waiting: int = 0

    @property
    def is_full(self) -> bool:
        """Whether so many calls wait that no more are taken."""
        return self._waiting >= MOST_WAITING

    def take_back(self, request_id: Any) -> None:
        """Note that a client took a request back; what it waits for is then cut by the protocol."""
        if call := self._open.get(request_id):
            call.cancelled = True

    async def drive(self, request_id: Any, call: Call, work: Coroutine[Any, Any, T]) -> T:
        """Do the work of a call, telling what happens; gives and raises what the work does."""
        self._waiting += 1
        try:
            await self._room.acquire()
        except asyncio.CancelledError:
            work.close()  # nobody begins it now
            raise
        finally:
            self._waiting -= 1
        try:
            return await self._drive(request_id, call, work)
        finally:
            self._room.release()

    async def close(self) -> None:
        """Wait for the drives that end; whoever called has gone."""
        for task in set(self._tasks):
            task.cancel()
        await asyncio.gather(*set(self._tasks), return_exceptions=True)

    async def _drive(self, request_id: Any, call: Call, work: Coroutine[Any, Any, T]) -> T:
        task = self._start(work)
        lines: asyncio.Queue[Event | None] = asyncio.Queue()
        follower = None if call.tell is None else self._start(self._follow(call, task, lines))
        self._open[request_id] = call
        try:
            if follower is not None:
                while (event := await lines.get()) is not None:
                    await _tell(call, event)
            await asyncio.wait({task})
        except asyncio.CancelledError:
            self._leave(call, task)
            raise
        finally:
            self._open.pop(request_id, None)
            if follower is not None:
                follower.cancel()
        if task.cancelled():
            raise ServerStops("the server stops: run {run_id} can be resumed", run_id=call.run_id)
        return task.result()

    def _leave(self, call: Call, task: "asyncio.Task[Any]") -> None:
        if call.cancelled:  # else whoever left says nothing of what he wants: the run goes on
            self._start(self._cancel(call, task))

    async def _cancel(self, call: Call, task: "asyncio.Task[Any]") -> None:
        """Close the run of a call that was taken back, unless a human is awaited in it."""
        try:
            result = await self.loom.result(call.run_id, session_id=call.home)
            if result.pending_approvals:
                task.cancel()
            else:
                await self.loom.cancel(call.run_id, by=call.visitor.name, session_id=call.home)
        except LoomError as error:
            _logger.info("run %s is not cancelled: %s", call.run_id, type(error).__name__)
            task.cancel()

    def _start(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # looked at: who waited was told, who left wants to know nothing

    async def _follow(
        self, call: Call, task: "asyncio.Task[Any]", lines: "asyncio.Queue[Event | None]"
    ) -> None:
        """Put the events of a run in a queue while it is driven, then None."""
        pump = asyncio.create_task(self._pump(call, lines))
        try:
            await asyncio.wait({task})
            pump.cancel()
            await asyncio.gather(pump, return_exceptions=True)
            for event in await self.loom.events(
                call.run_id, session_id=call.home, after_seq=call.seen
            ):
                _put(call, event, lines)
        except LoomError:  # it never began
            pass
        finally:
            pump.cancel()
            lines.put_nowait(None)

    async def _pump(self, call: Call, lines: "asyncio.Queue[Event | None]") -> None:
        while True:
            try:
                followed = self.loom.follow(call.run_id, session_id=call.home, after_seq=call.seen)
                async for event in followed:
                    _put(call, event, lines)
            except LoomError:  # it has not begun
                pass
            await asyncio.sleep(_LOOK)


def _put(call: Call, event: Event, lines: "asyncio.Queue[Event | None]") -> None:
    call.seen = event.seq
    if call.visitor.sees(event.agent) or event.role:
        lines.put_nowait(event)


async def _tell(call: Call, event: Event) -> None:
    line = progress_line(event)
    if line and call.tell is not None:
        call.told += 1
        await call.tell(call.told, line)
