"""The command `loom`: finds the command that is asked for, and says what it refuses.

Nothing heavy is imported here, so that `loom --help` answers at once. What a command refuses ends
as one line and a code, never as a traceback; so does a fault of ours, unless `--debug` or
`LOOM_DEBUG` asks for it, with 1 as its code: 2 promises that nothing was begun.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from contextvars import copy_context
from importlib import import_module

from loom_ia.access.cli import arguments, failures, terminal
from loom_ia.core.errors import InternalError, LoomError
from loom_ia.i18n import chosen, speak

INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that `argv` asks for (the words of the process) and give its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    return copy_context().run(_main, words)  # so that the language stays in here


def _main(words: list[str]) -> int:
    speak(chosen(arguments.asked_language(words), os.environ))
    terminal.prepare(colourless=arguments.asked_colourless(words))
    args = argparse.Namespace()
    try:
        args = arguments.parse(words)
        command = import_module(f"{__package__}.{args.command}")
        return int(command.execute(args))
    except SystemExit as stop:  # argparse has said what it had to
        return stop.code if isinstance(stop.code, int) else 0
    except KeyboardInterrupt:
        return INTERRUPTED
    except LoomError as error:
        if isinstance(error, InternalError) and arguments.is_debug(args):
            raise
        return failures.refused(error, args)
    except Exception as error:  # said in one line: the trace is for who asks for it
        if arguments.is_debug(args):
            raise
        return failures.broken(error)
    finally:
        terminal.finish()


if __name__ == "__main__":
    sys.exit(main())
