"""Telling people that something waits: once for each request, at least once sent, never in vain."""

import asyncio
import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from loom_ia.app.approvals import Ruling, approve
from loom_ia.app.instance import Instance
from loom_ia.app.linked import decide, linked
from loom_ia.app.links import Links
from loom_ia.app.outbox import Outbox
from loom_ia.app.recovery import recover, watch
from loom_ia.app.runs import resume
from loom_ia.core.errors import ApprovalStale, LinkRefused, NoticeNotSent
from loom_ia.core.events import ApprovalNotified
from loom_ia.core.ports.notices import Addressee
from loom_ia.core.state import Status
from loom_ia.core.views.privacy import masked, shown
from loom_ia.core.views.result import run_result
from tests.engine.world import Ask, Hand, Model, World, agent, run

SECRET = "a secret that is long enough"
SENDS: dict[str, Any] = {
    "side_effects": "irreversible",
    "approval": "always",
    "notice": "Send to {{ to }}: {{ subject }}",
}
MAIL = {"to": "ana@example.org", "subject": "Facture"}


class Box:
    """Receives notices; `faults` are raised first, one at a time, and `gate` keeps it waiting."""

    def __init__(self, *faults: Exception) -> None:
        self.faults = list(faults)
        self.taken: list[dict[str, Any]] = []
        self.ids: list[str] = []
        self.bodies: list[bytes] = []
        self.gate: asyncio.Event | None = None
        self.reached = asyncio.Event()

    async def send(self, body: bytes, delivery_id: str) -> None:
        """Take a notice."""
        self.ids.append(delivery_id)
        self.bodies.append(body)
        self.reached.set()
        if self.gate is not None:
            await self.gate.wait()
        if self.faults:
            raise self.faults.pop(0)
        self.taken.append(json.loads(body))


class Office:
    """A run that will wait, and somebody who is told of it."""

    def __init__(self, box: Box, *asks: Ask, **settings: Any) -> None:
        self.world, self.box = World(), box
        self.tool = Hand(**SENDS)
        self.program = agent(
            Model(list(asks) or [Ask(arguments=dict(MAIL))]), self.tool, **settings
        )
        self.instance = self.process()

    def process(self, worker: str = "worker-1", box: Box | None = None, **said: Any) -> Instance:
        """Start a process that tells of what waits."""
        instance = self.world.instance(self.program, worker)
        to = Addressee("chef", box or self.box, **said)
        links = Links((SECRET,), "https://loom.example")
        instance.outbox = Outbox((to,), links, first_delay=0.001)
        return instance

    async def notified(self) -> list[ApprovalNotified]:
        """Read what was noted of notices."""
        events = await self.world.events("session-1")
        return [e.payload for e in events if isinstance(e.payload, ApprovalNotified)]

    @property
    def token(self) -> str:
        """The end of the link that was sent last."""
        return str(self.box.taken[-1]["link"]).rpartition("/")[2]


async def opened(box: Box, *asks: Ask, **settings: Any) -> Office:
    """Run until it waits and everything is sent."""
    office = Office(box, *asks, **settings)
    assert (await run(office.instance)).status is Status.PAUSED
    await office.instance.drain()
    return office


async def test_pub12_a_request_is_told_once_in_words() -> None:
    """One notice: who asks, what, the exact arguments, the link, and a fact; nothing else moves."""
    office = await opened(Box())
    (notice,) = office.box.taken
    assert notice["sentence"] == "Send to ana@example.org: Facture"
    assert (notice["agent"], notice["tool"], notice["arguments"]) == ("clerk", "act", MAIL)
    assert (notice["run_id"], notice["call_id"]) == ("run-1", "c0.0")
    assert notice["link"].startswith("https://loom.example/decide/")
    assert len(notice["link"]) < 400
    (fact,) = await office.notified()
    assert (fact.target, fact.outcome, fact.attempts) == ("chef", "sent", 1)
    assert fact.delivery_id == notice["id"] == office.box.ids[0]
    log, state = await office.instance.find("run-1")
    assert state.status is Status.PAUSED
    assert (await log.journal.read("default", "session-1"))[-1].payload == fact


