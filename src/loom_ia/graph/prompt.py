"""The system prompt of an agent, put together from who it is and what it can do.

Law. The same state gives the same prompt, byte for byte: nothing depends on a clock, a set's order
or chance, so that caches of providers hit and a replay does not diverge. What does not fit is left
out whole; only the body of a skill is cut, and it says so. No text of a prompt is ever logged.
"""

import logging
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, cast

from loom_ia.core.errors import CallerError
from loom_ia.core.model.messages import Message
from loom_ia.graph.types import Delta, Step

_log = logging.getLogger("loom_ia.graph")

MAX_PROMPT_TOKENS: Final = 8000
MAX_BODIES: Final = 2
BYTES_A_TOKEN: Final = 4
SHORTEST_WORD: Final = 4
"""In bytes of UTF-8; a shorter word tells nothing about a subject."""

_TRUNCATED: Final = "[truncated]"
_JOINER: Final = "\u200d"


@dataclass(frozen=True, slots=True)
class Identity:
    """Who an agent is: `core` in every prompt, `extended` where there is room.

    `raw` is the text that both were made from, if one was.
    """

    core: str
    extended: str = ""
    raw: str = ""


@dataclass(frozen=True, slots=True)
class Skill:
    """Something an agent knows how to do.

    Its name and description are always in the prompt, its `body` when the message is about it.
    `scripts` and `references` are paths of files that go with it.
    """

    name: str
    description: str = ""
    body: str = ""
    scripts: Sequence[str] = ()
    references: Sequence[str] = ()


Matcher: TypeAlias = Callable[[Sequence[Skill], str], Sequence[Skill]]
"""`(skills, message) -> the skills that it is about`, the best one first."""


def match_skills(skills: Sequence[Skill], message: str) -> list[Skill]:
    """Give the skills that `message` is about, the best one first, ties in the order given.

    The score is the share of the distinct words of a skill, in its name and description, that
    stand in the message, whatever their case; words of up to three bytes count for nothing, nor
    does the punctuation around a word.
    """
    said = set(_words(message))
    scores: list[tuple[float, Skill]] = []
    for skill in skills:
        words = set(_words(f"{skill.name} {skill.description}"))
        if found := words & said:
            scores.append((len(found) / len(words), skill))
    scores.sort(key=lambda scored: -scored[0])  # stable, hence the order of ties
    return [skill for _, skill in scores]


def assemble_prompt(
    identity: Identity | str,
    *,
    skills: Sequence[Skill] = (),
    profiles: Mapping[str, str] = {},
    profile: str | None = None,
    max_tokens: int = MAX_PROMPT_TOKENS,
    max_skill_tokens: int = 0,
    matcher: Matcher | None = match_skills,
    strict: bool = False,
) -> Step:
    """Build a step that writes `system_prompt`, and `active_skills`, the names of those in full.

    The parts, joined by a blank line: the core identity and the index of all skills, always; then,
    each only where it fits in `max_tokens`, the extended identity, the text of `profile`, and the
    bodies of at most two skills that the state's `last_user_message` is about. A token is counted
    as four bytes. A limit of zero or less is the default one, 8000.

    A body of more than `max_skill_tokens`, if positive, is cut there and marked `[truncated]`. When
    the core and the index alone are over the limit, a warning is logged, or with `strict` the step
    fails. Raises `ValueError` for an unknown profile and for two skills of one name.
    """
    who = Identity(identity) if isinstance(identity, str) else identity
    known = require_distinct(skills)
    overlay = _overlay(profiles, profile)
    limit = max_tokens if max_tokens > 0 else MAX_PROMPT_TOKENS

    def step(state: Any) -> Delta:
        prompt = _Prompt(limit)
        prompt.add(who.core)
        prompt.add(_index(known))
        if prompt.tokens > limit:
            _complain(prompt.tokens, limit, strict=strict)
        prompt.add_if_fits(who.extended)
        prompt.add_if_fits(overlay)
        active: list[str] = []
        for skill in _matched(matcher, known, _message(state)):
            if len(active) == MAX_BODIES:
                break
            if prompt.add_if_fits(_cut(skill.body, max_skill_tokens)):
                active.append(skill.name)
        return {"system_prompt": prompt.text, "active_skills": active}

    return step


