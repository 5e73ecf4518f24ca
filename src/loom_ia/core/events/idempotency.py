"""What was remembered of an effect, and what was given from memory."""

from typing import ClassVar

from loom_ia.core.events.envelope import Facet, Fact, Payload, SpanRule
from loom_ia.core.ids import CallId
from loom_ia.core.model.content import ToolOutput
from loom_ia.core.state import acting
from loom_ia.core.state.run import RunState


class IdempotencyRecorded(Payload):
    """The effect of a call happened, and this is its result, or a note when it is too large.

    Written as soon as the tool returned, before `tool.completed`, when keys are kept in the
    journal. It goes with its session.
    """

    TYPE = "idempotency.recorded"
    CATEGORY = "idempotency"
    CONTENT = ("result",)
    SPAN: ClassVar[SpanRule] = "call"

    key: str
    call_id: CallId
    tool_name: str
    result: ToolOutput

    def facets(self) -> dict[str, Facet]:
        return {"tool_name": self.tool_name, "key": self.key}

    def evolve(self, run: RunState, fact: Fact) -> RunState:
        run = acting.recorded(run, self.call_id, self.key, fact.ts, reused=False)
        return run.remembered(self.call_id, self.result)


class IdempotencyReused(Payload):
    """A call did not act: what it asks for was done before, and the result of then is given."""

    TYPE = "idempotency.reused"
    CATEGORY = "idempotency"
    SPAN: ClassVar[SpanRule] = "call"

    key: str
    call_id: CallId
    tool_name: str

    def facets(self) -> dict[str, Facet]:
        return {"tool_name": self.tool_name, "key": self.key}

    def evolve(self, run: RunState, fact: Fact) -> RunState:
        return acting.recorded(run, self.call_id, self.key, fact.ts, reused=True)
