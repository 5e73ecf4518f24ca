"""The tool that reads a part of what was put away.

It is offered only in a run that put a result away, and reads only files of its own session.
"""

from typing import Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from loom_ia.core.errors import ToolError, UnknownArtifact
from loom_ia.core.json import JsonObject
from loom_ia.core.model.artifacts import parse_artifact_uri
from loom_ia.core.model.content import ToolOutput
from loom_ia.core.model.tooling import ToolSpec
from loom_ia.core.ports.artifacts import ArtifactStore
from loom_ia.core.ports.tools import ToolContext
from loom_ia.core.prompts import Language, prompt_text

ARTIFACT_READ: Final = "artifact_read"


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid")

    ref: str = Field(description="The artifact:// address of the result.")
    offset: int = Field(default=0, ge=0, description="The first character to read.")
    limit: int = Field(default=20_000, ge=1, le=50_000, description="How many characters to read.")


class ArtifactRead:
    """Reads characters of a stored text, from `offset` on, at most `limit`."""

    def __init__(self, store: ArtifactStore, language: Language) -> None:
        self._store = store
        self._language: Language = language
        self.spec = ToolSpec(
            name=ARTIFACT_READ,
            description=(
                "Read a part of a result that was too large to be shown whole, "
                "by its address, counting in characters."
            ),
            input_schema=_Arguments.model_json_schema(),
            kind="builtin",
            offload_over=None,
        )

    async def check(self, arguments: JsonObject) -> str | None:
        """Tell why `arguments` cannot run."""
        try:
            _Arguments.model_validate(arguments)
        except ValidationError as error:
            faults = error.errors(include_url=False, include_input=False)
            return "\n".join(f"{'.'.join(map(str, f['loc']))}: {f['msg']}" for f in faults)
        return None

    async def call(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        """Read; raises `ToolError` for a file that is not of this session."""
        asked = _Arguments.model_validate(arguments)
        address = parse_artifact_uri(asked.ref)
        ours = (context.tenant_id, context.session_id)
        if address is None or (address.tenant_id, address.session_id) != ours:
            raise ToolError(prompt_text(self._language, "unknown_artifact", ref=asked.ref[:200]))
        try:
            data = await self._store.get(asked.ref)
        except UnknownArtifact:
            text = prompt_text(self._language, "unknown_artifact", ref=asked.ref[:200])
            raise ToolError(text) from None
        text = data.decode("utf-8", "replace")
        return ToolOutput.of_text(text[asked.offset : asked.offset + asked.limit])
