"""Reading an answer of Chat Completions, from OpenAI and from servers that are almost like it.

Fragments of calls are told apart by what there is: an index, an id, or only their order. An answer
is over when a reason is given or the stream says so; a stream that just ends was cut.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from loom_ia.adapters.models.client import BROKEN_OFF, Reader
from loom_ia.adapters.models.counts import count
from loom_ia.adapters.models.ids import FreeIds
from loom_ia.adapters.models.openai_chat.arguments import Arguments
from loom_ia.adapters.models.openai_chat.thoughts import KEYS, meta_of
from loom_ia.core.json import canonical
from loom_ia.core.model.chunks import (
    ModelChunk,
    ReasoningDelta,
    Stopped,
    StopReason,
    TextDelta,
    ToolArgsDelta,
    ToolCallEnded,
    ToolCallStarted,
    UsageReported,
)
from loom_ia.core.model.usage import Usage

_REASONS: Final[Mapping[str, StopReason]] = {
    "stop": "end",
    "length": "max_tokens",
    "model_length": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
    "sensitive": "refusal",
}
_LONGEST_NAME: Final = 1_000
"""Characters of a name, which may come in pieces, behind which it is no name any more."""


class _OpenCall:
    """A call while it comes in: it is announced once its name is known."""

    def __init__(self, index: int | None, rank: int) -> None:
        self.index = index
        self.rank = rank
        self.given_id = ""
        self.name = ""
        self.waiting: list[str] = []
        self.arguments = Arguments()
        self.announced_as = ""

    def named(self, name: str) -> None:
        """Take its name, or a piece of it."""
        if name and name != self.name:
            goes_on = self.name and not name.startswith(self.name)
            self.name = (self.name + name if goes_on else name)[:_LONGEST_NAME]


class _OpenCalls:
    """The calls of an answer, found by what a fragment has of them."""

    def __init__(self) -> None:
        self._all: list[_OpenCall] = []
        # Under the index that they were given, and under none.
        self._last: dict[int | None, _OpenCall] = {}
        self._by_id: dict[tuple[int | None, str], _OpenCall] = {}

    def __iter__(self) -> Iterator[_OpenCall]:
        return iter(self._all)

    def __bool__(self) -> bool:
        return bool(self._all)

    def found(self, index: int | None, call_id: str) -> _OpenCall | None:
        """Give the last call that a fragment may belong to; without an index, any may be."""
        last = self._last.get(index)
        if not call_id or last is None:
            return last
        same = self._by_id.get((index, call_id))
        if same is not None:
            return same
        return None if last.given_id else last

    def begin(self, index: int | None) -> _OpenCall:
        """Add a call."""
        call = _OpenCall(index, len(self._all))
        self._all.append(call)
        self._last[None] = self._last[index] = call
        return call

    def identify(self, call: _OpenCall, call_id: str) -> None:
        """Note the id that a call was given."""
        if not call_id:
            return
        call.given_id = call_id
        for index in (None, call.index):
            known = self._by_id.get((index, call_id))
            if known is None or known.rank < call.rank:
                self._by_id[index, call_id] = call


class ChatReader(Reader):
    """Reads one answer."""

    def __init__(self, api: str) -> None:
        self._api = api
        self._calls = _OpenCalls()
        self._ids = FreeIds()
        self._reason: str | None = None
        self._refused = False
        self._begun = False

    def event(self, data: Mapping[str, Any]) -> Iterator[ModelChunk]:
        """Read one chunk of the stream."""
        if data.get("done") is True and len(data) == 1:
            self.ended = True
            return
        for choice in _objects(data.get("choices")):
            if choice.get("index") in {None, 0}:
                yield from self._choice(choice)
        yield from _usage(data)

    def document(self, data: Mapping[str, Any]) -> Iterator[ModelChunk]:
        """Read a whole answer."""
        for choice in _objects(data.get("choices"))[:1]:
            yield from self._choice(choice)
            self.ended = True
        yield from _usage(data)

    def finish(self) -> Iterator[ModelChunk]:
        """End the calls, and the answer if it is over."""
        is_over = self._begun and (self.ended or self._reason is not None)
        is_over = is_over and self._reason not in BROKEN_OFF
        for call in self._calls:
            yield from self._announced(call, now=True)
            if is_over:
                yield ToolCallEnded(call.announced_as)
        if is_over:
            yield Stopped(self._stop())

    def _stop(self) -> StopReason:
        if self._refused:
            return "refusal"
        reason = _REASONS.get(self._reason or "stop", "end")
        if reason in {"end", "tool_use"}:
            return "tool_use" if self._calls else "end"
        return reason

    def _choice(self, choice: Mapping[str, Any]) -> Iterator[ModelChunk]:
        self._begun = True
        delta = _object(choice.get("delta")) or _object(choice.get("message"))
        for key in KEYS:
            if thought := _said(delta.get(key)):
                meta = meta_of(key)
                yield ReasoningDelta(thought, meta={self._api: meta} if meta else {})
                break
        if text := _said(delta.get("content")):
            yield TextDelta(text)
        if text := _said(delta.get("refusal")):
            self._refused = True
            yield TextDelta(text)
        for fragment in _objects(delta.get("tool_calls")):
            yield from self._fragment(fragment)
        if legacy := _object(delta.get("function_call")):
            yield from self._fragment({"index": -1, "function": legacy})
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason:
            self._reason = reason

    # -- calls ------------------------------------------------------------------------------------

    def _fragment(self, fragment: Mapping[str, Any]) -> Iterator[ModelChunk]:
        function = _object(fragment.get("function"))
        name = _text(function.get("name"))
        call = self._call_of(fragment, name)
        call.named(name)
        piece = function.get("arguments")
        if piece is not None and not isinstance(piece, str):
            piece = canonical(piece)
        if piece:
            call.arguments.add(piece)
            call.waiting.append(piece)
        yield from self._announced(call, now=bool(call.waiting or call.given_id))

    def _call_of(self, fragment: Mapping[str, Any], name: str) -> _OpenCall:
        """Find the call that a fragment belongs to, or begin one."""
        index, call_id = fragment.get("index"), _text(fragment.get("id"))
        index = index if isinstance(index, int) else None
        known = self._calls.found(index, call_id)
        is_same = known is not None and bool(call_id) and call_id == known.given_id
        if known is None or (not is_same and self._is_over(known, name)):
            known = self._calls.begin(index)
        if not known.given_id:
            self._calls.identify(known, call_id)
        return known

    def _is_over(self, call: _OpenCall, name: str) -> bool:
        """Whether a name that comes after a call is the one of the next call."""
        return bool(name and call.name) and call.arguments.is_whole()

    def _announced(self, call: _OpenCall, *, now: bool) -> Iterator[ModelChunk]:
        """Announce a call when it can be, and give what waited for that.

        One without an id waits for it until its arguments come; one without a name, to the end.
        """
        if not call.announced_as:
            if not now or not (call.name or self.ended or self._reason is not None):
                return
            call.announced_as = self._ids.take(call.given_id)
            yield ToolCallStarted(call.announced_as, call.name, call.index)
        for piece in call.waiting:
            yield ToolArgsDelta(call.announced_as, piece)
        call.waiting = []


def _usage(data: Mapping[str, Any]) -> Iterator[ModelChunk]:
    counts = _object(data.get("usage")) or _object(_object(data.get("x_groq")).get("usage"))
    read, written = count(counts, "prompt_tokens"), count(counts, "completion_tokens")
    if not read and not written:  # zeros hold the place of what is not known yet
        return
    of_prompt = _object(counts.get("prompt_tokens_details"))
    cached = count(of_prompt, "cached_tokens") or count(counts, "prompt_cache_hit_tokens")
    kept = count(of_prompt, "cache_write_tokens")
    thought = count(_object(counts.get("completion_tokens_details")), "reasoning_tokens")
    if thought and count(counts, "total_tokens") == read + written + thought:
        written += thought  # xAI counts what it thought apart
    yield UsageReported(
        Usage(
            input_tokens=max(read - cached - kept, 0),
            output_tokens=written,
            cache_read_tokens=cached,
            cache_write_tokens=kept,
            reasoning_tokens=thought,
        )
    )


def _said(value: object) -> str:
    """Give a text, which some servers cut into parts."""
    if isinstance(value, str):
        return value
    parts = _objects(value)
    return "".join(_text(part.get("text")) for part in parts)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _object(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _objects(value: object) -> list[Mapping[str, Any]]:
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("Mapping[str, Any]", item) for item in items if isinstance(item, Mapping)]
