"""Every event type there is, and the published schema of an event.

To add one: write its class beside its family, and add it here.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from loom_ia.core.events.approval import (
    ApprovalExpired,
    ApprovalGranted,
    ApprovalNotified,
    ApprovalRejected,
    ApprovalRequested,
)
from loom_ia.core.events.artifact import ArtifactStored
from loom_ia.core.events.budget import BudgetExceeded
from loom_ia.core.events.envelope import Payload
from loom_ia.core.events.graph import EffectRecorded, GraphRouted
from loom_ia.core.events.idempotency import IdempotencyRecorded, IdempotencyReused
from loom_ia.core.events.message import UserMessage
from loom_ia.core.events.model import (
    CircuitOpened,
    ModelExchanged,
    ModelFellBack,
    ModelResponded,
    ModelRetried,
)
from loom_ia.core.events.policy import (
    GuardChecked,
    JudgeEvaluated,
    PolicyDecided,
    PolicyReviewed,
)
from loom_ia.core.events.run import (
    RunCancelled,
    RunClaimed,
    RunCompleted,
    RunFailed,
    RunFinalizing,
    RunResumed,
    RunStarted,
    SessionSnapshot,
    StepCompleted,
    StepStarted,
)
from loom_ia.core.events.store import StoreChanged
from loom_ia.core.events.tool import (
    EffectReconciled,
    SourceOpened,
    SourceUnavailable,
    ToolCalled,
    ToolCompleted,
    ToolWithheld,
)

_ALL: Final[tuple[type[Payload], ...]] = (
    RunStarted,
    RunClaimed,
    StepStarted,
    StepCompleted,
    RunFinalizing,
    RunCompleted,
    RunFailed,
    RunCancelled,
    RunResumed,
    UserMessage,
    ModelResponded,
    ModelRetried,
    ModelFellBack,
    ModelExchanged,
    CircuitOpened,
    ToolCalled,
    ToolCompleted,
    EffectReconciled,
    SourceOpened,
    SourceUnavailable,
    ToolWithheld,
    ApprovalRequested,
    ApprovalGranted,
    ApprovalRejected,
    ApprovalExpired,
    ApprovalNotified,
    IdempotencyRecorded,
    IdempotencyReused,
    ArtifactStored,
    BudgetExceeded,
    GraphRouted,
    EffectRecorded,
    PolicyDecided,
    PolicyReviewed,
    GuardChecked,
    JudgeEvaluated,
    SessionSnapshot,
    StoreChanged,
)

CATALOGUE: Final[Mapping[str, type[Payload]]] = MappingProxyType({p.TYPE: p for p in _ALL})
"""Payload classes by event type."""
