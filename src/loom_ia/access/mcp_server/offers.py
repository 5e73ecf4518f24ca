"""What a client finds in the list of tools: agents, graphs, and three tools about runs.

Law. Nothing that decides on what waits for a human is ever offered. Annotations are hints that
clients show or act upon: they are never better than the truth.
"""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, cast

import mcp_types as types

from loom_ia.access.api import Loom
from loom_ia.access.mcp_server.arguments import (
    AgentArguments,
    CancelArguments,
    GraphArguments,
    ReportArguments,
    StatusArguments,
    schema_of,
)
from loom_ia.access.portal import Portal
from loom_ia.core.json import JsonObject
from loom_ia.core.model.names import MCP_SERVICES
from loom_ia.core.state.run import Status
from loom_ia.i18n import translate as _

OfferKind: TypeAlias = Literal["agent", "graph"]

RESULT_SCHEMA: Final[JsonObject] = {
    "type": "object",
    "properties": {
        "run_id": {"type": "string"},
        "session_id": {"type": "string"},
        "agent": {"type": "string"},
        "status": {"type": "string", "enum": [status.value for status in Status]},
        "text": {"type": "string"},
        "data": {},
        "error_type": {"type": ["string", "null"]},
        "error": {"type": ["string", "null"]},
        "cost_usd": {"type": "number"},
        "unverified": {"type": "boolean"},
        "fallback": {"type": "boolean"},
        "pending_approvals": {"type": "array", "items": {"type": "object"}},
        "artifacts": {"type": "array", "items": {"type": "object"}},
    },
    "required": ["run_id", "session_id", "agent", "status", "text"],
}
"""What the result of a run holds, told short: what is not named here may be there, too."""


@dataclass(frozen=True, slots=True)
class Offer:
    """An agent, or a graph, that can be called."""

    name: str
    kind: OfferKind
    description: str
    input_schema: JsonObject
    destructive: bool

    @property
    def tool(self) -> types.Tool:
        """The tool that a client reads."""
        return types.Tool(
            name=self.name,
            description=self.description or None,
            input_schema=cast("dict[str, Any]", self.input_schema),
            output_schema=cast("dict[str, Any]", RESULT_SCHEMA),
            annotations=types.ToolAnnotations(
                read_only_hint=False,
                destructive_hint=self.destructive,
                idempotent_hint=False,
                open_world_hint=True,
            ),
        )


def offers(loom: Loom, portal: Portal) -> Mapping[str, Offer]:
    """Give what a visitor may call, by name."""
    found: dict[str, Offer] = {}
    if not portal.visitor.may("run"):
        return found
    for agent in portal.offered():
        found[agent.name] = Offer(
            name=agent.name,
            kind="agent",
            description=agent.description,
            input_schema=schema_of(AgentArguments),
            destructive=loom.is_irreversible(agent.name),
        )
    for offer in _graphs(loom, portal):
        found.setdefault(offer.name, offer)
    return found


def _graphs(loom: Loom, portal: Portal) -> Iterator[Offer]:
    from loom_ia.graph.graph_tool import input_schema

    said = {spec.name: spec.description for spec in loom.config.graphs}
    for name, graph in loom.graphs.items():
        if name in MCP_SERVICES or not portal.visitor.sees(name):
            continue
        schema = deepcopy(schema_of(GraphArguments))
        state = dict(input_schema(graph))
        if definitions := state.pop("$defs", None):
            schema["$defs"] = definitions
        properties = cast("JsonObject", schema["properties"])
        properties["input"] = {**cast("JsonObject", properties["input"]), **state}
        if state.get("required"):
            schema["required"] = ["input"]
        yield Offer(name, "graph", said.get(name, ""), schema, destructive=True)


def services(portal: Portal) -> Iterator[types.Tool]:
    """Give the tools about runs that a visitor may use."""
    reads = types.ToolAnnotations(
        read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
    )
    if portal.visitor.may("read"):
        yield types.Tool(
            name="run_status",
            description=_(
                "Tells where a run stands: its status, its answer, and what waits for a human."
            ),
            input_schema=cast("dict[str, Any]", schema_of(StatusArguments)),
            output_schema=cast("dict[str, Any]", RESULT_SCHEMA),
            annotations=reads,
        )
        yield types.Tool(
            name="run_report",
            description=_(
                "Tells what a run, or a whole session, consumed: calls, tokens, dollars."
            ),
            input_schema=cast("dict[str, Any]", schema_of(ReportArguments)),
            annotations=reads,
        )
    if portal.visitor.may("run"):
        yield types.Tool(
            name="cancel",
            description=_("Stops a run for good; what it did is not undone."),
            input_schema=cast("dict[str, Any]", schema_of(CancelArguments)),
            annotations=types.ToolAnnotations(
                read_only_hint=False,
                destructive_hint=True,
                idempotent_hint=True,
                open_world_hint=False,
            ),
        )
