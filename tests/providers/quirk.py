"""A quirk: what a provider really sends, and what is to be understood of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from tests.providers.replies import Fails, Raw, Stop, Tokens


@dataclass(frozen=True)
class Understood:
    """The answer that there is in spite of the quirk.

    The arguments of a call are an object, or the text that came when it is none. `ids` are those
    of the calls when the provider gave them, all different; without them the reader invents some,
    all different and none empty. What UTF-8 cannot hold is U+FFFD, two halves of a character being
    that character. `usage` is None when nothing was told.
    """

    text: str = ""
    reasoning: str = ""
    calls: tuple[tuple[str, Mapping[str, Any] | str], ...] = ()
    ids: tuple[str, ...] = ()
    usage: Tokens | None = None
    stop: Stop = "end"


Why: TypeAlias = Literal["cut", "unreadable", "empty", "told", "status"]


@dataclass(frozen=True)
class Broken:
    """There is no answer, and it must not pass for one.

    - `cut`: the stream ended before the answer did.
    - `unreadable`: something that is no JSON stands where an event should.
    - `empty`: there was nothing at all.
    - `told`: the provider said in the body that it failed; `says` is in its message.
    - `status`: the HTTP status says it.

    `text` is what was said before.
    """

    why: Why
    says: str = ""
    text: str = ""
    status: int = 200


@dataclass(frozen=True)
class Quirk:
    """One quirk by its name: the reply to play, and what is expected of who reads it.

    `asks` is what the request must hold for a provider to answer so.
    """

    name: str
    reply: Raw | Fails
    expected: Understood | Broken
    asks: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __str__(self) -> str:
        return self.name
