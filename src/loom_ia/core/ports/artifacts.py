"""A store of files, by the digest of their content, for each session."""

from typing import Protocol

from loom_ia.core.ids import SessionId, TenantId


class ArtifactStore(Protocol):
    """Keeps bytes outside the journal. Every adapter passes the same contract suite."""

    async def put(
        self, tenant_id: TenantId, session_id: SessionId, data: bytes, media_type: str
    ) -> str:
        """Keep `data` and return its `artifact://` address; the same content is kept once.

        When it returns, the file survives a power cut. Raises `ArtifactStoreError`.
        """
        ...

    async def get(self, uri: str) -> bytes:
        """Read a file; raises `UnknownArtifact`, and `ArtifactStoreError`."""
        ...

    async def delete(self, tenant_id: TenantId, session_id: SessionId) -> int:
        """Remove the files of a session; returns how many there were."""
        ...
