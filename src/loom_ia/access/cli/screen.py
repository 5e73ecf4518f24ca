"""What is drawn again and again on standard error, when a person watches and `rich` is installed.

Law. Nothing here is the answer, and nothing of it stays: what was drawn is wiped when the work
ends, so that the terminal keeps the lines that a pipe would have had.
"""

import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from loom_ia.access.cli.terminal import Style, has_colours, is_screen

if TYPE_CHECKING:
    from rich.console import Console

Painter: TypeAlias = Callable[[Sequence[tuple[str, Style]]], None]


def is_watched() -> bool:
    """Whether something can be drawn, and somebody may look at it."""
    return is_screen(sys.stderr)


@contextmanager
def drawing() -> Generator[Painter]:
    """Give what draws lines in the place of those before; needs `is_watched`.

    The last lines are kept when there are too many, with the first one above them. What is
    written meanwhile stands above what is drawn.
    """
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    console = _console()
    coloured = has_colours(sys.stderr)

    def paint(lines: Sequence[tuple[str, Style]]) -> None:
        room = max(console.size.height - 2, 2)
        kept = list(lines)
        if len(kept) > room:
            kept = [kept[0], ("  …", "dim"), *kept[-(room - 2) or len(kept) :]]
        texts = (
            Text(text, style if coloured else "", no_wrap=True, overflow="ellipsis")
            for text, style in kept
        )
        live.update(Group(*texts), refresh=True)

    with Live(
        console=console,
        auto_refresh=False,
        transient=True,
        redirect_stdout=sys.stdout.isatty(),
    ) as live:
        yield paint


@contextmanager
def progress(label: str, total: int | None = None) -> Generator[Callable[[], None]]:
    """Show how long work goes on, and how much of `total` is done each time the gift is called.

    Nothing is shown when nobody watches.
    """
    if not is_watched():
        yield lambda: None
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
    )

    counted = (BarColumn(), MofNCompleteColumn()) if total is not None else ()
    columns = (SpinnerColumn(), TextColumn("{task.description}"), *counted, TimeElapsedColumn())
    shown = Progress(
        *columns, console=_console(), transient=True, redirect_stdout=sys.stdout.isatty()
    )
    with shown:
        task = shown.add_task(label, total=total)
        yield lambda: shown.advance(task)


def _console() -> "Console":
    from rich.console import Console

    return Console(stderr=True, no_color=not has_colours(sys.stderr), highlight=False)
