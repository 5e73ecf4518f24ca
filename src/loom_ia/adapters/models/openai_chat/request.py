"""Writing a request of Chat Completions: one function for each block."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from loom_ia.adapters.models.files import Contents, Image, Pdf, TextFile, shown
from loom_ia.adapters.models.openai_chat.thoughts import thoughts_of
from loom_ia.adapters.models.strict import qualifies
from loom_ia.adapters.models.turns import (
    AssistantTurn,
    Call,
    Result,
    ResultsTurn,
    Said,
    Text,
    Turn,
    UserTurn,
    sendable,
)
from loom_ia.core.json import JsonObject, JsonValue
from loom_ia.core.model.models import ModelSpec
from loom_ia.core.model.request import ModelRequest
from loom_ia.core.model.tooling import ToolSpec
from loom_ia.core.prompts import prompt_text

SCHEMA_NAME: Final = "answer"
OFFICIAL_HOST: Final = "api.openai.com"


@dataclass(frozen=True, slots=True)
class Encoder:
    """Writes one request for one model."""

    spec: ModelSpec
    request: ModelRequest
    contents: Contents

    def body(self, turns: list[Turn]) -> JsonObject:
        """Write the whole."""
        messages = [*self._system(), *self._messages(turns)]
        return {
            "model": self.spec.model,
            "messages": messages,
            **self._limits(),
            **self._streaming(),
            **self._tools(),
            **self._format(),
        }

    def _limits(self) -> JsonObject:
        limit = self.request.max_tokens
        if limit is None:
            return {}
        # Servers that are only compatible know the name that OpenAI has left.
        host = urlsplit(self.spec.base_url or "").hostname
        is_official = host is None or host.endswith(OFFICIAL_HOST)
        return {"max_completion_tokens" if is_official else "max_tokens": limit}

    def _streaming(self) -> JsonObject:
        if not self.spec.capabilities.streaming:
            return {}
        return {"stream": True, "stream_options": {"include_usage": True}}

    def _tools(self) -> JsonObject:
        if not self.request.tools:
            return {}
        tools: list[JsonValue] = [_tool(tool) for tool in self.request.tools]
        return {"tools": tools, "tool_choice": self.request.tool_choice}

    def _format(self) -> JsonObject:
        schema = self.request.output_schema
        if schema is None:
            return {}
        named: JsonObject = {"name": SCHEMA_NAME, "schema": schema, "strict": qualifies(schema)}
        return {"response_format": {"type": "json_schema", "json_schema": named}}

    def _system(self) -> Iterator[JsonValue]:
        if text := sendable(self.request.system).strip():
            yield {"role": "system", "content": text}

    def _messages(self, turns: list[Turn]) -> Iterator[JsonValue]:
        for turn, thoughts in zip(turns, thoughts_of(turns, self.spec), strict=True):
            match turn:
                case UserTurn():
                    yield {"role": "user", "content": self._said(turn.parts)}
                case AssistantTurn():
                    yield {**_uttered(turn), **thoughts}
                case ResultsTurn():
                    yield from (self._result(result) for result in turn.results)

    def _said(self, parts: tuple[Said, ...]) -> JsonValue:
        written = [self._part(part) for part in parts]
        if all(part["type"] == "text" for part in written):  # many servers read no list
            return "\n\n".join(str(part["text"]) for part in written)
        return [*written]

    def _part(self, part: Said) -> JsonObject:
        if isinstance(part, Text):
            return _text(part.text)
        match shown(part, self.spec, self.contents, self.request.language):
            case Image(media_type, data):
                url = f"data:{media_type};base64,{data}"
                return {"type": "image_url", "image_url": {"url": url}}
            case Pdf(name, data):
                url = f"data:application/pdf;base64,{data}"
                return {"type": "file", "file": {"filename": name, "file_data": url}}
            case TextFile(name, text):
                return _text(f"{name}:\n{text}")
            case str() as text:
                return _text(text)

    def _result(self, result: Result) -> JsonValue:
        text = "\n".join(part.text for part in result.parts if isinstance(part, Text))
        if result.is_marker and not result.is_error:
            text = ""  # which this API takes, and which is what the tool gave
        elif result.is_error:
            text = prompt_text(self.request.language, "failed_result", text=text)
        return {"role": "tool", "tool_call_id": result.call_id, "content": text}


def _uttered(turn: AssistantTurn) -> JsonObject:
    message: JsonObject = {"role": "assistant", "content": turn.text or None}
    if turn.calls:
        message["tool_calls"] = [_call(call) for call in turn.calls]
    return message


def _text(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def _call(call: Call) -> JsonValue:
    # In the order in which the model wrote them, so that what it wrote is found in its cache.
    arguments = json.dumps(call.arguments, ensure_ascii=False, separators=(",", ":"))
    function: JsonObject = {"name": call.name, "arguments": arguments}
    return {"id": call.call_id, "type": "function", "function": function}


def _tool(tool: ToolSpec) -> JsonObject:
    function: JsonObject = {
        "name": tool.name,
        "description": sendable(tool.description),
        "parameters": tool.input_schema,
    }
    if qualifies(tool.input_schema):
        function["strict"] = True
    return {"type": "function", "function": function}
