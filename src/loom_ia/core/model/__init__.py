"""The vocabulary: messages, chunks, usage, specifications of models and tools, policy points."""

from loom_ia.core.model.artifacts import NewFile, StoredArtifact
from loom_ia.core.model.caller import CallerContext
from loom_ia.core.model.chunks import (
    INVALID_ARGUMENTS,
    Answer,
    Assembler,
    ModelChunk,
    ReasoningDelta,
    Reset,
    Stopped,
    StopReason,
    TextDelta,
    ToolArgsDelta,
    ToolCallEnded,
    ToolCallStarted,
    UsageReported,
)
from loom_ia.core.model.content import (
    AnyBlock,
    ArtifactBlock,
    JsonBlock,
    OutputBlock,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolOutput,
    ToolResultBlock,
)
from loom_ia.core.model.exchange import HttpExchange
from loom_ia.core.model.messages import Message, MessageRole
from loom_ia.core.model.models import (
    Capabilities,
    CircuitBreaker,
    ModelSpec,
    PromptCache,
    Retry,
    Timeouts,
)
from loom_ia.core.model.policy import ALLOWED, DecisionKind, PolicyPoint, is_allowed
from loom_ia.core.model.pricing import Prices, PriceTier, Pricing
from loom_ia.core.model.request import ModelRequest, ToolChoice
from loom_ia.core.model.tooling import (
    ApprovalMode,
    OnUnknown,
    SideEffects,
    ToolKind,
    ToolSpec,
    arguments_digest,
)
from loom_ia.core.model.usage import Usage

__all__ = [
    "ALLOWED",
    "INVALID_ARGUMENTS",
    "Answer",
    "AnyBlock",
    "ApprovalMode",
    "ArtifactBlock",
    "Assembler",
    "CallerContext",
    "Capabilities",
    "CircuitBreaker",
    "DecisionKind",
    "HttpExchange",
    "JsonBlock",
    "Message",
    "MessageRole",
    "ModelChunk",
    "ModelRequest",
    "ModelSpec",
    "NewFile",
    "OnUnknown",
    "OutputBlock",
    "PolicyPoint",
    "PriceTier",
    "Prices",
    "Pricing",
    "PromptCache",
    "ReasoningBlock",
    "ReasoningDelta",
    "Reset",
    "Retry",
    "SideEffects",
    "StopReason",
    "Stopped",
    "StoredArtifact",
    "TextBlock",
    "TextDelta",
    "Timeouts",
    "ToolArgsDelta",
    "ToolCallBlock",
    "ToolCallEnded",
    "ToolCallStarted",
    "ToolChoice",
    "ToolKind",
    "ToolOutput",
    "ToolResultBlock",
    "ToolSpec",
    "Usage",
    "UsageReported",
    "arguments_digest",
    "is_allowed",
]
