"""What each command does with its words, and how it refuses."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from loom_ia.access.cli import arguments, terminal
from tests.access.cli.conftest import Desk, Outcome, Shell

ECHO = ("run", "echo", "bonjour")


def _wait_for_run(mail: Path, run_id: str) -> None:
    """Wait until the journal knows the run and its model is being called."""
    file = mail / "data" / "default" / f"{run_id}.jsonl"
    limit = time.monotonic() + 30
    while not (file.exists() and "step.started" in file.read_text("utf-8")):
        assert time.monotonic() < limit, "the run did not begin"
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("number", "code", "lang", "said"),
    [
        (signal.SIGINT, 130, "en", "Interrupted: the run can be resumed with loom resume r1\n"),
        (signal.SIGTERM, 143, "fr", "Interrompu : le run peut être repris avec loom resume r1\n"),
    ],
)
def test_a_signal_hands_the_run_back(
    mail: Path, number: signal.Signals, code: int, lang: str, said: str
) -> None:
    """Ctrl-C and SIGTERM stop at once, say how to go on, and leave the run to whoever wants it."""
    shell = Shell(mail, lang)
    process = shell.start("run", "lent", "bonjour", "--run-id", "r1")
    _wait_for_run(mail, "r1")
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err.decode()) == (code, b"", said)
    assert shell.run("cancel", "r1").code == 0


STUBBORN = """\
import time
from pathlib import Path

from loom_ia.tools import tool


@tool(side_effects="irreversible")
def envoyer(a: str, corps: str) -> str:
    "Envoie un message, sans hâte."
    Path(__file__).with_name("parti.txt").touch()
    time.sleep(60)
    return "envoyé"
"""


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ("{backend: jsonl, path: data}", b"the run can be resumed with loom --profile dev resume"),
        ("{}", b"the journal in memory forgets the run when this command ends (use jsonl or"),
    ],
)
def test_a_tool_that_cannot_be_cut_is_waited_for(mail: Path, events: str, said: bytes) -> None:
    """Ctrl-C says what it waits for, and for how long at most; a second one leaves at once."""
    config = mail / "loom.yaml"
    text = config.read_text("utf-8").replace("{backend: jsonl, path: data}", events)
    config.write_text(text, "utf-8")
    (mail / "outils.py").write_text(STUBBORN, "utf-8")
    process = Shell(mail).start("--profile", "dev", "run", "un", "bonjour", "--run-id", "r1")
    assert process.stderr is not None
    limit = time.monotonic() + 30
    while not (mail / "parti.txt").exists():
        assert time.monotonic() < limit, "the tool did not begin"
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    assert process.stderr.readline().startswith(b"Interrupted: " + said)
    assert process.stderr.readline() == (
        b"Waiting for the tool under way, which cannot be cut: at most 30 s "
        b"(execution.shutdown_timeout). Ctrl-C again leaves at once.\n"
    )
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=20) == (b"", b"")
    assert process.returncode == 130


def test_pub_09_a_killed_run_is_resumed_by_its_id_alone(mail: Path) -> None:
    """After a kill the run goes on at once, from the command line, without a new message."""
    config = mail / "loom.yaml"
    process = Shell(mail).start("run", "lent", "bonjour", "--run-id", "r1")
    _wait_for_run(mail, "r1")
    process.kill()
    process.communicate(timeout=20)
    config.write_text(config.read_text("utf-8").replace("delay: 30", "delay: 0"), "utf-8")
    done = Shell(mail).run("resume", "r1")
    assert (done.code, done.out) == (0, "Me voici.\n")


def test_a_run_that_is_driven_is_not_taken_unasked(mail: Path) -> None:
    """`resume` of a driven run exits with 2, says who drives until when, and names the way."""
    config = mail / "loom.yaml"
    shell = Shell(mail)
    process = shell.start("run", "lent", "bonjour", "--run-id", "r1")
    _wait_for_run(mail, "r1")
    done = shell.run("resume", "r1")
    assert done.code == 2
    assert re.search(r"run r1 is driven by worker-\w+ until \d{4}-\d\d-\d\dT", done.err)
    assert "loom resume r1 --take-over" in done.err
    config.write_text(config.read_text("utf-8").replace("delay: 30", "delay: 0"), "utf-8")
    assert shell.run("resume", "r1", "--take-over").out == "Me voici.\n"
    process.kill()
    process.communicate(timeout=20)


def test_pub_56_json_tells_the_statuses_apart(loom: Desk) -> None:
    """`--json` is one document on standard output, whatever became of the run."""
    found = {
        agent: (done.code, json.loads(done.out)["status"], done.err)
        for agent in ("echo", "un", "panne")
        for done in [loom("run", agent, "x", "--json")]
    }
    assert found == {
        "echo": (0, "completed", ""),
        "un": (1, "paused", ""),
        "panne": (1, "failed", ""),
    }


def test_a_failed_run_says_why_and_how_to_go_on(loom: Desk) -> None:
    """The error is on standard error, with the command that tries again."""
    done = loom("run", "panne", "x", "--run-id", "r1")
    assert (done.code, done.out) == (1, "")
    assert "Error      : model.auth — the script of PANNE fails here" in done.err
    assert "Go on with : loom resume r1\n" in done.err


@pytest.mark.parametrize("before", [True, False])
def test_global_options_stand_before_or_after(
    loom: Desk, before: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`--config`, `--profile` and `--lang` are read on both sides of the command."""
    monkeypatch.chdir(tmp_path)
    options = ("--config", str(loom.folder / "loom.yaml"), "--profile", "dev", "--lang", "fr")
    done = loom(*options, "validate") if before else loom("validate", *options)
    assert done.code == 0
    assert "Profil     : dev (--profile) ; surcharges : aucune\n" in done.out


