"""The files of a conversation, as they are given to a model; none is kept here."""

from base64 import b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from loom_ia.adapters.models.turns import (
    AssistantTurn,
    File,
    ResultsTurn,
    Turn,
    UserTurn,
    media_type,
    sendable,
    takes,
)
from loom_ia.adapters.models.turns import mention as mention_of
from loom_ia.core.errors import ArtifactStoreError, UnknownArtifact
from loom_ia.core.model.artifacts import sniffed_type
from loom_ia.core.model.models import ModelSpec
from loom_ia.core.ports.artifacts import ArtifactStore
from loom_ia.core.prompts import Language, prompt_text

MAX_TEXT: Final = 400_000
"""Bytes of a text file above which it is only named: it would fill any window."""


@dataclass(frozen=True, slots=True)
class Image:
    """An image: its type, and its bytes in base64."""

    media_type: str
    data: str


@dataclass(frozen=True, slots=True)
class Pdf:
    """A PDF document: its name, and its bytes in base64."""

    name: str
    data: str


@dataclass(frozen=True, slots=True)
class TextFile:
    """A text file: its name and its text."""

    name: str
    text: str


Shown: TypeAlias = Image | Pdf | TextFile | str
"""What becomes of a file: its content, or a sentence that names it."""

Contents: TypeAlias = Mapping[str, bytes]


async def contents_of(
    turns: Iterable[Turn], spec: ModelSpec, store: ArtifactStore | None
) -> Contents:
    """Read the files that the model can be given, by address; one that is lost is left out."""
    found: dict[str, bytes] = {}
    if store is None:
        return found
    for file in _files(turns):
        uri = file.block.uri
        if uri in found or not takes(spec, file):
            continue
        try:
            found[uri] = await store.get(uri)
        except (UnknownArtifact, ArtifactStoreError):
            continue
    return found


def shown(file: File, spec: ModelSpec, contents: Contents, language: Language) -> Shown:
    """Give a file as `spec` takes it."""
    block = file.block
    if not takes(spec, file):
        return mention_of(block, language)
    declared = media_type(block)
    name = sendable(block.name).strip() or "file"
    data = contents.get(block.uri)
    if data is None:
        return prompt_text(language, "file_lost", name=name, media_type=block.media_type)
    kind = sniffed_type(data)
    if declared.startswith("image/"):
        # What the bytes are counts, not what somebody called them.
        known = kind.removeprefix("image/") in spec.capabilities.image_formats
        return Image(kind, b64encode(data).decode()) if known else mention_of(block, language)
    if kind == "application/pdf":
        return Pdf(name, b64encode(data).decode())
    if len(data) > MAX_TEXT or declared == "application/pdf" or kind.startswith("image/"):
        return mention_of(block, language)
    return TextFile(name, sendable(data.decode("utf-8", "replace")).strip() or "-")


def _files(turns: Iterable[Turn]) -> Iterable[File]:
    for turn in turns:
        match turn:
            case UserTurn():
                yield from (part for part in turn.parts if isinstance(part, File))
            case ResultsTurn():
                for result in turn.results:
                    yield from (part for part in result.parts if isinstance(part, File))
            case AssistantTurn():
                pass
