"""What a model is asked when it is checked, and what a right answer is.

Each question is short, has one right answer that a model cannot guess, and does not say how its
answer will be read.
"""

import json
import re
import struct
import zlib
from collections.abc import Sequence
from typing import Any, Final

from loom_ia.core.json import JsonObject
from loom_ia.core.model.chunks import INVALID_ARGUMENTS
from loom_ia.core.model.content import (
    ArtifactBlock,
    TextBlock,
    ToolCallBlock,
    ToolOutput,
    ToolResultBlock,
)
from loom_ia.core.model.messages import Message
from loom_ia.core.model.models import ModelSpec
from loom_ia.core.model.request import ModelRequest
from loom_ia.core.model.tooling import ToolSpec

_MAX_TOKENS: Final = 1024
_MAX_TOKENS_OF_CLAUDE: Final = 4096
"""What runs take there without `max_tokens`: a budget of thoughts in `params` may count on it."""

COUNT: Final = "Write the whole numbers from 1 to 20 in figures, separated by spaces, nothing else."
FIND: Final = "On which shelf is the article B-12? Call the tool shelf_of to find out."
FIND_TWO: Final = (
    "On which shelves are the articles B-12 and C-34? Call the tool shelf_of for both at once, "
    "in one answer."
)
GREET: Final = "Say hello."
DESCRIBE: Final = "Describe this article: a steel screw, which costs 12 cents."
LOOK: Final = "Which colour fills this image? Answer with one word, in English."

SHELF: Final = "K7Q2"
"""What the tool tells, and what an answer that read it has in it."""

TOOL: Final = ToolSpec(
    name="shelf_of",
    description="Tells on which shelf of the warehouse an article is.",
    input_schema={
        "type": "object",
        "properties": {"article": {"type": "string", "description": "Such as A-56."}},
        "required": ["article"],
        "additionalProperties": False,
    },
)
ARTICLE: Final[JsonObject] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "cents": {"type": "integer"}},
    "required": ["name", "cents"],
    "additionalProperties": False,
}
PNG: Final = "image/png"

_MAGENTA: Final = (230, 0, 230)
"""A colour that nobody names by chance."""

_SEEN: Final = re.compile(r"magenta|fuchsia|fuschia|pink|purple|violet|mauve|rose", re.IGNORECASE)
_SIDE: Final = 64


def request_of(spec: ModelSpec, *messages: Message, **more: Any) -> ModelRequest:
    """Make a request with the settings that runs use."""
    return ModelRequest(
        model=spec.id,
        system="",
        history=(),
        messages=messages,
        max_tokens=limit_of(spec),
        params=spec.params,
        **more,
    )


def limit_of(spec: ModelSpec) -> int:
    """Give the longest answer that is asked for, in tokens: the model's own when it has one."""
    if spec.max_tokens is not None:
        return spec.max_tokens
    return _MAX_TOKENS_OF_CLAUDE if spec.sdk == "anthropic" else _MAX_TOKENS


def asked(text: str) -> Message:
    """Put a question."""
    return Message.text("user", text)


def results(calls: Sequence[ToolCallBlock]) -> Message:
    """Answer each call with the shelf."""
    output = ToolOutput.of_text(f"Shelf {SHELF}")
    blocks = (ToolResultBlock(call_id=call.call_id, output=output) for call in calls)
    return Message(role="tool", blocks=tuple(blocks))


def image_question(uri: str, size: int) -> Message:
    """Ask what is in the image at `uri`."""
    image = ArtifactBlock(uri=uri, media_type=PNG, size=size, name="image.png")
    return Message(role="user", blocks=(TextBlock(text=LOOK), image))


def is_read(text: str) -> bool:
    """Whether an answer has what the tool told."""
    return SHELF.casefold() in text.casefold()


def is_seen(text: str) -> bool:
    """Whether an answer names the colour of the image."""
    return bool(_SEEN.search(text))


def is_json(arguments: JsonObject) -> bool:
    """Whether the arguments of a call were a JSON object."""
    return INVALID_ARGUMENTS not in arguments


def fits(value: object, schema: JsonObject) -> bool:
    """Whether a document fits a schema."""
    from jsonschema import Draft202012Validator

    validator: Any = Draft202012Validator(schema)
    return bool(validator.is_valid(value))


def read_json(text: str) -> object:
    """Read a document; raises `ValueError` when the text is anything else."""
    return json.loads(text)


def picture() -> bytes:
    """Give a PNG image of one colour."""
    header = struct.pack(">2I5B", _SIDE, _SIDE, 8, 2, 0, 0, 0)
    rows = (b"\0" + bytes(_MAGENTA) * _SIDE) * _SIDE
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    checked = kind + data
    return struct.pack(">I", len(data)) + checked + struct.pack(">I", zlib.crc32(checked))
