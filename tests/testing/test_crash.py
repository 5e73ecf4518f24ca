"""The crash test finds what is wrong, tells where, and asks for nothing that is right."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from loom_ia.core.decide import calls as deciding
from loom_ia.core.errors import RunExists, UnknownApproval
from loom_ia.core.events.tool import ToolCalled
from loom_ia.engine import driver
from loom_ia.engine.log import Pen
from loom_ia.graph import Graph, append
from loom_ia.testing import Host, NotRepeatable, crash_everywhere
from tests.durability.clerk import World, call, calling, clerk, saying


@pytest.fixture
def world() -> World:
    """What is outside of every process."""
    return World()


def sending(world: World, **declarations: object):
    """Give a scenario whose only call is irreversible."""
    send = world.tool("send", **{"side_effects": "irreversible", **declarations})
    config = clerk(calling(call("send", what="a")), saying("Sent."), tools=(send,))

    async def scenario(host: Host) -> None:
        await host.loom(config, tools=[send]).run("clerk", "Do it", run_id="r1")

    return scenario


async def test_a_sound_engine_passes(world: World) -> None:
    """Nothing is found where nothing is wrong, and the report says how much was tried."""
    report = await crash_everywhere(sending(world), effects=world.effects)
    assert report.ok
    assert report.points == 2 * len(report.writes) == 8
    assert "8 crashes" in str(report)
    assert report.shortest is None


async def test_a_tool_that_acts_before_its_launch_is_written(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine that acts first and writes later is caught, with the shortest way to see it."""
    honest = Pen.commit

    async def commit(pen: Pen, *, sync: bool) -> None:
        if not any(isinstance(draft.payload, ToolCalled) for draft in pen._staged[-1:]):
            await honest(pen, sync=sync)

    monkeypatch.setattr(Pen, "commit", commit)
    report = await crash_everywhere(sending(world), effects=world.effects)
    assert not report.ok
    assert report.shortest
    assert len(report.shortest.points) == 1
    assert "send had acted 1 time(s) at the crash" in str(report)
    assert "the effect send:a happened 2 times" in str(report)
    assert any("✗ crash" in line and "tool.called" in line for line in report.shortest.trace)


async def test_a_launch_that_is_not_flushed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that acts on what a power cut takes is caught at that level, and only there."""
    monkeypatch.setattr(driver, "_must_flush", lambda effect: False)
    killed = await crash_everywhere(sending(world), effects=world.effects, level="kill")
    cut = await crash_everywhere(sending(world), effects=world.effects, level="power")
    assert killed.ok, killed
    assert not cut.ok
    assert "unflushed event(s) lost" in str(cut)


async def test_a_blind_second_launch(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that launches an interrupted call again is caught."""

    def launch(call, tool, run, plan, now, fates) -> None:
        fates.launches.append(call)

    monkeypatch.setattr(deciding, "_decide_unasked", launch)
    report = await crash_everywhere(sending(world), effects=world.effects)
    assert "was launched again without anybody's leave" in str(report)


