"""Events of a response of OpenAI, for those that no honest server writes."""

import json
from typing import Any, Final

from tests.providers.replies import Raw, sse

COUNTED: Final = {
    "input_tokens": 12,
    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "output_tokens": 7,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 19,
}


def response(status: str, *output: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Write a response object."""
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": status,
        "model": "m",
        "output": list(output),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": None,
        "usage": None if status == "in_progress" else COUNTED,
        **more,
    }


def event(type: str, **fields: Any) -> dict[str, Any]:
    """Write an event, which `raw` will number."""
    return {"type": type, **fields}


def raw(*events: dict[str, Any]) -> Raw:
    """Write events, numbered in their order."""
    numbered = ({"sequence_number": rank, **each} for rank, each in enumerate(events))
    return Raw([sse(json.dumps(each), each["type"]) for each in numbered])


BEGUN: Final = event("response.created", response=response("in_progress"))


def message(*parts: dict[str, Any], id: str = "msg_1") -> dict[str, Any]:
    """Write a message, which is not ended while it has no part."""
    return {
        "id": id,
        "type": "message",
        "role": "assistant",
        "status": "completed" if parts else "in_progress",
        "content": list(parts),
    }


def spoken(text: str) -> dict[str, Any]:
    """Write a part of a message."""
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def call(arguments: str = '{"a": 1}') -> dict[str, Any]:
    """Write a call."""
    return {
        "id": "fc_1",
        "type": "function_call",
        "status": "completed",
        "call_id": "call_a",
        "name": "add",
        "arguments": arguments,
    }


def added(item: dict[str, Any], index: int = 0) -> dict[str, Any]:
    """Begin an item."""
    return event("response.output_item.added", output_index=index, item=item)


def done(item: dict[str, Any], index: int = 0) -> dict[str, Any]:
    """End an item."""
    return event("response.output_item.done", output_index=index, item=item)


def at(index: int = 0, item: str = "msg_1") -> dict[str, Any]:
    """Tell the place of an item."""
    return {"item_id": item, "output_index": index}


def delta(text: str, index: int = 0) -> dict[str, Any]:
    """Add to a message."""
    place = {**at(index), "content_index": 0}
    return event("response.output_text.delta", **place, delta=text, logprobs=[])


def said(text: str = "Bonjour toi", index: int = 0) -> tuple[dict[str, Any], ...]:
    """Write a message from its beginning to its end."""
    place = {**at(index), "content_index": 0}
    part = spoken(text)
    return (
        added(message(), index),
        event("response.content_part.added", **place, part=spoken("")),
        delta(text, index),
        event("response.output_text.done", **place, text=text, logprobs=[]),
        event("response.content_part.done", **place, part=part),
        done(message(part), index),
    )


def completed(*output: dict[str, Any], **more: Any) -> dict[str, Any]:
    """End a response."""
    return event("response.completed", response=response("completed", *output, **more))


_SUMMARY: Final = "response.reasoning_summary"


def summarised(text: str, rank: int) -> tuple[dict[str, Any], ...]:
    """Write a part of a summary from its beginning to its end."""
    place = {**at(item="rs_1"), "summary_index": rank}
    part = {"type": "summary_text", "text": text}
    return (
        event(f"{_SUMMARY}_part.added", **place, part={**part, "text": ""}),
        event(f"{_SUMMARY}_text.delta", **place, delta=text),
        event(f"{_SUMMARY}_text.done", **place, text=text),
        event(f"{_SUMMARY}_part.done", **place, part=part),
    )


def reasoned(*texts: str, sealed: str | None = "c2VhbA==", **more: Any) -> dict[str, Any]:
    """Write an item of reasoning, sealed unless that is None."""
    summary = [{"type": "summary_text", "text": text} for text in texts]
    seal = {} if sealed is None else {"encrypted_content": sealed}
    return {"id": "rs_1", "type": "reasoning", "summary": summary, **seal, **more}
