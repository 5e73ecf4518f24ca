"""A notice given to a program: what it reads, what it may take, and how it ends."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from loom_ia.adapters.notices.command import CommandSender
from loom_ia.core.errors import NoticeNotSent

BODY = '{"sentence": "Envoyer à Ana"}'.encode()


def program(folder: Path, code: str, timeout: float = 20) -> CommandSender:
    """Make a program of Python code."""
    return CommandSender((sys.executable, "-I", "-c", code), folder, timeout)


async def test_a_program_reads_the_notice_and_its_id(tmp_path: Path) -> None:
    """It has the very bytes on standard input, the id in a variable, and its own folder."""
    code = (
        "import os, sys, pathlib\n"
        "pathlib.Path('in').write_bytes(sys.stdin.buffer.read())\n"
        "pathlib.Path('id').write_text(os.environ['LOOM_DELIVERY'])\n"
        "print('x' * 1_000_000)\n"
    )
    await program(tmp_path, code).send(BODY, "d-1")
    assert (tmp_path / "in").read_bytes() == BODY
    assert (tmp_path / "id").read_text() == "d-1"


async def test_there_is_no_shell(tmp_path: Path) -> None:
    """What looks like a command in an argument is an argument."""
    code = "import sys, pathlib; pathlib.Path('arg').write_text(sys.argv[1])"
    argv = (sys.executable, "-I", "-c", code, "; touch pwned $(id)")
    await CommandSender(argv, tmp_path).send(BODY, "d-1")
    assert (tmp_path / "arg").read_text() == "; touch pwned $(id)"
    assert not (tmp_path / "pwned").exists()


async def test_a_program_that_reads_nothing_is_well(tmp_path: Path) -> None:
    """Its status alone counts, whatever it read."""
    await program(tmp_path, "pass").send(b"x" * 5_000_000, "d-1")


async def test_a_failure_tells_the_end_of_what_was_said(tmp_path: Path) -> None:
    """The status and the end of standard error, on one line; it may be tried again."""
    code = "import sys; sys.stderr.write('a' * 9999 + '\\nno such host\\n'); sys.exit(3)"
    with pytest.raises(NoticeNotSent, match=r"status 3: a+ no such host$") as failed:
        await program(tmp_path, code).send(BODY, "d-1")
    assert failed.value.again
    assert len(str(failed.value)) < 600


async def test_a_program_that_is_not_there_is_not_tried_again(tmp_path: Path) -> None:
    """No attempt can succeed."""
    with pytest.raises(NoticeNotSent, match="cannot be started") as failed:
        await CommandSender(("no-such-program",), tmp_path).send(BODY, "d-1")
    assert not failed.value.again


HANGS = (
    "import subprocess, sys, pathlib, os\n"
    "child = subprocess.Popen([sys.executable, '-I', '-c', 'import time; time.sleep(600)'])\n"
    "pathlib.Path('pids.new').write_text(f'{os.getpid()} {child.pid}')\n"
    "os.rename('pids.new', 'pids')\n"
    "child.wait()\n"
)


async def test_a_program_past_its_time_dies_with_those_it_started(tmp_path: Path) -> None:
    """Nothing of it is left, when its time is over and when the sender is cancelled."""
    with pytest.raises(NoticeNotSent, match="did not end in 3"):
        await program(tmp_path, HANGS, timeout=3).send(BODY, "d-1")
    await _gone(tmp_path)
    (tmp_path / "pids").unlink()
    task = asyncio.create_task(program(tmp_path, HANGS).send(BODY, "d-1"))
    async with asyncio.timeout(20):
        while not (tmp_path / "pids").exists():  # noqa: ASYNC110 -- a file tells nobody
            await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await _gone(tmp_path)


async def _gone(folder: Path) -> None:
    pids = map(int, (folder / "pids").read_text().split())
    async with asyncio.timeout(20):
        for pid in pids:
            while _lives(pid):  # noqa: ASYNC110 -- a process that ends tells its parent only
                await asyncio.sleep(0.01)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return False
    return state != "Z"
