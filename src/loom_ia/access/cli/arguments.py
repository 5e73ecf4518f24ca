"""The words of the command line: which commands and options there are, and how they are read.

Global options stand before or after the command. Only the command that is asked for is imported,
to declare its own options.
"""

import argparse
import difflib
import os
import shlex
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from importlib import import_module
from itertools import takewhile
from typing import Any, Final, NoReturn, Protocol

from loom_ia.core.errors import CallerError
from loom_ia.i18n import LANGUAGES, lookup
from loom_ia.i18n import translate as _

CONFIG: Final = "loom.yaml"

NOT_YET: Final = (
    "worker",
    "replay",
    "eval",
    "storage",
    "retention",
)
"""The commands that Loom-IA will have, and that this version has not."""

_HELP: Final = "help"
_WITH_VALUE: Final = frozenset({"--config", "--profile", "--env-file", "--lang"})
_AT_ONCE: Final = frozenset({"-h", "--help", "--version"})

ARGPARSE_TEXTS: Final = frozenset(
    {
        "usage: ",
        "positional arguments",
        "options",
        "show this help message and exit",
        "%(prog)s: error: %(message)s\n",
        "the following arguments are required: %s",
        "unrecognized arguments: %s",
        "expected one argument",
        "argument %(argument_name)s: %(message)s",
        "invalid choice: %(value)r (choose from %(choices)s)",
        "invalid choice: %(value)r, maybe you meant %(suggestion)r? (choose from %(choices)s)",
        "invalid %(type)s value: %(value)r",
        "not allowed with argument %s",
        "ignored explicit argument %r",
    }
)
"""What argparse says, of what it is made to say here."""


def commands() -> dict[str, str]:
    """Give what each command does, by its name."""
    return {
        "init": _("write a first project"),
        "validate": _("check the configuration and mount the agents"),
        "schema": _("print the JSON Schema of the configuration"),
        "doctor": _("ask models what they can do, and say what to write of them"),
        "run": _("run an agent on a message"),
        "serve": _("serve the agents over HTTP"),
        "graph": _("list, draw, run and read graphs"),
        "resume": _("go on with a run that was interrupted"),
        "approve": _("grant a call that waits, and go on with the run"),
        "reject": _("refuse a call that waits, and go on with the run"),
        "inspect": _("show what happened in a run"),
        "runs": _("list runs, the latest first"),
        "report": _("show what was consumed, by run, role and model"),
        "state": _("show the values that a session keeps"),
        "sessions": _("list, read, export and delete conversations"),
        "cancel": _("stop a run for good"),
        "recover": _("go on with every run that nobody drives"),
        "mcp": _("serve the agents over MCP, on the standard streams"),
        "keys": _("make the keys that let programs in"),
        "completion": _("write what completes the command in a shell"),
    }


