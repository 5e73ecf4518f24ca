"""Calls of tools: together, in time, stopped, and what is learned of them afterwards."""

import asyncio
from typing import Any

import pytest

from loom_ia.app import runs
from loom_ia.app.cancel import cancel
from loom_ia.app.runs import Order, resume
from loom_ia.core.errors import ToolError
from loom_ia.core.events import ToolCompleted
from loom_ia.core.state import Status
from tests.engine.world import (
    Ask,
    Gate,
    Hand,
    Model,
    Told,
    Unsayable,
    World,
    agent,
    results,
    run,
    running,
    settle,
    stubborn,
    text_of,
)

SENDS: dict[str, Any] = {"side_effects": "irreversible"}
HELD = 0.01  # seconds: a limit that something which never ends runs into


async def ends(world: World) -> list[tuple[str, str | None, str]]:
    """Give the results of a session as they were written: call, outcome, text."""
    return [
        (e.payload.call_id, e.payload.outcome, e.payload.output.text)
        for e in await world.events("session-1")
        if isinstance(e.payload, ToolCompleted)
    ]


async def test_a8_calls_of_one_answer_run_together_and_are_read_in_order() -> None:
    """All are announced before any begins, each is written as it ends, in whatever order."""
    world = World()
    gates = {"a": Gate(), "b": Gate(), "c": Gate()}

    async def act(arguments: Any, _: object) -> str:
        await gates[arguments["name"]].stop()
        return arguments["name"]

    model = Model([Ask(call_id=name, arguments={"name": name}) for name in "abc"])
    instance = world.instance(agent(model, Hand(action=act)))
    async with running(run(instance)) as driving:
        for gate in gates.values():
            await gate.reached()
        assert (await world.types("session-1"))[-3:] == ["tool.called"] * 3
        for written, name in enumerate("cab", 1):
            gates[name].open()
            await settle()
            if written < 3:
                assert (await world.count("session-1"))["tool.completed"] == written
        assert text_of(await driving) == "done"
    assert [call_id for call_id, _, _ in await ends(world)] == ["c", "a", "b"]
    assert results(model.requests[-1]) == [("a", "a"), ("b", "b"), ("c", "c")]


async def test_results_that_come_together_are_one_batch() -> None:
    """Calls that end in the same instant cost one write, in call order."""
    world = World()
    gate = Gate()
    model = Model([Ask(call_id=name) for name in "abc"])
    instance = world.instance(agent(model, Hand(action=lambda _, __: gate.stop())))
    async with running(run(instance)) as driving:
        await gate.reached()
        gate.open()
        await driving
    assert [call_id for call_id, _, _ in await ends(world)] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("raised", "text"),
    [
        (ToolError("exactly this"), "exactly this"),
        (ValueError("bad"), "The tool failed: ValueError: bad"),
        (ValueError(), "The tool failed: ValueError"),
        (asyncio.CancelledError(), "The tool failed: CancelledError"),
        (ValueError("\ud800"), "The tool failed: ValueError: \ufffd"),
        (Unsayable(), "The tool failed: Unsayable"),
    ],
)
async def test_a12_a_tool_that_raises_gives_the_model_an_error(
    raised: BaseException, text: str
) -> None:
    """A fault of a tool is a fact that the model reads, and the run goes on."""

    def act(_: object, __: object) -> str:
        raise raised

    world = World()
    model = Model(Ask())
    state = await run(world.instance(agent(model, Hand(action=act, **SENDS))))
    assert text_of(state) == "done"
    assert results(model.requests[-1]) == [("c0.0", text)]
    assert await ends(world) == [("c0.0", None, text)]


