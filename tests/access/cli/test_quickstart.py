"""The quick start prints what the product page shows, as a user types it."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from loom_ia.access.cli.quickstart import FILES, QUESTION
from tests.access.cli.conftest import Desk, Shell

EXAMPLE = Path(__file__).parents[3] / "examples" / "quickstart"
ANSWER = "Pour 1 250 € HT avec une TVA à 10 %, votre client paiera 1 375 € TTC."
RUN_ID = r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"

VALIDATE_FR = """\
Config     : loom.yaml
Profil     : aucun (ni --profile, ni LOOM_PROFILE, ni 'profile:') ; surcharges : aucune
Modèles    : SIMULE
Agents     : devis
Outils     : prix_ttc
Journal    : jsonl (data)
Télémétrie : logs WARNING, console
  devis : modèle SIMULE, 1 outil(s) Python

1 agent(s) monté(s) sans erreur.
"""
VALIDATE_EN = """\
Config     : loom.yaml
Profile    : none (neither --profile, nor LOOM_PROFILE, nor 'profile:'); overrides: none
Models     : SIMULE
Agents     : devis
Tools      : prix_ttc
Journal    : jsonl (data)
Telemetry  : logs WARNING, console
  devis : model SIMULE, 1 Python tool(s)

1 agent(s) mounted without error.
"""
SUMMARY_FR = (
    r"Statut     : completed · itérations : 2 · tokens : 684/110 · coût : 0\.0000 \$\n"
    rf"Run        : ({RUN_ID})\n"
)
SUMMARY_EN = (
    r"Status     : completed · iterations: 2 · tokens: 684/110 · cost: \$0\.0000\n"
    rf"Run        : ({RUN_ID})\n"
)
TREE_FR = """\
run devis — completed, # ms, 0.000000 $
  étape 1
    modèle fake-1 (main) — # ms, 259 → 68 tokens, 0.000000 $
      · répond    : Je calcule le prix TTC.
      · appelle   : prix_ttc({"montant_ht": 1250, "taux_tva": 10})
  étape 2
    outil prix_ttc — # ms
      · arguments : {"montant_ht": 1250, "taux_tva": 10}
      · résultat  : {"montant_ht": 1250.0, "tva": 125.0, "montant_ttc": 1375.0}
  étape 3
    modèle fake-1 (main) — # ms, 425 → 42 tokens, 0.000000 $
      · répond    : Pour 1 250 € HT avec une TVA à 10 %, votre client paiera 1 375 € TTC.
"""
TREE_EN = """\
run devis — completed, # ms, $0.000000
  step 1
    model fake-1 (main) — # ms, 259 → 68 tokens, $0.000000
      · answers   : Je calcule le prix TTC.
      · calls     : prix_ttc({"montant_ht": 1250, "taux_tva": 10})
  step 2
    tool prix_ttc — # ms
      · arguments : {"montant_ht": 1250, "taux_tva": 10}
      · result    : {"montant_ht": 1250.0, "tva": 125.0, "montant_ttc": 1375.0}
  step 3
    model fake-1 (main) — # ms, 425 → 42 tokens, $0.000000
      · answers   : Pour 1 250 € HT avec une TVA à 10 %, votre client paiera 1 375 € TTC.
