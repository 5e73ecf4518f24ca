"""How the answers of the Messages API are read, and given back."""

import json
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from loom_ia.adapters.models.anthropic.client import AnthropicModel
from loom_ia.core.events import ModelResponded
from loom_ia.core.events.codec import from_line, to_line
from loom_ia.core.model import (
    Capabilities,
    Message,
    ModelChunk,
    ModelSpec,
    ReasoningBlock,
    ReasoningDelta,
    Stopped,
    TextBlock,
    ToolCallEnded,
    ToolCallStarted,
    ToolOutput,
    ToolResultBlock,
    ToolSpec,
    Usage,
)
from loom_ia.core.ports import ModelAccess
from tests.adapters.models.contract import ASKED, asking, hear
from tests.builders import placed
from tests.providers.blocks import STOP, block, closed, delta, ended, opened, raw, said, start, tool
from tests.providers.quirks import ANTHROPIC, Quirk
from tests.providers.replies import Called, Hidden, Raw, Says, Text, Thought, Tokens
from tests.providers.rules import problems_of_messages
from tests.providers.server import Provider

ADD = ToolSpec(name="add", description="Add.", input_schema={"type": "object"})


def made(provider: Provider, **changes: Any) -> AnthropicModel:
    """Make a model that the provider of the test serves."""
    spec = ModelSpec(id="CLAUDE", sdk="anthropic", model="claude-m1", base_url=provider.url)
    return AnthropicModel(spec.model_copy(update=changes), ModelAccess(api_key="sk-secret"))


@pytest.fixture
async def model(provider: Provider) -> AsyncIterator[AnthropicModel]:
    """Serve a model for the length of a test."""
    client = made(provider)
    yield client
    await client.close()


@pytest.mark.parametrize("quirk", ANTHROPIC, ids=str)
async def test_a_quirk_is_understood(
    provider: Provider, model: AnthropicModel, quirk: Quirk
) -> None:
    """What a server of the format really sends is read as what it means."""
    provider.reply(quirk.reply)
    heard = await hear(model, asking(model.spec))
    heard.verify(quirk.expected)


# -- blocks ---------------------------------------------------------------------------------------

PARTS = (
    Thought("Je compte.", "c2lnbmVkLTE="),
    Hidden("aGlkZGVu"),
    Thought("", "c2lnbmVkLTI="),
    Text("Voici "),
    Called("add", {"a": 1, "b": {"c": [None, "é"]}}, "toolu_1"),
    Called("list", {}, "toolu_2"),
)
TOKENS = Tokens(12, 40, 30, 2, 3, reasoning=11)


def sealed(text: str, **meta: Any) -> ReasoningBlock:
    """Give a thought of the model of these tests."""
    return ReasoningBlock(
        text=text, model="CLAUDE", model_id="claude-m1", provider_meta={"anthropic": meta}
    )


@pytest.mark.parametrize("streams", [True, False])
async def test_a_whole_answer_is_read(provider: Provider, streams: bool) -> None:
    """Thoughts apart, text, calls, usage and the end: the same whether it streams or not."""
    model = made(provider, capabilities=Capabilities(streaming=streams))
    provider.reply(Says(parts=PARTS, usage=TOKENS))
    answer = (await hear(model, asking(model.spec))).answer
    await model.close()
    *thoughts, text, _, _ = answer.blocks
    assert thoughts == [
        sealed("Je compte.", signature="c2lnbmVkLTE="),
        sealed("", redacted_data="aGlkZGVu"),
        sealed("", signature="c2lnbmVkLTI="),
    ]
    assert text == TextBlock(text="Voici ")
    calls = [(call.call_id, call.name, call.arguments) for call in answer.message.calls]
    assert calls == [
        ("toolu_1", "add", {"a": 1, "b": {"c": [None, "é"]}}),
        ("toolu_2", "list", {}),
    ]
    assert answer.stop_reason == "tool_use"
    assert answer.usage == Usage(
        input_tokens=12,
        output_tokens=40,
        cache_read_tokens=30,
        cache_write_tokens=5,
        cache_write_1h_tokens=3,
        reasoning_tokens=11,
    )


