"""Policies: code that decides at fixed points of a run, and what it decides with.

`@policy` makes one of a function. Hooks of a graph answer with the same decisions.
"""

from loom_ia.core.model.decisions import (
    CONTINUE,
    Continue,
    Decision,
    Deny,
    Fail,
    Pause,
    Replace,
    Retry,
    Stop,
)
from loom_ia.core.ports.policies import (
    AfterModel,
    AfterTool,
    BeforeModel,
    BeforeTool,
    OnOutput,
    PolicyContext,
    Subject,
)
from loom_ia.core.state.results import ToolResult
from loom_ia.policies.function import PolicyFunction, policy

__all__ = [
    "CONTINUE",
    "AfterModel",
    "AfterTool",
    "BeforeModel",
    "BeforeTool",
    "Continue",
    "Decision",
    "Deny",
    "Fail",
    "OnOutput",
    "Pause",
    "PolicyContext",
    "PolicyFunction",
    "Replace",
    "Retry",
    "Stop",
    "Subject",
    "ToolResult",
    "policy",
]