"""


@pytest.mark.parametrize(("lang", "shown"), [("fr", VALIDATE_FR), ("en", VALIDATE_EN)])
def test_a1_validate_shows_what_was_understood(quickstart: Path, lang: str, shown: str) -> None:
    """`loom validate` exits with 0, names the parts, and writes nothing on the disk."""
    done = Shell(quickstart, lang).run("validate")
    assert (done.code, done.out, done.err) == (0, shown, "")
    assert not (quickstart / "data").exists()


@pytest.mark.parametrize(("lang", "summary"), [("fr", SUMMARY_FR), ("en", SUMMARY_EN)])
def test_a2_run_answers_on_stdout_alone(quickstart: Path, lang: str, summary: str) -> None:
    """The answer is all of standard output; status, cost and id are on standard error."""
    done = Shell(quickstart, lang).run("run", "devis", QUESTION)
    assert (done.code, done.out) == (0, ANSWER + "\n")
    assert re.fullmatch(summary, done.err)


def test_a3_the_journal_of_the_run_is_whole(quickstart: Path) -> None:
    """The file of the session holds one event a line, without a hole, from start to end."""
    Shell(quickstart).run("run", "devis", QUESTION)
    (file,) = (quickstart / "data" / "default").glob("*.jsonl")
    events = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    types = [event["type"] for event in events]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert (types[0], types[-1]) == ("run.started", "run.completed")
    assert [types.count(t) for t in ("model.responded", "tool.called", "tool.completed")] == [
        2,
        1,
        1,
    ]


@pytest.mark.parametrize(("lang", "tree"), [("fr", TREE_FR), ("en", TREE_EN)])
def test_a4_inspect_shows_the_three_steps(quickstart: Path, lang: str, tree: str) -> None:
    """`loom inspect` shows the tree of the run, found by its id alone."""
    shell = Shell(quickstart, lang)
    run_id = json.loads(shell.run("run", "devis", QUESTION, "--json").out)["run_id"]
    done = shell.run("inspect", run_id)
    assert (done.code, done.err) == (0, "")
    assert re.sub(r"\d+ ms", "# ms", done.out) == tree


def test_a6_stream_shows_text_and_calls_as_they_come(quickstart: Path) -> None:
    """With `--stream` the texts are on standard output and the call on standard error."""
    done = Shell(quickstart).run("run", "devis", QUESTION, "--stream")
    assert (done.code, done.out) == (0, f"Je calcule le prix TTC.\n{ANSWER}\n")
    assert done.err.startswith('Call       : prix_ttc({"montant_ht": 1250, "taux_tva": 10})\n')
    assert "Status     : completed" in done.err


def test_h16_exit_codes_tell_completed_failed_and_refused(mail: Path) -> None:
    """0 for a completed run, 1 for one that failed, 2 for a configuration that is wrong."""
    shell = Shell(mail)
    assert shell.run("run", "echo", "bonjour").code == 0
    assert shell.run("run", "panne", "bonjour").code == 1
    (mail / "loom.yaml").write_text("version: 1\nmodel: x\nagent: y\n")
    done = shell.run("run", "echo", "bonjour")
    assert (done.code, done.out) == (2, "")
    assert "loom.yaml:2: model — " in done.err
    assert "loom.yaml:3: agent — " in done.err


@pytest.mark.parametrize("words", [("--stream",), ("--json",), ()])
def test_pub_56_a_reader_who_leaves_breaks_nothing(
    quickstart: Path, words: tuple[str, ...]
) -> None:
    """With standard output closed early the run ends as it would, and no traceback is shown."""
    reader = subprocess.Popen(["head", "-c", "1"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert reader.stdin is not None
    process = Shell(quickstart).start("run", "devis", QUESTION, *words, stdout=reader.stdin)
    reader.stdin.close()
    reader.wait(timeout=60)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert b"Traceback" not in err
    assert b"BrokenPipe" not in err


def test_init_writes_the_example(tmp_path: Path, loom: Desk) -> None:
    """`loom init` writes the files of `examples/quickstart`, and tells what to type next."""
    done = loom("init", str(tmp_path / "neuf"))
    assert done.code == 0
    for name in FILES:
        assert (tmp_path / "neuf" / name).read_text("utf-8") == (EXAMPLE / name).read_text("utf-8")
    assert f"cd {tmp_path / 'neuf'} && loom validate\n" in done.out
    assert f'loom run devis "{QUESTION}"\n' in done.out


def test_init_overwrites_nothing(tmp_path: Path, loom: Desk) -> None:
    """A file that exists is left alone, and no other file is written."""
    (tmp_path / "outils.py").write_text("mine")
    done = loom("init", str(tmp_path))
    assert (done.code, done.out) == (2, "")
    assert "already has outils.py" in done.err
    assert (tmp_path / "outils.py").read_text() == "mine"
    assert not (tmp_path / "loom.yaml").exists()


def test_init_leaves_nothing_half_written(tmp_path: Path, loom: Desk) -> None:
    """What was written before a failure is taken back."""
    (tmp_path / "agents").write_text("a file where a folder must be")
    done = loom("init", str(tmp_path))
    assert (done.code, done.out) == (2, "")
    assert [file.name for file in tmp_path.iterdir() if file.name != "mail"] == ["agents"]


def test_the_example_is_the_page() -> None:
    """The example lets git ignore its journal and its keys."""
    assert (EXAMPLE / ".gitignore").read_text() == "data/\n.env\n"


def test_init_leaves_the_ignored_files_of_a_repository_alone(tmp_path: Path, loom: Desk) -> None:
    """A project may begin in a folder that is under version control already."""
    (tmp_path / ".gitignore").write_text("mine\n")
    assert loom("init", str(tmp_path)).code == 0
    assert (tmp_path / ".gitignore").read_text() == "mine\n"
    assert (tmp_path / "loom.yaml").exists()
