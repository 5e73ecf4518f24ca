"""A model without a host: addresses, keys, presets, and the end of a script."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from loom_ia.assembly.chat import chat_model
from loom_ia.core.errors import ModelError
from loom_ia.core.model import Message
from loom_ia.graph.models import ChatRequest
from tests.providers.chunks import chunk, said, stream
from tests.providers.server import Fails, Provider, Raw, Says, Silent, sse

HELLO = ChatRequest([Message("user", "Bonjour")])
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
VARIABLES = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "DEEPSEEK_API_KEY")
ANTHROPIC = Raw(
    [
        sse(json.dumps({"type": kind, **more}), kind)
        for kind, more in (
            ("message_start", {"message": {"role": "assistant", "content": [], "usage": {}}}),
            ("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}}),
            (
                "content_block_delta",
                {"index": 0, "delta": {"type": "text_delta", "text": "Bonjour."}},
            ),
            ("content_block_stop", {"index": 0}),
            ("message_delta", {"delta": {"stop_reason": "end_turn"}}),
            ("message_stop", {}),
        )
    ]
)


@pytest.fixture
async def provider(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Provider]:
    """Serve on the loopback for the length of a test, without a key in the environment."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    async with Provider() as serving:
        yield serving


async def path_of(provider: Provider, **settings: Any) -> str:
    """Ask once, and give where the request went."""
    is_anthropic = settings.get("sdk") == "anthropic"
    # As it is, for the server knows the formats by their paths.
    provider.reply(ANTHROPIC if is_anthropic else stream(*said("Bonjour."), chunk({}, "stop")))
    model = chat_model("m1", api_key="k", **settings)
    assert (await model(HELLO)).text == "Bonjour."
    await model.close()
    return provider.requests[-1].path


@pytest.mark.parametrize(
    ("after", "settings", "path"),
    [
        ("", {}, "/v1/chat/completions"),
        ("/", {}, "/v1/chat/completions"),
        ("/proxy/", {}, "/proxy/v1/chat/completions"),
        ("", {"chat_path": "/chat"}, "/chat"),
        ("/api/paas/v4", {"chat_path": "/chat/completions"}, "/api/paas/v4/chat/completions"),
        ("", {"sdk": "deepseek"}, "/v1/chat/completions"),
        ("", {"sdk": "anthropic"}, "/v1/messages"),
        ("", {"sdk": "anthropic", "chat_path": "/mine"}, "/mine"),
    ],
)
async def test_requests_go_to_the_address_then_the_path(
    provider: Provider, after: str, settings: dict[str, Any], path: str
) -> None:
    """Without the trailing slash of the one, and with the other as it is."""
    assert await path_of(provider, base_url=f"{provider.url}{after}", **settings) == path


async def test_a_path_may_have_a_query(provider: Provider) -> None:
    """As some gateways want it."""
    await path_of(provider, base_url=provider.url, chat_path="/chat?api-version=7")
    assert provider.requests[0].query == "api-version=7"


@pytest.mark.parametrize(
    ("sdk", "variable", "header"),
    [
        ("openai", "OPENAI_API_KEY", "authorization"),
        ("deepseek", "DEEPSEEK_API_KEY", "authorization"),
        ("anthropic", "ANTHROPIC_API_KEY", "authorization"),
    ],
)
async def test_the_key_is_given_or_found_at_the_first_call(
    provider: Provider, monkeypatch: pytest.MonkeyPatch, sdk: Any, variable: str, header: str
) -> None:
    """In the variable of the provider; the one that is given comes first."""
    provider.default(Says("Bonjour."))
    given = chat_model("m1", sdk=sdk, base_url=provider.url, api_key="sk-given")
    found = chat_model("m1", sdk=sdk, base_url=provider.url)
    monkeypatch.setenv(variable, "sk-found")
    sent: list[str] = []
    for model in (given, found):
        await model(HELLO)
        await model.close()
        sent.append(provider.requests[-1].headers[header].removeprefix("Bearer "))
    assert sent == ["sk-given", "sk-found"]


@pytest.mark.parametrize("sdk", ["openai", "deepseek", "anthropic"])
async def test_a_missing_key_is_told_by_its_variable(provider: Provider, sdk: Any) -> None:
    """At the first call, before anything is sent."""
    model = chat_model("m1", sdk=sdk)
    with pytest.raises(ModelError, match=f"{sdk.upper()}_API_KEY") as caught:
        await model(HELLO)
    assert caught.value.kind == "auth"


async def test_a_server_of_ones_own_may_ask_for_no_key(provider: Provider) -> None:
    """What is sent in its place is none."""
    provider.reply(Says("Bonjour."))
    model = chat_model("m1", base_url=provider.url)
    assert (await model(HELLO)).text == "Bonjour."
    assert provider.requests[0].headers["authorization"] == "Bearer -"


