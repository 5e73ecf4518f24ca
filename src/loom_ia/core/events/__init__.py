"""What can happen: one class per event, the envelope, the catalogue, the written forms."""

from loom_ia.core.events.approval import (
    ApprovalExpired,
    ApprovalGranted,
    ApprovalNotified,
    ApprovalRejected,
    ApprovalRequested,
)
from loom_ia.core.events.artifact import ArtifactStored
from loom_ia.core.events.budget import BudgetExceeded
from loom_ia.core.events.catalogue import CATALOGUE
from loom_ia.core.events.codec import from_full, from_line, to_line
from loom_ia.core.events.envelope import SCHEMA_VERSION, Draft, Event, Opaque, Payload
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
from loom_ia.core.events.query import EventQuery
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
from loom_ia.core.events.schema import event_schema
from loom_ia.core.events.store import StoreChange, StoreChanged
from loom_ia.core.events.tool import (
    EffectReconciled,
    SourceOpened,
    SourceUnavailable,
    ToolCalled,
    ToolCompleted,
    ToolWithheld,
)

__all__ = [
    "CATALOGUE",
    "SCHEMA_VERSION",
    "ApprovalExpired",
    "ApprovalGranted",
    "ApprovalNotified",
    "ApprovalRejected",
    "ApprovalRequested",
    "ArtifactStored",
    "BudgetExceeded",
    "CircuitOpened",
    "Draft",
    "EffectReconciled",
    "EffectRecorded",
    "Event",
    "EventQuery",
    "GraphRouted",
    "GuardChecked",
    "IdempotencyRecorded",
    "IdempotencyReused",
    "JudgeEvaluated",
    "ModelExchanged",
    "ModelFellBack",
    "ModelResponded",
    "ModelRetried",
    "Opaque",
    "Payload",
    "PolicyDecided",
    "PolicyReviewed",
    "RunCancelled",
    "RunClaimed",
    "RunCompleted",
    "RunFailed",
    "RunFinalizing",
    "RunResumed",
    "RunStarted",
    "SessionSnapshot",
    "SourceOpened",
    "SourceUnavailable",
    "StepCompleted",
    "StepStarted",
    "StoreChange",
    "StoreChanged",
    "ToolCalled",
    "ToolCompleted",
    "ToolWithheld",
    "UserMessage",
    "event_schema",
    "from_full",
    "from_line",
    "to_line",
]
