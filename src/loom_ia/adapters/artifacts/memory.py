"""Files in the memory of the process, for tests and trials."""

from hashlib import sha256

from loom_ia.core.errors import UnknownArtifact
from loom_ia.core.ids import SessionId, TenantId
from loom_ia.core.model.artifacts import ArtifactAddress, extension_of


class MemoryArtifacts:
    """Keeps files as long as the process lives."""

    def __init__(self) -> None:
        self._files: dict[str, bytes] = {}

    async def put(
        self, tenant_id: TenantId, session_id: SessionId, data: bytes, media_type: str
    ) -> str:
        """Keep `data` and return its address."""
        file = f"{sha256(data).hexdigest()}.{extension_of(media_type)}"
        uri = ArtifactAddress(tenant_id, session_id, file).uri
        self._files[uri] = data
        return uri

    async def get(self, uri: str) -> bytes:
        """Read a file; raises `UnknownArtifact`."""
        try:
            return self._files[uri]
        except KeyError:
            raise UnknownArtifact("there is no file {uri}", uri=uri) from None

    async def delete(self, tenant_id: TenantId, session_id: SessionId) -> int:
        """Remove the files of a session; returns how many there were."""
        prefix = f"artifact://{tenant_id}/{session_id}/"
        gone = [uri for uri in self._files if uri.startswith(prefix)]
        for uri in gone:
            del self._files[uri]
        return len(gone)
