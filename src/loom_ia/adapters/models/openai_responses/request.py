"""Writing a request of the Responses API: one function for each block.

Nothing is kept at the provider, and so nothing is named by the id that it has there, but for
sealed thoughts, which go back as they came: an item that is named and not kept is refused.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from loom_ia.adapters.models.files import Contents, Image, Pdf, TextFile, shown
from loom_ia.adapters.models.strict import qualifies
from loom_ia.adapters.models.turns import (
    AssistantTurn,
    Call,
    Result,
    ResultsTurn,
    Said,
    Text,
    Thought,
    Turn,
    UserTurn,
    sendable,
)
from loom_ia.core.json import JsonObject, JsonValue
from loom_ia.core.model.models import ModelSpec
from loom_ia.core.model.request import Effort, ModelRequest
from loom_ia.core.model.tooling import ToolSpec
from loom_ia.core.prompts import prompt_text

SEALED: Final = "reasoning.encrypted_content"
SCHEMA_NAME: Final = "answer"
SHARED_KEYS: Final = frozenset({"include", "text"})
"""The keys of a request in which the engine and `params` both have their part."""


@dataclass(frozen=True, slots=True)
class Encoder:
    """Writes one request for one model."""

    spec: ModelSpec
    request: ModelRequest
    contents: Contents

    def body(self, turns: list[Turn]) -> JsonObject:
        """Write the whole."""
        return {
            "model": self.spec.model,
            "store": False,
            **self._streaming(),
            **self._included(),
            **self._instructions(),
            "input": list(self._input(turns)),
            **self._tools(),
            **self._limits(),
            **self._format(),
        }

    # -- settings -------------------------------------------------------------------------------

    def _streaming(self) -> JsonObject:
        return {"stream": True} if self.spec.capabilities.streaming else {}

    def _included(self) -> JsonObject:
        # A model that does not reason refuses a request that asks for its thoughts.
        return {"include": [SEALED]} if self.spec.capabilities.thinking else {}

    def _instructions(self) -> JsonObject:
        text = sendable(self.request.system).strip()
        return {"instructions": text} if text else {}

    def _tools(self) -> JsonObject:
        if not self.request.tools:
            return {}
        tools: list[JsonValue] = [_tool(tool) for tool in self.request.tools]
        return {"tools": tools, "tool_choice": self.request.tool_choice}

    def _limits(self) -> JsonObject:
        limit = self.request.max_tokens
        return {} if limit is None else {"max_output_tokens": limit}

    def _format(self) -> JsonObject:
        schema = self.request.output_schema
        if schema is None:
            return {}
        kind: JsonObject = {"type": "json_schema", "name": SCHEMA_NAME, "schema": schema}
        return {"text": {"format": {**kind, "strict": qualifies(schema)}}}

    # -- the conversation -----------------------------------------------------------------------

    def _input(self, turns: list[Turn]) -> Iterator[JsonObject]:
        given: set[str] = set()
        for turn in turns:
            match turn:
                case UserTurn():
                    content: list[JsonValue] = [self._said(part) for part in turn.parts]
                    yield {"type": "message", "role": "user", "content": content}
                case AssistantTurn():
                    yield from _uttered(turn, given)
                case ResultsTurn():
                    yield from (self._result(result) for result in turn.results)

    def _said(self, part: Said) -> JsonObject:
        if isinstance(part, Text):
            return _text(part.text)
        match shown(part, self.spec, self.contents, self.request.language):
            case Image(media_type, data):
                url = f"data:{media_type};base64,{data}"
                return {"type": "input_image", "image_url": url, "detail": "auto"}
            case Pdf(name, data):
                url = f"data:application/pdf;base64,{data}"
                return {"type": "input_file", "filename": name, "file_data": url}
            case TextFile(name, text):
                return _text(f"{name}:\n{text}")
            case str() as text:
                return _text(text)

    def _result(self, result: Result) -> JsonObject:
        parts = [self._said(part) for part in result.parts]
        texts = [part for part in parts if part["type"] == "input_text"]
        output: JsonValue = [*parts] if len(texts) < len(parts) else _joined(texts)
        if result.is_error:
            output = self._failed(output)
        return {"type": "function_call_output", "call_id": result.call_id, "output": output}

    def _failed(self, output: JsonValue) -> JsonValue:
        """Say of an output, before anything else in it, that the call failed."""
        if not isinstance(output, list):
            return prompt_text(self.request.language, "failed_result", text=output)
        return [
            _text(prompt_text(self.request.language, "failed_result", text="").strip()),
            *output,
        ]


def completed(body: JsonObject, shared: Mapping[str, JsonValue]) -> JsonObject:
    """Add to a body what `params` have under keys of ours; on the same thing, ours stands."""
    both: JsonObject = {}
    for key, theirs in shared.items():
        match body.get(key), theirs:
            case list() as ours, list():
                both[key] = [*ours, *(value for value in theirs if value not in ours)]
            case dict() as ours, dict():
                both[key] = {**theirs, **ours}
            case None, _:
                both[key] = theirs
            case ours, _:
                both[key] = ours
    return {**body, **both}


def with_effort(body: JsonObject, effort: Effort) -> JsonObject:
    """Say how much to think, in the place of what `params` say of it."""
    said = body.get("reasoning")
    return {**body, "reasoning": {**(said if isinstance(said, dict) else {}), "effort": effort}}


def _uttered(turn: AssistantTurn, given: set[str]) -> Iterator[JsonObject]:
    """Write what the model said, then its calls, which their results follow.

    A thought stands before what came of it, once, or not at all: `given` has the ids of those
    that are written already.
    """
    messages: list[JsonObject] = []
    calls: list[JsonObject] = []
    thoughts: dict[str, JsonObject] = {}
    for part in turn.parts:
        match part:
            case Thought():
                thoughts |= _thought(part)
                continue
            case Text():
                items, item = messages, _message(part)
            case Call():
                items, item = calls, _call(part)
        items += [each for item_id, each in thoughts.items() if item_id not in given]
        items.append(item)
        given.update(thoughts)
        thoughts = {}
    yield from messages
    yield from calls


def _thought(thought: Thought) -> dict[str, JsonObject]:
    """Write a thought that is sealed, under its id; the provider knows no other."""
    meta = thought.meta
    item_id, sealed = meta.get("id"), meta.get("encrypted_content")
    if not isinstance(item_id, str) or not isinstance(sealed, str) or not sealed:
        return {}
    item: JsonObject = {"type": "reasoning", "id": item_id}
    summary, content = _parts(meta.get("summary")), _parts(meta.get("content"))
    item["summary"] = summary_of(thought.text) if summary is None else summary
    if content is not None:
        item["content"] = content
    return {item_id: {**item, "encrypted_content": sealed}}


def _parts(value: JsonValue) -> list[JsonValue] | None:
    """Give the parts of a thought; None for what is no list of texts."""
    if not isinstance(value, list):
        return None
    texts = (part.get("text") if isinstance(part, dict) else None for part in value)
    return value if all(isinstance(text, str) for text in texts) else None


def summary_of(text: str) -> list[JsonValue]:
    """Give the summary whose text is `text`, when it has one part at most."""
    return [{"type": "summary_text", "text": text}] if text else []


def _message(text: Text) -> JsonObject:
    return {"type": "message", "role": "assistant", "content": text.text}


def _call(call: Call) -> JsonObject:
    # As the model writes them, in its order: what it wrote may be in the cache of the prompt.
    arguments = json.dumps(call.arguments, ensure_ascii=False, separators=(",", ":"))
    named: JsonObject = {"call_id": call.call_id, "name": call.name}
    return {"type": "function_call", **named, "arguments": arguments}


def _tool(tool: ToolSpec) -> JsonObject:
    written: JsonObject = {"type": "function", "name": tool.name}
    if description := sendable(tool.description).strip():
        written["description"] = description
    written["parameters"] = tool.input_schema
    # What is left out is taken for strict, and the schema is then changed or refused.
    return {**written, "strict": qualifies(tool.input_schema)}


def _text(text: str) -> JsonObject:
    return {"type": "input_text", "text": text}


def _joined(parts: list[JsonObject]) -> str:
    return "\n".join(str(part["text"]) for part in parts)
