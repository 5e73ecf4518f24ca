"""Asking the outside world about an effect whose end nobody saw, before anybody else."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from loom_ia.app import approvals
from loom_ia.app.approvals import Ruling
from loom_ia.app.instance import Instance
from loom_ia.app.runs import resume
from loom_ia.core.events import EffectReconciled, ToolCalled, ToolCompleted
from loom_ia.core.plan import agent_plan
from loom_ia.core.state import RunState, Status
from loom_ia.core.views.result import run_result
from loom_ia.engine.perform import calls
from loom_ia.engine.program import Program
from loom_ia.tools import Done, NotDone, ToolContext, Unknown, UnknownEffect, tool
from tests.engine.world import Ask, Gate, Model, World, results, run, running, stubborn, text_of

HELD = 0.01  # seconds: a limit that something which never ends runs into
UNKNOWN = "not known whether"


class Office:
    """An office that pays; a test says how each payment goes, and what the bank tells of it."""

    def __init__(self, *answers: object, asynchronous: bool = True, **declared: Any) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[dict[str, Any], ToolContext]] = []
        self.paid: list[ToolContext] = []
        self.actions: list[Callable[[], Any]] = []
        self.world = World()
        self.model = Model(Ask("pay", {"amount": 12}))
        self.declared = {"side_effects": "irreversible", "timeout": HELD, **declared}
        self.asynchronous = asynchronous

    def instance(self, worker: str = "worker-1") -> Instance:
        """Start a process whose clerk pays."""

        def bank(args: dict[str, Any], ctx: ToolContext) -> Any:
            self.asked.append((args, ctx))
            answer = self.answers.pop(0)
            if isinstance(answer, BaseException):
                raise answer
            return answer

        async def bank_async(args: dict[str, Any], ctx: ToolContext) -> Any:
            answer = bank(args, ctx)
            return await answer if isinstance(answer, Awaitable) else answer

        @tool(reconcile=bank_async if self.asynchronous else bank, **self.declared)
        async def pay(amount: float, ctx: ToolContext) -> Any:
            """Pay."""
            self.paid.append(ctx)
            given = self.actions.pop(0)() if self.actions else "paid"
            return await given if isinstance(given, Awaitable) else given

        plan = agent_plan(name="clerk", model="M", system="Be brief.", tools=(pay.spec,))
        return self.world.instance(Program(plan, {"M": self.model}, {"pay": pay}), worker)

    async def interrupt(self) -> None:
        """Leave the run in the middle of a payment, with a driver that is dead."""
        gate = Gate()
        self.actions = [gate.stop]
        async with running(run(self.instance("dead"))):
            await gate.reached()
        self.world.clock.advance(61)

    async def take_up(self) -> RunState:
        """Go on with the run in another process."""
        return await resume(self.instance("worker-2"), "run-1")

    @property
    def read(self) -> str:
        """Give the last result that the model read."""
        return results(self.model.requests[-1])[-1][1]

    async def verdicts(self) -> list[tuple[str, str]]:
        """Give what the outside world told, as the journal says it."""
        events = await self.world.events("session-1")
        return [
            (e.payload.verdict, e.payload.reason)
            for e in events
            if isinstance(e.payload, EffectReconciled)
        ]

    async def ends(self) -> list[str | None]:
        """Give the outcomes of the call."""
        events = await self.world.events("session-1")
        return [e.payload.outcome for e in events if isinstance(e.payload, ToolCompleted)]


def never() -> Any:
    """Make something that never ends."""
    return asyncio.Event().wait()


@pytest.mark.parametrize("asynchronous", [True, False])
@pytest.mark.parametrize("on_unknown", ["error", "pause"])
@pytest.mark.parametrize(
    ("answer", "read", "paid", "verdict"),
    [
        (Done("paid on Monday"), "paid on Monday", 1, "done"),
        (Done(), "This action was already done.", 1, "done"),
        (NotDone(), "paid", 2, "not_done"),
    ],
)
async def test_after_a_crash(
    answer: object, read: str, paid: int, verdict: str, on_unknown: str, *, asynchronous: bool
) -> None:
    """A clear answer settles an interrupted call, and nobody else is asked or told."""
    office = Office(answer, asynchronous=asynchronous, on_unknown=on_unknown, timeout=None)
    await office.interrupt()
    state = await office.take_up()
    assert text_of(state) == "done"
    assert read in office.read
    assert len(office.paid) == paid
    assert await office.verdicts() == [(verdict, "")]
    assert await office.ends() == [None]
    (effect,) = run_result(state).effects
    assert (effect.status, effect.reconciled) == ("done", verdict == "done")
    ((arguments, context),) = office.asked
    assert arguments == {"amount": 12.0}
    assert context.idempotency_key == office.paid[0].idempotency_key


async def test_a_call_that_did_not_happen_is_launched_by_the_journal() -> None:
    """The launch that asks and the one that acts are two facts; only the second one acts."""
    office = Office(NotDone(), timeout=None)
    await office.interrupt()
    await office.take_up()
    types = await office.world.types("session-1")
    assert types.count("tool.called") == 3
    told = types.index("effect.reconciled")
    assert types[told - 1] == "tool.called"
    assert types[told + 1 : told + 4] == ["step.completed", "step.started", "tool.called"]
    events = await office.world.events("session-1")
    assert [e.payload.resumed for e in events if isinstance(e.payload, ToolCalled)] == [
        False,
        True,
        True,
    ]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Unknown("the bank is closed"), "the bank is closed"),
        (RuntimeError("no network"), "RuntimeError: no network"),
        (SystemExit(), "the tool raised SystemExit"),
        (True, "reconcile of pay gives bool: give Done(…), NotDone() or Unknown()"),
        (Done(object()), "has no JSON form"),
    ],
)
async def test_what_the_outside_world_cannot_tell(answer: object, reason: str) -> None:
    """Without a clear answer `on_unknown` decides, and the journal says why."""
    office = Office(answer, on_unknown="pause", timeout=None)
    await office.interrupt()
    assert (await office.take_up()).status is Status.PAUSED
    ((verdict, why),) = await office.verdicts()
    assert (verdict, reason in why) == ("unknown", True)
    assert len(office.paid) == 1
    instance = office.instance("worker-3")
    await approvals.approve(instance, Ruling("run-1", "ana"))
    assert text_of(await resume(instance, "run-1")) == "done"
    assert len(office.paid) == 2  # a human's yes is not asked about again
    assert len(office.asked) == 1


async def test_the_outside_world_has_the_time_of_the_tool() -> None:
    """An answer that does not come within the tool's timeout is none."""
    office = Office(never(), timeout=HELD)
    office.actions = [never]
    assert text_of(await run(office.instance())) == "done"
    assert await office.verdicts() == [("unknown", "no answer in 0.01 s")]
    assert await office.ends() == ["unknown"]


