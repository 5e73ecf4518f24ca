"""Reading an answer of the Responses API: what comes twice is said once.

A text comes in pieces, then whole with its part, with its item and with the answer; a server may
leave out all but one of these. What is whole gives what its pieces did not. The answer is over when
the provider says that it is complete, or why it is not.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from loom_ia.adapters.models.client import BROKEN_OFF, Reader
from loom_ia.adapters.models.counts import count
from loom_ia.adapters.models.ids import FreeIds
from loom_ia.adapters.models.openai_responses.items import (
    CALL,
    MESSAGE,
    REASONING,
    Item,
    Items,
    Object,
    Piece,
    number,
    object_of,
    objects,
    text,
)
from loom_ia.adapters.models.openai_responses.request import summary_of
from loom_ia.core.errors import ModelError
from loom_ia.core.json import JsonObject, canonical, storable
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

FaultOf: TypeAlias = Callable[[Mapping[str, Any]], ModelError]
"""Gives what an error inside an answer means."""

_BLANK_LINE: Final = "\n\n"
_UNEXPLAINED: Final = {"message": "the answer failed, and the provider does not say why"}


class _Told(NamedTuple):
    """What an event says: of which kind of item, of which of its parts, under which key."""

    kind: str
    part: str
    rank: str
    key: str
    is_whole: bool = False


_TOLD: Final[Mapping[str, _Told]] = {
    "response.output_text.delta": _Told(MESSAGE, "text", "content_index", "delta"),
    "response.output_text.done": _Told(MESSAGE, "text", "content_index", "text", True),
    "response.refusal.delta": _Told(MESSAGE, "refusal", "content_index", "delta"),
    "response.refusal.done": _Told(MESSAGE, "refusal", "content_index", "refusal", True),
    "response.reasoning_summary_text.delta": _Told(REASONING, "summary", "summary_index", "delta"),
    "response.reasoning_summary_text.done": _Told(
        REASONING, "summary", "summary_index", "text", True
    ),
    "response.reasoning_text.delta": _Told(REASONING, "content", "content_index", "delta"),
    "response.reasoning_text.done": _Told(REASONING, "content", "content_index", "text", True),
    "response.function_call_arguments.delta": _Told(CALL, "arguments", "", "delta"),
    "response.function_call_arguments.done": _Told(CALL, "arguments", "", "arguments", True),
}
_ARGUMENTS: Final[Piece] = ("arguments", 0)
_ENDS: Final = frozenset({"completed", "incomplete", "failed"})
_CUT: Final = BROKEN_OFF | {"cancelled"}
"""The statuses, and the reasons of one that is not complete, of what the server could not end."""


class ResponsesReader(Reader):
    """Reads one answer."""

    def __init__(self, api: str, fault: FaultOf) -> None:
        self._api = api
        self._fault = fault
        self._items = Items()
        self._ids = FreeIds()
        self._speaking: Item | None = None
        self._refused = False
        self._status = ""
        self._why = ""

    def event(self, data: Mapping[str, Any]) -> Iterator[ModelChunk]:
        """Read one event."""
        name = text(data.get("type"))
        if (told := _TOLD.get(name)) is not None:
            yield from self._told(told, data)
        elif name == "response.output_item.added":
            yield from self._begin(self._items.begun(data))
        elif name == "response.output_item.done":
            yield from self._end(self._items.ended(data))
        elif (status := name.removeprefix("response.")) in _ENDS:
            response = object_of(data.get("response"))
            given = text(response.get("status"))
            yield from self._close(response, given if given in _ENDS | _CUT else status)

    def document(self, data: Mapping[str, Any]) -> Iterator[ModelChunk]:
        """Read a whole answer."""
        given = text(data.get("status"))
        yield from self._close(data, given or ("completed" if "output" in data else ""))

    def finish(self) -> Iterator[ModelChunk]:
        """Say why the answer is over, if it is."""
        if self.ended:
            yield Stopped(self._stop())

    def _stop(self) -> StopReason:
        if self._status == "incomplete":
            return "refusal" if self._why == "content_filter" else "max_tokens"
        if self._refused:
            return "refusal"
        return "tool_use" if any(item.kind == CALL for item in self._items) else "end"

    # -- one item -------------------------------------------------------------------------------

    def _told(self, told: _Told, data: Object) -> Iterator[ModelChunk]:
        item = self._items.of(data, told.kind)
        piece = text(data.get(told.key))
        part = (told.part, number(data.get(told.rank)))
        yield from self._say(item, part, item.rest(part, piece) if told.is_whole else piece)

    def _begin(self, item: Item) -> Iterator[ModelChunk]:
        if item.kind == CALL and item.text_of("name") and item.text_of("call_id"):
            yield from self._announced(item)

    def _end(self, item: Item) -> Iterator[ModelChunk]:
        """Give what is new in an item that is whole."""
        match item.kind:
            case "message":
                yield from self._whole(item, _parts_of_message(item.given))
            case "reasoning" if not item.is_done:
                yield from self._whole(item, _parts_of_thought(item.given))
                yield from self._sealed(item)
            case "function_call":
                yield from self._called(item, is_over=item.given.get("status") != "incomplete")
            case _:
                pass
        item.is_done = True

    def _whole(self, item: Item, parts: Mapping[Piece, str]) -> Iterator[ModelChunk]:
        if not item.has_read(list(parts.values())):
            for part, whole in parts.items():
                yield from self._say(item, part, item.rest(part, whole))

    def _say(self, item: Item, part: Piece, piece: str) -> Iterator[ModelChunk]:
        """Give a piece, apart from what it does not go on from."""
        if not piece:
            return
        is_new = part not in item.read
        goes_on = not item.read
        item.take(part, piece)
        if item.kind == CALL:
            if item.announced_as:
                yield ToolArgsDelta(item.announced_as, piece)
        elif item.kind == REASONING:
            self._speaking = None
            yield ReasoningDelta(
                piece if goes_on or not is_new else _BLANK_LINE + piece, block=item.rank
            )
        else:
            is_other = self._speaking not in {None, item}
            self._speaking = item
            self._refused = self._refused or part[0] == "refusal"
            yield TextDelta(_BLANK_LINE + piece if is_other else piece)

    def _sealed(self, item: Item) -> Iterator[ModelChunk]:
        if meta := _meta(item):
            self._speaking = None
            yield ReasoningDelta("", block=item.rank, meta={self._api: meta})

    # -- calls ----------------------------------------------------------------------------------

    def _announced(self, item: Item) -> Iterator[ModelChunk]:
        """Announce a call, with what is read of its arguments."""
        if item.announced_as:
            return
        self._speaking = None
        item.announced_as = self._ids.take(item.text_of("call_id"))
        yield ToolCallStarted(item.announced_as, item.text_of("name"))
        for pieces in item.read.values():
            yield ToolArgsDelta(item.announced_as, "".join(pieces))

    def _called(self, item: Item, *, is_over: bool) -> Iterator[ModelChunk]:
        """Give what is left of a call, and end it if it is not one that was cut."""
        yield from self._announced(item)
        arguments = item.given.get("arguments")
        written = object_of(arguments)  # a text, unless the server is careless
        whole = canonical(written) if written else text(arguments)
        yield from self._say(item, _ARGUMENTS, item.rest(_ARGUMENTS, whole))
        if is_over:
            yield ToolCallEnded(item.announced_as)

    # -- the end --------------------------------------------------------------------------------

    def _close(self, response: Object, status: str) -> Iterator[ModelChunk]:
        self._status = status
        if usage := _usage(object_of(response.get("usage"))):
            yield UsageReported(usage)
        if status == "failed":
            raise self._fault({"error": object_of(response.get("error")) or _UNEXPLAINED})
        if status not in _ENDS:
            return
        self._why = text(object_of(response.get("incomplete_details")).get("reason"))
        if status == "incomplete" and self._why in _CUT:
            return
        for item in self._items.listed(objects(response.get("output"))):
            yield from self._end(item)
        for item in self._items:
            if item.kind == CALL and not item.is_done:
                yield from self._called(item, is_over=status == "completed")
        self.ended = True


def _parts_of_message(given: Object) -> dict[Piece, str]:
    parts: dict[Piece, str] = {}
    for rank, part in enumerate(objects(given.get("content"))):
        if part.get("type") == "refusal":
            parts["refusal", rank] = text(part.get("refusal"))
        else:
            parts["text", rank] = text(part.get("text"))
    return parts


def _parts_of_thought(given: Object) -> dict[Piece, str]:
    return {
        (name, rank): text(part.get("text"))
        for name in ("summary", "content")
        for rank, part in enumerate(objects(given.get(name)))
    }


def _meta(item: Item) -> JsonObject:
    """Give what lets a thought go back as it came; nothing when it is not sealed.

    Its summary is kept beside its text only when it cannot be found again from it.
    """
    item_id, sealed = item.text_of("id"), item.text_of("encrypted_content")
    if not item_id or not sealed:
        return {}
    meta: dict[str, Any] = {"id": item_id, "encrypted_content": sealed}
    shown = _BLANK_LINE.join(map("".join, item.read.values()))
    summary, content = objects(item.given.get("summary")), objects(item.given.get("content"))
    if content or summary != summary_of(shown):
        meta["summary"] = summary
    if content:
        meta["content"] = content
    kept, _ = storable(meta)
    return kept if isinstance(kept, dict) else {}


def _usage(counts: Object) -> Usage | None:
    """Read what was consumed: what is read has the cache in it, what is written the thoughts."""
    read, written = count(counts, "input_tokens"), count(counts, "output_tokens")
    if not read and not written:
        return None
    of_input = object_of(counts.get("input_tokens_details"))
    cached, kept = count(of_input, "cached_tokens"), count(of_input, "cache_write_tokens")
    of_output = object_of(counts.get("output_tokens_details"))
    return Usage(
        input_tokens=max(read - cached - kept, 0),
        output_tokens=written,
        cache_read_tokens=cached,
        cache_write_tokens=kept,
        reasoning_tokens=count(of_output, "reasoning_tokens"),
    )
