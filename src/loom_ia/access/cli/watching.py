"""The tree of a run, drawn while it grows, with what each part has taken and cost so far.

It only reads: it follows the journal beside the work, so that a run is driven in the same way
whether somebody watches or not, and what goes wrong here never reaches it.
"""

import argparse
import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Final

from loom_ia.access.cli import screen
from loom_ia.access.cli.terminal import Style
from loom_ia.access.cli.tree import tree_lines
from loom_ia.core.errors import UnknownRun
from loom_ia.core.events.envelope import Event
from loom_ia.core.events.run import RunResumed, StepCompleted, StepStarted
from loom_ia.core.events.tool import ToolCalled, ToolCompleted
from loom_ia.core.ids import CallId, RunId, SessionId
from loom_ia.core.views.trace import Trace, TraceReader
from loom_ia.core.views.trace_text import duration
from loom_ia.engine.clock import SystemClock
from loom_ia.i18n import translate as _

if TYPE_CHECKING:
    from loom_ia.access.cli.desk import Desk

_TICK: Final = 0.2
_LOOK: Final = 0.05


@asynccontextmanager
async def watched(
    desk: "Desk", args: argparse.Namespace, run_id: RunId, session_id: SessionId | None
) -> AsyncGenerator[None]:
    """Draw the tree of a run while what is inside drives it, if a person watches."""
    if getattr(args, "quiet", False) or not screen.is_watched():
        yield
        return
    growing = GrowingTree(args, durable=desk.store.durable)
    drawing = asyncio.create_task(_draw(growing))
    reading = asyncio.create_task(_read(desk, growing, run_id, session_id))
    try:
        yield
    finally:
        drawing.cancel()
        reading.cancel()
        await asyncio.gather(drawing, reading, return_exceptions=True)


class GrowingTree:
    """The tree of a run that is not over: what is under way has its time in it."""

    def __init__(self, args: argparse.Namespace, *, durable: bool = True) -> None:
        self._args = args
        self._durable = durable
        self._reader = TraceReader()
        self._trace: Trace | None = None
        self._step: tuple[StepStarted, datetime] | None = None
        self._calls: dict[CallId, datetime] = {}
        self.last_seq = 0

    def take(self, event: Event) -> None:
        """Take the next event of the run."""
        self.last_seq = event.seq
        self._reader.read(event)
        self._trace = None
        run = self._reader.run
        if run is None or event.run_id != run.run_id:
            return
        match event.payload:
            case StepStarted() as payload:
                self._step = payload, event.ts
            case StepCompleted():
                self._step = None
            case ToolCalled() as payload:
                self._calls[payload.call_id] = event.ts
            case ToolCompleted() as payload:
                self._calls.pop(payload.call_id, None)
            case RunResumed():
                self._step = None
                self._calls.clear()
            case _:
                pass

    def lines(self, now: datetime) -> list[tuple[str, Style]]:
        """Write the tree as it is at `now`; nothing before the run begins."""
        if self._reader.run is None:
            return []
        trace = self._trace = self._trace or self._reader.trace()
        if not trace.status.is_closed:
            trace = trace.model_copy(update={"duration_ms": _since(trace.started_at, now)})
        elapsed = {call: _since(begun, now) for call, begun in self._calls.items()}
        lines = tree_lines(trace, self._args, elapsed=elapsed, durable=self._durable)
        return [*lines, *self._answering(trace, now)]

    def _answering(self, trace: Trace, now: datetime) -> Iterator[tuple[str, Style]]:
        if self._step is None or trace.status.is_closed:
            return
        step, begun = self._step
        if step.effect == "model_call":
            took = duration(_since(begun, now))
            yield "    " + _("the model answers… {duration}", duration=took), "cyan"


async def _read(
    desk: "Desk", growing: GrowingTree, run_id: RunId, session_id: SessionId | None
) -> None:
    """Read the run from its first event on, until cancelled: it may not have begun, or go on."""
    while True:
        try:
            followed = desk.follow(run_id, session_id=session_id, after_seq=growing.last_seq)
            async for event in followed:
                growing.take(event)
        except UnknownRun:
            pass
        await asyncio.sleep(_LOOK)


async def _draw(growing: GrowingTree) -> None:
    """Draw the tree until cancelled."""
    clock = SystemClock()
    await asyncio.sleep(_TICK)  # what is over at once is not drawn at all
    with screen.drawing() as paint:
        while True:
            paint(growing.lines(clock.now()))
            await asyncio.sleep(_TICK)


def _since(begun: datetime, now: datetime) -> int:
    return max(round((now - begun).total_seconds() * 1000), 0)
