"""Stopping a run for good, from the process that drives it or from another one."""

from collections.abc import Sequence
from datetime import datetime

from loom_ia.app.instance import Instance, require_root
from loom_ia.core.decide.closing import cancelled
from loom_ia.core.events.envelope import Payload
from loom_ia.core.ids import RunId, SessionId
from loom_ia.core.json import storable_text
from loom_ia.core.state.run import RunState


async def cancel(
    instance: Instance, run_id: RunId, *, by: str, session_id: SessionId | None = None
) -> bool:
    """Close a run as cancelled; False when it was over already. Raises `UnknownRun`, `RunBelow`.

    The driver stops at once when it is this instance, otherwise at its next fact or heartbeat, at
    most a third of the lease later. A running tool is asked to stop; what it really did is kept.
    """
    log, found = await instance.find(run_id, session_id)
    require_root(found)
    closed_here = False

    def rule(run: RunState | None, now: datetime) -> Sequence[Payload]:
        nonlocal closed_here
        del now
        closed_here = run is not None and run.outcome is None
        return (cancelled(run, storable_text(by)),) if run is not None and closed_here else ()

    await log.append(run_id, rule, sync=True)
    driven = instance.driven.get(run_id)
    if closed_here and driven is not None:
        driven.interrupt.now("closed")
    return closed_here
