"""Deciding as a human: one decision for each request, bound to the bytes that were shown."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from loom_ia.adapters.journals.memory import MemoryJournal
from loom_ia.app.approvals import Ruling, approve, reject
from loom_ia.app.cancel import cancel
from loom_ia.app.instance import Instance
from loom_ia.app.runs import resume
from loom_ia.core.errors import (
    ApprovalStale,
    DecisionRefused,
    UnknownApproval,
    UnknownRun,
    UnstorableValue,
)
from loom_ia.core.events import ApprovalGranted, ApprovalRequested, Event
from loom_ia.core.model import INVALID_ARGUMENTS
from loom_ia.core.ports.journal import SequenceConflict
from loom_ia.core.state import Failed, RunState, Status
from loom_ia.testing.journals import JournalSpy
from tests.engine.world import Ask, Hand, Model, World, agent, results, run, text_of

SENDS: dict[str, Any] = {"side_effects": "irreversible", "approval": "always"}


class Office:
    """A run that waits for one decision or more."""

    def __init__(self, *asks: Ask, **settings: Any) -> None:
        self.world = World()
        self.tool = Hand(needs=settings.pop("needs", ()), **SENDS)
        self.model = Model(list(asks) or [Ask(arguments={"n": 1})])
        self.program = agent(self.model, self.tool, **settings)
        self.instance = self.world.instance(self.program)

    async def open(self) -> "Office":
        """Run until it waits."""
        assert (await run(self.instance)).status is Status.PAUSED
        return self

    async def resume(self, worker: str = "worker-2") -> RunState:
        """Go on with the run in another process."""
        return await resume(self.world.instance(self.program, worker), "run-1")

    async def types(self) -> list[str]:
        """Read the types of what was written."""
        return await self.world.types("session-1")


def ruling(call_id: str | None = None, **more: Any) -> Ruling:
    """Rule about the run of the office."""
    return Ruling("run-1", more.pop("by", "ada"), call_id, **more)


Decide = Callable[[Instance, Ruling], Awaitable[tuple[str, ...]]]
EITHER = pytest.mark.parametrize("decide", [approve, reject])


async def test_f1_a_run_waits_and_the_request_shows_what_would_run() -> None:
    """Nothing ran, and what was asked has the exact arguments."""
    office = await Office().open()
    assert office.tool.runs == []
    (request,) = [
        e.payload
        for e in await office.world.events("session-1")
        if isinstance(e.payload, ApprovalRequested)
    ]
    assert (request.call_id, request.tool_name, request.arguments) == ("c0.0", "act", {"n": 1})


async def test_f2_a_granted_call_runs_once() -> None:
    """The decision bears its author, and the run ends in whatever process goes on with it."""
    office = await Office().open()
    assert await approve(office.instance, ruling()) == ("c0.0",)
    assert text_of(await office.resume()) == "done"
    assert office.tool.runs == [{"n": 1}]
    (granted,) = [
        e.payload
        for e in await office.world.events("session-1")
        if isinstance(e.payload, ApprovalGranted)
    ]
    assert granted.by == "ada"


async def test_f3_a_rejected_call_does_not_run_and_the_model_reads_why() -> None:
    """The reason is the human's, word for word."""
    office = await Office().open()
    await reject(office.instance, ruling(reason="non"))
    assert text_of(await office.resume()) == "done"
    assert office.tool.runs == []
    assert "non" in results(office.model.requests[-1])[0][1]


async def test_f4_edited_arguments_are_those_that_run() -> None:
    """The tool gets them, the model reads them as its own, and is told."""
    office = await Office(needs=["n"]).open()
    await approve(office.instance, ruling("c0.0"), arguments={"n": 2, "note": None})
    assert text_of(await office.resume()) == "done"
    assert office.tool.runs == [{"n": 2, "note": None}]
    request = office.model.requests[-1]
    assert request.messages[1].calls[0].arguments == {"n": 2, "note": None}
    assert "a human changed n, note" in results(request)[0][1]
    assert (await office.types()).count("approval.requested") == 1


