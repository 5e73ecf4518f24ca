"""What tools are asked and what they give back."""

from datetime import datetime
from typing import ClassVar, Literal

from pydantic import Field

from loom_ia.core.events.envelope import EventStatus, Facet, Fact, Payload, SpanRule
from loom_ia.core.ids import CallId, RunId
from loom_ia.core.json import JsonObject, JsonValue
from loom_ia.core.model.base import nullable, sparse
from loom_ia.core.model.changes import Change
from loom_ia.core.model.content import ToolOutput
from loom_ia.core.model.tooling import Reconciled, SideEffects, ToolKind
from loom_ia.core.model.usage import Usage
from loom_ia.core.state import acting, steps
from loom_ia.core.state.calls import Failure
from loom_ia.core.state.run import RunState


def _is_empty(output: ToolOutput) -> bool:
    return not output.model_fields_set and not output.is_error and not output.blocks


class ToolCalled(Payload):
    """A call is launched with these arguments; `resumed` when it was launched before.

    Written before the tool starts, so that a crash never hides a call. `side_effects` says what it
    may do to the outside world, if anything. A call that is delegated names the run that it opens,
    and lists in `refs` the results that its arguments stand for. Of a step of a graph, `tool_name`
    is the step, the id ends in its
    occurrence, and `attempt` counts what is tried again.
    """

    TYPE = "tool.called"
    CATEGORY = "tool"
    CONTENT = ("arguments",)
    SPAN: ClassVar[SpanRule] = "own"

    call_id: CallId
    tool_name: str
    tool_kind: ToolKind = "python"
    arguments: JsonObject = sparse({})
    resumed: bool = sparse(False)
    attempt: int = sparse(0)
    child_run_id: RunId = sparse("")
    refs: tuple[str, ...] = sparse(())
    side_effects: SideEffects | None = sparse(None)

    def facets(self) -> dict[str, Facet]:
        return {"tool_name": self.tool_name, "tool_kind": self.tool_kind}

    def evolve(self, run: RunState, fact: Fact) -> RunState:
        span, at, child = fact.span_id, fact.ts, self.child_run_id
        if run.flow is None:
            after = run.launched(self.call_id, span, at, child=child)
        else:
            after = steps.launched(run, self.call_id, self.tool_name, span, at, child=child)
        effects = self.side_effects
        return acting.launched(after, self.call_id, self.tool_name, self.arguments, effects, at)


class ToolCompleted(Payload):
    """A call has its result, which may be an error for the model to read.

    `outcome` is `unknown` when nobody saw whether the effect happened. Of an error, `effect` says
    whether it happened all the same; where it is missing, nobody knows. A call that was refused
    before it was launched has a result and no `tool.called`.

    Of a step of a graph, `changes` are what it does to the state and `goto` the route that it
    chose. One that failed has an `error_type` and maybe the `key` that it is about, and is tried
    again at `retry_at`, if there is one; `outcome` is `stopped` when it was cut before its end.
    `usage` is what it says that it consumed, in tokens and dollars.
    """

    TYPE = "tool.completed"
    CATEGORY = "tool"
    CONTENT = ("output", "changes", "goto")
    SPAN: ClassVar[SpanRule] = "call"

    call_id: CallId
    tool_name: str
    output: ToolOutput = Field(default_factory=ToolOutput, exclude_if=_is_empty)
    outcome: Literal["unknown", "stopped"] | None = sparse(None)
    effect: Literal["done", "not_done"] | None = sparse(None)
    latency_ms: int = sparse(0)
    changes: tuple[Change, ...] = sparse(())
    goto: JsonValue = nullable()
    error_type: str = sparse("")
    key: str = sparse("")
    retry_at: datetime | None = sparse(None)
    usage: Usage | None = sparse(None)

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
        run = acting.ended(
            run,
            self.call_id,
            fact.ts,
            is_error=self.output.is_error,
            is_unknown=self.outcome is not None,
            known=self.effect,
        )
        if run.flow is None:
            return run.completed(self.call_id, self.output, unknown=self.outcome == "unknown")
        if self.latency_ms:
            run = run.but(flow=run.flow.ran(self.tool_name, self.latency_ms))
        if self.usage is not None:
            run = run.paid(self.usage, self.usage.cost_usd or 0.0)
        if self.outcome == "stopped":
            return steps.stopped(run, self.call_id)
        if self.retry_at is not None:
            return steps.retried(run, self.call_id, self.retry_at)
        if self.output.is_error:
            default = "UnknownEffect" if self.outcome == "unknown" else "StepFailed"
            failure = Failure(self.error_type or default, self.output.text, self.key)
            unknown = self.outcome == "unknown"
            return steps.failed(
                run, self.call_id, self.output, failure, self.changes, unknown=unknown
            )
        return steps.ended(run, self.call_id, self.changes, self.goto)


class SourceOpened(Payload):
    """A source of tools gave others than it did before in this run.

    `tools` are the names under which a model sees them; `digest` identifies what it is shown.
    """

    TYPE = "tool.source_opened"
    CATEGORY = "tool"

    source: str
    digest: str
    tools: tuple[str, ...] = sparse(())

    def facets(self) -> dict[str, Facet]:
        return {"source": self.source}

    def evolve(self, run: RunState, fact: Fact) -> RunState:
        del fact
        return run.but(sources=run.sources.opened(self.source, self.digest))


class SourceUnavailable(Payload):
    """A source of tools cannot be reached: the run goes on without them, or fails if `required`."""

    TYPE = "tool.source_unavailable"
    CATEGORY = "tool"
    CONTENT = ("error",)

    source: str
    error: str
    required: bool = False

    @property
    def status(self) -> EventStatus:
        return "error" if self.required else "warning"

    def facets(self) -> dict[str, Facet]:
        return {"source": self.source, "required": self.required}

    def evolve(self, run: RunState, fact: Fact) -> RunState:
        del fact
        return run.but(sources=run.sources.lost(self.source))


class ToolWithheld(Payload):
    """A tool of a source is not offered, for `reason`; the others are. `tool` is its own name."""

    TYPE = "tool.withheld"
    CATEGORY = "tool"
    CONTENT = ("reason",)

    source: str
    tool: str
    reason: str

    @property
    def status(self) -> EventStatus:
        return "warning"

    def facets(self) -> dict[str, Facet]:
        return {"source": self.source, "tool": self.tool}

    def evolve(self, run: RunState, fact: Fact) -> RunState:
        del fact
        return run.but(sources=run.sources.kept_back(self.source, self.tool, self.reason))


class EffectReconciled(Payload):
    """The outside world was asked whether a call took effect, its end having been seen by nobody.

    With `done` the call is completed by what it told. With `not_done` nothing happened, and the
    call may be launched again under the approval that it had. With `unknown` it could not tell, for
    `reason`, and `on_unknown` decides.
    """

    TYPE = "effect.reconciled"
    CATEGORY = "tool"
    CONTENT = ("reason",)
    SPAN: ClassVar[SpanRule] = "call"

    call_id: CallId
    tool_name: str
    verdict: Reconciled
    reason: str = sparse("")

    @property
    def status(self) -> EventStatus:
        return "warning" if self.verdict == "unknown" else "ok"

    def facets(self) -> dict[str, Facet]:
        return {"tool_name": self.tool_name, "verdict": self.verdict}

    def evolve(self, run: RunState, fact: Fact) -> RunState:
        run = acting.reconciled(run, self.call_id, self.verdict, fact.ts)
        return run.undone(self.call_id) if self.verdict == "not_done" else run
