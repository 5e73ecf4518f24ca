"""Call assessments: a tool says of each call, from its arguments, what it calls for."""

import asyncio
from typing import Any

import pytest

from loom_ia.app import approvals
from loom_ia.app.approvals import Ruling
from loom_ia.app.instance import Instance
from loom_ia.app.runs import resume
from loom_ia.core.events import ModelResponded
from loom_ia.core.plan import agent_plan
from loom_ia.core.state import RunState, Status
from loom_ia.core.views.result import run_result
from loom_ia.engine.perform import assess
from loom_ia.engine.program import Program
from loom_ia.tools import Assessment, tool
from tests.engine.world import Ask, Gate, Model, World, results, run, running, text_of


class Till:
    """A till; a test says what it makes of each call."""

    def __init__(self, judge: Any, **declared: Any) -> None:
        self.judge = judge
        self.declared = declared
        self.world = World()
        self.model = Model(Ask("pay", {"amount": 12}))
        self.paid: list[float] = []
        self.asked: list[dict[str, Any]] = []
        self.gate: Gate | None = None

    def instance(self, worker: str = "worker-1") -> Instance:
        """Start a process whose clerk pays."""

        def judge(args: dict[str, Any]) -> Any:
            self.asked.append(args)
            return self.judge(args)

        @tool(assess=judge, **self.declared)
        async def pay(amount: float) -> str:
            """Pay."""
            self.paid.append(amount)
            if self.gate is not None:
                await self.gate.stop()
            return "paid"

        plan = agent_plan(name="clerk", model="M", system="Be brief.", tools=(pay.spec,))
        return self.world.instance(Program(plan, {"M": self.model}, {"pay": pay}), worker)

    async def interrupt(self) -> None:
        """Leave the run in the middle of a payment, with a driver that is dead."""
        self.gate = Gate()
        async with running(run(self.instance("dead"))):
            await self.gate.reached()
        self.gate = None
        self.world.clock.advance(61)

    async def recorded(self) -> dict[str, Assessment]:
        """Give what the journal says of the first answer."""
        events = await self.world.events("session-1")
        return next(e.payload.assessments for e in events if isinstance(e.payload, ModelResponded))


def question(state: RunState) -> str:
    """Give the reason of the only question."""
    ((call),) = state.pending
    assert call.question is not None
    return call.question.reason


@pytest.mark.parametrize(
    ("declared", "said", "paused"),
    [
        ("never", "always", True),
        ("always", "never", False),
        ("always", None, True),
        ("never", None, False),
    ],
)
async def test_what_is_said_of_a_call_goes_before_what_is_declared(
    declared: Any, said: Any, *, paused: bool
) -> None:
    """The assessment decides on approval; where it says nothing the declaration holds."""
    till = Till(lambda args: Assessment(approval=said, reason="a large sum"), approval=declared)
    state = await run(till.instance())
    assert (state.status is Status.PAUSED) == paused
    assert till.asked == [{"amount": 12.0}]
    if paused:
        assert question(state) == "a large sum"


async def test_it_is_asked_once_and_recorded() -> None:
    """What was said when the answer arrived holds after a restart, whatever is said by then."""
    till = Till(lambda args: Assessment(approval="always", reason="at first"))
    assert (await run(till.instance())).status is Status.PAUSED
    assert await till.recorded() == {"c0.0": Assessment(approval="always", reason="at first")}
    till.judge = lambda args: Assessment(approval="never")
    instance = till.instance("worker-2")
    assert (await resume(instance, "run-1")).status is Status.PAUSED
    await approvals.approve(instance, Ruling("run-1", "ana"))
    assert text_of(await resume(instance, "run-1")) == "done"
    assert len(till.asked) == 1


@pytest.mark.parametrize(
    ("declared", "said", "times", "status"),
    [("irreversible", "none", 2, None), ("none", "irreversible", 1, "unknown")],
)
async def test_the_side_effects_of_a_call_decide_on_its_recovery(
    declared: Any, said: Any, times: int, status: str | None
) -> None:
    """A call that only reads is made again after a crash; one that acts is not."""
    till = Till(lambda args: Assessment(side_effects=said), side_effects=declared)
    await till.interrupt()
    state = await resume(till.instance("worker-2"), "run-1")
    assert text_of(state) == "done"
    assert len(till.paid) == times
    assert [effect.status for effect in run_result(state).effects] == ([status] if status else [])


def _never(args: Any) -> Any:
    return asyncio.Event().wait()


def _raises(args: Any) -> Any:
    raise ValueError("no rate")


def _leaves(args: Any) -> Any:
    raise SystemExit


@pytest.mark.parametrize(
    ("judge", "reason"),
    [
        (_raises, "ValueError: no rate"),
        (_leaves, "the tool raised SystemExit"),
        (lambda args: "always", "assess of pay gives str: give an Assessment(…)"),
        (lambda args: None, "assess of pay gives NoneType: give an Assessment(…)"),
        (_never, "no assessment in 0.01 s"),
    ],
)
async def test_it_fails_closed(judge: Any, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an assessment a person decides, and the call counts as one that acts."""
    if judge is _never:
        monkeypatch.setattr(assess, "_PATIENCE_S", 0.01)
    till = Till(judge)
    state = await run(till.instance())
    assert state.status is Status.PAUSED
    assert question(state) == reason
    assert [effect.status for effect in run_result(state).effects] == ["planned"]


async def test_a_call_that_cannot_run_is_not_assessed() -> None:
    """Nobody is asked about arguments that the tool refuses."""
    till = Till(lambda args: Assessment(approval="always"))
    till.model = Model(Ask("pay", {"amount": "much"}))
    assert text_of(await run(till.instance())) == "done"
    assert not till.asked
    assert "Invalid arguments" in results(till.model.requests[-1])[0][1]


async def test_edited_arguments_have_the_gravest_effects() -> None:
    """What was said of other arguments does not make a call harmless that a human changed."""
    till = Till(
        lambda args: Assessment(approval="always", side_effects="none"),
        side_effects="irreversible",
    )
    instance = till.instance()
    state = await run(instance)
    (call,) = state.pending
    ruling = Ruling("run-1", "ana", call.call_id)
    await approvals.approve(instance, ruling, arguments={"amount": 9000})
    state = await resume(instance, "run-1")
    assert till.paid == [9000.0]
    (effect,) = run_result(state).effects
    assert (effect.status, effect.side_effects) == ("done", "irreversible")


@pytest.mark.parametrize(
    ("said", "changed", "held"),
    [
        (None, {}, ("never", "reversible")),
        (None, {"edited": True}, ("never", "reversible")),
        (None, {"replaced": True}, ("always", "reversible")),
        (Assessment(approval="never"), {"replaced": True}, ("always", "reversible")),
        (Assessment(side_effects="none"), {}, ("never", "none")),
        (Assessment(side_effects="none"), {"edited": True}, ("never", "reversible")),
        (Assessment(side_effects="irreversible"), {"edited": True}, ("never", "irreversible")),
    ],
)
def test_what_holds_for_one_call(
    said: Assessment | None, changed: dict[str, bool], held: tuple[str, str]
) -> None:
    """Arguments that nobody assessed are never taken for harmless ones."""

    @tool(side_effects="reversible", assess=lambda args: said)
    def pay() -> str:
        """Pay."""
        return "paid"

    spec = pay.spec.for_call(said, **changed)
    assert (spec.approval, spec.side_effects) == held
