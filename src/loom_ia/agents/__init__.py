"""What an agent is, as its file or its author in Python describes it."""

from loom_ia.agents.checks import (
    Contract,
    Criterion,
    Grounded,
    JudgeSpec,
    PolicyReference,
    Repair,
    When,
)
from loom_ia.agents.overrides import ToolOverrides
from loom_ia.agents.session_state import StateKeySpec, StateSourceSpec
from loom_ia.agents.spec import (
    DEFAULT_MAX_ITERATIONS,
    AgentSpec,
    ApprovalSpec,
    Budgets,
    Expose,
    LlmSettings,
    MainRole,
    RoleSpec,
    Speaker,
    SubagentRef,
)
from loom_ia.agents.tools import (
    AnyTool,
    GraphTool,
    McpTool,
    PythonTool,
    SourcedTools,
    SourceTool,
    ToolReference,
)
from loom_ia.core.model.context import LastTurns, ToolResults

__all__ = [
    "DEFAULT_MAX_ITERATIONS",
    "AgentSpec",
    "AnyTool",
    "ApprovalSpec",
    "Budgets",
    "Contract",
    "Criterion",
    "Expose",
    "GraphTool",
    "Grounded",
    "JudgeSpec",
    "LastTurns",
    "LlmSettings",
    "MainRole",
    "McpTool",
    "PolicyReference",
    "PythonTool",
    "Repair",
    "RoleSpec",
    "SourceTool",
    "SourcedTools",
    "Speaker",
    "StateKeySpec",
    "StateSourceSpec",
    "SubagentRef",
    "ToolOverrides",
    "ToolReference",
    "ToolResults",
    "When",
]
