"""Images as their first bytes tell them; nothing is decoded.

Law. A header is whole when what every reader of that format needs first is there: the signature,
the size of the picture, and what stands between them. Reading one takes a bounded number of steps,
whatever the bytes are.
"""

from typing import Final, Literal, TypeAlias, get_args
from zlib import crc32

from loom_ia.core.model.artifacts import sniffed_type

ImageType: TypeAlias = Literal["image/jpeg", "image/png", "image/gif", "image/webp"]

IMAGE_TYPES: Final[tuple[ImageType, ...]] = get_args(ImageType)

_SEGMENTS: Final = 4096
"""How many segments of a JPEG may come before its size; real ones have less than a hundred."""
_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_ALONE: Final = frozenset({0x01, *range(0xD0, 0xD8)})
_ENDS: Final = frozenset({0xD9, 0xDA})


def image_type(data: bytes) -> ImageType | None:
    """Recognise an image by its signature; None for anything else."""
    found = sniffed_type(data[:16])
    return found if found in IMAGE_TYPES else None


def has_whole_header(data: bytes) -> bool:
    """Tell whether an image that was recognised has all of its header."""
    match image_type(data):
        case "image/png":
            return _png(data)
        case "image/jpeg":
            return _jpeg(data)
        case "image/gif":
            return len(data) > 13
        case "image/webp":
            return _webp(data)
        case None:
            return False


def _png(data: bytes) -> bool:
    header, check = data[12:29], data[29:33]
    return (
        len(check) == 4
        and data[8:16] == b"\0\0\0\x0dIHDR"
        and any(header[4:8])
        and any(header[8:12])
        and crc32(header) == int.from_bytes(check, "big")
    )


def _jpeg(data: bytes) -> bool:
    at = 2
    for _ in range(_SEGMENTS):
        if data[at : at + 1] != b"\xff":
            return False
        marker = data[at + 1 : at + 2]
        if marker == b"\xff":  # padding before a marker
            at += 1
            continue
        kind = marker[0] if marker else 0
        at += 2
        if kind in _FRAMES:
            return len(data) >= at + 7 and any(data[at + 5 : at + 7])
        if kind in _ALONE:
            continue
        length = int.from_bytes(data[at : at + 2], "big")
        if kind in _ENDS or length < 2:
            return False
        at += length
    return False


def _webp(data: bytes) -> bool:
    # A writer that forgets the byte that evens a length is forgiven.
    if int.from_bytes(data[4:8], "little") + 8 > len(data) + 1:
        return False
    match data[12:16]:
        case b"VP8 ":
            return len(data) >= 30 and data[23:26] == b"\x9d\x01\x2a"
        case b"VP8L":
            return len(data) >= 25 and data[20] == 0x2F
        case b"VP8X":
            return len(data) >= 30
        case _:
            return False
