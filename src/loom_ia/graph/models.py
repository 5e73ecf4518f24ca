"""Models as steps call them: a request in, a reply out, or its pieces as they come.

Law. Whatever a model is given as, a client of the engine or a function, a step sees one callable.
A client is called by the rules of the engine, its clocks, its retries, its circuit; there are no
others here. An answer that the caller saw a piece of is never begun again behind its back.
"""

import asyncio
import inspect
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, Protocol, cast, get_args

from loom_ia.core.errors import CallerError, ModelError
from loom_ia.core.json import JsonObject, JsonValue, readable
from loom_ia.core.model.chunks import Answer, ModelChunk, StopReason, TextDelta
from loom_ia.core.model.content import ToolResultBlock
from loom_ia.core.model.messages import Message
from loom_ia.core.model.request import Effort, ModelRequest
from loom_ia.core.model.sizes import Sizes
from loom_ia.core.model.tooling import ToolSpec
from loom_ia.core.model.usage import Usage
from loom_ia.core.ports.models import ModelClient
from loom_ia.core.prompts import prompt_text
from loom_ia.engine.breaker import Circuits, through
from loom_ia.engine.clock import SystemClock
from loom_ia.engine.perform.attempt import Attempt, check_window, refuse_unusable, wait_after
from loom_ia.graph.structured import shape
from loom_ia.graph.tool_call import ToolCall
from loom_ia.graph.transcript import conversation

_EFFORTS: Final = frozenset(get_args(Effort))
_USUAL_EFFORT: Final = "medium"
"""What is left to the provider: most models refuse to be told of any effort."""

_STOPPED_SHORT: Final[frozenset[StopReason]] = frozenset({"max_tokens", "refusal"})
_NO_ARGUMENTS: Final[Mapping[str, JsonValue]] = {"type": "object", "properties": {}}

_log = logging.getLogger("loom_ia.graph.models")


