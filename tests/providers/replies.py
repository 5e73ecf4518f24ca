"""What a provider may answer, honest or broken, in no format's words."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from tests.providers.wire import Cut, Request

Stop: TypeAlias = Literal["end", "tool_use", "max_tokens", "refusal"]

_WORD = re.compile(r"\s*\S+|\s+$")
_FRAGMENT = 6  # characters of arguments in one piece


@dataclass(frozen=True)
class Tokens:
    """What a call consumed. `input` excludes the cache; `reasoning` is inside `output`."""

    input: int = 10
    output: int = 5
    cache_read: int = 0
    cache_write_5m: int = 0
    cache_write_1h: int = 0
    reasoning: int = 0

    @property
    def cache_write(self) -> int:
        """Everything that was written to the cache."""
        return self.cache_write_5m + self.cache_write_1h

    @property
    def prompt(self) -> int:
        """Everything that was read, as OpenAI counts it: the cache is inside."""
        return self.input + self.cache_read + self.cache_write


@dataclass(frozen=True)
class Called:
    """A call that the model asks for.

    Arguments as text are streamed as they are, JSON or not. Without a `call_id` the server gives
    one in the style of the format, which no other call of this server has.
    """

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict[str, Any])
    call_id: str = ""


@dataclass(frozen=True)
class Thought:
    """Reasoning that the model shows, with what lets the provider read it again.

    `seal` is Anthropic's signature and the encrypted content of the Responses API; a chat
    completion has none.
    """

    text: str = ""
    seal: str = "c2VhbGVkLXRob3VnaHQ="


@dataclass(frozen=True)
class Hidden:
    """Reasoning that the model does not show: Anthropic's `redacted_thinking`.

    The Responses API writes it as an item without a summary, a chat completion not at all.
    """

    data: str = "aGlkZGVuLXRob3VnaHQ="


@dataclass(frozen=True)
class Text:
    """Something that the model says."""

    text: str


@dataclass(frozen=True)
class Declined:
    """The model says that it will not: OpenAI's `refusal`, a text for Anthropic."""

    text: str


Part: TypeAlias = Text | Thought | Hidden | Called | Declined


@dataclass(frozen=True)
class Says:
    """A whole answer, written honestly in the format that was asked for.

    The parts are the reasoning, the text, the refusal, then the calls; `parts` gives them in
    another order, and then those four are left empty. `stop` is found from the parts when it is
    None. `usage=None` leaves the usage out everywhere. `headers` are added to the response.

    What follows breaks the answer, `n` being a number of pieces of content (of text, of reasoning
    or of arguments; 0 is before the first, once the stream is open). Only a streamed answer can be
    broken.

    - `cut_after=n` cuts the connection, as `cut` says.
    - `hang_after=n` sends no more, until the client leaves.
    - `error_after=(n, error)` sends the format's own error event, and ends the response.
    - `pause_after=(n, seconds)` waits once; `slow=seconds` waits between all pieces.
    """

    text: str = ""
    reasoning: str = ""
    calls: Sequence[Called] = ()
    usage: Tokens | None = Tokens()
    stop: Stop | None = None
    refusal: str = ""
    parts: Sequence[Part] = ()
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    cut_after: int | None = None
    cut: Cut = "close"
    hang_after: int | None = None
    error_after: tuple[int, Mapping[str, Any]] | None = None
    pause_after: tuple[int, float] | None = None
    slow: float = 0.0

    @property
    def content(self) -> list[Part]:
        """The parts in their order."""
        if self.parts:
            return list(self.parts)
        return [
            *([Thought(self.reasoning)] if self.reasoning else []),
            *([Text(self.text)] if self.text else []),
            *([Declined(self.refusal)] if self.refusal else []),
            *self.calls,
        ]

    @property
    def why(self) -> Stop:
        """Why the model stopped."""
        if self.stop is not None:
            return self.stop
        parts = self.content
        if any(isinstance(part, Called) for part in parts):
            return "tool_use"
        return "refusal" if any(isinstance(part, Declined) for part in parts) else "end"


@dataclass(frozen=True)
class Raw:
    """Bytes as they are: each chunk is written and flushed alone, `pause` seconds apart.

    They go in HTTP chunks, unless the headers give a `content-length`. `cut` ends the connection
    before the response is whole: `True` and "close" without the last HTTP chunk, "reset" abruptly.
    """

    chunks: Sequence[bytes] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    pause: float = 0.0
    cut: bool | Cut = False


@dataclass(frozen=True)
class Fails:
    """An HTTP error. Without a `body` it is the one that the format gives for the status."""

    status: int
    body: Mapping[str, Any] | str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Silent:
    """Accept the request and send nothing, or the headers alone, until the client leaves.

    After `before` seconds it gives `then`, or else closes the connection.
    """

    before: float | None = None
    headers_first: bool = False
    then: "Reply | None" = None


Reply: TypeAlias = Says | Raw | Fails | Silent
Answer: TypeAlias = Reply | Callable[[Request], Reply]


def words(text: str) -> list[str]:
    """Split a text into the pieces that are streamed; together they are the text."""
    return _WORD.findall(text)


def fragments(text: str) -> list[str]:
    """Split the arguments of a call into the pieces that are streamed."""
    return [text[start : start + _FRAGMENT] for start in range(0, len(text), _FRAGMENT)]


def sse(data: str, event: str = "") -> bytes:
    """Write one server-sent event."""
    named = f"event: {event}\n" if event else ""
    return f"{named}data: {data}\n\n".encode()
