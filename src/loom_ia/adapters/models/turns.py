"""A conversation as every provider accepts it, in no provider's words yet.

Law. Whatever the journal holds, what comes out is valid: roles alternate between the user's side
and the assistant's, each call is followed by exactly one result in the order of the calls, ids of
calls are unique and made of plain characters, no text is empty, none has a NUL in it but those of
thoughts, which go only to the model that had them, and the last word is never the assistant's. An
encoder only translates.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import chain
from typing import Final, Literal, TypeAlias

from loom_ia.core.json import JsonObject, JsonValue, readable, storable_text
from loom_ia.core.model.content import (
    AnyBlock,
    ArtifactBlock,
    JsonBlock,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolOutput,
    ToolResultBlock,
)
from loom_ia.core.model.messages import Message
from loom_ia.core.model.models import ModelSpec
from loom_ia.core.model.request import ModelRequest
from loom_ia.core.prompts import Language, prompt_text

_LONGEST_ID: Final = 40
_ID: Final = re.compile(rf"[A-Za-z0-9_-]{{1,{_LONGEST_ID}}}")
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NOT_PLAIN: Final = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Text:
    """Text that is not blank."""

    text: str


@dataclass(frozen=True, slots=True)
class File:
    """A file of the conversation, to be given as the model can take it."""

    block: ArtifactBlock


@dataclass(frozen=True, slots=True)
class Thought:
    """What this very model thought; `meta` is what its API wants back with it."""

    text: str
    meta: JsonObject


@dataclass(frozen=True, slots=True)
class Call:
    """A call, under an id and a name that every provider accepts."""

    call_id: str
    name: str
    arguments: JsonObject


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a call; there is always something to read in it.

    `is_marker` tells that the call gave nothing, and that what is to be read says so.
    """

    call_id: str
    parts: tuple[Text | File, ...]
    is_error: bool = False
    is_marker: bool = False


Said: TypeAlias = Text | File
Uttered: TypeAlias = Text | Thought | Call


@dataclass(frozen=True, slots=True)
class UserTurn:
    """What the user says; what the engine adds by itself, while a run goes on, asks nothing.

    The last `passing` parts are said for this call alone, and are not there in the next one.
    """

    parts: tuple[Said, ...]
    asks: bool = True
    passing: int = 0


@dataclass(frozen=True, slots=True)
class AssistantTurn:
    """What the model said, in the order in which it did."""

    parts: tuple[Uttered, ...]

    @property
    def calls(self) -> tuple[Call, ...]:
        """The calls, in order."""
        return tuple(part for part in self.parts if isinstance(part, Call))

    @property
    def text(self) -> str:
        """The text, joined."""
        return "\n\n".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def thoughts(self) -> tuple[Thought, ...]:
        """The thoughts, in order."""
        return tuple(part for part in self.parts if isinstance(part, Thought))


@dataclass(frozen=True, slots=True)
class ResultsTurn:
    """The results of the calls of the turn before, in the order of the calls."""

    results: tuple[Result, ...]


Turn: TypeAlias = UserTurn | AssistantTurn | ResultsTurn

_Marker: TypeAlias = Literal[
    "empty_message", "go_on", "cancelled_call", "files_of_result", "empty_result"
]


def turns_of(request: ModelRequest, spec: ModelSpec, api: str) -> list[Turn]:
    """Give the conversation of a request, valid for `spec`; `api` names what thoughts are kept as.

    Files inside results follow them in a turn of the user, unless the model takes them there.
    """
    writer = _Writer(spec, api, request.language)
    for message in chain(request.history, request.messages):
        writer.take(message)
    for note in request.notes:
        writer.take(note, asks=False, passes=True)
    return writer.finished()


def without_thoughts(request: ModelRequest) -> ModelRequest:
    """Give the request without what the model thought; the very same one when there is none."""
    messages = tuple(map(_unthought, request.messages))
    if all(new is old for new, old in zip(messages, request.messages, strict=True)):
        return request
    return replace(request, messages=messages)