async def test_what_is_no_key_is_told_without_showing_it(provider: Provider) -> None:
    """A line end at its end, as a file gives it."""
    model = chat_model("m1", base_url=provider.url, api_key="sk-secret\n")
    with pytest.raises(ModelError, match="api_key") as caught:
        await model(HELLO)
    assert "sk-secret" not in f"{caught.value!r} {caught.value.params}"


async def test_a_key_stands_nowhere(provider: Provider, caplog: pytest.LogCaptureFixture) -> None:
    """Neither in what is shown of a model, nor in what is logged of a call that fails."""
    caplog.set_level(logging.DEBUG)
    provider.reply(Fails(401, {"error": {"message": "wrong key sk-secret-key"}}))
    model = chat_model("m1", base_url=provider.url, api_key="sk-secret-key")
    with pytest.raises(ModelError) as caught:
        await model(HELLO)
    assert "sk-secret-key" not in f"{model!r} {caught.value} {caught.value.params} {caplog.text}"


async def test_a_schema_goes_with_the_request(provider: Provider) -> None:
    """To OpenAI, and to what is compatible with it."""
    provider.reply(Says('{"n": 1}'))
    model = chat_model("m1", base_url=provider.url)
    await model(ChatRequest([Message("user", "?")], output_schema=SCHEMA))
    body = provider.requests[0].body
    assert body["response_format"]["type"] == "json_schema"
    assert body["response_format"]["json_schema"]["schema"] == SCHEMA


@pytest.mark.parametrize("settings", [{"json_object": True}, {"sdk": "deepseek"}])
async def test_a_model_that_only_writes_json_reads_its_schema(
    provider: Provider, settings: dict[str, Any]
) -> None:
    """The mode is asked for when there is a schema, and then alone."""
    provider.default(Says('{"n": 1}'))
    model = chat_model("m1", base_url=provider.url, **settings)
    await model(ChatRequest([Message("user", "?")], output_schema=SCHEMA))
    await model(HELLO)
    with_schema, without = (request.body for request in provider.requests)
    assert with_schema["response_format"] == {"type": "json_object"}
    assert "JSON" in with_schema["messages"][0]["content"]
    assert '"integer"' in with_schema["messages"][0]["content"]
    assert "response_format" not in without
    assert len(without["messages"]) == 1


async def test_attempts_and_clocks_are_those_that_are_given(provider: Provider) -> None:
    """One attempt is not followed by another, and a silence ends it."""
    provider.default(Silent())
    model = chat_model("m1", base_url=provider.url, max_attempts=1, first_token=0.05)
    with pytest.raises(ModelError, match="first_token"):
        await model(HELLO)
    assert len(provider.requests) == 1
    await model.close()


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"sdk": "gemini"}, "sdk"),
        ({"chat_path": "v1/chat"}, "chat_path"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"idle": 0.0}, "idle"),
        ({"base_url": "ftp://here"}, "base_url"),
    ],
)
def test_a_wrong_value_is_refused_at_once(settings: dict[str, Any], named: str) -> None:
    """By the name of the option."""
    with pytest.raises(ValueError, match=named):
        chat_model("m1", **settings)


def test_a_model_serves_one_loop_after_the_other() -> None:
    """A script may run several, and end each without closing anything."""
    with Provider.in_thread() as provider:
        provider.default(Says("Bonjour."))
        model = chat_model("m1", base_url=provider.url, api_key="k")
        said = [asyncio.run(model(HELLO)).text for _ in range(2)]
        assert said == ["Bonjour."] * 2
        assert provider.opened == 2
        asyncio.run(provider.idle())


async def test_calls_share_their_connections(provider: Provider) -> None:
    """One after the other needs one."""
    provider.default(Says("Bonjour."))
    model = chat_model("m1", base_url=provider.url)
    for _ in range(3):
        await model(HELLO)
    assert provider.opened == 1


async def test_a_model_may_be_used_after_it_was_closed(provider: Provider) -> None:
    """It connects again; closing twice does nothing."""
    provider.default(Says("Bonjour."))
    model = chat_model("m1", base_url=provider.url)
    await model(HELLO)
    await model.close()
    await model.close()
    await provider.idle()
    assert (await model(HELLO)).text == "Bonjour."


def test_a_model_that_is_listed_has_its_prices() -> None:
    """As agents have them, from the official address alone."""
    pytest.importorskip("genai_prices")
    listed, other = chat_model("gpt-4o"), chat_model("gpt-4o", base_url="http://127.0.0.1:9")
    assert listed._client.spec.pricing is not None
    assert other._client.spec.pricing is None
