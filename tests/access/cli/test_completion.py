"""What the shells complete, in the shells themselves."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.access.cli.conftest import Desk

BASH = """\
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _loom
printf '%s\\n' "${COMPREPLY[@]}"
"""
ZSH = """\
compdef() { }
compset() { }
compadd() { shift; print -l -- "$@" }
_files() { print -l -- *(N) }
_message() { }
_describe() { local found; for found in "${(@P)@[-1]}"; do print -r -- "${found%%:*}"; done }
source "$1"; shift
words=("$@"); CURRENT=$#; _loom
"""
FISH = """\
source $argv[1]
complete -C "$(string join -- ' ' $argv[2..])" | string replace -r '\\t.*' ''
"""
SCRIPTS = {"bash": ["-c", BASH, "bash"], "zsh": ["-f", "-c", ZSH, "zsh"], "fish": ["-c", FISH]}


def _shells() -> list[object]:
    return [
        pytest.param(name, marks=[] if shutil.which(name) else pytest.mark.skip(f"no {name} here"))
        for name in SCRIPTS
    ]


@pytest.fixture(params=_shells())
def shell(request: pytest.FixtureRequest) -> str:
    """Give each shell that this machine has."""
    return request.param


def _complete(loom: Desk, shell: str, *words: str) -> set[str]:
    """Ask a shell what follows `words`, of which the last one is being written."""
    script = loom.folder / f"completion.{shell}"
    if not script.exists():
        script.write_text(loom("completion", shell).out, "utf-8")
    done = subprocess.run(
        [shell, *SCRIPTS[shell], str(script), *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=loom.folder,
        env={"PATH": "/usr/bin:/bin", "HOME": str(loom.folder), "LC_ALL": "C.UTF-8"},
        timeout=30,
    )
    assert done.stderr == ""
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("loom", ""), {"run", "sessions", "completion"}),
        (("loom", "sessions", ""), {"list", "show", "export", "delete", "files"}),
        (("loom", "--config", "run", "sessions", ""), {"list", "show"}),
        (("loom", "--lang", ""), {"en", "fr"}),
        (("loom", "report", "--period", ""), {"day", "month", "jour", "mois"}),
        (("loom", "completion", ""), {"bash", "zsh", "fish"}),
        (("loom", "run", "echo", "--"), {"--stream", "--config", "--no-color"}),
        (("loom", "runs", "--status", ""), {"paused", "failed"}),
        (("loom", "--config", ""), {"loom.yaml"}),
        (("loom", "sessions", "export", "--out", ""), {"outils.py"}),
    ],
)
def test_what_may_follow_is_offered(
    loom: Desk, shell: str, words: tuple[str, ...], found: set[str]
) -> None:
    """Commands, options, choices and files are offered where they may stand."""
    assert found <= _complete(loom, shell, *words)


@pytest.mark.parametrize(
    ("words", "missing"),
    [
        (("loom", "sessions", ""), {"run", "--stream", "loom.yaml"}),
        (("loom", "run", "echo", "--"), {"--take-over", "sessions"}),
        (("loom", "--lang", ""), {"run", "loom.yaml"}),
        (("loom", "run", "--session", ""), {"--stream", "loom.yaml"}),
    ],
)
def test_what_may_not_follow_is_not(
    loom: Desk, shell: str, words: tuple[str, ...], missing: set[str]
) -> None:
    """Words of another place, and files where none is asked for, are left out."""
    assert not missing & _complete(loom, shell, *words)


def test_an_equals_sign_is_followed_by_the_values(loom: Desk) -> None:
    """Bash cuts `--lang=f` in three words, and completes the last one all the same."""
    assert _complete(loom, "bash", "loom", "--lang", "=", "f") == {"fr"}
    assert _complete(loom, "bash", "loom", "--lang", "=") == {"en", "fr"}


def test_the_help_is_in_the_language_that_is_spoken(loom: Desk) -> None:
    """Zsh and fish show the help of each word, in either language."""
    for shell in ("zsh", "fish"):
        assert "lancer un run" in loom("completion", shell, "--lang", "fr").out
        assert "run an agent on a message" in loom("completion", shell).out


def test_a_shell_that_is_not_known_is_refused(loom: Desk) -> None:
    """Another shell exits with 2, and those that are known are named."""
    done = loom("completion", "tcsh")
    assert (done.code, done.out) == (2, "")
    assert "'bash'" in done.err


def test_bash_is_there() -> None:
    """The shell that is always tested is on this machine."""
    assert Path(shutil.which("bash") or "").exists()
