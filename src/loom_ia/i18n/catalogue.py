"""The compiled catalogues, read when they are first needed."""

from functools import cache
from gettext import GNUTranslations, NullTranslations
from importlib.resources import files

from loom_ia.i18n.language import Language, current


def lookup(template: str, language: Language | None = None) -> str:
    """Give the template of `language` (the one that is spoken) for an English `template`."""
    return _catalogue(language or current()).gettext(template) if template else template


def translate(template: str, /, **params: object) -> str:
    """Say `template`, filled with `params`, in the language that is spoken."""
    return filled(template, params, current())


def filled(template: str, params: dict[str, object], language: Language) -> str:
    """Fill the template of `language`; without `params`, braces are plain text."""
    said = lookup(template, language)
    return said.format_map(params) if params else said


@cache
def _catalogue(language: Language) -> NullTranslations:
    if language == "en":
        return NullTranslations()
    with (files("loom_ia.i18n") / f"{language}.mo").open("rb") as file:
        return GNUTranslations(file)
