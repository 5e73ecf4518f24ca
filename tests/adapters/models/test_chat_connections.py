"""How Chat Completions are spoken to: keys, addresses, connections."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from loom_ia.adapters.models.client import is_here
from loom_ia.adapters.models.openai_chat.client import ChatModel
from loom_ia.adapters.models.openai_sdk import OFFICIAL
from loom_ia.core.model import ModelChunk, ModelSpec, TextDelta
from loom_ia.core.ports import ModelAccess
from tests.adapters.models.contract import asking, hear
from tests.providers.server import Provider, Says, Silent, unused_url

KEY = "sk-of-the-configuration"
ENVIRONMENT = {
    "OPENAI_API_KEY": "sk-leaks",
    "OPENAI_ADMIN_KEY": "sk-leaks-too",
    "OPENAI_ORG_ID": "org-leaks",
    "OPENAI_PROJECT_ID": "project-leaks",
    "OPENAI_WEBHOOK_SECRET": "whsec-leaks",
    "OPENAI_BASE_URL": "http://127.0.0.1:9/leaks",
    "OPENAI_CUSTOM_HEADERS": "\n".join(
        f"{name}: leaks"
        for name in (
            *("Authorization", "Host", "User-Agent", "Content-Type", "Accept", "Cookie"),
            *("X-Api-Key", "X-Leaks", "X-Stainless-Leaks", "OpenAI-Organization"),
        )
    ),
}


@pytest.fixture(params=[KEY, None], ids=["a key", "no key"])
async def model(
    provider: Provider, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[ChatModel]:
    """A model of a server that asks for a key, or for none, among variables of the SDK."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    client = chat(provider, request.param)
    yield client
    await client.close()


def chat(provider: Provider, key: str | None = KEY, **more: Any) -> ChatModel:
    """Make a model of the server."""
    url = f"{provider.url}/v1"
    spec = ModelSpec(id="CHAT", sdk="openai", model="chat-m1", base_url=url, **more)
    return ChatModel(spec, ModelAccess(api_key=key))


async def test_what_the_sdk_reads_in_the_environment_never_leaves(
    provider: Provider, model: ChatModel
) -> None:
    """The key, the address and the headers are those of the configuration, and no others."""
    provider.reply(Says("Bonjour."))
    heard = await hear(model, asking(model.spec))
    assert heard.text == "Bonjour."
    (request,) = provider.requests
    whole = f"{request.path} {request.query} {request.headers} {request.raw.decode()}"
    assert "leaks" not in whole.lower()
    assert not [name for name in request.headers if name.startswith("openai-")]
    assert request.headers["host"] == provider.url.removeprefix("http://")


async def test_the_key_is_the_one_that_was_given(provider: Provider) -> None:
    """It goes in the header of the format; a server that asks for none gets none that is one."""
    sent: list[str] = []
    for key in (KEY, None):
        model = chat(provider, key)
        provider.reply(Says("Bonjour."))
        await hear(model, asking(model.spec))
        await model.close()
        sent.append(provider.requests[-1].headers["authorization"])
    assert sent == [f"Bearer {KEY}", "Bearer -"]