@pytest.mark.parametrize(
    ("call_id", "arguments", "error"),
    [
        (None, {"n": 2}, DecisionRefused),
        ("c0.0", {}, DecisionRefused),
        ("c0.0", {"n": float("nan")}, UnstorableValue),
        ("c0.0", [1], DecisionRefused),
        ("other", {"n": 2}, UnknownApproval),
    ],
)
async def test_f4_edits_that_cannot_run_are_refused_to_who_sent_them(
    call_id: str | None, arguments: Any, error: type[Exception]
) -> None:
    """Nothing is decided and the request stays open."""
    office = await Office(needs=["n"]).open()
    before = await office.types()
    with pytest.raises(error):
        await approve(office.instance, ruling(call_id), arguments=arguments)
    assert await office.types() == before
    assert (await office.resume()).status is Status.PAUSED
    assert await approve(office.instance, ruling()) == ("c0.0",)


@pytest.mark.parametrize("on_expiry", ["deny", "fail"])
async def test_f5_a_request_that_nobody_answered_expires(on_expiry: Any) -> None:
    """When its time is over the call is denied, or the run fails; before, nothing happens."""
    office = await Office(expires_in=10.0, on_expiry=on_expiry).open()
    office.world.clock.advance(9)
    assert (await office.resume()).status is Status.PAUSED
    office.world.clock.advance(1)
    state = await office.resume()
    assert office.tool.runs == []
    assert (await office.types()).count("approval.expired") == 1
    if on_expiry == "deny":
        assert text_of(state) == "done"
        assert "in time" in results(office.model.requests[-1])[0][1]
    else:
        assert isinstance(state.outcome, Failed)
        assert state.outcome.error_type == "approval.expired"


@EITHER
async def test_a_decision_after_the_end_of_a_request_is_refused(decide: Decide) -> None:
    """Late is late, even when nobody noted the expiry yet."""
    office = await Office(expires_in=10.0).open()
    office.world.clock.advance(10)
    with pytest.raises(ApprovalStale, match="expired at 2026-01-01"):
        await decide(office.instance, ruling())
    assert not {"approval.granted", "approval.rejected"} & set(await office.types())


async def test_f7_two_requests_wait_for_two_decisions() -> None:
    """After the first, the run goes as far as it can and waits for the other."""
    office = await Office(Ask(arguments={"n": 1}), Ask(arguments={"n": 2})).open()
    await approve(office.instance, ruling("c0.1"))
    state = await office.resume()
    assert (state.status, office.tool.runs) == (Status.PAUSED, [{"n": 2}])
    assert [call.call_id for call in state.pending] == ["c0.0"]
    await reject(office.instance, ruling())
    assert text_of(await office.resume()) == "done"
    assert office.tool.runs == [{"n": 2}]
    assert [call_id for call_id, _ in results(office.model.requests[-1])] == ["c0.0", "c0.1"]


@EITHER
async def test_pub_02_a_decision_must_say_which_of_several(decide: Decide) -> None:
    """Without a call id nothing is decided, and those that wait are listed."""
    office = await Office(Ask(), Ask()).open()
    before = await office.types()
    with pytest.raises(ApprovalStale, match=r"c0\.0 \(act\), c0\.1 \(act\)"):
        await decide(office.instance, ruling())
    assert await office.types() == before


@EITHER
@pytest.mark.parametrize("wrong", ["c9", "", "C0.0", "run-1"])
async def test_pub_08_a_decision_on_an_unknown_call_is_refused(decide: Decide, wrong: str) -> None:
    """The valid ones are named, nothing is written, and the run stays paused."""
    office = await Office().open()
    before = await office.types()
    with pytest.raises(UnknownApproval, match=r"pending: c0\.0 \(act\)"):
        await decide(office.instance, ruling(wrong))
    assert await office.types() == before
    with pytest.raises(UnknownRun):
        await decide(office.instance, Ruling("run-9", "ada"))