async def test_pub_32_one_failing_call_does_not_touch_the_others() -> None:
    """Of five, one raises and one is late: three results and two errors, in call order."""

    async def act(arguments: Any, _: object) -> str:
        if arguments["n"] == 1:
            raise ValueError("bad")
        if arguments["n"] == 3:
            await asyncio.Event().wait()
        return f"result {arguments['n']}"

    model = Model([Ask(arguments={"n": n}) for n in range(5)])
    tool = Hand(action=act, timeout=HELD)
    assert text_of(await run(World().instance(agent(model, tool)))) == "done"
    texts = [text for _, text in results(model.requests[-1])]
    assert [texts[n] for n in (0, 2, 4)] == ["result 0", "result 2", "result 4"]
    assert "ValueError" in texts[1]
    assert "did not answer within 0.01 s" in texts[3]
    assert sorted(a["n"] for a in tool.runs) == [0, 1, 2, 3, 4]  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("declared", "outcome", "text"),
    [
        ({"side_effects": "none"}, None, "did not answer within 0.01 s."),
        (SENDS, "unknown", "not known whether it took effect"),
        ({"side_effects": "reversible"}, "unknown", "not known whether it took effect"),
        ({**SENDS, "idempotent": True}, None, "did not answer within 0.01 s."),
    ],
)
async def test_a_call_out_of_time_is_told_by_what_it_may_have_done(
    declared: dict[str, Any], outcome: str | None, text: str
) -> None:
    """Where nothing could have happened it is an error; elsewhere nobody knows."""
    world = World()
    tool = Hand(action=lambda _, __: asyncio.Event().wait(), timeout=HELD, **declared)
    model = Model(Ask())
    assert text_of(await run(world.instance(agent(model, tool)))) == "done"
    ((_, known, told),) = await ends(world)
    assert (known, text in told) == (outcome, True)
    assert tool.contexts[0].should_stop()
    assert len(tool.runs) == 1


async def test_a_call_out_of_time_can_be_put_to_a_human() -> None:
    """With `on_unknown: pause` the run waits, and says why."""
    world = World()
    tool = Hand(
        action=lambda _, __: asyncio.Event().wait(), timeout=HELD, on_unknown="pause", **SENDS
    )
    state = await run(world.instance(agent(Model(Ask()), tool)))
    assert state.status is Status.PAUSED
    ((call),) = state.pending
    assert call.question is not None
    assert call.question.kind == "unknown_effect"


async def test_a_late_result_answers_the_question_about_an_unknown_end() -> None:
    """When it is learned what the call did, no human is needed any more."""
    world = World()
    gate = Gate()
    tool = Hand(action=stubborn(gate, "sent"), timeout=HELD, on_unknown="pause", **SENDS)
    model = Model(Ask())
    instance = world.instance(agent(model, tool))
    assert (await run(instance)).status is Status.PAUSED
    gate.open()
    await instance.strays.join(5)
    assert text_of(await resume(instance, "run-1")) == "done"
    assert results(model.requests[-1]) == [("c0.0", "sent")]
    assert len(tool.runs) == 1


async def test_a_late_result_replaces_an_unknown_end_that_nobody_read_yet() -> None:
    """While other calls of the batch still run, the model has read nothing."""
    world = World()
    slow, other = Gate(), Gate()
    model = Model([Ask("send"), Ask("look")])
    send = Hand("send", stubborn(slow, "sent"), timeout=HELD, **SENDS)
    look = Hand("look", lambda _, __: other.stop())
    instance = world.instance(agent(model, send, look))
    told = Told(instance.log("session-1"), "tool.completed")
    async with running(run(instance)) as driving:
        await slow.reached()
        await told()
        slow.open()
        await instance.strays.join(5)
        other.open()
        await driving
    assert [outcome for _, outcome, _ in await ends(world)] == ["unknown", None, None]
    assert results(model.requests[-1])[0] == ("c0.0", "sent")


async def test_a_late_result_of_a_cancelled_run_is_kept() -> None:
    """What really happened is never lost: the next run of the session reads it."""
    world = World()
    gate = Gate()
    model = Model(Ask())
    instance = world.instance(agent(model, Hand(action=stubborn(gate, "sent"), **SENDS)))
    async with running(run(instance)) as driving:
        await gate.reached()
        await cancel(instance, "run-1", by="ada")
        assert (await driving).status is Status.CANCELLED
        gate.open()
        await instance.strays.join(5)
    assert (await world.types("session-1"))[-2:] == ["run.cancelled", "tool.completed"]
    model.replies[0] = "hello"
    state = await run(instance, "and?", run_id="run-2")
    assert state.status is Status.COMPLETED
    blocks = model.requests[-1].history[2].blocks
    assert [b.output.text for b in blocks if b.type == "tool_result"] == ["sent"]


