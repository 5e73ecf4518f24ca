"""The only place where facts are written and folded.

Laws. A fact is written, then applied; state is never ahead of what the journal will accept, save
for facts that were staged and on which nothing has acted yet. A session is read once when it is
opened, and never again by its driver: what another writer added arrives as the tail of a sequence
conflict. A rule that allows a write is asked again after each catch-up. A write that has begun is
waited for, whatever cancels the writer.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Protocol, TypeAlias, TypeVar

from loom_ia.core.decide.closing import cancelled
from loom_ia.core.errors import (
    InternalError,
    JournalCorrupted,
    RunExists,
    RunMoved,
    UnknownSession,
)
from loom_ia.core.events.artifact import ArtifactStored
from loom_ia.core.events.envelope import Draft, Event, Payload
from loom_ia.core.events.fold import apply, begin
from loom_ia.core.events.model import ModelExchanged, ModelResponded, ModelRetried
from loom_ia.core.events.run import RunStarted
from loom_ia.core.events.tool import ToolCalled, ToolCompleted
from loom_ia.core.ids import RunId, SessionId, TenantId
from loom_ia.core.ports.clock import Clock
from loom_ia.core.ports.journal import Journal, SequenceConflict
from loom_ia.core.state.run import RunState
from loom_ia.core.state.session import RunView, SessionState
from loom_ia.engine.voices import Voices

T = TypeVar("T")

Rule: TypeAlias = Callable[[RunState | None, datetime], Sequence[Payload]]
"""Asked before each write with the run as it is: gives facts to write first, or raises."""


class Follower(Protocol):
    """Somebody who is told what was written, in order."""

    def written(self, events: Sequence[Event]) -> None:
        """Take facts that were just written."""
        ...


class SessionLog:
    """One session in memory: its folded state and the way to write to it."""

    def __init__(
        self, journal: Journal, clock: Clock, tenant_id: TenantId, session_id: SessionId
    ) -> None:
        self.journal = journal
        self.clock = clock
        self.tenant_id = tenant_id
        self.session_id = session_id
        self.state = SessionState()
        self.followers: list[Follower] = []
        self.observers: Sequence[Follower] = ()
        self.voices = Voices()
        self.looked_at = 0.0
        self._flushed = 0
        self._lock = asyncio.Lock()
        self._stale = False
        self._unflushed = False
        self._waiters: list[asyncio.Future[None]] = []

    async def written(self) -> None:
        """Wait until something more of the session is known."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter

    async def catch_up(self) -> None:
        """Read what others wrote since the last time; the whole session the first time."""
        async with self._lock:
            await self._read_tail()

    def run(self, run_id: RunId) -> RunState | None:
        """Give a run as it is written."""
        return self.state.runs.get(run_id)

    def has_unflushed_facts(self) -> bool:
        """Whether something was written that a power cut could still take."""
        return self._unflushed

    @property
    def flushed_seq(self) -> int:
        """The place up to which everything is known to survive a power cut."""
        return self._flushed if self.journal.durable else self.state.last_seq

    async def flush(self) -> None:
        """Make everything that was written survive a power cut."""
        if self._unflushed:
            covered = await self._flush()
            if self.state.last_seq == covered:  # else more was written while it was under way
                self._unflushed = False

    async def settle(self) -> None:
        """Flush what is known of the session, whoever wrote it, before it is told outside."""
        if self.flushed_seq < self.state.last_seq:
            await self._flush()

    async def _flush(self) -> int:
        covered = self.state.last_seq
        await self.journal.flush()
        self._flushed = max(self._flushed, covered)
        return covered

    async def append(self, run_id: RunId, rule: Rule, *, sync: bool) -> RunState:
        """Write what `rule` gives for the run as it is now, and return the run that follows.

        The rule is asked again after each catch-up; whatever it raises is raised, and nothing is
        written. A rule that gives nothing writes nothing.
        """
        async with self._lock:
            while True:
                run = self.state.runs.get(run_id)
                facts = rule(run, self.clock.now())
                if run is None:
                    raise InternalError("run {run_id} has no state to append to", run_id=run_id)
                after, drafts = drafted(run, facts, self.clock)
                if await self.write_locked((after,), drafts, sync=sync):
                    return after

    async def append_all(
        self, facts: Callable[[datetime], Sequence[tuple[RunId, Payload]]], *, sync: bool
    ) -> None:
        """Write facts of several runs in one batch, as `append` does; nothing when there are none.

        `facts` is asked again after each catch-up, and what it raises is raised.
        """
        async with self._lock:
            while True:
                states: dict[RunId, RunState] = {}
                drafts: list[Draft] = []
                for run_id, payload in facts(self.clock.now()):
                    run = states.get(run_id) or self.state.runs[run_id]
                    states[run_id], more = drafted(run, (payload,), self.clock)
                    drafts += more
                if await self.write_locked(tuple(states.values()), drafts, sync=sync):
                    return

    async def write_locked(
        self, after: Sequence[RunState], drafts: Sequence[Draft], *, sync: bool
    ) -> bool:
        """Write drafts that lead to `after`, the lock being held; False after a catch-up.

        The runs that one of them opened, and that are not over, end with it when it ends for good.
        """
        if self._stale:
            await self._read_tail()
            return False
        if not drafts:
            return True
        for run in after:
            closed, closing = self._closing_below(run)
            if closed:
                after, drafts = (*after, *closed), (*drafts, *closing)
        first = self.state.last_seq + 1
        batch = [draft.placed(first + i) for i, draft in enumerate(drafts)]
        self._stale = True  # until the outcome is known
        writing = self.journal.append(batch, expected=first - 1, sync=sync)
        cancelled = None
        if self.journal.durable:
            outcome, cancelled = await _finish(writing)
        else:
            outcome = await writing
        self._stale = False
        if isinstance(outcome, SequenceConflict):
            if not outcome.tail:
                raise UnknownSession(
                    "session {session_id} was deleted meanwhile", session_id=self.session_id
                )
            self._take(outcome.tail)
        else:
            self.state.last_seq = outcome
            for run in after:
                self.state.put(run)
            self._unflushed = not sync
            if sync:
                self._flushed = outcome
            self._tell(batch, self.observers)
        if cancelled is not None:
            raise cancelled
        return not isinstance(outcome, SequenceConflict)

    def _closing_below(self, run: RunState) -> tuple[list[RunState], list[Draft]]:
        if run.outcome is None or run.is_resumable or not self.state.has_children(run.run_id):
            return [], []
        closed: list[RunState] = []
        drafts: list[Draft] = []
        for child in self.state.tree(run.run_id):
            if child.run_id != run.run_id and child.outcome is None:
                state, more = drafted(child, (cancelled(child, "", with_parent=True),), self.clock)
                closed.append(state)
                drafts += more
        return closed, drafts

    async def _read_tail(self) -> None:
        self.looked_at = time.monotonic()
        tail = await self.journal.read(self.tenant_id, self.session_id, after=self.state.last_seq)
        self._stale = False
        self._take(tail)

    def _take(self, tail: Sequence[Event]) -> None:
        """Fold what somebody else wrote."""
        for event in tail:
            if event.seq != self.state.last_seq + 1:
                raise JournalCorrupted(
                    "session {session} goes from event {before} to event {seq}",
                    session=self.session_id,
                    before=self.state.last_seq,
                    seq=event.seq,
                )
            run = self.state.runs.get(event.run_id)
            if run is None:
                self.state.put(begin(event))
            else:
                self.state.put(apply(run, event))
            self.state.last_seq = event.seq
        self._tell(tail)

    def _tell(self, events: Sequence[Event], observers: Sequence[Follower] = ()) -> None:
        if self._waiters:
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)
        for follower in self.followers:
            follower.written(events)
        for observer in observers:
            observer.written(events)

    def pen(self, run_id: RunId, rule: Rule) -> "Pen":
        """Give the driver of a run the means to write."""
        return Pen(self, run_id, rule)

    @property
    def lock(self) -> asyncio.Lock:
        """The lock under which this session is written."""
        return self._lock


