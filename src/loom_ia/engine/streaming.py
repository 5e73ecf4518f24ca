"""What a run says while it lives: pieces of text as they come, facts as they are written.

The queue is bounded. A consumer that falls behind loses pieces of text, never facts: those that
did not fit are read again from the journal. Pieces that are lost are replaced by one `Reset`, so
that what was shown of the answer is dropped rather than left with a hole.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import Final, TypeAlias

from loom_ia.core.events.envelope import Event
from loom_ia.core.ids import RunId
from loom_ia.core.model.chunks import ModelChunk, Reset
from loom_ia.engine.log import SessionLog

LiveItem: TypeAlias = Event | ModelChunk

_CAPACITY: Final = 2048


class Feed:
    """Follows one run and those below it, from now on, or from the place after `cursor`."""

    def __init__(
        self,
        log: SessionLog,
        root_run_id: RunId,
        *,
        capacity: int = _CAPACITY,
        cursor: int | None = None,
    ) -> None:
        self._log = log
        self._root = root_run_id
        self._capacity = capacity
        self._items: deque[LiveItem] = deque()
        self._cursor = log.state.last_seq if cursor is None else cursor
        self._behind = cursor is not None
        self._wake = asyncio.Event()
        self._ended = False

    def attach(self) -> None:
        """Begin to follow."""
        self._log.followers.append(self)

    def detach(self) -> None:
        """Stop following; doing it twice does nothing."""
        if self in self._log.followers:
            self._log.followers.remove(self)

    def end(self) -> None:
        """Say that nothing more will come."""
        self._ended = True
        self._wake.set()

    @property
    def has_ended(self) -> bool:
        """Whether nothing more will come."""
        return self._ended

    def poke(self) -> None:
        """Wake whoever waits, though nothing came here."""
        self._wake.set()

    def chunk(self, chunk: ModelChunk) -> None:
        """Take a piece of a model's answer."""
        if self._behind:
            return
        if len(self._items) >= self._capacity:
            self._fall_behind()
            return
        self._items.append(chunk)
        self._wake.set()

    def written(self, events: Sequence[Event]) -> None:
        """Take facts that were written."""
        if self._behind:
            return
        if len(self._items) + len(events) > self._capacity:
            self._fall_behind()
            return
        self._items.extend(events)
        self._wake.set()

    def _fall_behind(self) -> None:
        self._items.clear()
        self._behind = True
        self._wake.set()

    async def items(self) -> AsyncIterator[LiveItem]:
        """Give what comes, in order, until the end."""
        while True:
            ended = self._ended
            async for item in self.ready():
                yield item
            if ended:
                return
            await self.wait()

    async def ready(self) -> AsyncIterator[LiveItem]:
        """Give what came already, without waiting for more."""
        while self._items or self._behind:
            if self._behind:
                for item in await self._missed():
                    yield item
                continue
            item = self._items.popleft()
            if isinstance(item, Event):
                if item.seq <= self._cursor:
                    continue
                self._cursor = item.seq
                if item.root_run_id != self._root:
                    continue
            yield item

    async def wait(self, timeout: float | None = None) -> None:
        """Wait for something new, at most `timeout` seconds."""
        if self._items or self._behind or self._ended:
            return
        self._wake.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._wake.wait()

    async def _missed(self) -> list[LiveItem]:
        self._behind = False  # from here on, new items queue up again
        log = self._log
        events = await log.journal.read(log.tenant_id, log.session_id, after=self._cursor)
        if events:
            self._cursor = events[-1].seq
        return [Reset(), *(event for event in events if event.root_run_id == self._root)]
