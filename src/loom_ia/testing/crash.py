"""Kill a scenario at every write, and see that it always comes to the same.

Law. The scenario is run once undisturbed, which gives the reference, then once for each of its
writes and each side of it, with a death there and new lives over what survives. Nothing is random
and nothing waits for time, so that a divergence happens again each time it is looked for.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, TypeAlias, cast, get_args

from loom_ia.access.graph import Graph
from loom_ia.app.instance import DEFAULT_TENANT
from loom_ia.core.events.envelope import Event
from loom_ia.core.ids import RunId
from loom_ia.core.model.changes import Values
from loom_ia.core.plan import CallFacts
from loom_ia.core.views.result import RunResult, run_result
from loom_ia.engine.log import SessionLog
from loom_ia.engine.threads import no_threads
from loom_ia.testing.clock import ManualClock
from loom_ia.testing.crash_graph import Answer
from loom_ia.testing.crash_host import Host, stop_all
from loom_ia.testing.crash_journal import CrashJournal, CrashPoint, Side
from loom_ia.testing.crash_outcome import (
    Outcome,
    broken_laws,
    differences,
    since,
    unannounced,
)
from loom_ia.testing.crash_report import CrashReport, Divergence, Life
from loom_ia.testing.journals import CrashLevel, PowerLossJournal

Scenario: TypeAlias = Callable[[Host], Awaitable[object]]
Effects: TypeAlias = Callable[[], Mapping[str, int]]

_SIDES: Final[tuple[Side, ...]] = get_args(Side)
_PAGE: Final = 1000


class NotRepeatable(AssertionError):
    """The scenario does not write the same twice, so that its crashes mean nothing."""


def no_effects() -> Mapping[str, int]:
    """Count nothing."""
    return {}


async def crash_everywhere(  # noqa: PLR0913 -- one word each for what a test may vary
    scenario: Scenario | Graph[Any],
    input: Any = None,
    *,
    answer: Answer | None = None,
    effects: Effects = no_effects,
    level: CrashLevel = "kill",
    resume: Scenario | None = None,
    allow: Callable[[Outcome], bool] | None = None,
    doubles: int = 1,
    patience: float = 30.0,
) -> CrashReport:
    """Run `scenario` with a crash at each of its writes, and compare with the undisturbed one.

        async def scenario(host: Host) -> None:
            loom = host.loom(config, tools=[send])
            result = await loom.run("mailer", "Write to Ana", run_id="r1")
            if result.status == "paused":
                await loom.approve("r1", by="ana")
                await loom.resume("r1")

        report = await crash_everywhere(scenario, effects=lambda: sent, level="power")
        assert report.ok, report

    For a graph alone, `crash_everywhere(graph, input)` is enough: its run is the scenario, and
    `answer` gives what answers each question that it asks. In a scenario, `host.drive(graph, …)`
    does the same, and `store=host.store` is for all the rest.

    A scenario does what a client does, with ids of its own choice. After a crash the client asks
    again: on a new host, `resume` is run, or else the scenario from its start, where `run` of a
    run that exists goes on with it and a decision that was written already is accepted (see
    `RepeatableLoom`). So a scenario looks at what it gets, as above, rather than assume it.
    Another `resume` may only `recover()`. What is not a fact of the journal (variables, events)
    belongs inside the scenario; what is outside of the process, such as `sent`, stays as it is.
    A scenario that deletes its session has nothing to be found again by, and is out of reach.
    Tools and steps that are plain functions run on the event loop here, in the order in which they
    were begun: which of two threads ends first is chance.

    `level` says what survives: `kill` all that was written, `power` only what was flushed.
    `effects` gives how often each outside effect happened until now; name each after its tool, its
    step, or its key inside a step, as in `send` or `send:ana`. Effects of what may be run again are
    not limited; any other happens at most as often as in the reference, once more for each leave
    that a human gave to launch an interrupted call again, and it happened if its call succeeded. At
    the crash itself, no effect is unknown to the journal.

    Each run must end with the status, text and open questions of the reference, a graph also with
    its state and the effects that it recorded, or as `allow` says. `doubles` is how often, for each
    crash, the resumed life is crashed too, at a place that varies. Time stands still, and passes
    the dead host's lease between two lives: give questions that expire more time than that. A life
    that takes more than `patience` seconds has diverged.

    Raises what the undisturbed scenario raises, and `NotRepeatable`.
    """
    lived = _scenario(scenario, input, answer)
    bench = _Bench(lived, resume or lived, effects, level, allow, patience)
    await bench.prepare()
    divergences: list[Divergence] = []
    points = [
        CrashPoint(write, side) for write in range(1, len(bench.writes) + 1) for side in _SIDES
    ]
    seconds = 0
    for rank, point in enumerate(points):
        single = await bench.tried(point)
        divergences += single.divergences
        for again in _second_points(rank, single.writes_of_last_life, doubles):
            seconds += 1
            divergences += (await bench.tried(point, again)).divergences
    return CrashReport(level, bench.writes, len(points), seconds, tuple(divergences))


def _scenario(scenario: Scenario | Graph[Any], given: Any, answer: Answer | None) -> Scenario:
    if not isinstance(scenario, Graph):
        if given is not None or answer is not None:
            raise TypeError("input and answer are those of a graph: a scenario has its own")
        return scenario
    graph = cast("Graph[Any]", scenario)

    async def run(host: Host) -> None:
        await host.drive(graph, given, answer=answer)

    return run


def _second_points(rank: int, writes: int, doubles: int) -> list[CrashPoint]:
    if writes == 0:
        return []
    stride = max(1, writes // max(1, doubles))
    return [
        CrashPoint(1 + (rank + nth * stride) % writes, _SIDES[(rank // 2 + nth) % 2])
        for nth in range(doubles)
    ]


@dataclass(slots=True)
class _Tried:
    """What one trial came to."""

    lives: list[Life] = field(default_factory=list[Life])
    problems: list[str] = field(default_factory=list[str])
    outcome: Outcome | None = None
    specs: Mapping[str, CallFacts] = field(default_factory=dict[str, CallFacts])

    @property
    def writes_of_last_life(self) -> int:
        return len(self.lives[-1].writes)

    @property
    def divergences(self) -> list[Divergence]:
        if not self.problems:
            return []
        points = tuple(life.point for life in self.lives if life.point is not None)
        return [Divergence(points, tuple(self.problems), tuple(self.lives))]


@dataclass(slots=True)
class _Bench:
    """The undisturbed outcome, and trials that are compared with it."""

    scenario: Scenario
    resume: Scenario
    effects: Effects
    level: CrashLevel
    allow: Callable[[Outcome], bool] | None
    patience: float
    writes: tuple[str, ...] = ()
    reference: Outcome | None = None

    async def prepare(self) -> None:
        """Run the scenario undisturbed."""
        before = dict(self.effects())
        host = Host(CrashJournal(PowerLossJournal(), self.level), ManualClock())
        error = await self._live(host, self.scenario)
        if error is not None:
            raise error
        self.writes = tuple(host.journal.writes)
        self.reference = await self._outcome(host.journal.journal, before)

    async def tried(self, *points: CrashPoint) -> _Tried:
        """Run the scenario with a crash at each of `points`, one in each life."""
        before = dict(self.effects())
        tried = _Tried()
        journal, clock = PowerLossJournal(), ManualClock()
        for number, point in enumerate((*points, None), 1):
            host = Host(CrashJournal(journal, self.level, point), clock, number)
            error = await self._live(host, self.scenario if number == 1 else self.resume)
            tried.specs = {**tried.specs, **host.tool_specs}
            crash = host.journal
            if not crash.crashed.is_set():
                tried.lives.append(Life(tuple(crash.writes)))
                if error is not None:
                    tried.problems.append(f"life {number} ended with {_said(error)}")
                break
            if number == 1:
                self._check_repeats(crash.writes)
            survivor = await journal.after_crash(self.level)
            kept = await _events(survivor)
            lost = len(await _events(journal)) - len(kept)
            tried.lives.append(Life(tuple(crash.writes), point, lost))
            tried.problems += unannounced(kept, since(before, self.effects()), tried.specs)
            journal = survivor
            clock.advance(host.longest_lease + timedelta(seconds=1))
        tried.outcome = await self._outcome(journal, before)
        tried.problems += self._judged(tried.outcome, tried.specs)
        return tried

    def _judged(self, outcome: Outcome, specs: Mapping[str, CallFacts]) -> list[str]:
        reference = self.reference
        if reference is None:
            return []
        found = list(broken_laws(reference, outcome, specs))
        endings = differences(reference, outcome)
        if endings and (self.allow is None or not self.allow(outcome)):
            found += endings
        return found

    def _check_repeats(self, writes: Sequence[str]) -> None:
        for number, (now, then) in enumerate(zip(writes, self.writes, strict=False), 1):
            if now != then:
                raise NotRepeatable(
                    f"write {number} of the scenario was [{then}], and is now [{now}]: "
                    "let nothing in it depend on chance, on threads of its own or on real time"
                )

    async def _live(self, host: Host, scenario: Scenario) -> BaseException | None:
        """Live until the end or the crash; gives what the scenario raised."""
        others = asyncio.all_tasks()
        orphans: set[asyncio.Task[Any]] = set()
        host.journal.watch = lambda: orphans.update(asyncio.all_tasks() - others)

        async def life() -> None:
            try:
                await scenario(host)
            finally:
                await host.close()

        with no_threads():
            living = asyncio.create_task(life())
        death = asyncio.create_task(host.journal.crashed.wait())
        await asyncio.wait(
            (living, death), timeout=self.patience, return_when=asyncio.FIRST_COMPLETED
        )
        is_over = living.done()
        orphans |= asyncio.all_tasks() - others - {living}
        await stop_all(orphans | {living, death}, others)
        if host.journal.crashed.is_set():
            await host.close()
            return None
        if not is_over:
            await host.close()
            return TimeoutError(f"it did not come to an end within {self.patience:g} s")
        return asyncio.CancelledError() if living.cancelled() else living.exception()

    async def _outcome(self, journal: PowerLossJournal, before: Mapping[str, int]) -> Outcome:
        events = await _events(journal)
        runs: dict[RunId, RunResult] = {}
        states: dict[RunId, Values] = {}
        for session_id in dict.fromkeys(event.session_id for event in events):
            log = SessionLog(journal, ManualClock(), DEFAULT_TENANT, session_id)
            await log.catch_up()
            for run_id, run in log.state.runs.items():
                runs[run_id] = run_result(run)
                if run.flow is not None:
                    states[run_id] = run.flow.main.values
        return Outcome(runs, tuple(events), since(before, self.effects()), states)


async def _events(journal: PowerLossJournal) -> list[Event]:
    found: list[Event] = []
    after: str | None = None
    while True:
        page = await journal.sessions(DEFAULT_TENANT, after=after, limit=_PAGE)
        for entry in page.sessions:
            found += await journal.read(DEFAULT_TENANT, entry.session_id)
        after = page.next_after
        if after is None:
            return found


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
