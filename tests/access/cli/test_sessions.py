"""What a person does with whole conversations: list, read, export, copy files, delete."""

import json
from pathlib import Path

import pytest

from loom_ia.access.cli.session_files import ORIGINS, _harmless
from loom_ia.core.model.artifacts import StoredArtifact
from tests.access.cli.conftest import TOOLS, Desk, Shell

FILES = '''

from loom_ia.tools import File


@tool
def imprimer(nom: str) -> File:
    """Imprime un devis."""
    return File(b"%PDF-1", name=nom)
'''
PRINTS = """\
  - id: IMPRIME
    sdk: fake
    model: fake-6
    params:
      script:
        - tool_calls:
            - {name: imprimer, arguments: {nom: devis.pdf}}
            - {name: imprimer, arguments: {nom: ../../devis.pdf}}
        - text: Voici.
agents:
  - {name: imprime, main: {model: IMPRIME, system: Aide.}, tools: [{python: imprimer}]}
"""


@pytest.fixture
def used(loom: Desk) -> Desk:
    """Give a project with a session of two runs, and one that waits."""
    loom("run", "echo", "bonjour", "--session", "a", "--run-id", "r1")
    loom("run", "echo", "encore", "--session", "a", "--run-id", "r2")
    loom("run", "un", "écris", "--session", "b", "--run-id", "r3")
    return loom


@pytest.fixture
def printed(loom: Desk) -> Desk:
    """Give a project with a session whose tool made two files of the same content."""
    config = loom.folder / "loom.yaml"
    config.write_text(config.read_text("utf-8").replace("agents:\n", PRINTS), "utf-8")
    (loom.folder / "outils.py").write_text(TOOLS + FILES, "utf-8")
    done = loom("run", "imprime", "imprime", "--session", "f")
    assert done.code == 0, done.err
    return loom


def test_sessions_are_listed_and_shown(used: Desk) -> None:
    """A listing has a line for each session; one is shown with its runs and what waits."""
    lines = [line.split() for line in used("sessions", "list").out.splitlines()[1:]]
    assert [(line[0], line[3], line[4]) for line in lines] == [("a", "2", "0"), ("b", "1", "1")]
    shown = used("sessions", "show", "b").out
    assert "Session    : b\n" in shown
    assert "Waiting    : envoyer (fake_0_0) — loom approve r3 --call fake_0_0\n" in shown
    assert "\\u202e" in shown
    assert json.loads(used("sessions", "show", "b", "--json").out)["session_id"] == "b"
    assert [s["session_id"] for s in json.loads(used("sessions", "list", "--json").out)] == [
        "a",
        "b",
    ]


def test_a_long_listing_goes_on(used: Desk) -> None:
    """A page that is full names the command that gives the next one."""
    done = used("sessions", "list", "--limit", "1")
    assert done.err == "There may be more: loom sessions list --after a\n"
    assert "b " in used("sessions", "list", "--after", "a").out
    assert used("sessions", "list", "--after", "b", "--lang", "fr").err == "Aucune session.\n"
    assert used("sessions", "list", "--limit", "0").code == 2


def test_a_session_is_exported_whole(used: Desk, tmp_path: Path) -> None:
    """Each event is a line of JSON, on standard output or in a file."""
    done = used("sessions", "export", "a")
    events = [json.loads(line) for line in done.out.splitlines()]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert {event["run_id"] for event in events} == {"r1", "r2"}
    file = tmp_path / "new" / "a.jsonl"
    assert used("sessions", "export", "a", "--out", str(file)).out == ""
    assert file.read_text("utf-8") == done.out


def test_many_sessions_are_exported_to_a_folder(used: Desk, tmp_path: Path) -> None:
    """Several sessions go one after the other, or to a file each; none is an error."""
    one, two = (used("sessions", "export", name).out for name in "ab")
    assert used("sessions", "export", "--all").out == one + two
    assert used("sessions", "export", "a", "b", "a", "--out", str(tmp_path / "x")).code == 0
    assert (tmp_path / "x" / "b.jsonl").read_text("utf-8") == two
    assert used("sessions", "export").code == 2
    assert used("sessions", "export", "a", "--all").code == 2


def test_what_cannot_be_written_is_refused(used: Desk) -> None:
    """A place that is no file exits with 2 and says why."""
    done = used("sessions", "export", "a", "--out", "outils.py/x", "--lang", "fr")
    assert (done.code, done.out) == (2, "")
    assert "outils.py/x ne peut pas être écrit : " in done.err


def test_g4_a_deleted_session_is_gone_with_its_files(printed: Desk) -> None:
    """Journal and files go; the second time there is nothing to delete, and that is 2."""
    assert list((printed.folder / "data" / ".artifacts").rglob("*.pdf"))
    done = printed("sessions", "delete", "f", "--yes")
    assert (done.code, done.out) == (0, "")
    assert done.err.startswith("Deleted    : f, ")
    assert done.err.endswith(", 1 file(s), 0 key(s)\n")
    assert not list((printed.folder / "data").rglob("*.pdf"))
    assert not list((printed.folder / "data").rglob("f.jsonl"))
    again = printed("sessions", "delete", "f", "--yes")
    assert (again.code, again.err) == (
        2,
        "Error      : there is no session f in this journal\n",
    )


