"""Putting results in the place of the references that arguments hold.

The journal keeps the reference; the content is looked up again whenever it is needed, whole, also
when the model only read its beginning.
"""

import json
from collections.abc import Sequence
from typing import cast

from loom_ia.core.errors import ArtifactStoreError, ToolError, UnknownArtifact
from loom_ia.core.json import JsonObject, JsonValue, readable
from loom_ia.core.model.content import ToolOutput
from loom_ia.core.model.tooling import ToolSpec, takes_references
from loom_ia.core.ports.artifacts import ArtifactStore
from loom_ia.core.prompts import Language, prompt_text
from loom_ia.core.state.calls import Call
from loom_ia.core.state.references import call_named, reference_in


async def resolved(
    arguments: JsonObject,
    tool: ToolSpec,
    past: Sequence[Call],
    files: ArtifactStore | None,
    language: Language,
) -> JsonObject:
    """Give arguments of a call with results in the place of references to them.

    Raises `ToolError`, for the model, when one stands for nothing that can be given.
    """
    if not takes_references(tool.kind):
        return arguments
    found = dict(arguments)
    for name, value in arguments.items():
        reference = reference_in(value)
        if reference is not None:
            output = _output(name, reference, past, language)
            try:
                content = await content_of(output, files)
            except (UnknownArtifact, ArtifactStoreError):
                text = prompt_text(language, "lost_reference", argument=name, ref=reference)
                raise ToolError(text) from None
            found[name] = _fitted(content, name, tool)
    return found


async def content_of(output: ToolOutput, files: ArtifactStore | None) -> JsonValue:
    """Give what a result says: its data, or else its text; whole, if only a part was shown.

    Raises `UnknownArtifact` and `ArtifactStoreError`.
    """
    if not output.offloaded or files is None:
        return output.text if output.data is None else output.data
    text = (await files.get(output.offloaded)).decode("utf-8", "replace")
    if not output.offloaded.endswith(".json"):
        return text
    try:
        return cast("JsonValue", json.loads(text))
    except ValueError:  # several blocks
        return text


def _output(name: str, reference: str, past: Sequence[Call], language: Language) -> ToolOutput:
    call = call_named(reference, past)
    said = {"argument": name, "ref": reference}
    if call is None and not past:
        raise ToolError(prompt_text(language, "no_reference_yet", **said))
    if call is None:
        raise ToolError(prompt_text(language, "unknown_reference", **said, last=len(past)))
    output = call.output
    if output is None or output.is_error:
        raise ToolError(prompt_text(language, "failed_reference", **said))
    if not output.shown:
        raise ToolError(prompt_text(language, "empty_reference", **said))
    return output


def _fitted(content: JsonValue, name: str, tool: ToolSpec) -> JsonValue:
    """Give a document as a text where the tool asks for one."""
    properties = tool.input_schema.get("properties")
    asked = properties.get(name) if isinstance(properties, dict) else None
    kind = asked.get("type") if isinstance(asked, dict) else None
    return readable(content) if kind == "string" and not isinstance(content, str) else content
