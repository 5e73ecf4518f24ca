"""Decisions of a human, taken from the command line."""

import getpass
import json
from pathlib import Path

import pytest

from loom_ia.access import Loom
from tests.access.cli.conftest import Desk, Shell

USER = f"cli:{getpass.getuser()}"


@pytest.mark.parametrize(
    ("lang", "waiting"), [("fr", "En attente : envoyer"), ("en", "Waiting    : envoyer")]
)
def test_f1_a_pause_prints_the_command_to_type(mail: Path, lang: str, waiting: str) -> None:
    """A run that waits exits with 1 and shows the call, its arguments and the command."""
    config = str(mail / "loom.yaml")
    done = Shell(mail, lang).run("--config", config, "run", "un", "écris", "--run-id", "r1")
    assert (done.code, done.out) == (1, "")
    assert f"{waiting} (fake_0_0) — loom --config {config} approve r1 --call fake_0_0\n" in done.err
    assert '{"a": "Durand", "corps": "Bonjour \\u202e"}' in done.err
    assert "\u202e" not in done.err


@pytest.mark.parametrize("shape", [(), ("--stream",)])
def test_a_journal_in_memory_promises_no_decision(loom: Desk, shape: tuple[str, ...]) -> None:
    """No command that cannot work is shown: the run is forgotten, and the remedy is said."""
    config = loom.folder / "loom.yaml"
    text = config.read_text("utf-8").replace("{backend: jsonl, path: data}", "{}")
    config.write_text(text, "utf-8")
    done = loom("--profile", "dev", "run", "un", "bonjour", *shape)
    assert done.code == 1
    assert "loom " not in done.err
    assert "Waiting    : envoyer (" in done.err
    assert done.err.endswith(
        "Forgotten  : the journal in memory forgets the run when this command ends "
        "(use jsonl or sqlite under storage.events)\n"
    )
    failed = loom("--profile", "dev", "run", "panne", "bonjour", *shape)
    assert "Forgotten  : " in failed.err
    assert "loom resume" not in failed.err


def test_f2_approve_acts_once_and_goes_on(mail: Path) -> None:
    """The tool acts once, the run is completed, and the journal says who granted it."""
    shell = Shell(mail)
    shell.run("run", "un", "écris", "--run-id", "r1")
    done = shell.run("approve", "r1")
    assert (done.code, done.out) == (0, "C'est fait.\n")
    assert len(shell.sent) == 1
    tree = json.loads(shell.run("inspect", "r1", "--json").out)
    (approval,) = tree["steps"][1]["items"][0]["approvals"]
    assert (approval["verdict"], approval["by"]) == ("granted", USER)


def test_f3_reject_gives_the_reason_to_the_model(loom: Desk) -> None:
    """A refused call does not act, and its result tells the reason."""
    loom("run", "un", "écris", "--run-id", "r1")
    done = loom("reject", "r1", "--reason", "non")
    assert (done.code, loom.sent) == (0, [])
    (orphan,) = json.loads(loom("inspect", "r1", "--json").out)["orphans"]
    assert "non" in orphan["result"]
    assert orphan["approvals"][0]["reason"] == "non"


def test_f4_edited_arguments_reach_the_tool(loom: Desk) -> None:
    """The tool gets the arguments of the human, whose name stands beside the local user."""
    loom("run", "un", "écris", "--run-id", "r1")
    edited = '{"a": "Petit", "corps": "autre"}'
    words = ("--call", "fake_0_0", "--arguments", edited, "--by", "Zoé")
    assert loom("approve", "r1", *words).code == 0
    assert loom.sent == ["Petit: autre"]
    assert f"granted by Zoé ({USER}) with other arguments" in loom("inspect", "r1").out


@pytest.mark.parametrize(
    "words",
    [
        ("--call", "fake_0_0", "--arguments", '{"a": 3}'),
        ("--call", "fake_0_0", "--arguments", "[]"),
        ("--call", "fake_0_0", "--arguments", "{"),
        ("--call", "fake_0_0", "--arguments", '{"a": NaN, "corps": "x"}'),
        ("--arguments", '{"a": "Petit", "corps": "x"}'),
        ("--call", "fake_9_9"),
    ],
)
def test_f4_a_wrong_decision_is_refused_and_the_request_stays(
    loom: Desk, words: tuple[str, ...]
) -> None:
    """Invalid arguments, arguments without a call and an unknown call decide nothing."""
    loom("run", "un", "écris", "--run-id", "r1")
    done = loom("approve", "r1", *words)
    assert (done.code, done.out, loom.sent) == (2, "", [])
    assert done.err.startswith("Error      : ")
    assert json.loads(loom("inspect", "r1", "--json").out)["status"] == "paused"


