"""`effects`: what a run did outside, or may have done, as its facts tell it."""

import asyncio
import contextlib
from dataclasses import replace
from typing import Any

import pytest

from loom_ia.app import approvals, cancel
from loom_ia.app.approvals import Ruling
from loom_ia.app.runs import resume
from loom_ia.core.errors import ToolError, UnknownEffect
from loom_ia.core.events.fold import fold
from loom_ia.core.model import ToolOutput
from loom_ia.core.model.tooling import arguments_digest
from loom_ia.core.state import RunState, SessionState, Status
from loom_ia.core.views.effects import EffectRecord, effects_of
from loom_ia.core.views.result import run_result
from loom_ia.graph import Graph
from tests.engine.world import Ask, Gate, Hand, Model, World, agent, run, running
from tests.graph.mortal import Mortal

HELD = 0.01  # seconds: a limit that something which never ends runs into
SENDS: dict[str, Any] = {"side_effects": "irreversible"}


def statuses(run: RunState) -> list[tuple[str, str]]:
    """Give the effects of a run by tool."""
    return [(effect.tool, effect.status) for effect in run_result(run).effects]


async def test_what_was_done_and_what_was_only_read() -> None:
    """A call with effects that gave a result is done; one without effects is none."""
    world = World()
    model = Model([Ask("send", {"to": "ana"}, "a"), Ask("look", {}, "b")], Ask("send", {}, "c"))
    program = agent(model, Hand("send", **SENDS), Hand("look"))
    state = await run(world.instance(program))
    first, second = run_result(state).effects
    assert first == EffectRecord(
        run_id="run-1",
        call_id="a",
        tool="send",
        key="run-1:1:a",
        arguments={"to": "ana"},
        digest=arguments_digest("send", {"to": "ana"}),
        side_effects="irreversible",
        status="done",
        at=first.at,
    )
    assert (second.call_id, second.key, second.status) == ("c", "run-1:2:c", "done")
    (again,) = (run for run in fold(await world.events("session-1")).values())
    assert run_result(again).effects == (first, second)


def _raise(error: BaseException) -> Any:
    raise error


@pytest.mark.parametrize(
    ("action", "remembers", "status"),
    [
        (lambda: _raise(ToolError("no such customer")), "nothing", "not_done"),
        (lambda: ToolOutput.of_error("no such customer"), "nothing", "not_done"),
        (lambda: _raise(KeyError("x")), "nothing", "unknown"),
        (lambda: _raise(KeyError("x")), "call", "not_done"),
        (lambda: _raise(asyncio.CancelledError()), "nothing", "unknown"),
        (lambda: _raise(UnknownEffect()), "nothing", "unknown"),
        (lambda: asyncio.Event().wait(), "nothing", "unknown"),
    ],
    ids=["said", "returned", "raised", "remembers", "cancelled itself", "cannot tell", "too slow"],
)
async def test_what_an_error_says_of_the_effect(action: Any, remembers: Any, status: str) -> None:
    """Only who declares that nothing happened is believed; any other error leaves it unknown."""
    hand = Hand(action=lambda _, __: action(), timeout=HELD, remembers=remembers, **SENDS)
    state = await run(World().instance(agent(Model(Ask()), hand)))
    assert state.status is Status.COMPLETED
    assert statuses(state) == [("act", status)]


async def test_an_action_under_approval_is_planned_then_done() -> None:
    """Until somebody decides it is planned; then it has the name of who approved it."""
    world = World()
    hand = Hand("send", approval="always", **SENDS)
    instance = world.instance(agent(Model(Ask("send", {"to": "ana"})), hand))
    state = await run(instance)
    assert statuses(state) == [("send", "planned")]
    (asked,) = state.pending
    ruling = Ruling("run-1", "ana", asked.call_id)
    await approvals.approve(instance, ruling, arguments={"to": "bob"})
    (effect,) = run_result(await resume(instance, "run-1")).effects
    assert (effect.status, effect.by, effect.arguments) == ("done", "ana", {"to": "bob"})


