"""The function that answers in line: it is asked once, and only a decision decides."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from loom_ia.app import runs
from loom_ia.app.runs import Order, resume
from loom_ia.core.errors import DecisionRefused
from loom_ia.core.events import ApprovalGranted, ApprovalRejected, Event
from loom_ia.core.state import Status
from loom_ia.core.views.result import PendingApproval
from loom_ia.engine.program import Approved, Approver, Rejected
from tests.engine.world import (
    Ask,
    Hand,
    Model,
    Unsayable,
    World,
    agent,
    results,
    run,
    text_of,
)

SENDS: dict[str, Any] = {"side_effects": "irreversible", "approval": "always"}


def saying(decision: Any) -> Approver:
    """Make a function that always decides so."""

    def decide(pending: PendingApproval) -> Any:
        return decision

    return decide


def saying_later(decision: Any) -> Approver:
    """Make the same, asynchronous."""

    async def decide(pending: PendingApproval) -> Any:
        return decision

    return decide


EITHER = pytest.mark.parametrize("saying", [saying, saying_later])


@EITHER
async def test_f21_a_granted_call_runs_and_the_run_never_pauses(
    saying: Callable[[Any], Approver],
) -> None:
    """The request and the decision are facts like those of a human, under the function's name."""
    world = World()
    tool = Hand(**SENDS)
    state = await run(world.instance(agent(Model(Ask()), tool)), approver=saying(Approved()))
    assert text_of(state) == "done"
    types = await world.types("session-1")
    asked = types.index("approval.requested")
    assert types[asked : asked + 4] == [
        "approval.requested",
        "approval.granted",
        "step.started",
        "tool.called",
    ]
    granted = (await world.events("session-1"))[asked + 1].payload
    assert isinstance(granted, ApprovalGranted)
    assert granted.by.startswith("function:saying")
    assert len(tool.runs) == 1


@EITHER
async def test_f21_a_rejected_call_does_not_run(saying: Callable[[Any], Approver]) -> None:
    """The model reads the reason, and a repeated call is not asked again."""
    world = World()
    tool = Hand(**SENDS)
    model = Model(Ask(), Ask())
    state = await run(world.instance(agent(model, tool)), approver=saying(Rejected("too dear")))
    assert text_of(state) == "done"
    assert tool.runs == []
    assert "too dear" in results(model.requests[1])[0][1]
    assert (await world.count("session-1"))["approval.requested"] == 1
    (rejected,) = [
        e.payload for e in await world.events("session-1") if e.type == "approval.rejected"
    ]
    assert isinstance(rejected, ApprovalRejected)
    assert rejected.by.startswith("function:")


@EITHER
@pytest.mark.parametrize(
    "given", [None, True, False, "false", "approved", 1, {}, {"approved": True}, Approved, object()]
)
async def test_pub_03_only_a_decision_decides(
    given: object, saying: Callable[[Any], Approver]
) -> None:
    """Anything else fails at once, names the function and the call, and nothing runs."""
    world = World()
    tool = Hand(**SENDS)
    instance = world.instance(agent(model := Model(Ask()), tool))
    with pytest.raises(DecisionRefused, match=r"saying.* c0\.0 of act"):
        await run(instance, approver=saying(given))
    assert tool.runs == []
    assert len(model.requests) == 1
    assert not {"approval.granted", "approval.rejected"} & set(await world.types("session-1"))
    state = await resume(instance, "run-1")
    assert state.status is Status.PAUSED


async def test_pub_10_an_approver_that_fails_stops_the_run_at_once() -> None:
    """A wrong signature or an exception is an error for the caller, never another model turn."""

    def no_arguments() -> Approved:
        return Approved()

    def raises(pending: PendingApproval) -> Approved:
        raise LookupError("no such person")

    async def raises_later(pending: PendingApproval) -> Approved:
        raise LookupError("no such person")

    def unsayable(pending: PendingApproval) -> Approved:
        raise Unsayable

    async def gives_up(pending: PendingApproval) -> Approved:
        raise asyncio.CancelledError

    def no_text(pending: PendingApproval) -> Approved:
        return Approved(reason=cast("Any", 3))

    for approver, told in [
        (no_arguments, "TypeError"),
        (raises, "no such person"),
        (raises_later, "no such person"),
        (unsayable, "Unsayable"),
        (gives_up, "CancelledError"),
        (no_text, "gave Approved"),
    ]:
        world = World()
        model, tool = Model(Ask()), Hand(**SENDS)
        instance = world.instance(agent(model, tool))
        with pytest.raises(DecisionRefused, match=told) as refused:
            await run(instance, approver=cast("Approver", approver))
        assert approver.__name__ in str(refused.value)
        assert "c0.0" in str(refused.value)
        assert (len(model.requests), tool.runs) == (1, [])
        assert (await resume(instance, "run-1")).status is Status.PAUSED


