"""A run as a person reads it on a terminal: the lines of its tree, harmless and in his language."""

import argparse
from collections.abc import Iterator, Mapping
from typing import Final

from loom_ia.access.cli.arguments import command_line
from loom_ia.access.cli.summary import decision_words
from loom_ia.access.cli.terminal import Style, printable
from loom_ia.core.ids import CallId
from loom_ia.core.views.result import PendingApproval
from loom_ia.core.views.trace import Trace
from loom_ia.core.views.trace_text import LineKind, trace_lines
from loom_ia.i18n import translate

STYLES: Final[Mapping[LineKind, Style]] = {
    "run": "bold",
    "step": "dim",
    "model": "cyan",
    "tool": "magenta",
    "detail": "",
    "failure": "red",
    "waiting": "yellow",
}


def tree_lines(
    trace: Trace,
    args: argparse.Namespace,
    *,
    full: bool = False,
    elapsed: Mapping[CallId, int] | None = None,
    durable: bool = True,
) -> Iterator[tuple[str, Style]]:
    """Give the lines of a run and their styles; texts are cut unless `full`.

    What is to be typed about a call that waits is there when the journal is `durable`.
    """

    def command(pending: PendingApproval) -> str:
        return command_line(args, *decision_words(pending))

    lines = trace_lines(
        trace,
        translate=translate,
        full=full,
        command=command if durable else None,
        elapsed=elapsed,
    )
    for kind, text in lines:
        yield printable(text), STYLES[kind]