def test_b8_the_profile_of_the_words_wins(loom: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The option wins over the variable, which wins over the file."""
    config = loom.folder / "loom.yaml"
    config.write_text("profile: dev\n" + config.read_text("utf-8"), "utf-8")
    assert "Profile    : dev (profile:)" in loom("validate").out
    monkeypatch.setenv("LOOM_PROFILE", "dev")
    assert "Profile    : dev (LOOM_PROFILE)" in loom("validate").out
    assert "Profile    : prod (--profile)" in loom("--profile", "prod", "validate").out


def test_b1_every_problem_has_its_line(loom: Desk) -> None:
    """A wrong key is named with its file, its line and its model, one problem a line."""
    config = loom.folder / "loom.yaml"
    text = config.read_text("utf-8").replace("model: fake-1", "model: fake-1\n    max_token: 3")
    config.write_text(f"{text}import: [b]\n", "utf-8")
    done = loom("validate")
    assert (done.code, done.out) == (2, "")
    first, second = done.err.splitlines()
    assert first.startswith("loom.yaml:11: models[UN].max_token — unknown key")
    assert re.match(r"loom\.yaml:\d+: import — unknown key", second)


def test_the_message_may_come_from_standard_input(mail: Path) -> None:
    """`-` reads the message, whose last line break is dropped."""
    shell = Shell(mail)
    words = [sys.executable, "-m", "loom_ia.access.cli.main", "run", "echo", "-", "-q"]
    said = "deux\nlignes à lire\n".encode()
    out = subprocess.check_output(words, cwd=shell.folder, input=said)
    assert out.decode() == "deux\nlignes à lire\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "nobody", "x"), "there is no agent 'nobody'; agents: un, deux, lent"),
        (("run", "echo", "   "), "the message is empty"),
        (("inspect", "r9"), "there is no run r9"),
        (("resume", "r9"), "there is no run r9"),
        (("approve", "r9"), "there is no run r9"),
        (("cancel", "r9"), "there is no run r9"),
        (("run", "echo", "x", "--run-id", "../x"), "cannot be used"),
        (("--config", "none.yaml", "validate"), "none.yaml: "),
        ((), "usage: loom"),
        (("--config", "none.yaml"), "usage: loom"),
        (("--nothing",), "unrecognized arguments: --nothing"),
        (("run", "echo"), "required: MESSAGE"),
        (("zzz",), "there is no command zzz (commands: init, validate, "),
        (("--lang", "en", "valdate"), "there is no command valdate (did you mean validate?)\n"),
        (("help", "dance"), "there is no command dance"),
        (("run", "echo", "x", "--json", "--stream"), "not allowed with argument"),
        (("--profile", "test", "validate"), "invalid choice: 'test'"),
    ],
)
def test_what_cannot_be_done_exits_with_2(loom: Desk, words: tuple[str, ...], said: str) -> None:
    """A usage error, an unknown name and a bad configuration are refused on standard error."""
    done = loom(*words)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize("command", arguments.NOT_YET)
def test_a_command_to_come_is_told_in_one_line(loom: Desk, command: str) -> None:
    """A command of the language that this version has not is neither unknown nor a usage error."""
    said = f"Error      : loom {command} is not available in this version\n"
    for words in ((command,), ("--profile", "dev", command, "x", "--reload"), ("help", command)):
        assert loom(*words) == Outcome(2, "", said)


def test_help_may_be_asked_with_a_word(loom: Desk) -> None:
    """`loom help` is `loom --help`, with a command too; `loom` alone says the same and refuses."""
    asked = loom("--help")
    assert asked.code == 0
    assert loom("help") == asked
    assert loom("--lang", "en", "help", "run") == loom("run", "--help")
    assert loom() == Outcome(2, "", asked.out)


def test_usage_errors_are_said_in_french(loom: Desk) -> None:
    """What argparse says is translated too, and argparse is left as it was."""
    done = loom("--lang", "fr", "run", "echo")
    assert done.err.startswith("usage : loom run")
    assert "il manque des arguments obligatoires : MESSAGE" in done.err
    assert loom("run", "echo").err.startswith("usage: loom run")


def test_a_fault_of_ours_is_one_line(loom: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unexpected exception exits with 1 and shows its traceback only when asked."""

    def broken(value: object) -> None:
        raise ZeroDivisionError("over\nthere")

    monkeypatch.setattr(terminal, "show", broken)
    done = loom("validate")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("Unexpected : ZeroDivisionError: over there (run it again")
    monkeypatch.setenv("LOOM_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        loom("validate")


def test_a_session_continues(loom: Desk) -> None:
    """Two runs of one session are in one file, and each is found by its id alone."""
    for run_id in ("r1", "r2"):
        assert loom(*ECHO, "--session", "s", "--run-id", run_id).code == 0
    assert (loom.folder / "data" / "default" / "s.jsonl").exists()
    assert json.loads(loom("inspect", "r2", "--json").out)["session_id"] == "s"


def test_cancel_tells_what_it_found(loom: Desk) -> None:
    """0 when the run is cancelled, now or before; 1 when it had ended otherwise."""
    loom("run", "un", "x", "--run-id", "r1")
    assert loom("cancel", "r1", "--by", "Zoé").err == "Run r1 is cancelled.\n"
    again = loom("cancel", "r1")
    assert (again.code, again.err) == (0, "Run r1 was over already: cancelled.\n")
    assert "cancelled : by Zoé (cli:" in loom("inspect", "r1").out
    loom(*ECHO, "--run-id", "r2")
    assert loom("cancel", "r2").code == 1


def test_recover_counts_what_it_found(loom: Desk) -> None:
    """A run that waits is left alone; one that was decided goes on."""
    loom("run", "un", "x", "--run-id", "r1")
    loom("run", "un", "x", "--run-id", "r2")
    loom("approve", "r2", "--no-wait")
    done = loom("recover")
    assert (done.code, done.out) == (0, "r2 completed\n")
    assert done.err.startswith("Taken up   : 1 · waiting for a human: 1 ·")


def test_inspect_reads_a_run_whose_tools_are_broken(loom: Desk) -> None:
    """Reading and cancelling need none of the user's code."""
    loom("run", "un", "x", "--run-id", "r1")
    (loom.folder / "outils.py").write_text("raise RuntimeError")
    assert loom("inspect", "r1").code == 0
    assert loom("cancel", "r1").code == 0
    assert loom("validate").code == 2


def test_full_cuts_nothing(loom: Desk) -> None:
    """Long texts are cut and put on one line, unless `--full`."""
    text = "première ligne\n" + "mot " * 100 + "fin"
    loom("run", "echo", text, "--run-id", "r1")
    assert "première ligne mot mot" in (short := loom("inspect", "r1").out)
    assert "…" in short
    assert "fin\n" in (full := loom("inspect", "r1", "--full").out)
    assert "…" not in full


def test_help_is_quick_and_light(mail: Path) -> None:
    """`loom --help` imports neither Pydantic nor the engine."""
    code = (
        "import sys; from loom_ia.access.cli.main import main; main(['--help']);"
        "print([m for m in sys.modules if m in {'pydantic', 'yaml', 'asyncio'}], file=sys.stderr)"
    )
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, cwd=mail, check=True)
    assert done.stderr == "[]\n"
    assert done.stdout.startswith("usage: loom")


def test_version_is_the_package_s(loom: Desk) -> None:
    """`loom --version` says the version and exits with 0."""
    done = loom("--version")
    assert done.code == 0
    assert re.fullmatch(r"loom \d+\.\d+\.\d+\S*\n", done.out)


def test_control_characters_are_shown_not_obeyed() -> None:
    """Escapes and marks that reverse the reading are written out; accents and spaces stay."""
    assert (
        terminal.printable("é\u202f€\t\x1b[31m\u202e\u0085\n")
        == "é\u202f€\t\\x1b[31m\\u202e\\x85\n"
    )


def test_an_answer_that_cannot_be_written_is_a_failure(mail: Path) -> None:
    """On a full disk the command exits with 1 and one line, not with a traceback."""
    with Path("/dev/full").open("wb") as full:
        process = Shell(mail).start("run", "echo", "bonjour", "-q", stdout=full)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 1
    assert re.fullmatch(r"Unexpected : OSError: .* \(run it again with .*\)\n", err.decode())
