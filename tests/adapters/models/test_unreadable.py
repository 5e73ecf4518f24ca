"""Answers and errors that cannot be read, or that would take all the memory there is."""

import gzip
import json
import logging
import zlib
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import pytest

from loom_ia.adapters.models.bodies import MOST_REFUSAL, is_packed_twice
from loom_ia.adapters.models.client import Reader
from loom_ia.adapters.models.openai_chat.client import ChatModel
from loom_ia.core.errors import ModelError
from loom_ia.core.model import HttpExchange, ModelChunk, ModelSpec
from loom_ia.core.ports import ModelAccess
from tests.adapters.models.contract import asking, hear
from tests.adapters.models.encoders import FORMATS, Format
from tests.providers.items import reasoned
from tests.providers.replies import Raw
from tests.providers.server import Provider, Says

JSON = {"content-type": "application/json"}
PAGE = {"content-type": "text/html"}
GZIP = {"content-encoding": "gzip"}
TWICE = {"content-encoding": "gzip, gzip"}
SAID: dict[str, Any] = {"choices": [{"index": 0, "message": {"content": "Bonjour"}}]}
DEEP = "[" * 100_000 + "]" * 100_000


def made(provider: Provider, form: Format) -> Any:
    """Make a model of a format, that the provider of the test serves."""
    spec = form.spec("M", "m-1").model_copy(update={"base_url": provider.url})
    return form.model(spec, ModelAccess(api_key="sk-secret"))


@pytest.fixture(params=FORMATS, ids=lambda form: form.api)
async def model(provider: Provider, request: pytest.FixtureRequest) -> AsyncIterator[Any]:
    """A model, of each format."""
    client = made(provider, request.param)
    yield client
    await client.close()


@pytest.fixture
async def chat(provider: Provider) -> AsyncIterator[ChatModel]:
    """A model of the one format that is like the others here."""
    client = ChatModel(ModelSpec(id="M", sdk="openai", model="m-1", base_url=provider.url))
    yield client
    await client.close()


# -- what cannot be read --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        DEEP,
        "9" * 5_000,
        '{"a": ' * 100_000 + "1" + "}" * 100_000,
        "\udfff[".encode("utf-8", "replace"),
    ],
    ids=["a deep list", "a long integer", "a deep object", "no JSON"],
)
@pytest.mark.parametrize("streams", [True, False])
async def test_what_cannot_be_read_may_be_tried_again(
    provider: Provider, model: Any, content: str | bytes, streams: bool
) -> None:
    """It is an error of the model, as any: retries and fallbacks see it."""
    data = b'{"x": ' + (content if isinstance(content, bytes) else content.encode()) + b"}"
    body = Raw([b"data: " + data + b"\n\n"]) if streams else Raw([data], headers=JSON)
    provider.reply(body)
    error = (await hear(model, asking(model.spec))).error
    assert error is not None
    assert (error.kind, str(error)) == ("transient", "M sent what cannot be read as JSON")


@pytest.mark.parametrize("odd", ["NaN", "[" * 70 + "]" * 70])
async def test_a_thought_that_cannot_be_kept_may_be_tried_again(
    provider: Provider, odd: str
) -> None:
    """What goes back with it must be storable."""
    model = made(provider, FORMATS[2])
    item = {**reasoned("Hm."), "summary": [{"type": "summary_text", "text": "Hm.", "z": "odd"}]}
    body = json.dumps({"status": "completed", "output": [item]}).replace('"odd"', odd)
    provider.reply(Raw([body.encode()], headers=JSON))
    error = (await hear(model, asking(model.spec))).error
    await model.close()
    assert error is not None
    assert error.kind == "transient"


async def test_deep_arguments_are_those_of_a_call(provider: Provider, chat: ChatModel) -> None:
    """They are a text: that it cannot be read is seen by whoever reads it, also with its name."""
    fragments = [{"index": 0, "function": {"name": "add", "arguments": each}} for each in DEEP[:3]]
    fragments += [{"index": 0, "function": {"name": "add", "arguments": DEEP}}]
    events = [{"choices": [{"index": 0, "delta": {"tool_calls": [each]}}]} for each in fragments]
    lines = [f"data: {json.dumps(each)}\n\n".encode() for each in events]
    provider.reply(Raw([*lines, b"data: [DONE]\n\n"]))
    (call,) = (await hear(chat, asking(chat.spec))).answer.message.calls
    assert call.name == "add"


class _Faulty(Reader):
    """A reader that is wrong."""

    def event(self, data: Mapping[str, Any]) -> Iterator[ModelChunk]:
        """Fail."""
        raise KeyError(len(data))

    def document(self, data: Mapping[str, Any]) -> Iterator[ModelChunk]:
        """Fail."""
        raise KeyError(len(data))

    def finish(self) -> Iterator[ModelChunk]:
        """Give nothing."""
        return iter(())