async def test_pub_04_nobody_is_asked_about_arguments_that_cannot_run() -> None:
    """The model corrects itself first; only the valid call is put to a human."""
    office = Office(needs=["n"])
    office.model.replies[:] = [Ask(arguments={}), Ask(arguments="{"), Ask(arguments={"n": 1})]
    await office.open()
    requests = [
        e.payload
        for e in await office.world.events("session-1")
        if isinstance(e.payload, ApprovalRequested)
    ]
    assert [request.arguments for request in requests] == [{"n": 1}]
    assert INVALID_ARGUMENTS not in requests[0].arguments
    assert "n: is missing" in results(office.model.requests[1])[0][1]


@pytest.mark.parametrize("first", [approve, reject])
@EITHER
async def test_a_second_decision_is_refused_with_the_first(first: Decide, decide: Decide) -> None:
    """It is told who decided and when; what was decided stands."""
    office = await Office(Ask(arguments={"n": 1}), Ask(arguments={"n": 2})).open()
    await first(office.instance, ruling("c0.0", by="bob"))
    before = await office.types()
    with pytest.raises(ApprovalStale, match="decided by bob at 2026-01-01T00:00:00"):
        await decide(office.instance, ruling("c0.0"))
    assert await office.types() == before


@EITHER
async def test_a_second_decision_is_refused_once_the_call_is_off_the_table(decide: Decide) -> None:
    """Even later in the run, who comes second learns who came first."""
    office = Office()
    office.model.replies[:] = [Ask(arguments={"n": 1}), Ask(arguments={"n": 2})]
    await office.open()
    await approve(office.instance, ruling("c0.0", by="bob"))
    assert (await office.resume()).status is Status.PAUSED
    with pytest.raises(ApprovalStale, match="decided by bob"):
        await decide(office.instance, ruling("c0.0"))
    assert len(office.tool.runs) == 1


class Beaten(MemoryJournal):
    """A journal where somebody decides just before a grant is written."""

    def __init__(self) -> None:
        super().__init__()
        self.before: Callable[[], Awaitable[object]] | None = None

    async def append(
        self, batch: Sequence[Event], *, expected: int, sync: bool
    ) -> int | SequenceConflict:
        before = self.before
        if before is not None and isinstance(batch[-1].payload, ApprovalGranted):
            self.before = None
            await before()
        return await super().append(batch, expected=expected, sync=sync)


@pytest.mark.parametrize("call_id", ["c0.0", None])
async def test_two_decisions_at_once_are_one_decision(call_id: str | None) -> None:
    """Of two people in two processes one is written and the other learns who was first."""
    office = Office()
    office.world.journal = journal = Beaten()
    office.instance = office.world.instance(office.program)
    await office.open()
    other = office.world.instance(office.program, "worker-2")
    journal.before = lambda: reject(other, ruling(by="bob"))
    with pytest.raises(ApprovalStale, match="decided by bob"):
        await approve(office.instance, ruling(call_id))
    types = await office.types()
    assert types.count("approval.granted") + types.count("approval.rejected") == 1


async def test_a_decision_without_a_call_id_is_about_the_call_that_was_waiting() -> None:
    """A question that replaced it in the meantime, and that nobody was shown, stays open."""
    office = Office()
    office.world.journal = journal = Beaten()
    office.model.replies[:] = [Ask(arguments={"n": 1}), Ask(arguments={"n": 2})]
    office.instance = office.world.instance(office.program)
    await office.open()
    other = office.world.instance(office.program, "worker-2")

    async def decide_and_go_on() -> None:
        await reject(other, ruling(by="bob"))
        assert (await resume(other, "run-1")).status is Status.PAUSED

    journal.before = decide_and_go_on
    with pytest.raises(ApprovalStale, match="decided by bob"):
        await approve(office.instance, ruling())
    state = await office.resume()
    assert [call.call_id for call in state.pending] == ["c1.0"]
    assert office.tool.runs == []


