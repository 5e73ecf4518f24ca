"""A `Loom` as one visitor may use it, through one door.

Law. Here alone it is decided what a key lets its holder do: its scopes, its agents, what is offered
through the door, and whether content is shown. Doors translate and never decide. What is refused
is refused before anything is read or written, and the visitor alone says who acts.
"""

import re
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias
from uuid import UUID

from loom_ia.access.api import Loom
from loom_ia.access.followed import Followed
from loom_ia.app.approvals import NO_ANSWER
from loom_ia.app.following import Manner
from loom_ia.app.instance import DEFAULT_TENANT
from loom_ia.app.triggers import Triggered
from loom_ia.core.errors import (
    ApprovalStale,
    CursorRefused,
    Forbidden,
    RunExists,
    UnknownAgent,
    UnknownApproval,
    UnknownArtifact,
    UnknownSession,
)
from loom_ia.core.events.envelope import Event
from loom_ia.core.events.query import EventQuery
from loom_ia.core.ids import CallId, EventId, RunId, SessionId
from loom_ia.core.json import JsonObject
from loom_ia.core.model.base import Value
from loom_ia.core.model.caller import CallerContext
from loom_ia.core.model.messages import Message
from loom_ia.core.model.policy import JudgeMode
from loom_ia.core.model.scopes import Scope
from loom_ia.core.state.questions import open_questions
from loom_ia.core.state.run import RunState, Status
from loom_ia.core.state.session import SessionState
from loom_ia.core.views.privacy import masked, shown
from loom_ia.core.views.report import UsageReport
from loom_ia.core.views.result import RunResult, address_of
from loom_ia.core.views.sessions import RunPage, SessionDeletion, SessionFile, SessionInfo
from loom_ia.engine.attachments import AnyAttachment
from loom_ia.tenancy.visitor import Visitor

if TYPE_CHECKING:
    from datetime import datetime

    from loom_ia.agents.spec import AgentSpec
    from loom_ia.app.runs import Listener
    from loom_ia.core.views.trace import Trace
    from loom_ia.engine.program import Approver

Door: TypeAlias = Literal["rest", "mcp"]

_PAGE: Final = 1_000
_EVENT_ID: Final = re.compile(r"[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}")


class AgentShown(Value):
    """An agent as it is offered."""

    name: str
    description: str = ""


class GraphShown(Value):
    """A graph as it is offered."""

    name: str


class Accepted(Value):
    """A run that was begun in the background."""

    run_id: RunId
    session_id: SessionId
    status: Status


class Decided(Value):
    """The calls that a decision was about."""

    run_id: RunId
    calls: tuple[CallId, ...]


