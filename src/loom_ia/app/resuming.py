"""Going on with a run, of an agent or of a graph, and telling where it stands."""

import logging

from loom_ia.app import runs
from loom_ia.app.instance import Instance, require_root
from loom_ia.app.runs import Listener
from loom_ia.core.errors import HandedBack, LoomError
from loom_ia.core.ids import RunId, SessionId
from loom_ia.core.state.run import RunState
from loom_ia.core.state.session import is_held
from loom_ia.core.views.result import RunResult, run_result
from loom_ia.engine.program import Approver

_logger = logging.getLogger("loom_ia.app")


async def resume(
    instance: Instance,
    run_id: RunId,
    *,
    session_id: SessionId | None = None,
    take_over: bool = False,
    approver: Approver | None = None,
    listener: Listener | None = None,
    by: str = "python",
) -> RunState:
    """Go on with a run that was interrupted, decided upon, or that failed for a passing cause.

    A run that is over, or that still waits for a human, is returned as it is. Raises
    `ClaimConflict` when another driver holds it, unless `take_over`; `RunBelow`, `NewerJournal`,
    `UnknownRun`, `UnknownAgent`, `UnknownGraph`, `GraphChanged`.
    """
    log, run = await instance.find(run_id, session_id)
    require_root(run)
    if run.header.program == "agent":
        return await runs.resume(
            instance,
            run_id,
            session_id=session_id,
            take_over=take_over,
            approver=approver,
            listener=listener,
        )
    if approver is None and is_held(run, log.state.runs, instance.clock.now()):
        return run
    from loom_ia.app.graphs import hosted  # graphs are imported where one is run

    return await hosted.go_on(instance, run_id, take_over=take_over, approver=approver, by=by)


async def resume_in_background(instance: Instance, run_id: RunId) -> None:
    """Go on with the tree of a run after a decision; a failure is logged, nobody waits for it."""
    try:
        _, run = await instance.find(run_id)
        await resume(instance, run.header.root_run_id)
    except HandedBack:
        _logger.info("run %s handed back", run_id)
    except LoomError as error:
        _logger.warning("run %s not resumed: %s", run_id, type(error).__name__)


def result_of(instance: Instance, run: RunState) -> RunResult:
    """Give the result of a run, with what those below it consumed and ask."""
    log = instance.known(run.header.session_id)
    return run_result(run, log.state if log is not None else None)
