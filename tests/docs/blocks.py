"""The blocks of code of a page of Markdown, and what their first line asks for.

The words after the language say what a test does with a block:

    console               each line after `$ ` is run; what follows it is compared, if anything does
    console exit=1        the same, and the last command ends with this code
    console no-test       shown only: it cannot run inside a test
    LANGUAGE file=PATH    what is written to this file before going on
    LANGUAGE append=PATH  what is added to the end of this file, two lines below
    python run            run as a script; a `text output` block right after it is what it prints
    python, yaml, json    read, to see that they are what they say
    python entry          the same, for the entries of a table
    text, mermaid         left alone
"""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    [
        ROOT / "README.md",
        ROOT / "README.fr.md",
        ROOT / "CONTRIBUTING.md",
        *(file for file in (ROOT / "docs").rglob("*.md") if file.parent.name != "reference"),
        *(ROOT / "examples/graphs").rglob("*.md"),
    ]
)
LANGUAGES = {"console", "python", "yaml", "json", "markdown", "text", "mermaid"}

_FENCE = re.compile(r"^(?P<indent> *)```(?P<info>.*)$")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block; `line` is that of its fence, from 1."""

    page: Path
    line: int
    info: str
    text: str

    @property
    def language(self) -> str:
        """What the block is written in."""
        return self.info.split()[0] if self.info.split() else ""

    @property
    def words(self) -> set[str]:
        """What is asked for, without a value."""
        return {word for word in self.info.split()[1:] if "=" not in word}

    def option(self, name: str) -> str | None:
        """What is asked for under `name`."""
        pairs = (word.partition("=") for word in self.info.split()[1:])
        return next((value for key, _, value in pairs if key == name), None)

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """Find the fenced blocks of a page, in order."""
    found: list[Block] = []
    opened: tuple[int, str, str] | None = None
    lines: list[str] = []
    for number, line in enumerate(page.read_text("utf-8").splitlines(), 1):
        fence = _FENCE.match(line)
        if opened is None:
            if fence:
                opened, lines = (number, fence["info"].strip(), fence["indent"]), []
        elif fence and not fence["info"].strip():
            start, info, indent = opened
            body = "".join(f"{kept.removeprefix(indent)}\n" for kept in lines)
            found.append(Block(page, start, info, body))
            opened = None
        else:
            lines.append(line)
    if opened is not None:
        raise ValueError(f"{page.name}:{opened[0]}: this block has no end")
    return found


@dataclass(frozen=True, slots=True)
class Command:
    """A line to type, and what is shown to come out; nothing shown is nothing compared."""

    words: str
    shown: tuple[str, ...]


def commands(block: Block) -> list[Command]:
    """Read a console: `$ ` begins a command, `> ` goes on with it."""
    found: list[tuple[list[str], list[str]]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append(([line[2:]], []))
        elif not found:
            raise ValueError(f"{block}: a console begins with a command")
        elif line.startswith("> ") and not found[-1][1]:
            found[-1][0].append(line[2:])
        else:
            found[-1][1].append(line)
    return [Command("\n".join(words), tuple(shown)) for words, shown in found]
