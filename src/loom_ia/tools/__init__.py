"""Turn Python functions into tools that an agent can call.

from loom_ia.tools import tool

@tool
def price(amount: float, rate: float = 20.0) -> float:
    '''Work out the price with tax.'''
    return round(amount * (1 + rate / 100), 2)
"""

from loom_ia.core.errors import ToolError, UnknownEffect
from loom_ia.core.model.content import ToolOutput
from loom_ia.core.model.tooling import Assessment
from loom_ia.core.ports.tools import Done, NotDone, ToolContext, Unknown
from loom_ia.tools.idempotent import IdempotentTool, idempotent
from loom_ia.tools.python import PythonTool, ToolDeclarations, tool
from loom_ia.tools.results import File
from loom_ia.tools.signature import ToolDefinitionError

__all__ = [
    "Assessment",
    "Done",
    "File",
    "IdempotentTool",
    "NotDone",
    "PythonTool",
    "ToolContext",
    "ToolDeclarations",
    "ToolDefinitionError",
    "ToolError",
    "ToolOutput",
    "Unknown",
    "UnknownEffect",
    "idempotent",
    "tool",
]
