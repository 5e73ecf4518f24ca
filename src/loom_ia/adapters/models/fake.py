"""A model that plays a script: no key, no network, the same answer in every process.

It is stateless. Which reply is played depends on the request alone: of the replies that fit it,
the one whose rank is the number of answers since the user last spoke. A run that is resumed in
another process therefore goes on where it stopped, and two runs never disturb each other.

    params:
      script:
        - text: I work it out.
          tool_calls:
            - name: add
              arguments: {a: 1, b: 2}
        - text: It makes 3.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from itertools import chain, pairwise
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, field_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from loom_ia.core.errors import ConfigError, ModelError, ModelErrorKind, Problem
from loom_ia.core.json import canonical
from loom_ia.core.model.chunks import (
    Answer,
    Assembler,
    ModelChunk,
    ReasoningDelta,
    Stopped,
    TextDelta,
    ToolArgsDelta,
    ToolCallEnded,
    ToolCallStarted,
    UsageReported,
)
from loom_ia.core.model.content import ReasoningBlock, ToolResultBlock
from loom_ia.core.model.messages import Message, is_repair
from loom_ia.core.model.models import ModelSpec
from loom_ia.core.model.request import ModelRequest
from loom_ia.core.model.sizes import Sizes
from loom_ia.core.model.usage import Usage
from loom_ia.core.ports.models import ModelAccess

_CHARACTERS_PER_TOKEN: Final = 4
# What a provider's JSON writes around the texts, in characters: for each request, tool, block and
# result. The example of the product page counts 259 and 425 tokens with these.
_REQUEST: Final = 200
_TOOL: Final = 224
_BLOCK: Final = 44
_RESULT: Final = 203
_PIECE: Final = 12
_FEWEST_PIECES: Final = 3
_MOST_PIECES: Final = 32


class FakeScriptError(ConfigError, ValueError):
    """The `params` of a fake model are no script; `problems` lists every fault.

    The problems bear paths such as `models[SIMULE].params.script[2].text` and no file.
    """

    def __str__(self) -> str:
        return "\n".join(f"{problem.path} — {problem.message}" for problem in self.problems)


class _Script(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class FakeCall(_Script):
    """A call that a reply asks for. `arguments` as text are streamed as they are, JSON or not."""

    name: str = Field(min_length=1)
    arguments: JsonValue = Field(default_factory=dict)

    @field_validator("arguments")
    @classmethod
    def _object_or_text(cls, value: JsonValue) -> JsonValue:
        if isinstance(value, dict | str):
            return value
        raise PydanticCustomError(
            "arguments", "arguments are a mapping, or text to stream as it is"
        )


class FakeReply(_Script):
    """One reply of a script.

    `with_tool` and `without_tool` make it fit only when that tool is offered or not; `with_text`
    and `without_text` only when what the user last said contains that text or not. `forced` is
    what is said, without any call, when the request allows none. `error` raises a `ModelError` of
    that kind instead of answering. `delay`, in seconds, passes before the first chunk.
    """

    text: str = ""
    reasoning: str = ""
    tool_calls: list[FakeCall] = Field(default_factory=list[FakeCall])
    with_tool: str | None = None
    without_tool: str | None = None
    with_text: str | None = None
    without_text: str | None = None
    forced: str | None = None
    error: ModelErrorKind | None = None
    delay: float | None = Field(default=None, ge=0, allow_inf_nan=False)

    def fits(self, tools: frozenset[str], said: str) -> bool:
        """Whether the reply may answer, `tools` being offered and the user having `said` so."""
        return (
            (self.with_tool is None or self.with_tool in tools)
            and (self.without_tool is None or self.without_tool not in tools)
            and (self.with_text is None or self.with_text in said)
            and (self.without_text is None or self.without_text not in said)
        )


class FakeParams(_Script):
    """The `params` of a fake model: no `script` echoes the user, `delay` goes for every reply."""

    script: list[FakeReply] | None = None
    delay: float = Field(default=0.0, ge=0, allow_inf_nan=False)


class FakeModel:
    """Answer from the script in `spec.params`. Raises `FakeScriptError` when there is a fault.

    Texts come in at least three deltas when they are long enough, and the event loop runs between
    two. A token is four characters, rounded up.
    """

    def __init__(self, spec: ModelSpec, access: ModelAccess | None = None) -> None:
        self._spec = spec
        self._params = _read_params(spec)
        self._sizes = Sizes()

    @property
    def spec(self) -> ModelSpec:
        """The entry of the configuration."""
        return self._spec

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
        """Play the reply that fits.

        Raises `ModelError`: the kind that the reply asks for, or `invalid_request` when the
        script has no reply left, or no call where the request wants one.
        """
        turn, reply = self._reply(request)
        if delay := self._params.delay if reply.delay is None else reply.delay:
            await asyncio.sleep(delay)
        if reply.error is not None:
            raise ModelError(
                reply.error, "the script of {model} fails here, as it says", model=self._spec.id
            )
        forced = reply.forced if request.tool_choice == "none" else None
        if forced is not None:
            reply = FakeReply(text=forced)
        elif request.tool_choice == "required" and not reply.tool_calls:
            raise ModelError(
                "invalid_request",
                "a call is required, and reply {turn} of {model} has no tool_calls: add some",
                turn=turn,
                model=self._spec.id,
            )
        written = Assembler(self._spec.model)
        for chunk in _chunks(turn, reply):
            written.feed(chunk)
            yield chunk
            await asyncio.sleep(0)
        stopped = Stopped("tool_use" if reply.tool_calls else "end")
        written.feed(stopped)
        yield UsageReported(self._usage(request, written.answer))
        yield stopped

    async def close(self) -> None:
        """Do nothing: there is no connection."""

    def _usage(self, request: ModelRequest, answer: Answer | None) -> Usage:
        message = answer.message if answer else Message.text("assistant", "")
        thought = sum(len(b.text) for b in message.blocks if isinstance(b, ReasoningBlock))
        return Usage(
            input_tokens=_tokens(self._read(request)),
            output_tokens=_tokens(_written(self._sizes, message)),
            reasoning_tokens=_tokens(thought),
        )

    def _read(self, request: ModelRequest) -> int:
        messages = sum(_written(self._sizes, message) for message in request.conversation())
        tools = sum(_TOOL + self._sizes.of(tool) for tool in request.tools)
        return _REQUEST + len(request.system) + messages + tools

    def _reply(self, request: ModelRequest) -> tuple[int, FakeReply]:
        turn, said = _position(request)
        if self._params.script is None:
            return turn, FakeReply(text=said)
        tools = frozenset(tool.name for tool in request.tools)
        fitting = (reply for reply in self._params.script if reply.fits(tools, said))
        found = 0
        for found, reply in enumerate(fitting, 1):
            if found > turn:
                return turn, reply
        raise ModelError(
            "invalid_request",
            "the script of {model} is over: {count} of its {total} replies fit, and this is call"
            " {call} since the user spoke; add a reply to models[{model}].params.script",
            model=self._spec.id,
            count=found,
            total=len(self._params.script),
            call=turn + 1,
        )


def _position(request: ModelRequest) -> tuple[int, str]:
    """Count the answers since the user last spoke, and give what the user said.

    A note of the user's role is the engine speaking, not the user, and so is what asks for another
    answer in the place of one that was refused.
    """
    turn = sum(message.role == "assistant" for message in request.notes)
    for message in chain(reversed(request.messages), reversed(request.history)):
        if message.role == "user" and not is_repair(message):
            return turn, message.as_text()
        turn += message.role == "assistant"
    return turn, ""


def _chunks(turn: int, reply: FakeReply) -> Iterator[ModelChunk]:
    for piece in _pieces(reply.reasoning):
        yield ReasoningDelta(piece)
    for piece in _pieces(reply.text):
        yield TextDelta(piece)
    for rank, call in enumerate(reply.tool_calls):
        call_id = f"fake_{turn}_{rank}"
        yield ToolCallStarted(call_id, call.name)
        for piece in _pieces(_arguments(call)):
            yield ToolArgsDelta(call_id, piece)
        yield ToolCallEnded(call_id)


def _pieces(text: str) -> Iterator[str]:
    if not text:
        return
    count = min(max(len(text) // _PIECE, _FEWEST_PIECES), _MOST_PIECES, len(text))
    cuts = [len(text) * i // count for i in range(count + 1)]
    for start, end in pairwise(cuts):
        yield text[start:end]


def _arguments(call: FakeCall) -> str:
    return call.arguments if isinstance(call.arguments, str) else canonical(call.arguments)


def _written(sizes: Sizes, message: Message) -> int:
    results = sum(isinstance(block, ToolResultBlock) for block in message.blocks)
    return sizes.of(message) + _BLOCK * len(message.blocks) + _RESULT * results


def _tokens(characters: int) -> int:
    return characters // _CHARACTERS_PER_TOKEN


def _read_params(spec: ModelSpec) -> FakeParams:
    try:
        return FakeParams.model_validate(spec.params)
    except ValidationError as error:
        problems = [_problem(spec.id, fault) for fault in error.errors(include_url=False)]
        raise FakeScriptError(problems) from None


def _problem(model: str, fault: ErrorDetails) -> Problem:
    loc = fault["loc"]
    keys = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in loc)
    path = f"models[{model}].params{keys}"
    if fault["type"] != "extra_forbidden":
        return Problem("", None, path, "{reason}", {"reason": fault["msg"]})
    known = ", ".join(_PLACES[len(loc)].model_fields)
    return Problem("", None, path, "unknown key; the known ones are {known}", {"known": known})


_PLACES: Final[dict[int, type[_Script]]] = {1: FakeParams, 3: FakeReply, 5: FakeCall}
"""What stands where, by the length of a path such as `script[2].tool_calls[0].name`."""
