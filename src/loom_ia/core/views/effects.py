"""What runs did to the outside world, or may have done: what an answer may rightly claim."""

from datetime import datetime

from loom_ia.core.ids import CallId, RunId
from loom_ia.core.json import JsonObject
from loom_ia.core.model.base import Value
from loom_ia.core.model.tooling import SideEffects, arguments_digest
from loom_ia.core.state.acting import acts_of
from loom_ia.core.state.acts import Act, EffectStatus
from loom_ia.core.state.run import RunState
from loom_ia.core.state.session import SessionState


class EffectRecord(Value):
    """One call of a tool that has side effects, or one effect inside a step of a graph.

    `status` is `planned` while somebody is asked, `started` while it is under way, `done` or
    `not_done` where that is known, and `unknown` where it may have happened. `at` is the instant of
    what is known last, in UTC.

    `key` is what it was remembered under, or identifies the call, and is the key of an effect
    inside a step. `digest` identifies the tool with its `arguments`. `by` is who approved it, empty
    when nobody was asked. `reused` tells that an earlier call had done it, `reconciled` that the
    outside world was asked.
    """

    run_id: RunId
    call_id: CallId
    tool: str
    key: str
    arguments: JsonObject
    digest: str
    side_effects: SideEffects
    status: EffectStatus
    at: datetime
    by: str = ""
    reused: bool = False
    reconciled: bool = False


def effects_of(run: RunState, session: SessionState | None = None) -> tuple[EffectRecord, ...]:
    """Give the effects of a run and, with its `session`, of those below it, in order of `at`."""
    below = () if session is None else session.tree(run.run_id)
    runs = {run.run_id: run, **{other.run_id: other for other in below}, run.run_id: run}
    found = [_record(act) for other in runs.values() for act in acts_of(other)]
    return tuple(sorted(found, key=lambda effect: effect.at))


def _record(act: Act) -> EffectRecord:
    return EffectRecord(
        run_id=act.run_id,
        call_id=act.call_id,
        tool=act.tool,
        key=act.key,
        arguments=act.arguments,
        digest=arguments_digest(act.tool, act.arguments),
        side_effects=act.side_effects,
        status=act.status,
        at=act.at,
        by=act.by,
        reused=act.reused,
        reconciled=act.reconciled,
    )
