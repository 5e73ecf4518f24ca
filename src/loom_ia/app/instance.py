"""What every operation of one instance shares: its journal, its identity, and what it drives."""

import asyncio
import contextlib
import json
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from loom_ia.app.house import House
from loom_ia.app.outbox import Outbox
from loom_ia.core.errors import (
    LoomClosed,
    RunBelow,
    RunExists,
    UnknownAgent,
    UnknownGraph,
    UnknownRun,
)
from loom_ia.core.ids import RunId, SessionId, TenantId, is_reserved
from loom_ia.core.model.attachments import AttachmentLimits
from loom_ia.core.ports.artifacts import ArtifactStore
from loom_ia.core.ports.clock import Clock
from loom_ia.core.ports.idempotency import IdempotencyStore
from loom_ia.core.ports.journal import HeldLock, Journal
from loom_ia.core.state.run import RunState
from loom_ia.engine.interrupt import Halt, Interrupt
from loom_ia.engine.lease import Heart, Pilot
from loom_ia.engine.log import Follower, SessionLog
from loom_ia.engine.perform.context import Strays
from loom_ia.engine.program import AnyProgram, Program

if TYPE_CHECKING:
    from loom_ia.graph.definition import GraphDefinition

DEFAULT_TENANT: Final = "default"
_KEPT_LOGS: Final = 256


@dataclass(slots=True)
class Driven:
    """A run that this instance drives, or is about to: how to stop it and to wait for it.

    `awaited` tells that whoever asked for it waits for what it gives.
    """

    log: SessionLog
    interrupt: Interrupt
    ended: "asyncio.Future[None]"
    awaited: bool = True
    halt: Halt = field(default_factory=Halt)

    def stop(self, *, cut: bool = False) -> None:
        """Begin nothing more; `cut` stops what is under way, too."""
        self.halt.asked = True
        if cut:
            self.halt.cut = True
            self.interrupt.now("halted")


