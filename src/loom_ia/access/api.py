"""The library: one class that forwards to the application, in a line or two each."""

import asyncio
import secrets
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Collection,
    Coroutine,
    Mapping,
    Sequence,
)
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, overload

from loom_ia.access.graphs import HostGraphs
from loom_ia.app import approvals, cancel, following, reading, recovery, resuming, runs
from loom_ia.app import sessions as sessions_
from loom_ia.app.approvals import NO_ANSWER, Ruling
from loom_ia.app.following import Following, Manner
from loom_ia.app.house import House
from loom_ia.app.instance import Instance
from loom_ia.app.recovery import RecoveryReport
from loom_ia.app.runs import Listener, Order
from loom_ia.app.sessions import RunFilter
from loom_ia.core.events.envelope import Event
from loom_ia.core.events.query import EventQuery
from loom_ia.core.ids import CallId, RunId, SessionId
from loom_ia.core.json import JsonObject
from loom_ia.core.model.attachments import AttachmentLimits
from loom_ia.core.model.caller import CallerContext
from loom_ia.core.model.messages import Message
from loom_ia.core.model.policy import JudgeMode
from loom_ia.core.ports.clock import Clock
from loom_ia.core.ports.journal import Journal
from loom_ia.core.ports.models import ModelClient
from loom_ia.core.ports.sources import ToolSource
from loom_ia.core.spans import span
from loom_ia.core.state.run import RunState, Status
from loom_ia.core.state.session import SessionState
from loom_ia.core.views.report import Period, UsageReport
from loom_ia.core.views.result import RunResult
from loom_ia.core.views.sessions import (
    RunPage,
    SessionDeletion,
    SessionFile,
    SessionInfo,
    StateValue,
)
from loom_ia.engine.attachments import AnyAttachment
from loom_ia.engine.clock import SystemClock
from loom_ia.engine.log import Follower
from loom_ia.engine.program import Approver
from loom_ia.engine.streaming import LiveItem

if TYPE_CHECKING:  # the configuration and its classes are imported when there is one to read
    from loom_ia.app.linked import Linked
    from loom_ia.app.outbox import Outbox
    from loom_ia.app.triggers import Triggered
    from loom_ia.assembly.triggers import Triggers
    from loom_ia.config.load import LoadedConfig
    from loom_ia.config.profiles import ActiveProfile
    from loom_ia.config.root import LoomConfig
    from loom_ia.core.errors import Problem
    from loom_ia.core.views.checkup import Checkup, Probe
    from loom_ia.core.views.trace import Trace
    from loom_ia.graph.types import Approver as GraphApprover
    from loom_ia.graph.types import RunResult as GraphResult

T = TypeVar("T")