def require_distinct(skills: Iterable[Skill]) -> tuple[Skill, ...]:
    """Give `skills`, once each has a name of its own; raises `ValueError` otherwise."""
    known = tuple(skills)
    for name, count in Counter(skill.name for skill in known).items():
        if not name.strip():
            raise ValueError("a skill has no name: give it one, the prompt lists skills by name")
        if count > 1:
            raise ValueError(f"{count} skills are named {name!r}: rename all but one")
    return known


@dataclass(slots=True)
class _Prompt:
    """The parts of one prompt, and how many tokens they take at most.

    The estimate of the whole, blank lines included, and the sum of the parts' own may differ by
    rounding; the larger one counts, so that neither is ever over the limit.
    """

    limit: int
    parts: list[str] = field(default_factory=list[str])

    @property
    def text(self) -> str:
        return "\n\n".join(self.parts)

    @property
    def tokens(self) -> int:
        if not self.parts:
            return 0
        return max(_estimate(self.text), sum(map(_estimate, self.parts)))

    def add(self, part: str) -> None:
        if part.strip():
            self.parts.append(part)

    def add_if_fits(self, part: str) -> bool:
        if not part.strip():
            return False
        self.parts.append(part)
        if self.tokens > self.limit:
            self.parts.pop()
            return False
        return True


def _complain(tokens: int, limit: int, *, strict: bool) -> None:
    if strict:
        raise CallerError(
            "the core identity and the index of skills take about {tokens} tokens, and max_tokens"
            " is {limit}: shorten them, or raise it",
            tokens=tokens,
            limit=limit,
        )
    _log.warning(
        "the core identity and the index of skills take about %d tokens, over max_tokens=%d; they"
        " are kept whole",
        tokens,
        limit,
    )


def _overlay(profiles: Mapping[str, str], profile: str | None) -> str:
    if profile is None:
        return ""
    if profile not in profiles:
        known = ", ".join(map(repr, profiles)) or "none"
        raise ValueError(f"there is no profile {profile!r}; declared: {known}")
    return profiles[profile]


def _index(skills: Sequence[Skill]) -> str:
    if not skills:
        return ""
    return "\n".join(("## Available Skills\n", *map(_bullet, skills)))


def _bullet(skill: Skill) -> str:
    # A line break inside would end the list's item.
    name, description = (" ".join(text.split()) for text in (skill.name, skill.description))
    return f"- **{name}**: {description}" if description else f"- **{name}**"


def _matched(matcher: Matcher | None, skills: tuple[Skill, ...], message: str) -> list[Skill]:
    if matcher is None or not skills or not message.strip():
        return []
    return list({skill.name: skill for skill in matcher(skills, message)}.values())


def _message(state: Any) -> str:
    """Read what the user said last; a state that is an instance has it as a field."""
    if isinstance(state, Mapping):
        said = cast("Mapping[str, Any]", state).get("last_user_message")
    else:
        said = getattr(state, "last_user_message", None)
    if isinstance(said, Message):
        return said.as_text()
    return said if isinstance(said, str) else ""


def _cut(body: str, max_tokens: int) -> str:
    """Keep the first `max_tokens` of `body`, whole characters only, and mark it when it is cut."""
    encoded = body.encode("utf-8", "surrogatepass")
    if max_tokens <= 0 or len(encoded) <= max_tokens * BYTES_A_TOKEN:
        return body
    end = len(encoded[: max_tokens * BYTES_A_TOKEN].decode("utf-8", "ignore"))
    whole = end
    while whole and _is_bound(body, whole):
        whole -= 1
    return f"{body[: whole or end].rstrip()}\n{_TRUNCATED}"


def _is_bound(text: str, at: int) -> bool:
    """Whether the characters before and after `at` are drawn as one."""
    before, after = text[at - 1], text[at]
    is_mark = unicodedata.category(after).startswith("M")
    is_tone = "\U0001f3fb" <= after <= "\U0001f3ff"  # of a skin, after an emoji
    return is_mark or is_tone or _JOINER in (before, after)


def _words(text: str) -> list[str]:
    words = (_bare(word) for word in unicodedata.normalize("NFC", text).lower().split())
    return [word for word in words if len(word.encode("utf-8", "replace")) >= SHORTEST_WORD]


def _bare(word: str) -> str:
    """Take the punctuation from both ends of a word."""
    start, end = 0, len(word)
    while start < end and not word[start].isalnum():
        start += 1
    while end > start and not word[end - 1].isalnum():
        end -= 1
    return word[start:end]


def _estimate(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass")) // BYTES_A_TOKEN + 1
