"""The server itself: what it saw, and which reply it plays."""

import asyncio
import threading
import time
from typing import Any

import anthropic
import httpx2
import pytest

from tests.providers.clients import (
    ASKED,
    ASKS,
    SOON,
    Ask,
    chat,
    client,
    messages,
)
from tests.providers.server import (
    Called,
    Fails,
    Provider,
    Raw,
    Says,
    Silent,
)

each_format = pytest.mark.parametrize("ask", ASKS)


# ── What it saw ─────────────────────────────────────────────────────────────────────────────────


async def test_a_request_is_kept_as_it_was_sent(provider: Provider) -> None:
    """Method, path, headers in lower case, body, instant."""
    provider.reply(Says("a"))
    begun = time.monotonic()
    async with client(provider.url) as sdk:
        await messages(sdk, stream=False)
    (request,) = provider.requests
    assert (request.method, request.path) == ("POST", "/v1/messages")
    assert request.headers["authorization"] == "Bearer k"
    assert request.body == {"model": "m1", "max_tokens": 100, "messages": ASKED}
    assert begun <= request.at <= time.monotonic()
    await request.ended.wait()
    assert not request.disconnected.is_set()


@each_format
@pytest.mark.parametrize("reply", [Says("a b c", hang_after=2), Silent(headers_first=True)])
async def test_a_client_that_leaves_is_seen(provider: Provider, ask: Ask, reply: Any) -> None:
    """A call that is cancelled in the middle of its answer is noticed within a second."""
    provider.reply(reply)
    async with client(provider.url) as sdk:
        asking = asyncio.ensure_future(ask(sdk, stream=True))
        request = await provider.received()
        await request.held.wait()
        asking.cancel()
        await request.disconnected.wait(1.0)
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert not request.ended.is_set()
        await provider.idle(1.0)


async def test_a_client_that_stays_is_not_seen_leaving(provider: Provider) -> None:
    """The wait ends with an error when nobody leaves."""
    provider.reply(Silent())
    async with client(provider.url) as sdk:
        asking = asyncio.ensure_future(chat(sdk, stream=True))
        request = await provider.received()
        with pytest.raises(TimeoutError):
            await request.disconnected.wait(SOON)
        with pytest.raises(TimeoutError):
            await provider.idle(SOON)
        asking.cancel()
        await request.disconnected.wait(1.0)


async def test_connections_are_counted(provider: Provider) -> None:
    """Calls one after the other share a connection, calls together do not."""
    provider.default(Says("a"))
    async with client(provider.url) as sdk:
        for stream in (True, False, True):
            await chat(sdk, stream=stream)
        assert (provider.connections, provider.opened) == (1, 1)
        await asyncio.gather(*(chat(sdk, stream=True) for _ in range(3)))
        assert provider.opened > 1
    await provider.idle()
    assert provider.connections == 0


# ── Which reply ─────────────────────────────────────────────────────────────────────────────────


async def test_replies_are_played_in_order_and_the_default_after_them(provider: Provider) -> None:
    """The queue comes first; the default answers as often as needed."""
    provider.default(Says("default"))
    provider.reply(Says("one"), Says("two"))
    async with client(provider.url) as sdk:
        texts = [(await chat(sdk, stream=True)).text for _ in range(4)]
    assert texts == ["one", "two", "default", "default"]
    assert provider.left == 0


async def test_a_reply_can_wait_for_its_model_or_its_path(provider: Provider) -> None:
    """A reply that is not for a request is left to the next that it fits."""
    provider.reply(Says("for m2"), model="m2")
    provider.reply(Says("for messages"), path="/messages")
    provider.reply(Says("for any"))
    async with client(provider.url) as sdk:
        first = await chat(sdk, stream=True, model="m1")
        second = await messages(sdk, stream=True, model="m1")
        third = await chat(sdk, stream=True, model="m2")
    assert [first.text, second.text, third.text] == ["for any", "for messages", "for m2"]


async def test_a_reply_can_depend_on_its_request(provider: Provider) -> None:
    """A function is given the request."""
    provider.default(lambda request: Says(request.body["model"]))
    async with client(provider.url) as sdk:
        assert (await chat(sdk, stream=True, model="m7")).text == "m7"


