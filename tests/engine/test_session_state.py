"""The state of a session: who writes it, when it counts, and where the model reads it."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from loom_ia.app import cancel, runs
from loom_ia.app.runs import Order
from loom_ia.core.errors import StateRefused
from loom_ia.core.events import Event, RunStarted, ToolCompleted, from_full
from loom_ia.core.events.fold import apply, begin
from loom_ia.core.json import JsonValue
from loom_ia.core.model import ModelRequest, ToolOutput
from loom_ia.core.model.session_state import StateKey, StateRules, StateSource
from loom_ia.core.plan import agent_plan
from loom_ia.core.state import RunState, SessionState, Status
from loom_ia.core.state.kept import present
from loom_ia.core.state.session import state_of
from loom_ia.engine.program import Program
from loom_ia.tools.subagent import SubagentTool
from tests.engine.world import Ask, Gate, Hand, Model, World, agent, results, run, running, settle

RULES = StateRules(
    {
        "client": StateKey("who it is", {"type": "string"}),
        "count": StateKey(schema={"type": "integer"}),
        "tone": StateKey(default="formal"),
    },
    shown=True,
)


def writes(**state: JsonValue) -> Any:
    """Make an action that writes in the state."""
    return lambda _, __: ToolOutput(data={"ok": True}, state=state)


async def pose(world: World, program: Program, run_id: str = "run-1", **state: Any) -> RunState:
    """Open a run with values, and drive it."""
    order = Order("clerk", "go", "session-1", run_id, state=state)
    opened = await runs.open_run(world.instance(program), order)
    return await runs.drive(world.instance(program), opened.pen, opened.program)


async def folded(world: World) -> SessionState:
    """Fold the session again, from what the journal wrote."""
    session = SessionState()
    for written in await world.events("session-1"):
        event = from_full(written.model_dump())
        known = session.runs.get(event.run_id)
        session.put(begin(event) if known is None else apply(known, event))
    return session


async def state(world: World, run_id: str = "run-1") -> dict[str, JsonValue]:
    """Give the state as a run sees it."""
    session = await folded(world)
    return state_of(session, session.runs[run_id])


async def kept(world: World) -> dict[str, JsonValue]:
    """Give what the session keeps."""
    return present((await folded(world)).kept)


def shown(request: ModelRequest) -> str:
    """Give what the last message of a request says."""
    *_, last = request.conversation()
    return last.as_text()


async def completed(world: World) -> list[ToolOutput]:
    """Give the outputs that are written, in order."""
    events: list[Event] = await world.events("session-1")
    return [e.payload.output for e in events if isinstance(e.payload, ToolCompleted)]


# -- posed by the caller ---------------------------------------------------------------------------


async def test_what_a_caller_poses_is_read_last_and_kept_for_the_next_run() -> None:
    """It is the last message of each request, in none of the history, and lasts."""
    world, model = World(), Model(Ask())
    program = agent(model, Hand(), state=RULES)
    await pose(world, program, client="ana")
    first, second = model.requests
    assert shown(first) == '[state] {"client": "ana", "tone": "formal"}'
    assert shown(second) == shown(first)
    assert second.messages[: len(first.messages)] == first.messages
    assert "client (who it is); count; tone" in first.system
    await pose(world, program, "run-2")
    third = model.requests[2]
    assert shown(third) == shown(first)
    assert "[state]" not in "".join(m.as_text() for m in (*third.history, *third.messages))
    assert third.system == first.system


async def test_a_caller_erases_with_none() -> None:
    """The key has no value any more, or its default again."""
    world = World()
    program = agent(Model(), state=RULES)
    await pose(world, program, client="ana", tone="warm", count=1)
    await pose(world, program, "run-2", client=None, tone=None)
    assert await state(world, "run-1") == {"client": "ana", "count": 1, "tone": "warm"}
    assert await state(world, "run-2") == {"count": 1, "tone": "formal"}
    assert await kept(world) == {"count": 1}


async def test_what_a_caller_may_not_pose_is_refused_whole() -> None:
    """Every key that is wrong is named with its remedy, and nothing is written."""
    world = World()
    rules = replace(RULES, keys={**RULES.keys, "id": StateKey(required=True)})
    program = agent(Model(), state=rules)
    with pytest.raises(StateRefused) as caught:
        await pose(world, program, client=3, nome="x", count=float("nan"), tone="x" * 2000)
    assert str(caught.value).splitlines() == [
        (
            "state.client: it does not fit its schema, 3 is not of type 'string' (give a value that"
            " does)"
        ),
        "state.nome: agent clerk declares no such key (its keys: client, count, tone, id)",
        (
            "state.count: it cannot be kept: count is nan, which JSON cannot hold"
            " (give what JSON can hold)"
        ),
        "state.tone: it is too large: 2002 > 1024 bytes (see sessions.state.max_value_bytes)",
        "state.id: agent clerk needs a value for it (give one: state=…, or --state id=…)",
    ]
    assert await world.events("session-1") == []


async def test_an_agent_without_state_takes_none() -> None:
    """A value for it is refused, and its requests and facts have nothing of a state."""
    world, model = World(), Model()
    with pytest.raises(StateRefused, match="agent clerk declares no key"):
        await pose(world, agent(model), client="ana")
    await pose(world, agent(model))
    assert model.requests[0].notes == ()
    (first, *_) = await world.events("session-1")
    assert isinstance(first.payload, RunStarted)
    assert "state" not in first.payload.model_dump_json()


async def test_a_required_key_may_come_from_an_earlier_run() -> None:
    """It is asked for once in a session, and again once it was erased."""
    world = World()
    rules = StateRules({"id": StateKey(schema={"type": "integer"}, required=True)})
    program = agent(Model(), state=rules)
    await pose(world, program, id=7)
    await pose(world, program, "run-2")
    assert await state(world, "run-2") == {"id": 7}
    with pytest.raises(StateRefused, match="agent clerk needs a value"):
        await pose(world, program, "run-3", id=None)


async def test_a_state_that_changed_since_it_was_checked_is_checked_again() -> None:
    """A key that another instance erased while a run was opened is missing when it is written."""
    world = World()
    program = agent(Model(), state=StateRules({"id": StateKey(required=True)}))
    free = agent(Model(), state=StateRules({"id": StateKey()}))
    await pose(world, program, id=1)
    opened = await runs.open_run(
        world.instance(program, "worker-2"), Order("clerk", "go", "session-1", "run-2")
    )
    await pose(world, free, "run-3", id=None)
    with pytest.raises(StateRefused):
        await runs.drive(world.instance(program, "worker-2"), opened.pen, opened.program)
    assert "run-2" not in (await folded(world)).runs


# -- written by tools ------------------------------------------------------------------------------


async def test_a_tool_writes_and_the_next_request_reads_it() -> None:
    """What it gives is kept in the fact of its end, and shown from the next request on."""
    world, model = World(), Model(Ask(), Ask("read"))
    read = Hand("read")
    program = agent(model, Hand("act", writes(client="ana", tone=None)), read, state=RULES)
    await pose(world, program, tone="warm")
    assert [shown(r) for r in model.requests] == [
        '[state] {"tone": "warm"}',
        '[state] {"client": "ana", "tone": "formal"}',
        '[state] {"client": "ana", "tone": "formal"}',
    ]
    assert (await completed(world))[0].state == {"client": "ana", "tone": None}
    assert dict(read.contexts[0].state) == {"client": "ana", "tone": "formal"}
    assert await kept(world) == {"client": "ana"}


async def test_a_tool_cannot_change_the_state_that_it_reads() -> None:
    """What it is given is a copy, and has no way to write."""
    world = World()

    def spoil(_: Any, context: Any) -> str:
        context.state["tone"].append("x")
        with pytest.raises(TypeError):
            context.state["client"] = "x"
        return "ok"

    await pose(world, agent(Model(Ask()), Hand("act", spoil), state=RULES), tone=["warm"])
    assert await state(world) == {"tone": ["warm"]}


async def test_a_refused_value_is_told_to_the_model_and_the_result_stays() -> None:
    """Each refusal is a `[state]` line under the result; what was sound is kept."""
    world, model = World(), Model(Ask())
    act = writes(client=3, nome="x", count=1)
    await pose(world, agent(model, Hand("act", act), state=RULES))
    ((_, text),) = results(model.requests[1])
    assert text.splitlines() == [
        '{"ok": true}',
        "[state] client was not kept: it does not fit its schema (3 is not of type 'string').",
        "[state] nome was not kept: there is no such key. Keys: client, count, tone.",
    ]
    (output,) = await completed(world)
    assert output.state == {"count": 1}
    assert [(r.key, r.kind) for r in output.state_refused] == [
        ("client", "misfit"),
        ("nome", "undeclared"),
    ]


async def test_a_key_takes_its_value_from_the_data_of_a_result() -> None:
    """A pointer finds it, also in a result that is put away; what the tool says itself wins."""
    world, model = World(), Model(Ask("look"))
    keys = {
        "client": StateKey(sources=(StateSource("look", "/people/0/name"),)),
        "count": StateKey(sources=(StateSource("look", "/count"),)),
        "seen": StateKey(sources=(StateSource("look", None, True),)),
        "lost": StateKey(sources=(StateSource("look", "/nowhere"),)),
    }
    data: JsonValue = {"people": [{"name": "ana"}], "count": 1, "more": "x" * 100_000}
    look = Hand("look", lambda _, __: ToolOutput(data=data, state={"count": 2}))
    await pose(world, agent(model, look, state=StateRules(keys)))
    assert await kept(world) == {"client": "ana", "count": 2, "seen": True}
    assert results(model.requests[1])[0][1].endswith(
        "[state] lost was not written: the result has nothing at '/nowhere'."
    )


async def test_the_order_of_the_calls_counts_and_not_that_of_their_ends() -> None:
    """The later call of a batch has the last word, though it ended first."""
    world, gate = World(), Gate()

    async def slowly(*_: Any) -> ToolOutput:
        await gate.stop()
        return ToolOutput(data=1, state={"client": "first"})

    async def at_once(*_: Any) -> ToolOutput:
        return ToolOutput(data=1, state={"client": "second"})

    model = Model([Ask("slow"), Ask("fast")])
    program = agent(model, Hand("slow", slowly), Hand("fast", at_once), state=RULES)
    async with running(pose(world, program)) as task:
        await gate.reached()
        await settle()
        gate.open()
        await task
    assert [o.state["client"] for o in await completed(world)] == ["second", "first"]
    assert await kept(world) == {"client": "second"}


async def test_calls_of_a_batch_share_the_room_that_there_is() -> None:
    """Together they never keep more than the limit, whoever ends first."""
    world = World()
    rules = StateRules({"a": StateKey(), "b": StateKey()}, max_total_bytes=40)
    both = (Hand("one", writes(a="x" * 20)), Hand("two", writes(b="y" * 20)))
    await pose(world, agent(Model([Ask("one"), Ask("two")]), *both, state=rules))
    assert await kept(world) == {"a": "x" * 20}
    assert [r.kind for o in await completed(world) for r in o.state_refused] == ["no_room"]


@pytest.mark.parametrize("how", ["failed", "cancelled"])
async def test_a_run_that_is_not_completed_leaves_only_what_was_posed(how: str) -> None:
    """Tools of a run that failed or was cancelled wrote for that run alone."""
    world, gate = World(), Gate()
    end = RuntimeError("down") if how == "failed" else gate
    program = agent(Model(Ask(), end), Hand("act", writes(count=1)), state=RULES)
    if how == "failed":
        await pose(world, program, client="ana")
    else:
        async with running(pose(world, program, client="ana")):
            await gate.reached()
            await cancel.cancel(world.instance(program), "run-1", by="ana")
            await settle()
    session = await folded(world)
    assert session.runs["run-1"].status in (Status.FAILED, Status.CANCELLED)
    assert present(session.kept) == {"client": "ana"}
    assert (await state(world))["count"] == 1


async def test_two_runs_at_once_do_not_see_each_other() -> None:
    """Each reads what it found; the one that is completed last has the last word on a key."""
    world, gate = World(), Gate()
    slow = agent(Model(Ask(), gate), Hand("act", writes(client="slow", count=1)), state=RULES)
    model = Model(Ask())
    fast = agent(model, Hand("act", writes(client="fast")), state=RULES)
    async with running(pose(world, slow)) as task:
        await gate.reached()
        await pose(world, fast, "run-2")
        assert shown(model.requests[0]) == '[state] {"tone": "formal"}'
        assert await kept(world) == {"client": "fast"}
        gate.open()
        await task
    assert await state(world, "run-1") == {"client": "slow", "count": 1, "tone": "formal"}
    assert await state(world, "run-2") == {"client": "fast", "tone": "formal"}
    assert await kept(world) == {"client": "slow", "count": 1}


async def test_the_last_answer_reads_the_state_before_the_order_to_conclude() -> None:
    """The state and the order are the last two messages."""
    world, model = World(), Model(Ask())
    await pose(world, agent(model, Hand(), state=RULES, max_iterations=1), client="ana")
    *_, before, last = model.requests[1].conversation()
    assert before.as_text().startswith("[state] ")
    assert last.as_text().startswith("You may not call")


async def test_a_state_that_is_not_shown_is_only_kept() -> None:
    """Without `session_state` in its context, the model reads nothing of it."""
    world, model = World(), Model()
    await pose(world, agent(model, state=replace(RULES, shown=False)), client="ana")
    assert model.requests[0].notes == ()
    assert "state" not in model.requests[0].system
    assert await kept(world) == {"client": "ana"}


async def test_an_agent_below_reads_the_state_of_the_one_that_asks() -> None:
    """It has the values of its own keys as they were when it was asked."""
    world, below = World(), Model()
    asked = replace(
        agent(below, state=replace(RULES, keys={"client": StateKey()})),
    )
    tool = SubagentTool.of("writer", "writes", lambda: asked)
    above = Model(Ask(), Ask("writer", {"message": "write"}))
    plan = agent_plan(
        name="clerk",
        model="M",
        system="",
        tools=(tool.spec, Hand().spec),
        state=RULES,
    )
    tools = {"writer": tool, "act": Hand("act", writes(client="ana", count=2))}
    await pose(world, Program(plan, {"M": above}, tools))
    assert shown(below.requests[0]) == '[state] {"client": "ana"}'
    assert await kept(world) == {"client": "ana", "count": 2}


async def test_hostile_values_of_a_tool_keep_nothing_out_but_themselves() -> None:
    """NaN, depth and size are refused one by one, and the journal can be read again."""
    world = World()
    deep: Any = 1
    for _ in range(70):
        deep = [deep]
    act = writes(client=float("nan"), count=10**5000, tone=deep)
    await pose(world, agent(Model(Ask()), Hand("act", act), state=RULES))
    (output,) = await completed(world)
    assert {r.kind for r in output.state_refused} == {"unstorable"}
    assert await state(world) == {"tone": "formal"}


async def test_a_crowd_of_runs_folds_as_it_was_driven() -> None:
    """Whatever the interleaving, folding the journal gives what the instance had in memory."""
    world = World()
    program = agent(Model(Ask()), Hand("act", writes(count=1)), state=RULES)
    instance = world.instance(program)

    async def one(number: int) -> None:
        order = Order("clerk", "go", "session-1", f"r{number}", state={"client": str(number)})
        opened = await runs.open_run(instance, order)
        await runs.drive(instance, opened.pen, opened.program)

    await asyncio.gather(*map(one, range(8)))
    again, log = await folded(world), instance.log("session-1")
    assert dict(again.kept) == dict(log.state.kept)
    assert await run(instance, run_id="last")
