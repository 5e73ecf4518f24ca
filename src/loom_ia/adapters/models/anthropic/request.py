"""Writing a request of the Messages API: one function for each block."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

from loom_ia.adapters.models.anthropic.schema import followed
from loom_ia.adapters.models.files import Contents, Image, Pdf, TextFile, shown
from loom_ia.adapters.models.turns import (
    AssistantTurn,
    Call,
    File,
    Result,
    ResultsTurn,
    Said,
    Text,
    Thought,
    Turn,
    UserTurn,
    Uttered,
    sendable,
)
from loom_ia.core.json import JsonObject
from loom_ia.core.model.models import ModelSpec
from loom_ia.core.model.request import ModelRequest, ToolChoice
from loom_ia.core.model.tooling import ToolSpec

MAX_TOKENS: Final = 4096
"""The longest answer when nobody says: the API wants to be told."""

_MOST_MARKS: Final = 4
_LONGEST_TITLE: Final = 500
_THOUGHTS: Final = ("thinking", "redacted_thinking")
_CHOICES: Final[Mapping[ToolChoice, str]] = {"auto": "auto", "none": "none", "required": "any"}

_Blocks: TypeAlias = list[JsonObject]


@dataclass(frozen=True, slots=True)
class _Spoken:
    """A message: roles alternate, so that what follows under the same role belongs to it."""

    role: str
    blocks: _Blocks

    def written(self) -> JsonObject:
        return {"role": self.role, "content": [*self.blocks]}


@dataclass(frozen=True, slots=True)
class Encoder:
    """Writes one request for one model."""

    spec: ModelSpec
    request: ModelRequest
    contents: Contents

    def body(self, turns: list[Turn]) -> JsonObject:
        """Write the whole, `params` apart."""
        system, tools, messages = self._system(), self._tools(turns), self._messages(turns)
        last = turns[-1]
        passing = last.passing if isinstance(last, UserTurn) else 0
        self._mark(system, tools, messages, passing)
        body: JsonObject = {
            "model": self.spec.model,
            "max_tokens": self.request.max_tokens or MAX_TOKENS,
            "messages": [message.written() for message in messages],
        }
        if system:
            body["system"] = [*system]
        if tools:
            choice = self.request.tool_choice if self.request.tools else "none"
            body |= {"tools": [*tools], "tool_choice": {"type": _CHOICES[choice]}}
        if self.spec.capabilities.streaming:
            body["stream"] = True
        return body

    def _system(self) -> _Blocks:
        text = sendable(self.request.system)
        return [_text(text)] if text.strip() else []

    def _tools(self, turns: list[Turn]) -> _Blocks:
        """Give the tools; calls of the past want theirs even when there is none any more."""
        if self.request.tools:
            return [_tool(tool) for tool in self.request.tools]
        used = {
            call.name for turn in turns if isinstance(turn, AssistantTurn) for call in turn.calls
        }
        return [{"name": name, "input_schema": {"type": "object"}} for name in sorted(used)]

    def _messages(self, turns: list[Turn]) -> list[_Spoken]:
        messages: list[_Spoken] = []
        for turn in turns:
            role, blocks = self._turn(turn)
            if messages and messages[-1].role == role:
                messages[-1].blocks.extend(blocks)
            else:
                messages.append(_Spoken(role, blocks))
        return messages

    def _turn(self, turn: Turn) -> tuple[str, _Blocks]:
        match turn:
            case UserTurn():
                return "user", [self._said(part) for part in turn.parts]
            case ResultsTurn():
                return "user", [self._result(result) for result in turn.results]
            case AssistantTurn():
                return "assistant", _thoughts_in_place(list(_uttered(turn.parts)))

    def _said(self, part: Said) -> JsonObject:
        return self._file(part) if isinstance(part, File) else _text(part.text)

    def _file(self, file: File) -> JsonObject:
        match shown(file, self.spec, self.contents, self.request.language):
            case Image(media_type, data):
                return {"type": "image", "source": _base64(media_type, data)}
            case Pdf(name, data):
                return _document(name, _base64("application/pdf", data))
            case TextFile(name, text):
                return _document(name, {"type": "text", "media_type": "text/plain", "data": text})
            case str() as text:
                return _text(text)

    def _result(self, result: Result) -> JsonObject:
        block: JsonObject = {
            "type": "tool_result",
            "tool_use_id": result.call_id,
            "content": [self._said(part) for part in result.parts],
        }
        return {**block, "is_error": True} if result.is_error else block

    def _mark(self, system: _Blocks, tools: _Blocks, messages: list[_Spoken], passing: int) -> None:
        """Mark where the cache ends: after the tools, the system, and what the user said last.

        What was said before is marked too, for the call before this one ended its cache there:
        behind a long answer it would not be found. The last `passing` blocks are not marked: they
        will not be there in the next call, which could not go on from them.
        """
        cache = self.spec.cache
        if cache is None:
            return
        said = [message.blocks for message in messages if message.role == "user"]
        said[-1] = said[-1][: len(said[-1]) - passing]
        marked = [tools] if cache.tools else []
        marked += [system] if cache.system else []
        marked += reversed(said[-2:]) if cache.messages else ()
        mark: JsonObject = {"type": "ephemeral"}
        if cache.ttl == "1h":
            mark["ttl"] = cache.ttl
        # One in `params` marks the whole by itself, and counts.
        most = _MOST_MARKS - ("cache_control" in self.request.params)
        for blocks in [blocks for blocks in marked if blocks][:most]:
            blocks[-1]["cache_control"] = mark


def with_params(body: dict[str, Any], request: ModelRequest) -> JsonObject:
    """Put what the engine asks and what `params` ask together, where they meet.

    The shape of the answer and the effort join what `output_config` says. A call that cannot think
    is made without `thinking`: one that must call a tool, and one that goes on with the tools of
    another model, on a budget of thoughts that this one did not begin.
    """
    settled = dict(body)
    if request.output_schema is not None:
        shape = {"type": "json_schema", "schema": followed(request.output_schema)}
        settled["output_config"] = {**_section(settled, "output_config"), "format": shape}
    if request.effort is not None:
        settled["output_config"] = {**_section(settled, "output_config"), "effort": request.effort}
    if not _may_think(body):
        settled.pop("thinking", None)
    return settled


def _may_think(body: Mapping[str, Any]) -> bool:
    how = _section(body, "thinking").get("type", "disabled")
    if how != "disabled" and body.get("tool_choice") == {"type": "any"}:
        return False
    return how != "enabled" or _began_with_a_thought(body["messages"])


def _section(body: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = body.get(key)
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _began_with_a_thought(messages: list[dict[str, Any]]) -> bool:
    """Whether the turn whose tools run, if any, began with a thought."""
    first: list[dict[str, Any]] | None = None
    for message in reversed(messages):
        if message["role"] == "assistant":
            first = message["content"]
        elif all(block["type"] != "tool_result" for block in message["content"]):
            break
    return first is None or first[0]["type"] in _THOUGHTS


def _uttered(parts: tuple[Uttered, ...]) -> Iterator[JsonObject]:
    for part in parts:
        match part:
            case Text(text):
                yield _text(text)
            case Call(call_id, name, arguments):
                yield {"type": "tool_use", "id": call_id, "name": name, "input": arguments}
            case Thought():
                yield from _thought(part)


def _thought(thought: Thought) -> Iterator[JsonObject]:
    """Give a thought as it came; the API takes none without its seal, which is a text."""
    sealed, signature = thought.meta.get("redacted_data"), thought.meta.get("signature")
    if isinstance(sealed, str) and sealed:
        yield {"type": "redacted_thinking", "data": sealed}
    elif isinstance(signature, str) and signature:
        yield {"type": "thinking", "thinking": thought.text, "signature": signature}


def _thoughts_in_place(blocks: _Blocks) -> _Blocks:
    """Leave out the thoughts that are refused: after a beginning that is none, and at the end."""
    if blocks[0]["type"] not in _THOUGHTS:
        return [block for block in blocks if block["type"] not in _THOUGHTS]
    while blocks[-1]["type"] in _THOUGHTS:
        blocks = blocks[:-1]
    return blocks


def _text(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def _base64(media_type: str, data: str) -> JsonObject:
    return {"type": "base64", "media_type": media_type, "data": data}


def _document(name: str, source: JsonObject) -> JsonObject:
    return {"type": "document", "source": source, "title": name[:_LONGEST_TITLE]}


def _tool(tool: ToolSpec) -> JsonObject:
    description = sendable(tool.description)
    told: JsonObject = {"description": description} if description.strip() else {}
    return {"name": tool.name, **told, "input_schema": tool.input_schema}
