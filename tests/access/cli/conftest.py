"""Projects to run the command on, and two ways to run it: a process, and a call for speed."""

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import pytest

from loom_ia.access.cli.init import write
from loom_ia.access.cli.main import main
from loom_ia.access.cli.quickstart import FILES

MAIL = """\
version: 1
imports: [outils]
telemetry:
  logging: {level: ERROR}
storage:
  events: {backend: jsonl, path: data}
models:
  - id: UN
    sdk: fake
    model: fake-1
    params:
      script:
        - tool_calls: [{name: envoyer, arguments: {a: "Durand", corps: "Bonjour \\u202e"}}]
        - text: C'est fait.
  - id: DEUX
    sdk: fake
    model: fake-2
    params:
      script:
        - tool_calls:
            - {name: envoyer, arguments: {a: "Durand", corps: "un"}}
            - {name: envoyer, arguments: {a: "Petit", corps: "deux"}}
        - text: Les deux sont faits.
  - id: LENT
    sdk: fake
    model: fake-3
    params: {script: [{text: "Me voici.", delay: 30}]}
  - id: PANNE
    sdk: fake
    model: fake-4
    params: {script: [{error: auth}]}
  - id: ECHO
    sdk: fake
    model: fake-5
agents:
  - {name: un, main: {model: UN, system: Aide.}, tools: [{python: envoyer}]}
  - {name: deux, main: {model: DEUX, system: Aide.}, tools: [{python: envoyer}]}
  - {name: lent, main: {model: LENT, system: Aide.}}
  - {name: panne, main: {model: PANNE, system: Aide.}}
  - {name: echo, main: {model: ECHO, system: Aide.}}
"""
TOOLS = '''\
from pathlib import Path

from loom_ia.tools import tool


@tool(side_effects="irreversible", approval="always")
def envoyer(a: str, corps: str) -> str:
    """Envoie un message."""
    with Path(__file__).with_name("envois.txt").open("a") as sent:
        sent.write(f"{a}: {corps}\\n")
    return "envoyé"
'''


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a command ended."""

    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Shell:
    """Runs `loom` as a user does, in a folder and in a language."""

    folder: Path
    lang: str = "en"
    env: dict[str, str] = field(default_factory=dict[str, str])

    def start(
        self, *words: str, stdout: int | IO[bytes] = subprocess.PIPE
    ) -> "subprocess.Popen[bytes]":
        """Start a command in a process of its own."""
        return subprocess.Popen(
            [sys.executable, "-m", "loom_ia.access.cli.main", *words],
            cwd=self.folder,
            env={**os.environ, "LOOM_LANG": self.lang, "COLUMNS": "100", **self.env},
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
        )

    def run(self, *words: str) -> Outcome:
        """Run a command to its end."""
        process = self.start(*words)
        out, err = process.communicate(timeout=60)
        return Outcome(process.returncode, out.decode(), err.decode())

    @property
    def sent(self) -> list[str]:
        """What the tool of the project sent."""
        file = self.folder / "envois.txt"
        return file.read_text().splitlines() if file.exists() else []


@dataclass(frozen=True, slots=True)
class Desk:
    """Runs `loom` inside the test."""

    capture: pytest.CaptureFixture[str]
    folder: Path

    def __call__(self, *words: str) -> Outcome:
        """Run a command to its end."""
        code = main(words)
        out, err = self.capture.readouterr()
        return Outcome(code, out, err)

    @property
    def sent(self) -> list[str]:
        """What the tool of the project sent."""
        return Shell(self.folder).sent


@pytest.fixture
def quickstart(tmp_path: Path) -> Path:
    """Write the project of the quick start."""
    write(tmp_path / "mon-agent", FILES)
    return tmp_path / "mon-agent"


@pytest.fixture
def mail(tmp_path: Path) -> Path:
    """Write a project whose tool acts on the world and asks first."""
    write(tmp_path / "mail", {"loom.yaml": MAIL, "outils.py": TOOLS})
    return tmp_path / "mail"


@pytest.fixture
def loom(
    mail: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Desk]:
    """Call the command in the folder of the mail project, in English."""
    monkeypatch.chdir(mail)
    monkeypatch.setenv("LOOM_LANG", "en")
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("LOOM_PROFILE", "LOOM_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    yield Desk(capsys, mail)
    log = logging.getLogger("loom_ia")
    for handler in list(log.handlers):
        log.removeHandler(handler)
    log.setLevel(logging.NOTSET)
    log.propagate = True
