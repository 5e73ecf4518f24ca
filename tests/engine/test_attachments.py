"""What is attached is checked whole before anything is kept, whatever it is made of."""

import errno
import os
import socket
from collections.abc import Sequence
from pathlib import Path

import pytest

from loom_ia import Attachment, AttachmentRefused
from loom_ia.adapters.artifacts.memory import MemoryArtifacts
from loom_ia.core.errors import ArtifactStoreError
from loom_ia.core.model.artifacts import NewFile
from loom_ia.core.model.attachments import AttachmentLimits
from loom_ia.engine.attachments import AnyAttachment, admitted, blocks_of, keep
from tests.pictures import gif, jpeg, png, webp

LIMITS = AttachmentLimits()
SMALL = AttachmentLimits(max_bytes=1000, types=("image/png", "image/jpeg"), max_files=3)


async def faults(
    *given: AnyAttachment, limits: AttachmentLimits = SMALL
) -> Sequence[tuple[str, str]]:
    """Give what is refused, and why."""
    with pytest.raises(AttachmentRefused) as refused:
        await admitted(given, limits)
    return [(problem.file, problem.message) for problem in refused.value.problems]


async def test_every_way_to_give_a_file(tmp_path: Path) -> None:
    """A path, bytes and a value are as good as each other; the bytes tell the type."""
    path = tmp_path / "plan.png"
    path.write_bytes(png(2))
    files = await admitted(
        [
            path,
            str(tmp_path / "plan.png"),
            png(3),
            bytearray(jpeg()),
            memoryview(gif()),
            Attachment(webp(), "logo.webp"),
            Attachment(png(4), "photo.png", "image/png"),
            Attachment(jpeg(5), "vue.jpg", "image/jpg; q=1"),
            Attachment(path=path, name="autre.png", media_type="application/octet-stream"),
        ],
        LIMITS,
    )
    assert [(file.name, file.media_type) for file in files] == [
        ("plan.png", "image/png"),
        ("", "image/png"),
        ("", "image/jpeg"),
        ("", "image/gif"),
        ("logo.webp", "image/webp"),
        ("photo.png", "image/png"),
        ("vue.jpg", "image/jpeg"),
    ]
    assert files[0].data == png(2)


async def test_nothing_attached_is_nothing() -> None:
    """A request without files asks for nothing."""
    assert await admitted([], LIMITS) == ()


async def test_the_same_content_is_kept_once() -> None:
    """Two names for one content are one file, under the first of them, in the order given."""
    given = [Attachment(png(), "a.png"), jpeg(), Attachment(png(), "b.png")]
    files = await admitted(given, SMALL)
    assert [file.name for file in files] == ["a.png", ""]
    store = MemoryArtifacts()
    kept = await keep(files, store, "default", "s")
    assert len({fact.uri for fact in kept}) == 2
    assert [(f.origin, f.size, f.call_id) for f in kept] == [
        ("attachment", len(png()), ""),
        ("attachment", len(jpeg()), ""),
    ]
    assert [block.uri for block in blocks_of(kept)] == [fact.uri for fact in kept]
    assert await store.get(kept[0].uri) == png()


async def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    """One refusal names each file, what is wrong with it and what to do about it."""
    (tmp_path / "vide.png").write_bytes(b"")
    (tmp_path / "faux.png").write_text("Bonjour")
    told = await faults(
        tmp_path / "vide.png",
        tmp_path / "faux.png",
        png(size=1001),
        gif(),
        Attachment(jpeg(), "photo.png", "image/png"),
        Attachment(png()[:20], "coupé.png"),
        Attachment(),
        Attachment(png(), path="a.png"),
    )
    accepted = "image/png, image/jpeg"
    assert told == [
        (
            "attachments",
            (
                "there are 8 files, and at most 3 are accepted: give fewer, or raise "
                "execution.attachments.max_files"
            ),
        ),
        (str(tmp_path / "vide.png"), "it is empty: give a file that holds an image"),
        (
            str(tmp_path / "faux.png"),
            (
                "its first bytes are those of no known image (application/octet-stream), whatever "
                f"its name says: give one of {accepted}"
            ),
        ),
        (
            "attachments[2]",
            (
                "it has 1001 bytes, and at most 1000 are accepted: make it smaller, or raise "
                "execution.attachments.max_bytes"
            ),
        ),
        (
            "attachments[3]",
            (
                f"it is image/gif, and only {accepted} are accepted: convert it, or add the type "
                "to execution.attachments.types"
            ),
        ),
        (
            "photo.png",
            (
                "it is said to be image/png, and its bytes are image/jpeg: correct media_type, or "
                "leave it out"
            ),
        ),
        (
            "coupé.png",
            "it begins as image/png, and its header is cut or damaged: save it again",
        ),
        ("attachments[6]", "an attachment has either data or a path: give one of them"),
        ("a.png", "an attachment has either data or a path: give one of them"),
    ]


