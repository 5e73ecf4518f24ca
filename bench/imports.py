"""What it costs to import something, in CPU time of a whole process."""

import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path


def cpu_of(python: Path, arguments: Sequence[str]) -> tuple[float, str]:
    """Run `python` to its end; gives its user and system seconds, and what it said if it failed.

    It runs once before, unmeasured, so that the byte code is there.
    """
    _run(python, arguments)
    return _run(python, arguments)


def _run(python: Path, arguments: Sequence[str]) -> tuple[float, str]:
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            [python, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            said.seek(0)
            lines = said.read().decode(errors="replace").strip().splitlines()
            return 0.0, lines[-1] if lines else f"exit code {process.returncode}"
    return usage.ru_utime + usage.ru_stime, ""
