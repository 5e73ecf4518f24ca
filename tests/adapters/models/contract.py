"""What every adapter of a provider is held to, with the provider of the tests on the other side.

heard = await hear(model, request)
heard.verify(quirk.expected)
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from loom_ia.core.errors import ModelError
from loom_ia.core.model import (
    INVALID_ARGUMENTS,
    Answer,
    Assembler,
    Message,
    ModelChunk,
    ModelRequest,
    ModelSpec,
    ReasoningBlock,
    Stopped,
    TextDelta,
    Usage,
)
from loom_ia.core.ports import ModelClient
from tests.providers.quirks import Broken, Understood
from tests.providers.replies import Tokens

ASKED = Message.text("user", "Bonjour")


def asking(spec: ModelSpec, *messages: Message, **changes: Any) -> ModelRequest:
    """Make a request of these messages, with the settings of `spec` unless others are given."""
    request = ModelRequest(
        model=spec.id,
        system="",
        history=(),
        messages=messages or (ASKED,),
        max_tokens=spec.max_tokens,
        params=spec.params,
    )
    return replace(request, **changes)


@dataclass
class Heard:
    """What came out of a call of `spec`: the chunks, and the error that ended it if one did."""

    spec: ModelSpec
    chunks: list[ModelChunk] = field(default_factory=list[ModelChunk])
    error: ModelError | None = None

    @property
    def answer(self) -> Answer:
        """The whole answer. Raises `AssertionError` when there is none."""
        assert self.error is None, self.error
        answer = self._assembled.answer
        assert answer is not None, "the answer was cut"
        return answer

    @property
    def text(self) -> str:
        """What was said, whether the answer is whole or not."""
        return "".join(chunk.text for chunk in self.chunks if isinstance(chunk, TextDelta))

    @property
    def usage(self) -> Usage | None:
        """What was told of the consumption."""
        return self._assembled.usage

    @property
    def _assembled(self) -> Assembler:
        assembler = Assembler(model_id=self.spec.model, model=self.spec.id)
        for chunk in self.chunks:
            assembler.feed(chunk)
        return assembler

    def verify(self, expected: Understood | Broken) -> None:
        """Compare with what a quirk expects."""
        if isinstance(expected, Understood):
            given = _understood(self.answer)
            assert len(set(given.ids)) == len(given.ids)
            assert all(given.ids)
            assert given == (expected if expected.ids else replace(expected, ids=given.ids))
            assert isinstance(self.chunks[-1], Stopped)
            return
        assert not any(isinstance(chunk, Stopped) for chunk in self.chunks)
        assert self.text == expected.text
        match expected.why:
            case "cut" | "empty":
                assert self.error is None or self.error.kind == "transient"
            case "unreadable":
                assert self.error is not None
                assert self.error.kind == "transient"
            case "told":
                assert self.error is not None
                assert expected.says in str(self.error)
            case "status":
                assert self.error is not None
                assert self.error.http_status == expected.status


async def hear(model: ModelClient, request: ModelRequest) -> Heard:
    """Call a model and take everything that comes."""
    heard = Heard(model.spec)
    try:
        async for chunk in model.stream(request):
            heard.chunks.append(chunk)
    except ModelError as error:
        heard.error = error
    return heard


def _understood(answer: Answer) -> Understood:
    message = answer.message
    thoughts = [block.text for block in answer.blocks if isinstance(block, ReasoningBlock)]
    return Understood(
        text=message.as_text(),
        reasoning="\n\n".join(thoughts),
        calls=tuple((call.name, _arguments(call.arguments)) for call in message.calls),
        ids=tuple(call.call_id for call in message.calls),
        usage=_tokens(answer.usage),
        stop=answer.stop_reason,
    )


def _arguments(arguments: Mapping[str, Any]) -> Mapping[str, Any] | str:
    """Give the arguments, or the text that came when it was no object."""
    return arguments.get(INVALID_ARGUMENTS, arguments)


def _tokens(usage: Usage | None) -> Tokens | None:
    if usage is None:
        return None
    return Tokens(
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens - usage.cache_write_1h_tokens,
        usage.cache_write_1h_tokens,
        usage.reasoning_tokens,
    )