@pytest.mark.parametrize("verb", ["approve", "reject"])
def test_pub_02_several_calls_need_a_call_id(loom: Desk, verb: str) -> None:
    """Without `--call` while two wait nothing is decided, and both are listed."""
    loom("run", "deux", "écris", "--run-id", "r1")
    done = loom(verb, "r1")
    assert (done.code, loom.sent) == (2, [])
    assert "fake_0_0 (envoyer), fake_0_1 (envoyer)" in done.err
    first = loom("approve", "r1", "--call", "fake_0_1")
    assert first.code == 1
    assert "Status     : paused" in first.err
    assert loom("approve", "r1").code == 0
    assert sorted(loom.sent) == ["Durand: un", "Petit: deux"]


def test_pub_08_an_unknown_call_names_those_that_wait(loom: Desk) -> None:
    """A call that nobody asks about is refused with the ids that could be meant."""
    loom("run", "un", "écris", "--run-id", "r1")
    assert "pending: fake_0_0 (envoyer)" in loom("reject", "r1", "--call", "x").err


def test_no_wait_only_writes_the_decision(loom: Desk) -> None:
    """With `--no-wait` the tool is left alone until somebody resumes the run."""
    loom("run", "un", "écris", "--run-id", "r1")
    assert loom("approve", "r1", "--no-wait").code == 0
    assert loom.sent == []
    assert loom("resume", "r1").code == 0
    assert len(loom.sent) == 1


def test_a_second_decision_tells_who_took_the_first(loom: Desk) -> None:
    """Deciding twice is refused, with who decided and when."""
    loom("run", "deux", "écris", "--run-id", "r1")
    loom("approve", "r1", "--call", "fake_0_0", "--no-wait")
    done = loom("reject", "r1", "--call", "fake_0_0")
    assert done.code == 2
    assert f"was decided by {USER} at " in done.err


def test_a_decision_on_a_run_that_is_over_is_refused(loom: Desk) -> None:
    """Nothing is left to decide: exit code 2, and no answer on standard output."""
    loom("run", "echo", "bonjour", "--run-id", "r1")
    done = loom("approve", "r1")
    assert (done.code, done.out) == (2, "")
    assert "Nothing was decided: the run is over." in done.err


def test_a_paused_run_says_so_even_when_quiet(loom: Desk) -> None:
    """`--quiet` is silent about a completed run only."""
    assert loom("run", "echo", "bonjour", "-q").err == ""
    assert "Status     : paused" in loom("run", "un", "écris", "-q").err


@pytest.mark.parametrize(
    ("lang", "said"),
    [
        ("en", "no call of run r1 waits for a decision"),
        ("fr", "aucun appel du run r1 n'attend de décision"),
    ],
)
def test_pub_08_nothing_waits_any_more(loom: Desk, lang: str, said: str) -> None:
    """Without a call id, and with no call that waits, the run is named and nothing else."""
    loom("run", "un", "écris", "--run-id", "r1")
    loom("approve", "r1", "--no-wait")
    done = loom("approve", "r1", "--lang", lang)
    assert done.code == 2
    assert f"{said}\n" in done.err


@pytest.mark.parametrize("resume", [True, False])
async def test_a_decision_may_only_be_written(loom: Desk, resume: bool) -> None:
    """From Python, `resume=False` writes the decision; otherwise the run goes on behind it."""
    async with Loom.from_config("loom.yaml") as door:
        await door.run("un", "écris", run_id="r1")
        assert await door.approve("r1", resume=resume) == ("fake_0_0",)
    assert loom.sent == (["Durand: Bonjour \u202e"] if resume else [])
    async with Loom.from_config("loom.yaml") as door:
        await door.run("un", "écris", run_id="r2")
        await door.reject("r2", reason="non", resume=resume)
    async with Loom.from_config("loom.yaml") as door:
        assert (await door.result("r2")).ok is resume