@pytest.mark.parametrize(
    ("lang", "said"), [("en", "nobody can confirm here"), ("fr", "personne ne peut confirmer ici")]
)
def test_g4_nothing_is_deleted_unasked(used: Desk, lang: str, said: str) -> None:
    """In a pipe nobody can say yes: without `--yes` the session stays, and the code is 2."""
    done = used("sessions", "delete", "a", "--lang", lang)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert used("sessions", "show", "a").code == 0


@pytest.mark.parametrize(
    ("lang", "answer", "code"),
    [
        ("en", "y", 0),
        ("en", "", 2),
        ("en", "o", 2),
        ("fr", "o", 0),
        ("fr", "OUI", 0),
        ("fr", "n", 2),
    ],
)
def test_g4_a_person_is_asked(
    used: Desk, lang: str, answer: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At a terminal the question is asked in the language spoken, and only a yes deletes."""
    asked: list[str] = []
    monkeypatch.setattr(
        "loom_ia.access.cli.terminal.ask", lambda question: asked.append(question) or answer
    )
    assert used("sessions", "delete", "a", "--lang", lang).code == code
    assert "2 run(s)" in asked[0]
    assert used("sessions", "show", "a").code == (2 if code == 0 else 0)


@pytest.mark.parametrize("action", ["show", "delete", "export", "files"])
def test_an_unknown_session_is_refused(loom: Desk, action: str) -> None:
    """Each command on a session that does not exist exits with 2."""
    done = loom("sessions", action, "nope")
    assert (done.code, done.out) == (2, "")
    assert "there is no session nope" in done.err


def test_files_are_copied_into_the_folder_and_nowhere_else(printed: Desk, tmp_path: Path) -> None:
    """Each file has a name of its own, whatever path the tool gave; none is replaced unasked."""
    folder = tmp_path / "in" / "here"
    words = ("sessions", "files", "f", "--out", str(folder))
    assert printed(*words).code == 0
    names = sorted(file.name for file in folder.iterdir())
    assert len(names) == 2
    assert "devis.pdf" in names
    assert all(name.endswith("devis.pdf") for name in names)
    assert not (tmp_path / "devis.pdf").exists()
    assert (folder / "devis.pdf").read_bytes() == b"%PDF-1"
    again = printed(*words)
    assert again.code == 2
    assert "say --force to replace them" in again.err
    assert printed(*words, "--force").code == 0


def test_files_are_listed_by_origin(printed: Desk) -> None:
    """The list has names, types and sizes, and may be narrowed to where the files come from."""
    lines = printed("sessions", "files", "f").out.splitlines()
    assert lines[0].split() == ["file", "type", "bytes", "origin", "address"]
    for line in lines[1:]:
        name, *known, _address = line.split()
        assert name.endswith("devis.pdf")
        assert known == ["application/pdf", "6", "tool_output"]
    assert printed("sessions", "files", "f", "--origin", "offload").err == "No file.\n"
    listed = json.loads(printed("sessions", "files", "f", "--json").out)
    assert {file["name"] for file in listed} == {"devis.pdf", "../../devis.pdf"}


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("a/b.pdf", "b.pdf"),
        ("..\\c.pdf", "c.pdf"),
        (".bashrc", "bashrc"),
        ("..", ""),
        ("a\x1b[31m.txt", "a_[31m.txt"),
        ("C:x?.txt ", "C_x_.txt"),
        ("x" * 300 + ".pdf", "x" * 96 + ".pdf"),
    ],
)
def test_a_name_is_made_harmless(given: str, kept: str) -> None:
    """What is left of a name neither hides a file, nor leaves the folder, nor moves the cursor."""
    assert _harmless(given) == kept


def test_the_origins_of_the_words_are_those_of_the_engine() -> None:
    """What `--origin` takes is every place that files come from."""
    schema = StoredArtifact.model_json_schema()["properties"]["origin"]
    assert list(ORIGINS) == schema["enum"]


def test_a_session_at_work_is_not_deleted(mail: Path) -> None:
    """A session whose run is driven stays, and the command says by whom."""
    shell = Shell(mail)
    process = shell.start("run", "lent", "bonjour", "--run-id", "r1")
    file = mail / "data" / "default" / "r1.jsonl"
    while not (file.exists() and "step.started" in file.read_text("utf-8")):
        assert process.poll() is None
    done = shell.run("sessions", "delete", "r1", "--yes")
    process.kill()
    process.communicate(timeout=20)
    assert done.code == 2
    assert "cancel it first" in done.err
