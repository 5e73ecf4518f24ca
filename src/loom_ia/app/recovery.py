"""Going on with what dead drivers left: once, or for as long as this instance lives."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

from loom_ia.app import notices
from loom_ia.app.instance import DEFAULT_TENANT, Instance
from loom_ia.app.resuming import result_of, resume
from loom_ia.core.errors import ClaimConflict, HandedBack, JournalBusy, LoomError, UnknownRun
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
_PAGE = 2_000
_AT_ONCE = 16
_TRIES = 3
_LISTENS = 0.25


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

    Ends by itself once the instance halts, when the runs that it took up are handed back.

    `interval` is in seconds; by default half a lease, so that a run waits at most one and a half
    leases, and far less where the journal has locks; what a process of the same host hands back is
    taken up at once. A run that is taken up never delays the next look.
    """
    pause = interval if interval is not None else instance.lease.total_seconds() / 2
    limit = asyncio.Semaphore(_AT_ONCE)
    taken: dict[RunId, asyncio.Task[None]] = {}

    async def one(run_id: RunId, home: SessionId) -> None:
        async with limit:
            outcome = await _take_up(instance, run_id, home, patient=True)
        if isinstance(outcome, Unrecovered) and not isinstance(outcome.error, UnknownRun):
            _log.warning("run %s not recovered: %s", run_id, outcome.error)

    def take(run_id: RunId, home: SessionId) -> None:
        if run_id in taken or run_id in instance.driven:
            return
        taken[run_id] = task = asyncio.create_task(one(run_id, home))
        instance.start_job(task)
        task.add_done_callback(lambda _: taken.pop(run_id))

    instance.heard_of()  # what was said before is found without it
    try:
        while not instance.halting.is_set():
            for run_id, home in (await _found(instance)).items():
                take(run_id, home)
            async for run_id, home in _told(instance, pause):
                take(run_id, home)
        while taken:
            await asyncio.wait(set(taken.values()))
    finally:
        tasks = list(taken.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _found(instance: Instance) -> dict[RunId, SessionId]:
    try:
        return await open_runs(instance)
    except LoomError as error:
        _log.warning("recovery not possible now: %s", error)
        return {}


async def _told(instance: Instance, seconds: float) -> AsyncIterator[tuple[RunId, SessionId]]:
    """Give what others say to have handed back, for that time, or until the instance halts."""
    loop = asyncio.get_running_loop()
    left, end = seconds, loop.time() + seconds
    while not instance.halting.is_set():
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(left, _LISTENS)):
                await instance.halting.wait()
        for told in instance.heard_of().items():
            yield told
        left = end - loop.time()
        if left <= 0:
            return


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
                with contextlib.suppress(ClaimConflict):  # a driver that lives tells by itself
                    instance.pilot.may_take(run, now)
                    notices.tell(instance, log, run, patient=patient)
                return "waiting"
            run = await resume(instance, run_id, session_id=home, by="recover")
            return result_of(instance, run)
        except (ClaimConflict, HandedBack):
            return "driven"
        except JournalBusy as error:
            tries += 1
            if tries >= _TRIES:
                return Unrecovered(run_id, home, error)
            await asyncio.sleep(0.05 * 2**tries)
        except Exception as error:  # noqa: BLE001 -- whatever it is, the others are recovered
            return Unrecovered(run_id, home, error)
