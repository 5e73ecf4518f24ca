"""PUB-01 to PUB-09: what users of other systems hit around approvals."""

import asyncio
import json
from typing import cast

import pytest

from loom_ia.access import PendingApproval
from loom_ia.core.errors import ApprovalStale, DecisionRefused, UnknownApproval
from loom_ia.core.model.content import ToolCallBlock, ToolResultBlock
from loom_ia.core.state.run import Status
from loom_ia.engine.program import Approver
from tests.acceptance.project import Project, call, calling, wait_for
from tests.acceptance.recording import Recorder


@pytest.fixture
def relance(project: Project) -> Project:
    """The project, whose agent reads, and asks for calls that a human must grant."""
    project.tools = ["lire", "relancer"]
    project.script = [calling(call("relancer", texte="facture")), {"text": "Fini."}]
    return project.save()


def types(project: Project) -> list[str]:
    """List the types of the events of the run r1."""
    return [line["type"] for line in project.lines("r1")]


async def test_pub01_nothing_before_a_pause_runs_again(relance: Project) -> None:
    """Approving three times in a row never repeats what was done before, nor what was approved."""
    relance.script = [
        calling(call("lire", cle="avant")),
        *[calling(call("relancer", texte=str(n))) for n in range(3)],
        {"text": "Fini."},
    ]
    relance.save()
    for turn in range(4):  # each in a library that knows nothing but the journal
        async with relance.loom() as loom:
            if turn == 0:
                result = await loom.run("devis", "Relance", run_id="r1")
            else:
                await loom.approve("r1", by="ana")
                result = await loom.resume("r1")
        assert result.status is (Status.COMPLETED if turn == 3 else Status.PAUSED)
    assert relance.effects() == ["lire:avant", "relancer:0", "relancer:1", "relancer:2"]
    lines = [line for line in relance.lines("r1") if line["type"] == "tool.completed"]
    calls = [line["payload"]["call_id"] for line in lines]
    assert len(calls) == len(set(calls)) == 4


async def test_pub02_an_answer_to_several_questions(relance: Project) -> None:
    """With several questions open, an answer that does not say which decides none of them."""
    relance.script[0] = calling(call("relancer", texte="a"), call("relancer", texte="b"))
    relance.save()
    async with relance.loom() as loom:
        result = await loom.run("devis", "Relance", run_id="r1")
        before = types(relance)
        with pytest.raises(ApprovalStale) as refusal:
            await loom.approve("r1")
        done = relance.command("approve", "r1")
        for pending in result.pending_approvals:
            assert pending.call_id in str(refusal.value)
            assert pending.call_id in done.stderr
    assert done.returncode == 2
    assert types(relance) == before
    assert relance.effects() == []
    for call_id, code in (("fake_0_0", 1), ("fake_0_1", 0)):  # the last one needs no more
        words = ("--call", call_id) if code else ()
        assert relance.command("approve", "r1", *words).returncode == code
    assert sorted(relance.effects()) == ["relancer:a", "relancer:b"]


@pytest.mark.parametrize("given", [None, True, "yes", "false", {"approved": True}])
async def test_pub03_what_is_no_decision_decides_nothing(relance: Project, given: object) -> None:
    """Only a decision decides: anything else that an approver gives leaves the run waiting."""

    def giving(pending: PendingApproval) -> object:
        return given

    async with relance.loom() as loom:
        with pytest.raises(DecisionRefused, match="giving gave"):
            await loom.run("devis", "Relance", run_id="r1", approver=cast("Approver", giving))
        result = await loom.result("r1")
        assert result.status is Status.PAUSED
        assert len(result.pending_approvals) == 1
    assert relance.effects() == []
    assert not {"approval.granted", "approval.rejected"} & set(types(relance))


