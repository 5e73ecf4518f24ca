"""What a model streams, and how a whole answer is put together from it.

Chunks are never journalled: the message that they add up to is. A `Reset` says that the attempt
is abandoned: a consumer drops what it showed of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, assert_never

from pydantic_core import from_json

from loom_ia.core.errors import UnstorableValue
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
    """A piece of what the model thinks.

    Pieces with another `block` are another thought. `meta` is what the provider wants back with
    it, under the name of its API; the last value of a key counts.
    """

    text: str
    block: int = 0
    meta: Mapping[str, JsonObject] = field(default_factory=dict[str, JsonObject])


@dataclass(frozen=True, slots=True)
class ToolCallStarted:
    """The model begins to ask for a call.

    `rank` is its place among the calls of the answer, for a provider that numbers them. Ranks tell
    the order when all calls have one and no two the same; otherwise it is that of arrival.
    """

    call_id: str
    name: str
    rank: int | None = None


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
    """Tokens consumed so far by this attempt, in all; what comes later replaces it."""

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
    """A whole answer.

    `usage` is None when the provider gave none. `mended` lists the paths whose text the journal
    could not hold as it was.
    """

    blocks: tuple[AnyBlock, ...]
    usage: Usage | None
    stop_reason: StopReason
    mended: tuple[str, ...] = ()

    @property
    def message(self) -> Message:
        """The answer as a message; an answer of nothing is an empty text."""
        return Message.trusted(role="assistant", blocks=self.blocks or (TextBlock(text=""),))

    @property
    def is_empty(self) -> bool:
        """Whether there is neither a call nor anything to read in it."""
        return not any(_says_something(block) for block in self.blocks)


def _says_something(block: AnyBlock) -> bool:
    match block:
        case ToolCallBlock():
            return True
        case TextBlock():
            return bool(block.text.strip())
        case _:
            return False


@dataclass(slots=True)
class _Part:
    """One block while it streams: its pieces of text; for a call also its id and its tool."""

    kind: Literal["text", "reasoning", "call"]
    pieces: list[str] = field(default_factory=list[str])
    call_id: str = ""
    name: str = ""
    rank: int | None = None
    ended: bool = False
    block: int = 0
    meta: dict[str, JsonObject] = field(default_factory=dict[str, JsonObject])


@dataclass(slots=True)
class Assembler:
    """Put chunks together. Feed it every chunk, then take the `answer`.

    Each `ToolCallStarted` is a call of its own, also under an id that another one has: what
    follows under that id belongs to the last one that began. `model` and `model_id` name who
    answers, in the configuration and at the provider.
    """

    model_id: str = ""
    model: str = ""
    _parts: list[_Part] = field(default_factory=list[_Part])
    _calls: dict[str, _Part] = field(default_factory=dict[str, _Part])
    _usage: Usage | None = None
    _written: int = 0
    _stop: StopReason | None = None

    def feed(self, chunk: ModelChunk) -> None:
        """Take one chunk."""
        match chunk:
            case TextDelta():
                self._add("text", chunk.text)
            case ReasoningDelta():
                self._think(chunk)
            case ToolCallStarted():
                self._start_call(chunk)
            case ToolArgsDelta():
                self._calls[chunk.call_id].pieces.append(chunk.fragment)
                self._written += len(chunk.fragment)
            case ToolCallEnded():
                if call := self._calls.get(chunk.call_id):
                    call.ended = True
            case UsageReported():
                self._usage = chunk.usage
            case Stopped():
                self._stop = chunk.reason
            case Reset():
                self._parts, self._calls = [], {}
                self._usage, self._stop, self._written = None, None, 0
            case _:
                assert_never(chunk)

    @property
    def usage(self) -> Usage | None:
        """What was reported so far of what the attempt consumed."""
        return self._usage

    @property
    def written(self) -> int:
        """How many characters the model wrote so far."""
        return self._written

    @property
    def answer(self) -> Answer | None:
        """The whole answer, or None when the stream was cut before its end."""
        if self._stop is None:
            return None
        mended: list[str] = []
        blocks: list[AnyBlock] = []
        for part in _in_order(self._parts):
            text = "".join(part.pieces)
            if part.kind == "call":
                blocks.append(_call_block(part, text, mended))
                continue
            if not text and not part.meta:
                continue
            safe = storable_text(text)
            if safe is not text:
                mended.append(part.kind)
            blocks.append(
                TextBlock(text=safe)
                if part.kind == "text"
                else ReasoningBlock(
                    text=safe,
                    model=self.model,
                    model_id=self.model_id,
                    provider_meta=_storable_meta(part.meta, mended),
                )
            )
        return Answer(tuple(blocks), self._usage, self._stop, tuple(mended))

    def _add(self, kind: Literal["text", "reasoning"], text: str) -> None:
        if not self._parts or self._parts[-1].kind != kind:
            self._parts.append(_Part(kind))
        self._parts[-1].pieces.append(text)
        self._written += len(text)

    def _think(self, chunk: ReasoningDelta) -> None:
        last = self._parts[-1] if self._parts else None
        if last is None or last.kind != "reasoning" or last.block != chunk.block:
            last = _Part("reasoning", block=chunk.block)
            self._parts.append(last)
        last.pieces.append(chunk.text)
        self._written += len(chunk.text)
        for api, given in chunk.meta.items():
            last.meta.setdefault(api, {}).update(given)

    def _start_call(self, chunk: ToolCallStarted) -> None:
        # `str.__str__` refuses what is no text: the block is not checked again.
        call_id, name = str.__str__(chunk.call_id), str.__str__(chunk.name)
        part = _Part("call", call_id=call_id, name=name, rank=chunk.rank)
        self._parts.append(part)
        self._calls[part.call_id] = part


def _in_order(parts: list[_Part]) -> list[_Part]:
    """Put calls in the places of calls by their ranks, if these tell an order."""
    calls = [part for part in parts if part.kind == "call"]
    ranks = {part.rank: part for part in calls}
    if len(calls) < 2 or len(ranks) < len(calls):
        return parts
    known = [rank for rank in ranks if rank is not None]
    if len(known) < len(calls) or known == sorted(known):
        return parts
    sorted_calls = (ranks[rank] for rank in sorted(known))
    return [next(sorted_calls) if part.kind == "call" else part for part in parts]


def _storable_meta(meta: dict[str, JsonObject], mended: list[str]) -> dict[str, JsonObject]:
    """Give what the journal can hold of what a provider wants back; the rest is lost to it."""
    kept: dict[str, JsonObject] = {}
    for api, given in meta.items():
        try:
            safe, paths = storable(given, api)
        except UnstorableValue:
            mended.append(api)
            continue
        mended += paths
        if isinstance(safe, dict):
            kept[api] = safe
    return kept


def _call_block(part: _Part, text: str, mended: list[str]) -> ToolCallBlock:
    if part.ended or text.strip():
        arguments, paths = read_arguments(text)
    else:  # it was cut: it is not a call without arguments
        arguments, paths = _unreadable(text), ()
    mended.extend(f"{part.call_id}{path}" for path in paths)
    return ToolCallBlock.trusted(
        cache_breakpoint=False,
        provider_meta={},
        type="tool_call",
        call_id=storable_text(part.call_id),
        name=_on_one_line(storable_text(part.name)),
        arguments=arguments,
    )


def _on_one_line(name: str) -> str:
    """Give the name of a tool without what no name has: it is shown to people as it is."""
    if name.isprintable():
        return name
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in name)


def read_arguments(text: str) -> tuple[JsonObject, tuple[str, ...]]:
    """Read the arguments of a call, with the paths whose text was mended.

    Text that is not a JSON object that the journal can hold is kept whole under
    `INVALID_ARGUMENTS`, for the model to be told so. No text at all means no arguments.
    """
    if not text.strip():
        return {}, ()
    whole = storable_text(text)  # fragments may cut a character in two
    try:
        value: JsonValue = from_json(whole, allow_inf_nan=False)
        safe, mended = storable(value)
    except (ValueError, RecursionError):
        return _unreadable(text), ()
    return (safe, mended) if isinstance(safe, dict) else (_unreadable(text), ())


def _unreadable(text: str) -> JsonObject:
    return {INVALID_ARGUMENTS: storable_text(text)}
