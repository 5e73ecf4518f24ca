"""What is kept of what goes over the wire: all that tells something, no key, no file."""

import asyncio
import gzip
import json
from base64 import b64encode
from hashlib import sha256
from typing import Any

import httpx2
import pytest

from loom_ia.adapters.artifacts.memory import MemoryArtifacts
from loom_ia.adapters.models.capture import Observation
from loom_ia.adapters.models.openai_chat.client import ChatModel
from loom_ia.core.errors import ModelError
from loom_ia.core.model import ArtifactBlock, Capabilities, HttpExchange, Message, ModelSpec
from loom_ia.core.ports import ModelAccess
from tests.adapters.models.contract import asking
from tests.providers.chunks import chunk, said, stream
from tests.providers.server import Fails, Provider, Raw, Says, Silent, unused_url

KEY = "sk-proj-not/a+real=key"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8
JSON = {"content-type": "application/json"}
SAID: dict[str, Any] = {"choices": [{"index": 0, "message": {"content": "Bonjour"}}]}


async def exchanged(
    provider: Provider | str,
    *messages: Message,
    max_bytes: int = 100_000,
    key: str | None = KEY,
    leave: bool = False,
    **settings: Any,
) -> HttpExchange:
    """Call a model, and give the one exchange that is told."""
    url = provider if isinstance(provider, str) else f"{provider.url}/v1"
    spec = ModelSpec(id="CHAT", sdk="openai", model="chat-m1", base_url=url, **settings)
    store = MemoryArtifacts()
    await store.put("acme", "s1", PNG, "image/png")
    model = ChatModel(spec, ModelAccess(key, store, max_bytes))
    told: list[HttpExchange] = []
    chunks = model.observed(asking(spec, *messages), told.append)
    try:
        async for _ in chunks:
            if leave:
                break
    except ModelError:
        pass
    await chunks.aclose()
    await model.close()
    (exchange,) = told
    return exchange


# -- what is kept ---------------------------------------------------------------------------------


async def test_an_exchange_tells_what_was_sent_and_what_came_back(provider: Provider) -> None:
    """Both bodies as they were, their sizes, and the digest of what really left."""
    provider.reply(Says("Bonjour."))
    told = await exchanged(provider)
    request = provider.requests[0]
    assert (told.method, told.url) == ("POST", f"{provider.url}/v1/chat/completions")
    assert told.request_body == request.raw.decode()
    assert told.request_bytes == len(request.raw)
    assert told.request_sha256 == sha256(request.raw).hexdigest()
    assert told.status_code == 200
    assert told.response_body.startswith("data: {")
    assert told.response_body.rstrip().endswith("data: [DONE]")
    assert told.response_bytes == len(told.response_body.encode())
    assert (told.request_truncated, told.response_truncated, told.error) == (False, False, "")
    assert told.request_headers["content-type"] == "application/json"
    assert told.response_headers["x-request-id"] == "req_0000"


async def test_a_refusal_is_kept_with_its_reason(provider: Provider) -> None:
    """The body of an error is what one looks for there."""
    provider.reply(Fails(400, {"error": {"message": "no such parameter"}}))
    told = await exchanged(provider)
    assert told.status_code == 400
    assert json.loads(told.response_body) == {"error": {"message": "no such parameter"}}
    assert told.error == ""


async def test_limits_are_kept_and_other_secrets_are_not(provider: Provider) -> None:
    """The headers of limits say `token` and tell nothing secret."""
    shown = {
        "x-ratelimit-remaining-tokens": "149984",
        "anthropic-ratelimit-input-tokens-reset": "2026-01-01T00:00:00Z",
        "retry-after": "7",
    }
    hidden = {"set-cookie": "session=abc", "x-auth-token": "abc", "x-signature": "abc"}
    provider.reply(Says("Bonjour.", headers={**shown, **hidden}))
    told = await exchanged(provider)
    assert {name: told.response_headers[name] for name in shown} == shown
    assert {name: told.response_headers[name] for name in hidden} == dict.fromkeys(hidden, "***")
    assert told.request_headers["authorization"] == "***"


async def test_what_was_compressed_can_be_read(provider: Provider) -> None:
    """The size is that of what came over the wire."""
    packed = gzip.compress(json.dumps(SAID).encode())
    provider.reply(Raw([packed], headers={**JSON, "content-encoding": "gzip"}))
    told = await exchanged(provider)
    assert json.loads(told.response_body) == SAID
    assert told.response_bytes == len(packed)


