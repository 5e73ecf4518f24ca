"""The chat completions of OpenAI, as its server writes them."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tests.providers.formats.common import Event, Format, called_id, model_of
from tests.providers.replies import (
    Called,
    Declined,
    Hidden,
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
    "end": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "refusal": "content_filter",
}
_KINDS: Final = {
    400: ("invalid_request_error", None),
    401: ("invalid_request_error", "invalid_api_key"),
    403: ("invalid_request_error", "unsupported_country_region_territory"),
    404: ("invalid_request_error", "model_not_found"),
    429: ("requests", "rate_limit_exceeded"),
    500: ("server_error", None),
    503: ("server_error", None),
}
DONE: Final = sse("[DONE]")


def error(
    message: str = "The server had an error",
    *,
    type: str = "server_error",
    code: str | None = None,
    param: str | None = None,
) -> dict[str, Any]:
    """Build the body of an error."""
    return {"error": {"message": message, "type": type, "param": param, "code": code}}


def usage(tokens: Tokens) -> dict[str, Any]:
    """Write what was consumed: the cache is inside the prompt."""
    return {
        "prompt_tokens": tokens.prompt,
        "completion_tokens": tokens.output,
        "total_tokens": tokens.prompt + tokens.output,
        "prompt_tokens_details": {
            "cached_tokens": tokens.cache_read,
            "cache_write_tokens": tokens.cache_write,
            "audio_tokens": 0,
        },
        "completion_tokens_details": {
            "reasoning_tokens": tokens.reasoning,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def _finish(says: Says) -> str:
    declined = any(isinstance(part, Declined) for part in says.content)
    return "stop" if declined and says.why == "refusal" else _STOPS[says.why]


def _head(request: Request, object: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{request.number:04d}",
        "object": object,
        "created": 1_760_000_000,
        "model": model_of(request),
        "service_tier": "default",
        "system_fingerprint": "fp_0001",
    }


def whole(says: Says, request: Request) -> dict[str, Any]:
    """Write the answer in one object."""
    parts = says.content
    text = "".join(part.text for part in parts if isinstance(part, Text))
    thought = "".join(part.text for part in parts if isinstance(part, Thought))
    declined = "".join(part.text for part in parts if isinstance(part, Declined))
    calls = [part for part in parts if isinstance(part, Called)]
    message: dict[str, Any] = {
        "role": "assistant",
        "content": text or None,
        "refusal": declined or None,
        "annotations": [],
    }
    if thought:
        message["reasoning_content"] = thought
    if calls:
        message["tool_calls"] = [
            {
                "id": called_id(call, request, rank, "call"),
                "type": "function",
                "function": {"name": call.name, "arguments": _arguments(call)},
            }
            for rank, call in enumerate(calls)
        ]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(says)}
    consumed = {"usage": usage(says.usage)} if says.usage else {}
    return {**_head(request, "chat.completion"), "choices": [choice], **consumed}


def _arguments(call: Called) -> str:
    return call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)


def events(says: Says, request: Request) -> list[Event]:
    """Write the answer as a stream; the usage is told only to who asks for it."""
    options = request.body.get("stream_options") if isinstance(request.body, dict) else None
    asked = bool(options and options.get("include_usage"))
    head = {**_head(request, "chat.completion.chunk"), **({"usage": None} if asked else {})}

    def chunk(delta: Mapping[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return sse(json.dumps({**head, "choices": [choice]}, ensure_ascii=False))

    says_text = any(isinstance(part, Text) for part in says.content)
    first = {"role": "assistant", "content": "" if says_text else None, "refusal": None}
    written = [Event(chunk(first), "opening")]
    for delta, kind in _deltas(says, request):
        written.append(Event(chunk(delta), "content" if kind else "frame"))
    written.append(Event(chunk({}, _finish(says)), "closing"))
    if asked and says.usage:
        last = {**head, "choices": [], "usage": usage(says.usage)}
        written.append(Event(sse(json.dumps(last)), "closing"))
    return [*written, Event(DONE, "closing")]


def _deltas(says: Says, request: Request) -> Iterator[tuple[dict[str, Any], bool]]:
    """Give each delta, and whether it is content."""
    rank = 0
    for part in says.content:
        match part:
            case Text(text):
                yield from (({"content": piece}, True) for piece in words(text))
            case Thought(text):
                yield from (({"reasoning_content": piece}, True) for piece in words(text))
            case Declined(text):
                yield from (({"refusal": piece}, True) for piece in words(text))
            case Hidden():
                pass
            case Called(name):
                call_id = called_id(part, request, rank, "call")
                begun = {"name": name, "arguments": ""}
                call = {"index": rank, "id": call_id, "type": "function", "function": begun}
                yield {"tool_calls": [call]}, False
                for piece in fragments(_arguments(part)):
                    more = {"index": rank, "function": {"arguments": piece}}
                    yield {"tool_calls": [more]}, True
                rank += 1


def error_event(found: Mapping[str, Any]) -> bytes:
    """Write an error in the stream, given the whole of it or what stands under `error`."""
    return sse(json.dumps(found if "error" in found else {"error": dict(found)}))


def error_body(status: int, message: str) -> dict[str, Any]:
    """Write the error of a status."""
    kind, code = _KINDS.get(status, ("server_error", None))
    return error(message, type=kind, code=code)


CHAT: Final = Format("/chat/completions", events, whole, error_event, error_body, "x-request-id")
