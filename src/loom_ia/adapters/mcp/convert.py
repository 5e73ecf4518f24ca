"""What a call gave, as a tool of ours gives it: blocks for the model, data for code, and files.

    text                          a text block
    image, audio                  a file; an image by its first bytes, whatever it claims to be
    resource with text            a text block
    resource with bytes           a file
    link to a resource            its address, as text: it is never fetched
    structured content            `data`; a text block that says the same is left out
    anything else                 a sentence that says what was left out

No bytes of a file ever stand in a text.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from loom_ia.adapters.mcp.bounds import BLOCKS
from loom_ia.core.errors import ToolError
from loom_ia.core.json import JsonValue, storable, storable_text
from loom_ia.core.model.artifacts import NewFile, sniffed_type
from loom_ia.core.model.content import TextBlock, ToolOutput
from loom_ia.core.prompts import Language, prompt_text

_UNKNOWN_TYPE: Final = "application/octet-stream"
_NAME_CHARS: Final = 100
_TYPE_CHARS: Final = 100


@dataclass(slots=True)
class _Content:
    language: Language
    texts: list[str] = field(default_factory=list[str])
    files: list[NewFile] = field(default_factory=list[NewFile])

    def add(self, block: object) -> None:
        if not isinstance(block, Mapping):
            self._leave_out("?")
            return
        said = cast("Mapping[str, Any]", block)
        match said.get("type"):
            case "text":
                self.texts.append(_text(said.get("text")))
            case "image" | "audio" as kind:
                self._add_file(said.get("data"), said.get("mimeType"), "", str(kind))
            case "resource_link":
                words = (_text(said.get("name")), _text(said.get("uri")))
                self.texts.append(" ".join(word for word in words if word))
            case "resource" if isinstance(said.get("resource"), Mapping):
                self._add_resource(cast("Mapping[str, Any]", said["resource"]))
            case kind:
                self._leave_out(_text(kind)[:40] or "?")

    def _leave_out(self, what: str) -> None:
        self.texts.append(prompt_text(self.language, "left_out", what=what))

    def _add_resource(self, resource: Mapping[str, Any]) -> None:
        if "blob" not in resource:
            self.texts.append(_text(resource.get("text")))
            return
        name = _text(resource.get("uri")).rpartition("/")[2]
        self._add_file(resource["blob"], resource.get("mimeType"), name, "resource")

    def _add_file(self, data: object, media_type: object, name: str, kind: str) -> None:
        try:
            content = base64.b64decode(data if isinstance(data, str) else "", validate=True)
        except (binascii.Error, ValueError):
            content = b""
        if not content:
            self._leave_out(kind)
            return
        known = sniffed_type(content)
        if known == _UNKNOWN_TYPE and isinstance(media_type, str) and kind != "image":
            known = storable_text(media_type)[:_TYPE_CHARS]
        self.files.append(NewFile(data=content, media_type=known, name=name[:_NAME_CHARS]))


def to_output(raw: Any, language: Language = "en") -> ToolOutput:
    """Read the result of a call; raises `ToolError` when it is none, `UnstorableValue` as usual."""
    if not isinstance(raw, Mapping):
        raise ToolError(prompt_text(language, "server_result"))
    result = cast("Mapping[str, Any]", raw)
    if result.get("resultType") not in (None, "complete"):
        raise ToolError(prompt_text(language, "server_asks"))
    content, given = _Content(language), result.get("content")
    blocks = cast("list[object]", given) if isinstance(given, list) else []
    for block in blocks[:BLOCKS]:
        content.add(block)
    if len(blocks) > BLOCKS:
        left = prompt_text(language, "left_out", what=f"{len(blocks) - BLOCKS} …")
        content.texts.append(left)
    data, mended = storable(result.get("structuredContent"), "result.data")
    texts = [text for text in content.texts if text and not _says(text, data)]
    return ToolOutput(
        blocks=tuple(TextBlock(text=text) for text in texts),
        data=data,
        is_error=result.get("isError") is True,
        mended=mended,
        files=tuple(content.files),
    )


def _text(value: object) -> str:
    return storable_text(value) if isinstance(value, str) else ""


def _says(text: str, data: JsonValue) -> bool:
    """Whether a text is the JSON of the structured content, which the model reads anyway."""
    if data is None:
        return False
    try:
        return bool(json.loads(text) == data)
    except (ValueError, RecursionError):
        return False