async def test_what_was_compressed_and_cut_is_read_as_far_as_it_goes(provider: Provider) -> None:
    """Nothing is made up for the rest."""
    packed = gzip.compress(json.dumps({**SAID, "x": [str(i) for i in range(5000)]}).encode())
    provider.reply(Raw([packed], headers={**JSON, "content-encoding": "gzip"}))
    told = await exchanged(provider, max_bytes=2000)
    assert told.response_truncated
    assert told.response_body.startswith('{"choices": [{"index": 0')
    assert len(told.response_body) <= 2000


# -- the key --------------------------------------------------------------------------------------

ECHOES = [
    pytest.param(KEY, id="as it is"),
    pytest.param(f"Bearer {KEY}", id="in a header"),
    pytest.param(KEY.replace("/", "\\/"), id="in the JSON of PHP"),
    pytest.param(KEY.replace("/", "%2F").replace("+", "%2B").replace("=", "%3D"), id="in a URL"),
]


@pytest.mark.parametrize("echo", ECHOES)
async def test_a_key_that_is_sent_back_is_hidden(provider: Provider, echo: str) -> None:
    """In the body and in the headers, of an answer and of an error."""
    for status in (200, 401):
        body = json.dumps({**SAID, "echo": "?"}).replace("?", echo).encode()
        provider.reply(Raw([body], status=status, headers={**JSON, "x-echo": echo}))
        told = await exchanged(provider)
        whole = told.model_dump_json()
        assert "sk-proj" not in whole
        assert "***" in told.response_body
        assert "***" in told.response_headers["x-echo"]


async def test_a_key_in_the_question_is_hidden(provider: Provider) -> None:
    """A user may paste it."""
    provider.reply(Says("Bonjour."))
    told = await exchanged(provider, Message.text("user", f"my key is {KEY}"))
    assert "sk-proj" not in told.model_dump_json()
    assert "my key is ***" in told.request_body
    assert told.request_sha256 == sha256(provider.requests[0].raw).hexdigest()


async def test_half_a_key_is_hidden_where_a_body_is_cut(provider: Provider) -> None:
    """Wherever the limit falls, no beginning of the key is left that would tell it."""
    body = json.dumps({"echo": KEY, **SAID}).encode()
    at = body.index(KEY.encode())
    for length in range(at, at + len(KEY) + 2):
        provider.reply(Raw([body], headers=JSON))
        told = await exchanged(provider, max_bytes=length)
        assert told.response_truncated
        assert "sk-proj-" not in told.response_body
        assert len(told.response_body) <= length


def test_a_key_in_an_address_is_hidden() -> None:
    """By the names that such parameters have, whatever their value, and by its own value."""
    told: list[HttpExchange] = []
    observation = Observation(told.append, secret=KEY, max_bytes=10)
    url = f"http://localhost/{KEY}/v1?api_key=abc&a=1&X-Token=abc&sig=abc&b=2"
    observation.sent(httpx2.Request("POST", url))
    observation.failed(ValueError())
    assert told[0].url == "http://localhost/***/v1?api_key=***&a=1&X-Token=***&sig=***&b=2"


async def test_without_a_key_nothing_is_hidden(provider: Provider) -> None:
    """A server that asks for none."""
    provider.reply(Says("Bonjour."))
    told = await exchanged(provider, key=None)
    assert "***" not in told.request_body + told.response_body


# -- files and limits -----------------------------------------------------------------------------


async def test_a_file_is_replaced_by_its_size_and_its_digest(provider: Provider) -> None:
    """The digest is the one in the address of the file, where it can be found."""
    block = ArtifactBlock(
        uri=f"artifact://acme/s1/{sha256(PNG).hexdigest()}.png",
        media_type="image/png",
        size=len(PNG),
        name="plan.png",
    )
    echo = b64encode(PNG).decode()
    provider.reply(Raw([json.dumps({**SAID, "echo": echo}).encode()], headers=JSON))
    told = await exchanged(
        provider,
        Message(role="user", blocks=(block,)),
        capabilities=Capabilities(vision=True),
    )
    replaced = f"[{len(PNG)} bytes, sha256 {sha256(PNG).hexdigest()}]"
    assert f'"url":"data:image/png;base64,{replaced}"' in told.request_body.replace(": ", ":")
    assert replaced in told.response_body
    assert told.request_bytes > len(PNG)
    assert not told.request_truncated


