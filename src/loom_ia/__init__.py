"""Loom-IA: an asynchronous engine for agents that do real work.

The usual names are here, imported only when they are used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from loom_ia.access.api import Loom
    from loom_ia.agents import AgentSpec, MainRole, PythonTool
    from loom_ia.config import LoomConfig
    from loom_ia.core.errors import AttachmentRefused, ConfigError, LoomError, ToolError
    from loom_ia.core.events import Event
    from loom_ia.core.model import Message, ModelSpec, TextDelta, ToolOutput
    from loom_ia.core.ports import ToolContext
    from loom_ia.core.views.effects import EffectRecord
    from loom_ia.core.views.result import PendingApproval, RunResult
    from loom_ia.engine.attachments import Attachment
    from loom_ia.engine.program import Approved, Rejected
    from loom_ia.tools import tool

__all__ = [
    "AgentSpec",
    "Approved",
    "Attachment",
    "AttachmentRefused",
    "ConfigError",
    "EffectRecord",
    "Event",
    "Loom",
    "LoomConfig",
    "LoomError",
    "MainRole",
    "Message",
    "ModelSpec",
    "PendingApproval",
    "PythonTool",
    "Rejected",
    "RunResult",
    "TextDelta",
    "ToolContext",
    "ToolError",
    "ToolOutput",
    "tool",
]

_HOMES: Final = {
    "AgentSpec": "agents",
    "Approved": "engine.program",
    "Attachment": "engine.attachments",
    "AttachmentRefused": "core.errors",
    "ConfigError": "core.errors",
    "EffectRecord": "core.views.effects",
    "Event": "core.events",
    "Loom": "access.api",
    "LoomConfig": "config",
    "LoomError": "core.errors",
    "MainRole": "agents",
    "Message": "core.model",
    "ModelSpec": "core.model",
    "PendingApproval": "core.views.result",
    "PythonTool": "agents",
    "Rejected": "engine.program",
    "RunResult": "core.views.result",
    "TextDelta": "core.model",
    "ToolContext": "core.ports",
    "ToolError": "core.errors",
    "ToolOutput": "core.model",
    "tool": "tools",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
