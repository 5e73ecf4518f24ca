"""F. Durability, approvals, processes."""

import asyncio
import json
import signal
import subprocess
import time
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait

import pytest

from loom_ia.access import Approved, PendingApproval, Rejected
from loom_ia.adapters.journals import disk
from loom_ia.adapters.journals.sqlite import SqliteJournal
from loom_ia.core.errors import ClaimConflict
from loom_ia.core.events.run import RunClaimed
from loom_ia.core.state.run import Status
from loom_ia.engine import log as engine_log
from loom_ia.testing import JournalSpy, ManualClock
from tests.acceptance.project import Project, call, calling, wait_for
from tests.acceptance.recording import Recorder

AT_ONCE_S = 20.0
"""Far less than a lease, far more than a command needs."""


@pytest.fixture
def relance(project: Project) -> Project:
    """The project, whose agent asks for a call that a human must grant."""
    project.tools = ["relancer"]
    project.script = [calling(call("relancer", texte="facture")), {"text": "Fini."}]
    return project.save()


def paused(project: Project, run_id: str = "r1") -> subprocess.CompletedProcess[str]:
    """Run until the pause."""
    done = project.command("run", "devis", "Relance", "--run-id", run_id)
    assert done.returncode == 1, done.stderr
    return done


def types(project: Project, run_id: str = "r1") -> list[str]:
    """List the types of the events of a run."""
    return [line["type"] for line in project.lines(run_id)]


def kill(process: subprocess.Popen[str]) -> None:
    """Kill as `kill -9` does."""
    process.kill()
    process.wait()


def test_f1_pause(relance: Project) -> None:
    """A run that waits ends its process, and says what to type to go on."""
    done = paused(relance)
    assert "paused" in done.stderr
    assert "approve r1 --call" in done.stderr
    assert done.stdout == ""
    assert relance.effects() == []


def test_f2_approve(relance: Project) -> None:
    """An approval makes the call once, and bears its author."""
    paused(relance)
    done = relance.command("approve", "r1", "--by", "ana")
    assert done.returncode == 0, done.stderr
    assert relance.effects() == ["relancer:facture"]
    (granted,) = [line for line in relance.lines("r1") if line["type"] == "approval.granted"]
    assert "ana" in str(granted)
    assert types(relance)[-1] == "run.completed"


async def test_f3_reject(relance: Project) -> None:
    """A refusal makes no call, and the model reads the reason."""
    paused(relance)
    model = Recorder(*relance.script)
    async with relance.loom(models={"SIMULE": model}) as loom:
        await loom.reject("r1", reason="non merci")
        result = await loom.resume("r1")
    assert result.ok
    assert relance.effects() == []
    assert "non merci" in model.results()[0]


def test_f3_reject_by_the_command(relance: Project) -> None:
    """The command refuses a call and goes on with the run."""
    paused(relance)
    done = relance.command("reject", "r1", "--reason", "non")
    assert done.returncode == 0, done.stderr
    assert relance.effects() == []


def test_f4_edited_arguments(relance: Project) -> None:
    """Edited arguments are what runs; invalid ones, or ones for no call, are refused."""
    paused(relance)
    before = types(relance)
    edited = json.dumps({"texte": "doucement"})
    without_call = relance.command("approve", "r1", "--arguments", edited)
    invalid = relance.command(
        "approve", "r1", "--call", "fake_0_0", "--arguments", json.dumps({"texte": 3})
    )
    assert (without_call.returncode, invalid.returncode) == (2, 2)
    assert "texte" in invalid.stderr
    assert types(relance) == before
    done = relance.command("approve", "r1", "--call", "fake_0_0", "--arguments", edited)
    assert done.returncode == 0, done.stderr
    assert relance.effects() == ["relancer:doucement"]


@pytest.mark.parametrize("action", ["deny", "fail"])
async def test_f5_expiry(relance: Project, action: str) -> None:
    """A question that nobody answers in time refuses the call or fails the run."""
    relance.agent["approval"] = {"expires_in": 1.0, "on_expiry": action}
    relance.save()
    clock = ManualClock()
    async with relance.loom(clock=clock) as loom:
        await loom.run("devis", "Relance", run_id="r1")
        clock.advance(2)
        result = await loom.resume("r1")
    assert relance.effects() == []
    if action == "deny":
        assert result.status is Status.COMPLETED
    else:
        assert (result.status, result.error_type) == (Status.FAILED, "approval.expired")
    assert "approval.expired" in types(relance)


