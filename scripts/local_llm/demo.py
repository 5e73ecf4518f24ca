"""The agent of the quick start on the local model, as somebody types it."""

import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from scripts.local_llm.running import NotStarted, running
from scripts.local_llm.weights import ROOT

PORT: Final = 8131
"""The port that the example's `base_url` names."""

_CONFIG: Final = "examples/quickstart-llm/loom.yaml"
_QUESTION: Final = "Quel prix TTC pour un devis de 1 250 € HT en rénovation (TVA à 10 %) ?"


def demo(python: Path) -> int:
    """Start the model with the interpreter `python`, run the agent, show what happened."""
    loom = os.path.relpath(Path(sys.executable).with_name("loom"), ROOT)
    run = f"demo-llm-{int(time.time())}-{os.getpid()}"
    asked = (loom, "--config", _CONFIG, "run", "devis", _QUESTION, "--stream")
    looked = (loom, "--config", _CONFIG, "inspect", run)
    print("Starting Gemma 3 270M on this machine…", flush=True)
    try:
        with running(PORT, python=python) as address:
            print(f"It answers on {address}.\n", flush=True)
            return _typed(asked, "--run-id", run) or _typed(looked)
    except NotStarted as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1


def _typed(command: tuple[str, ...], *more: str) -> int:
    """Show the command and run it; `more` is run and not shown."""
    print(f"$ {shlex.join(command)}", flush=True)
    code = subprocess.run([*command, *more], cwd=ROOT, check=False).returncode
    print(flush=True)
    return code
