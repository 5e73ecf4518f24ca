"""Tools that remember: what was done is not done twice, and what is unknown is told so."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from loom_ia.adapters.idempotency.memory import MemoryIdempotency
from loom_ia.app import approvals, cancel
from loom_ia.app.approvals import Ruling
from loom_ia.app.instance import Instance
from loom_ia.app.runs import resume
from loom_ia.app.sessions import delete
from loom_ia.core.errors import IdempotencyStoreError
from loom_ia.core.events import Event, IdempotencyRecorded, ToolCompleted
from loom_ia.core.plan import agent_plan
from loom_ia.core.ports import IdempotencyStore, Journal, SequenceConflict, Tool
from loom_ia.core.state import RunState, Status
from loom_ia.core.views.result import run_result
from loom_ia.engine.program import Program
from loom_ia.testing import Crash, JournalSpy
from loom_ia.tools import (
    Done,
    NotDone,
    ToolContext,
    ToolError,
    Unknown,
    UnknownEffect,
    idempotent,
    tool,
)
from tests.engine.world import Ask, Gate, Model, World, results, run, running, text_of

UNKNOWN = "not known whether it took effect"


class Desk:
    """A desk that sends; a test says how each sending goes, and keeps the keys where it says."""

    def __init__(
        self,
        store: IdempotencyStore | None,
        *,
        key: Any = None,
        reconcile: Any = None,
        **memo: Any,
    ) -> None:
        self.store = store
        self.world = World()
        self.model = Model(Ask("send", {"number": "D-042"}, "x"))
        self.sent: list[str] = []
        self.contexts: list[ToolContext] = []
        self.action: Callable[[], Any] = lambda: "sent"
        self.memo = {"key": key, **memo}
        self.reconcile = reconcile

    def tool(self, **declared: Any) -> Tool:
        """Make the tool of this desk."""

        @idempotent(**self.memo)
        @tool(reconcile=self.reconcile, **declared)
        async def send(number: str, ctx: ToolContext) -> Any:
            """Send."""
            self.contexts.append(ctx)
            self.sent.append(number)
            given = self.action()
            return await given if asyncio.iscoroutine(given) else given

        return send

    def instance(self, worker: str = "worker-1", **declared: Any) -> Instance:
        """Start a process whose clerk has the tool."""
        made = self.tool(**{"side_effects": "irreversible", **declared})
        plan = agent_plan(name="clerk", model="M", system="Be brief.", tools=(made.spec,))
        program = Program(plan, {"M": self.model}, {"send": made}, idempotency=self.store)
        instance = self.world.instance(program, worker)
        instance.idempotency = self.store
        return instance

    @property
    def read(self) -> str:
        """Give the last result that the model read."""
        return results(self.model.requests[-1])[-1][1]

    async def outcomes(self, session_id: str = "session-1") -> list[str | None]:
        """Give the outcomes of the calls of a session."""
        events = await self.world.events(session_id)
        return [e.payload.outcome for e in events if isinstance(e.payload, ToolCompleted)]

    async def ask(self, instance: Instance, name: str) -> RunState:
        """Ask for a sending in a session of its own."""
        return await run(instance, run_id=f"run-{name}", session_id=f"session-{name}")

    async def interrupt(self, dies_at: str = "", **declared: Any) -> None:
        """Leave the run with a driver that died in the middle of the call, or before a fact."""
        mortal = _Mortal(self.world.journal)
        mortal.dies_at = dies_at
        dead = self.instance("dead", **declared)
        dead.journal = mortal
        gate = Gate()
        if not dies_at:
            self.action = gate.stop
        begun = "run-1" in {e.run_id for e in await self.world.events("session-1")}
        async with running(resume(dead, "run-1") if begun else run(dead)):
            await (mortal.died.wait() if dies_at else gate.reached())
            mortal.dead = True
        self.world.clock.advance(61)
        self.action = lambda: "sent"

    async def take_up(self, **declared: Any) -> RunState:
        """Go on with the run in another process."""
        return await resume(self.instance("worker-2", **declared), "run-1")


class _Mortal(JournalSpy):
    """A journal to which its driver can write nothing more once it is dead."""

    dead: bool = False
    dies_at: str = ""

    def __init__(self, journal: Journal) -> None:
        super().__init__(journal)
        self.died = asyncio.Event()

    async def append(
        self, batch: Sequence[Event], *, expected: int, sync: bool
    ) -> int | SequenceConflict:
        if self.dead or any(event.type == self.dies_at for event in batch):
            self.dead = True
            self.died.set()
            raise Crash("the driver is dead")
        return await super().append(batch, expected=expected, sync=sync)


def by_number(args: dict[str, Any]) -> str:
    """Give the key of a sending."""
    return f"relance:{args['number']}"


@pytest.fixture(params=["journal", "store"])
def store(request: pytest.FixtureRequest) -> IdempotencyStore | None:
    """Where keys are kept."""
    return None if request.param == "journal" else MemoryIdempotency()


# -- what was done ------------------------------------------------------------------------------


async def test_f13_a_second_run_reuses() -> None:
    """Two runs that ask for the same action do it once, and the second says that it reused."""
    desk = Desk(MemoryIdempotency(), key=by_number)
    instance = desk.instance()
    for name in "ab":
        state = await desk.ask(instance, name)
        assert text_of(state) == "done"
        assert desk.read == "sent"
        (effect,) = run_result(state).effects
        assert (effect.status, effect.reused) == ("done", name == "b")
        if effect.reused:
            assert effect.key == "default:send:relance:D-042"
    assert desk.sent == ["D-042"]
    assert "idempotency.reused" not in await desk.world.types("session-a")
    types = await desk.world.types("session-b")
    assert types.index("tool.called") < types.index("idempotency.reused")
    assert types.index("idempotency.reused") < types.index("tool.completed")
    assert desk.contexts[0].idempotency_key == "default:send:relance:D-042"


async def test_a_result_is_reused_for_a_day() -> None:
    """Once the result is out of its time, the action may be done again."""
    desk = Desk(MemoryIdempotency(), key=by_number)
    instance = desk.instance()
    await desk.ask(instance, "a")
    desk.world.clock.advance(86_399)
    await desk.ask(instance, "b")
    assert len(desk.sent) == 1
    desk.world.clock.advance(2)
    await desk.ask(instance, "c")
    assert len(desk.sent) == 2


async def test_for_longer_than_the_calendar_is_for_very_long() -> None:
    """What was done is remembered all the same, and told as done."""
    desk = Desk(MemoryIdempotency(), key=["number"], ttl=1e300, reservation=1e300)
    instance = desk.instance()
    for name in ("one", "two"):
        await desk.ask(instance, name)
        assert desk.read == "sent"
    assert len(desk.sent) == 1


async def test_the_journal_records_before_the_call_is_completed() -> None:
    """The result of an effect is in the journal at once, under the key of its call."""
    desk = Desk(None)
    await run(desk.instance())
    events = await desk.world.events("session-1")
    types = [event.type for event in events]
    assert types.index("idempotency.recorded") == types.index("tool.called") + 1
    assert types.index("tool.completed") == types.index("idempotency.recorded") + 1
    recorded = events[types.index("idempotency.recorded")]
    assert isinstance(recorded.payload, IdempotencyRecorded)
    assert recorded.payload.key == "default:send:run-1:1:x"
    assert recorded.payload.result.text == "sent"
    assert recorded.span_id == events[types.index("tool.called")].span_id
    assert recorded.facets == {"tool_name": "send", "key": recorded.payload.key}


async def test_a_call_of_another_turn_is_another_call(store: IdempotencyStore | None) -> None:
    """A model that uses an id again asks for another action."""
    desk = Desk(store)
    desk.model = Model(Ask("send", {"number": "1"}, "x"), Ask("send", {"number": "2"}, "x"))
    await run(desk.instance())
    assert desk.sent == ["1", "2"]


async def test_an_interrupted_call_whose_result_is_known(store: IdempotencyStore | None) -> None:
    """A call that acted, and whose end was not written, gives its result and does not act."""
    desk = Desk(store)
    await desk.interrupt("tool.completed")
    assert text_of(await desk.take_up()) == "done"
    assert desk.read == "sent"
    assert desk.sent == ["D-042"]
    assert "idempotency.reused" in await desk.world.types("session-1")
    assert await desk.outcomes() == [None]


async def test_deleting_a_session_forgets_its_keys(store: IdempotencyStore | None) -> None:
    """What a session did under a key is forgotten with it."""
    desk = Desk(store, key=by_number if store else None)
    instance = desk.instance()
    await desk.ask(instance, "a")
    assert (await delete(instance, "session-a")).keys == 1
    await desk.ask(instance, "b")
    assert len(desk.sent) == 2


# -- what was not done ----------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ToolError("no network"), RuntimeError("no network")])
async def test_f15_an_exception_releases_the_key(error: Exception) -> None:
    """A function that raises did not act: the key is free, and the next run acts."""
    desk = Desk(MemoryIdempotency(), key=by_number)
    instance = desk.instance()

    def fail() -> None:
        raise error

    desk.action = fail
    await desk.ask(instance, "a")
    assert "no network" in desk.read
    desk.action = lambda: "sent"
    await desk.ask(instance, "b")
    assert desk.read == "sent"
    assert len(desk.sent) == 2


# -- what is being done -----------------------------------------------------------------------


async def test_a_key_that_another_run_holds() -> None:
    """While one run acts, another is told that it is busy, and does nothing."""
    desk = Desk(MemoryIdempotency(), key=by_number)
    gate = Gate()
    desk.action = gate.stop
    instance = desk.instance()
    async with running(desk.ask(instance, "a")) as first:
        await gate.reached()
        await desk.ask(instance, "b")
        assert "being done by another call right now" in desk.read
        assert await desk.outcomes("session-b") == [None]
        gate.open()
        await first
    assert len(desk.sent) == 1


# -- what is unknown ----------------------------------------------------------------------------


async def test_an_interrupted_call_without_a_record(store: IdempotencyStore | None) -> None:
    """A call whose end nobody saw is never made a second time: the model is told."""
    desk = Desk(store)
    await desk.interrupt()
    assert text_of(await desk.take_up()) == "done"
    assert UNKNOWN in desk.read
    assert await desk.outcomes() == ["unknown"]
    assert len(desk.sent) == 1


async def test_a_record_that_is_gone_proves_nothing() -> None:
    """A call launched before is not made again because its key is free by now."""
    desk = Desk(MemoryIdempotency())
    await desk.interrupt()
    desk.store = MemoryIdempotency()
    await desk.take_up()
    assert await desk.outcomes() == ["unknown"]
    assert len(desk.sent) == 1


async def test_on_unknown_pause(store: IdempotencyStore | None) -> None:
    """With `pause` a human is asked, and his yes is good for one more launch."""
    desk = Desk(store)
    await desk.interrupt(on_unknown="pause")
    state = await desk.take_up(on_unknown="pause")
    assert state.status is Status.PAUSED
    assert [call.question.kind for call in state.pending if call.question] == ["unknown_effect"]
    instance = desk.instance("worker-3", on_unknown="pause")
    await approvals.approve(instance, Ruling("run-1", "ana"))
    assert text_of(await resume(instance, "run-1")) == "done"
    assert desk.read == "sent"
    assert len(desk.sent) == 2
    assert desk.contexts[-1].may_act_again
    assert not desk.contexts[0].may_act_again


async def test_a_yes_is_good_for_one_launch(store: IdempotencyStore | None) -> None:
    """A launch that was granted and interrupted in its turn is asked about again, not made."""
    desk = Desk(store)
    await desk.interrupt(on_unknown="pause")
    await desk.take_up(on_unknown="pause")
    await approvals.approve(desk.instance("worker-3", on_unknown="pause"), Ruling("run-1", "ana"))
    await desk.interrupt(on_unknown="pause")
    assert len(desk.sent) == 2
    assert (await desk.take_up(on_unknown="pause")).status is Status.PAUSED
    assert len(desk.sent) == 2


async def test_a_call_does_not_wait_for_itself() -> None:
    """The reservation of a launch that died is told as unknown at once, however long it holds."""
    desk = Desk(MemoryIdempotency(), key=by_number, reservation=3600)
    await desk.interrupt()
    await desk.take_up()
    assert UNKNOWN in desk.read
    await desk.ask(desk.instance("worker-3"), "b")
    assert "being done by another call" in desk.read
    assert len(desk.sent) == 1


async def test_on_unknown_pause_refused(store: IdempotencyStore | None) -> None:
    """A human who says no leaves it at that."""
    desk = Desk(store)
    await desk.interrupt(on_unknown="pause")
    instance = desk.instance("worker-2", on_unknown="pause")
    await resume(instance, "run-1")
    await approvals.reject(instance, Ruling("run-1", "ana"))
    assert text_of(await resume(instance, "run-1")) == "done"
    assert len(desk.sent) == 1


async def test_declared_harmless_it_is_made_again(store: IdempotencyStore | None) -> None:
    """A tool that may be run again without risk is, when nobody saw the end of its call."""
    desk = Desk(store)
    await desk.interrupt(idempotent=True)
    await desk.take_up(idempotent=True)
    assert desk.read == "sent"
    assert len(desk.sent) == 2
    assert desk.contexts[0].idempotency_key == desk.contexts[1].idempotency_key


@pytest.mark.parametrize("end", ["timeout", "cancel"])
async def test_a_call_that_is_cut_keeps_its_key(end: str) -> None:
    """A time that is over and a cancellation say nothing of the effect: nobody acts after them."""
    desk = Desk(MemoryIdempotency(), key=by_number, reservation=30)
    gate = Gate()
    desk.action = gate.stop
    instance = desk.instance(timeout=0.01 if end == "timeout" else None)
    async with running(desk.ask(instance, "a")) as first:
        await gate.reached()
        if end == "cancel":
            await cancel.cancel(instance, "run-a", by="ana")
        await first
    await desk.ask(instance, "b")
    assert "being done by another call" in desk.read
    desk.world.clock.advance(31)
    await desk.ask(instance, "c")
    assert UNKNOWN in desk.read
    assert await desk.outcomes("session-c") == ["unknown"]
    assert len(desk.sent) == 1


@pytest.mark.parametrize("error", [ToolError("stopped"), RuntimeError("stopped")])
async def test_a_function_that_fails_because_it_was_cut(error: Exception) -> None:
    """An exception that a cancellation turned into says no more than the cancellation does."""
    desk = Desk(MemoryIdempotency(), key=by_number, reservation=30)

    async def cut() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise error

    desk.action = cut
    instance = desk.instance(timeout=0.01)
    await desk.ask(instance, "a")
    await instance.strays.join(1)
    await desk.ask(instance, "b")
    assert "being done by another call" in desk.read


async def test_an_expired_reservation_is_asked_about() -> None:
    """What another run began and nobody saw end is a human's to decide, with `pause`."""
    desk = Desk(MemoryIdempotency(), key=by_number)
    await desk.interrupt()
    instance = desk.instance("worker-2", on_unknown="pause")
    assert (await desk.ask(instance, "b")).status is Status.PAUSED
    assert len(desk.sent) == 1
    await approvals.approve(instance, Ruling("run-b", "ana"))
    await resume(instance, "run-b")
    assert desk.read == "sent"
    assert len(desk.sent) == 2