async def test_pub04_invalid_arguments_are_not_put_to_a_human(relance: Project) -> None:
    """A call that cannot run is told to the model, and only the valid one is asked about."""
    relance.script.insert(0, calling(call("relancer")))
    relance.save()
    model = Recorder(*relance.script)
    async with relance.loom(models={"SIMULE": model}) as loom:
        result = await loom.run("devis", "Relance", run_id="r1")
        (pending,) = result.pending_approvals
        assert pending.arguments == {"texte": "facture"}
        assert "texte" in model.results()[0]
        await loom.approve("r1")
        assert (await loom.resume("r1")).ok
    assert types(relance).count("approval.requested") == 1
    assert relance.effects() == ["relancer:facture"]


def test_pub05_approved_in_another_profile(relance: Project) -> None:
    """An approval given in another process and another profile is honoured, and once."""
    with relance.drive(0, "r1") as driver:
        wait_for(driver, "over")
        driver.kill()
    done = relance.command("--profile", "dev", "approve", "r1", LOOM_PROFILE="prod")
    assert done.returncode == 0, done.stderr
    assert relance.effects() == ["relancer:facture"]
    assert types(relance).count("approval.requested") == 1


def test_pub06_a_model_that_fails_after_an_approved_call(relance: Project) -> None:
    """When the model fails after an approved call, the run goes on from there once it can."""
    script = relance.script
    relance.script = [script[0], {"error": "overloaded"}]
    relance.save()
    assert relance.command("run", "devis", "Relance", "--run-id", "r1").returncode == 1
    failed = relance.command("approve", "r1", "--json")
    assert failed.returncode == 1
    assert json.loads(failed.stdout)["error_type"] == "model.overloaded"
    relance.script = script
    relance.save()
    done = relance.command("resume", "r1")
    assert (done.returncode, done.stdout) == (0, "Fini.\n"), done.stderr
    assert relance.effects() == ["relancer:facture"]
    assert types(relance).count("approval.requested") == 1


async def test_pub07_a_cancelled_question_blocks_nobody(relance: Project) -> None:
    """After a run that waited is cancelled, its session goes on with a valid history."""
    async with relance.loom() as loom:
        await loom.run("devis", "Relance", run_id="r1", session_id="s")
        assert await loom.cancel("r1")
        assert (await loom.result("r1")).pending_approvals == ()
    model = Recorder({"text": "Bonjour."})
    async with relance.loom(models={"SIMULE": model}) as loom:
        assert (await loom.run("devis", "Encore là ?", session_id="s")).ok
    messages = tuple(model.requests[0].conversation())
    asked = [b.call_id for m in messages for b in m.blocks if isinstance(b, ToolCallBlock)]
    given = [b.call_id for m in messages for b in m.blocks if isinstance(b, ToolResultBlock)]
    assert asked == given == ["fake_0_0"]
    assert "await a human" not in model.requests[0].system
    assert relance.effects() == []


async def test_pub08_a_decision_on_nothing(relance: Project) -> None:
    """A decision on an unknown call is refused, names those that wait, and changes nothing."""
    async with relance.loom() as loom:
        await loom.run("devis", "Relance", run_id="r1")
        before = types(relance)
        for decide in (loom.approve, loom.reject):
            with pytest.raises(UnknownApproval, match="fake_0_0"):
                await decide("r1", call_id="autre")
        assert (await loom.result("r1")).status is Status.PAUSED
    done = relance.command("reject", "r1", "--call", "autre")
    assert done.returncode == 2
    assert "fake_0_0" in done.stderr
    assert types(relance) == before


def test_pub09_resumed_by_its_id_alone(relance: Project) -> None:
    """A killed run is resumed by its id, with no message, by the command and by the library."""
    relance.tools = ["lire"]
    relance.script = [calling(call("lire", cle="a")), calling(call("lire", cle="b")), {"text": "L"}]
    relance.save()
    for number, rank in ((1, 2), (2, 3)):
        with relance.drive(rank, f"r{number}") as driver:
            wait_for(driver, f"model {rank}")
            driver.kill()
    assert relance.command("resume", "r1").returncode == 0

    async def resume() -> bool:
        async with relance.loom() as loom:
            return (await loom.resume("r2")).ok

    assert asyncio.run(resume())
    assert sorted(relance.effects()) == ["lire:a", "lire:a", "lire:b", "lire:b"]
