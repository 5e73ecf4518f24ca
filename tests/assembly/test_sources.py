"""The sources of an instance: made when an agent names them, closed whatever happens."""

import asyncio
import logging

import pytest

from loom_ia.access import Loom
from loom_ia.agents import AgentSpec, AnyTool, MainRole, McpTool, PythonTool, SourceTool
from loom_ia.agents.session_state import StateKeySpec, StateSourceSpec
from loom_ia.assembly import backends
from loom_ia.assembly.entry_points import Secrets
from loom_ia.config.root import LoomConfig
from loom_ia.config.sources import McpServerSpec, ToolSourceSpec
from loom_ia.core.errors import ConfigError
from loom_ia.core.events import ToolCalled
from loom_ia.core.json import JsonValue
from loom_ia.core.model import ModelSpec
from loom_ia.core.state.run import Status
from loom_ia.graph.spec import GraphSpec
from loom_ia.testing import FakeSource
from loom_ia.tools import tool
from tests.engine.world import Hand

CRM = McpServerSpec(name="crm", transport="stdio", command="no-such-program")


def config(*tools: AnyTool, script: list[JsonValue] | None = None, **agent: object) -> LoomConfig:
    """Describe an agent with these tools, a server and a source."""
    replies: list[JsonValue] = script or [{"text": "done"}]
    return LoomConfig(
        version=1,
        models=(ModelSpec(id="M", sdk="fake", model="m", params={"script": replies}),),
        mcp_servers=(CRM,),
        tool_sources=(ToolSourceSpec(name="notes", entry_point="none"),),
        agents=(
            AgentSpec(name="clerk", main=MainRole(model="M", system="s"), tools=tools, **agent),  # type: ignore[arg-type]
        ),
    )


async def test_what_no_agent_names_is_not_made() -> None:
    """Neither the package, which is not even installed, nor the server."""
    async with Loom(config()) as loom:
        assert (await loom.run("clerk", "go")).status is Status.COMPLETED
        assert loom._host.sources._made == {}


async def test_sources_are_shared_by_runs_and_closed_with_the_instance() -> None:
    """In the order that undoes how they were made; one that fails keeps no other open."""

    class Bad(FakeSource):
        async def aclose(self) -> None:
            await super().aclose()
            raise RuntimeError("boom")

    crm, notes = FakeSource(Hand("find")), Bad(Hand("note"))
    made = config(McpTool(mcp="crm"), SourceTool(source="notes"))
    async with Loom(made, sources={"crm": crm, "notes": notes}) as loom:
        await asyncio.gather(*(loom.run("clerk", "go") for _ in range(3)))
        assert not crm.closed
    assert (len(crm.opened), len(notes.opened)) == (3, 3)
    assert (crm.open_now, notes.open_now) == (0, 0)
    assert crm.closed
    assert notes.closed