async def test_an_action_that_was_refused_is_not_done() -> None:
    """What nobody let happen is known not to have happened."""
    world = World()
    hand = Hand("send", approval="always", **SENDS)
    instance = world.instance(agent(Model(Ask("send")), hand))
    await run(instance)
    await approvals.reject(instance, Ruling("run-1", "ana"))
    assert statuses(await resume(instance, "run-1")) == [("send", "not_done")]


async def test_a_harmless_call_under_approval_is_no_effect() -> None:
    """Reading something under approval is nothing that an answer could claim to have done."""
    hand = Hand("read", approval="always")
    state = await run(World().instance(agent(Model(Ask("read")), hand)))
    assert state.status is Status.PAUSED
    assert statuses(state) == []


@pytest.mark.parametrize("begun", [True, False])
async def test_a_run_that_is_over_has_nothing_under_way(*, begun: bool) -> None:
    """Cancelled, what was begun may have happened, and what was asked did not."""
    world = World()
    gate = Gate()
    declared = SENDS if begun else {**SENDS, "approval": "always"}
    hand = Hand("send", lambda _, __: gate.stop(), **declared)
    instance = world.instance(agent(Model(Ask("send")), hand))
    async with running(run(instance)) as driving:
        if begun:
            await gate.reached()
            (state,) = fold(await world.events("session-1")).values()
            assert statuses(state) == [("send", "started")]
        else:
            await driving
        await cancel.cancel(instance, "run-1", by="ana")
        await driving
    (state,) = fold(await world.events("session-1")).values()
    assert statuses(state) == [("send", "unknown" if begun else "not_done")]


async def test_a_graph_has_the_effects_of_its_steps() -> None:
    """An effect inside a step has its key; one that raised is not done, one that reads is none."""
    world = Mortal()
    graph: Graph[dict[str, Any]] = Graph("mailing")

    @graph.step()
    async def work(state: dict[str, Any], ctx: Any) -> dict[str, Any]:
        await ctx.effect("look", lambda: "seen")
        await ctx.effect("mail:ana", lambda: "sent", side_effects="irreversible")
        with contextlib.suppress(ConnectionError):
            await ctx.effect(
                "mail:bob", lambda: _raise(ConnectionError("down")), side_effects="reversible"
            )
        return {}

    await graph.run(store=world.store(), run_id="run")
    (state,) = fold(await world.journal.read("default", "run")).values()
    found = [(effect.tool, effect.key, effect.status) for effect in run_result(state).effects]
    assert found == [("work", "mail:ana", "done"), ("work", "mail:bob", "not_done")]


async def test_a_step_that_acts_is_an_effect() -> None:
    """A step that is declared to act is an action of its own."""
    world = Mortal()
    graph: Graph[dict[str, Any]] = Graph("mailing")

    @graph.step(side_effects="irreversible")
    async def send(state: dict[str, Any]) -> dict[str, Any]:
        return {}

    await graph.run(store=world.store(), run_id="run")
    (state,) = fold(await world.journal.read("default", "run")).values()
    assert statuses(state) == [("send", "done")]


async def test_what_runs_below_did_is_among_the_effects() -> None:
    """With its session, a run has the effects of the runs that it opened."""
    world = World()
    session = SessionState()
    program = agent(Model(Ask("send")), Hand("send", **SENDS))
    await run(world.instance(program), run_id="run-1")
    await run(world.instance(program), run_id="run-2")
    runs = fold(await world.events("session-1"))
    above, below = runs["run-1"], runs["run-2"]
    session.put(above)
    session.put(below.but(header=replace(below.header, parent_run_id="run-1", root_run_id="run-1")))
    assert [effect.run_id for effect in effects_of(above, session)] == ["run-1", "run-2"]
    assert [effect.run_id for effect in effects_of(above)] == ["run-1"]
