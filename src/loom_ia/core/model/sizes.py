"""How large a request is, in characters; each message is counted only once."""

import weakref
from collections.abc import Iterable
from itertools import chain
from typing import Final

from loom_ia.core.json import canonical
from loom_ia.core.model.content import ArtifactBlock, ToolResultBlock
from loom_ia.core.model.messages import Message
from loom_ia.core.model.request import ModelRequest
from loom_ia.core.model.tooling import ToolSpec

CHARACTERS_PER_TOKEN: Final = 4
TOKENS_PER_IMAGE: Final = 1600


class Sizes:
    """Remembers the sizes of messages and tools for as long as they live: both are immutable."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Message | ToolSpec], int]] = {}

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
        """Estimate the tokens of a prompt: four characters each, images apart."""
        parts: Iterable[Message | ToolSpec] = chain(request.conversation(), request.tools)
        characters = len(request.system) + sum(self.of(part) for part in parts)
        return characters // CHARACTERS_PER_TOKEN


def _message(message: Message) -> int:
    images = sum(_images(block) for block in message.blocks)
    return len(message.model_dump_json()) + images * TOKENS_PER_IMAGE * CHARACTERS_PER_TOKEN


def _images(block: object) -> int:
    match block:
        case ArtifactBlock():
            return block.media_type.startswith("image/")
        case ToolResultBlock():
            return sum(_images(inner) for inner in block.output.blocks)
        case _:
            return 0


def _tool(tool: ToolSpec) -> int:
    return len(tool.name) + len(tool.description) + len(canonical(tool.input_schema))
