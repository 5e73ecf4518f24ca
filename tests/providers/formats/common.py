"""What the three formats share: a stream is a list of events, of which some are content."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tests.providers.replies import Called, Says
from tests.providers.wire import Request


@dataclass(frozen=True)
class Event:
    """One event as it is written.

    `opening` comes before any content, `content` is one piece of it, `frame` is what stands
    around, `closing` tells how the answer ended.
    """

    data: bytes
    kind: Literal["opening", "content", "frame", "closing"] = "frame"


@dataclass(frozen=True)
class Format:
    """One wire format: how it writes an answer streamed or whole, and its errors."""

    path: str
    events: Callable[[Says, Request], list[Event]]
    whole: Callable[[Says, Request], dict[str, Any]]
    error_event: Callable[[Mapping[str, Any]], bytes]
    error_body: Callable[[int, str], dict[str, Any]]
    request_id: str


def called_id(call: Called, request: Request, rank: int, prefix: str) -> str:
    """Give the id of a call: its own, or one that no other call of this server has."""
    return call.call_id or f"{prefix}_{request.number:04d}x{rank:02d}"


def model_of(request: Request) -> str:
    """Read the model that was asked for."""
    return str(request.body.get("model", "")) if isinstance(request.body, dict) else ""
