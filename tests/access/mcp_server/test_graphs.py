"""Graphs, called as tools."""

import json

import pytest

from tests.acceptance.project import Project, call, calling
from tests.access.mcp_server.clients import GENERATIONS, content_of, over_stdio, text_of

GRAPH = """\
name: etapes
description: Demande deux fois.
steps:
  a: {agent: devis, ask: "{{ sujet }}", into: premier}
  b: {agent: devis, ask: "{{ premier }}", into: output}
"""

IN_PYTHON = '''

from dataclasses import dataclass

from loom_ia.graph import Graph


@dataclass
class Etat:
    """Ce qui est compté."""

    nombre: int
    note: str = ""


def doubler(etat: Etat):
    return {"nombre": etat.nombre * 2}


compte = Graph("compte", state=Etat)
compte.add_step("doubler", doubler)
'''


@pytest.mark.parametrize("mode", GENERATIONS)
async def test_a_graph_runs_with_its_input(project: Project, mode: str) -> None:
    """A graph takes its state as `input`, is told as it goes on, and is read as any run."""
    project.write("graphs/etapes.yaml", GRAPH)
    project.script = [{"text": "Un."}, {"text": "Deux."}]
    project.save()
    lines: list[str] = []

    async def told(progress: float, total: float | None, message: str | None) -> None:
        lines.append(message or "")

    async with over_stdio(project, mode) as client:
        result = await client.call_tool(
            "etapes", {"input": {"sujet": "prix"}}, progress_callback=told
        )
        run_id = result.structured_content["run_id"]
        read = await client.read_resource(f"loom://traces/{run_id}")
        wrong = await client.call_tool("etapes", {"sujet": "prix"})
        deep: dict[str, object] = {}
        for _ in range(80):
            deep = {"a": deep}
        refused = await client.call_tool("etapes", {"input": deep})
    assert result.structured_content["status"] == "completed", text_of(result)
    assert not result.is_error
    assert any("etapes" in line for line in lines)
    assert json.loads(content_of(read))["agent"] == "etapes"
    assert wrong.is_error
    assert "input" in text_of(refused)


async def test_a_graph_in_python_shows_what_it_begins_with(project: Project) -> None:
    """The class of the state is the schema of `input`."""
    project.more_tools = IN_PYTHON
    project.save()
    async with over_stdio(project, "auto") as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        schema = tools["compte"].input_schema
        result = await client.call_tool("compte", {"input": {"nombre": 21}})
        wrong = await client.call_tool("compte", {"input": {"nombre": "x"}})
    assert schema["properties"]["input"]["properties"]["nombre"]["type"] == "integer"
    assert schema["required"] == ["input"]
    assert result.structured_content["status"] == "completed", text_of(result)
    assert wrong.is_error


@pytest.mark.parametrize("mode", GENERATIONS)
async def test_a_graph_waits_as_an_agent_does(project: Project, mode: str) -> None:
    """What an agent below asks is asked of the person in front of the client."""
    import mcp_types as types

    project.write("graphs/etapes.yaml", GRAPH)
    project.tools = ["relancer"]
    project.script = [calling(call("relancer", texte="a")), {"text": "Un."}, {"text": "Deux."}]
    project.save()

    async def agree(context: object, params: object) -> types.ElicitResult:
        del context, params
        return types.ElicitResult(action="accept", content={"decision": "accorder"})

    async with over_stdio(project, mode, elicitation_callback=agree) as client:
        result = await client.call_tool("etapes", {"input": {"sujet": "prix"}})
    assert result.structured_content["status"] == "completed", text_of(result)
    assert project.effects() == ["relancer:a"]
