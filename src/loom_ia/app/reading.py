"""Reading the journal of a run."""

from typing import Final

from loom_ia.app.following import is_below
from loom_ia.app.instance import DEFAULT_TENANT, Instance
from loom_ia.app.sessions import session_events
from loom_ia.core.events.envelope import Event
from loom_ia.core.events.model import ModelResponded, ModelRetried
from loom_ia.core.events.query import EventQuery
from loom_ia.core.ids import RunId, SessionId
from loom_ia.core.views.budget import budget_uses
from loom_ia.core.views.report import Ledger, Period, UsageReport, bounds, usage_report

_PAGE: Final = 1_000


async def events(
    instance: Instance,
    run_id: RunId,
    *,
    session_id: SessionId | None = None,
    after_seq: int = 0,
    subruns: bool = True,
) -> list[Event]:
    """Read the events of a run, and of the runs below it, that follow `after_seq`, in order.

    Raises `UnknownRun`.
    """
    log, run = await instance.find(run_id, session_id)
    stored = await log.journal.read(log.tenant_id, log.session_id, after=after_seq)
    root = run.header.root_run_id
    if not subruns:
        return [event for event in stored if event.run_id == run_id]
    if root == run_id:
        return [event for event in stored if event.root_run_id == root]
    return [event for event in stored if is_below(log, event.run_id, run_id)]


async def report(
    instance: Instance,
    run_id: RunId | None = None,
    *,
    session_id: SessionId | None = None,
    period: Period | None = None,
) -> UsageReport:
    """Report what a run and those below it consumed, a whole session, or every session.

    Raises `UnknownRun`, `UnknownSession`, and `ValueError` unless exactly one of a run (whose
    session may be told), a session and a period is asked for.
    """
    if period is not None:
        if run_id is not None or session_id is not None:
            raise ValueError("a report on a period is about every session")
        return await _report_on(instance, period)
    if run_id is not None:
        log, run = await instance.find(run_id, session_id)
        found = await events(instance, run_id, session_id=session_id)
        budget = budget_uses(run, log.state)
        return usage_report(found, run.header.session_id, run_id, budget=budget)
    if session_id is None:
        raise ValueError("a report needs a run id, a session id or a period")
    return usage_report(await session_events(instance, session_id), session_id)


async def _report_on(instance: Instance, period: Period) -> UsageReport:
    since, until = bounds(period, instance.clock.now())
    ledger, after = Ledger(), None
    while True:
        query = EventQuery(
            tenant_id=DEFAULT_TENANT,
            types=(ModelResponded.TYPE, ModelRetried.TYPE),
            since=since,
            until=until,
            after=after,
            limit=_PAGE,
        )
        page = await instance.journal.query(query)
        for event in page:
            ledger.add(event)
        if len(page) < _PAGE:
            return ledger.report(since=since, until=until)
        after = page[-1].event_id