async def test_a_result_that_is_forgotten(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that says a call succeeded although nothing happened is caught."""
    scenario = sending(world)
    seen: list[int] = []

    def effects() -> dict[str, int]:
        seen.append(1)
        return dict(world.done) if len(seen) <= 2 else {"send:a": 1}

    report = await crash_everywhere(scenario, effects=effects)
    assert "1 call(s) of send succeeded, and 0 effect(s) happened" in str(report)


async def test_another_end(world: World) -> None:
    """A run that ends otherwise after a crash is a divergence, unless the caller allows it."""
    look = world.tool("look")

    async def scenario(host: Host) -> None:
        said = "First." if host.life == 1 else "Second."
        config = clerk(calling(call("look")), saying(said), tools=(look,))
        await host.loom(config, tools=[look]).run("clerk", "Do it", run_id="r1")

    report = await crash_everywhere(scenario)
    assert "ended as ('completed', 'Second.'), not as ('completed', 'First.')" in str(report)
    allowed = await crash_everywhere(scenario, allow=lambda o: o["r1"].status == "completed")
    assert allowed.ok


async def test_a_scenario_that_is_not_taken_up(world: World) -> None:
    """A run that nobody takes up after a crash is a divergence."""

    async def nothing(host: Host) -> None:
        del host

    report = await crash_everywhere(sending(world), effects=world.effects, resume=nothing)
    assert not report.ok
    assert "run r1 is missing" in str(report)


async def test_a_resume_that_fails(world: World) -> None:
    """What a later life raises is a divergence, with its words."""

    async def failing(host: Host) -> None:
        raise LookupError("nothing here")

    report = await crash_everywhere(sending(world), effects=world.effects, resume=failing)
    assert "life 2 ended with LookupError: nothing here" in str(report)


async def test_a_life_that_does_not_end(world: World) -> None:
    """A life that hangs is a divergence, and its tasks are stopped."""
    scenario, hung = sending(world), []

    async def hanging(host: Host) -> None:
        if not hung:
            hung.append(asyncio.create_task(asyncio.Event().wait()))
            await hung[0]
        await scenario(host)

    before = asyncio.all_tasks()
    report = await crash_everywhere(scenario, effects=world.effects, resume=hanging, patience=0.5)
    assert "did not come to an end within 0.5 s" in str(report)
    assert len(report.divergences) == 1
    assert hung[0].cancelled()
    assert asyncio.all_tasks() == before


async def test_a_scenario_that_does_not_repeat_itself(world: World) -> None:
    """A scenario that writes otherwise the second time is refused, with the place."""
    look = world.tool("look")
    scripts: list[Sequence[dict]] = [[saying("Now.")]]

    async def scenario(host: Host) -> None:
        script = scripts.pop() if scripts else [calling(call("look")), saying("Later.")]
        config = clerk(*script, tools=(look,))
        await host.loom(config, tools=[look]).run("clerk", "Do it", run_id="r1")

    with pytest.raises(NotRepeatable, match="write 2 of the scenario was"):
        await crash_everywhere(scenario)


async def test_plain_functions_end_in_the_order_of_their_beginning() -> None:
    """Steps that would be run in threads, where the last one might end first, are repeatable."""
    graph = Graph("g", "split", merge={"done": append})
    names = [f"s{number}" for number in range(4)]
    graph.add_step("split", lambda state: None, then=names)
    for number, name in enumerate(names):

        def wait(state: dict[str, object], name: str = name, number: int = number) -> object:
            time.sleep(0.004 * (4 - number))
            return {"done": [name]}

        graph.add_step(name, wait, then="end")
    graph.add_step("end", lambda state: None, join="all")
    report = await crash_everywhere(graph, {})
    assert report.ok, report
    ends = "tool.completed tool.completed tool.completed tool.completed"
    assert any(write.startswith(ends) for write in report.writes), report.writes


async def test_what_the_undisturbed_scenario_raises(world: World) -> None:
    """A scenario that fails by itself fails the test with its own error."""

    async def scenario(host: Host) -> None:
        raise LookupError("a fault of the scenario")

    with pytest.raises(LookupError, match="a fault of the scenario"):
        await crash_everywhere(scenario)


async def test_a_run_without_an_id(world: World) -> None:
    """A run that could not be found again is refused at once."""
    config = clerk(saying("Hello."))

    async def scenario(host: Host) -> None:
        await host.loom(config).run("clerk", "Do it")

    with pytest.raises(ValueError, match="give each run its run_id"):
        await crash_everywhere(scenario)


async def test_a_configuration_in_files(world: World, tmp_path: Path) -> None:
    """A scenario may use the project of a user as it stands, journal aside."""
    agent = "{name: clerk, main: {model: M, system: Be brief.}, tools: [{python: send}]}"
    script = "[{tool_calls: [{name: send, arguments: {what: a}}]}, {text: Sent.}]"
    (tmp_path / "loom.yaml").write_text(
        f"{{version: 1, models: [{{id: M, sdk: fake, model: m, params: {{script: {script}}}}}],"
        f" agents: [{agent}], storage: {{events: {{backend: jsonl, path: data}}}}}}"
    )
    send = world.tool("send", side_effects="irreversible")

    async def scenario(host: Host) -> None:
        await host.loom(tmp_path / "loom.yaml", tools=[send]).run("clerk", "Do it", run_id="r1")

    report = await crash_everywhere(scenario, effects=world.effects)
    assert report.ok, report
    assert world.done["send:a"] > 1
    assert not (tmp_path / "data").exists()


async def test_runs_in_the_background(world: World) -> None:
    """Runs that are submitted are crashed too, and found again by whoever submits them again."""
    send = world.tool("send", side_effects="irreversible")
    config = clerk(calling(call("send", what="a")), saying("Sent."), tools=(send,))

    async def scenario(host: Host) -> None:
        loom = host.loom(config, tools=[send])
        await loom.submit("clerk", "Do it", run_id="r1")
        await loom.submit("clerk", "Do it too", run_id="r2")

    report = await crash_everywhere(scenario, effects=world.effects, level="power")
    assert report.ok, report
    assert report.points >= 16


async def test_only_what_was_asked_before_is_forgiven(world: World) -> None:
    """A run or a decision that no earlier life made is refused as ever."""
    send = world.tool("send", approval="always")
    config = clerk(calling(call("send", what="a")), saying("Sent."), tools=(send,))

    async def scenario(host: Host) -> None:
        loom = host.loom(config, tools=[send])
        result = await loom.run("clerk", "Do it", run_id="r1")
        if host.life == 1:
            with pytest.raises(RunExists):
                await loom.run("clerk", "Do it", run_id="r1")
        if result.pending_approvals:
            with pytest.raises(UnknownApproval):
                await loom.approve("r1", call_id="none")

    report = await crash_everywhere(scenario)
    assert report.ok, report
