"""How large a request is, in characters; each message is counted only once."""

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from loom_ia.core.json import canonical
from loom_ia.core.model.messages import Message
from loom_ia.core.model.request import ModelRequest
from loom_ia.core.model.tooling import ToolSpec

CHARACTERS_PER_TOKEN: Final = 4
TOKENS_PER_IMAGE: Final = 1600

_IMAGE: Final = '"media_type":"image/'


class Sizes:
    """Remembers the sizes of messages and tools for as long as they live: both are immutable."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Message | ToolSpec], int]] = {}
        self._history = self._messages = self._tools = _NOTHING

    def of(self, part: Message | ToolSpec) -> int:
        """Count the characters of the JSON form of a message, or of what is shown of a tool."""
        key = id(part)
        known = self._known.get(key)
        if known is not None and known[0]() is part:
            return known[1]
        size = _message(part) if isinstance(part, Message) else _tool(part)
        self._known[key] = (weakref.ref(part, lambda _: self._known.pop(key, None)), size)
        return size

    def prompt_tokens(self, request: ModelRequest) -> int:
        """Estimate the tokens of a prompt: four characters each, images apart.

        A conversation that grew since the last time costs only what is new.
        """
        self._history = self._history.grown(request.history, self.of)
        self._messages = self._messages.grown(request.messages, self.of)
        self._tools = self._tools.grown(request.tools, self.of)
        grown = self._history.size + self._messages.size + self._tools.size
        notes = sum(map(self.of, request.notes)) if request.notes else 0
        return (len(request.system) + grown + notes) // CHARACTERS_PER_TOKEN


@dataclass(frozen=True, slots=True)
class _Sum:
    """The size of the first `count` items of a sequence, which ended with `last`."""

    count: int = 0
    size: int = 0
    last: Message | ToolSpec | None = None

    def grown(
        self, items: Sequence[Message | ToolSpec], size_of: Callable[[Message | ToolSpec], int]
    ) -> "_Sum":
        if len(items) == self.count and (not items or items[-1] is self.last):
            return self
        known = self
        if len(items) < self.count or (self.count and items[self.count - 1] is not self.last):
            known = _NOTHING
        new = items[known.count :]
        return _Sum(len(items), known.size + sum(map(size_of, new)), new[-1]) if new else known


_NOTHING: Final = _Sum()


def _message(message: Message) -> int:
    text = message.model_dump_json()
    return len(text) + text.count(_IMAGE) * TOKENS_PER_IMAGE * CHARACTERS_PER_TOKEN


def _tool(tool: ToolSpec) -> int:
    return len(tool.name) + len(tool.description) + len(canonical(tool.input_schema))