class OfferedTool(Protocol):
    """A tool as a model sees it; without a schema it takes no arguments."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def input_schema(self) -> Any: ...


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What a model is asked.

    `messages` are `Message`, or objects with `role` and `content`. What is None is left to the
    model's own settings. `effort` is "low", "medium" or "high"; "medium" is not sent, so that
    providers that know no effort are not told of any. `output_schema` is a JSON Schema or a type.
    """

    messages: Sequence[Message | Any]
    system: str | None = None
    tools: Sequence[OfferedTool] = ()
    max_tokens: int | None = None
    temperature: float | None = None
    effort: str = _USUAL_EFFORT
    output_schema: Any = None

    def __post_init__(self) -> None:
        if self.effort not in _EFFORTS:
            raise ValueError(f"ChatRequest(effort={self.effort!r}): it is low, medium or high")
        if self.max_tokens is not None and self.max_tokens < 1:
            raise ValueError(f"ChatRequest(max_tokens={self.max_tokens}): it is at least 1")


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model answered.

    `stop_reason` is "end", "tool_use", "max_tokens" when the answer reached its limit and is cut,
    or "refusal" when the model, or a filter of the provider, declined. `usage` is None when nobody
    counted.
    """

    text: str = ""
    tool_calls: Sequence[ToolCall] = ()
    usage: Usage | None = None
    stop_reason: str = "end"


@dataclass(frozen=True, slots=True)
class ReplyChunk:
    """A piece of an answer; calls, usage and the reason of its end come with the `done` one."""

    text: str = ""
    tool_calls: Sequence[ToolCall] = ()
    usage: Usage | None = None
    done: bool = False
    stop_reason: str | None = None


class ChatModel(Protocol):
    """A model that can be called."""

    async def __call__(self, request: ChatRequest) -> Reply:
        """Ask, and wait for the whole answer. Raises `ModelError`."""
        ...

    def stream(self, request: ChatRequest) -> AsyncGenerator[ReplyChunk, None]:
        """Ask, and give pieces of text as they come, then one chunk that is `done`.

        Closing the iterator cancels the request. Raises `ModelError`; `StreamInterrupted` when the
        answer broke off after a piece of it was given.
        """
        ...


class ClientChat:
    """A client of a model as steps call it, with the retries, clocks and circuit of the engine.

    `schema_params` go with a request that wants a schema, for a provider that writes JSON and
    takes no schema: it reads that in the prompt. `circuits` are shared by who calls the same
    model.
    """

    def __init__(
        self,
        client: ModelClient,
        *,
        schema_params: JsonObject | None = None,
        circuits: Circuits | None = None,
    ) -> None:
        self._client = client
        self._schema_params = schema_params
        self._circuit = (Circuits() if circuits is None else circuits).of(client.spec)
        self._now = SystemClock().now

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._client.spec.id}>"

    async def __call__(self, request: ChatRequest) -> Reply:
        """Ask, and wait for the whole answer. Raises `ModelError`."""
        return await self._answer(request, None)

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ReplyChunk, None]:
        """Ask, and give pieces of text as they come, then one chunk that is `done`.

        The answer is taken in as fast as it comes: a caller that is slow does not make it late.
        """
        pieces: asyncio.Queue[str | None] = asyncio.Queue()
        # In a task of its own, so that the clocks never ring in the caller's code.
        asking = asyncio.create_task(self._answer(request, pieces.put_nowait))
        asking.add_done_callback(lambda _: pieces.put_nowait(None))
        try:
            while (text := await pieces.get()) is not None:
                yield ReplyChunk(text)
            reply = await asking
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
        yield ReplyChunk("", reply.tool_calls, reply.usage, True, reply.stop_reason)

    async def close(self) -> None:
        """Let go of connections; closing twice does nothing."""
        await self._client.close()

    async def _answer(self, asked: ChatRequest, say: Callable[[str], None] | None) -> Reply:
        spec = self._client.spec
        request = self._request(asked)
        if (prepare := getattr(self._client, "prepare", None)) is not None:
            await prepare()

        def prompt_tokens() -> int:
            return Sizes().prompt_tokens(request)

        def call() -> Awaitable[Reply]:
            return self._attempts(request, prompt_tokens, say)

        check_window(spec, request, prompt_tokens)
        return await through(self._circuit, spec, self._now, call)

    async def _attempts(
        self,
        request: ModelRequest,
        prompt_tokens: Callable[[], int],
        say: Callable[[str], None] | None,
    ) -> Reply:
        spec, said = self._client.spec, False

        def listen(chunk: ModelChunk) -> None:
            nonlocal said
            if say is not None and isinstance(chunk, TextDelta) and chunk.text:
                said = True
                say(chunk.text)

        for number in count(1):
            attempt = Attempt(spec, prompt_tokens)
            try:
                answer = await attempt.hear(self._client.stream(request), listen)
                if answer.stop_reason not in _STOPPED_SHORT:
                    refuse_unusable(answer, spec.id)
            except ModelError as error:
                wait = wait_after(spec.retry, number, error)
                if wait is None or said:
                    raise
                _log.info("model %s: %s, again in %g s", spec.id, error.kind, wait)
                await asyncio.sleep(wait)
            else:
                return self._reply(answer, attempt.usage())
        raise AssertionError("the attempts end by themselves")

    def _reply(self, answer: Answer, usage: Usage) -> Reply:
        message, pricing = answer.message, self._client.spec.pricing
        if pricing is not None:
            cost = pricing.at(usage.prompt_tokens).cost(usage)
            usage = usage.model_copy(update={"cost_usd": cost})
        calls = tuple(ToolCall(call.call_id, call.name, call.arguments) for call in message.calls)
        return Reply(message.as_text(), calls, usage, answer.stop_reason)

    # -- what is asked ------------------------------------------------------------------------

    def _request(self, asked: ChatRequest) -> ModelRequest:
        spec = self._client.spec
        said = conversation(list(asked.messages))
        system = asked.system or said.system
        params: JsonObject = dict(spec.params)
        if asked.temperature is not None:
            params["temperature"] = asked.temperature
        schema = None if asked.output_schema is None else shape(asked.output_schema).schema
        is_native = spec.capabilities.native_json and self._schema_params is None
        if schema is not None and not is_native:
            params.update(self._schema_params or {})
            note = prompt_text("en", "answer_schema", schema=readable(schema))
            system = f"{system}\n\n{note}" if system else note
        return ModelRequest(
            model=spec.id,
            system=system,
            history=(),
            messages=_joined(said.messages),
            tools=tuple(map(_spec, asked.tools)),
            max_tokens=spec.max_tokens if asked.max_tokens is None else asked.max_tokens,
            params=params,
            output_schema=schema if is_native else None,
            effort=None if asked.effort == _USUAL_EFFORT else cast("Effort", asked.effort),
        )


class FunctionChat:
    """A function of a request as steps call it; what it gives may be a `Reply`, or a text."""

    def __init__(self, function: Callable[[ChatRequest], Any]) -> None:
        self._function = function

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._function!r}>"

    async def __call__(self, request: ChatRequest) -> Reply:
        """Ask. Raises what the function raises, and `CallerError` for what is no reply."""
        given = self._function(request)
        if inspect.isawaitable(given):
            given = await given
        if isinstance(given, str):
            return Reply(given)
        if not isinstance(given, Reply):
            raise CallerError(
                "the model {model!r} gave a {type}: it gives a Reply, or a text",
                model=self._function,
                type=type(given).__name__,
            )
        return given

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ReplyChunk, None]:
        """Ask, and give the pieces that the function has a `stream` for, or else the whole."""
        own = getattr(self._function, "stream", None)
        if own is not None:
            async with aclosing(cast("AsyncGenerator[ReplyChunk, None]", own(request))) as chunks:
                async for chunk in chunks:
                    yield chunk
            return
        reply = await self(request)
        if reply.text:
            yield ReplyChunk(reply.text)
        yield ReplyChunk("", reply.tool_calls, reply.usage, True, reply.stop_reason)


def as_chat(model: object, *, circuits: Circuits | None = None) -> ChatModel:
    """Give the callable of a model: a client of the engine, an async function, or such a callable.

    Raises `CallerError` for anything else, the name of a model included: only a host knows names.
    """
    if isinstance(model, ClientChat | FunctionChat):
        return model
    if isinstance(model, str):
        raise CallerError(
            "the model {model!r} is a name, which only a host knows: give chat_model(...), a"
            " client or a function",
            model=model,
        )
    if callable(model) and not isinstance(model, type):
        return FunctionChat(model)
    if hasattr(model, "spec") and hasattr(model, "stream"):
        return ClientChat(cast("ModelClient", model), circuits=circuits)
    raise CallerError(
        "{model!r} is no model: give chat_model(...), a client or an async function of a"
        " ChatRequest",
        model=model,
    )


def _joined(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Put the results that follow each other into one message: they answer one message."""
    joined: list[Message] = []
    for message in messages:
        before = joined[-1] if joined else None
        if before is not None and message.role == before.role == "tool":
            blocks = cast("tuple[ToolResultBlock, ...]", (*before.blocks, *message.blocks))
            joined[-1] = Message(role="tool", blocks=blocks)
        else:
            joined.append(message)
    return tuple(joined)


def _spec(tool: OfferedTool) -> ToolSpec:
    """Describe a tool; one that says nothing of its arguments takes none."""
    schema = cast("JsonObject", tool.input_schema or _NO_ARGUMENTS)
    if isinstance(tool, ToolSpec) and tool.input_schema:
        return tool
    return ToolSpec(
        name=tool.name, description=tool.description or "", input_schema={**_NO_ARGUMENTS, **schema}
    )


__all__ = [
    "ChatModel",
    "ChatRequest",
    "ClientChat",
    "FunctionChat",
    "OfferedTool",
    "Reply",
    "ReplyChunk",
    "as_chat",
]
