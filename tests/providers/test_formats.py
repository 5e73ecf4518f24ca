"""What the server writes honestly is read by the real SDKs, streamed or not."""

import json
from collections.abc import Sequence

import openai
import pytest

from tests.providers.clients import ASKS, SEALED, Ask, chat, client, events_of, responses
from tests.providers.server import (
    Called,
    Declined,
    Hidden,
    Provider,
    Says,
    Text,
    Thought,
    Tokens,
)

each_format = pytest.mark.parametrize("ask", ASKS)
streamed_or_not = pytest.mark.parametrize("stream", [True, False])


@each_format
@streamed_or_not
async def test_an_honest_answer_is_read_by_the_sdk(
    provider: Provider, ask: Ask, stream: bool
) -> None:
    """Text, reasoning and two parallel calls come out as they went in."""
    calls = [Called("add", {"a": 1, "word": "é"}), Called("now")]
    provider.reply(Says(" Je  réponds\nen mots. ", reasoning="Je pense donc.", calls=calls))
    async with client(provider.url) as sdk:
        read = await ask(sdk, stream=stream)
    assert (read.text, read.reasoning) == (" Je  réponds\nen mots. ", "Je pense donc.")
    assert [(name, json.loads(given)) for name, given in read.calls] == [
        ("add", {"a": 1, "word": "é"}),
        ("now", {}),
    ]


@pytest.mark.parametrize(
    ("says", "expected"),
    [
        (Says("a"), ("end_turn", "stop", "completed")),
        (Says(calls=[Called("f")]), ("tool_use", "tool_calls", "completed")),
        (Says("a", stop="max_tokens"), ("max_tokens", "length", "incomplete")),
        (Says("a", stop="refusal"), ("refusal", "content_filter", "incomplete")),
        (Says(refusal="No."), ("refusal", "stop", "completed")),
    ],
)
@pytest.mark.parametrize("rank", [0, 1, 2])
@streamed_or_not
async def test_each_format_has_its_words_for_why_the_model_stopped(
    provider: Provider, says: Says, expected: Sequence[str], rank: int, stream: bool
) -> None:
    """The neutral reason is written in the words of the format."""
    provider.reply(says)
    async with client(provider.url) as sdk:
        try:
            read = await ASKS[rank](sdk, stream=stream)
            stop = read.stop
        except openai.LengthFinishReasonError:
            stop = "length"
        except openai.ContentFilterFinishReasonError:
            stop = "content_filter"
    assert stop == expected[rank]


@streamed_or_not
async def test_tokens_are_counted_as_each_provider_counts_them(
    provider: Provider, stream: bool
) -> None:
    """Anthropic leaves the cache out of the input, OpenAI keeps it in."""
    provider.default(Says("a", usage=Tokens(100, 50, 30, 20, 7, 40)))
    async with client(provider.url) as sdk:
        usages = [(await ask(sdk, stream=stream)).usage for ask in ASKS]
    first, second, third = usages
    assert (first.input_tokens, first.output_tokens) == (100, 50)
    assert (first.cache_read_input_tokens, first.cache_creation_input_tokens) == (30, 27)
    assert first.cache_creation.ephemeral_5m_input_tokens == 20
    assert first.cache_creation.ephemeral_1h_input_tokens == 7
    assert first.output_tokens_details.thinking_tokens == 40
    assert (second.prompt_tokens, second.completion_tokens) == (157, 50)
    assert second.prompt_tokens_details.cached_tokens == 30
    assert second.prompt_tokens_details.cache_write_tokens == 27
    assert second.completion_tokens_details.reasoning_tokens == 40
    assert (third.input_tokens, third.output_tokens, third.total_tokens) == (157, 50, 207)
    assert third.input_tokens_details.cached_tokens == 30
    assert third.output_tokens_details.reasoning_tokens == 40


