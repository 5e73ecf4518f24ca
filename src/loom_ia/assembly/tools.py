"""The tools of an agent: what the user wrote, with what the configuration says last."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from loom_ia.agents import PythonTool as Reference
from loom_ia.config.root import ToolExecution
from loom_ia.core.json import JsonObject
from loom_ia.core.model.content import ToolOutput
from loom_ia.core.model.tooling import ToolSpec
from loom_ia.core.ports.tools import Tool, ToolContext
from loom_ia.tools import PythonTool
from loom_ia.tools.results import to_output


@dataclass(frozen=True, slots=True)
class ConfiguredTool:
    """A tool under other declarations than its own, or one that is not ours.

    What it gives passes the gate of the journal here, whoever wrote it.
    """

    spec: ToolSpec
    tool: Tool

    async def check(self, arguments: JsonObject) -> str | None:
        """Tell why `arguments` cannot run."""
        return await self.tool.check(arguments)

    async def call(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        """Act."""
        return to_output(await self.tool.call(arguments, context))


def configured(tool: Tool, reference: Reference, defaults: ToolExecution) -> Tool:
    """Apply the declarations of `reference`, and `defaults` where nothing was declared."""
    changes: dict[str, Any] = dict(reference.overrides)
    declared: object = getattr(tool, "declared", None)
    for name in ("timeout", "offload_over"):
        if isinstance(declared, Mapping) and name not in declared:
            changes.setdefault(name, getattr(defaults, name))
    spec = tool.spec
    ours = isinstance(cast("object", tool), PythonTool)
    if ours and all(getattr(spec, name) == value for name, value in changes.items()):
        return tool
    return ConfiguredTool(ToolSpec.model_validate({**spec.model_dump(), **changes}), tool)
