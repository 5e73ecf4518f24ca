"""What a model streams, and how a whole answer is put together from it.

Chunks are never journalled: the message that they add up to is. A `Reset` says that the attempt
is abandoned: a consumer drops what it showed of it.
"""

from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, assert_never

from pydantic_core import from_json

from loom_ia.core.json import JsonObject, JsonValue, storable, storable_text
from loom_ia.core.model.content import AnyBlock, ReasoningBlock, TextBlock, ToolCallBlock
from loom_ia.core.model.messages import Message
from loom_ia.core.model.usage import Usage

StopReason: TypeAlias = Literal["end", "tool_use", "max_tokens", "refusal"]

INVALID_ARGUMENTS: Final = "_loom_invalid_json"
"""The argument under which text that is not a JSON object is kept."""


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """A piece of what the model thinks."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallStarted:
    """The model begins to ask for a call."""

    call_id: str
    name: str


@dataclass(frozen=True, slots=True)
class ToolArgsDelta:
    """A piece of the arguments, as JSON text."""

    call_id: str
    fragment: str


@dataclass(frozen=True, slots=True)
class ToolCallEnded:
    """The arguments of the call are complete."""

    call_id: str


@dataclass(frozen=True, slots=True)
class UsageReported:
    """Tokens consumed so far by this attempt."""

    usage: Usage


@dataclass(frozen=True, slots=True)
class Stopped:
    """The model ended its answer. A stream without it was cut."""

    reason: StopReason


@dataclass(frozen=True, slots=True)
class Reset:
    """Forget what this attempt streamed."""


ModelChunk: TypeAlias = (
    TextDelta
    | ReasoningDelta
    | ToolCallStarted
    | ToolArgsDelta
    | ToolCallEnded
    | UsageReported
    | Stopped
    | Reset
)


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer. `mended` lists the paths whose text the journal could not hold as it was."""

    blocks: tuple[AnyBlock, ...]
    usage: Usage
    stop_reason: StopReason
    mended: tuple[str, ...] = ()

    @property
    def message(self) -> Message:
        """The answer as a message; an answer of nothing is an empty text."""
        return Message.trusted(role="assistant", blocks=self.blocks or (TextBlock(text=""),))


@dataclass(slots=True)
class Assembler:
    """Put chunks together. Feed it every chunk, then take the `answer`."""

    model_id: str = ""
    _parts: list[list[str]] = field(default_factory=list[list[str]])
    _kinds: list[str] = field(default_factory=list[str])
    _calls: dict[str, tuple[str, list[str]]] = field(
        default_factory=dict[str, "tuple[str, list[str]]"]
    )
    _usage: Usage = field(default_factory=Usage)
    _stop: StopReason | None = None

    def feed(self, chunk: ModelChunk) -> None:
        """Take one chunk."""
        match chunk:
            case TextDelta():
                self._add("text", chunk.text)
            case ReasoningDelta():
                self._add("reasoning", chunk.text)
            case ToolCallStarted():
                self._start_call(chunk)
            case ToolArgsDelta():
                self._calls[chunk.call_id][1].append(chunk.fragment)
            case ToolCallEnded():
                pass
            case UsageReported():
                self._usage = chunk.usage
            case Stopped():
                self._stop = chunk.reason
            case Reset():
                self._parts, self._kinds, self._calls = [], [], {}
                self._usage, self._stop = Usage(), None
            case _:
                assert_never(chunk)

    @property
    def answer(self) -> Answer | None:
        """The whole answer, or None when the stream was cut before its end."""
        if self._stop is None:
            return None
        mended: list[str] = []
        blocks: list[AnyBlock] = []
        for kind, part in zip(self._kinds, self._parts, strict=True):
            if kind == "call":
                blocks.append(self._call_block(part[0], mended))
                continue
            text = "".join(part)
            if not text:
                continue
            safe = storable_text(text)
            if safe is not text:
                mended.append(kind)
            blocks.append(
                TextBlock(text=safe)
                if kind == "text"
                else ReasoningBlock(text=safe, model_id=self.model_id)
            )
        return Answer(tuple(blocks), self._usage, self._stop, tuple(mended))

    def _add(self, kind: str, text: str) -> None:
        if self._kinds and self._kinds[-1] == kind:
            self._parts[-1].append(text)
        else:
            self._kinds.append(kind)
            self._parts.append([text])

    def _start_call(self, chunk: ToolCallStarted) -> None:
        self._kinds.append("call")
        self._parts.append([chunk.call_id])
        self._calls[chunk.call_id] = (chunk.name, [])

    def _call_block(self, call_id: str, mended: list[str]) -> ToolCallBlock:
        name, fragments = self._calls[call_id]
        arguments, paths = read_arguments("".join(fragments))
        mended.extend(f"{call_id}{path}" for path in paths)
        return ToolCallBlock.trusted(
            cache_breakpoint=False,
            provider_meta={},
            type="tool_call",
            call_id=storable_text(call_id),
            name=storable_text(name),
            arguments=arguments,
        )


def read_arguments(text: str) -> tuple[JsonObject, tuple[str, ...]]:
    """Read the arguments of a call, with the paths whose text was mended.

    Text that is not a JSON object that the journal can hold is kept whole under
    `INVALID_ARGUMENTS`, for the model to be told so. No text at all means no arguments.
    """
    if not text.strip():
        return {}, ()
    try:
        value: JsonValue = from_json(text, allow_inf_nan=False)
        safe, mended = storable(value)
    except ValueError:
        return {INVALID_ARGUMENTS: storable_text(text)}, ()
    if isinstance(safe, dict):
        return safe, mended
    return {INVALID_ARGUMENTS: storable_text(text)}, ()
