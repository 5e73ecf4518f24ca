"""One driver for each run: taking the wheel, keeping it, handing it back.

A run is ours while its last claim is ours and has not expired; each fact of the driver extends the
claim, and a heart writes when nothing else did for a third of it. An expired claim that nobody took
is claimed again before the next fact. A claim names the operating-system lock that its process
holds, where the journal has such locks: when it is free the driver is dead, and the run can be
taken at once.
"""

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from loom_ia.core.errors import ClaimConflict, RaceError, RunMoved
from loom_ia.core.events.envelope import Payload
from loom_ia.core.events.run import RunClaimed
from loom_ia.core.ids import RunId
from loom_ia.core.ports.journal import DriverLocks
from loom_ia.core.state.run import Lease, RunState
from loom_ia.engine.interrupt import Interrupt
from loom_ia.engine.log import SessionLog

_log = logging.getLogger("loom_ia.engine")

_SILENCE = 1 / 3
"""The part of a lease that may pass without a fact, and within which a cancel is noticed."""
_TICK = 1 / 12
"""How often the heart looks, as a part of a lease."""


@dataclass(frozen=True, slots=True)
class Pilot:
    """A driver's identity, and the rules under which it may write. `length` is the lease's."""

    worker_id: str
    length: timedelta
    locks: DriverLocks | None = None
    lock: str = ""

    def claim(self, now: datetime, *, renewal: bool = False) -> RunClaimed:
        """Take or keep the wheel from `now` on."""
        return RunClaimed(
            worker_id=self.worker_id,
            lease_until=now + self.length,
            lock=self.lock,
            renewal=renewal,
        )

    def hand_back(self, now: datetime) -> RunClaimed:
        """Let go of the wheel."""
        return RunClaimed(worker_id=self.worker_id, lease_until=now, lock=self.lock)

    def may_write(self, run: RunState | None, now: datetime) -> Sequence[Payload]:
        """Rule of the driver: the run is open and ours, claimed again first if it expired."""
        if run is None:
            return ()
        lease = run.lease
        if lease is not None and lease.worker_id != self.worker_id:
            raise ClaimConflict(run.run_id, lease.worker_id, lease.until)
        if run.outcome is not None:
            raise RunMoved("run {run_id} was closed elsewhere", run_id=run.run_id)
        if lease is None or not lease.is_live(now):
            return (self.claim(now, renewal=lease is not None),)
        return ()

    def may_take(self, run: RunState | None, now: datetime) -> Sequence[Payload]:
        """Rule of a take-over: nobody drives the run, as far as lease and lock can tell."""
        return self._take(run, now, force=False)

    def must_take(self, run: RunState | None, now: datetime) -> Sequence[Payload]:
        """Rule of a forced take-over: whoever drives the run will be refused its next write."""
        return self._take(run, now, force=True)

    def _take(self, run: RunState | None, now: datetime, *, force: bool) -> Sequence[Payload]:
        if run is None:
            raise RunMoved("the run is not in this session")
        if run.outcome is not None:
            return ()
        lease = run.lease
        if lease is not None and not force and self._is_driven(lease, now):
            raise ClaimConflict(run.run_id, lease.worker_id, lease.until)
        return (self.claim(now),)

    def _is_driven(self, lease: Lease, now: datetime) -> bool:
        if lease.worker_id == self.worker_id or not lease.is_live(now):
            return False
        dead = self.locks is not None and lease.lock and self.locks.is_free(lease.lock)
        return not dead


class Heart:
    """Keeps the leases of every run that an instance drives, and notices those that are lost."""

    def __init__(self, pilot: Pilot) -> None:
        self._pilot = pilot
        self._driven: dict[RunId, tuple[SessionLog, Interrupt]] = {}
        self._task: asyncio.Task[None] | None = None

    def watch(self, run_id: RunId, log: SessionLog, interrupt: Interrupt) -> None:
        """Begin to keep the lease of a run."""
        self._driven[run_id] = (log, interrupt)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._beat_for_ever())

    def forget(self, run_id: RunId) -> None:
        """Stop keeping the lease of a run."""
        self._driven.pop(run_id, None)

    async def stop(self) -> None:
        """Stop beating."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _beat_for_ever(self) -> None:
        while self._driven:
            await asyncio.sleep(self._pilot.length.total_seconds() * _TICK)
            beats = (self.beat(run_id, *driven) for run_id, driven in self._driven.items())
            await asyncio.gather(*list(beats))

    async def beat(self, run_id: RunId, log: SessionLog, interrupt: Interrupt) -> None:
        """Extend one lease if nothing was written for a third of it; interrupt a lost drive."""
        if log.run(run_id) is None:  # its first facts are being written
            return
        try:
            await log.append(run_id, self._extension, sync=False)
        except RaceError:
            interrupt.now("lost")
        except Exception as error:  # noqa: BLE001 -- one heart beats for every run: it goes on
            # The next beat tries again, and the driver's own writes decide.
            _log.warning("lease of run %s not extended: %s", run_id, type(error).__name__)

    def _extension(self, run: RunState | None, now: datetime) -> Sequence[Payload]:
        first = self._pilot.may_write(run, now)
        if first or run is None or run.lease is None:
            return first
        if run.lease.until - now > self._pilot.length * (1 - _SILENCE + _TICK):
            return ()  # the next tick still comes before the silence is too long
        return (self._pilot.claim(now, renewal=True),)
