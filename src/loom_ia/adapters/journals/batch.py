"""What every journal asks of a batch before it looks at what it holds already."""

from collections.abc import Sequence

from loom_ia.core.errors import RunExists
from loom_ia.core.events.envelope import Event
from loom_ia.core.events.run import RunStarted
from loom_ia.core.ids import RunId, SessionId, TenantId


def check_batch(batch: Sequence[Event], expected: int) -> tuple[TenantId, SessionId]:
    """Return the tenant and the session of `batch`.

    Raises `ValueError` when it is empty, belongs to several sessions, or does not follow
    `expected` place by place.
    """
    if not batch:
        raise ValueError("a batch holds at least one event")
    tenant_id, session_id = batch[0].tenant_id, batch[0].session_id
    for seq, event in enumerate(batch, expected + 1):
        if event.session_id != session_id or event.tenant_id != tenant_id:
            raise ValueError(
                f"a batch is for one session: {tenant_id}/{session_id} "
                f"and {event.tenant_id}/{event.session_id} stand in the same one"
            )
        if event.seq != seq:
            raise ValueError(f"after {expected}, {seq} is due in {session_id}, not {event.seq}")
    return tenant_id, session_id


def started_runs(batch: Sequence[Event]) -> list[RunId]:
    """List the runs that begin in `batch`, in order."""
    return [event.run_id for event in batch if event.type == RunStarted.TYPE]


def run_exists(run_id: RunId, session_id: SessionId) -> RunExists:
    """Build the error of a run id that `session_id` used before."""
    return RunExists(
        "run id {run_id} was used already, in session {session_id}: choose another",
        run_id=run_id,
        session_id=session_id,
    )
