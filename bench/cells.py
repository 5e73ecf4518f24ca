"""What is measured, one fresh process each time, and how such a process is started."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, TypeAlias

from bench.cell import MARK
from bench.imports import cpu_of
from bench.systems import Store, ToolStyle
from bench.workloads import Figures

Medium: TypeAlias = Literal["flush-free", "disk"]

ROOT: Final = Path(__file__).resolve().parent.parent
OURS: Final = ("bare", "loom")
_LONGEST: Final = 180.0


@dataclass(frozen=True, slots=True)
class Cell:
    """One system doing one work. `code` is what a cell of imports runs instead.

    `api` is the one that a cell of calls over HTTP makes its calls on.
    """

    workload: str
    system: str = "loom"
    store: Store = "memory"
    medium: Medium = "flush-free"
    tool: ToolStyle = "async"
    code: tuple[str, ...] = ()
    api: str = ""

    @property
    def is_peer(self) -> bool:
        """Whether it needs an environment of its own."""
        return self.system not in OURS

    def of(self, system: str, store: Store | None = None) -> "Cell":
        """Give the same work done by another system."""
        return replace(self, system=system, store=store or self.store)

    def __str__(self) -> str:
        if self.code:
            return f"{self.workload} {self.system}: {self.code[-1]}"
        if self.api:
            return f"{self.workload} {self.system} {self.api}"
        return f"{self.workload} {self.system} {self.store} {self.medium} {self.tool}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a process gave: its figures, or the last thing that it said before it failed."""

    figures: Figures
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Machine:
    """Where things are: environments of peers, a folder on a disk, a folder in memory."""

    peers: Path | None
    disk: Path
    memory: Path

    @classmethod
    def here(cls, environ: Mapping[str, str]) -> "Machine":
        """Look around; `LOOM_BENCH_PEERS` and `LOOM_BENCH_DISK` choose."""
        peers = environ.get("LOOM_BENCH_PEERS")
        shm = Path("/dev/shm")
        return cls(
            peers=Path(peers).resolve() if peers else None,
            disk=Path(environ.get("LOOM_BENCH_DISK") or ROOT / "bench" / ".scratch"),
            memory=shm if shm.is_dir() else Path(tempfile.gettempdir()),
        )

    def python(self, cell: Cell) -> Path | None:
        """Give the interpreter of a cell, or None if its environment is absent."""
        if not cell.is_peer:
            return Path(sys.executable)
        if self.peers is None:
            return None
        python = self.peers / f"venv-{cell.system}" / "bin" / "python"
        return python if python.exists() else None

    def run(self, cell: Cell) -> Outcome:
        """Measure a cell once."""
        python = self.python(cell)
        if python is None:
            return Outcome({}, "no environment")
        if cell.code:
            seconds, failure = cpu_of(python, cell.code)
            return Outcome({"cpu": seconds}, failure)
        parent = self.disk if cell.medium == "disk" else self.memory
        parent.mkdir(parents=True, exist_ok=True)
        folder = tempfile.mkdtemp(prefix="loom-bench-", dir=parent)
        try:
            return _measured(python, cell, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _measured(python: Path, cell: Cell, folder: str) -> Outcome:
    environ = dict(os.environ)
    path = [str(ROOT)] if cell.is_peer else [str(ROOT), environ.get("PYTHONPATH", "")]
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, path))
    words = ["bench.cell", cell.system, cell.workload, cell.store, cell.tool, folder]
    if cell.api:
        words = ["bench.wire", cell.system, cell.api]
    if cell.workload == "A1":
        words = ["bench.door", cell.system]
    start = time.perf_counter()
    try:
        done = subprocess.run(
            [python, "-m", *words],
            cwd=folder,
            env=environ,
            capture_output=True,
            text=True,
            timeout=_LONGEST,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Outcome({}, f"not done after {_LONGEST:g} s")
    lines = [line for line in done.stdout.splitlines() if line.startswith(MARK)]
    if not lines:
        said = (done.stderr or done.stdout).strip().splitlines()
        return Outcome({}, said[-1] if said else f"exit code {done.returncode}")
    figures: Figures = json.loads(lines[-1].removeprefix(MARK))
    figures["process"] = time.perf_counter() - start
    return Outcome(figures)
