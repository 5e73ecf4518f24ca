"""One tool of a server, as a run calls it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast

from loom_ia.adapters.mcp.convert import to_output
from loom_ia.adapters.mcp.definitions import Definition
from loom_ia.adapters.mcp.schemas import Schemas
from loom_ia.core.errors import UnknownEffect
from loom_ia.core.json import JsonObject
from loom_ia.core.model.content import ToolOutput
from loom_ia.core.model.tooling import ToolSpec
from loom_ia.core.ports.tools import ToolContext
from loom_ia.core.prompts import Language

KEY: Final = "loom-ia/idempotency_key"


@dataclass(frozen=True, slots=True)
class Asking:
    """How something is asked: one that is `safe` and got lost may be asked once more."""

    meta: JsonObject
    safe: bool
    language: Language


class Caller(Protocol):
    """Who reaches the server."""

    async def call(self, definition: Definition, arguments: JsonObject, asking: Asking) -> object:
        """Give the result of a call as it came; see the port `Tool` for what is raised."""
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
        # By what holds for it here, not by what its server hints at.
        asking = Asking(meta, context.may_act_again, context.language)
        raw = await self.caller.call(self.definition, arguments, asking)
        if not asking.safe and not _is_result(raw):
            raise UnknownEffect
        return to_output(raw, context.language)


def _is_result(raw: object) -> bool:
    """Whether a result says what became of the call: it was made, or more is asked before."""
    known = (None, "complete", "input_required")
    return isinstance(raw, Mapping) and cast("Mapping[str, Any]", raw).get("resultType") in known