@pytest.mark.parametrize("size", range(190, 200))
async def test_every_size_of_file_is_told(provider: Provider, size: int) -> None:
    """From the smallest that looks like one."""
    data = bytes(range(256))[:size]
    provider.reply(
        Raw([json.dumps({**SAID, "x": b64encode(data).decode()}).encode()], headers=JSON)
    )
    told = await exchanged(provider)
    is_replaced = f"[{size} bytes, sha256 {sha256(data).hexdigest()}]" in told.response_body
    assert is_replaced is (size >= 192)


@pytest.mark.parametrize("max_bytes", [1, 50, 51, 52, 53])
async def test_a_body_is_cut_at_the_limit(provider: Provider, max_bytes: int) -> None:
    """Between two characters, and it is said; the sizes are those of the whole."""
    provider.reply(stream(*said("é" * 100), chunk({}, "stop")))
    told = await exchanged(provider, Message.text("user", "é" * 100), max_bytes=max_bytes)
    assert told.request_truncated
    assert told.response_truncated
    for body in (told.request_body, told.response_body):
        assert max_bytes - 1 <= len(body.encode()) <= max_bytes
    assert min(told.request_bytes, told.response_bytes) > 200


# -- what ends an exchange ------------------------------------------------------------------------


async def test_a_server_that_is_not_there_is_told() -> None:
    """The request is kept, with the type of what came in the place of an answer."""
    told = await exchanged(f"{await unused_url()}/v1")
    assert (told.status_code, told.response_body, told.error) == (None, "", "ConnectError")
    assert told.request_bytes > 0


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        pytest.param(Says("un deux", cut_after=1), "RemoteProtocolError", id="closed"),
        pytest.param(Says("un deux", cut_after=1, cut="reset"), "ReadError", id="reset"),
        pytest.param(Says("un deux", cut_after=1, cut="end"), "", id="ended"),
    ],
)
async def test_an_answer_that_is_cut_is_kept_as_far_as_it_came(
    provider: Provider, reply: Says, error: str
) -> None:
    """With the type of what cut it."""
    provider.reply(reply)
    told = await exchanged(provider)
    assert (told.status_code, told.error) == (200, error)
    assert '"un"' in told.response_body


async def test_an_answer_that_is_left_is_kept_as_far_as_it_was_read(provider: Provider) -> None:
    """Who listened went away."""
    provider.reply(Says("un deux", hang_after=1))
    told = await exchanged(provider, leave=True)
    assert (told.status_code, told.error) == (200, "left")
    assert '"un"' in told.response_body


async def test_a_call_that_is_cancelled_is_told_once(provider: Provider) -> None:
    """Also when it still waited for its answer."""
    provider.reply(Silent())
    spec = ModelSpec(id="CHAT", sdk="openai", model="chat-m1", base_url=f"{provider.url}/v1")
    model, told = ChatModel(spec), list[HttpExchange]()

    async def call() -> None:
        async for _ in model.observed(asking(spec), told.append):
            pass

    calling = asyncio.create_task(call())
    await (await provider.received()).held.wait()
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    await model.close()
    assert [(each.status_code, each.error) for each in told] == [(None, "CancelledError")]


async def test_calls_at_once_tell_each_its_own(provider: Provider) -> None:
    """Nothing of one exchange stands in another one."""
    spec = ModelSpec(id="CHAT", sdk="openai", model="chat-m1", base_url=f"{provider.url}/v1")
    model = ChatModel(spec)
    provider.default(lambda request: Says(f"n{request.body['seed']}", slow=0.001))

    async def call(number: int) -> list[HttpExchange]:
        told: list[HttpExchange] = []
        chunks = model.observed(asking(spec, params={"seed": number}), told.append)
        async for _ in chunks:
            pass
        return told

    async def silent(number: int) -> None:
        async for _ in model.stream(asking(spec, params={"seed": number})):
            pass

    numbers = range(100, 120)
    told, _ = await asyncio.gather(
        asyncio.gather(*map(call, numbers)), asyncio.gather(*map(silent, range(200, 210)))
    )
    await model.close()
    for number, (exchange,) in zip(numbers, told, strict=True):
        assert json.loads(exchange.request_body)["seed"] == number
        assert f"n{number}" in exchange.response_body


def test_what_never_left_is_not_told() -> None:
    """A failure before the request was written is no exchange."""
    told: list[HttpExchange] = []
    Observation(told.append, secret=None, max_bytes=10).failed(ValueError())
    assert told == []