async def test_the_limits_themselves_are_accepted() -> None:
    """A file of exactly the limit passes, and so does the last file of the limit."""
    given = [png(size=1000), png(2), png(3)]
    assert len(given[0]) == 1000
    assert len(await admitted(given, SMALL)) == 3
    assert await faults(png(), limits=AttachmentLimits(max_files=0))


async def test_a_large_file_is_not_read(tmp_path: Path) -> None:
    """A file over the limit is refused by its size, and a false one is told to be false."""
    large, false = tmp_path / "large.png", tmp_path / "false.png"
    for path, start in ((large, png()), (false, b"text")):
        with path.open("wb") as file:
            file.write(start)
            file.truncate(1 << 40)  # a terabyte, of which next to nothing is on the disk
    told = await faults(large, false)
    assert [message.split(":")[0].split(",")[0] for _, message in told] == [
        f"it has {1 << 40} bytes",
        f"it has {1 << 40} bytes",
        "its first bytes are those of no known image (application/octet-stream)",
    ]


async def test_what_is_no_plain_file_is_refused_at_once(tmp_path: Path) -> None:
    """A pipe, a device, a socket and a folder are never waited for."""
    pipe, folder, home = tmp_path / "pipe.png", tmp_path / "folder.png", tmp_path / "s.png"
    os.mkfifo(pipe)
    folder.mkdir()
    (tmp_path / "link.png").symlink_to(pipe)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(home))
        told = await faults(pipe, folder, home, tmp_path / "link.png", "/dev/zero", limits=LIMITS)
    device = "it is a pipe, a device or a socket: write what comes of it to a file, and give that"
    there = "it is a folder: give the files in it, one by one"
    assert [message for _, message in told] == [device, there, device, device, device]


async def test_a_path_that_leads_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing file, a broken link, a loop, a name that is none: each is said in its words."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop.png").symlink_to("loop.png")
    (tmp_path / "broken.png").symlink_to("nowhere")
    told = await faults("absent.png", "broken.png", "a\0b.png", "loop.png", limits=LIMITS)
    absent = f"there is no such file: check the path, which is read from {tmp_path}"
    assert told[0] == ("absent.png", absent)
    assert told[1] == ("broken.png", absent)
    assert told[2] == ("a_b.png", "it is no path: check it")
    assert told[3][1].startswith("it cannot be read: Too many levels of symbolic links")
    assert (await faults("x" * 5000))[0][0] == "x" * 200 + "…"


async def test_a_file_without_rights_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that may not be read is told with the reason of the system."""
    path = tmp_path / "secret.png"
    path.write_bytes(png())

    def closed(path: Path, flags: int) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path), flags)

    monkeypatch.setattr(os, "open", closed)  # who runs the tests may read everything
    ((_, message),) = await faults(path)
    assert message == "it cannot be read: Permission denied. Check the path and the rights on it"


async def test_a_link_is_followed(tmp_path: Path) -> None:
    """A link to a file is a file, under the name of the link."""
    (tmp_path / "original.png").write_bytes(png())
    (tmp_path / "photo.png").symlink_to("original.png")
    (file,) = await admitted([tmp_path / "photo.png"], LIMITS)
    assert file == NewFile(data=png(), media_type="image/png", name="photo.png")


async def test_what_is_no_attachment_is_a_mistake_of_the_code() -> None:
    """A lone path in the place of the list, or a number in it, is told as a wrong type."""
    for alone in ("photo.png", b"\x89PNG", Path("photo.png"), Attachment(png())):
        with pytest.raises(TypeError, match="a list: put the file in brackets"):
            await admitted(alone, LIMITS)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="its bytes, not int"):
        await admitted([3], LIMITS)  # type: ignore[list-item]


async def test_files_want_a_store() -> None:
    """Without a store of files nothing can be attached, and nothing attached asks for none."""
    assert await keep((), None, "default", "s") == ()
    with pytest.raises(ArtifactStoreError):
        await keep(await admitted([png()], LIMITS), None, "default", "s")
