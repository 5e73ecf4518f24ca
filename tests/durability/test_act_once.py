"""Whatever the instant of a crash, a tool that remembers acts at most once.

Keys are in the journal, which a crash may cut, or in a file beside it, which it may not.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest

from loom_ia.config.root import IdempotencyStorage, LoomConfig, Storage
from loom_ia.core.model import OnUnknown
from loom_ia.core.ports.tools import Tool
from loom_ia.testing import Host, RepeatableLoom, crash_everywhere
from loom_ia.tools import Done, NotDone, ToolContext, idempotent, tool
from tests.durability.clerk import World, call, calling, clerk, saying, unknown_calls


@pytest.fixture(params=["kill", "power"])
def level(request: pytest.FixtureRequest) -> Literal["kill", "power"]:
    """What a crash leaves."""
    return request.param


@pytest.fixture
def world() -> World:
    """What is outside of every process."""
    return World()


@pytest.fixture
def keys(tmp_path: Path) -> Callable[[Host], Storage]:
    """Give each trial a file of keys of its own, the same for all its lives."""
    trials: list[Path] = []

    def storage(host: Host) -> Storage:
        if host.life == 1:
            trials.append(tmp_path / f"keys-{len(trials)}.db")
        return Storage(idempotency=IdempotencyStorage(backend="sqlite", path=str(trials[-1])))

    return storage


def sender(
    world: World, *, on_unknown: OnUnknown = "error", reconcile: Any = None, **memo: Any
) -> Tool:
    """Make a tool that sends, and remembers it."""

    @idempotent(**memo)
    @tool(side_effects="irreversible", on_unknown=on_unknown, reconcile=reconcile)
    async def send(what: str) -> str:
        """Send."""
        return world.act(f"send:{what}")

    return send


def config(send: Tool) -> LoomConfig:
    """Describe a clerk that sends once."""
    return clerk(calling(call("send", what="a")), saying("Sent."), tools=(send,))


@pytest.mark.parametrize("backend", ["journal", "sqlite"])
async def test_a_technical_key(
    level: Literal["kill", "power"], world: World, keys: Callable[[Host], Storage], backend: str
) -> None:
    """A call that was interrupted acts at most once, and its result is found if it was kept."""
    send = sender(world)
    reused: list[str] = []

    async def scenario(host: Host) -> None:
        storage = keys(host) if backend == "sqlite" else Storage()
        loom = host.loom(config(send).model_copy(update={"storage": storage}), tools=[send])
        await loom.run("clerk", "Do it", run_id="r1")
        reused.extend(event.type for event in await loom.events("r1"))

    report = await crash_everywhere(scenario, effects=world.effects, level=level)
    assert report.ok, report
    assert report.points >= 6
    assert "idempotency.reused" in reused


async def test_f13_a_business_key(
    level: Literal["kill", "power"], world: World, keys: Callable[[Host], Storage]
) -> None:
    """Two runs that ask for one action do it at most once, and undisturbed the second reuses."""
    send = sender(world, key=lambda args: f"relance:{args['what']}")
    reused: list[int] = []

    async def scenario(host: Host) -> None:
        storage = keys(host)
        loom = host.loom(config(send).model_copy(update={"storage": storage}), tools=[send])
        for run_id in ("r1", "r2"):
            await loom.run("clerk", "Do it", run_id=run_id)
        types = [event.type for event in await loom.events("r2")]
        reused.append(types.count("idempotency.reused"))

    report = await crash_everywhere(scenario, effects=world.effects, level=level)
    assert report.ok, report
    assert reused[0] == 1


async def test_f13_a_business_key_with_a_question(
    level: Literal["kill", "power"], world: World, keys: Callable[[Host], Storage]
) -> None:
    """With `pause`, an action whose end nobody saw is done again only at a human's word."""
    send = sender(world, on_unknown="pause", key=["what"])

    async def finish(loom: RepeatableLoom, run_id: str) -> None:
        result = await loom.run("clerk", "Do it", run_id=run_id)
        while result.pending_approvals:
            assert result.pending_approvals[0].kind == "unknown_effect"
            await loom.approve(run_id, by="ana")
            result = await loom.resume(run_id)

    async def scenario(host: Host) -> None:
        storage = keys(host)
        loom = host.loom(config(send).model_copy(update={"storage": storage}), tools=[send])
        for run_id in ("r1", "r2"):
            await finish(loom, run_id)

    report = await crash_everywhere(scenario, effects=world.effects, level=level)
    assert report.ok, report