def _unthought(message: Message) -> Message:
    kept = tuple(block for block in message.blocks if not isinstance(block, ReasoningBlock))
    if len(kept) == len(message.blocks):
        return message
    return Message.trusted(role=message.role, blocks=kept)


@dataclass(slots=True)
class _Writer:
    spec: ModelSpec
    api: str
    language: Language
    turns: list[Turn] = field(default_factory=list[Turn])
    pending: list[tuple[str, Call]] = field(default_factory=list[tuple[str, Call]])
    used: dict[str, int] = field(default_factory=dict[str, int])
    """The ids that are taken, each with the last number that was put after it."""

    def take(self, message: Message, *, asks: bool = True, passes: bool = False) -> None:
        if message.role == "tool":
            self._results(message.blocks)
            return
        self._settle({})
        if message.role == "user":
            self._user(tuple(self._said(message.blocks)), asks=asks, passes=passes)
        else:
            self._assistant(message.blocks)

    def finished(self) -> list[Turn]:
        self._settle({})
        if not self.turns or isinstance(self.turns[0], AssistantTurn):
            self.turns.insert(0, UserTurn((self._text("empty_message"),)))
        if isinstance(self.turns[-1], AssistantTurn):
            self.turns.append(UserTurn((self._text("go_on"),), asks=False))
        return self.turns

    def _text(self, name: _Marker, **params: object) -> Text:
        return Text(prompt_text(self.language, name, **params))

    def _user(self, parts: tuple[Said, ...], *, asks: bool, passes: bool) -> None:
        last = self.turns[-1] if self.turns else None
        passing = len(parts) if passes else 0
        if isinstance(last, UserTurn):
            passing += last.passing
            self.turns[-1] = UserTurn((*last.parts, *parts), last.asks or asks, passing)
            return
        self.turns.append(UserTurn(parts or (self._text("empty_message"),), asks, passing))

    def _said(self, blocks: Sequence[AnyBlock]) -> Iterator[Said]:
        for block in blocks:
            match block:
                case ArtifactBlock():
                    yield File(block)
                case TextBlock() | JsonBlock():
                    if text := _readable(block):
                        yield Text(text)
                case _:
                    pass

    def _assistant(self, blocks: Sequence[AnyBlock]) -> None:
        parts = tuple(self._uttered(blocks))
        if all(isinstance(part, Thought) for part in parts):
            return
        last = self.turns[-1] if self.turns else None
        if isinstance(last, AssistantTurn):
            self.turns[-1] = AssistantTurn((*last.parts, *parts))
        else:
            self.turns.append(AssistantTurn(parts))

    def _uttered(self, blocks: Sequence[AnyBlock]) -> Iterator[Uttered]:
        for block in blocks:
            match block:
                case TextBlock() | JsonBlock():
                    if text := _readable(block):
                        yield Text(text)
                case ReasoningBlock():
                    meta = block.provider_meta.get(self.api, {})
                    own = (block.model or self.spec.id, block.model_id)
                    if own == (self.spec.id, self.spec.model) and (block.text or meta):
                        yield Thought(storable_text(block.text), meta)
                case ToolCallBlock():
                    arguments = {sendable(k): _sendable(v) for k, v in block.arguments.items()}
                    call = Call(self._free_id(block.call_id), safe_name(block.name), arguments)
                    self.pending.append((block.call_id, call))
                    yield call
                case ArtifactBlock():
                    yield self._mention(block)
                case ToolResultBlock():
                    pass

    def _mention(self, block: ArtifactBlock) -> Text:
        return Text(mention(block, self.language))

    def _named(self, file: File) -> Text:
        """Name a file where it cannot stand: it follows, unless the model cannot read it."""
        block = file.block
        if not takes(self.spec, file):
            return self._mention(block)
        return Text(sendable(f"{block.name.strip() or block.uri} ({block.media_type})"))

    def _free_id(self, call_id: str) -> str:
        """Give an id of plain characters that no call of the conversation has yet."""
        plain = call_id if _ID.fullmatch(call_id) else _plain(call_id)
        free, number = plain, self.used.get(plain, 1)
        while free in self.used:
            number += 1
            mark = f"_{number}"
            free = plain[: _LONGEST_ID - len(mark)] + mark
        self.used[plain], self.used[free] = number, 1
        return free

    def _results(self, blocks: Sequence[AnyBlock]) -> None:
        outputs: dict[str, list[ToolOutput]] = {}
        for block in blocks:
            if isinstance(block, ToolResultBlock):
                outputs.setdefault(block.call_id, []).append(block.output)
        self._settle(outputs)

    def _settle(self, outputs: dict[str, list[ToolOutput]]) -> None:
        """Answer the calls that wait; one whose result is not there was cancelled."""
        if not self.pending:
            return
        results: list[Result] = []
        apart: list[Said] = []
        for original, call in self.pending:
            given = outputs.get(original)
            if not given:
                results.append(Result(call.call_id, (self._text("cancelled_call"),), is_error=True))
                continue
            result, files = self._result(call, given.pop(0))
            results.append(result)
            apart += files
        self.pending = []
        self.turns.append(ResultsTurn(tuple(results)))
        if apart:
            self.turns.append(UserTurn(tuple(apart), asks=False))

    def _result(self, call: Call, output: ToolOutput) -> tuple[Result, list[Said]]:
        parts = list(self._said(output.shown))
        apart: list[Said] = []
        if not self.spec.capabilities.tool_result_media:
            apart += [part for part in parts if isinstance(part, File) and takes(self.spec, part)]
            parts = [self._named(part) if isinstance(part, File) else part for part in parts]
        if apart:
            apart.insert(0, self._text("files_of_result", call_id=call.call_id))
        if is_empty := not parts:
            parts = [self._text("empty_result")]
        return Result(call.call_id, tuple(parts), output.is_error, is_empty), apart


