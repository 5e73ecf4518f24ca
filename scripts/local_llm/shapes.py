"""The shapes of OpenAI's chat API: whole answers, and their pieces."""

import time
import uuid
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from scripts.local_llm.engine import Ended
from scripts.local_llm.written import Arguments, CallBegun, Piece, Text

Json: TypeAlias = dict[str, Any]


def usage(ended: Ended) -> Json:
    """Count the tokens."""
    return {
        "prompt_tokens": ended.read,
        "completion_tokens": ended.written,
        "total_tokens": ended.read + ended.written,
        "prompt_tokens_details": {"cached_tokens": ended.cached},
    }


def finish_reason(ended: Ended, *, called: bool) -> str:
    """Say why the answer ended."""
    return "tool_calls" if called and ended.reason == "stop" else ended.reason


@dataclass(slots=True)
class Shapes:
    """One answer, in the shape that its reader wants. `with_usage` is for pieces."""

    model: str
    with_usage: bool = False
    id: str = field(default_factory=lambda: f"chatcmpl-{uuid.uuid4().hex[:24]}")
    call_id: str = field(default_factory=lambda: f"call_{uuid.uuid4().hex[:24]}")
    created: int = field(default_factory=lambda: int(time.time()))

    def whole(self, pieces: list[Piece], ended: Ended) -> Json:
        """Build the answer in one piece."""
        name = next((piece.name for piece in pieces if isinstance(piece, CallBegun)), None)
        text = "".join(piece.text for piece in pieces if isinstance(piece, Text))
        message: Json = {"role": "assistant", "content": None if name else text, "refusal": None}
        if name:
            arguments = "".join(p.text for p in pieces if isinstance(p, Arguments))
            message["tool_calls"] = [self._call(name, arguments)]
        reason = finish_reason(ended, called=bool(name))
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}
        return {**self._head("chat.completion"), "choices": [choice], "usage": usage(ended)}

    def first(self, piece: Piece | None) -> Json:
        """Build the chunk that says who speaks; `piece` is what will follow."""
        content = None if isinstance(piece, CallBegun) else ""
        return self._chunk({"role": "assistant", "content": content})

    def piece(self, piece: Piece) -> Json:
        """Build the chunk of a piece."""
        match piece:
            case Text():
                return self._chunk({"content": piece.text})
            case CallBegun():
                return self._chunk({"tool_calls": [{"index": 0, **self._call(piece.name, "")}]})
            case Arguments():
                fragment = {"index": 0, "function": {"arguments": piece.text}}
                return self._chunk({"tool_calls": [fragment]})

    def last(self, ended: Ended, *, called: bool) -> list[Json]:
        """Build the chunk that ends the answer, and that of the tokens if it is wanted."""
        end = self._chunk({}, finish_reason(ended, called=called))
        if not self.with_usage:
            return [end]
        head = self._head("chat.completion.chunk")
        return [end, {**head, "choices": [], "usage": usage(ended)}]

    def _call(self, name: str, arguments: str) -> Json:
        function = {"name": name, "arguments": arguments}
        return {"id": self.call_id, "type": "function", "function": function}

    def _chunk(self, delta: Json, reason: str | None = None) -> Json:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        more: Json = {"usage": None} if self.with_usage else {}
        return {**self._head("chat.completion.chunk"), "choices": [choice], **more}

    def _head(self, kind: str) -> Json:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}
