"""Whatever the instant of the crash, a run comes to the same end, and nothing is done twice.

Each scenario is tried at both levels, and taken up in two ways: by a client that asks again, and
by `recover` before the client asks again.
"""

import asyncio
from collections.abc import Awaitable, Callable
from hashlib import sha256
from pathlib import Path
from typing import Literal, TypeAlias

import pytest

from loom_ia.access import Approved, Attachment
from loom_ia.adapters.models.fake import FakeModel
from loom_ia.agents import ApprovalSpec, StateKeySpec, StateSourceSpec
from loom_ia.config.root import ArtifactsStorage, LoomConfig, Storage
from loom_ia.core.errors import ModelError
from loom_ia.core.events.message import UserMessage
from loom_ia.core.model import ToolOutput
from loom_ia.core.model.content import ArtifactBlock
from loom_ia.core.ports.tools import Tool
from loom_ia.core.views.result import PendingApproval, RunResult
from loom_ia.testing import CrashReport, Host, RepeatableLoom, Scenario, crash_everywhere
from loom_ia.tools import tool
from tests.durability.clerk import MODEL, World, call, calling, clerk, saying, unknown_calls
from tests.pictures import png

Level: TypeAlias = Literal["kill", "power"]
Steps: TypeAlias = Callable[[RepeatableLoom, Host], Awaitable[object]]
MakeLoom: TypeAlias = Callable[[Host], RepeatableLoom]


@pytest.fixture(params=["kill", "power"])
def level(request: pytest.FixtureRequest) -> Level:
    """What a crash leaves."""
    return request.param


@pytest.fixture(params=["asked again", "recovered"])
def recovers(request: pytest.FixtureRequest) -> bool:
    """Whether `recover` goes first after a crash."""
    return request.param == "recovered"


@pytest.fixture
def world() -> World:
    """What is outside of every process."""
    return World()


@pytest.fixture
def survive(level: Level, recovers: bool, world: World):
    """Crash a scenario everywhere."""

    async def survive(make: MakeLoom, steps: Steps) -> CrashReport:
        async def scenario(host: Host) -> None:
            await steps(make(host), host)

        async def resume(host: Host) -> None:
            loom = make(host)
            await loom.recover()
            await steps(loom, host)

        after: Scenario | None = resume if recovers else None
        report = await crash_everywhere(scenario, effects=world.effects, level=level, resume=after)
        assert report.points >= 6, report.writes
        assert report.ok, report
        return report

    return survive


def maker(config: LoomConfig, *tools: Tool, **more: object) -> MakeLoom:
    """Give the function that makes the Loom of a scenario."""
    return lambda host: host.loom(config, tools=tools, **more)


def kept_under(folder: Path) -> list[str]:
    """List the files under a folder."""
    return [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]


async def ask(loom: RepeatableLoom, host: Host) -> RunResult:
    """Ask once."""
    return await loom.run("clerk", "Do it", run_id="r1")


async def ask_and_approve(loom: RepeatableLoom, host: Host) -> RunResult:
    """Ask, and say yes to whatever waits."""
    result = await ask(loom, host)
    while result.pending_approvals:
        await loom.approve("r1", call_id=result.pending_approvals[0].call_id, by="ana")
        result = await loom.resume("r1")
    return result


async def test_a_simple_tool(world: World, survive) -> None:
    """A tool without effects may run again, and the run completes."""
    look = world.tool("look")
    config = clerk(calling(call("look")), saying("Seen."), tools=(look,))
    await survive(maker(config, look), ask)


async def test_a_run_with_an_attachment(world: World, survive, tmp_path: Path) -> None:
    """What came with the request is there whenever the run goes on, and is kept once."""
    send = world.tool("send", side_effects="irreversible")
    config = clerk(calling(call("send", what="a")), saying("Sent."), tools=(send,))
    files = Storage(artifacts=ArtifactsStorage(backend="local", path=str(tmp_path)))
    make = maker(config.model_copy(update={"storage": files}), send)

    async def steps(loom: RepeatableLoom, host: Host) -> None:
        photo = Attachment(png(), "photo.png")
        result = await loom.run("clerk", "Do it", run_id="r1", attachments=[photo])
        (file,) = result.artifacts
        assert (file.name, file.origin) == ("photo.png", "attachment")
        assert await loom.artifact(file.uri) == png()
        events = await loom.events("r1")
        (asked,) = (e.payload for e in events if isinstance(e.payload, UserMessage))
        shown = [b.uri for b in asked.message.blocks if isinstance(b, ArtifactBlock)]
        assert shown == [file.uri]
        assert [e.type for e in events].count("artifact.stored") == 1

    await survive(make, steps)
    assert kept_under(tmp_path) == [f"default/r1/{sha256(png()).hexdigest()}.png"]


