"""A project of files, as a user has it, and the two ways to use it: the library and the command."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from loom_ia.access import Loom

ROOT = Path(__file__).parents[2]
LOOM = Path(sys.executable).parent / "loom"

TOOLS = '''\
import os
import time

from loom_ia.core.ports.tools import ToolContext
from loom_ia.tools import ToolError, tool


def note(effect):
    """Write what happened where nothing is undone."""
    descriptor = os.open("effects", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{effect}\\n".encode())
    os.fsync(descriptor)
    os.close(descriptor)


def say(mark):
    """Tell whoever started this process where it is."""
    os.write(1, f"{mark}\\n".encode())


def hang_if_asked():
    """Wait for somebody to write to the pipe `gate`, in a process that is told to."""
    if os.environ.get("HANG"):
        say("hanging")
        with open("gate") as gate:
            gate.read()


@tool
def prix_ttc(montant_ht: float, taux_tva: float = 20.0) -> dict[str, float]:
    """Calcule la TVA et le montant TTC d'un devis. Le taux est en pourcentage."""
    note("prix_ttc")
    tva = round(montant_ht * taux_tva / 100, 2)
    return {"montant_ht": montant_ht, "tva": tva, "montant_ttc": round(montant_ht + tva, 2)}


@tool
def lire(cle: str = "") -> str:
    """Lit sans rien changer."""
    note(f"lire:{cle}")
    hang_if_asked()
    return f"lu {cle}"


@tool(side_effects="irreversible")
def envoyer(texte: str) -> str:
    """Envoie pour de bon."""
    note(f"envoyer:{texte}")
    hang_if_asked()
    return f"envoyé {texte}"


@tool(side_effects="irreversible", approval="always")
def relancer(texte: str) -> str:
    """Envoie pour de bon, après accord."""
    note(f"relancer:{texte}")
    return f"relancé {texte}"
'''

PRICE = {"name": "prix_ttc", "arguments": {"montant_ht": 1250, "taux_tva": 10}}
ANSWER = "Pour 1 250 € HT avec une TVA à 10 %, votre client paiera 1 375 € TTC."


def calling(*calls: Mapping[str, Any], text: str = "", **more: Any) -> dict[str, Any]:
    """Write a reply that asks for calls."""
    return {"text": text, "tool_calls": [dict(call) for call in calls], **more}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    """Write a call."""
    return {"name": name, "arguments": arguments}


@dataclass
class Project:
    """The common project P: the agent `devis`, the tool `prix_ttc`, a model that is a script."""

    folder: Path
    script: list[dict[str, Any]] = field(
        default_factory=lambda: [calling(PRICE, text="Je calcule."), {"text": ANSWER}]
    )
    tools: list[Any] = field(default_factory=lambda: ["prix_ttc"])
    agent: dict[str, Any] = field(default_factory=dict)
    backend: str = "jsonl"
    execution: dict[str, Any] = field(default_factory=dict)
    root: dict[str, Any] = field(default_factory=dict)
    prompt: str = "Tu es l'assistant d'un artisan."
    more_tools: str = ""

    @property
    def file(self) -> Path:
        """The file of the configuration."""
        return self.folder / "loom.yaml"

    @property
    def data(self) -> Path:
        """Where the journal is."""
        return self.folder / ("data.db" if self.backend == "sqlite" else "data")

    def save(self) -> "Project":
        """Write every file."""
        events: dict[str, Any] = {"backend": self.backend}
        if self.backend != "memory":
            events["path"] = self.data.name
        root = {
            "version": 1,
            "imports": ["outils"],
            "models": [
                {
                    "id": "SIMULE",
                    "sdk": "fake",
                    "model": "fake-1",
                    "params": {"script": self.script},
                }
            ],
            "storage": {"events": events},
            "execution": self.execution,
            **self.root,
        }
        agent = {
            "name": "devis",
            "main": {"model": "SIMULE", "system_file": "devis.md"},
            "tools": [{"python": t} if isinstance(t, str) else t for t in self.tools],
            **self.agent,
        }
        self.write("loom.yaml", _yaml({k: v for k, v in root.items() if v != {}}))
        self.write("agents/devis.yaml", _yaml(agent))
        self.write("prompts/devis.md", self.prompt)
        self.write("outils.py", TOOLS + self.more_tools)
        return self

    def write(self, name: str, text: str) -> None:
        """Write one file."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def loom(self, **more: Any) -> Loom:
        """Open the library on the project."""
        return Loom.from_config(self.file, **more)

    def command(self, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Type `loom …` in the folder of the project."""
        return subprocess.run(
            [LOOM, *words],
            cwd=self.folder,
            env={**_ENVIRON, **environ},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def start(self, *words: str, **environ: str) -> subprocess.Popen[str]:
        """Type `loom …` and go on while it runs; use it with `with`."""
        return subprocess.Popen(
            [LOOM, *words],
            cwd=self.folder,
            env={**_ENVIRON, **environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def drive(self, hang_at: int, *runs: str) -> subprocess.Popen[str]:
        """Run agents in a process whose model call of that rank never ends; see `driver`."""
        return subprocess.Popen(
            [sys.executable, "-m", "tests.acceptance.driver", self.file, str(hang_at), *runs],
            cwd=self.folder,
            env={**_ENVIRON, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            text=True,
        )

    def gate(self) -> Path:
        """Make the pipe that a tool waits for when it hangs."""
        path = self.folder / "gate"
        os.mkfifo(path)
        return path

    def effects(self) -> list[str]:
        """List what the tools did outside."""
        path = self.folder / "effects"
        return path.read_text().splitlines() if path.exists() else []

    def lines(self, session_id: str) -> list[dict[str, Any]]:
        """Read the file of a session."""
        text = (self.data / "default" / f"{session_id}.jsonl").read_text()
        return [json.loads(line) for line in text.splitlines()]


_ENVIRON = {k: v for k, v in os.environ.items() if not k.startswith("LOOM_") and k != "HANG"}
_ENVIRON["LC_ALL"] = "C.UTF-8"


def _yaml(value: Any) -> str:
    return yaml.safe_dump(value, allow_unicode=True, sort_keys=False)


def wait_for(process: subprocess.Popen[str], mark: str) -> None:
    """Read what a process says until it says `mark`."""
    assert process.stdout
    for line in process.stdout:
        if line.strip() == mark:
            return
    raise AssertionError(f"the process ended with {process.wait()} before it said {mark}")
