"""What tools are asked and what they give back."""

from typing import ClassVar, Literal

from loom_ia.core.events.envelope import EventStatus, Facet, Fact, Payload, SpanRule
from loom_ia.core.ids import CallId
from loom_ia.core.json import JsonObject
from loom_ia.core.model.base import sparse
from loom_ia.core.model.content import ToolOutput
from loom_ia.core.model.tooling import ToolKind
from loom_ia.core.state.run import RunState


class ToolCalled(Payload):
    """A call is launched with these arguments; `resumed` when it was launched before.

    Written before the tool starts, so that a crash never hides a call.
    """

    TYPE = "tool.called"
    CATEGORY = "tool"
    CONTENT = ("arguments",)
    SPAN: ClassVar[SpanRule] = "own"

    call_id: CallId
    tool_name: str
    tool_kind: ToolKind = "python"
    arguments: JsonObject
    resumed: bool = sparse(False)

    def facets(self) -> dict[str, Facet]:
        return {"tool_name": self.tool_name, "tool_kind": self.tool_kind}

    def evolve(self, run: RunState, fact: Fact) -> RunState:
        return run.launched(self.call_id, fact.span_id, fact.ts)


class ToolCompleted(Payload):
    """A call has its result, which may be an error for the model to read.

    `outcome` is `unknown` when nobody saw whether the effect happened. A call that was refused
    before it was launched has a result and no `tool.called`.
    """

    TYPE = "tool.completed"
    CATEGORY = "tool"
    CONTENT = ("output",)
    SPAN: ClassVar[SpanRule] = "call"

    call_id: CallId
    tool_name: str
    output: ToolOutput
    outcome: Literal["unknown"] | None = sparse(None)
    latency_ms: int = sparse(0)

    @property
    def status(self) -> EventStatus:
        return "error" if self.output.is_error else "ok"

    def facets(self) -> dict[str, Facet]:
        facets: dict[str, Facet] = {"tool_name": self.tool_name, "latency_ms": self.latency_ms}
        if self.output.is_error:
            facets["is_error"] = True
        if self.outcome:
            facets["outcome"] = self.outcome
        if self.output.offloaded:
            facets["offloaded"] = True
        return facets

    def evolve(self, run: RunState, fact: Fact) -> RunState:
        del fact
        return run.completed(self.call_id, self.output, unknown=self.outcome == "unknown")