async def test_a_threaded_tool(world: World, survive) -> None:
    """A tool that runs in a thread is as safe as one that runs in the loop."""

    @tool(side_effects="irreversible")
    def send(what: str) -> str:
        """Send."""
        return world.act(f"send:{what}")

    config = clerk(calling(call("send", what="a")), saying("Sent."), tools=(send,))
    await survive(maker(config, send), ask)


async def test_an_irreversible_tool(world: World, survive) -> None:
    """An irreversible effect happens at most once, whatever the crash."""
    send = world.tool("send", side_effects="irreversible")
    config = clerk(calling(call("send", what="a")), saying("Sent."), tools=(send,))
    await survive(maker(config, send), ask)


async def test_an_idempotent_tool(world: World, survive) -> None:
    """An irreversible tool that says it is idempotent is launched again after a crash."""
    relaunched: list[bool] = []

    @tool(side_effects="irreversible", idempotent=True)
    async def put(what: str) -> str:
        """Put."""
        relaunched.append(True)
        return world.act(f"put:{what}")

    config = clerk(calling(call("put", what="a")), saying("Put."), tools=(put,))
    report = await survive(maker(config, put), ask)
    assert len(relaunched) > 1 + report.points + report.doubles


async def test_parallel_calls_with_one_approval(world: World, survive) -> None:
    """Calls of one answer each act once, the one that waits for a human included."""
    look = world.tool("look")
    book = world.tool("book", side_effects="irreversible")
    send = world.tool("send", side_effects="irreversible", approval="always")
    tools = (look, book, send)
    calls = calling(call("look"), call("book", what="b"), call("send", what="s"))
    await survive(maker(clerk(calls, saying("Done."), tools=tools), *tools), ask_and_approve)


async def test_on_unknown_error(world: World, survive) -> None:
    """A call that was interrupted is told to the model as unknown, and not made again."""
    send = world.tool("send", side_effects="irreversible", on_unknown="error")
    config = clerk(calling(call("send", what="a")), saying("Over."), tools=(send,))
    told: list[str] = []

    async def steps(loom: RepeatableLoom, host: Host) -> None:
        await ask(loom, host)
        told.extend(await unknown_calls(host, "r1"))

    await survive(maker(config, send), steps)
    assert told


async def test_on_unknown_pause(world: World, survive) -> None:
    """A call that was interrupted waits for a human, and is made again only at his word."""
    send = world.tool("send", side_effects="irreversible", on_unknown="pause")
    config = clerk(calling(call("send", what="a")), saying("Over."), tools=(send,))
    questions: set[str] = set()

    async def steps(loom: RepeatableLoom, host: Host) -> None:
        result = await ask(loom, host)
        while result.pending_approvals:
            questions.update(pending.kind for pending in result.pending_approvals)
            await loom.approve("r1", by="ana")
            result = await loom.resume("r1")

    await survive(maker(config, send), steps)
    assert questions == {"unknown_effect"}


async def test_on_unknown_pause_refused(world: World, survive) -> None:
    """A call that was interrupted and is refused by a human is never made again."""
    send = world.tool("send", side_effects="irreversible", on_unknown="pause")
    config = clerk(calling(call("send", what="a")), saying("Over."), tools=(send,))

    async def steps(loom: RepeatableLoom, host: Host) -> None:
        result = await ask(loom, host)
        while result.pending_approvals:
            await loom.reject("r1", by="ana", reason="never mind")
            result = await loom.resume("r1")

    before = world.done["send:a"]
    report = await survive(maker(config, send), steps)
    assert world.done["send:a"] - before <= 1 + report.points + report.doubles


async def test_a_tool_that_times_out(world: World, survive) -> None:
    """A call that does not answer in time is unknown, and not made again."""

    @tool(side_effects="irreversible", timeout=0.005)
    async def send(what: str) -> str:
        """Send."""
        world.act(f"send:{what}")
        await asyncio.Event().wait()
        return "never"

    config = clerk(calling(call("send", what="a")), saying("Over."), tools=(send,))
    await survive(maker(config, send), ask)


