"""What models answer, and what happened when they did not."""

from typing import ClassVar, Final, Literal, TypeAlias

from loom_ia.core.errors import ModelErrorKind
from loom_ia.core.events.envelope import EventStatus, Facet, Fact, Payload, SpanRule
from loom_ia.core.ids import CallId
from loom_ia.core.model.base import sparse
from loom_ia.core.model.chunks import StopReason
from loom_ia.core.model.exchange import HttpExchange
from loom_ia.core.model.messages import Message
from loom_ia.core.model.pricing import Prices
from loom_ia.core.model.tooling import Assessment
from loom_ia.core.model.usage import Usage
from loom_ia.core.state.run import RunState

FailureKind: TypeAlias = ModelErrorKind | Literal["interrupted"]
"""Why an attempt gave no answer; `interrupted` when the run was stopped meanwhile."""

FallbackReason: TypeAlias = ModelErrorKind | Literal["circuit_open"]


_FREE: Final = frozenset({"", "fake"})


def is_unpriced(provider: str, prices: Prices | None) -> bool:
    """Whether a call was made to somebody who asks for money, at a price that is not known."""
    return prices is None and provider not in _FREE


def judge_slot(judge: str) -> str:
    """Give the name under which the models of a judge answer."""
    return f"judge:{judge}"


class _OfModel(Payload):
    """What every fact about a call of a model says: whose call it was; `judge` for a judge's."""

    CATEGORY = "model"
    SPAN: ClassVar[SpanRule] = "step"
    ROLE: ClassVar[str | None] = "main"

    model: str
    model_id: str
    provider: str = sparse("")
    judge: str = sparse("")

    def facets(self) -> dict[str, Facet]:
        facets: dict[str, Facet] = {
            "model": self.model,
            "model_id": self.model_id,
            "provider": self.provider,
        }
        return {**facets, "judge": self.judge} if self.judge else facets

    def speaker(self, run: RunState) -> str | None:
        return judge_slot(self.judge) if self.judge else super().speaker(run)


class ModelResponded(_OfModel):
    """A model answered.

    `model` is the name in the configuration, `model_id` the provider's, `provider` who speaks to
    it. `attempts` counts the calls that it took. `prices` are those that `cost_usd` was computed
    with, absent when none is known. `request_hash` identifies the request, `request_parts` each
    part of it, so that a replay can say which one moved. `problems` tells, by call id, why the
    arguments of a call cannot run: they were checked when they arrived. `assessments` are what
    tools said then of calls, from their arguments. `mended` lists the paths whose text the journal
    could not hold as it was.
    """

    TYPE = "model.responded"
    CONTENT = ("message", "problems", "assessments")

    message: Message
    usage: Usage
    cost_usd: float = sparse(0.0)
    prices: Prices | None = sparse(None)
    stop_reason: StopReason
    latency_ms: int = sparse(0)
    attempts: int = sparse(0)
    request_hash: str
    request_parts: dict[str, str]
    problems: dict[CallId, str] = sparse({})
    assessments: dict[CallId, Assessment] = sparse({})
    mended: tuple[str, ...] = sparse(())

    def facets(self) -> dict[str, Facet]:
        return {
            **super().facets(),
            "stop_reason": self.stop_reason,
            "cost_usd": self.cost_usd,
            "latency_ms": self.latency_ms,
            "tokens": self.usage.total_tokens,
        }

    def evolve(self, run: RunState, fact: Fact) -> RunState:
        del fact
        if self.judge:
            unpriced = is_unpriced(self.provider, self.prices)
            return run.paid(self.usage, self.cost_usd, unpriced=unpriced, calls=1)
        return run.responded(
            self.message,
            self.problems,
            self.usage,
            self.cost_usd,
            unpriced=is_unpriced(self.provider, self.prices),
            assessments=self.assessments,
        )