async def test_thoughts_of_one_index_stay_apart(provider: Provider, model: AnthropicModel) -> None:
    """A server that numbers all its blocks alike does not melt two thoughts into one."""
    thoughts = [block({"type": "thinking", "thinking": n, "signature": n}) for n in ("1", "2")]
    provider.reply(raw(start(), *thoughts, said("Oui"), ended(), STOP))
    answer = (await hear(model, asking(model.spec))).answer
    assert answer.blocks[:2] == (sealed("1", signature="1"), sealed("2", signature="2"))


def _ids(chunks: list[ModelChunk], kind: type[ToolCallStarted | ToolCallEnded]) -> list[str]:
    return [chunk.call_id for chunk in chunks if isinstance(chunk, kind)]


async def test_each_call_has_an_id_of_its_own(provider: Provider, model: AnthropicModel) -> None:
    """Ids that are missing are invented, those that are there twice are told apart."""
    given = ("", "toolu_a", "toolu_a", "")
    tools = [tool(f'{{"a": {n}}}', index=n, id=each) for n, each in enumerate(given)]
    provider.reply(raw(start(), *tools, ended("tool_use"), STOP))
    heard = await hear(model, asking(model.spec))
    assert [call.arguments for call in heard.answer.message.calls] == [{"a": n} for n in range(4)]
    ids = _ids(heard.chunks, ToolCallStarted)
    assert ids == ["call_1", "toolu_a", "toolu_a_2", "call_4"]
    assert _ids(heard.chunks, ToolCallEnded) == ids


@pytest.mark.parametrize(
    "reason", ["abort", "error", "insufficient_system_resource", "network_error"]
)
@pytest.mark.parametrize("streams", [True, False])
async def test_an_answer_that_the_server_could_not_end_is_none(
    provider: Provider, model: AnthropicModel, reason: str, streams: bool
) -> None:
    """Its reason says so: what came of it must not pass for the whole."""
    content = [{"type": "text", "text": "Oui"}]
    whole = json.dumps({"content": content, "stop_reason": reason}).encode()
    document = Raw([whole], headers={"content-type": "application/json"})
    provider.reply(raw(start(), said("Oui"), ended(reason), STOP) if streams else document)
    heard = await hear(model, asking(model.spec))
    assert heard.text == "Oui"
    assert not any(isinstance(chunk, Stopped) for chunk in heard.chunks)


@pytest.mark.parametrize("seal", ["\ud800", "c2\udfffVhbA=="])
@pytest.mark.parametrize("key", ["signature", "data"])
async def test_what_a_thought_is_sealed_with_can_be_kept(
    provider: Provider, model: AnthropicModel, key: str, seal: str
) -> None:
    """A seal that UTF-8 cannot hold is mended: the fact that it stands in is written."""
    kind = "thinking" if key == "signature" else "redacted_thinking"
    begun = block({"type": kind, key: "seal"}).replace(b'"seal"', json.dumps(seal).encode())
    provider.reply(raw(start(), begun, said("Oui", index=1), ended(), STOP))
    message = (await hear(model, asking(model.spec))).answer.message
    assert journalled(message) == message
    (thought,) = (each for each in message.blocks if isinstance(each, ReasoningBlock))
    (kept,) = thought.provider_meta["anthropic"].values()
    assert kept == re.sub("[\ud800-\udfff]", "\N{REPLACEMENT CHARACTER}", seal)


@pytest.mark.parametrize("seal", [[1], {"a": 1}, 7, True, None])
async def test_a_seal_that_is_no_text_is_none(
    provider: Provider, model: AnthropicModel, seal: Any
) -> None:
    """What is of another type is not kept, and the answer stands."""
    thoughts = [
        block({"type": "thinking", "thinking": "Hm.", "signature": seal}),
        block({"type": "redacted_thinking", "data": seal}, index=1),
    ]
    provider.reply(raw(start(), *thoughts, said("Oui", index=2), ended(), STOP))
    blocks = (await hear(model, asking(model.spec))).answer.blocks
    assert blocks == (
        ReasoningBlock(text="Hm.", model="CLAUDE", model_id="claude-m1"),
        TextBlock(text="Oui"),
    )