class CancelledRun(Value):
    """Whether this stopped a run: not when it was over already."""

    run_id: RunId
    cancelled: bool


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked of an agent: see `Loom.run`."""

    agent: str
    message: str | Message
    session_id: SessionId | None = None
    run_id: RunId | None = None
    attachments: Sequence[AnyAttachment] = ()
    context: CallerContext | None = None
    state: Mapping[str, Any] | None = None
    judges: JudgeMode = "auto"


class Portal:
    """What one visitor may do with a `Loom` through one door.

    Raises `Forbidden` for what he may not do; otherwise as `Loom`. What he reads has no content
    unless he holds `read_content`.
    """

    def __init__(self, loom: Loom, visitor: Visitor, door: Door) -> None:
        self._loom = loom
        self._door: Door = door
        self.visitor = visitor

    @property
    def _content(self) -> bool:
        return self.visitor.may("read_content")

    def require(self, scope: Scope) -> None:
        """Raise `Forbidden` unless the visitor holds a scope, and is of a client served here."""
        if self.visitor.tenant_id != DEFAULT_TENANT:
            raise Forbidden(
                "the key {key!r} acts for the client {tenant!r}, which is not served here",
                key=self.visitor.name,
                tenant=self.visitor.tenant_id,
            )
        if not self.visitor.may(scope):
            raise Forbidden(
                "the key {key!r} lacks the scope {scope!r}: use one that holds it, or add it "
                "under security.api_keys",
                key=self.visitor.name,
                scope=scope,
            )

    def require_every_agent(self) -> None:
        """Raise `Forbidden` for a key that is limited to some agents."""
        if self.visitor.agents:
            raise Forbidden(
                "the key {key!r} is limited to some agents, and this is about all of them: use a "
                "key without agents",
                key=self.visitor.name,
            )

    # -- what there is ----------------------------------------------------------------------------

    def agents(self) -> tuple[AgentShown, ...]:
        """List the agents that are offered to the visitor."""
        self.require("read")
        return tuple(
            AgentShown(name=agent.name, description=agent.description) for agent in self.offered()
        )

    def graphs(self) -> tuple[GraphShown, ...]:
        """List the graphs that are offered to the visitor."""
        self.require("read")
        return tuple(GraphShown(name=n) for n in self._loom.graphs if self.visitor.sees(n))

    def offered(self) -> "tuple[AgentSpec, ...]":
        """Give the agents that are offered through this door and that the visitor may use."""
        return tuple(
            agent
            for agent in self._loom.config.agents
            if getattr(agent.expose, self._door) and self.visitor.sees(agent.name)
        )

    # -- runs -------------------------------------------------------------------------------------

    async def run(
        self,
        wanted: Wanted,
        *,
        approver: "Approver | None" = None,
        on_chunk: "Listener | None" = None,
    ) -> RunResult:
        """Run an agent; who asks is given the content of the answer, whatever he may read later."""
        self._may_run(wanted)
        async with self._joining(wanted.session_id):
            result = await self._loom.run(
                wanted.agent,
                wanted.message,
                session_id=wanted.session_id,
                run_id=wanted.run_id,
                attachments=wanted.attachments,
                context=wanted.context,
                state=wanted.state,
                judges=wanted.judges,
                approver=approver,
                on_chunk=on_chunk,
            )
        return await self._restricted(result)

    async def submit(self, wanted: Wanted) -> Accepted:
        """Run an agent in the background."""
        self._may_run(wanted)
        async with self._joining(wanted.session_id):
            run_id = await self._loom.submit(
                wanted.agent,
                wanted.message,
                session_id=wanted.session_id,
                run_id=wanted.run_id,
                attachments=wanted.attachments,
                context=wanted.context,
                state=wanted.state,
                judges=wanted.judges,
            )
        return await self._accepted(run_id, wanted.session_id)

    async def run_graph(
        self,
        name: str,
        input: JsonObject | None = None,
        *,
        session_id: SessionId | None = None,
        run_id: RunId | None = None,
    ) -> RunResult:
        """Run a graph until it is over or waits; its failure is told by the result."""
        self.may_run_graph(name)
        async with self._joining(session_id):
            told = await self._loom.run_graph(
                name, input, session_id=session_id, run_id=run_id, raise_on_error=False
            )
        result = await self._loom.result(told.run_id, session_id=session_id)
        return await self._restricted(result)

    async def submit_graph(
        self,
        name: str,
        input: JsonObject | None = None,
        *,
        session_id: SessionId | None = None,
        run_id: RunId | None = None,
    ) -> Accepted:
        """Run a graph in the background."""
        self.may_run_graph(name)
        async with self._joining(session_id):
            begun = await self._loom.submit_graph(name, input, session_id=session_id, run_id=run_id)
        return await self._accepted(begun, session_id)

    async def trigger(
        self, name: str, payload: object, *, delivery_id: str | None = None
    ) -> Triggered:
        """Begin what a webhook asks for; its agent need not be offered through this door."""
        self.may_trigger(name)
        return await self._loom.trigger(name, payload, delivery_id=delivery_id)

    async def result(self, run_id: RunId, *, session_id: SessionId | None = None) -> RunResult:
        """Read where a run stands and what it gave."""
        await self._seen("read", run_id, session_id)
        result = await self._restricted(await self._loom.result(run_id, session_id=session_id))
        return result if self._content else masked(result)

    async def cancel(
        self, run_id: RunId, *, by: str = "", session_id: SessionId | None = None
    ) -> CancelledRun:
        """Stop a run for good."""
        await self._seen("run", run_id, session_id)
        done = await self._loom.cancel(run_id, by=self.signed(by), session_id=session_id)
        return CancelledRun(run_id=run_id, cancelled=done)

    async def approve(
        self,
        run_id: RunId,
        *,
        call_id: CallId | None = None,
        by: str = "",
        reason: str = "",
        arguments: JsonObject | None = None,
        answer: object = NO_ANSWER,
        session_id: SessionId | None = None,
    ) -> Decided:
        """Grant what waits, signed by the visitor, and go on in the background."""
        async with self._deciding(run_id, call_id, session_id) as about:
            calls = await self._loom.approve(
                run_id,
                call_id=about if arguments is None else call_id,  # edited, it must be named
                by=self.signed(by),
                reason=reason,
                arguments=arguments,
                answer=answer,
                session_id=session_id,
            )
            await self._require_first(run_id, about, calls, session_id)
        return Decided(run_id=run_id, calls=calls)

    async def reject(
        self,
        run_id: RunId,
        *,
        call_id: CallId | None = None,
        by: str = "",
        reason: str = "",
        session_id: SessionId | None = None,
    ) -> Decided:
        """Refuse what waits, signed by the visitor, and go on in the background."""
        async with self._deciding(run_id, call_id, session_id) as about:
            calls = await self._loom.reject(
                run_id, call_id=about, by=self.signed(by), reason=reason, session_id=session_id
            )
            await self._require_first(run_id, about, calls, session_id)
        return Decided(run_id=run_id, calls=calls)

    def signed(self, by: str) -> str:
        """Name who acts: the visitor, after the name that he gives of somebody."""
        name = " ".join(by.split())
        return f"{name} ({self.visitor.name})" if name else self.visitor.name

    # -- reading ----------------------------------------------------------------------------------

    async def runs(
        self,
        *,
        agent: str | None = None,
        status: Sequence[Status | str] = (),
        since: "datetime | None" = None,
        until: "datetime | None" = None,
        limit: int = 50,
        sessions: int = 50,
    ) -> RunPage:
        """List runs, the latest first; a key limited to some agents sees theirs alone."""
        self.require("read")
        if agent is not None:
            self._require_agent(agent)
        return await self._loom.runs(
            agent=agent,
            status=status,
            since=since,
            until=until,
            limit=limit,
            sessions=sessions,
            agents=self.visitor.agents,
        )

    async def events(
        self,
        run_id: RunId,
        *,
        session_id: SessionId | None = None,
        after_seq: int = 0,
        subruns: bool = True,
    ) -> list[JsonObject]:
        """Read the events of a run, and of those below it, in their full form."""
        await self._seen("read", run_id, session_id)
        found = await self._loom.events(
            run_id, session_id=session_id, after_seq=after_seq, subruns=subruns
        )
        guard = await self._guard(run_id, session_id)
        return [guard.shown(event) for event in found]

    async def following(
        self,
        run_id: RunId,
        *,
        session_id: SessionId | None = None,
        after_seq: int | str = 0,
        subruns: bool = True,
        deltas: bool = True,
    ) -> Followed:
        """Begin to follow a run, what survives a power cut alone; close what is given.

        What is said comes with `deltas` to those who may read content.
        """
        await self._seen("read", run_id, session_id)
        guard = await self._guard(run_id, session_id)
        manner = Manner(subruns=subruns, deltas=deltas and self._content, flushed=True)
        following = await self._loom.following(
            run_id, session_id=session_id, after_seq=after_seq, manner=manner
        )
        return Followed(following, guard, content=self._content)

    async def query(self, query: EventQuery) -> list[JsonObject]:
        """Search the journal; a key limited to some agents finds what they did alone."""
        self.require("read")
        if query.agent is not None:
            self._require_agent(query.agent)
        if query.after is not None and not _EVENT_ID.fullmatch(query.after):
            raise _no_event(query.after)
        found = await self._found(replace(query, tenant_id=self.visitor.tenant_id))
        if not found and query.after is not None:
            await self._require_event(query.after)
        return [shown(event, content=self._content) for event in found]

    async def trace(self, run_id: RunId, *, session_id: SessionId | None = None) -> "Trace":
        """Read a run as a tree; what agents did below that he may not see is left out."""
        await self._seen("read", run_id, session_id)
        trace = self._pruned(await self._loom.trace(run_id, session_id=session_id))
        return trace if self._content else masked(trace)

    async def report(
        self, run_id: RunId | None = None, *, session_id: SessionId | None = None
    ) -> UsageReport:
        """Report what a run or a session consumed."""
        if run_id is not None:
            await self._seen("read", run_id, session_id)
        elif session_id is not None:
            await self._session("read", session_id)
        report = await self._loom.report(run_id, session_id=session_id)
        runs = tuple(run for run in report.runs if self.visitor.sees(run.agent))
        return report.model_copy(update={"runs": runs})

    # -- sessions ---------------------------------------------------------------------------------

    async def sessions(
        self, *, after: SessionId | None = None, limit: int = 100
    ) -> tuple[SessionInfo, ...]:
        """Describe sessions; refused to a key that is limited to some agents."""
        self.require("read")
        if self.visitor.agents:
            raise Forbidden(
                "the key {key!r} is limited to some agents and cannot list sessions, which others "
                "share: ask about a session by its id, or use a key without agents",
                key=self.visitor.name,
            )
        found = await self._loom.sessions(after=after, limit=limit)
        return found if self._content else tuple(map(masked, found))

    async def session(self, session_id: SessionId) -> SessionInfo:
        """Describe one session."""
        info = await self._session("read", session_id)
        return info if self._content else masked(info)

    async def export(self, session_id: SessionId) -> list[JsonObject]:
        """Give every event of a session in its full form."""
        await self._session("read", session_id)
        found = await self._loom.session_events(session_id)
        return [shown(event, content=self._content) for event in found]

    async def files(self, session_id: SessionId) -> tuple[SessionFile, ...]:
        """Describe the files of a session."""
        await self._session("read", session_id)
        files = await self._loom.session_files(session_id)
        return files if self._content else tuple(map(masked, files))

    async def file(self, session_id: SessionId, file: str) -> tuple[SessionFile, bytes]:
        """Read a file of a session by the end of its address; raises `UnknownArtifact`."""
        await self._session("read_content", session_id)
        for each in await self._loom.session_files(session_id):
            if each.file == file:
                return each, await self._loom.artifact(each.uri)
        raise UnknownArtifact(
            "session {session_id} keeps no file {file!r}", session_id=session_id, file=file[:80]
        )

    async def delete(self, session_id: SessionId) -> SessionDeletion:
        """Remove a session for good."""
        await self._session("admin", session_id)
        return await self._loom.delete_session(session_id)

    # -- what is decided here ---------------------------------------------------------------------

    def _may_run(self, wanted: Wanted) -> None:
        self.may_run(wanted.agent)
        if wanted.judges == "skip":
            self.require("admin")

    def may_run(self, agent: str) -> None:
        """Raise what keeps the visitor from running an agent, before anything of it is read."""
        self.require("run")
        self._require_offered(agent)

    def may_trigger(self, name: str) -> None:
        """Raise what keeps the visitor from calling a trigger, before anything of it is read."""
        self.require("run")
        self._require_agent(self._loom.triggers.find(name).agent)

    def may_run_graph(self, name: str) -> None:
        """Raise what keeps the visitor from running a graph."""
        self.require("run")
        self._loom.graphs.find(name)
        self._require_agent(name)

    @asynccontextmanager
    async def _joining(self, session_id: SessionId | None) -> AsyncGenerator[None]:
        """Begin a run in a session: what was said to the agents there is read by the new one.

        What those below them said is not. A run id that is taken is refused without saying where.
        """
        if session_id is not None and self.visitor.agents:
            with suppress(UnknownSession):
                for run in (await self._loom.session(session_id)).runs:
                    if run.parent_run_id is None:
                        self._require_agent(run.agent)
        try:
            yield
        except RunExists as error:
            taken = error.params.get("run_id", "")
            raise RunExists(
                "run id {run_id} was used already: choose another", run_id=taken
            ) from error

    def _require_offered(self, name: str) -> None:
        spec = next((a for a in self._loom.config.agents if a.name == name), None)
        if spec is None or not getattr(spec.expose, self._door):
            raise UnknownAgent(
                "there is no agent {agent!r}; agents: {agents}",
                agent=name,
                agents=", ".join(agent.name for agent in self.offered()) or "none",
            )
        self._require_agent(name)

    def _require_agent(self, name: str) -> None:
        if not self.visitor.sees(name):
            raise Forbidden(
                "the key {key!r} is not for the agent {agent!r}: use one that is, or add it to "
                "its agents under security.api_keys",
                key=self.visitor.name,
                agent=name,
            )

    async def _seen(
        self, scope: Scope, run_id: RunId, session_id: SessionId | None
    ) -> tuple[RunState, SessionState]:
        """Find a run that the visitor may have to do with, by its own agent and the one on top."""
        self.require(scope)
        run, session = await self._loom.family(run_id, session_id=session_id)
        for each in {run.run_id, run.header.root_run_id}:
            self._require_agent(_agent_of(session.runs.get(each, run), session))
        return run, session

    async def _session(self, scope: Scope, session_id: SessionId) -> SessionInfo:
        """Find a session in which nobody acted but agents of the visitor."""
        self.require(scope)
        info = await self._loom.session(session_id)
        for run in info.runs:
            self._require_agent(run.agent)
        return info

    @asynccontextmanager
    async def _deciding(
        self, run_id: RunId, call_id: CallId | None, session_id: SessionId | None
    ) -> AsyncGenerator[CallId | None]:
        """Find what a decision is about, so that it is about nothing else when it is written.

        What is raised inside because of another thing that waits lists what does.
        """
        run, session = await self._seen("approve", run_id, session_id)
        asked = list(open_questions(run, session.runs))
        if call_id is None and len(asked) == 1:
            call_id = address_of(asked[0], run.run_id)
        for asking in asked:
            names = {asking.id, address_of(asking, run.run_id), asking.call.address}
            if call_id is None or call_id in names:
                self._require_agent(_agent_of(asking.run, session))
        try:
            yield call_id
        except (UnknownApproval, ApprovalStale) as error:
            error.pending = tuple(
                address_of(asking, run.run_id)
                for asking in open_questions(session.runs[run.run_id], session.runs)
                if self.visitor.sees(_agent_of(asking.run, session))
            )
            raise

    async def _require_first(
        self,
        run_id: RunId,
        call_id: CallId | None,
        calls: Sequence[CallId],
        session_id: SessionId | None,
    ) -> None:
        """Refuse a decision on a run that is over, which would pass for one that was taken."""
        if calls:
            return
        if call_id is not None:
            await self._loom.require_undecided(run_id, call_id, session_id=session_id)
        raise ApprovalStale("nothing was decided: run {run_id} is over", run_id=run_id)

    async def _accepted(self, run_id: RunId, session_id: SessionId | None) -> Accepted:
        run = await self._loom.state(run_id, session_id=session_id)
        return Accepted(run_id=run_id, session_id=run.header.session_id, status=run.status)

    async def _guard(self, run_id: RunId, session_id: SessionId | None) -> "_Guard":
        _, session = await self._loom.family(run_id, session_id=session_id)
        return _Guard(self, session, content=self._content)

    async def _restricted(self, result: RunResult) -> RunResult:
        """Leave out what agents did below that the visitor may not see."""
        if not self.visitor.agents:
            return result
        run, session = await self._loom.family(result.run_id, session_id=result.session_id)
        tree = list(session.tree(run.run_id))
        seen = {r.run_id for r in tree if self.visitor.sees(_agent_of(r, session))}
        files = {file.uri for r in tree if r.run_id in seen for file in r.artifacts}
        return result.model_copy(
            update={
                "pending_approvals": _of_runs(result.pending_approvals, seen),
                "effects": _of_runs(result.effects, seen),
                "artifacts": tuple(file for file in result.artifacts if file.uri in files),
            }
        )

    def _pruned(self, trace: "Trace") -> "Trace":
        if not self.visitor.agents:
            return trace
        # a role is a part of its agent: it is seen with it
        below = tuple(
            self._pruned(each) for each in trace.below if each.role or self.visitor.sees(each.agent)
        )
        seen = {trace.run_id, *_ids(below)}
        return trace.model_copy(
            update={
                "below": below,
                "pending": _of_runs(trace.pending, seen),
                "effects": _of_runs(trace.effects, seen),
            }
        )

    async def _require_event(self, event_id: EventId) -> None:
        """Raise `CursorRefused` for a place that no event has, rather than find nothing after it.

        Events stand in the order of their ids, so that it would be the first one after its
        neighbour.
        """
        before = str(UUID(int=max(UUID(event_id).int - 1, 0)))
        asked = EventQuery(tenant_id=self.visitor.tenant_id, after=before, limit=1)
        if not any(event.event_id == event_id for event in await self._loom.query(asked)):
            raise _no_event(event_id)

    async def _found(self, query: EventQuery) -> list[Event]:
        if not self.visitor.agents or query.agent is not None:
            return await self._loom.query(query)
        found: list[Event] = []
        after = query.after
        while True:
            page = await self._loom.query(replace(query, after=after, limit=_PAGE))
            found += (event for event in page if self.visitor.sees(event.agent))
            if len(page) < _PAGE or len(found) >= query.limit:
                return found[: query.limit]
            after = page[-1].event_id


class _Guard:
    """Shows the events of one session, up to the first one that the visitor may not see."""

    def __init__(self, portal: Portal, session: SessionState, *, content: bool) -> None:
        self._portal = portal
        self._session = session
        self._content = content

    def shown(self, event: Event) -> JsonObject:
        """Show an event; raises `Forbidden` when its agent is not one of the visitor."""
        self.require(event)
        return shown(event, content=self._content)

    def require(self, event: Event) -> None:
        """Raise `Forbidden` when the agent of an event is not one of the visitor."""
        visitor = self._portal.visitor
        if visitor.agents and not visitor.sees(event.agent):
            run = self._session.runs.get(event.run_id)
            name = event.agent if run is None else _agent_of(run, self._session)
            if not visitor.sees(name):
                raise Forbidden(
                    "the key {key!r} is not for the agent {agent!r}, which appears here: the rest "
                    "is not shown",
                    key=visitor.name,
                    agent=name,
                )


def _no_event(event_id: str) -> CursorRefused:
    return CursorRefused(
        "no event has the id {event_id}: nothing can be found after it",
        event_id=event_id,
        last=None,
    )


def _agent_of(run: RunState, session: SessionState) -> str:
    """Name the agent of a run: a role is a part of the agent that called it."""
    while run.header.role and run.header.parent_run_id in session.runs:
        run = session.runs[run.header.parent_run_id]
    return run.header.agent


def _of_runs(items: Iterable[Any], run_ids: set[RunId]) -> tuple[Any, ...]:
    return tuple(item for item in items if item.run_id in run_ids)


def _ids(traces: "Iterable[Trace]") -> Iterable[RunId]:
    for trace in traces:
        yield trace.run_id
        yield from _ids(trace.below)
