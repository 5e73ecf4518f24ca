"""The Messages API of Anthropic, as its server writes it."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

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

_STOPS: Final = {
    "end": "end_turn",
    "tool_use": "tool_use",
    "max_tokens": "max_tokens",
    "refusal": "refusal",
}
_TYPES: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


def error(type: str = "api_error", message: str = "Internal server error") -> dict[str, Any]:
    """Build the body of an error."""
    found = {"type": type, "message": message}
    return {"type": "error", "error": found, "request_id": "req_0001"}


def event(data: Mapping[str, Any]) -> bytes:
    """Write one event, which bears the name of its type."""
    return sse(json.dumps(data, ensure_ascii=False), str(data["type"]))


def usage(tokens: Tokens) -> dict[str, Any]:
    """Write what was consumed: the input is what neither came from nor went to the cache."""
    return {
        "input_tokens": tokens.input,
        "cache_creation_input_tokens": tokens.cache_write,
        "cache_read_input_tokens": tokens.cache_read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": tokens.cache_write_5m,
            "ephemeral_1h_input_tokens": tokens.cache_write_1h,
        },
        "output_tokens": tokens.output,
        "output_tokens_details": {"thinking_tokens": tokens.reasoning},
        "service_tier": "standard",
    }


def _message(says: Says, request: Request, content: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": f"msg_{request.number:04d}",
        "type": "message",
        "role": "assistant",
        "model": model_of(request),
        "content": content,
        "stop_reason": None,
        "stop_sequence": None,
        **({"usage": usage(says.usage)} if says.usage else {}),
    }


def _ended(says: Says) -> dict[str, Any]:
    refused = " ".join(part.text for part in says.content if isinstance(part, Declined))
    details = {"type": "refusal", "category": None, "explanation": refused or None}
    return {
        "stop_reason": _STOPS[says.why],
        "stop_sequence": None,
        **({"stop_details": details} if says.why == "refusal" else {}),
    }


def whole(says: Says, request: Request) -> dict[str, Any]:
    """Write the answer in one object."""
    content = [_block(part, request, rank) for rank, part in enumerate(says.content)]
    return {**_message(says, request, content), **_ended(says)}


def _block(part: Part, request: Request, rank: int) -> dict[str, Any]:
    match part:
        case Text(text) | Declined(text):
            return {"type": "text", "text": text}
        case Thought(text, seal):
            return {"type": "thinking", "thinking": text, "signature": seal}
        case Hidden(data):
            return {"type": "redacted_thinking", "data": data}
        case Called(name, arguments):
            given = json.loads(arguments or "{}") if isinstance(arguments, str) else arguments
            call_id = called_id(part, request, rank, "toolu")
            return {"type": "tool_use", "id": call_id, "name": name, "input": given}


def events(says: Says, request: Request) -> list[Event]:
    """Write the answer as a stream."""
    return list(_events(says, request))


def _events(says: Says, request: Request) -> Iterator[Event]:
    message = _message(says, request, [])
    if says.usage:
        # What was written is not known yet: the first event counts one token.
        opening = {**usage(says.usage), "output_tokens": 1}
        del opening["output_tokens_details"]
        message["usage"] = opening
    yield Event(event({"type": "message_start", "message": message}), "opening")
    yield Event(event({"type": "ping"}), "opening")
    for index, part in enumerate(says.content):
        block, deltas = _streamed(part, request, index)
        at = {"index": index}
        yield Event(event({"type": "content_block_start", **at, "content_block": block}))
        for delta in deltas:
            kind = "content" if any(delta.get(key) for key in _CONTENT) else "frame"
            yield Event(event({"type": "content_block_delta", **at, "delta": delta}), kind)
        yield Event(event({"type": "content_block_stop", **at}))
    consumed = usage(says.usage) if says.usage else {}
    for key in ("cache_creation", "service_tier"):
        consumed.pop(key, None)
    ended: dict[str, Any] = {"type": "message_delta", "delta": _ended(says)}
    if consumed:
        ended["usage"] = consumed
    yield Event(event(ended), "closing")
    yield Event(event({"type": "message_stop"}), "closing")


_CONTENT: Final = ("text", "thinking", "partial_json")


def _streamed(
    part: Part, request: Request, rank: int
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Give a block as it begins, and the deltas that fill it."""
    block = _block(part, request, rank) if not isinstance(part, Called) else {}
    match part:
        case Text(text) | Declined(text):
            deltas = [{"type": "text_delta", "text": piece} for piece in words(text)]
            return {**block, "text": ""}, deltas
        case Thought(text, seal):
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in words(text)]
            sealed = [{"type": "signature_delta", "signature": seal}] if seal else []
            return {**block, "thinking": "", "signature": ""}, [*deltas, *sealed]
        case Hidden():
            return block, []
        case Called(name, arguments):
            text = arguments if isinstance(arguments, str) else json.dumps(arguments)
            pieces = ["", *fragments(text)]
            call_id = called_id(part, request, rank, "toolu")
            return (
                {"type": "tool_use", "id": call_id, "name": name, "input": {}},
                [{"type": "input_json_delta", "partial_json": piece} for piece in pieces],
            )


def error_event(found: Mapping[str, Any]) -> bytes:
    """Write an error in the stream, given the whole of it or what stands under `error`."""
    return event(found if "error" in found else {"type": "error", "error": dict(found)})


def error_body(status: int, message: str) -> dict[str, Any]:
    """Write the error of a status."""
    return error(_TYPES.get(status, "api_error"), message)


ANTHROPIC: Final = Format("/messages", events, whole, error_event, error_body, "request-id")
