"""Which language is spoken, and who chose it."""

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Final, Literal, TypeAlias, get_args

Language: TypeAlias = Literal["en", "fr"]

LANGUAGES: Final[tuple[Language, ...]] = get_args(Language)
VARIABLES: Final = ("LOOM_LANG", "LC_ALL", "LC_MESSAGES", "LANG")

_spoken: ContextVar[Language] = ContextVar("loom_ia_language", default="en")


def chosen(asked: str | None, environ: Mapping[str, str]) -> Language:
    """Take what was asked for, else the first variable that is set; English when none is known."""
    named = (asked, *(environ.get(name) for name in VARIABLES))
    first = next((name for name in named if name), "")
    known: dict[str, Language] = {language: language for language in LANGUAGES}
    return known.get(_language(first), "en")


def speak(language: Language) -> None:
    """Speak `language` from here on, in this context."""
    _spoken.set(language)


def current() -> Language:
    """Give the language that is spoken here."""
    return _spoken.get()


def _language(locale: str) -> str:
    """Read the language of a name such as `fr_FR.UTF-8` or `fr-CA`."""
    return locale.replace("-", "_").split("_")[0].split(".")[0].lower()