class Pen:
    """What the driver of one run writes with.

    Facts are staged, which folds them at once, and written together before anything acts on them:
    consecutive facts without an effect between them are one batch, and each is folded once.
    """

    def __init__(self, log: SessionLog, run_id: RunId, rule: Rule) -> None:
        self.log = log
        self.run_id = run_id
        self._rule = rule
        self._base = log.run(run_id)
        self._ahead = self._base
        self._opening = self._base is None
        self._staged: list[Draft] = []
        self._opened: dict[RunId, RunState] = {}

    @property
    def run(self) -> RunState:
        """The run with what is staged; it must have begun."""
        if self.log.state.runs.get(self.run_id) is not self._base:
            self._refold()
        if self._ahead is None:
            raise InternalError("run {run_id} has not begun", run_id=self.run_id)
        return self._ahead

    def view(self) -> RunView:
        """Show what a decision about the run may see."""
        return self.log.state.view(self.run)

    def begin(self, started: RunStarted, *, agent: str, root_run_id: RunId) -> None:
        """Stage the first fact of a run."""
        event_id = self.log.clock.new_id()
        draft = Draft(
            event_id=event_id,
            ts=self.log.clock.now(),
            tenant_id=self.log.tenant_id,
            session_id=self.log.session_id,
            run_id=self.run_id,
            root_run_id=root_run_id,
            span_id=self.run_id,
            parent_span_id=None,
            agent=agent,
            role=None,
            payload=started,
        )
        self._staged.append(draft)
        self._ahead = started.begin(draft)

    def stage(self, *facts: Payload) -> None:
        """Fold facts that will be written by the next `commit`."""
        self._ahead, drafts = drafted(self.run, facts, self.log.clock)
        self._staged += drafts
        if self._ahead.reserve is not None:  # others must not count on it meanwhile
            self.log.state.note_reserve(self._ahead)

    def stage_run(self, run_id: RunId, started: RunStarted, *facts: Payload, agent: str) -> None:
        """Stage the first facts of a run that this one opens."""
        log, header = self.log, self.run.header
        draft = Draft(
            event_id=log.clock.new_id(),
            ts=log.clock.now(),
            tenant_id=log.tenant_id,
            session_id=log.session_id,
            run_id=run_id,
            root_run_id=header.root_run_id,
            span_id=run_id,
            parent_span_id=None,
            agent=agent,
            role=None,
            payload=started,
        )
        state, drafts = drafted(started.begin(draft), facts, log.clock)
        self._staged += [draft, *drafts]
        self._opened[run_id] = state

    async def commit(self, *, sync: bool) -> None:
        """Write what is staged, and flush everything written so far if `sync`.

        Raises what the rule raises when the run is no longer ours to drive; then only results of
        calls that really ran are written, as late facts.
        """
        log = self.log
        if not self._staged:
            if sync:
                await log.flush()
            return
        async with log.lock:
            while True:
                self._refold()  # another task may have written while this one waited for the lock
                if self._opening and self._base is not None:
                    raise RunExists("run {run_id} exists already", run_id=self.run_id)
                try:
                    first = self._rule(self._base, log.clock.now())
                except RunMoved:
                    await self._write_late_facts()
                    raise
                head, after = self._led_by(first)
                try:
                    states = (after, *self._opened.values())
                    written = await log.write_locked(states, [*head, *self._staged], sync=sync)
                except asyncio.CancelledError:
                    if log.run(self.run_id) is after:  # the write was done all the same
                        self._is_written(after)
                    raise
                if written:
                    self._is_written(after)
                    return

    async def write(self, *facts: Payload, sync: bool) -> None:
        """Write facts at once, beside what is staged; any task of the drive may.

        Raises what the rule raises when the run is no longer ours, and writes nothing.
        """
        await self.log.append(
            self.run_id, lambda run, now: (*self._rule(run, now), *facts), sync=sync
        )

    def _is_written(self, run: RunState) -> None:
        self._staged = []
        self._opened = {}
        self._opening = False
        self._base = self._ahead = run

    async def abandon(self) -> None:
        """Drop what is staged, save for what really happened, which is written.

        Raises `ClaimConflict`, and writes nothing, when another driver took the run.
        """
        async with self.log.lock:
            self._refold()
            with contextlib.suppress(RunMoved):
                self._rule(self._base, self.log.clock.now())
            await self._write_late_facts()

    def confirm(self) -> None:
        """Ask the rule whether the run is still ours; raises what it raises."""
        self._refold()
        self._rule(self._base, self.log.clock.now())

    def _led_by(self, first: Sequence[Payload]) -> tuple[list[Draft], RunState]:
        if not first or self._base is None:
            return [], self.run
        before, head = drafted(self._base, first, self.log.clock)
        after = _folded(before, self._staged, self.run_id)
        return head, after if after is not None else before

    def _refold(self) -> None:
        """Fold what is staged over what others wrote, if they wrote anything."""
        written = self.log.run(self.run_id)
        if written is self._base:
            return
        self._base = written
        self._ahead = _folded(written, self._staged, self.run_id)

    async def _write_late_facts(self) -> None:
        self._refold()
        base = self._base
        staged, self._staged, self._opened = self._staged, [], {}
        self._ahead = base
        while base is not None:
            late = [
                draft
                for draft in staged
                if draft.run_id == self.run_id and _is_late_fact(draft.payload, base)
            ]
            after = _folded(base, late, self.run_id)
            if not late or after is None or await self.log.write_locked((after,), late, sync=True):
                break
            base = self.log.run(self.run_id)
        self._base = self._ahead = self.log.run(self.run_id)


