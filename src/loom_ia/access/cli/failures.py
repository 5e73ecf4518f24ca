"""What a command refuses or fails on, in a line and an exit code."""

import argparse
from typing import Final

from loom_ia.access.cli.arguments import command_line
from loom_ia.access.cli.terminal import printable, say
from loom_ia.core.errors import (
    ClaimConflict,
    ConfigError,
    InternalError,
    JournalBusy,
    LoomError,
    UnknownRun,
    told,
)
from loom_ia.i18n import lines
from loom_ia.i18n import translate as _

COMPLETED: Final = 0
NOT_COMPLETED: Final = 1
REFUSED: Final = 2

EXITS: Final[tuple[tuple[type[LoomError], int], ...]] = (
    (JournalBusy, NOT_COMPLETED),
    (InternalError, NOT_COMPLETED),
)
"""The errors that do not exit with 2: what was asked may have begun."""


def refused(error: LoomError, args: argparse.Namespace) -> int:
    """Say what was refused and what to do about it; give the exit code."""
    for line in lines(error):
        prefix = "" if isinstance(error, ConfigError) else _("Error      : ")
        say(printable(prefix + line.replace("\n", "\n" + " " * len(prefix))), "red")
    if remedy := _remedy(error, args):
        say(printable(_("Remedy     : ") + remedy))
    return next((code for kind, code in EXITS if isinstance(error, kind)), REFUSED)


def broken(error: Exception) -> int:
    """Say in one line what nobody expected; give the exit code."""
    said = " ".join(told(error).split())
    hint = _("(run it again with --debug, or LOOM_DEBUG=1, for the traceback)")
    say(printable(_("Unexpected : ") + f"{said} {hint}"), "red")
    return NOT_COMPLETED


def _remedy(error: LoomError, args: argparse.Namespace) -> str:
    match error:
        case ClaimConflict():
            take_over = command_line(args, "resume", error.run_id, "--take-over")
            return _("wait until then, or take the run over: {command}", command=take_over)
        case UnknownRun():
            return _("check the id, and that --config names the project that the run is of")
        case _:
            return ""
