"""What only graphs do: choose a route, record what a step did inside itself."""

from typing import ClassVar

from loom_ia.core.events.envelope import Facet, Fact, Payload, SpanRule
from loom_ia.core.ids import CallId
from loom_ia.core.json import JsonObject, JsonValue
from loom_ia.core.model.base import Value, nullable, sparse
from loom_ia.core.model.changes import Change
from loom_ia.core.model.tooling import SideEffects
from loom_ia.core.state import acting
from loom_ia.core.state.calls import Effect, EffectPhase
from loom_ia.core.state.flow import Mapped
from loom_ia.core.state.run import RunState
from loom_ia.core.state.steps import acted, flowed


class MapOver(Value):
    """A split over a list: what `step` gives goes to `collect`, or only its key `take`."""

    step: str
    collect: str
    limit: int
    take: str = sparse("")
    collects_errors: bool = sparse(False)


class GraphRouted(Payload):
    """A line of the graph goes on: the `n`-th decision of the run.

    `line` is its path, empty for the main one. `source` is where it comes from, several steps when
    branches meet; `to` where it goes, nothing for the end, several steps for branches, one for each
    item with `over`. `inputs` are what each branch sees besides. `changes` are what the branches
    did, merged. `gathered` is the step whose items ended: its router is asked next. `error` tells
    that an item failed, which the list then says.
    """

    TYPE = "graph.routed"
    CATEGORY = "graph"
    CONTENT = ("inputs", "changes", "error")

    n: int
    line: str = sparse("")
    source: tuple[str, ...] = sparse(())
    to: tuple[str, ...] = sparse(())
    label: str = sparse("")
    inputs: tuple[JsonObject, ...] = sparse(())
    over: MapOver | None = sparse(None)
    gathered: str = sparse("")
    ended: bool = sparse(False)
    error: str = sparse("")
    changes: tuple[Change, ...] = sparse(())

    def facets(self) -> dict[str, Facet]:
        return {"from": ",".join(self.source[:8]), "to": ",".join(self.to[:8]), "n": self.n}

    def evolve(self, run: RunState, fact: Fact) -> RunState:
        del fact
        flow, path = run.flow, self.line
        if flow is None:
            return run
        if self.ended:
            return flowed(run, flow.item_ended(path, self.error))
        if self.gathered:
            return flowed(run, flow.gathered(path, self.gathered, self.changes))
        if self.over is not None:
            over = self.over
            mapped = Mapped(over.step, over.collect, over.limit, over.take, over.collects_errors)
            return flowed(run, flow.split(path, self.source, self.to, self.inputs, mapped))
        if len(self.to) > 1 or self.inputs:
            return flowed(run, flow.split(path, self.source, self.to, self.inputs, None))
        return flowed(run, flow.routed(path, self.source, self.to, self.changes))


class EffectRecorded(Payload):
    """An effect inside a step: begun (`started`), over with its result, or over for it raised.

    `position` is its place among what this execution of the step asked for. Only an effect that
    must not be repeated says that it is begun. `side_effects` says what it does to the outside
    world, if anything.
    """

    TYPE = "effect.recorded"
    CATEGORY = "graph"
    CONTENT = ("result",)
    SPAN: ClassVar[SpanRule] = "call"

    call_id: CallId
    tool_name: str
    key: str
    phase: EffectPhase
    position: int
    result: JsonValue = nullable()
    side_effects: SideEffects | None = sparse(None)

    def facets(self) -> dict[str, Facet]:
        return {"tool_name": self.tool_name, "phase": self.phase}

    def evolve(self, run: RunState, fact: Fact) -> RunState:
        name, effects = self.tool_name, self.side_effects
        run = acting.acted(run, self.call_id, name, self.key, self.phase, effects, fact.ts)
        call = run.call(self.call_id)
        known = call.effect(self.key) if call else None
        starts = known.starts if known else 0
        if self.phase == "started":
            effect = Effect(self.key, self.position, starts + 1)
        elif self.phase == "failed":
            effect = Effect(self.key, self.position)
        else:
            effect = Effect(self.key, self.position, starts, done=True, result=self.result)
        return acted(run, self.call_id, effect)