def _is_late_fact(payload: Payload, run: RunState) -> bool:
    """Whether it tells the end of what the journal says was begun and that is not known yet."""
    match payload:
        case ToolCompleted() | ArtifactStored():
            call = run.call(payload.call_id)
            if run.flow is not None and run.outcome is not None:
                return False  # a step that was stopped is run again, or said to be unknown
            return call is not None and call.launches > 0 and not call.is_settled
        case ModelResponded():
            step = run.step
            if payload.judge:
                return True
            return step is not None and step.effect == "model_call" and not step.done
        case ModelRetried() | ModelExchanged():
            return True
        case _:
            return False


def drafted(run: RunState, facts: Sequence[Payload], clock: Clock) -> tuple[RunState, list[Draft]]:
    """Give facts their envelopes, each in the state that the one before it leads to."""
    drafts: list[Draft] = []
    for payload in facts:
        draft = draft_of(payload, run, clock)
        drafts.append(draft)
        run = apply(run, draft)
    return run, drafts


def draft_of(payload: Payload, run: RunState, clock: Clock) -> Draft:
    """Give `payload` its envelope: who, when, and in which span."""
    header = run.header
    event_id = clock.new_id()
    span, parent = _span_of(payload, run, event_id)
    return Draft(
        event_id=event_id,
        ts=clock.now(),
        tenant_id=header.tenant_id,
        session_id=header.session_id,
        run_id=header.run_id,
        root_run_id=header.root_run_id,
        span_id=span,
        parent_span_id=parent,
        agent=header.agent,
        role=payload.speaker(run),
        payload=payload,
    )


