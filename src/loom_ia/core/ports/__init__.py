"""What the outside world must honour: signatures only. Nothing else in the core sees them."""

from loom_ia.core.ports.artifacts import ArtifactStore
from loom_ia.core.ports.clock import Clock
from loom_ia.core.ports.idempotency import CallMemory, IdempotencyStore, Record
from loom_ia.core.ports.journal import (
    Damage,
    DriverLocks,
    HeldLock,
    Journal,
    SequenceConflict,
    SessionEntry,
    SessionPage,
)
from loom_ia.core.ports.models import ModelAccess, ModelClient, OnExchange, WireModelClient
from loom_ia.core.ports.notices import Addressee, NoticeSender
from loom_ia.core.ports.sources import (
    McpAccess,
    NamedTools,
    OfferedTool,
    OpenTools,
    ReviewedSource,
    SourceContext,
    ToolSource,
)
from loom_ia.core.ports.tools import Assessing, Reconciling, Tool, ToolContext

__all__ = [
    "Addressee",
    "ArtifactStore",
    "Assessing",
    "CallMemory",
    "Clock",
    "Damage",
    "DriverLocks",
    "HeldLock",
    "IdempotencyStore",
    "Journal",
    "McpAccess",
    "ModelAccess",
    "ModelClient",
    "NamedTools",
    "NoticeSender",
    "OfferedTool",
    "OnExchange",
    "OpenTools",
    "Reconciling",
    "Record",
    "ReviewedSource",
    "SequenceConflict",
    "SessionEntry",
    "SessionPage",
    "SourceContext",
    "Tool",
    "ToolContext",
    "ToolSource",
    "WireModelClient",
]
