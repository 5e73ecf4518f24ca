"""`loom completion SHELL`: write what completes the command, read from its own parsers."""

import argparse
from typing import Final

from loom_ia.i18n import translate as _

SHELLS: Final = ("bash", "zsh", "fish")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument("shell", choices=SHELLS, help=_("the shell that reads it"))


def execute(args: argparse.Namespace) -> int:
    """Write the script."""
    from loom_ia.access.cli.arguments import whole
    from loom_ia.access.cli.completion_scripts import SCRIPTS
    from loom_ia.access.cli.completion_words import places
    from loom_ia.access.cli.failures import COMPLETED
    from loom_ia.access.cli.terminal import show

    show(SCRIPTS[args.shell](places(whole())))
    return COMPLETED
