"""Events of a message of Anthropic, for those that no honest server writes."""

from typing import Any, Final

from tests.providers.formats.anthropic import event
from tests.providers.replies import Raw

COUNTED: Final = {"input_tokens": 12, "output_tokens": 1}
PING: Final = event({"type": "ping"})
STOP: Final = event({"type": "message_stop"})


def start(usage: Any = COUNTED) -> bytes:
    """Begin a message; it tells no usage when that is None."""
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        **({} if usage is None else {"usage": usage}),
    }
    return event({"type": "message_start", "message": message})


def opened(begun: dict[str, Any], index: int = 0) -> bytes:
    """Begin a block."""
    return event({"type": "content_block_start", "index": index, "content_block": begun})


def delta(index: int = 0, **given: Any) -> bytes:
    """Add to a block."""
    return event({"type": "content_block_delta", "index": index, "delta": given})


def closed(index: int = 0) -> bytes:
    """End a block."""
    return event({"type": "content_block_stop", "index": index})


def block(begun: dict[str, Any], *deltas: dict[str, Any], index: int = 0) -> bytes:
    """Write a block from its beginning to its end."""
    return b"".join(
        [opened(begun, index), *(delta(index, **each) for each in deltas), closed(index)]
    )


def said(*pieces: str, index: int = 0) -> bytes:
    """Write a block of text."""
    deltas = ({"type": "text_delta", "text": piece} for piece in pieces)
    return block({"type": "text", "text": ""}, *deltas, index=index)


def tool(*pieces: str, index: int = 0, id: str = "toolu_a", name: str = "add") -> bytes:
    """Write a call, its input in pieces."""
    deltas = ({"type": "input_json_delta", "partial_json": piece} for piece in pieces)
    begun = {"type": "tool_use", "id": id, "name": name, "input": {}}
    return block(begun, *deltas, index=index)


OUTPUT: Final = {"output_tokens": 7}


def ended(stop: str | None = "end_turn", usage: Any = OUTPUT, **more: Any) -> bytes:
    """Tell why a message ended, and what it cost unless that is None."""
    data = {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None, **more}}
    return event({**data, **({} if usage is None else {"usage": usage})})


def raw(*events: bytes) -> Raw:
    """Make a reply of events."""
    return Raw(events)