@pytest.mark.parametrize("index", [[], {}, None])
async def test_an_index_that_is_none_breaks_nothing(
    provider: Provider, model: AnthropicModel, index: Any
) -> None:
    """Blocks that are told apart by their order alone are read so."""
    provider.reply(raw(start(), tool('{"a": 1}', index=index), ended("tool_use"), STOP))
    (call,) = (await hear(model, asking(model.spec))).answer.message.calls
    assert call.arguments == {"a": 1}


@pytest.mark.parametrize("again", ['{"a": 1}', ""])
async def test_an_input_is_read_once(provider: Provider, model: AnthropicModel, again: str) -> None:
    """One that stands in the beginning is whole, whether pieces say it again or nothing."""
    begun = {"type": "tool_use", "id": "a", "name": "add", "input": {"a": 1}}
    piece = {"type": "input_json_delta", "partial_json": again}
    provider.reply(raw(start(), block(begun, piece), ended("tool_use"), STOP))
    answer = (await hear(model, asking(model.spec))).answer
    assert answer.message.calls[0].arguments == {"a": 1}


async def test_a_block_ends_when_another_takes_its_place(
    provider: Provider, model: AnthropicModel
) -> None:
    """Of two calls under one index, none of which is closed, both are whole."""
    calls = [
        opened({"type": "tool_use", "id": n, "name": "add", "input": {"n": n}}) for n in ("a", "b")
    ]
    provider.reply(raw(start(), *calls, ended("tool_use"), STOP))
    answer = (await hear(model, asking(model.spec))).answer
    assert [call.arguments for call in answer.message.calls] == [{"n": "a"}, {"n": "b"}]


@pytest.mark.parametrize(
    ("stop", "over"), [("tool_use", ["toolu_a"]), ("end_turn", ["toolu_a"]), ("max_tokens", [])]
)
async def test_a_call_that_is_not_closed_is_whole_unless_it_was_cut(
    provider: Provider, model: AnthropicModel, stop: str, over: list[str]
) -> None:
    """At the limit of tokens, a call that was being written does not pass for one."""
    begun = opened({"type": "tool_use", "id": "toolu_a", "name": "add", "input": {}})
    provider.reply(raw(start(), begun, ended(stop), STOP))
    heard = await hear(model, asking(model.spec))
    assert _ids(heard.chunks, ToolCallEnded) == over


@pytest.mark.parametrize(
    ("stop", "read"),
    [
        ("end_turn", "end"),
        ("stop_sequence", "end"),
        ("pause_turn", "end"),
        ("tool_use", "tool_use"),
        ("max_tokens", "max_tokens"),
        ("model_context_window_exceeded", "max_tokens"),
        ("refusal", "refusal"),
        ("tired", "end"),
    ],
)
async def test_the_reason_of_the_end_is_read(
    provider: Provider, model: AnthropicModel, stop: str, read: str
) -> None:
    """Each reason of the API has its place among ours, and one that is new is an end."""
    provider.reply(raw(start(), said("Oui"), ended(stop), STOP))
    assert (await hear(model, asking(model.spec))).answer.stop_reason == read


async def test_a_reason_that_is_not_said_again_stays(
    provider: Provider, model: AnthropicModel
) -> None:
    """A last `message_delta` without a reason takes nothing back."""
    provider.reply(raw(start(), said("Oui"), ended("refusal"), ended(None), STOP))
    assert (await hear(model, asking(model.spec))).answer.stop_reason == "refusal"


async def test_the_reason_of_a_whole_document_is_read(provider: Provider) -> None:
    """An answer that did not stream says as well that it reached its limit."""
    model = made(provider, capabilities=Capabilities(streaming=False))
    provider.reply(Says("Bonj", stop="max_tokens"))
    answer = (await hear(model, asking(model.spec))).answer
    await model.close()
    assert answer.stop_reason == "max_tokens"


# -- usage ----------------------------------------------------------------------------------------


async def test_a_cut_stream_tells_what_it_consumed(
    provider: Provider, model: AnthropicModel
) -> None:
    """What was read is billed: the beginning of the stream tells it."""
    provider.reply(Says("Bonjour toi", usage=Tokens(120, 9, 30), cut_after=1))
    heard = await hear(model, asking(model.spec))
    assert heard.usage == Usage(input_tokens=120, cache_read_tokens=30)