class Loom:
    """Agents and graphs ready to work, on one journal.

    Use it with `async with`: entering resolves the whole configuration, leaving waits for what is
    under way (at most `execution.shutdown_timeout` seconds) and closes the journal.

    `store` replaces the journal of the configuration, `models` the clients of some model ids,
    `sources` the MCP servers and the sources of tools of some names, and `clock` the system's time.
    """

    def __init__(
        self,
        config: "LoomConfig | LoadedConfig",
        *,
        store: Journal | None = None,
        models: Mapping[str, ModelClient] | None = None,
        clock: Clock | None = None,
        sources: Mapping[str, ToolSource] | None = None,
    ) -> None:
        from loom_ia.assembly.host import Host
        from loom_ia.assembly.models import price_list
        from loom_ia.config.load import LoadedConfig, prepare_config

        if isinstance(config, LoadedConfig):
            loaded = config
        else:
            durable = store.durable if store is not None else None
            loaded = prepare_config(config, durable=durable, prices=price_list())
        self._triggers: Triggers | None = None
        self._host = Host(loaded, store=store, models=models, sources=sources)
        settings, clock = loaded.config.execution, clock or SystemClock()
        self._instance = Instance(
            journal=self._host.journal,
            clock=clock,
            worker_id=f"worker-{secrets.token_hex(6)}",
            lease=span(settings.lease),
            programs=self._host.programs,
            artifacts=self._host.artifacts,
            attachments=AttachmentLimits(**settings.attachments.model_dump()),
            idempotency=self._host.idempotency,
            house=House(
                self._host.graphs,
                self._host,
                self._host.store,
                self._host.limits(),
                self._host.session_limits(),
                loaded.config.language,
            ),
            shutdown_timeout=settings.shutdown_timeout,
            outbox=_outbox(loaded, clock),
        )

    @classmethod
    def from_config(
        cls,
        path: str | Path,
        *,
        environ: Mapping[str, str] | None = None,
        profile: str | None = None,
        store: Journal | None = None,
        models: Mapping[str, ModelClient] | None = None,
        clock: Clock | None = None,
        references: bool = False,
        sources: Mapping[str, ToolSource] | None = None,
    ) -> Self:
        """Load `loom.yaml`; raises `ConfigError` with everything that is wrong in its files.

        With `references`, the modules of the user are imported at once, and their faults told with
        the others; leave it out when some tools are registered later.
        """
        from loom_ia.assembly.models import price_list
        from loom_ia.config.load import load_config

        loaded = load_config(
            path,
            environ=environ,
            profile=profile,
            durable=store.durable if store is not None else None,
            references=references,
            prices=price_list(),
        )
        return cls(loaded, store=store, models=models, clock=clock, sources=sources)

    async def __aenter__(self) -> Self:
        self._instance.require_open()
        self.mount()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Wait for what is under way, then let go of everything."""
        await self._instance.close()
        await self._host.close()

    # -- what there is ----------------------------------------------------------------------------

    @property
    def config(self) -> "LoomConfig":
        """The configuration."""
        return self._host.config

    @property
    def profile(self) -> "ActiveProfile":
        """The profile that is active."""
        return self._host.loaded.profile

    @property
    def store(self) -> Journal:
        """The journal."""
        return self._instance.journal

    @property
    def worker_id(self) -> str:
        """The name under which this instance drives runs."""
        return self._instance.worker_id

    @property
    def agents(self) -> tuple[str, ...]:
        """The names of the agents."""
        return tuple(agent.name for agent in self.config.agents)

    @property
    def graphs(self) -> HostGraphs:
        """The graphs by name, and what can be done with their runs beyond those of agents."""
        return HostGraphs(self._instance)

    def absolute(self, path: str) -> Path:
        """Give a path of the configuration, which is relative to its folder, from the root on."""
        return self._host.loaded.path(path)

    def is_irreversible(self, agent: str) -> bool:
        """Whether an agent may do what cannot be undone, itself or through those that it calls.

        Raises `UnknownAgent`.
        """
        return self._host.is_irreversible(agent)

    def register(self, name: str, obj: object) -> None:
        """Let the configuration refer to a Python object by `name`.

        A graph that is registered is one of this instance, under its own name.
        """
        self._host.register(name, obj)

    def mount(self) -> None:
        """Resolve every reference now; raises `ConfigError` with all that cannot be."""
        self._host.programs()

    @property
    def triggers(self) -> "Triggers":
        """The doors through which webhooks begin runs, by name."""
        if self._triggers is None:
            from loom_ia.assembly.triggers import Triggers

            self._triggers = Triggers(self.config, self._host.loaded.secret)
        return self._triggers

    def check_serving(self, *, is_keyed: bool = False) -> "tuple[Problem, ...]":
        """Check what only matters to who serves REST, and give the warnings.

        Raises `ConfigError` for a secret of a trigger that is not there and, in prod, for want of
        any API key; `is_keyed` when something else than the configuration knows keys.
        """
        return self._host.loaded.check_serving(is_keyed=is_keyed)

    async def checkup(
        self, model: str, *, told: "Callable[[Probe], None] | None" = None
    ) -> "Checkup":
        """Ask a model of the configuration what it can do, whatever the agents are.

        `told` hears of each question as it is answered. Raises `CallerError` for an unknown model.
        """
        from loom_ia.app import doctor

        return await doctor.checkup(self._host.loaded, model, told=told)

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The names that calls may bear: of the tools of agents, and of the steps of graphs."""
        programs = self._host.programs().values()
        tools = (name for program in programs for name in program.plan.tools)
        steps = (step for graph in self._host.graphs().values() for step in graph.steps)
        return tuple(dict.fromkeys((*tools, *steps)))

    @property
    def driven(self) -> tuple[RunId, ...]:
        """The runs that are driven here now, those that others opened aside."""
        return tuple(self._instance.driven)

    def observe(self, follower: Follower) -> None:
        """Tell `follower` of every fact that this instance writes, right after it is written.

        It is called by whoever writes, and must neither raise nor take long.
        """
        self._instance.observers.append(follower)

    # -- runs -------------------------------------------------------------------------------------

    async def run(  # noqa: PLR0913 -- one call says all there is to say of a run
        self,
        agent: str,
        message: str | Message,
        *,
        session_id: SessionId | None = None,
        run_id: RunId | None = None,
        attachments: Sequence[AnyAttachment] = (),
        context: CallerContext | None = None,
        approver: Approver | None = None,
        state: Mapping[str, Any] | None = None,
        judges: JudgeMode = "auto",
        on_chunk: Listener | None = None,
    ) -> RunResult:
        """Run an agent until it has answered, failed, or waits for a human.

        `session_id` continues a conversation. `run_id` chooses the id, which must be new. With
        `approver`, a function decides in line and the run never pauses. `attachments` are images
        that come with the message: paths, bytes, or `Attachment`. `state` writes values in the
        state of the session, by key; None erases one. `on_chunk` is told each piece of the model's
        answers as it comes. Raises `UnknownAgent`, `RunExists`, `UnusableId`, `UnstorableValue`,
        `AttachmentRefused`, `StateRefused`, `DecisionRefused`; nothing was written then.
        """
        order = Order(
            agent,
            message,
            session_id,
            run_id,
            context,
            approver,
            state,
            attachments=attachments,
            judges=judges,
        )
        opened = await runs.open_run(self._instance, order)
        listener = runs.careful(on_chunk)
        ended = await runs.drive(self._instance, opened.pen, opened.program, listener=listener)
        return resuming.result_of(self._instance, ended)

    async def run_graph(
        self,
        name: str,
        input: Mapping[str, Any] | None = None,
        *,
        session_id: SessionId | None = None,
        run_id: RunId | None = None,
        approver: "GraphApprover | None" = None,
        raise_on_error: bool = True,
    ) -> "GraphResult[Any]":
        """Run a graph from its entry until it is over, failed, or waits for a human.

        The result, the exceptions and the `approver` are those of `loom_ia.graph.Graph.run`. The
        run is one of this instance: it is listed, resumed, decided upon and recovered with those of
        agents. Raises `UnknownGraph`, `RunExists`, `UnusableId`.
        """
        return await self.graphs.run(
            name,
            input,
            session_id=session_id,
            run_id=run_id,
            approver=approver,
            raise_on_error=raise_on_error,
        )

    async def stream(  # noqa: PLR0913 -- as `run`
        self,
        agent: str,
        message: str | Message,
        *,
        session_id: SessionId | None = None,
        run_id: RunId | None = None,
        attachments: Sequence[AnyAttachment] = (),
        context: CallerContext | None = None,
        approver: Approver | None = None,
        state: Mapping[str, Any] | None = None,
        judges: JudgeMode = "auto",
    ) -> AsyncIterator[LiveItem]:
        """Run an agent and give what happens as it does: pieces of text and events of the journal.

        A consumer that falls behind loses pieces of text, told by a `Reset`, never events. Leaving
        the iteration stops the drive; the run stays in the journal and can be resumed.
        """
        order = Order(
            agent,
            message,
            session_id,
            run_id,
            context,
            approver,
            state,
            attachments=attachments,
            judges=judges,
        )
        async for item in runs.stream(self._instance, order):
            yield item

    async def resume(
        self,
        run_id: RunId,
        *,
        session_id: SessionId | None = None,
        take_over: bool = False,
        approver: Approver | None = None,
        on_chunk: Listener | None = None,
    ) -> RunResult:
        """Go on with a run where its journal stopped; a run that is over is returned as it is.

        A run that another live driver holds raises `ClaimConflict`, unless `take_over`. A run that
        another one opened goes on with it: `RunBelow` names the one at the top.
        """
        state = await resuming.resume(
            self._instance,
            run_id,
            session_id=session_id,
            take_over=take_over,
            approver=approver,
            listener=runs.careful(on_chunk),
        )
        return resuming.result_of(self._instance, state)

    async def cancel(
        self, run_id: RunId, *, by: str = "python", session_id: SessionId | None = None
    ) -> bool:
        """Stop a run for good; False when it was over already."""
        return await cancel.cancel(self._instance, run_id, by=by, session_id=session_id)

    async def approve(
        self,
        run_id: RunId,
        *,
        call_id: CallId | None = None,
        by: str = "python",
        reason: str = "",
        arguments: JsonObject | None = None,
        answer: object = NO_ANSWER,
        session_id: SessionId | None = None,
        resume: bool = True,
    ) -> tuple[CallId, ...]:
        """Grant a call that waits, or answer what a step of a graph asks.

        What the runs below ask is decided on the run at the top. `resume` goes on with that one in
        the background; without it the decision is only written. `call_id` may be left out when one
        thing waits. `arguments` replaces those that were shown and needs `call_id`; `answer` is for
        a question of the kind `input`. Returns what was decided, nothing when the run is over.
        Raises `UnknownApproval`, `ApprovalStale`, `DecisionRefused`, `InvalidAnswer`; nothing is
        written then.
        """
        ruling = Ruling(run_id, by, call_id, reason, session_id)
        decided = await approvals.approve(
            self._instance, ruling, arguments=arguments, answer=answer
        )
        if resume:
            self._go_on(run_id, decided)
        return decided

    async def reject(
        self,
        run_id: RunId,
        *,
        call_id: CallId | None = None,
        by: str = "python",
        reason: str = "",
        session_id: SessionId | None = None,
        resume: bool = True,
    ) -> tuple[CallId, ...]:
        """Refuse a call that waits; the model reads the reason. Otherwise as `approve`."""
        ruling = Ruling(run_id, by, call_id, reason, session_id)
        decided = await approvals.reject(self._instance, ruling)
        if resume:
            self._go_on(run_id, decided)
        return decided

    async def require_undecided(
        self, run_id: RunId, call_id: CallId, *, session_id: SessionId | None = None
    ) -> None:
        """Raise `ApprovalStale`, telling who decided and when, if a request was decided before.

        A decision on a run that is over decides nothing and raises nothing: this tells why.
        """
        ruling = Ruling(run_id, "", call_id, "", session_id)
        await approvals.require_undecided(self._instance, ruling)

    @property
    def has_links(self) -> bool:
        """Whether links to the page of decisions are signed, and so can be opened."""
        return self._instance.outbox is not None and self._instance.outbox.links is not None

    async def linked(self, token: str) -> "Linked":
        """Read what a link leads to, by the end of its address; nothing changes.

        Raises `LinkRefused`.
        """
        from loom_ia.app import linked

        return await linked.linked(self._instance, token)

    async def decide_by_link(
        self,
        token: str,
        *,
        granted: bool,
        name: str = "",
        reason: str = "",
        answer: object = NO_ANSWER,
    ) -> tuple[CallId, ...]:
        """Decide by a link, and go on in the background; the link is signed, with `name`.

        Raises `LinkRefused`, and as `approve`; nothing is written then.
        """
        from loom_ia.app import linked

        run_id, decided = await linked.decide(
            self._instance, token, granted=granted, name=name, reason=reason, answer=answer
        )
        self._go_on(run_id, decided)
        return decided

    async def see_through(self, work: Coroutine[Any, Any, T]) -> T:
        """Do `work` to its end, also when whoever waits for it goes away before."""
        job = asyncio.create_task(work)
        job.add_done_callback(lambda job: job.cancelled() or job.exception())  # nobody may look
        self._instance.start_job(job, awaited=True)
        return await asyncio.shield(job)

    async def drain(self) -> None:
        """Wait until everything that was begun in the background is done."""
        await self._instance.drain()

    async def recover(self, *, session_id: SessionId | None = None) -> RecoveryReport:
        """Go on with every run that is open and that nobody drives; tells what could not be."""
        return await recovery.recover(self._instance, session_id=session_id)

    async def watch(self, *, interval: float | None = None) -> None:
        """Recover again and again until cancelled, every `interval` seconds (half a lease)."""
        await recovery.watch(self._instance, interval=interval)

    async def halt(self, *, within: float) -> None:
        """Hand back every run that is driven here, in at most `within` seconds.

        Nothing more is begun: a run that somebody waits for may end in half of that time, the
        others stop after the effect under way, whose end is written. Whoever waits for a run that
        did not end is told by `HandedBack`; another process goes on with it at once.
        """
        await self._instance.halt(within=within)

    async def submit(
        self,
        agent: str,
        message: str | Message,
        *,
        session_id: SessionId | None = None,
        run_id: RunId | None = None,
        attachments: Sequence[AnyAttachment] = (),
        context: CallerContext | None = None,
        state: Mapping[str, Any] | None = None,
        judges: JudgeMode = "auto",
    ) -> RunId:
        """Open a run, drive it in the background, and return its id once it is written.

        Leaving `async with` waits for it. Raises as `run`.
        """
        order = Order(
            agent,
            message,
            session_id,
            run_id,
            context,
            state=state,
            attachments=attachments,
            judges=judges,
        )
        return await runs.submit(self._instance, order)

    async def submit_graph(
        self,
        name: str,
        input: Mapping[str, Any] | None = None,
        *,
        session_id: SessionId | None = None,
        run_id: RunId | None = None,
    ) -> RunId:
        """Open a run of a graph, drive it in the background, and return its id once it is written.

        Leaving `async with` waits for it. Raises as `run_graph` for what cannot begin; how the run
        ends is told by its result alone.
        """
        return await self.graphs.submit(name, input, session_id=session_id, run_id=run_id)

    async def trigger(
        self, name: str, payload: object = None, *, delivery_id: str | None = None
    ) -> "Triggered":
        """Begin, in the background, the run that a webhook asks for; it is written at the return.

        `payload` is what was posted, as JSON has it; None counts as an empty one. A delivery that
        was taken before gives its run again, `repeated`, also from another process. Raises
        `UnknownTrigger`, `DeliveryRefused`, `UnstorableValue`, `UnusableId`, and as `submit`.
        """
        from loom_ia.app import triggers

        door = self.triggers.find(name)
        posted: object = {} if payload is None else payload
        return await triggers.trigger(self._instance, door, posted, delivery_id=delivery_id)

    # -- reading ----------------------------------------------------------------------------------

    async def result(self, run_id: RunId, *, session_id: SessionId | None = None) -> RunResult:
        """Read what a run gave so far."""
        state = await self.state(run_id, session_id=session_id)
        return resuming.result_of(self._instance, state)

    async def state(self, run_id: RunId, *, session_id: SessionId | None = None) -> RunState:
        """Read what a run is."""
        _, run = await self._instance.find(run_id, session_id)
        return run

    async def family(
        self, run_id: RunId, *, session_id: SessionId | None = None
    ) -> tuple[RunState, SessionState]:
        """Read what a run is, and what its session is, where those above and below it are."""
        log, run = await self._instance.find(run_id, session_id)
        return run, log.state

    async def events(
        self,
        run_id: RunId,
        *,
        session_id: SessionId | None = None,
        after_seq: int = 0,
        subruns: bool = True,
    ) -> list[Event]:
        """Read the events of a run that follow place `after_seq` of its session.

        `subruns` includes those of the runs below it.
        """
        return await reading.events(
            self._instance, run_id, session_id=session_id, after_seq=after_seq, subruns=subruns
        )

    @overload
    def follow(
        self,
        run_id: RunId,
        *,
        session_id: SessionId | None = None,
        after_seq: int = 0,
        subruns: bool = True,
        deltas: Literal[False] = False,
    ) -> AsyncGenerator[Event]: ...

    @overload
    def follow(
        self,
        run_id: RunId,
        *,
        session_id: SessionId | None = None,
        after_seq: int = 0,
        subruns: bool = True,
        deltas: bool,
    ) -> AsyncGenerator[LiveItem]: ...

    async def follow(
        self,
        run_id: RunId,
        *,
        session_id: SessionId | None = None,
        after_seq: int = 0,
        subruns: bool = True,
        deltas: bool = False,
    ) -> AsyncGenerator[LiveItem]:
        """Give the events of a run that follow `after_seq`, then new ones until the run is over.

        `subruns` includes those of the runs below it. With `deltas`, the text that models say comes
        too, if this instance drives the run, whoever asked for it: `Spoken`, a `TextDelta` that
        bears its run and its `offset` in the answer, and `Unsaid`, a `Reset`, when it is abandoned.
        Leaving the iteration changes nothing for the run. Raises `UnknownRun`, and `CursorRefused`
        for a place beyond the last event.
        """
        manner = Manner(subruns=subruns, deltas=deltas)
        followed = await self.following(
            run_id, session_id=session_id, after_seq=after_seq, manner=manner
        )
        try:
            while (items := await followed.next()) is not None:
                for item in items:
                    yield item
        finally:
            followed.close()

    async def following(
        self,
        run_id: RunId,
        *,
        session_id: SessionId | None = None,
        after_seq: int | str = 0,
        manner: Manner | None = None,
    ) -> Following:
        """Begin to follow a run as `follow` does, to ask for what is new in your own time."""
        return await following.follow(
            self._instance,
            run_id,
            session_id=session_id,
            after_seq=after_seq,
            manner=manner or Manner(),
        )

    async def query(self, query: EventQuery) -> list[Event]:
        """Search the journal."""
        return await self._instance.journal.query(query)

    async def trace(self, run_id: RunId, *, session_id: SessionId | None = None) -> "Trace":
        """Read a run as a tree: its steps, the calls of models and tools, and what they cost."""
        from loom_ia.core.views.trace import trace_of

        return trace_of(await self.events(run_id, session_id=session_id))

    async def report(
        self,
        run_id: RunId | None = None,
        *,
        session_id: SessionId | None = None,
        period: Period | None = None,
    ) -> UsageReport:
        """Report what a run and those below it consumed, or a whole session without `run_id`.

        `period` reports on every session instead, since the day or the month began in UTC.
        """
        return await reading.report(self._instance, run_id, session_id=session_id, period=period)

    async def runs(
        self,
        *,
        agent: str | None = None,
        status: Sequence[Status | str] = (),
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 50,
        sessions: int = 50,
        agents: Collection[str] = (),
    ) -> RunPage:
        """List runs, the latest first: at most `limit`, found in at most `sessions` sessions.

        With `agents`, only theirs.
        """
        states = tuple(map(Status, status))
        only = frozenset(agents)
        wanted = RunFilter(agent, states, since, until, limit, sessions, only)
        return await sessions_.runs(self._instance, wanted)

    async def artifact(self, uri: str) -> bytes:
        """Read a file by its `artifact://` address; raises `UnknownArtifact`."""
        return await self._host.artifacts.get(uri)

    # -- sessions ---------------------------------------------------------------------------------

    async def sessions(
        self, *, after: SessionId | None = None, limit: int = 100
    ) -> tuple[SessionInfo, ...]:
        """Describe sessions in the order of their ids, starting after `after`."""
        return await sessions_.sessions(self._instance, after=after, limit=limit)

    async def session(self, session_id: SessionId) -> SessionInfo:
        """Describe one session; raises `UnknownSession`."""
        return await sessions_.session(self._instance, session_id)

    async def session_state(self, session_id: SessionId) -> tuple[StateValue, ...]:
        """Read the values that a session keeps, by key; raises `UnknownSession`.

        They are what callers posed, and what tools wrote in runs that are completed.
        """
        return await sessions_.session_state(self._instance, session_id)

    async def session_files(self, session_id: SessionId) -> tuple[SessionFile, ...]:
        """Describe the files that a session keeps, oldest first; raises `UnknownSession`."""
        return await sessions_.files(self._instance, session_id)

    async def session_events(self, session_id: SessionId) -> list[Event]:
        """Read every event of a session, in order; raises `UnknownSession`."""
        return await sessions_.session_events(self._instance, session_id)

    async def export_session(self, session_id: SessionId) -> str:
        """Write a session as JSON Lines, one event each; raises `UnknownSession`."""
        return await sessions_.export(self._instance, session_id)

    async def delete_session(self, session_id: SessionId) -> SessionDeletion:
        """Remove a session for good; raises `UnknownSession`, and `SessionBusy` while it works."""
        return await sessions_.delete(self._instance, session_id)

    def _go_on(self, run_id: RunId, decided: tuple[CallId, ...]) -> None:
        if decided:
            job = resuming.resume_in_background(self._instance, run_id)
            self._instance.start_job(asyncio.create_task(job))


def _outbox(loaded: "LoadedConfig", clock: Clock) -> "Outbox | None":
    """Make what tells people that something waits; None where nobody is told."""
    notices = loaded.config.notices
    if not notices.targets and notices.secret_env is None:
        return None
    from loom_ia.app.links import Links
    from loom_ia.app.outbox import Outbox
    from loom_ia.assembly.notices import announcing

    made = announcing(loaded, clock)
    links = Links(made.secrets, notices.public_url, notices.expires_in) if made.secrets else None
    return Outbox(made.addressees, links)