async def test_nothing_is_sent_before_the_request_is_on_the_disk() -> None:
    """When the notice leaves, the journal that another process reads holds the request."""
    box = Box()
    office = Office(box)
    seen: list[str] = []
    send = box.send

    async def look(body: bytes, delivery_id: str) -> None:
        seen.extend(await office.world.types("session-1"))
        await send(body, delivery_id)

    box.send = look
    await run(office.instance)
    await office.instance.drain()
    assert seen[-2:] == ["approval.requested", "run.claimed"]


async def test_a_notice_that_fails_is_sent_again_the_same() -> None:
    """Every attempt has the same id and the same words, and the fact counts them."""
    office = await opened(Box(NoticeNotSent("500"), NoticeNotSent("500")))
    assert len(office.box.bodies) == 3
    assert len(set(office.box.bodies)) == len(set(office.box.ids)) == 1
    (fact,) = await office.notified()
    assert (fact.attempts, fact.outcome) == (3, "sent")
    assert (await office.world.types("session-1")).count("approval.requested") == 1


@pytest.mark.parametrize(
    ("faults", "attempts"),
    [
        ([NoticeNotSent("no") for _ in range(9)], 5),
        ([NoticeNotSent("gone", again=False)], 1),
        ([RuntimeError("a bug")], 1),
    ],
)
async def test_a_notice_that_cannot_be_sent_never_fails_the_run(
    faults: list[Exception], attempts: int
) -> None:
    """After the attempts that are allowed it is given up, and the run waits as it would."""
    office = await opened(Box(*faults))
    (fact,) = await office.notified()
    assert (fact.outcome, fact.attempts) == ("failed", attempts)
    await recover(office.instance)
    await office.instance.drain()
    assert len(office.box.bodies) == attempts  # a failure is the last word
    await approve(office.instance, Ruling("run-1", "ada"))


async def test_what_is_decided_meanwhile_is_not_sent() -> None:
    """Between two attempts somebody decides: there is nothing left to tell."""
    box = Box(NoticeNotSent("500"))
    box.gate = asyncio.Event()
    office = Office(box)
    await run(office.instance)
    await box.reached.wait()
    await approve(office.instance, Ruling("run-1", "ada"))
    box.gate.set()
    await office.instance.drain()
    assert len(box.bodies) == 1
    assert await office.notified() == []


async def test_a_notice_that_arrives_late_changes_nothing() -> None:
    """It is taken once the run is over: that is noted, and the run is what it was."""
    box = Box()
    box.gate = asyncio.Event()
    office = Office(box)
    await run(office.instance)
    await box.reached.wait()
    await approve(office.instance, Ruling("run-1", "ada"))
    ended = await resume(office.instance, "run-1")
    box.gate.set()
    await office.instance.drain()
    _, state = await office.instance.find("run-1")
    assert (state.outcome, state.status) == (ended.outcome, Status.COMPLETED)
    assert len(await office.notified()) == 1
    again = await office.process("worker-2").find("run-1")
    assert again[1].status is Status.COMPLETED
    assert len(await recover(office.instance)) == 0


async def test_what_was_owed_by_a_process_that_died_is_sent_by_another() -> None:
    """The next process sends what no fact tells of, under the same id."""
    lost = Box()
    lost.gate = asyncio.Event()
    office = Office(lost)
    await run(office.instance)
    await lost.reached.wait()
    for job in office.instance.jobs:  # it dies between sending and noting
        job.cancel()
    box = Box()
    other = office.process("worker-2", box)
    await recover(other)
    await other.drain()
    assert box.ids == lost.ids
    assert box.bodies == lost.bodies
    await recover(other)
    await other.drain()
    assert len(box.ids) == len(await office.notified()) == 1


async def test_two_processes_that_recover_at_once_note_it_once() -> None:
    """Both may send, under one id; one fact is written, and one request is open."""
    office = Office(Box())
    quiet = office.world.instance(office.program)
    await run(quiet)
    boxes = Box(), Box()
    for box in boxes:
        box.gate = asyncio.Event()
    processes = [office.process(f"worker-{n}", box) for n, box in enumerate(boxes, 2)]
    await asyncio.gather(*(recover(process) for process in processes))
    for box in boxes:  # both send before either has noted it
        await box.reached.wait()
    for box in boxes:
        assert box.gate is not None
        box.gate.set()
    await asyncio.gather(*(process.drain() for process in processes))
    assert len({delivery for box in boxes for delivery in box.ids}) == 1
    assert len(await office.notified()) == 1
    assert (await office.world.types("session-1")).count("approval.requested") == 1


