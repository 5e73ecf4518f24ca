"""The words of the command line as a shell completes them: at each place, what may follow.

A place is the command with its sub-commands, `loom sessions list`. Everything is read from the
parsers, so that a new command is completed without a line here.
"""

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, cast

_FILES: Final = frozenset({"FILE", "DIR", "PATH"})
"""How the words that name a file are written in the help."""


@dataclass(frozen=True, slots=True)
class Word:
    """A command, an option or a choice, and what may follow an option.

    `names` holds every way to write it. An option that takes no value has neither `takes`, nor
    `choices`, nor `files`.
    """

    names: tuple[str, ...]
    help: str = ""
    takes: bool = False
    choices: tuple[str, ...] = ()
    files: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """What may be written there: sub-commands, options, choices of an argument, or files."""

    name: str
    commands: tuple[Word, ...]
    options: tuple[Word, ...]
    choices: tuple[str, ...] = ()
    files: bool = False


def places(parser: argparse.ArgumentParser) -> tuple[Place, ...]:
    """Give every place, those that lead to others first."""
    return tuple(_places(parser, parser.prog))


def _places(parser: argparse.ArgumentParser, name: str) -> Iterator[Place]:
    actions = parser._actions  # noqa: SLF001 -- argparse has no other way to ask
    below: dict[str, argparse.ArgumentParser] = {}
    commands: list[Word] = []
    options: list[Word] = []
    choices: list[str] = []
    files = False
    for action in actions:
        known = cast("object", action.choices)
        if isinstance(known, Mapping):
            below |= cast("dict[str, argparse.ArgumentParser]", known)
            commands += (Word((n,), p.description or "") for n, p in below.items())
        elif action.option_strings:
            options.append(_option(action))
        else:
            choices += map(str, action.choices or ())
            files = files or action.metavar in _FILES
    yield Place(name, tuple(commands), tuple(options), tuple(choices), files)
    for command, own in below.items():
        yield from _places(own, f"{name} {command}")


def _option(action: argparse.Action) -> Word:
    return Word(
        names=tuple(action.option_strings),
        help=action.help or "",
        takes=action.nargs != 0,
        choices=tuple(map(str, action.choices or ())),
        files=action.metavar in _FILES,
    )