def takes(spec: ModelSpec, file: File) -> bool:
    """Whether the model can be given the content of a file."""
    kind, _, subtype = media_type(file.block).partition("/")
    can = spec.capabilities
    if kind == "image":
        limit = can.max_image_bytes
        return (
            can.vision
            and subtype in can.image_formats
            and (limit is None or file.block.size <= limit)
        )
    return can.documents and (
        kind == "text" or (kind, subtype) in {("application", "pdf"), ("application", "json")}
    )


def media_type(block: ArtifactBlock) -> str:
    """Give the type that a file is said to have, in lower case and without its parameters."""
    declared = block.media_type.partition(";")[0].strip().lower()
    return "image/jpeg" if declared == "image/jpg" else declared  # which is no type, and is common


def mention(block: ArtifactBlock, language: Language) -> str:
    """Name a file to a model that is not given its content."""
    return prompt_text(
        language,
        "file_not_shown",
        name=sendable(block.name or block.uri),
        media_type=block.media_type,
        size=block.size,
    )


def safe_name(name: str) -> str:
    """Give a name of a tool that every provider accepts, for a call of a tool that is not one."""
    return name if _NAME.fullmatch(name) else (_NOT_PLAIN.sub("_", name)[:64] or "unknown")


def _plain(call_id: str) -> str:
    mark = sha256(call_id.encode("utf-8", "replace")).hexdigest()[:8]
    return f"{_NOT_PLAIN.sub('_', call_id)[:30]}_{mark}"


def _readable(block: TextBlock | JsonBlock) -> str:
    """Give the text of a block, empty when there is nothing to read in it."""
    text = block.text if isinstance(block, TextBlock) else readable(block.data)
    return sendable(text) if text.strip() else ""


def sendable(text: str) -> str:
    """Replace by U+FFFD what UTF-8 cannot hold in `text`, and NUL, which many servers refuse."""
    return storable_text(text).replace("\0", "\N{REPLACEMENT CHARACTER}")


def _sendable(value: JsonValue) -> JsonValue:
    match value:
        case str():
            return sendable(value)
        case list():
            return [_sendable(each) for each in value]
        case dict():
            return {sendable(key): _sendable(each) for key, each in value.items()}
        case _:
            return value
