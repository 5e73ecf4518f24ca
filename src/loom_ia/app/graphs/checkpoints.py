"""The state of a run where any reader of its store finds it: a cache of the journal, never ahead.

It is written at pauses, at the end, and as the run goes on, between two things that its driver
does. What cannot be written is only told in the log: the journal is the truth.
"""

import logging
from dataclasses import dataclass

from loom_ia.app.graphs.keeping import Keeping
from loom_ia.app.graphs.order import Order
from loom_ia.core.decide.effects import Effect
from loom_ia.core.ids import RunId
from loom_ia.core.json import JsonObject, canonical
from loom_ia.core.state.flow import Flow
from loom_ia.core.state.run import RunState
from loom_ia.engine.log import SessionLog
from loom_ia.engine.perform import LIVE, EffectContext, Performers
from loom_ia.graph.codec import as_object, decode_object
from loom_ia.graph.errors import CorruptCheckpoint
from loom_ia.graph.results import stop_of

_log = logging.getLogger("loom_ia.graph")


def namespace(graph: str) -> str:
    """Give the namespace of the checkpoints of a graph; the key is the id of the run."""
    return f"checkpoint:{graph}"


@dataclass(slots=True)
class Checkpoints:
    """Keeps the checkpoint of one run while it is driven."""

    order: Order
    run_id: RunId
    log: SessionLog
    last_seq: int
    done: str | None = None
    """The step of the main line that ended last, as far as this drive knows."""

    @classmethod
    def of(cls, order: Order, run_id: RunId, log: SessionLog) -> "Checkpoints":
        """Begin with a run as it is written."""
        return cls(order, run_id, log, log.state.last_seq)

    @property
    def performers(self) -> Performers:
        """What drives the run, and looks at each turn whether a checkpoint is due."""
        return LIVE if self.order.desk.store is None else _Watched(checkpoints=self)

    async def look(self) -> None:
        """Keep a checkpoint if enough was written since the last one."""
        run = self.log.run(self.run_id)
        if run is None or run.flow is None:
            return
        if run.flow.main.stage in ("done", "split"):
            self.done = run.flow.main.step
        if self.log.state.last_seq - self.last_seq >= self.order.graph.snapshot_every:
            await self._keep(run, run.flow, self.done)

    async def close(self, run: RunState) -> None:
        """Keep a run that is over or waits, with its last step."""
        if run.flow is not None and run.header.parent_run_id is None:
            await self._keep(run, run.flow, run.flow.last_step or None)

    async def _keep(self, run: RunState, flow: Flow, last_step: str | None) -> None:
        store, graph, journal = self.order.desk.store, self.order.graph, self.log.journal
        if store is None or (isinstance(journal, Keeping) and journal.is_behind):
            return
        seq = self.log.state.last_seq
        stop = stop_of(run, self.log.state.runs)
        now = self.order.instance.clock.now()
        value: JsonObject = {
            "run_id": run.run_id,
            "graph": graph.name,
            "last_step": last_step,
            "state": as_object(flow.main.values),
            "seq": seq,
            "stop": None if stop is None else stop.value,
            "saved_at": graph.state_type.codec.to_json(now),
        }
        try:
            await store.put(namespace(graph.name), run.run_id, canonical(value).encode())
            self.last_seq = seq
        except Exception as error:  # noqa: BLE001 -- whatever the store raises, it is only a cache
            _log.warning(
                "the checkpoint of run %s is not kept: %s", run.run_id, type(error).__name__
            )


@dataclass(frozen=True, slots=True)
class _Watched(Performers):
    """What performs effects, and looks at the checkpoints before each."""

    checkpoints: Checkpoints | None = None

    async def perform(self, effect: Effect, context: EffectContext) -> None:
        """Perform `effect`."""
        if self.checkpoints is not None:
            await self.checkpoints.look()
        await LIVE.perform(effect, context)


async def mend(order: Order, log: SessionLog, run: RunState) -> None:
    """Write the checkpoint of a run anew if it cannot be read: its journal can."""
    store, graph = order.desk.store, order.graph
    if store is None:
        return
    try:
        value = await store.get(namespace(graph.name), run.run_id)
        graph.state_type.codec.from_json(decode_object(value))
    except CorruptCheckpoint:
        await Checkpoints.of(order, run.run_id, log).close(run)
    except Exception:  # noqa: BLE001 -- none is kept, or the store is out of reach: leave it
        return
