"""Chunks of a chat completion, for those that no honest server writes."""

import json
from collections.abc import Mapping
from typing import Any, Final

from tests.providers.formats.chat import DONE
from tests.providers.replies import Raw, sse

ROLE: Final = {"role": "assistant", "content": ""}


def chunk(delta: Any = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    """Build a chunk with one choice; `more` are keys of the chunk."""
    choice = {"index": 0, "delta": {} if delta is None else delta, "finish_reason": finish}
    return bare([choice], **more)


def bare(choices: Any, **more: Any) -> dict[str, Any]:
    """Build a chunk with the choices that are given."""
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return {**head, "choices": choices, **more}


def said(*pieces: str) -> list[dict[str, Any]]:
    """Build the chunks of a text, the one with the role first."""
    return [chunk(ROLE), *(chunk({"content": piece}) for piece in pieces)]


def call(
    arguments: Any = None,
    *,
    index: int | None = None,
    id: str | None = None,
    name: str | None = None,
) -> dict[str, Any]:
    """Build a piece of a call, without the keys that are None."""
    function = {"name": name, "arguments": arguments}
    return {
        **({} if index is None else {"index": index}),
        **({} if id is None else {"id": id, "type": "function"}),
        "function": {key: value for key, value in function.items() if value is not None},
    }


def calls(*pieces: Mapping[str, Any]) -> dict[str, Any]:
    """Build a chunk with pieces of calls."""
    return chunk({"tool_calls": list(pieces)})


def stream(*chunks: Mapping[str, Any], done: bool = True) -> Raw:
    """Write chunks as a stream, each alone."""
    written = [sse(json.dumps(each, ensure_ascii=False)) for each in chunks]
    return Raw([*written, *([DONE] if done else [])])
