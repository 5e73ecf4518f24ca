"""What models answer."""

from typing import ClassVar

from loom_ia.core.events.envelope import Facet, Fact, Payload, SpanRule
from loom_ia.core.ids import CallId
from loom_ia.core.model.base import sparse
from loom_ia.core.model.chunks import StopReason
from loom_ia.core.model.messages import Message
from loom_ia.core.model.usage import Usage
from loom_ia.core.state.run import RunState


class ModelResponded(Payload):
    """A model answered.

    `model` is the name in the configuration, `model_id` the provider's. `request_hash` identifies
    the request, `request_parts` each part of it, so that a replay can say which one moved.
    `problems` tells, by call id, why the arguments of a call cannot run: they were checked when
    they arrived. `mended` lists the paths whose text the journal could not hold as it was.
    """

    TYPE = "model.responded"
    CATEGORY = "model"
    CONTENT = ("message", "problems")
    SPAN: ClassVar[SpanRule] = "step"
    ROLE: ClassVar[str | None] = "main"

    model: str
    model_id: str
    message: Message
    usage: Usage
    cost_usd: float = sparse(0.0)
    stop_reason: StopReason
    latency_ms: int = sparse(0)
    request_hash: str
    request_parts: dict[str, str]
    problems: dict[CallId, str] = sparse({})
    mended: tuple[str, ...] = sparse(())

    def facets(self) -> dict[str, Facet]:
        return {
            "model": self.model,
            "model_id": self.model_id,
            "stop_reason": self.stop_reason,
            "cost_usd": self.cost_usd,
            "latency_ms": self.latency_ms,
            "tokens": self.usage.total_tokens,
        }

    def evolve(self, run: RunState, fact: Fact) -> RunState:
        del fact
        return run.responded(self.message, self.problems, self.usage, self.cost_usd)