async def test_f7_two_approvals(relance: Project) -> None:
    """A run waits until each of its questions is settled."""
    relance.script[0] = calling(call("relancer", texte="a"), call("relancer", texte="b"))
    relance.save()
    async with relance.loom() as loom:
        result = await loom.run("devis", "Relance", run_id="r1")
        first, second = (pending.call_id for pending in result.pending_approvals)
        await loom.approve("r1", call_id=first)
        halfway = await loom.resume("r1")
        assert halfway.status is Status.PAUSED
        assert [pending.call_id for pending in halfway.pending_approvals] == [second]
        await loom.approve("r1", call_id=second)
        assert (await loom.resume("r1")).ok
    assert sorted(relance.effects()) == ["relancer:a", "relancer:b"]


def test_f8_killed_in_a_model_call(project: Project) -> None:
    """A run killed in a model call asks the model again, at once."""
    with project.drive(1, "r1") as driver:
        wait_for(driver, "model 1")
        kill(driver)
    started = time.monotonic()
    done = project.command("resume", "r1")
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - started < AT_ONCE_S
    assert types(project).count("model.responded") == 2


def test_f9_killed_in_a_tool_without_effects(project: Project) -> None:
    """A run killed in a tool that changes nothing runs it again, at once."""
    project.tools, project.script = ["lire"], [calling(call("lire", cle="a")), {"text": "Lu."}]
    project.save().gate()
    with project.start("run", "devis", "Lis", "--run-id", "r1", HANG="1") as driver:
        wait_for(driver, "hanging")
        kill(driver)
    started = time.monotonic()
    done = project.command("resume", "r1")
    assert (done.returncode, done.stdout) == (0, "Lu.\n"), done.stderr
    assert time.monotonic() - started < AT_ONCE_S
    assert project.effects() == ["lire:a", "lire:a"]
    called = [line for line in project.lines("r1") if line["type"] == "tool.called"]
    assert [line["payload"].get("resumed", False) for line in called] == [False, True]


@pytest.mark.parametrize("on_unknown", ["error", "pause"])
def test_f10_killed_in_an_irreversible_tool(project: Project, on_unknown: str) -> None:
    """An irreversible call that was killed is not made again: the model, or a human, is told."""
    project.tools = [{"python": "envoyer", "on_unknown": on_unknown}]
    project.script = [calling(call("envoyer", texte="a")), {"text": "Fini."}]
    project.save().gate()
    with project.start("run", "devis", "Envoie", "--run-id", "r1", HANG="1") as driver:
        wait_for(driver, "hanging")
        kill(driver)
    done = project.command("resume", "r1")
    assert project.effects() == ["envoyer:a"]
    if on_unknown == "error":
        assert done.returncode == 0, done.stderr
        (told,) = [line for line in project.lines("r1") if line["type"] == "tool.completed"]
        assert told["payload"]["outcome"] == "unknown"
        return
    assert done.returncode == 1
    assert "may have taken effect" in done.stderr
    assert project.command("approve", "r1").returncode == 0
    assert project.effects() == ["envoyer:a", "envoyer:a"]


def test_f11_killed_after_a_result(project: Project) -> None:
    """A call whose result is written is never made again."""
    project.tools = ["envoyer"]
    project.script = [calling(call("envoyer", texte="a")), {"text": "Fini."}]
    project.save()
    with project.drive(2, "r1") as driver:
        wait_for(driver, "model 2")
        kill(driver)
    done = project.command("resume", "r1")
    assert (done.returncode, done.stdout) == (0, "Fini.\n"), done.stderr
    assert project.effects() == ["envoyer:a"]
    assert types(project).count("tool.called") == 1


async def test_f16_a_frozen_driver_wakes_too_late(project: Project) -> None:
    """A driver that was stopped beyond its lease can write nothing once another took the run."""
    project.tools, project.script = ["lire"], [calling(call("lire", cle="a")), {"text": "Lu."}]
    project.execution = {"lease": 1.0, "shutdown_timeout": 1.0}
    gate = project.save().gate()
    with project.start("run", "devis", "Lis", "--run-id", "r1", HANG="1") as frozen:
        wait_for(frozen, "hanging")
        frozen.send_signal(signal.SIGSTOP)
        async with project.loom() as other:
            while True:
                try:
                    result = await other.resume("r1")
                except ClaimConflict as conflict:  # it may live: only time can tell
                    left = conflict.lease_until.timestamp() - time.time()
                    await asyncio.sleep(max(left, 0.0))
                else:
                    break
            assert result.ok
        written = types(project)
        frozen.send_signal(signal.SIGCONT)
        gate.write_text("")  # its tool ends, and its result has nowhere to go
        frozen.wait(timeout=30)
    assert types(project) == written
    claims = [line for line in project.lines("r1") if line["type"] == "run.claimed"]
    workers = list(dict.fromkeys(line["payload"]["worker_id"] for line in claims))
    assert len(workers) == 2