@pytest.mark.parametrize("backend", ["journal", "sqlite"])
async def test_reconcile_finds_out(
    level: Literal["kill", "power"], world: World, keys: Callable[[Host], Storage], backend: str
) -> None:
    """With an outside world that can be asked, the action is done once, whatever happens."""
    before = 0

    async def was_sent(args: dict[str, Any], ctx: ToolContext) -> object:
        return Done("send:a done") if world.done["send:a"] > before else NotDone()

    send = sender(world, reconcile=was_sent)
    unknown: list[str] = []
    trials: list[int] = []

    async def scenario(host: Host) -> None:
        nonlocal before
        if host.life == 1:
            before = world.done["send:a"]
            trials.append(before)
        storage = keys(host) if backend == "sqlite" else Storage()
        loom = host.loom(config(send).model_copy(update={"storage": storage}), tools=[send])
        await loom.run("clerk", "Do it", run_id="r1")
        unknown.extend(await unknown_calls(host, "r1"))

    report = await crash_everywhere(scenario, effects=world.effects, level=level)
    assert report.ok, report
    assert not unknown
    assert world.done["send:a"] == len(trials)


async def test_reconcile_without_a_memory(level: Literal["kill", "power"], world: World) -> None:
    """A tool that remembers nothing, but whose effect can be looked up, acts once, unasked.

    It is under approval and pauses on what is unknown: a person answers once, whatever happens.
    """
    before = 0
    questions: list[str] = []

    def was_paid(args: dict[str, Any], ctx: ToolContext) -> Done | NotDone:
        return Done("pay:a done") if world.done["pay:a"] > before else NotDone()

    @tool(side_effects="irreversible", approval="always", on_unknown="pause", reconcile=was_paid)
    async def pay(what: str) -> str:
        """Pay."""
        return world.act(f"pay:{what}")

    trials: list[int] = []

    async def scenario(host: Host) -> None:
        nonlocal before
        if host.life == 1:
            before = world.done["pay:a"]
            trials.append(before)
        agent = clerk(calling(call("pay", what="a")), saying("Paid."), tools=(pay,))
        loom = host.loom(agent, tools=[pay])
        result = await loom.run("clerk", "Pay it", run_id="r1")
        while result.pending_approvals:
            questions.extend(pending.kind for pending in result.pending_approvals)
            await loom.approve("r1", by="ana")
            result = await loom.resume("r1")
        assert not await unknown_calls(host, "r1")

    report = await crash_everywhere(scenario, effects=world.effects, level=level)
    assert report.ok, report
    assert set(questions) == {"approve"}
    assert world.done["pay:a"] == len(trials)


async def test_a_second_effect_is_seen(level: Literal["kill", "power"], world: World) -> None:
    """A tool that pretends to remember, and acts at each launch, is found out."""

    @idempotent
    @tool(side_effects="irreversible")
    async def send(what: str) -> str:
        """Send."""
        return world.act(f"send:{what}")

    class Forgetful:
        spec = send.spec
        check = staticmethod(send.check)

        async def call(self, arguments: Any, context: ToolContext) -> Any:
            return await send.call(arguments, ToolContext("t", "s", "r", "c", "clerk"))

    forgetful = Forgetful()

    async def scenario(host: Host) -> None:
        loom = host.loom(config(forgetful), tools=[forgetful])
        await loom.run("clerk", "Do it", run_id="r1")

    report = await crash_everywhere(scenario, effects=world.effects, level=level)
    assert not report.ok
    assert "happened 2 times" in str(report)
