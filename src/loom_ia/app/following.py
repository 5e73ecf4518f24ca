"""Following a run: every fact once and in order, and what its models say meanwhile.

Laws. What is given after a place is what the journal has after it, no more and no less, whoever
wrote it and in whatever process. Who follows never holds a run up, and keeps little of it: what
does not fit is read again from the journal. Text is only what this instance hears of the runs that
it drives; it is never instead of a fact, and what was dropped is told. To stop following changes
nothing for the run.
"""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from loom_ia.app.instance import Instance
from loom_ia.core.errors import CursorRefused
from loom_ia.core.events.envelope import Event
from loom_ia.core.events.run import RunCancelled, RunCompleted, RunFailed
from loom_ia.core.ids import RunId, SessionId
from loom_ia.engine.log import SessionLog
from loom_ia.engine.streaming import LiveItem
from loom_ia.engine.voices import Answer, Spoken, Unsaid

_KEPT: Final = 256
"""Facts that are kept for one follower; beyond, they are read again from the journal."""
_ANSWERS: Final = 32
"""Answers that a follower may be behind; beyond, the facts tell what was said."""
_POLL_S: Final = 0.5
_SLOWEST_POLL_S: Final = 2.0
_GRACE_S: Final = 0.02
"""How long the driver is given to flush by itself what is to be told outside."""
_LOOK_FOR_S: Final = 15.0
"""After that much silence, it is checked that the session still exists."""
_LAST_WORD_S: Final = 2.0
_CLOSING: Final = (RunCompleted, RunFailed, RunCancelled)


@dataclass(frozen=True, slots=True)
class Manner:
    """How a run is followed.

    `subruns` includes the runs below. `deltas` gives the text of answers as it comes. `flushed`
    holds each fact back until it survives a power cut, for those outside the process. `poll` is
    how often, in seconds, what others write is looked for; less often while nothing comes.
    """

    subruns: bool = True
    deltas: bool = False
    flushed: bool = False
    poll: float = _POLL_S


async def follow(
    instance: Instance,
    run_id: RunId,
    *,
    session_id: SessionId | None = None,
    after_seq: int | str = 0,
    manner: Manner = Manner(),
) -> "Following":
    """Begin to follow a run after the place `after_seq` of its session; close what is given.

    Raises `UnknownRun`, and `CursorRefused` for a place that is no number, or beyond the last event
    of the run and of those below it.
    """
    log, run = await instance.find(run_id, session_id)
    following = Following(instance, log, run_id, run.header.root_run_id, manner)
    await following.begin(after_seq)
    return following


