"""What an agent is, as its file or its author in Python describes it."""

from loom_ia.agents.session_state import StateKeySpec, StateSourceSpec
from loom_ia.agents.spec import (
    DEFAULT_MAX_ITERATIONS,
    AgentSpec,
    AnswerSpec,
    ApprovalSpec,
    Budgets,
    GraphTool,
    LlmSettings,
    MainRole,
    PythonTool,
    RoleSpec,
    Speaker,
    SubagentRef,
    ToolReference,
)

__all__ = [
    "DEFAULT_MAX_ITERATIONS",
    "AgentSpec",
    "AnswerSpec",
    "ApprovalSpec",
    "Budgets",
    "GraphTool",
    "LlmSettings",
    "MainRole",
    "PythonTool",
    "RoleSpec",
    "Speaker",
    "StateKeySpec",
    "StateSourceSpec",
    "SubagentRef",
    "ToolReference",
]