async def test_pub_10_a_stream_asks_the_approver_too() -> None:
    """Streaming changes nothing: the same call, the same decision, the same error."""
    for approver, fails in [(saying(Approved()), False), (saying(None), True)]:
        world = World()
        tool = Hand(**SENDS)
        instance = world.instance(agent(Model(Ask()), tool))
        order = Order("clerk", "go", "session-1", "run-1", approver=approver)
        items: list[object] = []
        try:
            async for item in runs.stream(instance, order):
                items.append(item)  # noqa: PERF401 -- what came before an error is kept
        except DecisionRefused:
            assert fails
        types = [item.type for item in items if isinstance(item, Event)]
        assert ("run.completed" in types) is not fails
        assert len(tool.runs) == (not fails)


async def test_the_approver_is_shown_what_would_run() -> None:
    """Each question has the run, the call, the tool and the exact arguments."""
    world = World()
    shown: list[PendingApproval] = []

    def decide(pending: PendingApproval) -> Approved:
        shown.append(pending)
        return Approved()

    model = Model([Ask(arguments={"n": 1}), Ask(arguments={"n": 2})])
    await run(world.instance(agent(model, Hand(**SENDS))), approver=decide)
    assert [(p.run_id, p.call_id, p.tool_name, p.arguments) for p in shown] == [
        ("run-1", "c0.0", "act", {"n": 1}),
        ("run-1", "c0.1", "act", {"n": 2}),
    ]


async def test_the_approver_may_edit_arguments_that_the_tool_takes() -> None:
    """Edited arguments are checked: what the tool refuses decides nothing."""
    world = World()
    tool = Hand(needs=["n"], **SENDS)
    model = Model(Ask(arguments={"n": 1}))
    await run(world.instance(agent(model, tool)), approver=saying(Approved(arguments={"n": 5})))
    assert tool.runs == [{"n": 5}]
    for wrong in ({}, {"n": float("nan")}, [1]):
        other = World()
        tool = Hand(needs=["n"], **SENDS)
        instance = other.instance(agent(Model(Ask(arguments={"n": 1})), tool))
        with pytest.raises((DecisionRefused, ValueError)):
            await run(instance, approver=saying(Approved(arguments=cast("Any", wrong))))
        assert tool.runs == []
        assert "approval.granted" not in await other.types("session-1")


@pytest.mark.parametrize("decision", [Approved(), Rejected("no")])
async def test_a_decision_in_line_that_comes_too_late_decides_nothing(decision: Any) -> None:
    """The question expired meanwhile, as it does for a person who answers too late."""
    world = World()

    def decide(pending: PendingApproval) -> Any:
        world.clock.advance(61)
        return decision

    tool = Hand(**SENDS)
    model = Model(Ask())
    instance = world.instance(agent(model, tool, expires_in=60.0))
    assert text_of(await run(instance, approver=decide)) == "done"
    assert tool.runs == []
    types = set(await world.types("session-1"))
    assert "approval.expired" in types
    assert not {"approval.granted", "approval.rejected"} & types


@pytest.mark.parametrize("decision", [Approved(reason="half \ud800"), Rejected("half \ud800")])
async def test_a_reason_in_line_that_the_journal_cannot_hold_is_mended(decision: Any) -> None:
    """The decision counts; what UTF-8 cannot hold in its reason is replaced."""
    world = World()
    state = await run(world.instance(agent(Model(Ask()), Hand(**SENDS))), approver=saying(decision))
    assert text_of(state) == "done"
    for event in await world.events("session-1"):
        event.payload.model_dump_json()


async def test_an_approver_answers_a_paused_run_that_is_resumed_with_it() -> None:
    """A question that nobody answered is put to the function."""
    world = World()
    tool = Hand(**SENDS)
    instance = world.instance(agent(Model(Ask()), tool))
    assert (await run(instance)).status is Status.PAUSED
    assert text_of(await resume(instance, "run-1", approver=saying(Approved()))) == "done"
    assert (await world.count("session-1"))["approval.requested"] == 1


async def test_an_unknown_effect_is_put_to_the_approver() -> None:
    """A call whose end nobody saw is asked about in line too, as what it is."""
    world = World()
    shown: list[str] = []

    def decide(pending: PendingApproval) -> Rejected:
        shown.append(pending.kind)
        return Rejected()

    tool = Hand(
        action=lambda _, __: asyncio.Event().wait(),
        timeout=0.01,
        side_effects="irreversible",
        on_unknown="pause",
    )
    model = Model(Ask())
    assert text_of(await run(world.instance(agent(model, tool)), approver=decide)) == "done"
    assert shown == ["unknown_effect"]
    assert "not known whether it took effect" in results(model.requests[-1])[0][1]