class Commands(Protocol):
    """What commands are added to, which argparse gives no name to."""

    def add_parser(
        self, name: str, *, help: str, description: str, allow_abbrev: bool
    ) -> argparse.ArgumentParser: ...


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Read the words of the command line; exits as argparse does on a fault.

    Without a command the help is shown on standard error. Raises `CallerError` for a command that
    is not known, or not there yet.
    """
    words = list(words)
    position = _command(words)
    if position is not None and words[position] == _HELP:
        words = [*words[:position], *words[position + 1 :], "--help"]
        position = _command(words)
    if position is not None and words[position] not in commands():
        _refuse(words[position])
    with _argparse_speaks():
        parser = _parser(words)
        args = parser.parse_args(words)
        if args.command is None:
            parser.print_help(sys.stderr)
            parser.exit(2)
        return args


def asked_language(words: Sequence[str]) -> str | None:
    """Find the language that is asked for, before anything is said."""
    for position, word in enumerate(words):
        if word == "--":
            break
        if word.startswith("--lang="):
            return word.removeprefix("--lang=")
        if word == "--lang" and position + 1 < len(words):
            return words[position + 1]
    return None


def asked_colourless(words: Sequence[str]) -> bool:
    """Whether colours are refused, before anything is said."""
    return any(word == "--no-color" for word in takewhile(lambda word: word != "--", words))


def whole() -> argparse.ArgumentParser:
    """Give the parser with the options of every command."""
    with _argparse_speaks():
        return _parser(list(commands()))


def add_command(commands: Commands, name: str, summary: str) -> argparse.ArgumentParser:
    """Declare a command, with the global options."""
    command = commands.add_parser(name, help=summary, description=summary, allow_abbrev=False)
    _without_colour(command)
    _add_globals(command)
    return command


def config_path(args: argparse.Namespace) -> str:
    """Give the path of the configuration."""
    return str(getattr(args, "config", CONFIG))


def profile(args: argparse.Namespace) -> str | None:
    """Give the profile that was asked for."""
    return getattr(args, "profile", None)


def env_file(args: argparse.Namespace) -> str | None:
    """Give the file of variables that was asked for."""
    return getattr(args, "env_file", None)


def reads_env_file(args: argparse.Namespace) -> bool:
    """Whether a file of variables may be read."""
    return not getattr(args, "no_env_file", False)


def is_debug(args: argparse.Namespace) -> bool:
    """Whether tracebacks are wanted."""
    return bool(getattr(args, "debug", False)) or os.environ.get("LOOM_DEBUG", "0") not in {"", "0"}


def command_line(args: argparse.Namespace, *words: str) -> str:
    """Write a command to type, quoted, on the same configuration, profile and variables."""
    return shlex.join(["loom", *global_words(args), *words])


def global_words(args: argparse.Namespace) -> list[str]:
    """Give the words that name the same configuration, profile and variables."""
    options = [
        ("--config", getattr(args, "config", None)),
        ("--profile", profile(args)),
        ("--env-file", env_file(args)),
    ]
    given = [word for name, value in options if value is not None for word in (name, str(value))]
    return given + ([] if reads_env_file(args) else ["--no-env-file"])


def _command(words: Sequence[str]) -> int | None:
    """Find where the command stands; None when there is none, or when it does not matter."""
    position = 0
    while position < len(words) and words[position].startswith("-"):
        if words[position] in _AT_ONCE or words[position] == "--":
            return None
        position += 2 if words[position] in _WITH_VALUE else 1
    return position if position < len(words) else None


def _refuse(word: str) -> NoReturn:
    if word in NOT_YET:
        raise CallerError("loom {command} is not available in this version", command=word)
    known = [*commands(), _HELP]
    near = difflib.get_close_matches(word.lower(), [*known, *NOT_YET], n=1)
    if near:
        raise CallerError(
            "there is no command {command} (did you mean {suggestion}?)",
            command=word,
            suggestion=near[0],
        )
    raise CallerError(
        "there is no command {command} (commands: {known})", command=word, known=", ".join(known)
    )


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    parser = _plain(
        prog="loom",
        description=_("Agents you can stop, resume and read."),
        epilog=_(
            "Exit codes: 0 completed, 1 not completed, 2 refused, 130 or 143 stopped by a signal."
        ),
    )
    _add_globals(parser)
    parser.add_argument("--version", action=_Version, nargs=0, help=_("show the version and exit"))
    group = parser.add_subparsers(title=_("commands"), dest="command", metavar="COMMAND")
    for name, summary in commands().items():
        command = add_command(group, name, summary)
        if name in words:
            import_module(f"{__package__}.{name}").add_arguments(command)
    return parser


def _add_globals(parser: argparse.ArgumentParser) -> None:
    # Without a default, an option given before the command is not undone by the command's own.
    options = parser.add_argument_group(_("global options"))
    variables = options.add_mutually_exclusive_group()

    def add(name: str, text: str, group: Any = options, **settings: Any) -> None:
        group.add_argument(name, default=argparse.SUPPRESS, help=text, **settings)

    add("--config", _("the configuration (default: loom.yaml)"), metavar="FILE")
    add("--profile", _("the profile of the configuration"), choices=("dev", "prod"))
    text = _("read the environment variables of this file (default: .env beside the configuration)")
    add("--env-file", text, variables, metavar="FILE")
    add("--no-env-file", _("read no file of variables"), variables, action="store_true")
    add("--lang", _("the language of the messages"), choices=LANGUAGES)
    add("--no-color", _("no colours; NO_COLOR says it too"), action="store_true")
    add("--debug", _("show the traceback of an unexpected error"), action="store_true")


def _plain(**settings: Any) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(allow_abbrev=False, **settings)
    _without_colour(parser)
    return parser


def _without_colour(parser: argparse.ArgumentParser) -> None:
    if hasattr(parser, "color"):  # Python 3.14
        parser.color = False  # pyright: ignore[reportAttributeAccessIssue]


class _Version(argparse.Action):
    """Says the version; reading it takes time, so only when asked."""

    def __call__(self, parser: argparse.ArgumentParser, *_args: object) -> None:
        from importlib.metadata import version

        print(f"loom {version('loom-ia')}")
        parser.exit()


@contextmanager
def _argparse_speaks() -> Generator[None]:
    """Let argparse speak our language: it takes its texts from a name of its own module."""
    known: Callable[[str], str] | None = vars(argparse).get("_")

    def speak(text: str) -> str:
        return lookup(text) if text in ARGPARSE_TEXTS else text

    if known is None:
        yield
        return
    setattr(argparse, "_", speak)  # noqa: B010 -- a name that the stubs do not tell
    try:
        yield
    finally:
        setattr(argparse, "_", known)  # noqa: B010
