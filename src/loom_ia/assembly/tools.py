"""The tools of an agent: what the user wrote, with what the configuration says last."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from loom_ia.agents import GraphTool as GraphReference
from loom_ia.agents import ToolReference
from loom_ia.config.root import ToolExecution
from loom_ia.core.errors import OutsideError
from loom_ia.core.json import JsonObject
from loom_ia.core.model.content import ToolOutput
from loom_ia.core.model.tooling import Assessment, ToolSpec
from loom_ia.core.ports.store import Store
from loom_ia.core.ports.tools import (
    Assessing,
    Done,
    Reconciliation,
    Reconciling,
    Tool,
    ToolContext,
)
from loom_ia.graph.definition import GraphDefinition
from loom_ia.graph.graph_tool import GraphTool
from loom_ia.graph.running import Host
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

    async def reconcile(self, arguments: JsonObject, context: ToolContext) -> Reconciliation:
        """Tell what became of a call, if the tool can."""
        if not isinstance(self.tool, Reconciling):
            raise OutsideError("{tool} has no method reconcile", tool=self.spec.name)
        answer = await self.tool.reconcile(arguments, context)
        if isinstance(answer, Done) and answer.output is not None:
            return Done(to_output(answer.output))
        return answer

    async def assess(self, arguments: JsonObject) -> Assessment:
        """Say what a call calls for, if the tool can."""
        if not isinstance(self.tool, Assessing):
            raise OutsideError("{tool} has no method assess", tool=self.spec.name)
        return await self.tool.assess(arguments)


def configured(tool: Tool, reference: ToolReference, defaults: ToolExecution) -> Tool:
    """Apply the declarations of `reference`, and `defaults` where nothing was declared."""
    return _changed(tool, dict(reference.overrides), defaults)


def with_defaults(tool: Tool, defaults: ToolExecution) -> Tool:
    """Apply `defaults` where nothing was declared."""
    return _changed(tool, {}, defaults)


def graph_tool(
    graph: GraphDefinition[Any],
    reference: GraphReference,
    description: str,
    *,
    host: Host,
    store: Store | None,
) -> GraphTool:
    """Make what an agent calls of a graph; `description` is what is known of it."""
    made = GraphTool.of(
        graph,
        reference.name or graph.name,
        reference.description or description,
        reference.side_effects or "none",
        host=host,
        store=store,
    )
    said = {"approval": reference.approval, "notice": reference.notice}
    changes = {key: value for key, value in said.items() if value is not None}
    return replace(made, spec=made.spec.model_copy(update=changes)) if changes else made


def _changed(tool: Tool, changes: dict[str, Any], defaults: ToolExecution) -> Tool:
    declared: object = getattr(tool, "declared", None)
    for name in ("timeout", "offload_over"):
        if isinstance(declared, Mapping) and name not in declared:
            changes.setdefault(name, getattr(defaults, name))
    spec = tool.spec
    ours = isinstance(cast("object", tool), PythonTool)
    if ours and all(getattr(spec, name) == value for name, value in changes.items()):
        return tool
    return ConfiguredTool(ToolSpec.model_validate({**spec.model_dump(), **changes}), tool)
