"""Finding what a text claims to have done, and keeping what no effect shows."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import Final, Protocol

from loom_ia.policies.phantom.lexicon import (
    ADVERBS,
    AFTER_HEADLINE,
    AUXILIARIES,
    BY_MEANS,
    DENIALS,
    DETERMINERS,
    DOUBTS,
    HABITS,
    OBJECTS,
    OTHERS,
    PLURAL_SUBJECTS,
    SUBJECTS,
    SUPPORT,
    THINGS,
    Action,
    Verb,
)
from loom_ia.policies.phantom.tokens import Clause, Token, clauses, fold

_SHORT_HEADLINE: Final = 4
_NEAR: Final = 4
_NONE: Final = frozenset[str]()
_NO_HEADLINE: Final = AUXILIARIES | DETERMINERS | SUBJECTS | PLURAL_SUBJECTS
_AND: Final = frozenset(("et", "and", "puis", "then"))


class Effected(Protocol):
    """What is known of an action: an `EffectRecord`, or what looks like one."""

    @property
    def tool(self) -> str: ...
    @property
    def status(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Claim:
    """Words that claim an action, and their place in the text, in characters."""

    action: str
    text: str
    start: int
    end: int


def phantom_claims(
    text: str, actions: Iterable[Action], effects: Iterable[Effected]
) -> tuple[Claim, ...]:
    """Give what `text` claims to have done and no effect shows, in the order of the text.

    Places are in the composed form of the text (Unicode NFC).
    """
    text = unicodedata.normalize("NFC", text)
    done = {effect.tool for effect in effects if effect.status == "done"}
    phantom = [a for a in actions if not any(fnmatchcase(t, g) for t in done for g in a.tools)]
    if not phantom:
        return ()
    found = {
        (claim.start, claim.action): claim
        for clause in clauses(text)
        for action in phantom
        for claim in _claims(text, clause, action)
    }
    return tuple(found[key] for key in sorted(found))


def _claims(text: str, clause: Clause, action: Action) -> Iterator[Claim]:
    if clause.is_question:
        return
    for first, last in (*_by_verb(text, clause.tokens, action.verb), *_by_phrase(clause, action)):
        if not _is_asserted(clause.tokens, first, last):
            continue
        start, end = clause.tokens[first].start, clause.tokens[last].end
        yield Claim(action.name, text[start:end], start, end)


def _is_asserted(tokens: Sequence[Token], first: int, last: int) -> bool:
    """Whether nothing around denies the claim, doubts it, or says it of somebody else."""
    words = [token.word for token in tokens]
    before = words[:last]
    if "seulement" not in before and "only" not in before and not DENIALS.isdisjoint(before):
        return False
    if "non" in before and "seulement" not in before:
        return False
    if any(w.endswith("n'") and n == "t" for w, n in pairwise(before)):
        return False
    lead = words[:first]
    if not DOUBTS.isdisjoint(lead) or _is_once(lead):
        return False
    return not _is_by_another(words[last + 1 :]) and HABITS.isdisjoint(words)


def _is_once(lead: Sequence[str]) -> bool:
    return "une" in lead and "fois" in lead


def _is_by_another(rest: Sequence[str]) -> bool:
    for word, following in pairwise((*rest, "")):
        if word in ("par", "by"):
            return following not in BY_MEANS
    return False


def _by_verb(text: str, tokens: Sequence[Token], verb: Verb) -> Iterator[tuple[int, int]]:
    words = [token.word for token in tokens]
    support = SUPPORT.french | SUPPORT.english if not verb.nouns.isdisjoint(words) else _NONE
    own = verb.french | verb.english
    speaks: int | None = None  # "I have … and …": the subject still holds
    for index, word in enumerate(words):
        start = _subject(words, index)
        if word in verb.infinitives and (just := _just_before(words, index)) is not None:
            yield just, index
        if word in own or word in support:
            if start is None and speaks is not None and words[index - 1] in _AND:
                start = index if OTHERS.isdisjoint(words[speaks:index]) else None
            near = words[index : index + _NEAR]
            if start is None:
                start, near = _passive(words, index), words[:index]
            if start is None and _is_headline(text, tokens, words, index, verb):
                start = 0
            if start is not None and (word in own or not verb.nouns.isdisjoint(near)):
                yield start, index
        if _subject(words, index) is not None:
            speaks = index


def _back(words: Sequence[str], index: int) -> int:
    """Give the place before `index`, adverbs left out; -1 when there is none."""
    index -= 1
    while index >= 0 and (words[index] in ADVERBS or words[index].endswith(("ment", "ly"))):
        index -= 1
    return index


def _subject(words: Sequence[str], index: int) -> int | None:
    """Give where "j'ai", "nous avons", "on a", "I have" or "I" begins, before a participle."""
    at = _back(words, index)
    if at < 0:
        return None
    if words[at] in ("i", "we"):
        return at
    if words[at] in ("have", "ve", "'ve"):
        holder = _back(words, at)
        return holder if holder >= 0 and words[holder] in ("i", "we", "i'", "we'") else None
    holders = {"ai": SUBJECTS, "avons": PLURAL_SUBJECTS, "a": frozenset(("on",))}
    holder_words = holders.get(words[at])
    if holder_words is None:
        return None
    at -= 1
    while at > 0 and words[at] in OBJECTS and words[at - 1] in (*OBJECTS, *SUBJECTS, "nous", "on"):
        at -= 1
    return at if at >= 0 and words[at] in holder_words else None


def _just_before(words: Sequence[str], index: int) -> int | None:
    """Give where "je viens de", "nous venons de" or "j'ai pu" begins, before an infinitive."""
    at = index - 1
    while at >= 0 and words[at] in OBJECTS:
        at -= 1
    if at > 0 and words[at] == "pu":
        return _subject(words, at)
    if at < 0 or words[at] not in ("de", "d'"):
        return None
    at = _back(words, at)
    if at < 1 or words[at] not in ("viens", "venons"):
        return None
    return at - 1 if words[at - 1] in (*SUBJECTS, *PLURAL_SUBJECTS) else None


def _passive(words: Sequence[str], index: int) -> int | None:
    """Give where "a été", "est", "vient d'être", "has been" or "was" begins."""
    at = _back(words, index)
    if at < 0:
        return None
    if words[at] in ("ete", "been"):
        holder = _back(words, at)
        if holder >= 0 and words[holder] in ("a", "ont", "has", "have", "s", "'s"):
            is_sure = holder == 0 or words[holder - 1] not in ("to", "avoir", "'ll", "ll")
            return holder if is_sure else None
        return None
    if words[at] == "etre" and at > 1 and words[at - 1] == "d'":
        return at - 2 if words[at - 2] in ("vient", "viennent") else None
    if words[at] in ("est", "sont", "was", "were"):
        return at
    is_now = "now" in words[at:index]
    return at if words[at] in ("is", "are") and is_now else None


def _is_headline(
    text: str, tokens: Sequence[Token], words: Sequence[str], index: int, verb: Verb
) -> bool:
    """Whether a headline ends with this participle, as in "Payment made"."""
    lead, rest = words[:index], words[index + 1 :]
    if index > _SHORT_HEADLINE or not _NO_HEADLINE.isdisjoint(lead):
        return False
    if rest and rest[0] not in AFTER_HEADLINE:
        return False
    if not (AUXILIARIES - {"a"}).isdisjoint(rest):  # "envoyé à" is folded like the verb
        return False
    if words[index] in verb.french | SUPPORT.french:
        token = tokens[index]
        return _ACCENTED.search(text[token.start : token.end]) is not None
    return bool(lead) and lead[-1] in THINGS | verb.nouns


_ACCENTED: Final = re.compile(r"(?:é|i[st])e?s?$", re.IGNORECASE)
"""A past participle, which its accent tells apart from a noun or an order: "réserve"."""


def _by_phrase(clause: Clause, action: Action) -> Iterator[tuple[int, int]]:
    words = [token.word for token in clause.tokens]
    for phrase in action.phrases:
        wanted = re.findall(r"[a-z]+'|'[a-z]+|[a-z]+|[0-9]+", fold(phrase))
        for index in range(len(words) - len(wanted) + 1 if wanted else 0):
            if words[index : index + len(wanted)] == wanted:
                yield index, index + len(wanted) - 1
