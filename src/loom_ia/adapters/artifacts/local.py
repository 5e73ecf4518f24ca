"""Files in a folder: `<root>/<tenant>/<session>/<sha256>.<extension>`.

A file is written beside its place, flushed, and moved there, so that it is whole or absent. Nothing
outside `<root>/<tenant>/<session>` is ever read or removed: names are checked, links not followed.
"""

import asyncio
import contextlib
import os
import shutil
import tempfile
from hashlib import sha256
from pathlib import Path

from loom_ia.core.errors import ArtifactStoreError, UnknownArtifact
from loom_ia.core.ids import SessionId, TenantId, is_safe_id, require_safe_id
from loom_ia.core.model.artifacts import ArtifactAddress, extension_of, parse_artifact_uri


class LocalArtifacts:
    """Keeps files under `root`, which is made when first needed."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self._root = Path(root)

    async def put(
        self, tenant_id: TenantId, session_id: SessionId, data: bytes, media_type: str
    ) -> str:
        """Keep `data` and return its address; raises `ArtifactStoreError`, `UnusableId`."""
        folder = self._folder(tenant_id, session_id)
        file = f"{sha256(data).hexdigest()}.{extension_of(media_type)}"
        try:
            await asyncio.to_thread(_write, folder, file, data)
        except OSError as error:
            raise ArtifactStoreError(
                "a file cannot be kept in {folder}: {reason}",
                folder=folder,
                reason=error.strerror or type(error).__name__,
            ) from error
        return ArtifactAddress(tenant_id, session_id, file).uri

    async def get(self, uri: str) -> bytes:
        """Read a file; raises `UnknownArtifact`, `ArtifactStoreError`."""
        address = parse_artifact_uri(uri)
        if address is None or not (
            is_safe_id(address.tenant_id) and is_safe_id(address.session_id)
        ):
            raise UnknownArtifact("{uri} is not the address of a file", uri=uri[:200])
        path = self._root / address.tenant_id / address.session_id / address.file
        try:
            return await asyncio.to_thread(_read, path)
        except FileNotFoundError:
            raise UnknownArtifact("there is no file {uri}", uri=uri) from None
        except OSError as error:
            raise ArtifactStoreError(
                "{uri} cannot be read: {reason}",
                uri=uri,
                reason=error.strerror or type(error).__name__,
            ) from error

    async def delete(self, tenant_id: TenantId, session_id: SessionId) -> int:
        """Remove the files of a session; returns how many there were."""
        folder = self._folder(tenant_id, session_id)
        try:
            return await asyncio.to_thread(_remove, folder)
        except OSError as error:
            raise ArtifactStoreError(
                "the files in {folder} cannot be removed: {reason}",
                folder=folder,
                reason=error.strerror or type(error).__name__,
            ) from error

    def _folder(self, tenant_id: TenantId, session_id: SessionId) -> Path:
        tenant = require_safe_id(tenant_id, "tenant id")
        return self._root / tenant / require_safe_id(session_id, "session id")


def _write(folder: Path, file: str, data: bytes) -> None:
    target = folder / file
    with contextlib.suppress(FileNotFoundError):
        if target.stat().st_size == len(data):
            return
    folder.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=folder, prefix=".new-")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _read(path: Path) -> bytes:
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    with os.fdopen(handle, "rb") as stream:
        return stream.read()


def _remove(folder: Path) -> int:
    if folder.is_symlink() or not folder.is_dir():
        return 0
    count = sum(1 for entry in folder.iterdir() if not entry.name.startswith(".new-"))
    shutil.rmtree(folder)
    return count
