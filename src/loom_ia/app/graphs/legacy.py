"""Going on from a checkpoint that has no journal: of the Go package, or whose journal is gone.

It is the state after, or before, one step, and nothing else is known: what the step had done inside
is lost, and so is what it asked. A new journal begins there, under the id of the run.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, cast

from loom_ia.app.graphs.checkpoints import namespace
from loom_ia.app.graphs.driving import Manner, drive
from loom_ia.app.graphs.order import Order
from loom_ia.core.errors import RunExists, StoreError, told
from loom_ia.core.events.run import RunResumed, RunStarted
from loom_ia.core.ids import RunId
from loom_ia.graph.codec import decode_object
from loom_ia.graph.compiled import plan_of
from loom_ia.graph.definition import GraphDefinition
from loom_ia.graph.errors import CorruptCheckpoint, DeltaError, GraphChanged, RunLocked
from loom_ia.graph.surroundings import Surroundings, info_of
from loom_ia.graph.types import RunResult, StopReason

Stage: TypeAlias = Literal["", "done"]

_RESERVED: Final = "__"
_AGAIN: Final = frozenset({StopReason.YIELDED, StopReason.ERROR, StopReason.BLOCKED})
"""How a run stopped whose last step is the one to run again."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a checkpoint says. `waits` tells that its step only goes on with an answer."""

    run_id: RunId
    graph: str
    last_step: str
    state: Mapping[str, Any]
    stage: Stage
    stop: StopReason | None = None
    waits: bool = False

    def result(self, graph: GraphDefinition[Any]) -> RunResult[Any]:
        """Give a run that is not driven as it is."""
        types = graph.state_type
        return RunResult(
            run_id=self.run_id,
            graph=self.graph,
            state=types.result(types.initial(self.state)),
            stop=self.stop or StopReason.YIELDED,
            last_step=self.last_step or None,
            steps=0,
            total_steps=0,
        )

    def started(self, graph: GraphDefinition[Any]) -> RunStarted:
        """Give the first fact of the journal that begins here."""
        name = graph.migrations.get(self.last_step, self.last_step)
        if name and name not in graph.steps:
            raise GraphChanged(
                "run {run_id} stands at step {step!r}, which graph {graph!r} has no more: add it, "
                "or tell its new name with migrate",
                run_id=self.run_id,
                step=name,
                graph=graph.name,
            )
        plan = plan_of(graph)
        return RunStarted(
            program="graph",
            language=plan.language,
            plan=plan.digest,
            budget=plan.budget,
            entry=name or plan.entry,
            stage=self.stage if name else "",
            input=graph.state_type.initial(self.state),
            joins=plan.joins,
            merge=dict(plan.merge),
            parts=dict(plan.parts),
        )


async def checkpoint_of(order: Order, run_id: RunId) -> Checkpoint | None:
    """Read the checkpoint of a run; None when there is none.

    Raises `CorruptCheckpoint` for one that cannot be read, `StoreError` when the store fails.
    """
    graph, store = order.graph, order.desk.store
    if store is None:
        return None
    try:
        value = await store.get(namespace(graph.name), run_id)
    except KeyError:
        return None
    except StoreError:
        raise
    except Exception as error:
        raise StoreError("the store does not answer: {reason}", reason=told(error)) from error
    try:
        return _read(value, run_id, graph)
    except (CorruptCheckpoint, DeltaError, ValueError, TypeError, KeyError) as error:
        raise CorruptCheckpoint(
            "the checkpoint of run {run_id} of graph {graph!r}, which has no journal, cannot be "
            "read: {reason}; restore it from a copy, or delete it",
            run_id=run_id,
            graph=graph.name,
            reason=told(error),
        ) from error


async def go_on_from(
    order: Order,
    checkpoint: Checkpoint,
    given: Mapping[str, Any] | None,
    manner: Manner,
    *,
    by: str,
) -> RunResult[Any]:
    """Begin a journal where a checkpoint stands, and drive the run.

    One that is over, or whose approval nobody gives, is only returned.
    """
    graph, instance, run_id = order.graph, order.instance, checkpoint.run_id
    over = checkpoint.stop in (StopReason.COMPLETED, StopReason.CANCELLED)
    if over or (checkpoint.waits and given is None):
        return checkpoint.result(graph)
    graph.require_valid()
    started = checkpoint.started(graph)
    changes = graph.state_type.merges.changes(started.input, given or {}, in_branch=False)
    around = Surroundings(graph, info_of(graph, run_id, given or {}, resumed=True))
    await around.begin()
    log = instance.log(run_id)
    pen = log.pen(run_id, instance.pilot.may_write)
    pen.begin(started, agent=graph.name, root_run_id=run_id)
    pen.stage(RunResumed(by=by, changes=changes), instance.pilot.claim(instance.clock.now()))
    program = order.program(pen.run, log.state)
    try:
        return await drive(order, pen, program, around, manner)
    except RunExists as error:
        raise RunLocked(
            "run {run_id} was taken up by somebody else in the meantime", run_id=run_id
        ) from error


def _read(value: bytes, run_id: RunId, graph: GraphDefinition[Any]) -> Checkpoint:
    codec = graph.state_type.codec
    stored = decode_object(value)
    last_step, state, named = stored.get("last_step"), stored.get("state"), stored.get("run_id")
    if not isinstance(state, dict) or not isinstance(last_step, str | None):
        raise ValueError("it has no state, or no last step")
    if named != run_id:
        raise ValueError(f"it is of run {named!r}")
    if "stop" not in stored:
        return _of_go(run_id, graph, last_step or "", state, stored.get("yield_phase"))
    stop = None if stored["stop"] is None else StopReason(cast("str", stored["stop"]))
    read = codec.from_json(state)
    if not isinstance(read, dict):
        raise TypeError("its state is no object")
    graph.state_type.initial(cast("dict[str, Any]", read))
    return Checkpoint(
        run_id,
        graph.name,
        last_step or "",
        cast("dict[str, Any]", read),
        "" if stop in _AGAIN else "done",
        stop,
    )


def _of_go(
    run_id: RunId, graph: GraphDefinition[Any], last_step: str, state: dict[str, Any], phase: object
) -> Checkpoint:
    """Read what the Go package wrote: plain JSON, its protocol keys within the state."""
    waits = state.get("__yield") is True
    failed = "__error" in state and state.get("__failed_step", last_step) == last_step
    after = waits and phase == "after_step"
    values = {key: value for key, value in state.items() if not key.startswith(_RESERVED)}
    graph.state_type.initial(values)
    stage: Stage = "" if failed or (waits and not after) else "done"
    return Checkpoint(run_id, graph.name, last_step, values, stage, None, after)
