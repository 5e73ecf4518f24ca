"""Small pieces of Markdown."""

from collections.abc import Iterable, Sequence

NOTICE = (
    "<!-- Written by scripts/reference.py from the code. Change the code, then run it again. -->"
)


def page(title: str, *parts: str) -> str:
    """Put a generated page together."""
    return "\n\n".join([f"# {title}", NOTICE, *(part.strip("\n") for part in parts)]) + "\n"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Lay out a table; a bar or a line break inside a cell does not end it."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines)


def code(text: str) -> str:
    """Write `text` as code."""
    return f"`{text}`"


def block(text: str, language: str = "") -> str:
    """Write a block of code."""
    return f"```{language}\n{text.strip(chr(10))}\n```"


def prose(docstring: str | None) -> str:
    """Give a docstring as paragraphs, a line each."""
    lines = (docstring or "").strip().splitlines()
    paragraphs = "\n".join(line.strip() for line in lines).split("\n\n")
    return "\n\n".join(paragraph.replace("\n", " ") for paragraph in paragraphs)


def anchor(heading: str) -> str:
    """Give the anchor of a heading, as the usual renderers of Markdown make it."""
    kept = (c for c in heading.lower() if c.isalnum() or c in " -_")
    return "".join(kept).replace(" ", "-")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
