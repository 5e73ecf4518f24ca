"""Projects that are served by a process of their own, as a user does it."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PATIENCE_S = 40.0

YAML = """\
version: 1
imports: [outils]
execution: {lease: 600, shutdown_timeout: 20}
telemetry: {logging: {level: WARNING}}
storage: {events: {backend: sqlite, path: data/j.db}}
models:
  - id: ECHO
    sdk: fake
    model: f
  - id: DEUX
    sdk: fake
    model: f
    params:
      script:
        - tool_calls: [{name: agir, arguments: {texte: un}}]
        - tool_calls: [{name: agir, arguments: {texte: deux}}]
        - text: Fini.
agents:
  - {name: echo, main: {model: ECHO, system: Aide.}}
  - {name: facteur, main: {model: DEUX, system: Aide.}, tools: [{python: agir}]}
"""
TOOLS = '''\
import os
import time
from pathlib import Path

from loom_ia.tools import tool

HERE = Path(__file__).parent


@tool(side_effects="irreversible")
def agir(texte: str) -> str:
    """Agit dehors, quand on le laisse faire."""
    (HERE / f"begun-{texte}").write_text(str(os.getpid()))
    while not (HERE / "go").exists():
        time.sleep(0.01)
    with (HERE / "done").open("a") as done:
        done.write(f"{texte} {os.getpid()}\\n")
    return texte
'''


def until(condition: Callable[[], Any], what: str, patience: float = PATIENCE_S) -> Any:
    """Wait for a condition and give what it gave; fails naming it."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.02)
    raise AssertionError(f"not in {patience:g} s: {what}")


def is_alive(pid: int) -> bool:
    """Whether a process lives, zombies aside."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@dataclass
class Served:
    """One `loom serve`, and what it says."""

    process: "subprocess.Popen[bytes]"
    log: Path
    port: int = 0

    @property
    def said(self) -> str:
        """Everything that it said until now."""
        return self.log.read_text(errors="replace")

    def hears(self, text: str, times: int = 1) -> None:
        """Wait until it says something."""
        until(lambda: self.said.count(text) >= times, f"{text!r} in {self.said!r}")

    def is_up(self) -> "Served":
        """Wait until it answers."""

        def found() -> bool:
            assert self.process.poll() is None, self.said
            match = re.search(r"http://127\.0\.0\.1:(\d+)", self.said)
            self.port = int(match[1]) if match else 0
            return bool(match)

        until(found, f"an address in {self.said!r}")
        return self

    def ask(self, path: str, body: object = None, **headers: str) -> tuple[int, str]:
        """Send a request on a connection of its own; gives the status and the body."""
        data = None if body is None else json.dumps(body).encode()
        sent = {"Content-Type": "application/json", **headers}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, sent)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Tell it to stop, and give its exit code."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)


@dataclass
class Project:
    """A folder with a configuration, and what serves it."""

    folder: Path
    running: list[Served] = field(default_factory=list)

    def serve(self, *words: str) -> Served:
        """Begin a `loom serve`."""
        log = self.folder / f"serve-{len(self.running)}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "loom_ia.access.cli.main", "serve", *words],
                cwd=self.folder,
                env={**os.environ, "LOOM_LANG": "en"},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        served = Served(process, log)
        self.running.append(served)
        return served

    def write(self, name: str, text: str) -> None:
        """Write a file at once, as editors do."""
        made = self.folder / f".{name}.new~"
        made.write_text(text)
        made.replace(self.folder / name)

    @property
    def done(self) -> list[list[str]]:
        """What the tool did, and in which process."""
        file = self.folder / "done"
        return [line.split() for line in file.read_text().splitlines()] if file.exists() else []


@contextlib.contextmanager
def project_in(folder: Path) -> Iterator[Project]:
    """Give a project; whatever still serves it at the end is killed."""
    (folder / "agents").mkdir()
    project = Project(folder)
    project.write("loom.yaml", YAML)
    project.write("outils.py", TOOLS)
    try:
        yield project
    finally:
        for served in project.running:
            if served.process.poll() is None:
                served.process.kill()
                served.process.wait()


def follow(served: Served, run_id: str) -> socket.socket:
    """Open a stream of events, and give it once it has begun."""
    stream = socket.create_connection(("127.0.0.1", served.port), timeout=30)
    stream.sendall(f"GET /v1/runs/{run_id}/events HTTP/1.1\r\nHost: loom\r\n\r\n".encode())
    assert stream.recv(4096).startswith(b"HTTP/1.1 200")
    return stream


def rest_of(stream: socket.socket) -> bytes:
    """Read a stream to its end."""
    found = b""
    with stream:
        while piece := stream.recv(65_536):
            found += piece
    return found