def test_f18_recover_after_a_kill(project: Project) -> None:
    """A process killed with three open runs leaves three runs that complete, at once."""
    with project.drive(2, "r1", "r2", "r3") as driver:
        for _ in range(3):
            wait_for(driver, "model 2")
        kill(driver)
    started = time.monotonic()
    done = project.command("recover")
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - started < AT_ONCE_S
    assert sorted(done.stdout.splitlines()) == [f"r{n} completed" for n in (1, 2, 3)]
    assert project.effects() == ["prix_ttc"] * 3


@pytest.mark.parametrize("sync", [True, False], ids=["function", "coroutine"])
async def test_f21_inline_approver(relance: Project, sync: bool) -> None:
    """With a function that decides the run never pauses, and its decision is in the journal."""
    relance.script[0] = calling(call("relancer", texte="oui"), call("relancer", texte="non"))
    relance.save()
    seen: list[Status] = []

    def decide(pending: PendingApproval) -> Approved | Rejected:
        return Approved() if pending.arguments["texte"] == "oui" else Rejected("trop tôt")

    async def decide_later(pending: PendingApproval) -> Approved | Rejected:
        return decide(pending)

    async with relance.loom() as loom:
        result = await loom.run(
            "devis", "Relance", run_id="r1", approver=decide if sync else decide_later
        )
        seen.append(result.status)
    assert seen == [Status.COMPLETED]
    assert relance.effects() == ["relancer:oui"]
    counts = Counter(types(relance))
    assert counts["approval.requested"] == 2
    assert counts["approval.granted"] == counts["approval.rejected"] == 1


# -- processes that want the same run, and counts -------------------------------------------------


@pytest.mark.parametrize("backend", ["jsonl", "sqlite"])
def test_two_processes_drive_one_run(project: Project, backend: str) -> None:
    """Of two processes that resume one run, one drives it; the other is told and writes nothing."""
    project.backend, project.tools = backend, ["lire"]
    project.script = [calling(call("lire", cle="a")), {"text": "Lu."}]
    gate = project.save().gate()
    with project.drive(1, "r1") as dead:
        wait_for(dead, "model 1")
        kill(dead)
    with (
        ThreadPoolExecutor(2) as pool,
        project.start("resume", "r1", HANG="1") as one,
        project.start("resume", "r1", HANG="1") as two,
    ):
        ends = {pool.submit(process.wait): process for process in (one, two)}
        done, left = wait(ends, timeout=30, return_when=FIRST_COMPLETED)
        (loser,), (winner,) = done, left
        assert loser.result() == 2
        wait_for(ends[winner], "hanging")
        gate.write_text("")
        assert winner.result(timeout=30) == 0
    assert project.effects() == ["lire:a"]

    async def claimants() -> set[str]:
        async with project.loom() as loom:
            events = await loom.events("r1")
            claims = [e.payload for e in events if isinstance(e.payload, RunClaimed)]
            return {claim.worker_id for claim in claims}

    assert len(asyncio.run(claimants())) == 2  # the dead one and the winner


async def test_concurrent_runs_share_their_flushes(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fifty runs at once use less than a quarter of the flushes of fifty one after the other."""
    project.backend, project.tools = "sqlite", ["envoyer"]
    project.script = [calling(call("envoyer", texte="a")), {"text": "Fini."}]
    project.save()
    flushes = 0
    honest = disk.sync_data

    def counting(descriptor: int) -> None:
        nonlocal flushes
        flushes += 1
        honest(descriptor)

    monkeypatch.setattr(disk, "sync_data", counting)
    async with project.loom() as loom:
        for number in range(50):
            assert (await loom.run("devis", f"Envoie {number}")).ok
    one_by_one, flushes = flushes, 0
    async with project.loom() as loom:
        results = await asyncio.gather(*(loom.run("devis", f"Envoie {n}") for n in range(50)))
        assert all(result.ok for result in results)
    assert one_by_one >= 50
    assert flushes < one_by_one / 4


async def test_a_long_run_reads_once_and_folds_each_event_once(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run of a thousand tool turns reads its journal once at most, and folds each event once."""
    project.tools, project.agent["max_iterations"] = ["rien"], 2000
    project.more_tools = "\n\n@tool\nasync def rien() -> None:\n    'Ne fait rien.'\n"
    project.script = [*[calling(call("rien")) for _ in range(1000)], {"text": "Fini."}]
    project.save()
    folds = 0
    honest = engine_log.apply

    def counting(run, fact):
        nonlocal folds
        folds += 1
        return honest(run, fact)

    monkeypatch.setattr(engine_log, "apply", counting)
    spy = JournalSpy(SqliteJournal(project.folder / "counted.db"))
    async with project.loom(store=spy) as loom:
        result = await loom.run("devis", "Recommence", run_id="r1")
    assert result.ok
    assert result.iterations == 1001
    assert spy.counts.reads <= 1
    assert spy.counts.events > 4000
    assert folds == spy.counts.events - 1  # the first event begins the run
    assert spy.counts.appends < 2.5 * 1001