def _span_of(payload: Payload, run: RunState, event_id: str) -> tuple[str, str | None]:
    """Place a fact in the tree of spans; a span's parent is told by the event that opens it."""
    match payload.SPAN:
        case "own":
            inside_step = payload.TYPE == ToolCalled.TYPE and run.step is not None
            return event_id, run.step.span if inside_step and run.step else run.run_id
        case "step":
            return (run.step.span if run.step else run.run_id), None
        case "call":
            call = run.call(getattr(payload, "call_id", ""))
            return (call.span if call and call.span else run.run_id), None
        case "run":
            return run.run_id, None


def _folded(run: RunState | None, drafts: Sequence[Draft], run_id: RunId) -> RunState | None:
    """Fold the drafts of one run."""
    for draft in drafts:
        if draft.run_id != run_id:
            continue
        if run is None:
            started = draft.payload
            run = started.begin(draft) if isinstance(started, RunStarted) else None
        else:
            run = apply(run, draft)
    return run


async def _finish(operation: Awaitable[T]) -> tuple[T, asyncio.CancelledError | None]:
    """Wait for `operation` to end, whatever cancels the wait, and tell of the cancellation.

    A cancelled writer would not know whether its facts are in the journal.
    """
    task = asyncio.ensure_future(operation)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            if not task.cancelled():
                cancelled = error
        except Exception:  # noqa: BLE001 -- raised just below, from the task itself
            break
    return task.result(), cancelled
