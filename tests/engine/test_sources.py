"""Tools from outside are there for one drive; a source that fails takes only its own away."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from loom_ia.app import approvals, cancel, runs
from loom_ia.app.approvals import Ruling
from loom_ia.core.errors import DecisionRefused, SourceUnavailable
from loom_ia.core.events import CircuitOpened, Event, Payload, SourceOpened, ToolWithheld
from loom_ia.core.events import SourceUnavailable as Unavailable
from loom_ia.core.json import digest
from loom_ia.core.model.decisions import Continue
from loom_ia.core.model.policy import PolicyPoint
from loom_ia.core.ports.sources import NamedTools, OfferedTool, SourceContext
from loom_ia.core.state.run import Failed, Status
from loom_ia.engine.program import Fitted, Program, SourceBinding
from loom_ia.engine.stages import Heard, reviews_of
from loom_ia.testing import FakeSource
from tests.engine.world import Ask, Gate, Hand, Model, World, agent, results, run, stubborn, text_of

Fact = TypeVar("Fact", bound=Payload)


def of(events: Sequence[Event], kind: type[Fact]) -> list[Fact]:
    """Give the facts of a kind."""
    return [event.payload for event in events if isinstance(event.payload, kind)]


def fit(offered: Sequence[OfferedTool], withheld: Mapping[str, str]) -> Fitted:
    """Take every tool as it is: those of these tests bear the names that models see."""
    tools = {each.name: each.tool for each in offered}
    specs = [tool.spec.model_dump(mode="json") for tool in tools.values()]
    return Fitted(tools, dict(withheld), digest(specs)[:16])


def bound(
    program: Program, source: object, *, required: bool = False, name: str = "crm"
) -> Program:
    """Give a program a source besides those that it has."""
    binding = SourceBinding(name, source, fit, (name,), required)  # type: ignore[arg-type]
    return replace(program, sources=(*program.sources, binding))


def offered(request: object) -> list[str]:
    """Give the names of the tools that a model was shown."""
    return [tool.name for tool in request.tools]  # type: ignore[attr-defined]


async def test_a_run_is_offered_the_tools_of_its_source() -> None:
    """They come after its own, are called like any other, and are let go at the end."""
    find, own = Hand("crm__find", lambda *_: "found"), Hand("own")
    source, model, world = FakeSource(find), Model([Ask("crm__find", {"q": 1})], "done"), World()
    state = await run(world.instance(bound(agent(model, own), source)))
    assert text_of(state) == "done"
    assert offered(model.requests[0]) == ["own", "crm__find"]
    assert find.runs == [{"q": 1}]
    assert (len(source.opened), source.open_now) == (1, 0)
    assert source.opened[0].session_id == "session-1"
    (opened,) = of(await world.events("session-1"), SourceOpened)
    assert opened.source == "crm"
    assert opened.tools == ("crm__find",)


async def test_a_source_that_is_down_is_told_and_the_run_goes_on() -> None:
    """The other sources stay."""
    down, up = FakeSource(down="no route to host"), FakeSource(Hand("math__add"))
    model, world = Model("done"), World()
    program = bound(bound(agent(model, Hand("own")), down), up, name="math")
    state = await run(world.instance(program))
    assert text_of(state) == "done"
    assert offered(model.requests[0]) == ["own", "math__add"]
    (lost,) = of(await world.events("session-1"), Unavailable)
    assert (lost.source, lost.error, lost.required) == ("crm", "no route to host", False)


async def test_a_source_that_is_left_alone_is_told() -> None:
    """As a model that fails too often is."""
    gone = SourceUnavailable("no route to host")
    gone.circuit = (5, 60.0)
    world = World()
    state = await run(world.instance(bound(agent(Model("done")), FakeSource(down=gone))))
    assert text_of(state) == "done"
    (fact,) = of(await world.events("session-1"), CircuitOpened)
    assert (fact.target_kind, fact.target, fact.failures, fact.cooldown_s) == (
        "mcp",
        "crm",
        5,
        60.0,
    )
    assert fact.error == "no route to host"


async def test_a_required_source_that_is_down_fails_the_run_until_it_is_back() -> None:
    """The run says why, and can be resumed."""
    source = FakeSource(Hand("crm__find"), down="no route to host")
    model, world = Model("done"), World()
    instance = world.instance(bound(agent(model), source, required=True))
    state = await run(instance)
    assert state.outcome == Failed("tool.source_unavailable", "crm: no route to host")
    assert not model.requests
    source.down = ""
    assert text_of(await runs.resume(instance, "run-1")) == "done"
    assert offered(model.requests[0]) == ["crm__find"]
    assert (await world.types("session-1")).count("tool.source_unavailable") == 1


@pytest.mark.parametrize("raised", [RuntimeError("boom"), asyncio.CancelledError(), ValueError()])
async def test_whatever_a_source_raises_is_contained(raised: BaseException) -> None:
    """Its kind is told, and the run ends well."""
    model, world = Model("done"), World()
    state = await run(world.instance(bound(agent(model), FakeSource(down=raised))))
    assert text_of(state) == "done"
    (lost,) = of(await world.events("session-1"), Unavailable)
    assert lost.error.startswith(type(raised).__name__)


class Odd:
    """A source that a test writes by hand."""

    def __init__(
        self, *, hangs: Gate | None = None, bad_list: bool = False, bad_close: bool = False
    ):
        self.hangs = hangs
        self.bad_list = bad_list
        self.bad_close = bad_close
        self.tasks: list[object] = []

    async def open(self, context: SourceContext) -> "Odd":
        self.tasks.append(asyncio.current_task())
        if self.hangs is not None:
            await self.hangs.stop()
        return self

    @property
    def tools(self) -> tuple[OfferedTool, ...]:
        if self.bad_list:
            raise RuntimeError("boom")
        return ()

    @property
    def withheld(self) -> Mapping[str, str]:
        return {}

    async def close(self) -> None:
        self.tasks.append(asyncio.current_task())
        if self.bad_close:
            raise RuntimeError("boom")

    async def aclose(self) -> None:
        """Nothing to let go of."""


async def test_a_source_is_opened_and_closed_by_one_task() -> None:
    """What it opens may belong to that task; one that fails on leaving fails nothing."""
    source, world = Odd(bad_close=True), World()
    state = await run(world.instance(bound(agent(Model("done")), source)))
    assert text_of(state) == "done"
    first, last = source.tasks
    assert first is last


async def test_a_source_whose_list_fails_is_closed() -> None:
    """It was opened: it is let go of."""
    source, world = Odd(bad_list=True), World()
    state = await run(world.instance(bound(agent(Model("done")), source)))
    assert text_of(state) == "done"
    assert len(source.tasks) == 2
    (lost,) = of(await world.events("session-1"), Unavailable)
    assert lost.error == "RuntimeError: boom"


async def test_a_source_that_hangs_is_given_up() -> None:
    """However it is written, it does not hold the run."""
    source, world = Odd(hangs=Gate()), World()
    program = agent(Model("done"))
    binding = SourceBinding("crm", source, fit, ("crm",), open_timeout=0.01)
    state = await run(world.instance(replace(program, sources=(binding,))))
    assert text_of(state) == "done"
    (lost,) = of(await world.events("session-1"), Unavailable)
    assert lost.error == "it did not open within 0.01 s"


async def test_a_run_is_cancelled_while_its_source_opens() -> None:
    """Nobody waits for the source."""
    gate = Gate()
    source, world = Odd(hangs=gate), World()
    instance = world.instance(bound(agent(Model("done")), source))
    driving = asyncio.ensure_future(run(instance))
    await gate.reached()
    await cancel.cancel(instance, "run-1", by="me")
    assert (await driving).status is Status.CANCELLED


async def test_the_time_of_a_run_holds_while_its_source_opens() -> None:
    """A run has a `timeout` whatever it waits for."""
    source, world = Odd(hangs=Gate()), World()
    state = await run(world.instance(bound(agent(Model("done"), timeout=0.01), source)))
    assert isinstance(state.outcome, Failed)
    assert state.outcome.error_type == "timeout"


async def test_a_drive_that_is_cut_closes_its_sources() -> None:
    """Whoever drives is cancelled: the tools are let go, and the run can be resumed."""
    gate = Gate()
    find = Hand("crm__find", lambda *_: gate.stop())
    source, model, world = FakeSource(find), Model([Ask("crm__find")], "done"), World()
    instance = world.instance(bound(agent(model), source))
    driving = asyncio.ensure_future(run(instance))
    await gate.reached()
    assert source.open_now == 1
    driving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await driving
    await instance.strays.join(1.0)
    assert source.open_now == 0


async def test_a_call_that_goes_on_keeps_its_source_open() -> None:
    """The run is over for whoever asked; the source is closed once the call has really ended."""
    gate = Gate()
    find = Hand("crm__find", stubborn(gate))
    source, world = FakeSource(find), World()
    instance = world.instance(bound(agent(Model([Ask("crm__find")], "done")), source))
    driving = asyncio.ensure_future(run(instance))
    await gate.reached()
    await cancel.cancel(instance, "run-1", by="me")
    assert (await driving).status is Status.CANCELLED
    assert source.open_now == 1
    gate.open()
    await instance.strays.join(5.0)
    assert source.open_now == 0


async def test_what_a_tool_gave_is_looked_at_although_its_source_is_gone() -> None:
    """A policy that reads results is not passed by because a server went away meanwhile."""
    gate, seen = Gate(), list[str]()

    class Look:
        """Reads results; the first time, it is still at it when the process dies."""

        name, points, once, timeout, tools = (
            "look",
            frozenset({PolicyPoint.AFTER_TOOL}),
            False,
            None,
            None,
        )

        async def hear(self, subject: Any, asking: Any) -> Heard:
            seen.append(subject.output.text)
            if len(seen) == 1:
                await gate.stop()
            return Heard(Continue())

        def failed(self, error: str) -> Heard:
            raise AssertionError(error)

    find = Hand("crm__find", lambda *_: "found", side_effects="irreversible")
    source, model, world = FakeSource(find), Model([Ask("crm__find")], "done"), World()
    stages = (Look(),)
    program = bound(agent(model, reviews=reviews_of(stages)), source)
    instance = world.instance(replace(program, stages=stages))
    driving = asyncio.ensure_future(run(instance))
    await gate.reached()
    driving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await driving
    source.down = "gone"
    assert text_of(await runs.resume(instance, "run-1")) == "done"
    assert seen == ["found", "found"]
    assert find.runs == [{}]


async def test_what_does_not_change_is_told_once() -> None:
    """Another drive of the same run writes nothing about a source that is as it was."""
    act = Hand("crm__act", approval="always", side_effects="irreversible")
    source, down, world = FakeSource(act), FakeSource(down="gone"), World()
    source.withheld["bad"] = "its schema is none"
    model = Model([Ask("crm__act")], "done")
    instance = world.instance(bound(bound(agent(model), source), down, name="math"))
    assert (await run(instance)).status is Status.PAUSED
    await approvals.approve(instance, Ruling("run-1", "me"))
    assert text_of(await runs.resume(instance, "run-1")) == "done"
    assert act.runs == [{}]
    events = await world.events("session-1")
    assert len(of(events, SourceOpened)) == 1
    assert len(of(events, Unavailable)) == 1
    (kept_back,) = of(events, ToolWithheld)
    assert (kept_back.tool, kept_back.reason) == ("bad", "its schema is none")


async def test_edited_arguments_are_checked_by_the_tool_of_the_source() -> None:
    """While the run is paused, the source is asked; when it is down, nothing is decided."""
    act = Hand("crm__act", approval="always", needs=("to",))
    source, world = FakeSource(act), World()
    instance = world.instance(bound(agent(Model([Ask("crm__act", {"to": "a"})], "done")), source))
    assert (await run(instance)).status is Status.PAUSED
    call_id = "c0.0"
    with pytest.raises(DecisionRefused, match="to: is missing"):
        await approvals.approve(instance, Ruling("run-1", "me", call_id), arguments={})
    source.down = "no route to host"
    with pytest.raises(DecisionRefused, match="crm: no route to host"):
        await approvals.approve(instance, Ruling("run-1", "me", call_id), arguments={"to": "b"})
    source.down = ""
    await approvals.approve(instance, Ruling("run-1", "me", call_id), arguments={"to": "b"})
    await runs.resume(instance, "run-1")
    assert act.runs == [{"to": "b"}]
    assert source.open_now == 0


async def test_a_call_whose_source_is_gone_is_told_to_the_model() -> None:
    """It was approved, and cannot be made: the model reads that, and the run goes on."""
    act = Hand("crm__act", approval="always", side_effects="irreversible")
    source, world = FakeSource(act), World()
    model = Model([Ask("crm__act")], "done")
    instance = world.instance(bound(agent(model), source))
    await run(instance)
    await approvals.approve(instance, Ruling("run-1", "me"))
    source.down = "gone"
    assert text_of(await runs.resume(instance, "run-1")) == "done"
    assert act.runs == []
    ((_, said),) = results(model.requests[-1])
    assert said.startswith("The tool crm__act was not called: it cannot be reached")


async def test_tools_that_change_are_told_again() -> None:
    """Between two drives of a run, what the source gives may change."""
    act = Hand("crm__act", approval="always")
    source, world = FakeSource(act), World()
    model = Model([Ask("crm__act")], "done")
    instance = world.instance(bound(agent(model), source))
    await run(instance)
    source.offer(act, Hand("crm__new"))
    await approvals.approve(instance, Ruling("run-1", "me"))
    await runs.resume(instance, "run-1")
    assert [fact.tools for fact in of(await world.events("session-1"), SourceOpened)] == [
        ("crm__act",),
        ("crm__act", "crm__new"),
    ]
    assert offered(model.requests[-1]) == ["crm__act", "crm__new"]


async def test_a_listing_that_stays_the_same_is_one_plan() -> None:
    """Two runs of an agent are driven under the same plan: nothing is computed again."""
    source, world = FakeSource(Hand("crm__find")), World()
    program = bound(agent(Model("one", "two")), source)
    instance = world.instance(program)
    await run(instance, run_id=None, session_id=None)
    await run(instance, run_id=None, session_id=None)
    assert len(program.plan._equipped) == 1


async def test_the_open_tools_of_a_list_need_no_closing() -> None:
    """The usual `OpenTools` are what is known."""
    given = NamedTools((OfferedTool("x", Hand("x")),))
    await given.close()
    assert given.withheld == {}
