"""A plan with its bindings: everything that driving a run needs and a decision must not see."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from loom_ia.core.json import JsonObject
from loom_ia.core.plan import AgentPlan
from loom_ia.core.ports.artifacts import ArtifactStore
from loom_ia.core.ports.idempotency import IdempotencyStore
from loom_ia.core.ports.models import ModelClient
from loom_ia.core.ports.tools import Tool
from loom_ia.core.views.result import PendingApproval
from loom_ia.engine.breaker import Circuits


@dataclass(frozen=True, slots=True)
class Approved:
    """Yes; `arguments` replaces those that were shown."""

    by: str = ""
    reason: str = ""
    arguments: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class Rejected:
    """No, for this reason, which the model reads."""

    reason: str = ""
    by: str = ""


ApprovalDecision: TypeAlias = Approved | Rejected
Approver: TypeAlias = Callable[[PendingApproval], ApprovalDecision | Awaitable[ApprovalDecision]]


@dataclass(frozen=True, slots=True)
class Program:
    """An agent ready to be driven.

    `models` has the clients of the plan's chain, by their id. Without `artifacts` nothing can be
    put away; without `idempotency` keys are kept in the journal. `circuits` are those of the whole
    instance. With `captures_exchanges`, what goes over the wire to a provider is a fact.
    """

    plan: AgentPlan
    models: Mapping[str, ModelClient]
    tools: Mapping[str, Tool]
    approver: Approver | None = None
    artifacts: ArtifactStore | None = None
    idempotency: IdempotencyStore | None = None
    circuits: Circuits = field(default_factory=Circuits)
    captures_exchanges: bool = False