async def test_a_function_that_cannot_tell() -> None:
    """`UnknownEffect` of the function keeps the key, and tells the model its words."""
    desk = Desk(MemoryIdempotency(), key=by_number)
    instance = desk.instance()

    def lost() -> None:
        raise UnknownEffect("the server hung up")

    desk.action = lost
    await desk.ask(instance, "a")
    assert desk.read == "the server hung up"
    assert await desk.outcomes("session-a") == ["unknown"]
    await desk.ask(instance, "b")
    assert len(desk.sent) == 1


@pytest.mark.parametrize(
    ("told", "read", "sent"),
    [
        (NotDone(), "sent", 2),
        (Done(), "This action was already done.", 1),
        (Done("sent on Monday"), "sent on Monday", 1),
        (Unknown(), UNKNOWN, 1),
        (None, UNKNOWN, 1),
        (RuntimeError("no network"), UNKNOWN, 1),
        (SystemExit(), UNKNOWN, 1),
    ],
    ids=["did not", "did", "its result", "cannot tell", "no answer", "it fails", "it leaves"],
)
async def test_reconcile(
    store: IdempotencyStore | None, told: object, read: str, sent: int
) -> None:
    """The outside world is asked before anything else, and only a clear no lets the call act."""
    asked: list[tuple[dict[str, Any], str]] = []

    async def reconcile(args: dict[str, Any], ctx: ToolContext) -> object:
        asked.append((args, ctx.idempotency_key))
        if isinstance(told, BaseException):
            raise told
        return told

    desk = Desk(store, reconcile=reconcile)
    await desk.interrupt(on_unknown="error")
    assert not asked
    assert text_of(await desk.take_up()) == "done"
    assert read in desk.read
    assert len(desk.sent) == sent
    assert asked == [({"number": "D-042"}, desk.contexts[0].idempotency_key)]
    assert await desk.outcomes() == ["unknown" if read is UNKNOWN else None]


