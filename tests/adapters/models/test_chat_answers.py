"""How the answers of Chat Completions are read."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from loom_ia.adapters.models.openai_chat.client import ChatModel
from loom_ia.core.model import Capabilities, ModelSpec, Stopped, UsageReported
from loom_ia.core.ports import ModelAccess
from tests.adapters.models.contract import asking, hear
from tests.providers.chunks import chunk, said, stream
from tests.providers.quirks import CHAT, Quirk
from tests.providers.rules import problems_of_chat
from tests.providers.server import Called, Fails, Provider, Raw, Says, Tokens, sse

JSON = {"content-type": "application/json"}


@pytest.fixture
async def model(provider: Provider) -> AsyncIterator[ChatModel]:
    """A model of a server that speaks as OpenAI does."""
    spec = ModelSpec(id="CHAT", sdk="openai", model="chat-m1", base_url=f"{provider.url}/v1")
    client = ChatModel(spec, ModelAccess(api_key="sk-secret"))
    yield client
    await client.close()


@pytest.mark.parametrize("quirk", CHAT, ids=str)
async def test_a_quirk_is_understood(provider: Provider, model: ChatModel, quirk: Quirk) -> None:
    """What a server of the format really sends is read as what it means."""
    provider.reply(quirk.reply)
    heard = await hear(model, asking(model.spec))
    heard.verify(quirk.expected)
    assert problems_of_chat(provider.requests[0].body) == []


@pytest.mark.parametrize("streaming", [True, False])
async def test_a_whole_answer_is_what_its_stream_is(provider: Provider, streaming: bool) -> None:
    """`capabilities.streaming: false` changes how an answer comes, not what it is."""
    spec = ModelSpec(
        id="CHAT",
        sdk="openai",
        model="chat-m1",
        base_url=f"{provider.url}/v1",
        capabilities=Capabilities(streaming=streaming),
    )
    model = ChatModel(spec)
    provider.reply(
        Says(
            "Je calcule.",
            "Hm.",
            [Called("add", {"a": 1}, "call_1"), Called("now", {}, "call_2")],
            Tokens(100, 20, cache_read=30, reasoning=8),
        )
    )
    heard = await hear(model, asking(spec))
    await model.close()
    assert provider.requests[0].body.get("stream", False) is streaming
    answer = heard.answer
    assert answer.message.as_text() == "Je calcule."
    assert [(call.call_id, call.name) for call in answer.message.calls] == [
        ("call_1", "add"),
        ("call_2", "now"),
    ]
    assert answer.usage is not None
    assert answer.usage.model_dump() == {
        "input_tokens": 100,
        "output_tokens": 20,
        "cache_read_tokens": 30,
        "reasoning_tokens": 8,
    }


async def test_the_last_count_replaces_the_others(provider: Provider, model: ChatModel) -> None:
    """A server that counts on every chunk is not paid for each of them."""
    first, last = ({"prompt_tokens": 9, "completion_tokens": count} for count in (1, 2))
    provider.reply(
        stream(chunk({"content": "a"}, usage=first), chunk({"content": "b"}, "stop", usage=last))
    )
    heard = await hear(model, asking(model.spec))
    assert len([c for c in heard.chunks if isinstance(c, UsageReported)]) == 2
    assert heard.usage is not None
    assert heard.usage.output_tokens == 2


async def test_what_xai_thought_is_paid_too(provider: Provider, model: ChatModel) -> None:
    """It counts its reasoning beside what it wrote, where OpenAI counts it inside."""
    counts = {
        "prompt_tokens": 10120,
        "completion_tokens": 1499,
        "total_tokens": 14428,
        "prompt_tokens_details": {"cached_tokens": 128},
        "completion_tokens_details": {"reasoning_tokens": 2809},
    }
    provider.reply(stream(*said("Bonjour"), chunk({}, "stop", usage=counts)))
    usage = (await hear(model, asking(model.spec))).usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.output_tokens) == (10120, 1499 + 2809)
    assert usage.reasoning_tokens == 2809


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
async def test_the_key_of_a_thought_is_kept_when_it_is_not_the_usual_one(
    provider: Provider, model: ChatModel, key: str
) -> None:
    """The server wants it back under that one."""
    provider.reply(stream(chunk({key: "Hm."}), *said("Bonjour"), chunk({}, "stop")))
    thought, _ = (await hear(model, asking(model.spec))).answer.blocks
    assert thought.provider_meta == ({} if key == "reasoning_content" else {"chat": {"key": key}})


@pytest.mark.parametrize(
    "reason", ["abort", "error", "insufficient_system_resource", "network_error"]
)
async def test_an_answer_that_the_server_gave_up_is_none(
    provider: Provider, model: ChatModel, reason: str
) -> None:
    """Its reason says so: what came of it must not pass for the whole."""
    provider.reply(stream(*said("Bonjour"), chunk({}, reason)))
    heard = await hear(model, asking(model.spec))
    assert heard.text == "Bonjour"
    assert not any(isinstance(chunk, Stopped) for chunk in heard.chunks)


@pytest.mark.parametrize(
    ("reason", "stop"), [("model_length", "max_tokens"), ("sensitive", "refusal")]
)
async def test_other_words_for_a_reason_are_known(
    provider: Provider, model: ChatModel, reason: str, stop: str
) -> None:
    """Mistral's for a window that is full, Zhipu's for what is filtered."""
    provider.reply(stream(*said("Bonjour"), chunk({}, reason)))
    assert (await hear(model, asking(model.spec))).answer.stop_reason == stop


def minimax(code: int) -> str:
    """Write what MiniMax sends in the place of an answer."""
    how = {"status_code": code, "status_msg": "login fail"}
    return json.dumps({"choices": None, "base_resp": how})


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(Raw([minimax(1004).encode()], headers=JSON), id="whole"),
        pytest.param(Raw([sse(minimax(1004))]), id="in a stream"),
    ],
)
async def test_minimax_tells_of_errors_under_status_200(
    provider: Provider, model: ChatModel, reply: Raw
) -> None:
    """Its own code stands beside the choices; what it says is what is told."""
    provider.reply(reply)
    heard = await hear(model, asking(model.spec))
    assert heard.error is not None
    assert "login fail" in str(heard.error)


async def test_minimax_tells_that_all_is_well(provider: Provider, model: ChatModel) -> None:
    """Its code 0 is no error."""
    well = {"status_code": 0, "status_msg": ""}
    provider.reply(stream(*said("Bonjour"), chunk({}, "stop", base_resp=well)))
    assert (await hear(model, asking(model.spec))).answer.message.as_text() == "Bonjour"


@pytest.mark.parametrize("cut", ["close", "reset", "end"])
@pytest.mark.parametrize("after", [0, 2])
async def test_an_answer_that_is_cut_is_none(
    provider: Provider, model: ChatModel, cut: Any, after: int
) -> None:
    """Whatever ends the connection: what was said is given, and no end."""
    provider.reply(Says("un deux trois", cut_after=after, cut=cut))
    heard = await hear(model, asking(model.spec))
    assert heard.text == ("un deux" if after else "")
    assert heard.error is None or heard.error.kind == "transient"
    assert not any(isinstance(chunk, Stopped) for chunk in heard.chunks)


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, "invalid_request"), (401, "auth"), (402, "quota_exhausted"), (429, "transient")],
)
async def test_a_refused_request_is_told(
    provider: Provider, model: ChatModel, status: int, kind: str
) -> None:
    """The kind, the status, the wait that is asked for, and what the provider says."""
    provider.reply(Fails(status, headers={"Retry-After": "7"}))
    heard = await hear(model, asking(model.spec))
    assert heard.error is not None
    assert (heard.error.kind, heard.error.http_status) == (kind, status)
    assert heard.error.retry_after == 7
    assert str(heard.error) == f"CHAT: HTTP {status}: it fails with {status}"