async def test_a_process_sends_a_notice_in_one_place_at_a_time() -> None:
    """What is under way is not begun again by who looks for what is owed."""
    box = Box()
    box.gate = asyncio.Event()
    office = Office(box)
    await run(office.instance)
    await box.reached.wait()
    await recover(office.instance)
    box.gate.set()
    await office.instance.drain()
    assert len(box.ids) == len(await office.notified()) == 1


async def test_a_watcher_leaves_a_fresh_request_to_its_own_process() -> None:
    """Whoever only watches waits until the process of the request had time for every attempt."""
    office = Office(Box())
    await run(office.world.instance(office.program))
    patience = office.instance.outbox.patience if office.instance.outbox else timedelta(0)
    for passed, sent in ((timedelta(0), 0), (patience, 1)):
        office.world.clock.advance(passed)
        task = asyncio.create_task(watch(office.instance, interval=0.001))
        for _ in range(200):
            await asyncio.sleep(0)
            await office.instance.drain()
        task.cancel()
        assert len(office.box.ids) == sent


async def test_a_sentence_is_content() -> None:
    """Whoever may not read what was said does not read it in a line either."""
    office = await opened(Box())
    log, state = await office.instance.find("run-1")
    (pending,) = run_result(state, log.state).pending_approvals
    assert pending.sentence == "Send to ana@example.org: Facture"
    assert pending.own_words
    assert masked(pending).sentence == ""
    events = await office.world.events("session-1")
    (asked,) = [event for event in events if event.type == "approval.requested"]
    assert "Facture" not in json.dumps(shown(asked, content=False))


async def test_only_those_who_hear_of_an_agent_are_told() -> None:
    """A target that names other agents hears nothing of this one."""
    office = Office(Box())
    office.instance = office.process(agents=frozenset({"other"}))
    await run(office.instance)
    await office.instance.drain()
    assert office.box.ids == []


async def test_each_request_is_told_of_and_none_twice() -> None:
    """Of two requests, deciding one has the other told no second time."""
    asks = Ask(arguments={**MAIL, "n": 1}), Ask(arguments={**MAIL, "n": 2})
    office = await opened(Box(), *asks)
    assert len(office.box.taken) == 2
    await approve(office.instance, Ruling("run-1", "ada", "c0.0"))
    await recover(office.instance)
    await office.instance.drain()
    assert sorted(n["arguments"]["n"] for n in office.box.taken) == [1, 2]
    assert len(set(office.box.ids)) == 2


async def test_without_a_sentence_the_tool_is_named() -> None:
    """A tool that says nothing is told by its name and its arguments, on one short line."""
    office = Office(Box())
    office.tool.spec = office.tool.spec.model_copy(update={"notice": ""})
    office.program = agent(
        Model([Ask(arguments={"body": "x\n" * 900, "b": "a\u202eb"})]), office.tool
    )
    office.instance = office.process()
    await run(office.instance)
    await office.instance.drain()
    sentence = office.box.taken[0]["sentence"]
    assert sentence.startswith("clerk asks whether to call act (b = ab, body = x x x")
    assert "\n" not in sentence
    assert len(sentence) <= 500


# -- links ----------------------------------------------------------------------------------------


async def test_a_link_decides_once_and_is_signed() -> None:
    """The journal has the target and the name; the second use tells who decided, and when."""
    office = await opened(Box())
    found = await linked(office.instance, office.token)
    assert (found.agent, found.pending.arguments, found.settled) == ("clerk", MAIL, None)
    assert found.irreversible
    await decide(office.instance, office.token, granted=True, name=" Ana\n Ruiz ")
    later = (await linked(office.instance, office.token)).settled
    assert later is not None
    assert (later.how, later.by) == ("granted", "Ana Ruiz (link:chef)")
    with pytest.raises(ApprovalStale, match="Ana Ruiz"):
        await decide(office.instance, office.token, granted=False)
    assert (await office.world.types("session-1")).count("approval.rejected") == 0