@EITHER
async def test_a_decision_about_a_run_that_is_over_decides_nothing(decide: Decide) -> None:
    """There is nothing to decide any more, and nothing is written."""
    office = await Office().open()
    await cancel(office.instance, "run-1", by="ada")
    before = await office.types()
    assert await decide(office.instance, ruling("c0.0")) == ()
    assert await office.types() == before


async def test_pub_05_an_approval_holds_in_another_process() -> None:
    """Nothing but the journal carries the decision, and nobody is asked twice."""
    office = await Office().open()
    elsewhere = office.world.instance(office.program, "worker-3")
    await approve(elsewhere, ruling())
    assert text_of(await office.resume("worker-4")) == "done"
    assert len(office.tool.runs) == 1
    assert (await office.types()).count("approval.requested") == 1


async def test_pub_01_what_was_done_before_a_pause_is_done_once() -> None:
    """A free call, then three that need approval: each runs once, however often one resumes."""
    world = World()
    free, paid = Hand("look"), Hand("pay", **SENDS)
    model = Model([Ask("look"), Ask("pay")], Ask("pay", {"n": 2}), Ask("pay", {"n": 3}))
    program = agent(model, free, paid)
    state = await run(world.instance(program))
    for turn in range(3):
        assert state.status is Status.PAUSED
        instance = world.instance(program, f"worker-{turn + 2}")
        await approve(instance, ruling())
        state = await resume(instance, "run-1")
    assert text_of(state) == "done"
    assert (len(free.runs), len(paid.runs)) == (1, 3)
    count = await world.count("session-1")
    assert (count["tool.called"], count["tool.completed"]) == (4, 4)


@EITHER
async def test_a_reason_that_the_journal_cannot_hold_is_mended(decide: Decide) -> None:
    """What people type never breaks the journal."""
    office = await Office().open()
    await decide(office.instance, ruling(reason="bad \ud800 half", by="half \ud800"))
    assert text_of(await office.resume()) == "done"
    for event in await office.world.events("session-1"):
        event.payload.model_dump_json()


async def test_a_decision_is_flushed_before_it_is_told() -> None:
    """Whoever was told that his decision is taken can count on it after a power cut."""
    world = World(spy := JournalSpy(MemoryJournal()))
    instance = world.instance(agent(Model(Ask()), Hand(**SENDS)))
    await run(instance)
    syncs = spy.counts.syncs
    await approve(instance, ruling())
    assert spy.counts.syncs == syncs + 1


async def test_an_old_yes_never_makes_a_call_again() -> None:
    """The yes that was given, sent again, is not taken for one about another launch."""
    office = Office()
    office.tool = Hand(
        action=lambda *_: asyncio.sleep(3600), on_unknown="pause", timeout=0.01, **SENDS
    )
    office.program = agent(office.model, office.tool)
    office.instance = office.world.instance(office.program)
    await office.open()
    await approve(office.instance, ruling("c0.0", by="ada"))
    assert (await office.resume()).status is Status.PAUSED
    later = office.world.instance(office.program, "worker-3")
    with pytest.raises(ApprovalStale, match=r"answer about c0\.0@2"):
        await approve(later, ruling("c0.0", by="bob"))
    with pytest.raises(UnknownApproval, match=r"pending: c0\.0@2"):
        await approve(later, ruling("c0.0@3"))
    assert (await office.types()).count("approval.granted") == 1
    assert await approve(later, ruling("c0.0@2")) == ("c0.0@2",)


async def test_a_yes_to_the_only_question_needs_no_number() -> None:
    """Who names neither call nor question answers the one that is open when he decides."""
    office = Office()
    office.tool = Hand(
        action=lambda *_: asyncio.sleep(3600), on_unknown="pause", timeout=0.01, **SENDS
    )
    office.program = agent(office.model, office.tool)
    office.instance = office.world.instance(office.program)
    await office.open()
    await approve(office.instance, ruling())
    assert (await office.resume()).status is Status.PAUSED
    assert await approve(office.world.instance(office.program, "worker-3"), ruling()) == ("c0.0@2",)
