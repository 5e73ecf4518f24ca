"""What is accepted with a request, and the names under which it is kept."""

from typing import Final

from loom_ia.core.model.artifacts import extension_of
from loom_ia.core.model.base import Value
from loom_ia.core.model.images import IMAGE_TYPES, ImageType

_LONGEST_NAME: Final = 120
_JOINERS: Final = "\N{ZERO WIDTH NON-JOINER}\N{ZERO WIDTH JOINER}"
"""What cannot be printed alone and is still part of words and of pictograms."""
_SUFFIXES: Final = {
    "image/jpeg": (".jpg", ".jpeg", ".jpe", ".jfif"),
    "image/png": (".png",),
    "image/gif": (".gif",),
    "image/webp": (".webp",),
}


class AttachmentLimits(Value):
    """What may be attached to one request: bytes of each file, types, and number of files."""

    max_bytes: int = 5_242_880
    types: tuple[ImageType, ...] = IMAGE_TYPES
    max_files: int = 10


def attachment_name(given: str, media_type: ImageType) -> str:
    """Give a name that is safe to show and to write, and whose suffix says what the bytes are.

    Only the last part of a path is kept, without what commands a terminal, hides the end of a name
    or turns the direction of writing; letters of any alphabet stay. At most 120 characters; empty
    when nothing is left.
    """
    last = given.replace("\\", "/").rpartition("/")[2]
    kept = "".join(_shown(character) for character in last).strip().lstrip(".").rstrip(". ")
    if not kept:
        return ""
    stem, dot, end = kept.rpartition(".")
    suffix = f".{end.lower()}" if dot and stem else ""
    if suffix in _SUFFIXES[media_type]:
        return _bounded(stem, f".{end}")
    others = {each for suffixes in _SUFFIXES.values() for each in suffixes}
    return _bounded(stem if suffix in others else kept, f".{extension_of(media_type)}")


def _shown(character: str) -> str:
    if character.isprintable() or character in _JOINERS:
        return character
    return " " if character.isspace() and character not in "\n\r\t\v\f" else "_"


def _bounded(stem: str, suffix: str) -> str:
    return stem[: _LONGEST_NAME - len(suffix)].rstrip() + suffix
