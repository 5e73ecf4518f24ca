"""Small images of every accepted format, made here, and whole as far as their headers go."""

from struct import pack
from zlib import compress, crc32


def _chunk(kind: bytes, data: bytes) -> bytes:
    return pack(">I", len(data)) + kind + data + pack(">I", crc32(kind + data))


def png(width: int = 1, height: int = 1, *, size: int = 0) -> bytes:
    """A grey PNG that can be decoded, of at least `size` bytes."""
    header = _chunk(b"IHDR", pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    rows = compress(b"".join(b"\0" + b"\x80" * width for _ in range(height)))
    parts = b"\x89PNG\r\n\x1a\n" + header + _chunk(b"IDAT", rows)
    end = _chunk(b"IEND", b"")
    filling = size - len(parts) - len(end)
    return parts + (_chunk(b"juNk", bytes(max(filling - 12, 0))) if filling > 0 else b"") + end


def jpeg(width: int = 1, height: int = 1, *, before: bytes = b"") -> bytes:
    """The segments of a JPEG as far as its size; `before` stands between its first two."""
    start = b"\xff\xd8\xff\xe0" + pack(">H", 16) + b"JFIF\0\1\1\0\0\1\0\1\0\0"
    frame = b"\xff\xc0" + pack(">HBHHB", 11, 8, height, width, 1) + b"\1\x11\0"
    return start + before + frame + b"\xff\xda\0\x02\0\xff\xd9"


def gif(version: bytes = b"GIF89a") -> bytes:
    """A GIF of one pixel."""
    screen = pack("<HH", 1, 1) + b"\x80\0\0" + b"\0\0\0\xff\xff\xff"
    return version + screen + b",\0\0\0\0\1\0\1\0\0\2\2D\1\0;"


def webp(kind: bytes = b"VP8L") -> bytes:
    """A WebP of one pixel, lossless, lossy or extended by its `kind`."""
    body = {
        b"VP8L": b"\x2f" + bytes(9),
        b"VP8 ": b"\0\0\0\x9d\x01\x2a" + pack("<HH", 1, 1) + bytes(4),
        b"VP8X": bytes(10),
    }[kind]
    chunk = kind + pack("<I", len(body)) + body
    return b"RIFF" + pack("<I", 4 + len(chunk)) + b"WEBP" + chunk