async def test_without_an_address_it_is_the_official_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when a variable of the SDK names another."""
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/leaks")
    model = ChatModel(ModelSpec(id="CHAT", sdk="openai", model="chat-m1"))
    await model.prepare()
    assert str(model._sdk.base_url).rstrip("/") == OFFICIAL
    await model.close()


async def left_after(model: ChatModel, chunks: int) -> list[ModelChunk]:
    """Listen to so many chunks, and leave."""
    heard: list[ModelChunk] = []
    async with aclosing(model.stream(asking(model.spec))) as answer:
        async for chunk in answer:
            heard.append(chunk)
            if len(heard) == chunks:
                break
    return heard


async def test_leaving_an_answer_closes_its_connection(provider: Provider) -> None:
    """The provider sees within a second that nobody listens; the next call works."""
    model = chat(provider)
    provider.reply(Says("un deux trois quatre", hang_after=2))
    assert len(await left_after(model, 2)) == 2
    await provider.requests[0].disconnected.wait(1.0)
    await provider.idle()
    provider.reply(Says("Bonjour."))
    assert (await hear(model, asking(model.spec))).text == "Bonjour."
    await model.close()


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(Silent(), id="before the headers"),
        pytest.param(Silent(headers_first=True), id="after the headers"),
        pytest.param(Says("un deux", hang_after=1), id="in the middle"),
    ],
)
async def test_a_cancelled_call_closes_its_connection(provider: Provider, reply: Any) -> None:
    """Wherever it waited, its cancellation is let through and the provider sees it leave."""
    model = chat(provider)
    provider.reply(reply)
    calling = asyncio.create_task(hear(model, asking(model.spec)))
    request = await provider.received()
    await request.held.wait()
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    await request.disconnected.wait(1.0)
    await provider.idle()
    await model.close()


async def test_calls_at_once_share_a_client_and_leave_nothing(provider: Provider) -> None:
    """Fifty answers come whole, each to who asked; their connections serve again, then close."""
    model = chat(provider)

    def answer(request: Any) -> Says:
        return Says(f"réponse {request.body['seed']} à toi", slow=0.001)

    provider.default(answer)

    async def ask(number: int) -> str:
        return (await hear(model, asking(model.spec, params={"seed": number}))).text

    for _ in range(2):
        answers = await asyncio.gather(*(ask(number) for number in range(50)))
        assert answers == [f"réponse {number} à toi" for number in range(50)]
    assert len(provider.requests) == 100
    assert provider.opened <= 50, "the second fifty find the connections of the first"
    await model.close()
    await provider.idle()


async def test_calls_one_after_the_other_use_one_connection(provider: Provider) -> None:
    """An answer is read to its very end, streamed or not."""
    for streaming in (True, False):
        model = chat(provider, capabilities={"streaming": streaming})
        before = provider.opened
        provider.default(Says("un deux trois"))
        for _ in range(5):
            assert (await hear(model, asking(model.spec))).text == "un deux trois"
        assert provider.opened == before + 1
        await model.close()


async def test_a_closed_client_opens_again_when_it_is_asked(provider: Provider) -> None:
    """Closing twice does nothing, and what was closed can be used once more."""
    model = chat(provider)
    await model.close()
    for _ in range(2):
        provider.reply(Says("Bonjour."))
        assert (await hear(model, asking(model.spec))).text == "Bonjour."
        await model.close()
        await model.close()
    await provider.idle()


async def test_a_server_that_is_not_there_is_told() -> None:
    """It is a passing error without a status, which names the model."""
    url = f"{await unused_url()}/v1"
    model = ChatModel(ModelSpec(id="CHAT", sdk="openai", model="chat-m1", base_url=url))
    heard = await hear(model, asking(model.spec))
    await model.close()
    assert heard.error is not None
    assert (heard.error.kind, heard.error.http_status) == ("transient", None)
    assert str(heard.error).startswith("CHAT: cannot be reached: ")


async def test_a_call_can_be_left_before_it_began(provider: Provider) -> None:
    """A stream that nobody listened to made no request."""
    model = chat(provider)
    await model.stream(asking(model.spec)).aclose()
    assert provider.requests == []
    provider.reply(Says("un deux"))
    (first,) = await left_after(model, 1)
    assert isinstance(first, TextDelta)
    await model.close()


# -- proxies of the environment -------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["http", "socks5"])
async def test_an_address_of_this_machine_is_never_behind_a_proxy(
    provider: Provider, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    """A proxy could not reach it, and must not see what goes there; nor need it be known."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"{scheme}://127.0.0.1:9")
    for host in ("127.0.0.1", "localhost"):
        url = provider.url.replace("127.0.0.1", host)
        spec = ModelSpec(id="CHAT", sdk="openai", model="chat-m1", base_url=f"{url}/v1")
        model = ChatModel(spec)
        provider.reply(Says("Bonjour."))
        assert (await hear(model, asking(model.spec))).text == "Bonjour."
        await model.close()


async def test_another_address_is_behind_the_proxy_of_the_environment(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As everything else on the machine."""
    monkeypatch.setenv("HTTP_PROXY", provider.url)
    monkeypatch.setenv("http_proxy", provider.url)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    url = "http://models.example/v1"
    model = ChatModel(ModelSpec(id="CHAT", sdk="openai", model="chat-m1", base_url=url))
    provider.reply(Says("Bonjour."))
    assert (await hear(model, asking(model.spec))).text == "Bonjour."
    await model.close()
    assert provider.requests[0].headers["host"] == "models.example"


@pytest.mark.parametrize(
    ("url", "here"),
    [
        ("http://127.0.0.1:11434/v1", True),
        ("http://127.8.9.1/v1", True),
        ("http://[::1]:8000", True),
        ("http://[::ffff:127.0.0.1]:8000", True),
        ("http://LocalHost.:8000", True),
        ("http://box.localhost", True),
        ("http://192.168.1.2:8000", False),
        ("http://127.0.0.1.example.org", False),
        ("http://localhost.example.org", False),
        ("https://api.openai.com/v1", False),
        (None, False),
    ],
)
def test_the_addresses_of_this_machine_are_known(url: str | None, here: bool) -> None:
    """By their names, and by their numbers."""
    assert is_here(url) is here
