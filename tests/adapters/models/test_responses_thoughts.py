"""How thoughts are read from the answers of the Responses API, kept, and given back."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from loom_ia.adapters.models.anthropic.client import AnthropicModel
from loom_ia.adapters.models.client import WireModel
from loom_ia.adapters.models.openai_responses.client import ResponsesModel
from loom_ia.core.events import ModelResponded
from loom_ia.core.events.codec import from_line, to_line
from loom_ia.core.model import (
    Answer,
    Assembler,
    Capabilities,
    Message,
    ModelChunk,
    ModelSpec,
    ReasoningBlock,
    ReasoningDelta,
    TextBlock,
    ToolOutput,
    ToolResultBlock,
    ToolSpec,
    Usage,
)
from loom_ia.core.ports import ModelAccess
from tests.adapters.models.contract import ASKED, asking, hear
from tests.builders import placed
from tests.providers.formats.chat import error
from tests.providers.items import (
    BEGUN,
    added,
    call,
    completed,
    done,
    raw,
    reasoned,
    said,
    summarised,
)
from tests.providers.replies import Called, Fails, Says, Text, Thought
from tests.providers.rules import problems_of_responses
from tests.providers.server import Provider

ADD = ToolSpec(name="add", description="Add.", input_schema={"type": "object"})


def made(provider: Provider) -> ResponsesModel:
    """Make a model that thinks, and that the provider of the test serves."""
    spec = ModelSpec(
        id="GPT",
        sdk="openai",
        api="responses",
        model="gpt-m1",
        base_url=f"{provider.url}/v1",
        capabilities=Capabilities(thinking=True),
    )
    return ResponsesModel(spec, ModelAccess(api_key="sk-secret"))


@pytest.fixture
async def model(provider: Provider) -> AsyncIterator[ResponsesModel]:
    """Serve a model for the length of a test."""
    client = made(provider)
    yield client
    await client.close()


async def answered(model: WireModel, *talk: Message) -> Answer:
    """Ask, and give the answer as the engine keeps it."""
    heard = await hear(model, asking(model.spec, ASKED, *talk, tools=(ADD,)))
    assert heard.error is None
    assembler = Assembler(model.spec.model, model.spec.id)
    for chunk in heard.chunks:
        assembler.feed(chunk)
    assert assembler.answer is not None
    return assembler.answer


def sealed(text: str, item_id: str, seal: str, **more: Any) -> ReasoningBlock:
    """Give a thought of the model of these tests."""
    meta = {"id": item_id, "encrypted_content": seal, **more}
    return ReasoningBlock(
        text=text, model="GPT", model_id="gpt-m1", provider_meta={"responses": meta}
    )


def journalled(answer: Answer) -> Message:
    """Write an answer in the journal, and read it there."""
    responded = ModelResponded(
        model="GPT",
        model_id="gpt-m1",
        message=answer.message,
        usage=answer.usage or Usage(),
        stop_reason=answer.stop_reason,
        request_hash="",
        request_parts={},
    )
    (event,) = placed([responded])
    read = from_line(to_line(event), tenant_id=event.tenant_id, session_id=event.session_id)
    assert isinstance(read.payload, ModelResponded)
    return read.payload.message


def result_of(answer: Answer) -> Message:
    """Answer all the calls of an answer."""
    results = (
        ToolResultBlock(call_id=each.call_id, output=ToolOutput.of_text("3"))
        for each in answer.message.calls
    )
    return Message(role="tool", blocks=tuple(results))


CONTENT = [{"type": "reasoning_text", "text": "Tout."}]
TWO_LINES = reasoned("Je pense.\n\nDonc\n\nje suis.")


@pytest.mark.parametrize(
    ("item", "text"),
    [
        pytest.param(reasoned("Je pense."), "Je pense.", id="one part"),
        pytest.param(reasoned(), "", id="none"),
        pytest.param(reasoned("a", "b\n\nc"), "a\n\nb\n\nc", id="two parts"),
        pytest.param(TWO_LINES, "Je pense.\n\nDonc\n\nje suis.", id="one part with a blank line"),
        pytest.param(reasoned("a", ""), "a", id="an empty part"),
        pytest.param(reasoned("a", content=CONTENT), "a\n\nTout.", id="thoughts beside"),
        pytest.param(reasoned(content=CONTENT), "Tout.", id="thoughts alone"),
        pytest.param(reasoned(sealed="x" * 100_000), "", id="a long seal"),
    ],
)
@pytest.mark.parametrize("streams", [True, False])
async def test_a_thought_goes_back_byte_for_byte(
    provider: Provider, model: ResponsesModel, item: dict[str, Any], text: str, streams: bool
) -> None:
    """Through the journal, the next request holds the very item that came."""
    pieces = [
        each
        for rank, part in enumerate(item["summary"])
        for each in summarised(part["text"], rank)
        if part["text"]
    ]
    begun = (added({**item, "summary": [], "encrypted_content": "ZWFybHk="}), *pieces)
    provider.reply(
        raw(BEGUN, *(begun if streams else ()), done(item), done(call(), 1), completed())
    )
    answer = await answered(model)
    assert isinstance(answer.blocks[0], ReasoningBlock)
    assert answer.blocks[0].text == text
    provider.reply(Says("Trois."))
    await answered(model, journalled(answer), result_of(answer))
    body = provider.requests[1].body
    assert problems_of_responses(body) == []
    _, back, called, _ = body["input"]
    assert json.dumps(back, sort_keys=True) == json.dumps(item, sort_keys=True)
    assert called["call_id"] == "call_a"


async def test_a_summary_is_kept_once_when_it_can_be(
    provider: Provider, model: ResponsesModel
) -> None:
    """Its text is in the block already."""
    provider.reply(raw(BEGUN, done(reasoned("Je pense.")), completed(reasoned("Je pense."))))
    provider.reply(raw(BEGUN, done(reasoned("a", "b")), completed()))
    (one,) = (await answered(model)).blocks
    assert one == sealed("Je pense.", "rs_1", "c2VhbA==")
    (two,) = (await answered(model)).blocks
    assert two == sealed("a\n\nb", "rs_1", "c2VhbA==", summary=reasoned("a", "b")["summary"])


async def test_a_seal_that_is_not_the_last_one_is_not_kept(
    provider: Provider, model: ResponsesModel
) -> None:
    """What an item begins with may be incomplete, and one that never ended has no seal."""
    begun = added(reasoned(sealed="ZWFybHk="))
    provider.reply(raw(BEGUN, begun, *summarised("Hm.", 0), *said(index=1), completed()))
    blocks = (await answered(model)).blocks
    assert blocks[0] == ReasoningBlock(text="Hm.", model="GPT", model_id="gpt-m1")


async def test_half_a_character_in_a_seal_can_be_kept(
    provider: Provider, model: ResponsesModel
) -> None:
    """The journal takes whatever a server sends."""
    provider.reply(raw(BEGUN, done(reasoned("a", "\ud83d", sealed="\ud83d")), completed()))
    journalled(await answered(model))


@pytest.mark.parametrize(
    ("meta", "sent"),
    [
        ({"id": 1, "encrypted_content": "c2VhbA=="}, None),
        ({"id": "rs_1", "encrypted_content": [2]}, None),
        ({"id": "rs_1", "encrypted_content": "c2VhbA==", "summary": "x", "content": 7}, "Hm."),
        ({"id": "rs_1", "encrypted_content": "c2VhbA==", "summary": [{"text": 1}]}, "Hm."),
    ],
)
async def test_meta_of_another_type_is_not_sent(
    model: ResponsesModel, meta: Any, sent: str | None
) -> None:
    """A journal that was edited makes no request that is refused."""
    edited = sealed("Hm.", "", "").model_copy(update={"provider_meta": {"responses": meta}})
    said = Message(role="assistant", blocks=(edited, TextBlock(text="Oui")))
    body: Any = await model.body(asking(model.spec, ASKED, said, ASKED))
    assert problems_of_responses(body) == []
    thoughts = [item for item in body["input"] if item["type"] == "reasoning"]
    summaries = [[part["text"] for part in item["summary"]] for item in thoughts]
    assert summaries == ([] if sent is None else [[sent]])


async def test_thoughts_one_after_the_other_stay_apart(
    provider: Provider, model: ResponsesModel
) -> None:
    """Each is an item, with its own seal."""
    items = [reasoned("1", id="rs_1"), reasoned("2", id="rs_2", sealed="dHdv")]
    provider.reply(raw(BEGUN, *(done(each, rank) for rank, each in enumerate(items)), completed()))
    blocks = (await answered(model)).blocks
    assert blocks == (sealed("1", "rs_1", "c2VhbA=="), sealed("2", "rs_2", "dHdv"))


async def test_a_thought_is_streamed_as_it_comes(provider: Provider, model: ResponsesModel) -> None:
    """Its pieces come before its end, under one rank."""
    provider.reply(Says("Oui.", reasoning="Je pense donc", hang_after=2))
    stream = model.stream(asking(model.spec))
    chunks = [chunk async for chunk, _ in _first(stream, 2)]
    await stream.aclose()
    assert chunks == [ReasoningDelta("Je"), ReasoningDelta(" pense")]


async def _first(stream: Any, number: int) -> AsyncIterator[tuple[ModelChunk, int]]:
    for rank in range(number):
        yield await anext(stream), rank


async def test_a_seal_that_is_refused_is_given_up(
    provider: Provider, model: ResponsesModel
) -> None:
    """A provider that can no longer read a thought is asked again without it, at once."""
    provider.reply(Says(parts=[Thought("Hm."), Called("add", {"a": 1}, "call_a")]))
    answer = await answered(model)
    unread = "The encrypted content for item rs_0000x00 could not be verified."
    provider.reply(
        Fails(400, error(unread, type="invalid_request_error", code="invalid_encrypted_content")),
        Says("Trois."),
    )
    last = await answered(model, journalled(answer), result_of(answer))
    assert last.message.as_text() == "Trois."
    refused, taken = (request.body["input"] for request in provider.requests[1:])
    assert taken == [item for item in refused if item["type"] != "reasoning"]
    assert len(taken) < len(refused)


async def test_another_provider_may_take_over_and_give_back(
    provider: Provider, model: ResponsesModel
) -> None:
    """Each model reads its own thoughts again, and the calls and the words of both."""
    claude = AnthropicModel(
        ModelSpec(id="CLAUDE", sdk="anthropic", model="claude-m1", base_url=provider.url)
    )
    first = Says(parts=[Thought("De GPT."), Called("add", {"a": 1}, "call_a")])
    second = Says(parts=[Thought("De Claude."), Text("Je vois."), Called("add", {}, "toolu_1")])
    provider.reply(first, second, Says("Trois."))
    one = await answered(model)
    talk = (journalled(one), result_of(one))
    two = await answered(claude, *talk)
    await claude.close()
    talk = (*talk, two.message, result_of(two))
    assert (await answered(model, *talk)).message.as_text() == "Trois."
    body = provider.requests[2].body
    assert problems_of_responses(body) == []
    kinds = [item["type"] for item in body["input"]]
    calls = ["function_call", "function_call_output"]
    assert kinds == ["message", "reasoning", *calls, "message", *calls]
    assert body["input"][1]["summary"] == [{"type": "summary_text", "text": "De GPT."}]
    assert "De Claude." not in json.dumps(body)