class Following:
    """One follower of one run: ask for the `next` items until there are none, then `close`."""

    def __init__(
        self, instance: Instance, log: SessionLog, run_id: RunId, root: RunId, manner: Manner
    ) -> None:
        self.log = log
        self.run_id = run_id
        self.root_run_id = root
        self.cursor = 0
        self._instance = instance
        self._manner = manner
        self._events: deque[Event] = deque()
        self._behind = False
        self._heard: deque[_Heard] = deque()
        self._wake = asyncio.Event()
        self._ended = False
        self._pause = manner.poll
        self._looked = time.monotonic()

    # -- beginning and ending ---------------------------------------------------------------------

    async def begin(self, after: int | str) -> None:
        """Attach after a place; raises `CursorRefused`."""
        self.cursor = await self._place(after)
        self._behind = self.cursor < self.log.state.last_seq
        self.log.followers.append(self)
        if self._manner.deltas:
            for answer in self.log.voices.under_way():
                self.begins(answer)
            self.log.voices.ears.append(self)

    def end(self) -> None:
        """Say that nothing more is wanted; whoever waits for the next items is woken."""
        self._ended = True
        self._wake.set()

    def close(self) -> None:
        """Detach; doing it twice does nothing."""
        self.end()
        with contextlib.suppress(ValueError):
            self.log.followers.remove(self)
        with contextlib.suppress(ValueError):
            self.log.voices.ears.remove(self)
        self._events.clear()
        self._heard.clear()

    async def _place(self, after: int | str) -> int:
        place = _number(after)
        if place == 0:
            return 0
        if place is not None and place <= self.log.state.last_seq:
            tail = await self._read(place - 1)
            if any(self._is_of_tree(event) for event in tail):
                return place
        told = [event.seq for event in await self._read(0) if self._is_of_tree(event)]
        raise CursorRefused(
            "{after!r} is no place in run {run_id}: the last valid one is {last}",
            after=str(after)[:64],
            run_id=self.run_id,
            last=told[-1] if told else 0,
        )

    # -- being told -------------------------------------------------------------------------------

    def written(self, events: Sequence[Event]) -> None:
        """Take facts that were written."""
        if not self._behind:
            if len(self._events) + len(events) > _KEPT:
                self._events.clear()
                self._behind = True
            else:
                self._events.extend(events)
        self._wake.set()

    def begins(self, answer: Answer) -> None:
        """Hear that an answer begins."""
        if not self._is_of_mine(answer.run_id):
            return
        self._heard.append(_Heard(answer))

    def poke(self) -> None:
        """Hear that an answer went on, ended or was dropped."""
        self._wake.set()

    # -- telling ----------------------------------------------------------------------------------

    async def next(self, timeout: float | None = None) -> tuple[LiveItem, ...] | None:
        """Give what is new, at least one item; nothing after `timeout` seconds, None at the end.

        The end is when the run is over and all of it was given, when its session was deleted, or
        after `end`.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while not self._ended:
            self._wake.clear()
            if items := await self._ready():
                self._pause = self._manner.poll
                return tuple(items)
            if self.is_over:
                self._ended = True
                break
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                return ()
            await self._wait(left)
        return None

    async def _ready(self) -> list[LiveItem]:
        """Give what came and may be told."""
        if self._behind:
            await self._read_page()
        log = self.log
        if self._manner.flushed and self._events and self._events[0].seq > log.flushed_seq:
            await asyncio.sleep(_GRACE_S)
            await log.settle()
        limit = log.flushed_seq if self._manner.flushed else log.state.last_seq
        items: list[LiveItem] = []
        while self._events and self._events[0].seq <= limit:
            event = self._events[0]
            if event.seq != self.cursor + 1:
                if event.seq <= self.cursor:
                    self._events.popleft()
                    continue
                self._events.clear()  # something in between was not told
                self._behind = True
                break
            closing = event.run_id == self.run_id and isinstance(event.payload, _CLOSING)
            if closing and self._manner.deltas:
                await self._last_word()
            items += self._said(ending=event.run_id if closing else None)
            if not self._events or self._events[0] is not event:
                continue  # while the last word was waited for, too much came
            self._events.popleft()
            self.cursor = event.seq
            if self._is_wanted(event):
                items.append(event)
        items += self._said()
        return items

    async def _last_word(self) -> None:
        """Wait until the drive is over: a text that was held back comes after the fact."""
        seat, run = self._instance.driven.get(self.run_id), self.log.run(self.run_id)
        if seat is None or seat.log is not self.log or run is None or run.outcome is None:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORD_S):
                await asyncio.shield(seat.ended)

    def _said(self, ending: RunId | None = None) -> list[LiveItem]:
        """Give the text that was said before the fact that comes next."""
        items: list[LiveItem] = []
        while len(self._heard) > _ANSWERS:
            items += self._heard.popleft().forgotten()
        for heard in tuple(self._heard):
            if heard.answer.after <= self.cursor or heard.answer.run_id == ending:
                items += heard.more()
                if heard.is_done:
                    self._heard.remove(heard)
        return items

    @property
    def is_over(self) -> bool:
        """Whether the run is over and all of it was given."""
        log = self.log
        if self._events or self._behind or self.cursor < log.state.last_seq:
            return False
        run = log.run(self.run_id)
        return run is None or run.outcome is not None

    # -- what belongs to it -----------------------------------------------------------------------

    def _is_wanted(self, event: Event) -> bool:
        if not self._manner.subruns:
            return event.run_id == self.run_id
        return self._is_of_tree(event)

    def _is_of_tree(self, event: Event) -> bool:
        if self.run_id == self.root_run_id:
            return event.root_run_id == self.run_id
        return event.root_run_id == self.root_run_id and self._is_below(event.run_id)

    def _is_of_mine(self, run_id: RunId) -> bool:
        if not self._manner.subruns:
            return run_id == self.run_id
        return self._is_below(run_id)

    def _is_below(self, run_id: RunId | None) -> bool:
        return is_below(self.log, run_id, self.run_id)

    # -- waiting and reading ----------------------------------------------------------------------

    async def _wait(self, timeout: float | None) -> None:
        """Wait for something new, and look for what others wrote unless all of it is told here."""
        driven = self._instance.driven.get(self.root_run_id)
        is_told = driven is not None and driven.log is self.log
        pause = _LOOK_FOR_S if is_told else self._pause
        woken = await self._woken(pause if timeout is None else min(pause, timeout))
        if woken or is_told or time.monotonic() - self.log.looked_at < self._pause:
            return
        before = self.log.state.last_seq
        await self.log.catch_up()
        now = time.monotonic()
        if self.log.state.last_seq != before:
            self._looked = now
            return
        self._pause = min(self._pause * 1.5, max(_SLOWEST_POLL_S, self._manner.poll))
        if now - self._looked >= _LOOK_FOR_S:
            self._looked = now
            where = await self.log.journal.locate(self.log.tenant_id, self.run_id)
            if where != self.log.session_id:
                self.end()

    async def _woken(self, timeout: float) -> bool:
        try:
            async with asyncio.timeout(timeout):
                await self._wake.wait()
        except TimeoutError:
            return False
        return True

    async def _read_page(self) -> None:
        self._behind = False  # from here on, new facts queue up again
        found = await self._read(self.cursor)
        if not found and self.cursor < self.log.state.last_seq:
            self.end()  # the session was deleted
            return
        if len(found) > _KEPT:
            self._behind = True
            found = found[:_KEPT]
        newer: deque[Event] = deque() if self._behind else self._events
        last = found[-1].seq if found else self.cursor
        self._events = deque([*found, *(event for event in newer if event.seq > last)])

    async def _read(self, after: int) -> list[Event]:
        log = self.log
        return await log.journal.read(log.tenant_id, log.session_id, after=after)


class _Heard:
    """What one follower heard of an answer so far."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self._pieces = 0
        self._characters = 0

    @property
    def is_done(self) -> bool:
        """Whether nothing more can be heard of it."""
        answer = self.answer
        return answer.is_dropped or (answer.has_ended and self._pieces == len(answer.pieces))

    def more(self) -> list[LiveItem]:
        """Give what was not heard yet, in one piece."""
        answer = self.answer
        if answer.is_dropped:
            return self.forgotten()
        text = "".join(answer.pieces[self._pieces :])
        if not text:
            return []
        offset = self._characters
        self._pieces = len(answer.pieces)
        self._characters += len(text)
        return [Spoken(text, answer.run_id, offset)]

    def forgotten(self) -> list[LiveItem]:
        """Tell that what was heard is to be forgotten, if anything was."""
        return [Unsaid(self.answer.run_id)] if self._characters else []


def is_below(log: SessionLog, run_id: RunId | None, above: RunId) -> bool:
    """Whether a run is another one, or was opened by it or by one below it."""
    while run_id is not None and run_id != above:
        run = log.run(run_id)
        run_id = run.header.parent_run_id if run is not None else None
    return run_id is not None


def _number(after: int | str) -> int | None:
    """Read a place, or None when it is none."""
    if isinstance(after, str):
        if not (after.isascii() and after.isdigit() and len(after) <= 18):
            return None
        return int(after)
    return after if after >= 0 else None
