"""The Responses API of OpenAI, as its server writes it."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tests.providers.formats import chat
from tests.providers.formats.common import Event, Format, called_id, model_of
from tests.providers.replies import (
    Called,
    Declined,
    Hidden,
    Part,
    Says,
    Text,
    Thought,
    Tokens,
    fragments,
    sse,
    words,
)
from tests.providers.wire import Request

_INCOMPLETE: Final = {"max_tokens": "max_output_tokens", "refusal": "content_filter"}
_SEALED: Final = "reasoning.encrypted_content"


def usage(tokens: Tokens) -> dict[str, Any]:
    """Write what was consumed: the cache is inside the input."""
    return {
        "input_tokens": tokens.prompt,
        "input_tokens_details": {
            "cached_tokens": tokens.cache_read,
            "cache_write_tokens": tokens.cache_write,
        },
        "output_tokens": tokens.output,
        "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
        "total_tokens": tokens.prompt + tokens.output,
    }


def response(request: Request, status: str, **fields: Any) -> dict[str, Any]:
    """Write a response object, which repeats what was asked."""
    body: dict[str, Any] = request.body if isinstance(request.body, dict) else {}
    return {
        "id": f"resp_{request.number:04d}",
        "object": "response",
        "created_at": 1_760_000_000,
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "max_output_tokens": body.get("max_output_tokens"),
        "metadata": body.get("metadata") or {},
        "model": model_of(request),
        "output": [],
        "parallel_tool_calls": body.get("parallel_tool_calls", True),
        "previous_response_id": body.get("previous_response_id"),
        "reasoning": {"effort": None, "summary": None, **(body.get("reasoning") or {})},
        "service_tier": "default",
        "store": body.get("store", True),
        "temperature": body.get("temperature", 1.0),
        "text": body.get("text") or {"format": {"type": "text"}},
        "tool_choice": body.get("tool_choice", "auto"),
        "tools": body.get("tools") or [],
        "top_p": body.get("top_p", 1.0),
        "truncation": "disabled",
        "usage": None,
        "user": None,
        **fields,
    }


def _ended(says: Says, request: Request) -> dict[str, Any]:
    """Write the response once everything was said."""
    output = [_item(part, request, rank) for rank, part in enumerate(says.content)]
    consumed = usage(says.usage) if says.usage else None
    reason = _reason(says)
    if reason is None:
        return response(request, "completed", output=output, usage=consumed)
    details = {"reason": reason}
    fields = {"output": output, "usage": consumed, "incomplete_details": details}
    return response(request, "incomplete", **fields)


def _reason(says: Says) -> str | None:
    """Say why the response is incomplete; one that declines is not."""
    declined = any(isinstance(part, Declined) for part in says.content)
    return None if declined and says.why == "refusal" else _INCOMPLETE.get(says.why)


def whole(says: Says, request: Request) -> dict[str, Any]:
    """Write the answer in one object."""
    return _ended(says, request)


def _item(part: Part, request: Request, rank: int) -> dict[str, Any]:
    """Write an item of the output as it ends."""
    number = f"{request.number:04d}x{rank:02d}"
    match part:
        case Text() | Declined():
            item = {"id": f"msg_{number}", "type": "message", "role": "assistant"}
            return {**item, "status": "completed", "content": [_content(part, whole=True)]}
        case Thought(text, seal):
            summary = [{"type": "summary_text", "text": text}] if text else []
            item = {"id": f"rs_{number}", "type": "reasoning", "summary": summary}
            return {**item, **_sealed(request, seal)}
        case Hidden(data):
            item = {"id": f"rs_{number}", "type": "reasoning", "summary": []}
            return {**item, **_sealed(request, data)}
        case Called(name, arguments):
            return {
                "id": f"fc_{number}",
                "type": "function_call",
                "status": "completed",
                "call_id": called_id(part, request, rank, "call"),
                "name": name,
                "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments),
            }


def _content(part: Text | Declined, *, whole: bool) -> dict[str, Any]:
    text = part.text if whole else ""
    if isinstance(part, Declined):
        return {"type": "refusal", "refusal": text}
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _sealed(request: Request, seal: str) -> dict[str, Any]:
    """Give the sealed content, to who asks for it."""
    included = request.body.get("include") if isinstance(request.body, dict) else None
    return {"encrypted_content": seal} if _SEALED in (included or ()) else {}


class _Writer:
    """Number the events of one stream."""

    def __init__(self) -> None:
        self._next = 0

    def __call__(self, type: str, **fields: Any) -> bytes:
        data = {"type": type, "sequence_number": self._next, **fields}
        self._next += 1
        return sse(json.dumps(data, ensure_ascii=False), type)


def events(says: Says, request: Request) -> list[Event]:
    """Write the answer as a stream."""
    return list(_events(says, request, _Writer()))


def _events(says: Says, request: Request, write: _Writer) -> Iterator[Event]:
    begun = response(request, "in_progress")
    yield Event(write("response.created", response=begun), "opening")
    yield Event(write("response.in_progress", response=begun), "opening")
    for rank, part in enumerate(says.content):
        item = _item(part, request, rank)
        at = {"output_index": rank}
        yield Event(write("response.output_item.added", **at, item=_begun(item)))
        yield from _filled(part, item, write, at)
        yield Event(write("response.output_item.done", **at, item=item))
    ended = "response.completed" if _reason(says) is None else "response.incomplete"
    yield Event(write(ended, response=_ended(says, request)), "closing")


def _begun(item: dict[str, Any]) -> dict[str, Any]:
    """Write an item as it begins. What is sealed is not yet what it will be."""
    match item["type"]:
        case "message":
            return {**item, "status": "in_progress", "content": []}
        case "function_call":
            return {**item, "status": "in_progress", "arguments": ""}
        case _:
            early = {"encrypted_content": "ZWFybHk="} if "encrypted_content" in item else {}
            return {**item, "summary": [], **early}


def _filled(
    part: Part, item: dict[str, Any], write: _Writer, at: dict[str, Any]
) -> Iterator[Event]:
    """Write what comes between the beginning of an item and its end."""
    at = {"item_id": item["id"], **at}
    match part:
        case Text(text) | Declined(text):
            yield from _message(part, text, write, {**at, "content_index": 0})
        case Thought(text) if text:
            place = {**at, "summary_index": 0}
            summary = "response.reasoning_summary"
            empty = {"type": "summary_text", "text": ""}
            yield Event(write(f"{summary}_part.added", **place, part=empty))
            for piece in words(text):
                yield Event(write(f"{summary}_text.delta", **place, delta=piece), "content")
            yield Event(write(f"{summary}_text.done", **place, text=text))
            whole_part = {"type": "summary_text", "text": text}
            yield Event(write(f"{summary}_part.done", **place, part=whole_part))
        case Called():
            name = "response.function_call_arguments"
            for piece in fragments(item["arguments"]):
                yield Event(write(f"{name}.delta", **at, delta=piece), "content")
            yield Event(write(f"{name}.done", **at, arguments=item["arguments"]))
        case _:
            pass


def _message(
    part: Text | Declined, text: str, write: _Writer, at: dict[str, Any]
) -> Iterator[Event]:
    """Write the one part of a message."""
    yield Event(write("response.content_part.added", **at, part=_content(part, whole=False)))
    if isinstance(part, Text):
        name, logs, key = "response.output_text", {"logprobs": []}, "text"
    else:
        name, logs, key = "response.refusal", {}, "refusal"
    for piece in words(text):
        yield Event(write(f"{name}.delta", **at, delta=piece, **logs), "content")
    yield Event(write(f"{name}.done", **at, **{key: text}, **logs))
    yield Event(write("response.content_part.done", **at, part=_content(part, whole=True)))


def error_event(found: Mapping[str, Any]) -> bytes:
    """Write an error in the stream, given its `code`, `message` and `param`, or the whole of it."""
    known = {"type": "error", "code": None, "message": "", "param": None, "sequence_number": 99}
    return sse(json.dumps({**known, **found}), "error")


RESPONSES: Final = Format("/responses", events, whole, error_event, chat.error_body, "x-request-id")
