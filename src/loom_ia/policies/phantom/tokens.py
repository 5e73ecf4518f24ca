"""Cutting a text into clauses of folded words, each with its place in the text.

What is quoted, or shown as code, is not said by whoever answers: it is left out.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

_QUOTED: Final = re.compile(r"```.*?```|`[^`\n]*`|«[^«»]*»|“[^“”]*”|\"[^\"\n]*\"", re.DOTALL)
_QUOTED_LINE: Final = re.compile(r"^[ \t]*>.*$", re.MULTILINE)
_PIECE: Final = re.compile(r"(?P<word>[a-z]+'|'[a-z]+|[a-z]+|[0-9]+)|(?P<mark>[.!?\n,;:()—–…|])")
_LONGEST: Final = 200
"""Words of a clause; a longer one is cut."""
_ENDS: Final = frozenset(".!?\n…|")
_TURNS: Final = frozenset(("mais", "but", "however", "cependant"))
_SAME: Final = MappingProxyType({"’": "'", "\u02bc": "'", "œ": "o", "æ": "a"})


class Token(NamedTuple):
    """A folded word, and where it stands."""

    word: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Clause:
    """Words that are said together; `is_question` tells of the whole sentence."""

    tokens: tuple[Token, ...]
    is_question: bool


def clauses(text: str) -> Iterator[Clause]:
    """Give the clauses of a text, in order."""
    folded = _folded(_without_quotes(text))
    sentence: list[list[Token]] = [[]]
    for found in _PIECE.finditer(folded):
        word = found["word"]
        if word is None:
            mark = found["mark"]
            if mark not in _ENDS:
                sentence.append([])
            elif not _is_inside_number(folded, found.start()):
                yield from _ended(sentence, is_question=mark == "?")
                sentence = [[]]
            continue
        if word in _TURNS or len(sentence[-1]) >= _LONGEST:
            sentence.append([])
        sentence[-1].append(Token(word, found.start(), found.end()))
    yield from _ended(sentence, is_question=False)


def _ended(sentence: list[list[Token]], *, is_question: bool) -> Iterator[Clause]:
    for tokens in sentence:
        if tokens:
            yield Clause(tuple(tokens), is_question)


def _is_inside_number(text: str, place: int) -> bool:
    around = text[place - 1 : place], text[place + 1 : place + 2]
    return text[place] == "." and all(side.isdigit() for side in around)


def _without_quotes(text: str) -> str:
    for pattern in (_QUOTED, _QUOTED_LINE):
        text = pattern.sub(lambda found: " " * len(found[0]), text)
    return text


def fold(text: str) -> str:
    """Give words as the lexicon has them."""
    return _folded(text)


def _folded(text: str) -> str:
    """Fold each character into one, so that places stay."""
    return "".join(map(_folded_one, text))


def _folded_one(character: str) -> str:
    if character.isascii():
        return character.lower()
    same = _SAME.get(character.lower())
    if same is not None:
        return same
    plain = unicodedata.normalize("NFKD", character)[0].lower()
    return plain if len(plain) == 1 else " "
