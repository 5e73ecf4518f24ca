"""What the server breaks, it breaks as it says."""

import json
import time
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from tests.providers.clients import (
    ASKED,
    ASKS,
    PATHS,
    SOON,
    Ask,
    chat,
    client,
    events_of,
    messages,
    responses,
)
from tests.providers.server import (
    Fails,
    Provider,
    Raw,
    Says,
    Silent,
    anthropic_error,
    openai_error,
    sse,
    unused_url,
)

each_format = pytest.mark.parametrize("ask", ASKS)


@each_format
@pytest.mark.parametrize("cut", ["close", "reset"])
@pytest.mark.parametrize("after", [0, 2])
async def test_a_stream_can_be_cut(provider: Provider, ask: Ask, cut: Any, after: int) -> None:
    """The client finds out that the connection was lost."""
    provider.reply(Says("a b c", cut_after=after, cut=cut))
    async with client(provider.url) as sdk:
        with pytest.raises((httpx2.TransportError, openai.APIConnectionError)):
            await ask(sdk, stream=True)
    await provider.requests[0].ended.wait()


async def test_a_stream_can_end_in_good_order_before_the_answer_does(provider: Provider) -> None:
    """HTTP is whole, and the events stop in the middle."""
    provider.reply(Says("a b c", cut_after=2, cut="end"))
    found = await events_of(provider.url, "/v1/messages")
    assert [data["delta"]["text"] for name, data in found if "delta" in data] == ["a", " b"]
    assert found[-1][0] == "content_block_delta"


@each_format
@pytest.mark.parametrize("after", [0, 1])
async def test_an_error_can_come_in_the_stream(provider: Provider, ask: Ask, after: int) -> None:
    """It has the shape of the format, and the SDK raises or gives it."""
    error = {"type": "overloaded_error", "message": "Overloaded", "code": "busy"}
    if ask is responses:
        del error["type"]
    provider.reply(Says("a b", error_after=(after, error)))
    found = await events_of(provider.url, PATHS[ask])
    last = found[-1][1]
    assert last.get("error", last)["message"] == "Overloaded"
    assert sum("delta" in json.dumps(data) for _, data in found) >= after


async def test_a_stream_can_pause_and_be_slow(provider: Provider) -> None:
    """The time passes where it was said to."""
    provider.reply(Says("a b c", pause_after=(1, SOON)), Says("a b c", slow=SOON))
    async with client(provider.url) as sdk:
        for least in (SOON, 3 * SOON):
            begun = time.monotonic()
            assert (await chat(sdk, stream=True)).text == "a b c"
            assert time.monotonic() - begun >= least


async def test_bytes_are_sent_as_they_are(provider: Provider) -> None:
    """Each chunk comes alone, with the status and the headers that were given."""
    chunks = [b"\xc3", b"\xa9", b": nothing"]
    provider.reply(Raw(chunks, status=203, headers={"Content-Type": "text/odd"}, pause=SOON))
    async with (
        httpx2.AsyncClient() as http,
        http.stream("POST", f"{provider.url}/v1/messages", json={}) as got,
    ):
        assert (got.status_code, got.headers["content-type"]) == (203, "text/odd")
        assert [chunk async for chunk in got.aiter_raw()] == chunks


@pytest.mark.parametrize(
    "raw",
    [
        Raw([b"data: {}"], cut=True),
        Raw([b"data: {}"], cut="reset"),
        Raw([b"short"], headers={"content-length": "100"}, cut=True),
    ],
)
async def test_bytes_can_be_cut(provider: Provider, raw: Raw) -> None:
    """The body is not whole, and the client knows it."""
    provider.reply(raw)
    async with httpx2.AsyncClient() as http:
        with pytest.raises(httpx2.TransportError):
            await http.post(f"{provider.url}/v1/messages", json={})


async def test_a_stream_of_raw_events_is_read_by_the_sdk(provider: Provider) -> None:
    """`sse` writes events that an SDK reads."""
    chunk = {"id": "c", "choices": [{"index": 0, "delta": {"content": "é"}}]}
    provider.reply(Raw([sse(json.dumps(chunk)), sse("[DONE]")]))
    async with client(provider.url) as sdk:
        streaming = await sdk.openai.chat.completions.create(
            model="m1", messages=ASKED, stream=True
        )
        assert [chunk.choices[0].delta.content async for chunk in streaming] == ["é"]


@pytest.mark.parametrize(
    ("ask", "status", "raised"),
    [
        (messages, 400, anthropic.BadRequestError),
        (messages, 401, anthropic.AuthenticationError),
        (messages, 429, anthropic.RateLimitError),
        (messages, 529, anthropic.InternalServerError),
        (chat, 401, openai.AuthenticationError),
        (chat, 429, openai.RateLimitError),
        (responses, 400, openai.BadRequestError),
        (responses, 503, openai.InternalServerError),
    ],
)
async def test_an_error_has_the_shape_of_the_format(
    provider: Provider, ask: Ask, status: int, raised: type[Exception]
) -> None:
    """The SDK raises its own class, with the body and the headers of the provider."""
    provider.reply(Fails(status, headers={"retry-after": "7"}))
    async with client(provider.url) as sdk:
        with pytest.raises(raised, match=f"it fails with {status}") as caught:
            await ask(sdk, stream=True)
    assert getattr(caught.value, "response").headers["retry-after"] == "7"  # noqa: B009
    assert getattr(caught.value, "request_id") == "req_0000"  # noqa: B009


async def test_an_error_can_be_given_whole(provider: Provider) -> None:
    """Both builders make bodies of which the SDK reads the type and the code."""
    spent = openai_error("You are out.", type="insufficient_quota", code="insufficient_quota")
    provider.reply(Fails(429, spent), path="/chat/completions")
    provider.reply(Fails(413, anthropic_error("request_too_large", "Too long.")))
    provider.reply(Fails(502, "<html>Bad gateway</html>"))
    async with client(provider.url) as sdk:
        with pytest.raises(openai.RateLimitError) as over:
            await chat(sdk, stream=True)
        with pytest.raises(anthropic.APIStatusError) as long:
            await messages(sdk, stream=True)
        with pytest.raises(openai.InternalServerError) as bad:
            await chat(sdk, stream=True)
    assert over.value.code == "insufficient_quota"
    assert long.value.type == "request_too_large"
    assert "Bad gateway" in bad.value.response.text


@pytest.mark.parametrize("silent", [Silent(), Silent(headers_first=True)])
@each_format
async def test_silence_runs_into_the_limit_of_the_client(
    provider: Provider, ask: Ask, silent: Silent
) -> None:
    """Nothing comes, the client gives up, the server sees it leave."""
    provider.reply(silent)
    limits = httpx2.Timeout(5.0, read=SOON)
    async with client(provider.url, timeout=limits) as sdk:
        with pytest.raises((anthropic.APITimeoutError, openai.APITimeoutError, httpx2.ReadTimeout)):
            await ask(sdk, stream=True)
        await provider.requests[0].disconnected.wait(1.0)


async def test_silence_can_end(provider: Provider) -> None:
    """After its time another reply follows, or the connection is closed."""
    provider.reply(Silent(before=SOON, then=Says("at last")), Silent(before=SOON))
    async with client(provider.url) as sdk:
        assert (await chat(sdk, stream=True)).text == "at last"
        with pytest.raises(openai.APIConnectionError):
            await chat(sdk, stream=True)


async def test_nobody_listens_at_an_unused_address() -> None:
    """A connection is refused there."""
    async with client(await unused_url()) as sdk:
        with pytest.raises(openai.APIConnectionError):
            await chat(sdk, stream=True)
