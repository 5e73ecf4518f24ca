"""Files that were put away."""

from typing import ClassVar

from loom_ia.core.events.envelope import Facet, Fact, Payload, SpanRule
from loom_ia.core.ids import CallId
from loom_ia.core.model.artifacts import ArtifactOrigin, StoredArtifact
from loom_ia.core.model.base import sparse
from loom_ia.core.state.run import RunState


class ArtifactStored(Payload):
    """A file was kept outside the journal.

    It came with the request, was made by a tool, or is a result too large to be read whole. `size`
    is in bytes; `call_id` is empty for what came with the request.
    """

    TYPE = "artifact.stored"
    CATEGORY = "artifact"
    CONTENT = ("name",)
    SPAN: ClassVar[SpanRule] = "call"

    uri: str
    media_type: str
    size: int
    name: str = sparse("")
    origin: ArtifactOrigin
    call_id: CallId = sparse("")

    def facets(self) -> dict[str, Facet]:
        return {"origin": self.origin, "media_type": self.media_type, "size": self.size}

    def evolve(self, run: RunState, fact: Fact) -> RunState:
        del fact
        return run.stored(
            StoredArtifact(
                uri=self.uri,
                media_type=self.media_type,
                size=self.size,
                name=self.name,
                origin=self.origin,
                call_id=self.call_id,
            )
        )
