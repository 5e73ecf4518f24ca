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
from loom_ia.agents.session_state import StateKeySpec, StateSourceSpec
from loom_ia.agents.spec import (
    DEFAULT_MAX_ITERATIONS,
    AgentSpec,
    ApprovalSpec,
    Budgets,
    Expose,
    GraphTool,
    LlmSettings,
    MainRole,
    PythonTool,
    RoleSpec,
    Speaker,
    SubagentRef,
    ToolReference,
)
from loom_ia.core.model.context import LastTurns, ToolResults

__all__ = [
    "DEFAULT_MAX_ITERATIONS",
    "AgentSpec",
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
    "PolicyReference",
    "PythonTool",
    "Repair",
    "RoleSpec",
    "Speaker",
    "StateKeySpec",
    "StateSourceSpec",
    "SubagentRef",
    "ToolReference",
    "ToolResults",
    "When",
]