async def test_usage_is_streamed_only_to_who_asks_for_it(provider: Provider) -> None:
    """The last chunk has the usage and no choice, when `include_usage` says so."""
    provider.default(Says("a b"))
    path = "/v1/chat/completions"
    without = await events_of(provider.url, path)
    given = await events_of(provider.url, path, stream_options={"include_usage": True})
    assert all("usage" not in data for _, data in without[:-1])
    assert (given[-2][1]["choices"], given[-2][1]["usage"]["total_tokens"]) == ([], 15)
    assert given[-1] == without[-1] == ("", "[DONE]")


async def test_the_events_of_anthropic_come_in_the_real_order(provider: Provider) -> None:
    """Blocks open and close one after the other; each event bears the name of its type."""
    provider.reply(Says(parts=[Thought("a", "s"), Hidden("x"), Text("b c"), Called("f", {"n": 1})]))
    found = await events_of(provider.url, "/v1/messages")
    assert all(name == data["type"] for name, data in found)
    assert [
        data.get("delta", {}).get("type") or data.get("content_block", {}).get("type") or name
        for name, data in found
    ] == [
        *("message_start", "ping"),
        *("thinking", "thinking_delta", "signature_delta", "content_block_stop"),
        *("redacted_thinking", "content_block_stop"),
        *("text", "text_delta", "text_delta", "content_block_stop"),
        *("tool_use", "input_json_delta", "input_json_delta", "input_json_delta"),
        *("content_block_stop", "message_delta", "message_stop"),
    ]


async def test_the_events_of_a_response_come_in_the_real_order(provider: Provider) -> None:
    """Items and their parts open and close; the numbers follow one another."""
    provider.reply(Says("b", reasoning="a", calls=[Called("f")]))
    found = await events_of(provider.url, "/v1/responses", include=SEALED)
    assert all(name == data["type"] for name, data in found)
    assert [data["sequence_number"] for _, data in found] == list(range(len(found)))
    assert [name.removeprefix("response.") for name, _ in found] == [
        *("created", "in_progress"),
        *("output_item.added", "reasoning_summary_part.added", "reasoning_summary_text.delta"),
        *("reasoning_summary_text.done", "reasoning_summary_part.done", "output_item.done"),
        *("output_item.added", "content_part.added", "output_text.delta"),
        *("output_text.done", "content_part.done", "output_item.done"),
        *("output_item.added", "function_call_arguments.delta"),
        *("function_call_arguments.done", "output_item.done"),
        "completed",
    ]
    items = [data["item"] for _, data in found if "item" in data]
    sealed = [item["encrypted_content"] for item in items if item["type"] == "reasoning"]
    assert sealed == ["ZWFybHk=", Thought().seal]


async def test_reasoning_is_sealed_only_for_who_asks_for_it(provider: Provider) -> None:
    """Without `include`, the items of reasoning have no encrypted content."""
    provider.reply(Says(reasoning="a"))
    found = await events_of(provider.url, "/v1/responses")
    assert "encrypted_content" not in found[-1][1]["response"]["output"][0]


async def test_reasoning_that_is_hidden_is_sealed_without_a_summary(provider: Provider) -> None:
    """A response holds an item for it, a chat holds nothing."""
    provider.default(Says(parts=[Hidden("x"), Text("a")]))
    async with client(provider.url) as sdk:
        response = await responses(sdk, stream=True)
        completed = await chat(sdk, stream=True)
    hidden = response.raw.output[0]
    assert (hidden.summary, hidden.encrypted_content) == ([], "x")
    assert (completed.text, completed.reasoning) == ("a", "")


async def test_a_refusal_has_a_place_of_its_own_at_openai(provider: Provider) -> None:
    """It is no text: a field of the message, a part of another type."""
    provider.default(Says(parts=[Declined("I will not.")]))
    async with client(provider.url) as sdk:
        completed = await chat(sdk, stream=True)
        response = await responses(sdk, stream=True)
    assert completed.raw.choices[0].message.refusal == "I will not."
    assert response.raw.output[0].content[0].refusal == "I will not."


@each_format
async def test_usage_can_be_left_out(provider: Provider, ask: Ask) -> None:
    """A server that counts nothing says nothing."""
    provider.reply(Says("a", usage=None))
    async with client(provider.url) as sdk:
        assert not (await ask(sdk, stream=False)).usage
