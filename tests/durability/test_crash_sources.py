"""Whatever the instant of the crash, the tools of a source are there again, and act once."""

from collections import Counter

import pytest

from loom_ia.agents import AgentSpec, MainRole, SourceTool, SubagentRef
from loom_ia.config.root import LoomConfig
from loom_ia.config.sources import ToolSourceSpec
from loom_ia.core.json import JsonValue
from loom_ia.core.model import ModelSpec
from loom_ia.core.model.models import Retry
from loom_ia.testing import CrashReport, FakeSource, Host, RepeatableLoom, crash_everywhere
from tests.durability.clerk import World, call, calling, saying


def config(*script: JsonValue, below: bool = False) -> LoomConfig:
    """Describe an agent that takes its tools from the source `crm`, itself or by one below it."""
    model = ModelSpec(
        id="M", sdk="fake", model="m", params={"script": list(script)}, retry=Retry(max_attempts=1)
    )
    over = ModelSpec(
        id="O",
        sdk="fake",
        model="o",
        params={"script": [calling(call("clerk", message="go")), saying("over")]},
    )
    clerk = AgentSpec(
        name="clerk",
        description="Does it.",
        main=MainRole(model="M", system="s"),
        tools=(SourceTool(source="crm"),),
    )
    chief = AgentSpec(
        name="chief",
        main=MainRole(model="O", system="s"),
        subagents=(SubagentRef(agent="clerk"),),
    )
    return LoomConfig(
        version=1,
        models=(model, over) if below else (model,),
        tool_sources=(ToolSourceSpec(name="crm", entry_point="none"),),
        agents=(clerk, chief) if below else (clerk,),
    )


async def survive(
    world: World, made: LoomConfig, agent: str, *, approves: bool = False, level: str = "kill"
) -> CrashReport:
    """Crash a run everywhere; the source has a tool that cannot be undone, and one that asks."""
    send = world.tool("send", side_effects="irreversible")
    ask = world.tool("ask", side_effects="irreversible", approval="always")

    def make(host: Host) -> RepeatableLoom:
        return host.loom(made, sources={"crm": FakeSource(send, ask)})

    async def scenario(host: Host) -> None:
        loom = make(host)
        await loom.run(agent, "go", run_id="r", session_id="s")
        if approves:
            await loom.approve("r", by="me")
            await loom.resume("r")

    report = await crash_everywhere(scenario, effects=world.effects, level=level)  # type: ignore[arg-type]
    assert report.points >= 6, report.writes
    return report


@pytest.mark.parametrize("level", ["kill", "power"])
async def test_a_tool_of_a_source_acts_once(level: str) -> None:
    """Its declarations are there again when the run goes on: it is not called twice."""
    made = config(calling(call("crm__send", what="a")), saying("done"))
    report = await survive(World(), made, "clerk", level=level)
    assert report.ok, report


async def test_a_tool_of_a_source_that_asked_acts_once() -> None:
    """Nor is the decision about it asked for again."""
    made = config(calling(call("crm__ask", what="a")), saying("done"))
    report = await survive(World(), made, "clerk", approves=True)
    assert report.ok, report


async def test_an_agent_below_is_given_its_tools() -> None:
    """Each run has its own sources, whoever opened it."""
    made, world = config(calling(call("crm__send", what="a")), saying("done"), below=True), World()
    report = await survive(world, made, "chief")
    assert report.ok, report
    assert isinstance(world.done, Counter)
    assert world.done["send:a"] > 0
