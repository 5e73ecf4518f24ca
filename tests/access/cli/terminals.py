"""A terminal for tests: the command believes that a person watches, and is read back."""

import contextlib
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

MAIN = "import sys; from loom_ia.access.cli.main import main; sys.exit(main(sys.argv[1:]))"
WITHOUT_RICH = f"import sys; sys.modules['rich'] = None; {MAIN}"

_SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def on_terminal(
    folder: Path,
    *words: str,
    program: str = MAIN,
    typed: str = "",
    env: dict[str, str] | None = None,
    stdout: int | None = None,
) -> tuple[int, str]:
    """Run `loom` on a terminal of 100 columns and 30 lines; give its code and what it wrote.

    `stdout` sends the answer elsewhere. `typed` is what the person types.
    """
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    known = {name: value for name, value in os.environ.items() if name not in _UNWANTED}
    process = subprocess.Popen(
        [sys.executable, "-c", program, *words],
        cwd=folder,
        env={**known, "LOOM_LANG": "en", "TERM": "xterm-256color", **(env or {})},
        stdin=terminal,
        stdout=terminal if stdout is None else stdout,
        stderr=terminal,
    )
    os.close(terminal)
    os.write(controller, typed.encode())
    written = b""
    with contextlib.suppress(OSError):  # the other side was closed
        while piece := os.read(controller, 65536):
            written += piece
    os.close(controller)
    return process.wait(timeout=60), written.decode().replace("\r\n", "\n")


def plain(written: str) -> str:
    """Leave out what moves the cursor or colours the text."""
    return _SEQUENCE.sub("", written)


def colours(written: str) -> set[str]:
    """Find the colours of a text, as they were asked for."""
    return set(_COLOUR.findall(written))


_UNWANTED = frozenset(
    {"NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "COLORTERM", "LOOM_PROFILE", "LOOM_DEBUG"}
)
