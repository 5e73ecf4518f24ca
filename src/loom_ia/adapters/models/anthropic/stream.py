"""Reading an answer of the Messages API, from Anthropic and from servers that speak as it does.

An answer is over when `message_stop` says so: without it, or when the reason is that the server
could not end it, the stream was cut. Types of events, of
blocks and of deltas that are not known here are passed over.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from loom_ia.adapters.models.client import BROKEN_OFF, Reader
from loom_ia.adapters.models.counts import count, count_of
from loom_ia.adapters.models.ids import FreeIds
from loom_ia.core.json import readable, storable_text
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

_STOPS: Final[Mapping[str, StopReason]] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "pause_turn": "end",
    "tool_use": "tool_use",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "refusal": "refusal",
}


@dataclass(slots=True)
class _OpenCall:
    """A call while it comes in; `given` is the input that came with its beginning."""

    call_id: str
    given: str
    streams: bool = False


@dataclass(frozen=True, slots=True)
class _OpenThought:
    number: int


class MessagesReader(Reader):
    """Reads one answer."""

    def __init__(self) -> None:
        self._open: dict[object, _OpenCall | _OpenThought] = {}
        self._ids = FreeIds()
        self._thoughts = 0
        self._counted: dict[str, Any] = {}
        self._reason = ""

    def event(self, data: Mapping[str, Any]) -> Iterator[ModelChunk]:
        """Read one event of the stream."""
        match data.get("type"):
            case "message_start":
                yield from self._usage(_object(data.get("message")), opening=True)
            case "content_block_start":
                yield from self._start(_index(data), _object(data.get("content_block")))
            case "content_block_delta":
                yield from self._delta(_index(data), _object(data.get("delta")))
            case "content_block_stop":
                yield from self._close(_index(data))
            case "message_delta":
                self._reason = _text(_object(data.get("delta")).get("stop_reason")) or self._reason
                yield from self._usage(data)
            case "message_stop":
                self.ended = True
            case _:
                pass

    def document(self, data: Mapping[str, Any]) -> Iterator[ModelChunk]:
        """Read a whole answer."""
        content = data.get("content")
        if not isinstance(content, list):
            return
        for block in cast("list[object]", content):
            yield from self._start(None, _object(block))
            yield from self._close(None)
        self._reason = _text(data.get("stop_reason"))
        yield from self._usage(data)
        self.ended = True

    def finish(self) -> Iterator[ModelChunk]:
        """End the calls, and the answer if it is over."""
        if not self.ended or self._reason in BROKEN_OFF:
            return
        reason = _STOPS.get(self._reason, "end")
        for index, block in list(self._open.items()):
            # One that was still being written at the limit is not whole.
            if reason != "max_tokens" or (isinstance(block, _OpenCall) and block.given):
                yield from self._close(index)
        yield Stopped("tool_use" if reason == "end" and self._ids else reason)

    # -- blocks -----------------------------------------------------------------------------------

    def _start(self, index: object, block: Mapping[str, Any]) -> Iterator[ModelChunk]:
        yield from self._close(index)
        match block.get("type"):
            case "text":
                yield from _said(block)
            case "thinking" | "redacted_thinking":
                self._thoughts += 1
                self._open[index] = _OpenThought(self._thoughts)
                yield from self._thought(index, block)
            case "tool_use":
                call_id = self._ids.take(_text(block.get("id")))
                self._open[index] = _OpenCall(call_id, _given(block.get("input")))
                yield ToolCallStarted(call_id, _text(block.get("name")))
            case _:
                pass

    def _delta(self, index: object, delta: Mapping[str, Any]) -> Iterator[ModelChunk]:
        match delta.get("type"):
            case "text_delta":
                yield from _said(delta)
            case "thinking_delta" | "signature_delta":
                yield from self._thought(index, delta)
            case "input_json_delta":
                yield from self._arguments(index, _text(delta.get("partial_json")))
            case _:
                pass

    def _thought(self, index: object, piece: Mapping[str, Any]) -> Iterator[ModelChunk]:
        block = self._open.get(index)
        number = block.number if isinstance(block, _OpenThought) else 0
        text = _text(piece.get("thinking"))
        seals = {"signature": piece.get("signature"), "redacted_data": piece.get("data")}
        meta = {
            name: storable_text(seal)
            for name, seal in seals.items()
            if isinstance(seal, str) and seal
        }
        if text or meta:
            yield ReasoningDelta(text, number, {"anthropic": {**meta}} if meta else {})

    def _arguments(self, index: object, fragment: str) -> Iterator[ModelChunk]:
        call = self._open.get(index)
        if fragment and isinstance(call, _OpenCall):
            call.streams = True
            yield ToolArgsDelta(call.call_id, fragment)

    def _close(self, index: object) -> Iterator[ModelChunk]:
        call = self._open.pop(index, None)
        if not isinstance(call, _OpenCall):
            return
        if call.given and not call.streams:
            yield ToolArgsDelta(call.call_id, call.given)
        yield ToolCallEnded(call.call_id)

    # -- usage ------------------------------------------------------------------------------------

    def _usage(self, data: Mapping[str, Any], *, opening: bool = False) -> Iterator[ModelChunk]:
        """Count what was told in all: the last number counts, and what is not told again stays.

        What the `opening` of an answer says of its length is no count: nothing is written yet.
        """
        told = _object(data.get("usage"))
        if not told:
            return
        self._counted |= {
            name: value
            for name, value in told.items()
            if _counts(value) and not (opening and name == "output_tokens")
        }
        counted, split = self._counted, _object(self._counted.get("cache_creation"))
        hour = count(split, "ephemeral_1h_input_tokens")
        kept = count(counted, "cache_creation_input_tokens")
        kept = kept or hour + count(split, "ephemeral_5m_input_tokens")
        details = _object(counted.get("output_tokens_details"))
        usage = Usage(
            input_tokens=count(counted, "input_tokens"),
            output_tokens=count(counted, "output_tokens"),
            cache_read_tokens=count(counted, "cache_read_input_tokens"),
            cache_write_tokens=kept,
            cache_write_1h_tokens=min(hour, kept),
            reasoning_tokens=count(details, "thinking_tokens"),
        )
        if usage.total_tokens:  # zeros hold the place of what is not known yet
            yield UsageReported(usage)


def _index(event: Mapping[str, Any]) -> object:
    """Give the place of a block, under which it is found again."""
    index = event.get("index")
    return index if isinstance(index, int | float | str) else None


def _said(block: Mapping[str, Any]) -> Iterator[ModelChunk]:
    if text := _text(block.get("text")):
        yield TextDelta(text)


def _given(value: object) -> str:
    """Give as text the input that stands in the beginning of a call; none when it is to come."""
    return value if isinstance(value, str) else readable(value) if value else ""


def _counts(value: object) -> bool:
    """Whether it is a count, or may have some in it."""
    return isinstance(value, Mapping) or count_of(value) is not None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _object(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