async def test_a_fault_of_a_reader_is_told_and_does_not_end_the_run(
    provider: Provider,
    chat: ChatModel,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Another model may answer; the log has where it came from, and so has the error."""
    monkeypatch.setattr(chat, "reader", _Faulty)
    provider.reply(Says("Bonjour."))
    with caplog.at_level(logging.ERROR):
        error = (await hear(chat, asking(chat.spec))).error
    assert error is not None
    assert (error.kind, str(error)) == ("transient", "M: the answer was not understood: KeyError")
    assert isinstance(error.__cause__, KeyError)
    (record,) = caplog.records
    assert record.getMessage().startswith("model M: KeyError at ")
    assert "test_unreadable.py:" in record.getMessage()


async def test_a_fault_before_an_answer_stays_one(
    provider: Provider, chat: ChatModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is wrong with a request will not be better with the next."""

    def wrong(*_: object) -> Any:
        raise KeyError("a")

    monkeypatch.setattr(chat, "write", wrong)
    with pytest.raises(KeyError):
        await hear(chat, asking(chat.spec))
    assert provider.requests == []


# -- errors that are too long ---------------------------------------------------------------------


def bomb(times: int) -> bytes:
    """Compress what is long, so many times."""
    data = b"a" * (32 << 20)
    for _ in range(times):
        data = gzip.compress(data)
    return data


LONG = json.dumps({"error": {"message": "no such model " + "x" * (20 << 20)}}).encode()


async def told(provider: Provider, chat: ChatModel, reply: Raw) -> tuple[ModelError, HttpExchange]:
    """Give the error that a reply makes, and the exchange."""
    provider.reply(reply)
    exchanges: list[HttpExchange] = []
    with pytest.raises(ModelError) as failed:
        async for _ in chat.observed(asking(chat.spec), exchanges.append):
            pass
    return failed.value, exchanges[0]


@pytest.mark.parametrize(
    ("status", "headers", "kind"),
    [
        (400, JSON, "invalid_request"),
        (401, PAGE, "auth"),
        (500, JSON, "transient"),
        (302, PAGE, "invalid_request"),
        (200, PAGE, "transient"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
async def test_of_an_error_only_the_beginning_is_read(
    provider: Provider,
    chat: ChatModel,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    headers: dict[str, str],
    kind: str,
    packed: bool,
) -> None:
    """Its status says what it is; also of a page, under any status, also compressed."""
    read = _watched(monkeypatch)
    body = gzip.compress(LONG) if packed else LONG
    more = GZIP if packed else {}
    error, exchange = await told(provider, chat, Raw([body], status, {**headers, **more}))
    assert error.kind == kind
    assert len(str(error)) < 700
    assert exchange.status_code == status
    assert exchange.response_body.startswith('{"error": {"message": "no such model')
    assert exchange.response_headers.get("content-encoding") == more.get("content-encoding")
    assert sum(read) <= MOST_REFUSAL + (2 << 20)


def _watched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Give the sizes of what is decoded from here on."""
    import httpx2

    read: list[int] = []
    aiter_bytes = httpx2.Response.aiter_bytes

    async def watched(response: httpx2.Response, size: int | None = None) -> AsyncIterator[bytes]:
        async for piece in aiter_bytes(response, size):
            read.append(len(piece))
            yield piece

    monkeypatch.setattr(httpx2.Response, "aiter_bytes", watched)
    return read


@pytest.mark.parametrize("status", [200, 302, 400, 500])
async def test_what_is_compressed_twice_is_not_decompressed(
    provider: Provider, chat: ChatModel, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    """A few hundred bytes could be a million times that."""
    read = _watched(monkeypatch)
    error, exchange = await told(provider, chat, Raw([bomb(2)], status, {**JSON, **TWICE}))
    assert error.kind == ("transient" if status in {200, 500} else "invalid_request")
    assert sum(read) == 0
    assert exchange.response_body == ""


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_an_error_that_is_not_what_it_says_keeps_its_status(
    provider: Provider, chat: ChatModel, encoding: str
) -> None:
    """A body that cannot be decompressed does not hide that the key is refused."""
    headers = {**JSON, "content-encoding": encoding}
    error, _ = await told(provider, chat, Raw([b"not compressed"], 401, headers))
    assert (error.kind, error.http_status) == ("auth", 401)


@pytest.mark.parametrize("status", [200, 400])
@pytest.mark.parametrize(
    ("encoding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)]
)
async def test_what_is_compressed_once_is_read(
    provider: Provider, chat: ChatModel, status: int, encoding: str, pack: Any
) -> None:
    """As it always was: the sentence of an error, and an answer."""
    body = SAID if status == 200 else {"error": {"message": "no such model"}}
    headers = {**JSON, "content-encoding": encoding}
    provider.reply(Raw([pack(json.dumps(body).encode())], status, headers))
    heard = await hear(chat, asking(chat.spec))
    assert heard.text == ("Bonjour" if status == 200 else "")
    assert "no such model" in str(heard.error) or status == 200


@pytest.mark.parametrize(
    ("encoding", "twice"),
    [
        ("", False),
        ("gzip", False),
        ("identity, gzip", False),
        ("gzip,", False),
        ("gzip, gzip", True),
        ("GZIP,br", True),
    ],
)
def test_how_often_a_body_is_compressed_is_read(encoding: str, twice: bool) -> None:
    """By the list of what was done to it."""
    assert is_packed_twice(encoding) is twice
