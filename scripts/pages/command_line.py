"""The page of the command `loom`: every command and option, as its parser has them."""

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence

from loom_ia.access.cli import arguments, failures
from loom_ia.i18n import current, speak
from scripts.pages.markdown import block, code, page, table

_MEANINGS = {
    failures.COMPLETED: "Done: the run is completed, or the command did what it says.",
    failures.NOT_COMPLETED: "Not completed: it paused or failed, or there was nothing left to do.",
    failures.REFUSED: "Refused, and nothing was begun: an option, an id or the configuration.",
    130: "Stopped by Ctrl-C; a run that had begun can be resumed.",
    143: "Stopped by SIGTERM; a run that had begun can be resumed.",
}


def text() -> str:
    """Give the page, in English whatever the language of this process."""
    before = current()
    speak("en")
    try:
        return _page()
    finally:
        speak(before)


def _page() -> str:
    top, commands = _parsers()
    return page(
        "Command line",
        "The answer of a run goes to standard output, everything else to standard error. Global "
        "options stand before or after the command.",
        "## Commands",
        table(
            ("command", "does"),
            ((f"[`loom {name}`](#loom-{name})", str(c.description)) for name, c in commands),
        ),
        "## Global options",
        _table(_actions(top), top),
        "`LOOM_LANG` chooses the language too, and else the locale does; `LOOM_PROFILE` the "
        "profile; `LOOM_DEBUG=1` is `--debug`.",
        "## Exit codes",
        table(("code", "means"), ((code(str(c)), meaning) for c, meaning in _MEANINGS.items())),
        *(part for name, command in commands for part in _command(name, command, top)),
    )


def _parsers() -> tuple[argparse.ArgumentParser, list[tuple[str, argparse.ArgumentParser]]]:
    build = arguments._parser  # noqa: SLF001 -- each command declares its options when it is asked for
    top = build(list(_commands(build([]))))
    return top, list(_commands(top).items())


def _commands(parser: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    found = (action.choices for action in _actions(parser) if _is_commands(action))
    return next(found, {})  # pyright: ignore[reportReturnType] -- they are parsers


def _actions(parser: argparse.ArgumentParser) -> Sequence[argparse.Action]:
    return parser._actions  # noqa: SLF001 -- argparse has no other way to ask


def _is_commands(action: argparse.Action) -> bool:
    return isinstance(action.choices, Mapping)


def _command(
    name: str, parser: argparse.ArgumentParser, top: argparse.ArgumentParser, *, level: int = 2
) -> Iterator[str]:
    everywhere = {option for action in _actions(top) for option in action.option_strings}
    own = [a for a in _actions(parser) if not everywhere.intersection(a.option_strings)]
    words = [f"[{_word(a)}]" if a.nargs == "?" else _word(a) for a in own if not a.option_strings]
    options = ["[options]"] if any(action.option_strings for action in own) else []
    below = _commands(parser)
    yield f"{'#' * level} loom {name}"
    yield f"{str(parser.description)[:1].upper()}{str(parser.description)[1:]}."
    yield block(" ".join(["loom", name, *options, *words]), "text")
    if any(not _is_commands(action) for action in own):
        yield _table(own, parser)
    for word, command in below.items():
        yield from _command(f"{name} {word}", command, top, level=level + 1)


def _table(actions: Iterable[argparse.Action], parser: argparse.ArgumentParser) -> str:
    return table(
        ("word", "means"),
        (
            (code(_written(action)), f"{action.help}{_excluded(action, parser)}")
            for action in actions
            if not _is_commands(action)
        ),
    )


def _written(action: argparse.Action) -> str:
    if not action.option_strings:
        return _word(action)
    names = ", ".join(action.option_strings)
    return names if action.nargs == 0 else f"{names} {_word(action)}"


def _word(action: argparse.Action) -> str:
    return str(action.metavar or "|".join(map(str, action.choices or [])) or action.dest.upper())


def _excluded(action: argparse.Action, parser: argparse.ArgumentParser) -> str:
    groups = parser._mutually_exclusive_groups  # noqa: SLF001 -- as above
    others = (
        other.option_strings[-1]
        for group in groups
        if action in group._group_actions  # noqa: SLF001
        for other in group._group_actions  # noqa: SLF001
        if other is not action
    )
    names = " or ".join(code(other) for other in others)
    return f"; not with {names}" if names else ""