async def test_an_agent_that_times_out_then_resumes(world: World, survive) -> None:
    """A run that used up its time fails, and goes on with a fresh allowance."""

    def make(host: Host) -> RepeatableLoom:
        @tool(side_effects="irreversible", timeout=None)
        async def send(what: str) -> str:
            """Send."""
            host.clock.advance(100)
            return world.act(f"send:{what}")

        script = (calling(call("send", what="a")), calling(call("send", what="b")), saying("Over."))
        return host.loom(clerk(*script, tools=(send,), timeout=60), tools=[send])

    async def steps(loom: RepeatableLoom, host: Host) -> None:
        result = await ask(loom, host)
        while result.error_type == "timeout":
            result = await loom.resume("r1")

    await survive(make, steps)


def _cancelling(tools: Callable[[asyncio.Event], Tool]) -> Scenario:
    """Give a scenario that cancels its run once the tool has started."""

    async def scenario(host: Host) -> None:
        started = asyncio.Event()
        look = tools(started)
        config = clerk(calling(call("look")), saying("Seen."), tools=(look,))
        loom = host.loom(config, tools=[look])
        driving = asyncio.create_task(loom.run("clerk", "Do it", run_id="r1"))
        ready = asyncio.create_task(started.wait())
        await asyncio.wait((driving, ready), return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        await loom.cancel("r1")
        await driving

    return scenario


async def test_cancel(level: Level) -> None:
    """A run that is cancelled while a tool runs is cancelled for good."""

    def looking(started: asyncio.Event) -> Tool:
        @tool(timeout=None)
        async def look() -> str:
            """Look."""
            started.set()
            await asyncio.Event().wait()
            return "never"

        return look

    report = await crash_everywhere(_cancelling(looking), level=level)
    assert report.ok, report


async def test_cancel_of_an_irreversible_call(world: World, level: Level) -> None:
    """What was cut short is unknown: if the cancel came too late, the run completes without it."""

    def sending(started: asyncio.Event) -> Tool:
        @tool(name="look", side_effects="irreversible", timeout=None)
        async def send() -> str:
            """Send."""
            world.act("look")
            started.set()
            await asyncio.Event().wait()
            return "never"

        return send

    report = await crash_everywhere(
        _cancelling(sending),
        effects=world.effects,
        level=level,
        allow=lambda outcome: outcome["r1"].status == "completed",
    )
    assert report.ok, report


async def test_cancel_of_a_run_that_waits(world: World, survive) -> None:
    """A run that waits for a human is cancelled, its question withdrawn, its call never made."""
    send = world.tool("send", side_effects="irreversible", approval="always")
    config = clerk(calling(call("send", what="a")), saying("Sent."), tools=(send,))

    async def steps(loom: RepeatableLoom, host: Host) -> None:
        await ask(loom, host)
        await loom.cancel("r1")

    await survive(maker(config, send), steps)
    assert not world.done


async def test_two_runs_in_one_session(world: World, survive) -> None:
    """The second run of a session is as safe as the first, and leaves it alone."""
    send = world.tool("send", side_effects="irreversible")
    config = clerk(calling(call("send", what="a")), saying("Sent."), tools=(send,))

    async def steps(loom: RepeatableLoom, host: Host) -> None:
        await loom.run("clerk", "Do it", run_id="r1", session_id="s")
        await loom.run("clerk", "And again", run_id="r2", session_id="s")

    report = await survive(maker(config, send), steps)
    assert report.points >= 12


async def test_two_runs_at_once_in_one_session(world: World, survive) -> None:
    """Two runs that write to one session at the same time both come to their end."""
    send = world.tool("send", side_effects="irreversible")
    config = clerk(calling(call("send", what="a")), saying("Sent."), tools=(send,))

    async def steps(loom: RepeatableLoom, host: Host) -> None:
        await asyncio.gather(
            loom.run("clerk", "Do it", run_id="r1", session_id="s"),
            loom.run("clerk", "You too", run_id="r2", session_id="s"),
        )

    await survive(maker(config, send), steps)


async def test_an_edited_approval(world: World, survive) -> None:
    """A call that a human edited is made once, with what the human wrote."""
    send = world.tool("send", side_effects="irreversible", approval="always")
    config = clerk(calling(call("send", what="a")), saying("Sent."), tools=(send,))

    async def steps(loom: RepeatableLoom, host: Host) -> None:
        result = await ask(loom, host)
        for pending in result.pending_approvals:
            await loom.approve("r1", call_id=pending.call_id, arguments={"what": "b"})
            await loom.resume("r1")

    await survive(maker(config, send), steps)
    assert world.done.keys() == {"send:b"}


async def test_a_rejection(world: World, survive) -> None:
    """A call that a human refused is never made."""
    send = world.tool("send", side_effects="irreversible", approval="always")
    config = clerk(calling(call("send", what="a")), saying("Not sent."), tools=(send,))

    async def steps(loom: RepeatableLoom, host: Host) -> None:
        result = await ask(loom, host)
        if result.pending_approvals:
            await loom.reject("r1", reason="no")
            await loom.resume("r1")

    await survive(maker(config, send), steps)
    assert not world.done


@pytest.mark.parametrize("action", ["deny", "fail"])
async def test_an_expiry(world: World, survive, action: Literal["deny", "fail"]) -> None:
    """A question that nobody answered in time is settled as the agent says, and once."""
    send = world.tool("send", side_effects="irreversible", approval="always")
    rule = ApprovalSpec(expires_in=3600, on_expiry=action)
    config = clerk(calling(call("send", what="a")), saying("Over."), tools=(send,), approval=rule)

    async def steps(loom: RepeatableLoom, host: Host) -> None:
        result = await ask(loom, host)
        if result.pending_approvals:
            host.clock.advance(3601)
            await loom.resume("r1")

    await survive(maker(config, send), steps)
    assert not world.done


class _Outage(FakeModel):
    """A model that plays its script, save that it fails after a call while it is `down`."""

    down = False

    async def stream(self, request):
        if self.down and any(message.role == "tool" for message in request.messages):
            raise ModelError("overloaded", "the model is down")
        async for chunk in super().stream(request):
            yield chunk


async def test_a_failed_model_call_then_resume(world: World, survive) -> None:
    """A run whose model failed after an effect goes on from there, without doing it again."""
    send = world.tool("send", side_effects="irreversible", approval="always")
    script = [calling(call("send", what="a")), saying("Sent.")]
    config = clerk(*script, tools=(send,))
    model = _Outage(config.models[0])
    asked: list[str] = []

    async def steps(loom: RepeatableLoom, host: Host) -> None:
        model.down = True
        result = await ask_and_approve(loom, host)
        if result.status == "failed":
            assert result.error_type == "model.overloaded"
            model.down = False
            result = await loom.resume("r1")
            asked.extend(pending.call_id for pending in result.pending_approvals)

    await survive(maker(config, send, models={MODEL: model}), steps)
    assert not asked


async def test_an_inline_approver(world: World, survive) -> None:
    """A function that decides in line is as safe as a human who decides later."""
    send = world.tool("send", side_effects="irreversible", approval="always")
    config = clerk(calling(call("send", what="a")), saying("Sent."), tools=(send,))

    def approver(pending: PendingApproval) -> Approved:
        return Approved(reason=f"{pending.tool_name} is fine")

    async def steps(loom: RepeatableLoom, host: Host) -> None:
        await loom.run("clerk", "Do it", run_id="r1", approver=approver)

    await survive(maker(config, send), steps)


async def test_a_forced_answer(world: World, survive) -> None:
    """A run that used up its iterations concludes once, without the calls it still asks for."""
    send = world.tool("send", side_effects="irreversible")
    script = [
        calling(call("send", what="a")),
        {**calling(call("send", what="b")), "text": "I give up."},
    ]
    await survive(maker(clerk(*script, tools=(send,), max_iterations=1), send), ask)
    assert world.done.keys() == {"send:a"}


async def test_invalid_arguments_then_a_correction(world: World, survive) -> None:
    """A call that cannot run is told so, and only the corrected one acts."""
    send = world.tool("send", side_effects="irreversible")
    script = [
        calling(call("send", what=12)),
        calling(call("send", what="a")),
        saying("Sent."),
    ]
    await survive(maker(clerk(*script, tools=(send,)), send), ask)
    assert world.done.keys() == {"send:a"}


async def test_the_state_of_a_session(world: World, survive) -> None:
    """What was posed and written is the same whatever the crash, and a value is written once."""

    @tool(side_effects="irreversible")
    async def note(what: str) -> ToolOutput:
        """Note."""
        world.act(f"note:{what}")
        return ToolOutput(data={"name": what}, state={"seen": True, "wrong": 1})

    keys = {
        "client": StateKeySpec(required=True),
        "seen": StateKeySpec(schema={"type": "boolean"}),
        "name": StateKeySpec(sources=(StateSourceSpec(tool="note", path="/name"),)),
    }
    config = clerk(calling(call("note", what="a")), saying("Noted."), tools=(note,), state=keys)

    async def steps(loom: RepeatableLoom, host: Host) -> None:
        result = await loom.run("clerk", "Do it", run_id="r1", state={"client": "ana"})
        if await unknown_calls(host, "r1"):
            assert result.state == {"client": "ana"}
        else:
            assert result.state == {"client": "ana", "seen": True, "name": "a"}

    await survive(maker(config, note), steps)
