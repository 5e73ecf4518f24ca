r"""Texts with `{{ variables }}`: parsed and checked when loaded, filled when used.

Law. A variable is a dotted path (`{{ client.name }}`, `{{ lines.0.price }}`) and nothing else: no
filter, no condition, no loop, no attribute of a Python object. A text is filled in one pass, so
that a value which itself holds `{{` stays what it is. `{x}`, `${expr}`, `{% %}` and a `}}` alone
are plain text. `\{{` writes `{{`; `\\{{ x }}` writes one backslash, then the value.

Which names exist is not known here: who parses a template compares `variables` with them.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Final, cast

from loom_ia.core.errors import ConfigError, Problem
from loom_ia.core.json import JsonObject, readable

SENTENCE_CHARS: Final = 500
_OPENING: Final = re.compile(r"(\\\\|\\)?\{\{")
_PATH: Final = re.compile(r"[^\W\d]\w*(?:\.[\w-]+)*")
_SHOWN: Final = 40


@dataclass(frozen=True, slots=True)
class Variable:
    """One use of a variable; `line` and `column` count from 1."""

    path: tuple[str, ...]
    line: int
    column: int

    @property
    def name(self) -> str:
        """The path as it is written."""
        return ".".join(self.path)


@dataclass(frozen=True, slots=True)
class Template:
    """A text ready to be filled, as an alternation of plain text and variables."""

    parts: tuple[str | Variable, ...]

    @classmethod
    def parse(cls, source: str, file: str = "template") -> "Template":
        """Read `source`. Raises `ConfigError` that lists every fault with its line in `file`."""
        parts: list[str | Variable] = []
        problems: list[Problem] = []
        for number, line in enumerate(source.split("\n"), start=1):
            if number > 1:
                parts.append("\n")
            for part in _parts(line, number):
                if isinstance(part, _Fault):
                    problems.append(Problem(file, number, "", part.template, part.params))
                else:
                    parts.append(part)
        if problems:
            raise ConfigError(problems)
        return cls(tuple(_joined(parts)))

    @property
    def variables(self) -> tuple[Variable, ...]:
        """Each use of a variable, in the order of the text."""
        return tuple(part for part in self.parts if isinstance(part, Variable))

    def render(self, context: Mapping[str, object]) -> str:
        """Fill the text: strings as they are, other values as JSON, a missing one as nothing."""
        return "".join(
            part if isinstance(part, str) else _written(_value(context, part.path))
            for part in self.parts
        )


@dataclass(frozen=True, slots=True)
class _Fault:
    template: str
    params: dict[str, object]


_NOT_CLOSED: Final = (
    "column {column}: {{{{ is not closed on its line (write \\{{{{ for a literal one)"
)
_NOT_A_PATH: Final = (
    "column {column}: {{{{{text}}}}} is not a variable: only a dotted name may stand there "
    "(write \\{{{{ for a literal {{{{)"
)


def _parts(line: str, number: int) -> Iterator[str | Variable | _Fault]:
    position = 0
    while found := _OPENING.search(line, position):
        yield line[position : found.start()]
        position = found.end()
        escape = found[1] or ""
        if escape == "\\":
            yield "{{"
            continue
        yield escape[:1]
        column = position - 1
        end = line.find("}}", position)
        if end < 0:
            yield _Fault(_NOT_CLOSED, {"column": column})
            return
        text = line[position:end]
        if _PATH.fullmatch(text.strip()):
            yield Variable(tuple(text.strip().split(".")), number, column)
        else:
            yield _Fault(_NOT_A_PATH, {"column": column, "text": text[:_SHOWN]})
        position = end + 2
    yield line[position:]


def _joined(parts: list[str | Variable]) -> Iterator[str | Variable]:
    for kind, group in groupby(parts, key=type):
        if kind is str:
            if text := "".join(cast("Iterator[str]", group)):
                yield text
        else:
            yield from group


_MISSING: Final = object()


def _value(context: object, path: tuple[str, ...]) -> object:
    value = context
    for key in path:
        if isinstance(value, Mapping):
            value = cast("Mapping[str, object]", value).get(key, _MISSING)
        elif isinstance(value, list | tuple) and key.isdecimal() and len(key) < 10:
            items = cast("list[object] | tuple[object, ...]", value)
            value = items[int(key)] if int(key) < len(items) else _MISSING
        else:
            return _MISSING
    return value


def _written(value: object) -> str:
    if value is _MISSING:
        return ""
    return value if isinstance(value, str) else readable(value)


_SPOKEN: Final = 20 * SENTENCE_CHARS


def one_sentence(text: str, most: int = SENTENCE_CHARS) -> str:
    """Make a text fit to be told: one line of at most `most` characters, nothing invisible.

    Characters of control, of direction and of no width are dropped, so that what a person reads is
    what is written; white space is one space.
    """
    seen = "".join(
        " " if c.isspace() else "" if unicodedata.category(c) in _UNSEEN else c
        for c in text[:_SPOKEN]
    )
    line = " ".join(seen.split())
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"


_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})


def notice_faults(notice: str, schema: JsonObject) -> Iterator[Problem]:
    """Say what is wrong with a sentence for calls whose arguments fit `schema`, a problem each."""
    try:
        template = Template.parse(notice, "")
    except ConfigError as error:
        yield from error.problems
        return
    written = schema.get("properties")
    properties = cast("Mapping[str, object]", written if isinstance(written, dict) else {})
    if schema.get("additionalProperties", not properties) not in (False, None):
        return  # any name may be an argument
    known = ", ".join(properties) or "none"
    for variable in template.variables:
        if variable.path[0] not in properties:
            params: dict[str, object] = {"name": variable.path[0], "known": known}
            said = "{name} is no argument of the tool (its arguments: {known})"
            yield Problem("", variable.line, "", said, params)
