"""One tool of a server, as a run calls it."""

from dataclasses import dataclass
from typing import Final, Protocol

from loom_ia.adapters.mcp.convert import to_output
from loom_ia.adapters.mcp.definitions import Definition
from loom_ia.adapters.mcp.schemas import Schemas
from loom_ia.core.errors import ToolError
from loom_ia.core.json import JsonObject
from loom_ia.core.model.content import ToolOutput
from loom_ia.core.model.tooling import ToolSpec
from loom_ia.core.ports.tools import ToolContext

KEY: Final = "loom-ia/idempotency_key"


class Caller(Protocol):
    """Who reaches the server."""

    async def call(
        self, definition: Definition, arguments: JsonObject, meta: JsonObject, *, safe: bool
    ) -> object:
        """Give the result of a call as it came, once more when it is `safe` and got lost."""
        ...


@dataclass(frozen=True, slots=True)
class McpTool:
    """Implements the port `Tool`. `spec` has what the server declares, under a name of its own."""

    spec: ToolSpec
    definition: Definition
    schemas: Schemas
    caller: Caller

    async def check(self, arguments: JsonObject) -> str | None:
        """Tell why arguments cannot run, by the schema that the server gave."""
        return self.schemas.misfit(arguments) or None

    async def call(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        """Call the tool; raises as the port says."""
        meta: JsonObject = {KEY: context.idempotency_key} if context.idempotency_key else {}
        safe = context.may_act_again  # by what holds for it here, not by what its server hints at
        raw = await self.caller.call(self.definition, arguments, meta, safe=safe)
        return to_output(raw)


def no_longer(definition: Definition) -> ToolError:
    """Say that the server now defines a tool in another way than when the run was given it."""
    return ToolError(
        f"{definition.name} changed since it was accepted, and was not called: a human must accept "
        "it first"
    )
