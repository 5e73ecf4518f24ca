"""Files outside the journal: how they are named, and how their kind is recognised."""

import re
from typing import Final, Literal, NamedTuple, TypeAlias

from loom_ia.core.ids import SessionId, TenantId
from loom_ia.core.model.base import Value, sparse

ArtifactOrigin: TypeAlias = Literal["attachment", "tool_output", "offload"]

_URI: Final = re.compile(
    r"artifact://(?P<tenant>[^/\s]+)/(?P<session>[^/\s]+)/(?P<file>[0-9a-f]{64}\.[a-z0-9]{1,8})"
)

_EXTENSIONS: Final = {
    "image/png": "png",
    "image/jpeg": "jpg",
    "image/gif": "gif",
    "image/webp": "webp",
    "application/pdf": "pdf",
    "application/json": "json",
    "text/plain": "txt",
    "text/csv": "csv",
    "text/html": "html",
}


class NewFile(Value):
    """A file that a tool made. It is stored, and only its address goes any further."""

    data: bytes
    media_type: str = "application/octet-stream"
    name: str = ""


class StoredArtifact(Value):
    """A file that is kept; `size` in bytes, `call_id` the call that made it, if one did.

    `origin` tells what came with the request from what a tool made and from what was too large.
    """

    uri: str
    media_type: str
    size: int
    name: str = sparse("")
    origin: ArtifactOrigin
    call_id: str = sparse("")


class ArtifactAddress(NamedTuple):
    """The parts of an address: `file` is `<sha256>.<extension>`."""

    tenant_id: TenantId
    session_id: SessionId
    file: str

    @property
    def uri(self) -> str:
        """The address as it is written."""
        return f"artifact://{self.tenant_id}/{self.session_id}/{self.file}"


def parse_artifact_uri(uri: str) -> ArtifactAddress | None:
    """Read an address; None when it is none."""
    match = _URI.fullmatch(uri)
    return ArtifactAddress(match["tenant"], match["session"], match["file"]) if match else None


def extension_of(media_type: str) -> str:
    """Give the extension under which a file of that type is kept."""
    return _EXTENSIONS.get(media_type.partition(";")[0].strip().lower(), "bin")


def sniffed_type(data: bytes) -> str:
    """Recognise images and PDF by their first bytes; anything else is octets."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    if data.startswith(b"%PDF-"):
        return "application/pdf"
    return "application/octet-stream"
