"""Going on with what dead drivers left: once, or for as long as this instance lives."""

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass

from loom_ia.app import notices
from loom_ia.app.instance import DEFAULT_TENANT, Instance
from loom_ia.app.resuming import result_of, resume
from loom_ia.core.errors import ClaimConflict, JournalBusy, LoomError
from loom_ia.core.events.query import EventQuery
from loom_ia.core.events.run import (
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunResumed,
    RunStarted,
)
from loom_ia.core.ids import RunId, SessionId
from loom_ia.core.state.session import is_held
from loom_ia.core.views.result import RunResult

_log = logging.getLogger("loom_ia.app")

_OPENING = (RunStarted.TYPE, RunResumed.TYPE)
_CLOSING = (RunCompleted.TYPE, RunFailed.TYPE, RunCancelled.TYPE)
_PAGE = 10_000
_AT_ONCE = 16
_TRIES = 3


@dataclass(frozen=True, slots=True)
class Unrecovered:
    """A run that could not be taken up, and why; the next `recover` tries it again."""

    run_id: RunId
    session_id: SessionId
    error: Exception


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """What `recover` did. Iterating gives the results of the runs that were taken up.

    `waiting` counts the runs that wait for a human, `driven` those that are driven already.
    """

    results: tuple[RunResult, ...]
    failures: tuple[Unrecovered, ...]
    waiting: int
    driven: int

    def __iter__(self) -> Iterator[RunResult]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)


async def recover(instance: Instance, *, session_id: SessionId | None = None) -> RecoveryReport:
    """Drive on every run that is open and that nobody drives, a few at a time.

    Of those that wait for a human, what is owed to people is sent in the background.

    A failure to take up one run never touches the others: transient errors of the journal are
    tried again, and what remains is reported.
    """
    limit = asyncio.Semaphore(_AT_ONCE)
    runs = await open_runs(instance, session_id=session_id)

    async def one(run_id: RunId, home: SessionId) -> RunResult | Unrecovered | str:
        async with limit:
            return await _take_up(instance, run_id, home)

    outcomes = await asyncio.gather(*(one(run_id, home) for run_id, home in runs.items()))
    return RecoveryReport(
        results=tuple(o for o in outcomes if isinstance(o, RunResult)),
        failures=tuple(o for o in outcomes if isinstance(o, Unrecovered)),
        waiting=sum(o == "waiting" for o in outcomes),
        driven=sum(o == "driven" for o in outcomes),
    )


async def watch(instance: Instance, *, interval: float | None = None) -> None:
    """Recover again and again, until cancelled: what a dying driver leaves is taken up here.

    `interval` is in seconds; by default half a lease, so that a run waits at most one and a half
    leases, and far less where the journal has locks. A run that is taken up never delays the next
    look.
    """
    pause = interval if interval is not None else instance.lease.total_seconds() / 2
    limit = asyncio.Semaphore(_AT_ONCE)
    taken: dict[RunId, asyncio.Task[None]] = {}

    async def one(run_id: RunId, home: SessionId) -> None:
        async with limit:
            outcome = await _take_up(instance, run_id, home, patient=True)
        if isinstance(outcome, Unrecovered):
            _log.warning("run %s not recovered: %s", run_id, outcome.error)

    try:
        while True:
            try:
                runs = await open_runs(instance)
            except LoomError as error:
                _log.warning("recovery not possible now: %s", error)
                runs = {}
            for run_id, home in runs.items():
                if run_id not in taken and run_id not in instance.driven:
                    taken[run_id] = task = asyncio.create_task(one(run_id, home))
                    task.add_done_callback(lambda _, run_id=run_id: taken.pop(run_id))
            await asyncio.sleep(pause)
    finally:
        tasks = list(taken.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def open_runs(
    instance: Instance, *, session_id: SessionId | None = None
) -> dict[RunId, SessionId]:
    """Find the runs that have begun and are not over, with their sessions."""
    found: dict[RunId, SessionId] = {}
    after: str | None = None
    while True:
        query = EventQuery(
            tenant_id=DEFAULT_TENANT,
            session_id=session_id,
            types=(*_OPENING, *_CLOSING),
            after=after,
            limit=_PAGE,
        )
        events = await instance.journal.query(query)
        for event in events:
            if event.run_id != event.root_run_id:
                continue  # it is driven with the run that opened it
            if event.type in _OPENING:
                found[event.run_id] = event.session_id
            else:
                found.pop(event.run_id, None)
        if len(events) < _PAGE:
            return found
        after = events[-1].event_id


async def _take_up(
    instance: Instance, run_id: RunId, home: SessionId, *, patient: bool = False
) -> RunResult | Unrecovered | str:
    tries = 0
    while True:
        if run_id in instance.driven:
            return "driven"
        try:
            log, run = await instance.find(run_id, home)
            if is_held(run, log.state.runs, now := instance.clock.now()):
                if run.lease is None or not run.lease.is_live(now):  # its driver is gone
                    notices.tell(instance, log, run, patient=patient)
                return "waiting"
            run = await resume(instance, run_id, session_id=home, by="recover")
            return result_of(instance, run)
        except ClaimConflict:
            return "driven"
        except JournalBusy as error:
            tries += 1
            if tries >= _TRIES:
                return Unrecovered(run_id, home, error)
            await asyncio.sleep(0.05 * 2**tries)
        except Exception as error:  # noqa: BLE001 -- whatever it is, the others are recovered
            return Unrecovered(run_id, home, error)