class ModelRetried(_OfModel):
    """An attempt to call a model gave no answer.

    `attempt` counts from 1. After `delay_s` seconds another one is made, unless this was the
    `final` one, which is only written when it consumed something: `usage` and `cost_usd` are what
    it is billed for, in all likelihood. `http_status` is what the provider answered, if it did.
    """

    TYPE = "model.retried"
    CONTENT = ("error",)

    attempt: int
    error_kind: FailureKind
    error: str
    http_status: int | None = sparse(None)
    delay_s: float = sparse(0.0)
    usage: Usage | None = sparse(None)
    cost_usd: float = sparse(0.0)
    prices: Prices | None = sparse(None)
    final: bool = sparse(False)

    @property
    def status(self) -> EventStatus:
        return "warning"

    def facets(self) -> dict[str, Facet]:
        return {
            **super().facets(),
            "error_kind": self.error_kind,
            "attempt": self.attempt,
        }

    def evolve(self, run: RunState, fact: Fact) -> RunState:
        del fact
        if self.usage is None:
            return run
        unpriced = is_unpriced(self.provider, self.prices)
        return run.paid(self.usage, self.cost_usd, unpriced=unpriced)


class ModelFellBack(Payload):
    """Another model of the chain answers from now on, until the run is over.

    `slot` is whose model it is: `main` for the orchestrator. `reason` is the kind of the error, or
    `circuit_open` when no call was made.
    """

    TYPE = "model.fell_back"
    CATEGORY = "model"
    CONTENT = ("error",)
    SPAN: ClassVar[SpanRule] = "step"
    ROLE: ClassVar[str | None] = "main"

    slot: str = "main"
    from_model: str
    to_model: str
    reason: FallbackReason
    error: str

    def speaker(self, run: RunState) -> str | None:
        return super().speaker(run) if self.slot == "main" else self.slot

    @property
    def status(self) -> EventStatus:
        return "warning"

    def facets(self) -> dict[str, Facet]:
        return {
            "slot": self.slot,
            "from_model": self.from_model,
            "to_model": self.to_model,
            "reason": self.reason,
        }

    def evolve(self, run: RunState, fact: Fact) -> RunState:
        del fact
        return run.fell_back(self.slot, self.to_model)


class ModelExchanged(HttpExchange, _OfModel):
    """One HTTP exchange with a provider, written when `telemetry.capture.raw_exchanges` is on.

    Secrets are replaced, and the bytes of files too; a body longer than `raw_max_bytes` is cut.
    Bodies are text: `*_bytes` are their whole sizes, and `request_sha256` is the digest of what was
    really sent. `status_code` is absent when no answer came; `error` is the type of what ended the
    exchange before its end.
    """

    TYPE = "model.exchanged"
    CONTENT = ("url", "request_headers", "request_body", "response_headers", "response_body")

    attempt: int

    @property
    def status(self) -> EventStatus:
        code = self.status_code
        return "warning" if self.error or code is None or code >= 400 else "ok"

    def facets(self) -> dict[str, Facet]:
        return {
            **super().facets(),
            "attempt": self.attempt,
            "status_code": self.status_code,
            "duration_ms": self.duration_ms,
            "request_bytes": self.request_bytes,
            "response_bytes": self.response_bytes,
        }

    def evolve(self, run: RunState, fact: Fact) -> RunState:
        del fact
        return run


class CircuitOpened(Payload):
    """A target failed so often in a row that it is left alone for `cooldown_s` seconds.

    This holds for every run of the instance; then one call is tried.
    """

    TYPE = "circuit.opened"
    CATEGORY = "circuit"
    CONTENT = ("error",)
    SPAN: ClassVar[SpanRule] = "step"

    target_kind: Literal["model", "mcp"] = "model"
    target: str
    failures: int
    cooldown_s: float
    error: str

    @property
    def status(self) -> EventStatus:
        return "warning"

    def facets(self) -> dict[str, Facet]:
        return {
            "target_kind": self.target_kind,
            "target": self.target,
            "failures": self.failures,
        }

    def evolve(self, run: RunState, fact: Fact) -> RunState:
        del fact
        return run