async def test_a_link_that_was_overtaken_tells_by_whom() -> None:
    """What somebody decided elsewhere is what the link shows."""
    office = await opened(Box())
    await approve(office.instance, Ruling("run-1", "ada"))
    settled = (await linked(office.instance, office.token)).settled
    assert settled is not None
    assert (settled.how, settled.by) == ("granted", "ada")


async def test_a_link_is_about_one_request_only() -> None:
    """The link of a request that was decided does nothing to another one of the same run."""
    asks = Ask(arguments={**MAIL, "n": 1}), Ask(arguments={**MAIL, "n": 2})
    office = await opened(Box(), *asks)
    tokens = {n["call_id"]: str(n["link"]).rpartition("/")[2] for n in office.box.taken}
    await approve(office.instance, Ruling("run-1", "ada", "c0.0"))
    with pytest.raises(ApprovalStale):
        await decide(office.instance, tokens["c0.0"], granted=True)
    _, state = await office.instance.find("run-1")
    assert [call.awaits_answer for call in state.table] == [False, True]
    await decide(office.instance, tokens["c0.1"], granted=False, reason="no")


async def test_a_link_that_showed_something_else_is_refused() -> None:
    """What waits must be what its notice showed, byte for byte."""
    office = await opened(Box())
    links = Links((SECRET,))
    claim = links.read(office.token, office.world.clock.now())
    with pytest.raises(LinkRefused, match="no longer what the notice"):
        await decide(office.instance, links.token(replace(claim, shown="0" * 16)), granted=True)
    assert office.tool.runs == []


async def test_a_signature_is_of_one_link_only() -> None:
    """The signature of a link makes no other text a link."""
    office = await opened(Box())
    links = Links((SECRET,))
    claim = links.read(office.token, office.world.clock.now())
    other = links.token(replace(claim, target="ana")).partition(".")[0]
    with pytest.raises(LinkRefused, match="not one of ours"):
        links.read(f"{other}.{office.token.partition('.')[2]}", office.world.clock.now())


def _forged(token: str) -> list[str]:
    body, _, signed = token.partition(".")
    other = Links(("another secret, just as long",))
    return [
        "",
        ".",
        "x",
        body,
        f"{body}.",
        f"{body}.{'A' * 43}",
        f"{body[:-2]}xx.{signed}",
        f"{body}.{signed}x",
        f"{body}.{signed}\n",
        f"{token}.{signed}",
        "é" * 50,
        "A" * 5000,
        other.token(Links((SECRET,)).read(token, World().clock.now())),
    ]


async def test_a_link_that_we_did_not_sign_opens_nothing() -> None:
    """Forged, cut, odd or signed with another secret: all are refused alike."""
    office = await opened(Box())
    before = await office.world.types("session-1")
    for token in _forged(office.token):
        with pytest.raises(LinkRefused, match="not one of ours"):
            await linked(office.instance, token)
        with pytest.raises(LinkRefused):
            await decide(office.instance, token, granted=True)
    assert await office.world.types("session-1") == before
    assert office.tool.runs == []


async def test_a_link_past_its_time_is_refused() -> None:
    """It holds for its own time, and never longer than the request itself."""
    office = await opened(Box(), expires_in=60.0)
    token = office.token
    office.world.clock.advance(timedelta(seconds=61))
    with pytest.raises(LinkRefused) as refused:
        await decide(office.instance, token, granted=True)
    assert refused.value.expired


async def test_a_secret_that_was_replaced_still_opens() -> None:
    """What the previous secret signed is read; what is signed now is by the new one."""
    office = await opened(Box())
    token = office.token
    assert office.instance.outbox is not None
    office.instance.outbox.links = Links(("a new secret, long enough", SECRET))
    assert (await linked(office.instance, token)).settled is None
    office.instance.outbox.links = Links(("a new secret, long enough",))
    with pytest.raises(LinkRefused):
        await linked(office.instance, token)
