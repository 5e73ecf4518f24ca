"""Putting files and large results away, so that the journal and the model keep only what they read.

What a tool did is a fact even when its files cannot be kept: the model is told so.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from loom_ia.core.errors import ArtifactStoreError
from loom_ia.core.events.artifact import ArtifactStored
from loom_ia.core.json import JsonObject, JsonValue, readable
from loom_ia.core.model.artifacts import ArtifactOrigin, NewFile
from loom_ia.core.model.content import ArtifactBlock, TextBlock, ToolOutput
from loom_ia.core.model.tooling import ToolSpec
from loom_ia.core.ports.artifacts import ArtifactStore
from loom_ia.core.prompts import prompt_text
from loom_ia.core.state.run import Header

_SHOWN_TEXT = 2000
_SHOWN_KEYS = 20
_SHOWN_ITEMS = 3
_SHOWN_VALUE = 300


@dataclass(frozen=True, slots=True)
class Keeper:
    """Puts away what one run makes."""

    store: ArtifactStore | None
    header: Header

    async def keep(
        self, output: ToolOutput, tool: ToolSpec, call_id: str
    ) -> tuple[ToolOutput, Sequence[ArtifactStored]]:
        """Give what is left to write of `output`, and the facts about what was put away."""
        if not output.files and (self.store is None or not _is_large(output, tool)):
            return output, ()
        language = self.header.language
        stored: list[ArtifactStored] = []
        try:
            blocks = list(output.shown) if output.files else []
            for file in output.files:
                fact = await self._store(file, "tool_output", call_id)
                stored.append(fact)
                blocks.append(_block(fact))
            if output.files:
                output = output.model_copy(update={"files": (), "blocks": tuple(blocks)})
            if _is_large(output, tool):
                output, fact = await self._offload(output, tool, call_id)
                stored.append(fact)
        except ArtifactStoreError as error:
            text = prompt_text(language, "not_kept", error=type(error).__name__)
            lost = ToolOutput.of_error(text)
            kept = {"state": output.state, "state_refused": output.state_refused}
            return lost.model_copy(update=kept), stored
        return output, stored

    async def _offload(
        self, output: ToolOutput, tool: ToolSpec, call_id: str
    ) -> tuple[ToolOutput, ArtifactStored]:
        text = output.text
        media_type = "text/plain" if output.data is None else "application/json"
        extension = "txt" if output.data is None else "json"
        file = NewFile(data=text.encode(), media_type=media_type, name=f"{tool.name}.{extension}")
        fact = await self._store(file, "offload", call_id)
        hint = prompt_text(self.header.language, "offloaded", size=len(text), ref=fact.uri)
        preview = TextBlock(text=f"{_preview(output)}\n\n{hint}")
        files = tuple(block for block in output.blocks if isinstance(block, ArtifactBlock))
        changes = {"blocks": (preview, *files), "data": None, "offloaded": fact.uri}
        return output.model_copy(update=changes), fact

    async def _store(self, file: NewFile, origin: ArtifactOrigin, call_id: str) -> ArtifactStored:
        header = self.header
        if self.store is None:
            raise ArtifactStoreError("there is no store of files")
        uri = await self.store.put(header.tenant_id, header.session_id, file.data, file.media_type)
        return ArtifactStored(
            uri=uri,
            media_type=file.media_type,
            size=len(file.data),
            name=file.name,
            origin=origin,
            call_id=call_id,
        )


def _is_large(output: ToolOutput, tool: ToolSpec) -> bool:
    limit = tool.offload_over
    return limit is not None and not output.offloaded and len(output.text) > limit


def _block(fact: ArtifactStored) -> ArtifactBlock:
    return ArtifactBlock(uri=fact.uri, media_type=fact.media_type, size=fact.size, name=fact.name)


def _preview(output: ToolOutput) -> str:
    match output.data:
        case dict() as document:
            return _object_preview(document)
        case list() as items:
            shown = [_cut(readable(item)) for item in items[:_SHOWN_ITEMS]]
            return "\n".join((f"[{len(items)}]", *shown))
        case _:
            return output.text[:_SHOWN_TEXT]


def _object_preview(document: JsonObject) -> str:
    lines = [f"{key}: {_summary(value)}" for key, value in list(document.items())[:_SHOWN_KEYS]]
    if len(document) > _SHOWN_KEYS:
        lines.append(f"… ({len(document)})")
    return "\n".join(lines)


def _summary(value: JsonValue) -> str:
    # Twenty keys must fit in what is shown of a text.
    return _cut(readable(value), _SHOWN_TEXT // _SHOWN_KEYS)


def _cut(text: str, limit: int = _SHOWN_VALUE) -> str:
    return text if len(text) <= limit else f"{text[:limit]}…"
