"""A server in a process of its own: started, waited for, and always stopped."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from scripts.local_llm.weights import ROOT

PYTHON: Final = ROOT / ".venv-llm" / "bin" / "python"
READY: Final = "ready "

_PATIENCE: Final = 180.0
_GRACE: Final = 10.0


class NotStarted(Exception):
    """The server could not be started; what it said of it is on the standard error."""


@contextmanager
def running(
    port: int = 0, *options: str, python: Path = PYTHON, patience: float = _PATIENCE
) -> Iterator[str]:
    """Run a server on `port` and give its address, the one that ends with `/v1`.

    It is stopped on leaving, and stops by itself if this process dies. Raises `NotStarted`, after
    at most `patience` seconds.
    """
    if not python.exists():
        raise NotStarted(f"{python} is not there: make demo-llm makes it")
    command = [
        python.absolute(),
        "-m",
        "scripts.local_llm",
        "serve",
        "--port",
        str(port),
        "--with-parent",
    ]
    process = subprocess.Popen(
        [*command, *options], cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        yield _address(process, process.stdout, patience)
    finally:
        _stop(process)


def _address(process: subprocess.Popen[str], said: IO[str], patience: float) -> str:
    late = threading.Event()

    def give_up() -> None:
        late.set()
        process.kill()

    timer = threading.Timer(patience, give_up)
    timer.start()
    try:
        line = said.readline()
    finally:
        timer.cancel()
    if line.startswith(READY):
        return line.removeprefix(READY).strip()
    if late.is_set():
        raise NotStarted(f"the server of the model was not ready after {patience:g} s")
    raise NotStarted(f"the server of the model ended with {process.wait()} before it was ready")


def _stop(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.communicate(timeout=_GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


def end_with_parent() -> None:
    """End this process when whoever holds the other end of its standard input is gone."""
    thread = threading.Thread(target=_wait_for_end, daemon=True)
    thread.start()


def _wait_for_end() -> None:
    # Not through `sys.stdin`, whose lock this thread would still hold when the process ends.
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
