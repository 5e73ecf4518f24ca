"""Reading the journal of a run."""

from loom_ia.app.instance import Instance
from loom_ia.core.events.envelope import Event
from loom_ia.core.ids import RunId, SessionId


async def events(
    instance: Instance,
    run_id: RunId,
    *,
    session_id: SessionId | None = None,
    after_seq: int = 0,
) -> list[Event]:
    """Read the events of a run, and of the runs below it, that follow `after_seq`, in order.

    Raises `UnknownRun`.
    """
    log, run = await instance.find(run_id, session_id)
    stored = await log.journal.read(log.tenant_id, log.session_id, after=after_seq)
    root = run.header.root_run_id
    if root == run_id:
        return [event for event in stored if event.root_run_id == root]
    return [event for event in stored if event.run_id == run_id]