@dataclass(slots=True)
class Instance:
    """One process's share of the work. `shutdown_timeout` is in seconds.

    `alone` tells that nobody else can ever take its runs, so that no lease needs to be kept alive.
    """

    journal: Journal
    clock: Clock
    worker_id: str
    lease: timedelta
    programs: Callable[[], Mapping[str, Program]]
    artifacts: ArtifactStore | None = None
    attachments: AttachmentLimits = field(default_factory=AttachmentLimits)
    idempotency: IdempotencyStore | None = None
    house: House | None = None
    outbox: Outbox | None = None
    shutdown_timeout: float = 30.0
    alone: bool = False
    driven: dict[RunId, Driven] = field(default_factory=dict[RunId, Driven])
    strays: Strays = field(default_factory=Strays)
    jobs: set["asyncio.Task[object]"] = field(default_factory=set["asyncio.Task[object]"])
    awaited: set["asyncio.Task[object]"] = field(default_factory=set["asyncio.Task[object]"])
    observers: list[Follower] = field(default_factory=list[Follower])
    halting: asyncio.Event = field(default_factory=asyncio.Event)
    _logs: OrderedDict[tuple[TenantId, SessionId], SessionLog] = field(
        default_factory=OrderedDict[tuple[TenantId, SessionId], SessionLog]
    )
    _homes: dict[RunId, SessionId] = field(default_factory=dict[RunId, SessionId])
    _leaves_at: float | None = None
    _closed: bool = False
    _lock: HeldLock | None = None
    _pilot: Pilot | None = None
    _heart: Heart | None = None

    @property
    def pilot(self) -> Pilot:
        """The identity under which this instance drives; takes its lock the first time."""
        if self._pilot is None:
            locks = self.journal.locks
            if locks is not None:
                self._lock = locks.hold(self.worker_id)
            name = self._lock.name if self._lock else ""
            self._pilot = Pilot(self.worker_id, self.lease, locks, name)
        return self._pilot

    def steer(self, pilot: Pilot) -> None:
        """Drive under an identity that somebody else made."""
        self._pilot = pilot

    @property
    def heart(self) -> Heart:
        """What keeps the leases of the driven runs."""
        if self._heart is None:
            self._heart = Heart(self.pilot)
        return self._heart

    def require_open(self) -> None:
        """Raise `LoomClosed` once the instance was closed."""
        if self._closed:
            raise LoomClosed(
                "this Loom was closed when its `async with` was left: make another one"
            )

    def program(self, agent: str) -> Program:
        """Give an agent ready to be driven; raises `UnknownAgent` naming those that exist."""
        programs = self.programs()
        program = programs.get(agent)
        if program is None and self.house is not None and agent in self.house.graphs():
            raise UnknownAgent(
                "{name!r} is a graph, not an agent: run it with {command} (run_graph in Python)",
                name=agent,
                command=f"loom graph run {agent}",
            )
        if program is None:
            raise UnknownAgent(
                "there is no agent {agent!r}; agents: {agents}",
                agent=agent,
                agents=", ".join(programs) or "none",
            )
        return program

    def graph(self, name: str) -> "GraphDefinition[Any]":
        """Give a graph by its name; raises `UnknownGraph` naming those that exist."""
        graphs: Mapping[str, GraphDefinition[Any]] = {}
        if self.house is not None:
            graphs = self.house.graphs()
        graph = graphs.get(name)
        if graph is None and name in self.programs():
            raise UnknownGraph(
                "{name!r} is an agent, not a graph: run it with {command} (run in Python)",
                name=name,
                command=f"loom run {name}",
            )
        if graph is None:
            raise UnknownGraph(
                "there is no graph {graph!r}; graphs: {graphs}",
                graph=name,
                graphs=", ".join(graphs) or "none",
            )
        return graph

    def program_of(self, run: RunState) -> AnyProgram:
        """Give what drives a run at the top; raises `UnknownAgent`, `UnknownGraph`."""
        if run.header.program == "agent" or self.house is None:
            return self.program(run.header.agent)
        return self.house.program(self.graph(run.header.agent))

    def log(self, session_id: SessionId, tenant_id: TenantId = DEFAULT_TENANT) -> SessionLog:
        """Give the log of a session, kept in memory while it is used often."""
        self.require_open()
        key = (tenant_id, session_id)
        log = self._logs.get(key)
        if log is None:
            log = self._logs[key] = SessionLog(self.journal, self.clock, tenant_id, session_id)
            log.observers = self.observers
            self._shrink()
        else:
            self._logs.move_to_end(key)
        return log

    def known(self, session_id: SessionId) -> SessionLog | None:
        """Give the log of a session if it is in memory."""
        return self._logs.get((DEFAULT_TENANT, session_id))

    async def find(
        self, run_id: RunId, session_id: SessionId | None = None
    ) -> tuple[SessionLog, RunState]:
        """Find a run by its id alone, as it is written now; `session_id` is only a shortcut.

        Raises `UnknownRun`.
        """
        driven = self.driven.get(run_id)
        if driven is not None and (run := driven.log.run(run_id)) is not None:
            return driven.log, run
        for home in (session_id, self._homes.get(run_id)):
            if home is not None and (found := await self._find_in(run_id, home)):
                return found
        home = await self.journal.locate(DEFAULT_TENANT, run_id)
        if home is not None and (found := await self._find_in(run_id, home)):
            return found
        raise UnknownRun("there is no run {run_id} in this journal", run_id=run_id)

    async def _find_in(
        self, run_id: RunId, session_id: SessionId
    ) -> tuple[SessionLog, RunState] | None:
        if is_reserved(session_id):  # it holds no run
            return None
        log = self.log(session_id)
        await log.catch_up()
        run = log.run(run_id)
        if run is None:
            return None
        self._homes[run_id] = session_id
        return log, run

    def forget(self, session_id: SessionId) -> None:
        """Let go of what is remembered of a session."""
        self._forget((DEFAULT_TENANT, session_id))

    def _forget(self, key: tuple[TenantId, SessionId]) -> None:
        log = self._logs.pop(key, None)
        for run_id in log.state.runs if log else ():
            self._homes.pop(run_id, None)

    def sit(self, run_id: RunId, log: SessionLog) -> Driven:
        """Take the only seat from which this instance drives a run; it must be free."""
        if run_id in self.driven:
            raise RunExists("run {run_id} is being driven here already", run_id=run_id)
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        task = asyncio.current_task()
        awaited = task not in self.jobs or task in self.awaited
        seat = self.driven[run_id] = Driven(log, Interrupt(), ended, awaited)
        if self.halting.is_set() and not awaited:
            seat.stop()
        return seat

    def leave(self, run_id: RunId) -> None:
        """Free the seat, and wake those who wait for the run."""
        seat = self.driven.pop(run_id)
        if not seat.ended.done():
            seat.ended.set_result(None)

    def start_job(self, job: "asyncio.Task[object]", *, awaited: bool = False) -> None:
        """Hold on to a background task until it ends; `awaited` when somebody waits for it."""
        self.jobs.add(job)
        job.add_done_callback(self.jobs.discard)
        if awaited:
            self.awaited.add(job)
            job.add_done_callback(self.awaited.discard)

    async def drain(self) -> None:
        """Wait for every background task, those that they start included."""
        while self.jobs:
            await asyncio.wait(set(self.jobs))

    def tell_handed_back(self, run_id: RunId, session_id: SessionId) -> None:
        """Leave word for the other processes that a run can be taken up."""
        locks = self.journal.locks
        if locks is not None:
            locks.leave_word(json.dumps([session_id, run_id]))

    def heard_of(self) -> dict[RunId, SessionId]:
        """Give the runs, with their sessions, that others said to have handed back meanwhile."""
        found: dict[RunId, SessionId] = {}
        locks = self.journal.locks
        for word in locks.words() if locks is not None else ():
            with contextlib.suppress(ValueError):
                match json.loads(word):
                    case [str(session_id), str(run_id)]:
                        found[run_id] = session_id
                    case _:
                        pass
        return found

    async def halt(self, *, within: float) -> None:
        """Hand every run back, in at most `within` seconds; nothing is taken up any more.

        Runs that nobody waits for stop after the effect under way, so that its end is written and
        another driver goes on from there at once. The others may end by themselves for half of the
        time, then stop likewise. What is still under way near the end is cut, and `close` waits
        for nothing beyond it.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        self._leaves_at = began + within
        self.halting.set()
        for part, least in ((0.0, "background"), (0.5, "all"), (0.9, "cut")):
            wait = began + within * part - loop.time()
            if self.driven and wait > 0:
                await asyncio.wait([seat.ended for seat in self.driven.values()], timeout=wait)
            for seat in self.driven.values():
                if least != "background" or not seat.awaited:
                    seat.stop(cut=least == "cut")

    async def close(self) -> None:
        """Wait for what is under way, at most `shutdown_timeout` seconds, then let go of all."""
        if self.jobs:
            _, late = await asyncio.wait(set(self.jobs), timeout=self._patience)
            for job in late:
                job.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        await self.strays.join(self._patience)
        self._closed = True
        if self._heart is not None:
            await self._heart.stop()
        await self.journal.close()
        if self._lock is not None:
            self._lock.release()

    @property
    def _patience(self) -> float:
        """Seconds for which what is under way is waited for."""
        if self._leaves_at is None:
            return self.shutdown_timeout
        return max(self._leaves_at - asyncio.get_running_loop().time(), 0.1)

    def _shrink(self) -> None:
        excess = len(self._logs) - _KEPT_LOGS
        if excess <= 0:
            return
        busy = {id(driven.log) for driven in self.driven.values()}
        for key, log in list(self._logs.items()):
            if id(log) not in busy and not log.followers and not log.lock.locked():
                self._forget(key)
                excess -= 1
            if excess == 0:
                return


def require_root(run: RunState) -> None:
    """Raise `RunBelow` for a run that another one opened."""
    if run.header.parent_run_id is not None:
        raise RunBelow(
            "run {run_id} was opened by another one: act on the one at the top, {root}",
            run_id=run.run_id,
            root=run.header.root_run_id,
        )