async def test_a_request_without_a_reply_fails_the_test() -> None:
    """The client reads a 599 that says why, and leaving the server raises the same."""
    provider = await Provider().__aenter__()
    async with client(provider.url) as sdk:
        with pytest.raises(anthropic.APIStatusError, match="no reply was queued") as caught:
            await messages(sdk, stream=True)
    assert caught.value.status_code == 599
    with pytest.raises(AssertionError, match=r"no reply was queued for POST /v1/messages"):
        await provider.__aexit__(None)


@pytest.mark.parametrize(
    ("says", "stream", "why"),
    [
        (Says("a b", cut_after=3), True, "cannot break after piece 3: there are 2"),
        (Says("a b", cut_after=1), False, "only a streamed answer can be broken"),
        (Says(calls=[Called("f", "{")]), False, "the reply failed"),
    ],
)
async def test_a_reply_that_cannot_be_written_fails_the_test(
    says: Says, stream: bool, why: str
) -> None:
    """A break that would never happen and arguments that are no JSON are faults of the test."""
    provider = await Provider().__aenter__()
    provider.reply(says)
    async with client(provider.url) as sdk:
        with pytest.raises(anthropic.APIStatusError, match=why):
            await messages(sdk, stream=stream)
    with pytest.raises(AssertionError, match=why):
        await provider.__aexit__(None)


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (Says("a"), "/any belongs to no format: answer it with Raw"),
        (Fails(500), "/any belongs to no format: give the body"),
    ],
)
async def test_an_unknown_path_is_answered_with_what_needs_no_format(
    reply: Says | Fails, why: str
) -> None:
    """Bytes and bodies that are given need none; a text and a status do."""
    provider = await Provider().__aenter__()
    provider.reply(Raw([b"x"]), Fails(500, "y"), reply)
    async with httpx2.AsyncClient() as http:
        texts = [(await http.get(f"{provider.url}/any")).text for _ in range(3)]
    assert texts[:2] == ["x", "y"]
    assert why in texts[2]
    with pytest.raises(AssertionError, match=why):
        await provider.__aexit__(None)


async def test_a_fault_once_the_answer_began_resets_the_connection() -> None:
    """Nothing can be said any more but that it failed."""
    provider = await Provider().__aenter__()
    provider.reply(Silent(before=0, headers_first=True, then=Says("a")))
    async with client(provider.url) as sdk:
        with pytest.raises(httpx2.TransportError):
            await messages(sdk, stream=True)
    with pytest.raises(AssertionError, match="once the headers are sent"):
        await provider.__aexit__(None)


async def test_what_is_no_http_fails_the_test() -> None:
    """The server says so when it is left, and goes on."""
    provider = await Provider().__aenter__()
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", int(provider.url.rpartition(":")[2])
    )
    writer.write(b"hello\r\n\r\n")
    assert await reader.read() == b""
    writer.close()
    await writer.wait_closed()
    with pytest.raises(AssertionError, match="a connection failed"):
        await provider.__aexit__(None)


async def test_a_client_that_wants_no_other_request_is_let_go(provider: Provider) -> None:
    """The server closes after its answer when it was asked to."""
    provider.reply(Says("a"))
    async with httpx2.AsyncClient(headers={"connection": "close"}) as http:
        got = await http.post(f"{provider.url}/v1/messages", json={"model": "m"})
        await provider.idle()
    assert got.json()["content"][0]["text"] == "a"


# ── In a thread ─────────────────────────────────────────────────────────────────────────────────


def test_a_test_without_a_loop_can_serve_from_a_thread() -> None:
    """The server answers, and leaves no thread behind."""
    before = threading.active_count()
    with Provider.in_thread() as provider:
        provider.reply(Says("Bonjour toi"))
        with anthropic.Anthropic(api_key="k", base_url=provider.url, max_retries=0) as sdk:
            said = sdk.messages.create(model="m1", max_tokens=9, messages=ASKED)
        assert said.content[0].type == "text"
        assert said.content[0].text == "Bonjour toi"
        provider.requests[0].ended.wait_in_thread(1.0)
        with pytest.raises(TimeoutError):
            provider.requests[0].disconnected.wait_in_thread(SOON)
    assert threading.active_count() == before


def test_a_fault_in_a_thread_fails_the_test_too() -> None:
    """Leaving the server raises what it could not answer."""
    with pytest.raises(AssertionError, match="no reply was queued"), Provider.in_thread() as server:
        httpx2.post(f"{server.url}/v1/messages", json={})
