"""What every store of files promises."""

import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from loom_ia.adapters.artifacts.local import LocalArtifacts
from loom_ia.adapters.artifacts.memory import MemoryArtifacts
from loom_ia.core.errors import ArtifactStoreError, UnknownArtifact, UnusableId
from loom_ia.core.ports.artifacts import ArtifactStore

MAKERS: dict[str, Callable[[Path], ArtifactStore]] = {
    "memory": lambda _: MemoryArtifacts(),
    "local": LocalArtifacts,
}


@pytest.fixture(params=MAKERS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ArtifactStore:
    """A store of each kind, empty."""
    return MAKERS[request.param](tmp_path / "files")


async def test_a_file_is_named_by_its_content(store: ArtifactStore) -> None:
    """The address tells the tenant, the session, the digest and the kind, and reads back."""
    uri = await store.put("default", "s", b"abc", "text/plain")
    assert uri == f"artifact://default/s/{sha256(b'abc').hexdigest()}.txt"
    assert await store.get(uri) == b"abc"


async def test_the_same_content_is_kept_once(store: ArtifactStore) -> None:
    """Putting a file again changes nothing."""
    first = await store.put("default", "s", b"abc", "image/png")
    assert await store.put("default", "s", b"abc", "image/png") == first
    assert await store.delete("default", "s") == 1


async def test_an_empty_file_is_a_file(store: ArtifactStore) -> None:
    """No byte at all is kept too."""
    uri = await store.put("default", "s", b"", "application/octet-stream")
    assert uri.endswith(".bin")
    assert await store.get(uri) == b""


async def test_deleting_touches_one_session(store: ArtifactStore) -> None:
    """A session goes with its files, and no other session does."""
    gone = await store.put("default", "s", b"1", "text/plain")
    kept = await store.put("default", "s2", b"1", "text/plain")
    assert await store.delete("default", "s") == 1
    assert await store.delete("default", "s") == 0
    assert await store.get(kept) == b"1"
    with pytest.raises(UnknownArtifact, match="there is no file"):
        await store.get(gone)


@pytest.mark.parametrize(
    "uri",
    [
        "artifact://default/s/../../etc/passwd",
        "artifact://../s/" + "0" * 64 + ".txt",
        "artifact://default/s/" + "0" * 64 + ".txt",
        "file:///etc/passwd",
        "",
    ],
)
async def test_an_address_that_was_not_given_reads_nothing(store: ArtifactStore, uri: str) -> None:
    """Whatever is not the address of a kept file is unknown."""
    await store.put("default", "s", b"abc", "text/plain")
    with pytest.raises(UnknownArtifact):
        await store.get(uri)


async def test_a_link_is_not_followed(tmp_path: Path) -> None:
    """A link in the place of a file leads nowhere."""
    store = LocalArtifacts(tmp_path / "files")
    uri = await store.put("default", "s", b"abc", "text/plain")
    (tmp_path / "secret").write_bytes(b"secret")
    place = tmp_path / "files" / "default" / "s" / uri.rpartition("/")[2]
    place.unlink()
    place.symlink_to(tmp_path / "secret")
    with pytest.raises(ArtifactStoreError):
        await store.get(uri)


async def test_nothing_half_written_is_left(tmp_path: Path) -> None:
    """A folder that cannot be made is told, with its name, and nothing is left."""
    (tmp_path / "files").write_text("in the way")
    with pytest.raises(ArtifactStoreError, match="files"):
        await LocalArtifacts(tmp_path / "files").put("default", "s", b"abc", "text/plain")
    assert os.listdir(tmp_path) == ["files"]  # noqa: PTH208 -- a listing, in a test


async def test_names_that_leave_the_folder_are_refused(tmp_path: Path) -> None:
    """A session whose name no file can bear is refused."""
    with pytest.raises(UnusableId):
        await LocalArtifacts(tmp_path).put("default", "..", b"abc", "text/plain")
    with pytest.raises(UnusableId):
        await LocalArtifacts(tmp_path).delete("../x", "s")