@pytest.mark.parametrize(
    "usage",
    [
        None,
        {},
        {"input_tokens": 0, "output_tokens": 0},
        {"input_tokens": "douze", "output_tokens": None},
    ],
)
async def test_what_tells_nothing_is_no_usage(
    provider: Provider, model: AnthropicModel, usage: Mapping[str, Any] | None
) -> None:
    """Zeros and what is no number leave the engine to count by itself."""
    provider.reply(raw(start(usage), said("Oui"), ended(usage=usage), STOP))
    assert (await hear(model, asking(model.spec))).answer.usage is None


async def test_the_cache_may_be_told_by_its_parts_alone(
    provider: Provider, model: AnthropicModel
) -> None:
    """A server that gives no total of what it kept has it added up."""
    split = {"ephemeral_5m_input_tokens": 2, "ephemeral_1h_input_tokens": 3}
    provider.reply(
        raw(start({"input_tokens": 9, "cache_creation": split}), said("Oui"), ended(), STOP)
    )
    usage = (await hear(model, asking(model.spec))).answer.usage
    assert usage == Usage(
        input_tokens=9, output_tokens=7, cache_write_tokens=5, cache_write_1h_tokens=3
    )


# -- back and forth -------------------------------------------------------------------------------


def journalled(message: Message) -> Message:
    """Write a message in a journal, and read it back."""
    payload = ModelResponded(
        model="CLAUDE",
        model_id="claude-m1",
        message=message,
        usage=Usage(),
        stop_reason="tool_use",
        request_hash="",
        request_parts={},
    )
    (event,) = placed([payload])
    line = to_line(event)
    read = from_line(line, tenant_id=event.tenant_id, session_id=event.session_id)
    assert isinstance(read.payload, ModelResponded)
    return read.payload.message


async def test_thoughts_go_back_byte_for_byte(provider: Provider, model: AnthropicModel) -> None:
    """Seals and hidden thoughts come back as they came, first, also through a journal."""
    provider.reply(Says(parts=PARTS), Says("Trois."))
    asked = asking(model.spec, tools=(ADD,), params={"thinking": {"type": "adaptive"}})
    first = await hear(model, asked)
    said = journalled(first.answer.message)
    results = Message(
        role="tool",
        blocks=tuple(
            ToolResultBlock(call_id=call.call_id, output=ToolOutput.of_text("3"))
            for call in said.calls
        ),
    )
    await hear(model, asking(model.spec, ASKED, said, results, tools=(ADD,)))
    body = provider.requests[1].body
    assert problems_of_messages(body) == []
    assert body["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "Je compte.", "signature": "c2lnbmVkLTE="},
        {"type": "redacted_thinking", "data": "aGlkZGVu"},
        {"type": "thinking", "thinking": "", "signature": "c2lnbmVkLTI="},
        {"type": "text", "text": "Voici "},
        {
            "type": "tool_use",
            "id": "toolu_1",
            "name": "add",
            "input": {"a": 1, "b": {"c": [None, "é"]}},
        },
        {"type": "tool_use", "id": "toolu_2", "name": "list", "input": {}},
    ]


async def test_a_thought_streams_before_its_seal(provider: Provider, model: AnthropicModel) -> None:
    """What the model thinks is given as it comes, and the seal when there is one."""
    provider.reply(
        raw(
            start(),
            opened({"type": "thinking", "thinking": "", "signature": ""}),
            delta(type="thinking_delta", thinking="Je "),
            delta(type="thinking_delta", thinking="pense."),
            delta(type="signature_delta", signature="c2VhbA=="),
            closed(),
            said("Oui", index=1),
            ended(),
            STOP,
        )
    )
    heard = await hear(model, asking(model.spec))
    thoughts = [chunk for chunk in heard.chunks if isinstance(chunk, ReasoningDelta)]
    assert thoughts == [
        ReasoningDelta("Je ", 1),
        ReasoningDelta("pense.", 1),
        ReasoningDelta("", 1, {"anthropic": {"signature": "c2VhbA=="}}),
    ]
