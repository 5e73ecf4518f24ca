"""Somebody who follows a page from its top, in an empty folder, with the installed `loom`."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, Block, commands
from tests.docs.shown import matches, with_real_ids

_KEPT = ("PYTHONPATH", "TMPDIR", "USER")
_KILLED = re.compile(r"bash: (line \d+: +)?\d+ Killed\b")
_COPIED = ("Makefile", "pyproject.toml", "constraints.txt", "examples")


class Reader:
    """Follows the blocks of one page in order, in a folder that begins as a copy of `beside`."""

    def __init__(self, folder: Path, *, language: str, beside: Path | None = None) -> None:
        self.folder = folder / "page"
        if beside is None:
            self.folder.mkdir()
        else:
            shutil.copytree(beside, self.folder)
        self.ids: dict[str, str] = {}
        self.printed: list[str] = []
        programs = folder / "bin"
        programs.mkdir()
        _write_make(programs, folder / "clone")
        here = Path(sys.executable).parent
        self.environ = {name: os.environ[name] for name in _KEPT if name in os.environ} | {
            "PATH": f"{programs}:{here}:{os.environ['PATH']}",
            "HOME": str(folder),
            "LANG": "C.UTF-8",
            "LOOM_LANG": language,
            "PYTHONUNBUFFERED": "1",  # so that both streams mix as they do on a terminal
            "PYTHONDONTWRITEBYTECODE": "1",  # a file is read as it was edited
        }

    def follow(self, block: Block) -> None:
        """Do what a block asks for."""
        if path := block.option("file"):
            self._target(path).write_text(block.text, "utf-8")
        elif path := block.option("append"):
            with self._target(path).open("a", encoding="utf-8") as file:
                file.write(f"\n\n{block.text}")
        elif block.language == "console" and "no-test" not in block.words:
            self._type(block)
        elif block.language == "python" and "run" in block.words:
            done = self._start([sys.executable, "-c", with_real_ids(block.text, self.ids)])
            self.printed = done.stdout.splitlines()
            assert done.returncode == 0, f"{block} ended with {done.returncode}:\n{done.stdout}"
        elif block.language == "text" and "output" in block.words:
            self._compare(block, block.text.splitlines())

    def _type(self, block: Block) -> None:
        typed = commands(block)
        for rank, command in enumerate(typed, 1):
            words = with_real_ids(command.words, self.ids)
            if words.startswith("cd "):
                self.folder = self.folder / shlex.split(words)[1]
                continue
            done = self._start(["bash", "-c", f"{words}\nexit $?"])
            self.printed = [_as_on_terminal(line) for line in done.stdout.splitlines()]
            expected = int(block.option("exit") or 0) if rank == len(typed) else 0
            assert done.returncode == expected, (
                f"{block}: `{words}` ended with {done.returncode}, not {expected}:\n{done.stdout}"
            )
            if command.shown:
                self._compare(block, list(command.shown))

    def _compare(self, block: Block, shown: list[str]) -> None:
        if not matches(shown, self.printed, self.ids):
            pytest.fail(
                f"{block} shows\n\n{chr(10).join(shown)}\n\nand what comes out is\n\n"
                f"{chr(10).join(self.printed)}",
                pytrace=False,
            )

    def _start(self, words: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words,
            cwd=self.folder,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            check=False,
        )

    def _target(self, path: str) -> Path:
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        return target


def _as_on_terminal(line: str) -> str:
    """Say a death by signal as an interactive shell does: in one word."""
    return "Killed" if _KILLED.match(line) else line


def _write_make(programs: Path, clone: Path) -> None:
    """Put a `make` on the path that works in a copy of the clone, with this environment."""
    clone.mkdir()
    for name in _COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, clone / name, ignore=shutil.ignore_patterns("data", ".loom"))
        else:
            shutil.copy2(source, clone / name)
    installed = f"VENV={sys.prefix} -o {sys.prefix}/.installed"
    make = shutil.which("make") or "make"
    script = programs / "make"
    script.write_text(f'#!/bin/sh\nexec {make} -s -C {clone} {installed} "$@"\n', "utf-8")
    script.chmod(0o755)
