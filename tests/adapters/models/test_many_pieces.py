"""Answers of very many pieces: reading one takes no longer for those before it."""

import time
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from loom_ia.adapters.models.anthropic.stream import MessagesReader
from loom_ia.adapters.models.client import Reader
from loom_ia.adapters.models.ids import FreeIds
from loom_ia.adapters.models.openai_chat.stream import ChatReader
from loom_ia.adapters.models.openai_responses.stream import ResponsesReader
from loom_ia.core.errors import ModelError
from loom_ia.core.model import ModelChunk, ToolArgsDelta, ToolCallStarted
from tests.providers.items import call

MANY = 30_000


def _failed(_: Any) -> ModelError:
    return ModelError("transient", "it failed")


def _fragment(**given: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"tool_calls": [given]}}]}


def _chat_fragments() -> Iterable[dict[str, Any]]:
    """One call, its name and its id on every fragment."""
    for rank in range(MANY):
        piece = "x" * 38 + "}" if rank else '{"a": "'
        yield _fragment(index=0, id="a", function={"name": "add", "arguments": piece})


def _chat_unnamed() -> Iterable[dict[str, Any]]:
    """One call, its name on every fragment, and no id."""
    for rank in range(MANY):
        piece = "x" * 38 + "}" if rank else '{"a": "'
        yield _fragment(index=0, function={"name": "add", "arguments": piece})


def _chat_names() -> Iterable[dict[str, Any]]:
    """One call whose name never ends."""
    for rank in range(MANY):
        yield _fragment(index=0, id="a", function={"name": f"{rank:040}"})


def _chat_calls() -> Iterable[dict[str, Any]]:
    for rank in range(MANY):
        yield _fragment(index=rank, id="a", function={"name": "add", "arguments": "{}"})


def _anthropic_calls() -> Iterable[dict[str, Any]]:
    for rank in range(MANY):
        begun = {"type": "tool_use", "id": "a", "name": "add", "input": {}}
        yield {"type": "content_block_start", "index": rank, "content_block": begun}


def _responses_calls() -> Iterable[dict[str, Any]]:
    """Calls without a place, which end, and are listed in the end by another id."""
    items = [{**call("{}"), "id": f"fc_{rank}", "call_id": "a"} for rank in range(MANY)]
    for item in items:
        yield {"type": "response.output_item.added", "item": item}
    for item in reversed(items):
        yield {"type": "response.output_item.done", "item": item}
    output = [{**item, "id": f"other_{item['id']}", "call_id": ""} for item in items]
    yield {"type": "response.completed", "response": {"status": "completed", "output": output}}


def _responses_text() -> Iterable[dict[str, Any]]:
    """A text that is said again, in part, after each piece."""
    for _ in range(MANY):
        yield {"type": "response.output_text.delta", "output_index": 0, "delta": "x" * 40}
        yield {"type": "response.output_text.done", "output_index": 0, "text": "x" * 10}
        item = {"type": "message", "content": [{"type": "output_text", "text": "x" * 10}]}
        yield {"type": "response.output_item.done", "output_index": 0, "item": item}


@pytest.mark.parametrize(
    ("reader", "events", "calls"),
    [
        (lambda: ChatReader("chat"), _chat_fragments, 1),
        (lambda: ChatReader("chat"), _chat_unnamed, 1),
        (lambda: ChatReader("chat"), _chat_names, 1),
        (lambda: ChatReader("chat"), _chat_calls, MANY),
        (MessagesReader, _anthropic_calls, MANY),
        (lambda: ResponsesReader("responses", _failed), _responses_calls, MANY),
        (lambda: ResponsesReader("responses", _failed), _responses_text, 0),
    ],
    ids=lambda value: getattr(value, "__name__", "").strip("_"),
)
def test_an_answer_of_many_pieces_is_read_in_time(
    reader: Callable[[], Reader], events: Callable[[], Iterable[dict[str, Any]]], calls: int
) -> None:
    """What grows with the square of their number would take minutes."""
    reading, chunks = reader(), list[ModelChunk]()
    given, began = list(events()), time.process_time()
    for event in given:
        chunks += reading.event(event)
    chunks += reading.finish()
    assert time.process_time() - began < 8
    started = [chunk.call_id for chunk in chunks if isinstance(chunk, ToolCallStarted)]
    assert len(started) == len(set(started)) == calls
    known = {chunk.call_id for chunk in chunks if isinstance(chunk, ToolArgsDelta)}
    assert known <= set(started)


def test_ids_that_are_invented_are_free() -> None:
    """Also when a call has one that looks invented."""
    ids = FreeIds()
    assert not ids
    given = [ids.take(each) for each in ("", "a", "a_2", "a", "a", "call_6", "", "")]
    assert given == ["call_1", "a", "a_2", "a_3", "a_4", "call_6", "call_7", "call_8"]
    assert ids
