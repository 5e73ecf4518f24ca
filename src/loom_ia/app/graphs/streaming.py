"""What a run of a graph says while it lives, in several modes at once."""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Final

from loom_ia.app.graphs.driving import Manner
from loom_ia.app.graphs.order import Order
from loom_ia.app.graphs.resuming import found
from loom_ia.app.graphs.running import checked_id, run_graph
from loom_ia.core.events.approval import ApprovalRequested
from loom_ia.core.events.envelope import Event
from loom_ia.core.events.tool import ToolCompleted
from loom_ia.core.ids import RunId
from loom_ia.core.state.flow import path_of
from loom_ia.core.state.questions import open_questions
from loom_ia.core.state.session import SessionState
from loom_ia.engine.log import SessionLog
from loom_ia.engine.streaming import Feed
from loom_ia.graph.errors import RunError
from loom_ia.graph.protocol import accepted
from loom_ia.graph.results import interrupt_of
from loom_ia.graph.shown import given_by, shown_event
from loom_ia.graph.types import (
    GraphEvent,
    Interrupted,
    RunFinished,
    StateChanged,
    StepCompleted,
    StreamItem,
    Token,
)

MODES: Final = ("updates", "values", "tokens", "events")


def modes_of(mode: str | Sequence[str]) -> frozenset[str]:
    """Read the modes of a stream; raises `ValueError` for an unknown one."""
    modes = frozenset((mode,) if isinstance(mode, str) else mode)
    if not modes or not modes <= set(MODES):
        wrong = ", ".join(sorted(modes - set(MODES))) or "none"
        raise ValueError(f"mode={wrong}: it is one or several of {', '.join(MODES)}")
    return modes


async def stream(
    order: Order, given: Any, run_id: RunId | None, modes: frozenset[str]
) -> AsyncIterator[StreamItem]:
    """Run a graph and give what happens; the last item is one `RunFinished`."""
    given, asked = accepted(given, compat=order.graph.compat)
    run_id = asked if run_id is None else run_id
    run_id = order.instance.clock.new_id() if run_id is None else checked_id(run_id)
    log = order.instance.log(run_id)
    feed = Feed(log, run_id, cursor=0)
    feed.attach()
    tokens = _Tokens(log, feed)
    order.token = tokens.say if "tokens" in modes else None
    task = asyncio.create_task(
        run_graph(order, given, run_id, Manner(raise_on_error=False, allow_unresumable=True))
    )
    task.add_done_callback(lambda _: feed.end())
    teller = _Teller(order, run_id, modes)
    try:
        while True:
            ended = feed.has_ended
            async for item in feed.ready():
                if isinstance(item, Event):
                    for told in (*tokens.before(item.seq), *teller.told(item)):
                        yield told
            for token in tokens.before(None):
                yield token
            if ended:
                break
            await feed.wait()
        try:
            result = await task
        except RunError as error:
            if error.result is None:
                raise
            result = error.result
        yield RunFinished(result)
    finally:
        feed.detach()
        if not task.done():
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task


class _Tokens:
    """Pieces of text, each after what was written when it was said and before what came later."""

    def __init__(self, log: SessionLog, feed: Feed) -> None:
        self._log = log
        self._feed = feed
        self._said: deque[tuple[int, Token]] = deque()

    def say(self, run: RunId, step: str, text: str) -> None:
        """Take a piece of text of a step."""
        del run
        self._said.append((self._log.state.last_seq, Token(step, text)))
        self._feed.poke()

    def before(self, seq: int | None) -> Iterator[Token]:
        """Give, once, what was said before the event at `seq`, or all of it."""
        while self._said and (seq is None or self._said[0][0] < seq):
            yield self._said.popleft()[1]


class _Teller:
    """Reads events as what a stream shows of them."""

    def __init__(self, order: Order, run_id: RunId, modes: frozenset[str]) -> None:
        self._order = order
        self._run_id = run_id
        self._modes = modes
        self._session = SessionState()

    def told(self, event: Event) -> Iterator[StreamItem]:
        """Give what an event shows."""
        from loom_ia.core.events.fold import apply, begin

        before = self._session.runs.get(event.run_id)
        self._session.put(begin(event) if before is None else apply(before, event))
        graph = self._order.graph
        codec = graph.state_type.codec
        if "events" in self._modes:
            yield shown_event(event, codec)
        payload = event.payload
        if isinstance(payload, ApprovalRequested) and "updates" in self._modes:
            yield from self._asked(event)
        if not isinstance(payload, ToolCompleted) or event.run_id != self._run_id:
            return
        if payload.output.is_error or payload.outcome is not None:
            return
        if "updates" in self._modes:
            yield StepCompleted(payload.tool_name, given_by(payload.changes, codec), event.seq)
        if "values" in self._modes:
            flow = self._session.runs[event.run_id].flow
            line = flow.lines.get(path_of(payload.call_id)) if flow else None
            if flow is not None:
                values = (line or flow.main).values
                yield StateChanged(payload.tool_name, graph.state_type.result(values), event.seq)

    def _asked(self, event: Event) -> Iterator[StreamItem]:
        runs = self._session.runs
        root = runs.get(self._run_id)
        for asking in open_questions(root, runs) if root else ():
            if asking.id == event.event_id:
                yield Interrupted(interrupt_of(asking, runs, self._order.graph.state_type.codec))


async def follow(order: Order, run_id: RunId, after_seq: int) -> AsyncIterator[GraphEvent]:
    """Give the events of a run that follow `after_seq`, then new ones until it is over."""
    await found(order, run_id)
    log = order.instance.log(run_id)
    feed = Feed(log, run_id, cursor=after_seq)
    feed.attach()
    codec = order.graph.state_type.codec
    try:
        while True:
            run = log.run(run_id)
            closed = run is None or run.outcome is not None
            async for item in feed.ready():
                if isinstance(item, Event):
                    yield shown_event(item, codec)
            if closed:
                return
            await feed.wait(_POLL_S)
            await log.catch_up()
    finally:
        feed.detach()


_POLL_S: Final = 0.2