async def test_two_references_open_a_source_once() -> None:
    """Under two prefixes, it is one connection for the run."""
    crm = FakeSource(Hand("find"), Hand("drop"))
    script = [{"tool_calls": [{"name": "c__drop"}, {"name": "crm__find"}]}, {"text": "done"}]
    made = config(
        McpTool(mcp="crm", include=("find",)),
        McpTool(mcp="crm", alias="c", include=("drop",)),
        script=script,
    )
    async with Loom(made, sources={"crm": crm}) as loom:
        result = await loom.run("clerk", "go")
        events = await loom.events(result.run_id)
    assert result.text == "done"
    called = [event.payload for event in events if isinstance(event.payload, ToolCalled)]
    assert [(fact.tool_name, fact.tool_kind) for fact in called] == [
        ("c__drop", "mcp"),
        ("crm__find", "mcp"),
    ]
    assert len(crm.opened) == 1


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what to install, at the place of the server."""
    row = backends.Backend("loom_ia.adapters.mcp.source:McpSource", "mcp", "no_such_package")
    rows = {**backends.BACKENDS, ("source", "mcp"): row}
    monkeypatch.setattr("loom_ia.assembly.sources.BACKENDS", rows)
    with pytest.raises(ConfigError) as caught:
        Loom(config(McpTool(mcp="crm"))).mount()
    (problem,) = caught.value.problems
    assert problem.path == "mcp_servers[crm].transport"
    assert problem.message == 'an MCP server needs the extra mcp (pip install "loom-ia[mcp]")'


@tool(name="crm__find")
def find(word: str) -> str:
    """Find a word."""
    return word


def test_a_function_cannot_be_called_like_the_tools_of_a_server() -> None:
    """Which of them would be called is not to be guessed."""
    loom = Loom(
        config(McpTool(mcp="crm"), PythonTool(python="find")), sources={"crm": FakeSource()}
    )
    loom.register("find", find)
    with pytest.raises(ConfigError, match="crm__find begins like the tools of a source"):
        loom.mount()


def test_the_state_is_written_by_a_tool_that_may_come() -> None:
    """A key may be written by a tool of a server; a typing error is refused."""

    def state(name: str) -> dict[str, StateKeySpec]:
        source = StateSourceSpec(tool=name, path="/id")
        return {"client": StateKeySpec.model_validate({"from": [source]})}

    Loom(
        config(McpTool(mcp="crm"), state=state("crm__find")), sources={"crm": FakeSource()}
    ).mount()
    with pytest.raises(ConfigError, match="the agent has no tool crn__find"):
        Loom(
            config(McpTool(mcp="crm"), state=state("crn__find")), sources={"crm": FakeSource()}
        ).mount()


async def test_a_tool_of_a_server_writes_the_state() -> None:
    """As any tool whose success is a source of a key."""

    def client(*_: object) -> object:
        from loom_ia.core.model import ToolOutput

        return ToolOutput(data={"id": "C-7"})

    source = StateSourceSpec(tool="crm__find", path="/id")
    made = config(
        McpTool(mcp="crm"),
        script=[{"tool_calls": [{"name": "crm__find"}]}, {"text": "done"}],
        state={"client": StateKeySpec.model_validate({"from": [source]})},
    )
    async with Loom(made, sources={"crm": FakeSource(Hand("find", client))}) as loom:
        result = await loom.run("clerk", "go", session_id="s")
        assert result.status is Status.COMPLETED
        (value,) = await loom.session_state("s")
    assert value.value == "C-7"


def test_secrets_are_looked_up_and_not_shown() -> None:
    """By name, one by one; what is empty is not there."""
    secrets = Secrets({"KEY": "k", "EMPTY": ""}.get)  # type: ignore[arg-type]
    assert secrets["KEY"] == "k"
    assert secrets.get("EMPTY", "other") == "other"
    assert "EMPTY" not in secrets
    with pytest.raises(KeyError):
        secrets["NONE"]
    assert "k" not in repr(secrets).replace("key", "").split()


def test_logs_hold_no_name_of_a_tool_of_a_server(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is told of a listing that is as the configuration expects."""
    with caplog.at_level(logging.DEBUG, "loom_ia.assembly"):
        Loom(config(McpTool(mcp="crm")), sources={"crm": FakeSource(Hand("find"))}).mount()
    assert caplog.records == []


async def test_an_agent_of_a_graph_is_given_its_tools() -> None:
    """The run that a step opens has its sources, and lets go of them."""
    crm = FakeSource(Hand("find", lambda *_: "found"))
    script = [{"tool_calls": [{"name": "crm__find"}]}, {"text": "found it"}]
    made = config(McpTool(mcp="crm"), script=script)
    graph = GraphSpec.model_validate(
        {"name": "g", "steps": {"a": {"agent": "clerk", "ask": "go", "into": "answer"}}}
    )
    made = made.model_copy(update={"graphs": (graph,)})
    async with Loom(made, sources={"crm": crm}) as loom:
        result = await loom.run_graph("g", {})
    assert result.state["answer"] == "found it"
    assert (len(crm.opened), crm.open_now) == (1, 0)
