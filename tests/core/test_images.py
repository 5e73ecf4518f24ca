"""Images are told by their bytes, and names say what the bytes are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loom_ia.core.model.attachments import attachment_name
from loom_ia.core.model.images import IMAGE_TYPES, ImageType, has_whole_header, image_type
from tests.pictures import gif, jpeg, png, webp

WHOLE = {
    "png": png(),
    "jpeg": jpeg(),
    "jpeg with a comment": jpeg(before=b"\xff\xfe\0\4hi"),
    "jpeg with padding": jpeg(before=b"\xff\xff\xff"),
    "jpeg with a large profile": jpeg(before=(b"\xff\xe2\xff\xff" + bytes(65533)) * 70),
    "gif 89a": gif(),
    "gif 87a": gif(b"GIF87a"),
    "webp lossless": webp(b"VP8L"),
    "webp lossy": webp(b"VP8 "),
    "webp extended": webp(b"VP8X"),
}
TYPES = {
    name: next(kind for kind in IMAGE_TYPES if kind.endswith(name.split()[0])) for name in WHOLE
}


@pytest.mark.parametrize("name", WHOLE)
def test_an_image_is_recognised(name: str) -> None:
    """Each accepted format is known by its signature, and its header is found whole."""
    assert image_type(WHOLE[name]) == TYPES[name]
    assert has_whole_header(WHOLE[name])


@pytest.mark.parametrize("name", WHOLE)
def test_a_header_that_is_cut_is_never_whole(name: str) -> None:
    """Whatever is left of the smallest header, it is not taken for a whole one."""
    needed = {"image/png": 33, "image/gif": 14, "image/webp": 25, "image/jpeg": 29}[TYPES[name]]
    for length in range(needed):
        assert not has_whole_header(WHOLE[name][:length]), length


@pytest.mark.parametrize(
    "data",
    [
        png(width=0),
        png()[:20] + b"\1" + png()[21:],
        png().replace(b"IHDR", b"IDAT"),
        jpeg(width=0),
        b"\xff\xd8\xff\xd9",
        b"\xff\xd8\xff\xe0\0\0" + bytes(100),
        b"\xff\xd8\xff\xe0\0\x10" + bytes(100),
        b"\xff\xd8" + b"\xff" * 1_000_000,
        b"\xff\xd8" + b"\xff\xd0" * 1_000_000,
        webp()[:-5],
        webp().replace(b"VP8L", b"VP8?"),
        b"RIFF\4\0\0\0WEBP",
        b"GIF89a" + bytes(7),
    ],
)
def test_a_damaged_header_is_told(data: bytes) -> None:
    """A size of nothing, a wrong sum, segments that lead nowhere: no reader could show it."""
    assert image_type(data) is not None
    assert not has_whole_header(data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x89PN",
        b"BM",
        b"<svg/>",
        b"%PDF-1.7",
        b"GIF88a",
        b"RIFF\0\0\0\0WAVE",
        b"MZ",
        b"<html>",
    ],
)
def test_what_is_no_image_is_none(data: bytes) -> None:
    """Nothing but the four formats is an image, and nothing else has a header."""
    assert image_type(data) is None
    assert not has_whole_header(data)


@given(st.binary(max_size=200), st.sampled_from([b"", *[data[:12] for data in WHOLE.values()]]))
def test_any_bytes_can_be_looked_at(tail: bytes, head: bytes) -> None:
    """Whatever the bytes are, looking at them ends in an answer."""
    data = head + tail
    assert image_type(data) in {None, *IMAGE_TYPES}
    if image_type(data) is None:
        assert not has_whole_header(data)


@pytest.mark.parametrize(
    ("given_name", "kept"),
    [
        ("photo.png", "photo.png"),
        ("Écran à 10 h.PNG", "Écran à 10 h.PNG"),
        ("写真.png", "写真.png"),
        ("👩\u200d🔧.png", "👩\u200d🔧.png"),
        ("Capture 10\u202f00.png", "Capture 10 00.png"),
        ("../../etc/cron.d/x.png", "x.png"),
        ("C:\\Temp\\x.png", "x.png"),
        (".htaccess", "htaccess.png"),
        ("...", ""),
        ("/", ""),
        ("", ""),
        ("page.html", "page.html.png"),
        ("run.php.png", "run.php.png"),
        ("photo.jpg", "photo.png"),
        ("photo", "photo.png"),
        ("a\r\nb\x1b[2J\0.png", "a__b_[2J_.png"),
        ("gnp.\u202eexe.png", "gnp._exe.png"),
        ("\udcff.png", "_.png"),
        ("x" * 500 + ".png", "x" * 116 + ".png"),
    ],
)
def test_a_name_is_harmless(given_name: str, kept: str) -> None:
    """No part of a path, nothing that commands a terminal; the suffix is that of the bytes."""
    assert attachment_name(given_name, "image/png") == kept


@given(st.text(max_size=300), st.sampled_from(IMAGE_TYPES))
def test_any_name_is_harmless(given_name: str, kind: ImageType) -> None:
    """A name is bounded, holds no way out of a folder, and keeping it again changes nothing."""
    kept = attachment_name(given_name, kind)
    assert len(kept) <= 120
    assert not {"/", "\\", "\0", "\n", "\r"} & set(kept)
    assert not kept.startswith(".")
    assert attachment_name(kept, kind) == kept
    kept.encode()
