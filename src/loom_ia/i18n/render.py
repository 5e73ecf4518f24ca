"""Errors as people read them."""

from typing import Final, cast

from loom_ia.core.errors import LoomError, Problem
from loom_ia.i18n.catalogue import filled, lookup
from loom_ia.i18n.language import Language, current
from loom_ia.i18n.words import WORDS


def render(error: LoomError, language: Language | None = None) -> str:
    """Say `error`; one that lists problems has a line for each."""
    return "\n".join(lines(error, language))


def lines(error: LoomError, language: Language | None = None) -> tuple[str, ...]:
    """Say `error` in sentences, one for each problem that it lists."""
    spoken = language or current()
    if problems := cast("tuple[Problem, ...]", getattr(error, "problems", ())):
        return tuple(_problem(problem, spoken) for problem in problems)
    return (_sentence(error.template, error.params, spoken),)


_SENTENCES: Final = frozenset({"problem", "reason"})
"""Parameters that may be a whole text of the catalogue."""


def _problem(problem: Problem, language: Language) -> str:
    sentence = _sentence(problem.template, problem.params, language)
    place = f"{problem.file}:{problem.line}" if problem.line is not None else problem.file
    said = f"{problem.path} — {sentence}" if problem.path else sentence
    return f"{place}: {said}" if place else said


def _sentence(template: str, params: dict[str, object], language: Language) -> str:
    said = {name: _value(name, value, language) for name, value in params.items()}
    return filled(template, said, language)


def _value(name: str, value: object, language: Language) -> object:
    """Say a parameter that is itself a text of ours: an error, a sentence, a word of the list."""
    if isinstance(value, LoomError):
        return render(value, language)
    if isinstance(value, str) and (name in _SENTENCES or value in WORDS.get(name, ())):
        return lookup(value, language)
    return value
