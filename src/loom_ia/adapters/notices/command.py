"""A notice given to a program, as JSON on its standard input.

Law. There is no shell: the program gets its arguments as they are written. It inherits the
environment of this process, and `LOOM_DELIVERY` with the id of the delivery. What it prints goes
nowhere, save for the end of what it says on standard error when it fails. It never outlives its
time, nor do the programs that it started.
"""

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import DEVNULL, Process
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Final

from loom_ia.core.errors import NoticeNotSent

DELIVERY: Final = "LOOM_DELIVERY"
_TAIL: Final = 500


@dataclass(frozen=True, slots=True)
class CommandSender:
    """Runs `argv` in `folder`; `timeout` is in seconds. A status of 0 means that it was taken."""

    argv: tuple[str, ...]
    folder: Path
    timeout: float = 10.0

    async def send(self, body: bytes, delivery_id: str) -> None:
        """Give a notice to the program, and wait for its end."""
        # Files, not pipes: what the program started may hold a pipe open after its end.
        with TemporaryFile() as given, TemporaryFile() as errors:
            given.write(body)
            given.seek(0)
            process = await self._start(given, errors, delivery_id)
            try:
                async with asyncio.timeout(self.timeout):
                    status = await process.wait()
            except TimeoutError as error:
                raise NoticeNotSent(
                    "the program did not end in {seconds} s", seconds=self.timeout
                ) from error
            finally:
                await _end(process)
            if status:
                raise NoticeNotSent(
                    "the program ended with status {status}: {said}",
                    status=status,
                    said=_tail(errors) or "-",
                )

    async def _start(self, given: IO[bytes], errors: IO[bytes], delivery_id: str) -> Process:
        try:
            return await asyncio.create_subprocess_exec(
                *self.argv,
                stdin=given,
                stdout=DEVNULL,
                stderr=errors,
                cwd=self.folder,
                env={**os.environ, DELIVERY: delivery_id},
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise NoticeNotSent(
                "the program {program} cannot be started: {type}",
                program=self.argv[0],
                type=type(error).__name__,
                again=False,
            ) from error


def _tail(errors: IO[bytes]) -> str:
    """Give the end of what was said on standard error."""
    size = errors.seek(0, os.SEEK_END)
    errors.seek(max(0, size - _TAIL))
    return " ".join(errors.read(_TAIL).decode("utf-8", "replace").split())


async def _end(process: Process) -> None:
    """Kill what is left of it: the program, and those that it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
