"""The environment file of the command: which one, for how long, and what is said of it."""
# ruff: noqa: E501 (an exact message reads best on one line)

import os
from pathlib import Path

import pytest

from loom_ia.access.cli.arguments import command_line, parse
from tests.access.cli.conftest import Desk

NAME = "LOOM_TEST_VARIABLE"
OUTILS = f"""\
import os
from pathlib import Path
from loom_ia.tools import tool

@tool
def lire() -> str:
    "Lit une variable."
    Path(__file__).with_name("lu.txt").write_text(os.environ.get("{NAME}", "rien"))
    return "lu"
"""
PROJECT = """\
version: 1
imports: [outils]
models:
  - id: UN
    sdk: fake
    model: m
    params: {script: [{tool_calls: [{name: lire}]}, {text: fini}]}
agents: [{name: lecteur, main: {model: UN, system: s}, tools: [{python: lire}]}]
"""


@pytest.fixture
def project(loom: Desk, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a project whose tool reads a variable, which nobody has defined."""
    monkeypatch.delenv(NAME, raising=False)
    (loom.folder / "loom.yaml").write_text(PROJECT)
    (loom.folder / "outils.py").write_text(OUTILS)
    (loom.folder / ".env").write_text(f"{NAME}=voisin\n")
    (loom.folder / "autre.env").write_text(f"{NAME}=autre\n")
    return loom.folder


def read(loom: Desk, *options: str) -> str:
    """Give what the tool read."""
    assert loom(*options, "run", "lecteur", "x").code == 0
    return (loom.folder / "lu.txt").read_text()


def test_the_tools_of_a_command_see_the_variables(loom: Desk, project: Path) -> None:
    """The option, then the key, then the file beside the configuration; and nothing is left."""
    assert read(loom) == "voisin"
    assert read(loom, "--env-file", "autre.env") == "autre"
    assert read(loom, "--no-env-file") == "rien"
    (project / "cle.env").write_text(f"export {NAME}='cle'\n")
    (project / "loom.yaml").write_text(PROJECT + "env_file: cle.env\n")
    assert read(loom) == "cle"
    assert read(loom, "--env-file", "autre.env") == "autre"
    assert read(loom, "--no-env-file") == "rien"
    assert NAME not in os.environ


def test_a_variable_that_is_defined_wins(
    loom: Desk, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not changed, and it is still there afterwards."""
    monkeypatch.setenv(NAME, "ici")
    assert read(loom) == "ici"
    assert os.environ[NAME] == "ici"


def test_validate_names_the_file_and_shows_no_value(loom: Desk, project: Path) -> None:
    """A line when a file was read, none otherwise."""
    done = loom("validate")
    assert "Config     : loom.yaml\nEnv        : .env (1 variable(s))\nProfile" in done.out
    assert "voisin" not in done.out + done.err
    assert "Warning" not in done.out
    warned = loom("--profile", "prod", "validate").out
    assert (
        f"Warning    : .env: in the prod profile, define these variables outside of a file: {NAME}\n"
        in warned
    )
    assert "Warning" not in loom("--profile", "dev", "validate").out
    assert "Env " not in loom("--no-env-file", "validate").out
    assert "Env        : autre.env (1" in loom("validate", "--env-file", "autre.env").out


@pytest.mark.parametrize("word", ["validate", "run"])
def test_a_file_that_was_asked_for_must_be_there(loom: Desk, project: Path, word: str) -> None:
    """By the option or by the key, exit code 2."""
    words = [word, "lecteur", "x"] if word == "run" else [word]
    done = loom("--env-file", "absent.env", *words)
    assert (done.code, done.err) == (2, "absent.env: there is no such file\n")
    (project / "loom.yaml").write_text(PROJECT + "env_file: absent.env\n")
    done = loom(*words)
    assert done.code == 2
    assert done.err.startswith("loom.yaml:9: env_file — there is no file absent.env")
    assert loom("--no-env-file", *words).code == 0


def test_a_file_that_cannot_be_understood_shows_no_value(loom: Desk, project: Path) -> None:
    """The file, the line and the rule."""
    (project / ".env").write_text(f"{NAME}=secret\n  'secret\n")
    done = loom("validate")
    assert (done.code, done.out) == (2, "")
    assert done.err == ".env:2: this line is neither NAME=value nor a # comment\n"


def test_commands_to_type_keep_the_file() -> None:
    """What is suggested runs with the same variables."""
    args = parse(["--env-file", "a b.env", "validate"])
    assert command_line(args, "resume", "r1") == "loom --env-file 'a b.env' resume r1"
    args = parse(["--no-env-file", "validate"])
    assert command_line(args, "resume", "r1") == "loom --no-env-file resume r1"


def test_both_options_make_no_sense(loom: Desk, project: Path) -> None:
    """A file, or none."""
    done = loom("--env-file", ".env", "--no-env-file", "validate")
    assert done.code == 2
    assert "not allowed with argument --env-file" in done.err