@pytest.mark.parametrize("on_unknown", ["error", "pause"])
async def test_after_a_timeout(on_unknown: str) -> None:
    """A call that did not answer in time, and did not happen, is launched once more."""
    office = Office(NotDone(), on_unknown=on_unknown)
    office.actions = [never]
    assert text_of(await run(office.instance())) == "done"
    assert office.read == "paid"
    assert len(office.paid) == 2
    assert office.paid[1].resumed
    assert await office.ends() == [None]


async def test_after_a_timeout_that_was_too_late() -> None:
    """A call that did not answer in time, and happened, gives what the outside world tells."""
    office = Office(Done("paid at noon"))
    office.actions = [never]
    await run(office.instance())
    assert office.read == "paid at noon"
    assert len(office.paid) == 1


async def test_a_call_is_launched_again_once() -> None:
    """A call that fails twice without having happened is told as such, with a known end."""
    office = Office(NotDone(), NotDone())
    office.actions = [never, never]
    state = await run(office.instance())
    assert "it did not take effect" in office.read
    assert [effect.status for effect in run_result(state).effects] == ["not_done"]
    assert len(office.paid) == 2
    assert await office.ends() == [None]


async def test_after_a_tool_that_cannot_tell() -> None:
    """A tool that says itself that the effect is unknown is looked into, too."""
    office = Office(Done("paid at noon"))

    def lost() -> None:
        raise UnknownEffect("the server hung up")

    office.actions = [lost]
    await run(office.instance())
    assert office.read == "paid at noon"


async def test_a_result_that_comes_while_it_is_stopped_needs_no_question() -> None:
    """A tool that ends by itself when it is told to stop has said what it did."""
    gate = Gate()
    gate.open()
    office = Office()

    async def late() -> str:
        try:
            return await never()
        except asyncio.CancelledError:
            return "paid in the end"

    office.actions = [late]
    await run(office.instance())
    assert office.read == "paid in the end"
    assert not office.asked


async def test_what_may_still_be_acting_is_not_launched_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While the first launch goes on, a no says nothing of what it will do next."""
    monkeypatch.setattr(calls, "_GRACE_S", 0)
    gate = Gate()
    office = Office(NotDone(), on_unknown="pause")
    act = stubborn(gate, "paid after all")
    office.actions = [lambda: act({}, office.paid[0])]
    instance = office.instance()
    assert (await run(instance)).status is Status.PAUSED
    assert await office.verdicts() == [("unknown", "not by then, and it may still be acting")]
    gate.open()
    await instance.strays.join(5)
    assert text_of(await resume(instance, "run-1")) == "done"
    assert office.read == "paid after all"
    assert len(office.paid) == 1


async def test_nor_is_what_an_earlier_drive_left_behind() -> None:
    """A launch that the same process gave up may act yet, whatever the world says by then."""
    gate = Gate()
    office = Office(NotDone(), timeout=None)
    act = stubborn(gate, "paid after all")
    office.actions = [lambda: act({}, office.paid[0])]
    instance = office.instance()
    async with running(run(instance)) as driving:
        await gate.reached()
        driving.cancel()
        await asyncio.wait((driving,))
        assert text_of(await resume(instance, "run-1")) == "done"
        assert UNKNOWN in office.read
        assert len(office.paid) == 1
        gate.open()
        await instance.strays.join(5)


async def test_a_yes_covers_a_launch_that_did_not_happen() -> None:
    """What a human approved is launched again unasked when nothing came of the first launch."""
    office = Office(NotDone(), approval="always", on_unknown="pause")
    office.actions = [never]
    instance = office.instance()
    assert (await run(instance)).status is Status.PAUSED
    await approvals.approve(instance, Ruling("run-1", "ana"))
    assert text_of(await resume(instance, "run-1")) == "done"
    assert office.read == "paid"
    assert (await office.world.count("session-1"))["approval.requested"] == 1


async def test_a_harmless_tool_is_not_looked_into() -> None:
    """What may be run again without risk simply is."""
    office = Office(idempotent=True, timeout=None)
    await office.interrupt()
    await office.take_up()
    assert len(office.paid) == 2
    assert not office.asked
