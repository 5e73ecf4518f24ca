"""A graph as a tool without a host: of a tool loop, which runs it on its own."""

from typing import Any

from loom_ia.app.graphs.desk import desk_of
from loom_ia.app.graphs.driving import Manner
from loom_ia.app.graphs.order import Order
from loom_ia.app.graphs.running import run_graph
from loom_ia.core.json import JsonObject
from loom_ia.graph.definition import GraphDefinition
from loom_ia.graph.graph_tool import GraphTool
from loom_ia.graph.types import RunResult


def graph_tool(
    graph: GraphDefinition[Any], name: str, description: str, side_effects: str = "none"
) -> GraphTool:
    """Make a tool of a graph; raises `ValueError` for a name that no model can call."""

    async def alone(arguments: JsonObject) -> RunResult[Any]:
        desk = desk_of(None, graph.name)
        order = Order(graph, desk, desk.instance(graph.lease, graph.durability))
        return await run_graph(order, arguments, None, Manner(allow_unresumable=False))

    return GraphTool.of(graph, name, description, side_effects, alone=alone)
