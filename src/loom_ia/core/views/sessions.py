"""What a session holds, and what a listing of runs shows."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from loom_ia.core.events.artifact import ArtifactStored
from loom_ia.core.events.envelope import Event
from loom_ia.core.events.fold import apply, begin
from loom_ia.core.events.tool import ToolCalled
from loom_ia.core.ids import CallId, RunId, SessionId
from loom_ia.core.json import JsonValue
from loom_ia.core.model.artifacts import ArtifactOrigin, StoredArtifact
from loom_ia.core.model.base import Value, sparse
from loom_ia.core.model.usage import Usage
from loom_ia.core.state.questions import open_questions
from loom_ia.core.state.run import Failed, RunState, Spent, Status
from loom_ia.core.state.session import SessionState
from loom_ia.core.views.result import PendingApproval, pending_question


class RunListed(Value):
    """One run of a listing; times in UTC, `cost_usd` in dollars."""

    run_id: RunId
    session_id: SessionId
    agent: str
    status: Status
    parent_run_id: RunId | None = None
    started_at: datetime
    updated_at: datetime
    iterations: int
    usage: Usage
    cost_usd: float
    unpriced_calls: int = 0
    error_type: str | None = None


class RunPage(Value):
    """Some runs, the latest first; `truncated` when older ones may match.

    `scanned` counts the sessions that were read to find them.
    """

    runs: tuple[RunListed, ...]
    scanned: int
    truncated: bool


class SessionInfo(Value):
    """A session: its runs, oldest first, the files they kept, and what waits for a human in it."""

    session_id: SessionId
    last_seq: int
    updated_at: datetime
    runs: tuple[RunListed, ...]
    pending_approvals: tuple[PendingApproval, ...] = ()
    artifacts: tuple[StoredArtifact, ...] = ()
    redacted: bool = sparse(False)


class SessionFile(Value):
    """A file of a session; `size` in bytes, `stored_at` in UTC, the first time that it was kept.

    `file` is the end of its address, `run_id` the run that kept it first, `count` how many times it
    was kept. `call_id` and `tool_name` tell the call that made it, empty when none did.
    """

    uri: str
    file: str
    name: str = ""
    media_type: str
    size: int
    origin: ArtifactOrigin
    run_id: RunId
    agent: str
    call_id: CallId = ""
    tool_name: str = ""
    stored_at: datetime
    count: int = 1
    redacted: bool = sparse(False)


class SessionDeletion(Value):
    """What a deletion removed."""

    session_id: SessionId
    events: int
    artifacts: int = 0
    keys: int = 0


class StateValue(Value):
    """A value that a session keeps, and who wrote it: the caller of a run, or a `tool` in it."""

    key: str
    value: JsonValue
    run_id: RunId
    agent: str
    tool: str | None = None


def state_values(events: Iterable[Event]) -> tuple[StateValue, ...]:
    """Read the state of a session from its events, by key."""
    session = SessionState()
    for event in events:
        run = session.runs.get(event.run_id)
        session.put(begin(event) if run is None else apply(run, event))
    return tuple(
        StateValue(
            key=name,
            value=kept.value,
            run_id=kept.run_id,
            agent=session.runs[kept.run_id].header.agent,
            tool=kept.tool or None,
        )
        for name, kept in sorted(session.kept.items())
        if kept.value is not None
    )


def session_files(events: Iterable[Event]) -> tuple[SessionFile, ...]:
    """List the files that a session keeps, each once, in the order in which they were kept."""
    found: dict[str, SessionFile] = {}
    tools: dict[tuple[RunId, CallId], str] = {}
    for event in events:
        payload = event.payload
        if isinstance(payload, ToolCalled):
            tools[event.run_id, payload.call_id] = payload.tool_name
        if not isinstance(payload, ArtifactStored):
            continue
        known = found.get(payload.uri)
        if known is not None:
            found[payload.uri] = known.model_copy(update={"count": known.count + 1})
            continue
        found[payload.uri] = SessionFile(
            uri=payload.uri,
            file=payload.uri.rpartition("/")[2],
            name=payload.name,
            media_type=payload.media_type,
            size=payload.size,
            origin=payload.origin,
            run_id=event.run_id,
            agent=event.agent,
            call_id=payload.call_id,
            tool_name=tools.get((event.run_id, payload.call_id), ""),
            stored_at=event.ts,
        )
    return tuple(found.values())


def run_listed(run: RunState, updated_at: datetime, spent: Spent | None = None) -> RunListed:
    """Show a run in a listing; `spent` is what it consumed, its roles included."""
    outcome, spent = run.outcome, spent or run.spent
    return RunListed(
        run_id=run.run_id,
        session_id=run.header.session_id,
        agent=run.header.agent,
        status=run.status,
        parent_run_id=run.header.parent_run_id,
        started_at=run.header.started_at,
        updated_at=updated_at,
        iterations=run.iterations,
        usage=spent.usage,
        cost_usd=spent.cost,
        unpriced_calls=spent.unpriced,
        error_type=outcome.error_type if isinstance(outcome, Failed) else None,
    )


def session_info(events: Iterable[Event], session_id: SessionId) -> SessionInfo | None:
    """Describe a session from its events; None when it has none.

    What a role consumed is that of the run that called it: it is no run by itself here.
    """
    runs: dict[RunId, RunState] = {}
    touched: dict[RunId, datetime] = {}
    last: Event | None = None
    for event in events:
        run = runs.get(event.run_id)
        runs[event.run_id] = begin(event) if run is None else apply(run, event)
        touched[event.run_id] = event.ts
        last = event
    if last is None:
        return None
    return SessionInfo(
        session_id=session_id,
        last_seq=last.seq,
        updated_at=last.ts,
        runs=tuple(
            run_listed(run, touched[run_id], _with_roles(run, runs))
            for run_id, run in runs.items()
            if not run.header.role
        ),
        pending_approvals=tuple(
            pending_question(asking, run.run_id)
            for run in runs.values()
            if run.header.parent_run_id is None
            for asking in open_questions(run, runs)
        ),
        artifacts=tuple(dict.fromkeys(file for run in runs.values() for file in run.artifacts)),
    )


def _with_roles(run: RunState, runs: Mapping[RunId, RunState]) -> Spent:
    spent = run.spent
    for call in (*run.past, *run.table):
        below = runs.get(call.child_run_id)
        if below is not None and below.header.role:
            spent = spent.with_others(below.spent)
    return spent