async def test_pub_22_results_that_are_known_when_a_run_is_cancelled_are_kept() -> None:
    """One call ended and is being written, one ends meanwhile, one still runs: two are kept."""
    world = World()
    gates = {"a": Gate(), "b": Gate(), "c": Gate()}

    async def act(arguments: Any, _: object) -> str:
        await gates[arguments["name"]].stop()
        return arguments["name"]

    model = Model([Ask(call_id=name, arguments={"name": name}) for name in "abc"])
    instance = world.instance(agent(model, Hand(action=act, **SENDS)))
    opened = await runs.open_run(instance, Order("clerk", "go", "session-1", "run-1"))
    async with running(runs.drive(instance, opened.pen, opened.program)) as driving:
        for gate in gates.values():
            await gate.reached()
        await opened.log.lock.acquire()
        async with running(cancel(instance, "run-1", by="ada")) as cancelling:
            await settle()  # the cancel waits for the lock
            gates["a"].open()
            await settle()  # the driver waits behind it, with the result of a
            gates["b"].open()
            await settle()  # b ends while nobody looks
            opened.log.lock.release()
            assert await cancelling
        assert (await driving).status is Status.CANCELLED
    assert {call_id for call_id, _, _ in await ends(world)} == {"a", "b"}


async def test_a_result_is_refused_once_the_call_was_started_again() -> None:
    """A stray of an earlier launch does not stand for the present one."""
    world = World()
    old, new = Gate(), Gate()
    actions = {False: stubborn(old, "old"), True: stubborn(new, "new")}
    tool = Hand(action=lambda a, c: actions[c.resumed](a, c))
    model = Model(Ask())
    instance = world.instance(agent(model, tool))
    async with running(run(instance)) as driving:
        await old.reached()
        driving.cancel()
        await settle()
    async with running(resume(instance, "run-1")) as driving:
        await new.reached()
        old.open()
        await settle()
        assert await ends(world) == []
        new.open()
        assert text_of(await driving) == "done"
    assert [text for _, _, text in await ends(world)] == ["new"]


async def test_a_tool_is_told_what_it_may_know_of_its_call() -> None:
    """Ids, the caller, a key that stays the same, and whether it was launched before."""
    world = World()
    gate = Gate()
    tool = Hand(action=lambda _, c: "ok" if c.resumed else gate.stop())
    instance = world.instance(agent(Model(Ask(call_id="x")), tool))
    async with running(run(instance)):
        await gate.reached()
    assert text_of(await resume(instance, "run-1")) == "done"
    first, second = tool.contexts
    assert (first.run_id, first.session_id, first.call_id, first.agent) == (
        "run-1",
        "session-1",
        "x",
        "clerk",
    )
    assert first.idempotency_key == second.idempotency_key
    assert (first.resumed, second.resumed) == (False, True)
    assert (first.should_stop(), second.should_stop()) == (True, False)


async def test_an_id_that_a_model_uses_again_is_another_call() -> None:
    """Each turn has its own keys, so that a store of effects never mistakes one for the other."""
    tool = Hand()
    model = Model([Ask(call_id="x"), Ask(call_id="y")], Ask(call_id="x"))
    await run(World().instance(agent(model, tool)))
    assert len({context.idempotency_key for context in tool.contexts}) == 3


async def test_a9_a10_a_call_that_cannot_run_never_begins() -> None:
    """An unknown tool and wrong arguments are told, the corrected call is made."""
    world = World()
    tool = Hand("price", needs=["montant_ht"])
    model = Model(
        [Ask("abc"), Ask("price", {"ht": 1}), Ask("price", "{"), Ask("price", "[1]")],
        Ask("price", {"montant_ht": 1}),
    )
    assert text_of(await run(world.instance(agent(model, tool)))) == "done"
    told = [text for _, text in results(model.requests[1])]
    assert "Available tools: price" in told[0]
    assert "montant_ht: is missing" in told[1]
    assert "not a JSON object: {" in told[2]
    assert "not a JSON object: [1]" in told[3]
    assert tool.runs == [{"montant_ht": 1}]
    assert (await world.count("session-1"))["tool.called"] == 1