async def test_reconcile_settles_the_key() -> None:
    """What the outside world told is remembered, so that the next run need not ask."""
    asked: list[str] = []

    async def reconcile(args: dict[str, Any], ctx: ToolContext) -> object:
        asked.append(ctx.idempotency_key)
        return Done("sent on Monday")

    desk = Desk(MemoryIdempotency(), key=by_number, reconcile=reconcile)
    await desk.interrupt()
    instance = desk.instance("worker-2")
    for name in "bc":
        await desk.ask(instance, name)
        assert desk.read == "sent on Monday"
    assert len(asked) == len(desk.sent) == 1


# -- a store that fails ---------------------------------------------------------------------------


class _Ill(MemoryIdempotency):
    """A store that fails when it is told to."""

    fails_to: str = ""

    async def reserve(self, *args: Any, **more: Any) -> Any:
        if self.fails_to == "reserve":
            raise IdempotencyStoreError("the keys cannot be read")
        return await super().reserve(*args, **more)

    async def complete(self, *args: Any, **more: Any) -> Any:
        if self.fails_to == "complete":
            raise IdempotencyStoreError("the keys cannot be written")
        return await super().complete(*args, **more)


async def test_without_its_store_nothing_is_done() -> None:
    """A key that cannot be reserved is an error for the model, and no effect."""
    store = _Ill()
    desk = Desk(store, key=by_number)
    store.fails_to = "reserve"
    await run(desk.instance())
    assert "the keys cannot be read" in desk.read
    assert not desk.sent


async def test_a_result_that_is_not_remembered_is_not_lost() -> None:
    """A call whose record could not be written gives its result; the next run finds it unknown."""
    store = _Ill()
    desk = Desk(store, key=by_number)
    instance = desk.instance()
    store.fails_to = "complete"
    await desk.ask(instance, "a")
    assert desk.read == "sent"
    desk.world.clock.advance(31)
    await desk.ask(instance, "b")
    assert UNKNOWN in desk.read
    assert len(desk.sent) == 1


async def test_several_calls_record_at_once() -> None:
    """Calls of one answer write their records beside each other, and none is lost."""
    desk = Desk(None)
    asked = [Ask("send", {"number": str(n)}, f"x{n}") for n in range(5)]
    desk.model = Model(asked)
    desk.action = lambda: asyncio.sleep(0, "sent")
    await run(desk.instance())
    count = await desk.world.count("session-1")
    assert count["idempotency.recorded"] == count["tool.completed"] == 5
