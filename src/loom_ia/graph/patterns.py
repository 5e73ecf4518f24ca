"""Patterns that name tools, and calls: full globs, whole, case-sensitive.

A pattern that cannot mean anything is refused where it is written: a guard that never matches is
worse than none.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import translate
from functools import lru_cache
from typing import Final

from loom_ia.graph.errors import PatternError

_NEVER: Final = "(?!)"
"""What a translated glob has in the place of a range that is empty, such as `[z-a]`."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """One pattern: `name` matches the name of a tool, `argument` the text of its call.

    Without `argument` it matches every call of the tools that it names.
    """

    text: str
    name: re.Pattern[str]
    argument: re.Pattern[str] | None = None

    def names(self, name: str) -> bool:
        """Tell whether `name` is that of a tool that the pattern is about."""
        return self.name.match(name) is not None

    def matches(self, name: str, argument: str) -> bool:
        """Tell whether the pattern matches the call of `name` whose first text is `argument`."""
        if not self.names(name):
            return False
        return self.argument is None or self.argument.match(argument) is not None


@lru_cache(maxsize=1024)
def glob(text: str) -> re.Pattern[str]:
    """Read a glob: `*`, `?`, `[abc]`, `[a-z]`, `[!a]`. Raises `PatternError` when malformed."""
    if not text:
        raise PatternError("an empty pattern matches no name: write * for every one")
    if _is_open(text):
        raise PatternError("the pattern {text!r} has a [ that is not closed", text=text)
    expression = translate(text)
    if _NEVER in expression:
        raise PatternError("the pattern {text!r} has a range that holds nothing", text=text)
    return re.compile(expression)


def pattern(text: str) -> Pattern:
    """Read `name`, or `name(argument)`, both globs. Raises `PatternError` when malformed."""
    name, opened, rest = text.partition("(")
    if not opened:
        if ")" in text:
            raise PatternError("the pattern {text!r} closes a ( that was not opened", text=text)
        return Pattern(text, glob(name))
    argument = rest.removesuffix(")")
    if argument == rest:
        raise PatternError("the pattern {text!r} has a ( that its end does not close", text=text)
    if not argument:
        raise PatternError(
            "the pattern {text!r} has no argument: write {name} for every call",
            text=text,
            name=name,
        )
    return Pattern(text, glob(name), glob(argument))


def patterns(option: str, texts: Iterable[str], names: Sequence[str]) -> tuple[Pattern, ...]:
    """Read the patterns of `option`, each of which must name one of the tools `names`."""
    if isinstance(texts, str):
        raise PatternError(
            "{option} is a list of patterns: write [{text!r}]", option=option, text=texts
        )
    return tuple(_about(option, text, names) for text in texts)


def _about(option: str, text: object, names: Sequence[str]) -> Pattern:
    if not isinstance(text, str):
        raise PatternError(
            "{option} has {text!r}, which is not a text: patterns are names or globs",
            option=option,
            text=text,
        )
    read = pattern(text)
    if not any(map(read.names, names)):
        raise PatternError(
            "{option}: the pattern {text!r} matches none of the tools: {names}",
            option=option,
            text=text,
            names=", ".join(names) or "there are none",
        )
    return read


def _is_open(text: str) -> bool:
    """Tell whether a `[` of the glob has no `]`; one that stands first inside is a character."""
    at = text.find("[")
    while at >= 0:
        inside = at + 1
        inside += text.startswith("!", inside)
        inside += text.startswith("]", inside)
        end = text.find("]", inside)
        if end < 0:
            return True
        at = text.find("[", end + 1)
    return False
