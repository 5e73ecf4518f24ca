"""How the answers of the Responses API are read."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from loom_ia.adapters.models.openai_responses.client import ResponsesModel
from loom_ia.core.model import (
    Answer,
    Capabilities,
    ModelChunk,
    ModelSpec,
    ReasoningBlock,
    Stopped,
    TextBlock,
    ToolCallEnded,
    ToolCallStarted,
    ToolSpec,
    Usage,
)
from loom_ia.core.ports import ModelAccess
from tests.adapters.models.contract import asking, hear
from tests.providers.items import (
    BEGUN,
    COUNTED,
    added,
    at,
    call,
    completed,
    delta,
    done,
    event,
    message,
    raw,
    reasoned,
    response,
    said,
    spoken,
)
from tests.providers.quirks import RESPONSES, Quirk
from tests.providers.replies import Called, Hidden, Raw, Says, Text, Thought, Tokens
from tests.providers.server import Provider

ADD = ToolSpec(name="add", description="Add.", input_schema={"type": "object"})
ARGUMENTS = "response.function_call_arguments"


def made(provider: Provider, **changes: Any) -> ResponsesModel:
    """Make a model that thinks, and that the provider of the test serves."""
    settings: dict[str, Any] = {
        "id": "GPT",
        "sdk": "openai",
        "api": "responses",
        "model": "gpt-m1",
        "base_url": f"{provider.url}/v1",
        "capabilities": Capabilities(thinking=True),
    }
    return ResponsesModel(ModelSpec(**(settings | changes)), ModelAccess(api_key="sk-secret"))


@pytest.fixture
async def model(provider: Provider) -> AsyncIterator[ResponsesModel]:
    """Serve a model for the length of a test."""
    client = made(provider)
    yield client
    await client.close()


async def answered(model: ResponsesModel) -> Answer:
    """Ask, and give the answer."""
    return (await hear(model, asking(model.spec))).answer


@pytest.mark.parametrize("quirk", RESPONSES, ids=str)
async def test_a_quirk_is_understood(
    provider: Provider, model: ResponsesModel, quirk: Quirk
) -> None:
    """What a server of the format really sends is read as what it means."""
    provider.reply(quirk.reply)
    heard = await hear(model, asking(model.spec))
    heard.verify(quirk.expected)


# -- items ----------------------------------------------------------------------------------------

PARTS = (
    Thought("Je compte.", "c2VhbGVkLTE="),
    Hidden("aGlkZGVu"),
    Text("Voici "),
    Called("add", {"a": 1, "b": {"c": [None, "é"]}}, "call_a"),
    Called("list", {}, "call_b"),
)
TOKENS = Tokens(12, 40, 30, 2, 0, reasoning=11)


@pytest.mark.parametrize("streams", [True, False])
async def test_a_whole_answer_is_read(provider: Provider, streams: bool) -> None:
    """Thoughts apart, text, calls, usage and the end: the same whether it streams or not."""
    model = made(provider, capabilities=Capabilities(thinking=True, streaming=streams))
    provider.reply(Says(parts=PARTS, usage=TOKENS))
    answer = await answered(model)
    await model.close()
    *thoughts, text, _, _ = answer.blocks
    seals = [
        {"id": "rs_0000x00", "encrypted_content": "c2VhbGVkLTE="},
        {"id": "rs_0000x01", "encrypted_content": "aGlkZGVu"},
    ]
    assert [thought.provider_meta["responses"] for thought in thoughts] == seals
    assert [thought.text for thought in thoughts if isinstance(thought, ReasoningBlock)] == [
        "Je compte.",
        "",
    ]
    assert text == TextBlock(text="Voici ")
    calls = [(each.call_id, each.name, each.arguments) for each in answer.message.calls]
    assert calls == [
        ("call_a", "add", {"a": 1, "b": {"c": [None, "é"]}}),
        ("call_b", "list", {}),
    ]
    assert answer.stop_reason == "tool_use"
    assert answer.usage == Usage(
        input_tokens=12,
        output_tokens=40,
        cache_read_tokens=30,
        cache_write_tokens=2,
        reasoning_tokens=11,
    )


def _texts(*texts: str) -> list[dict[str, Any]]:
    return [message(spoken(text), id=f"msg_{rank}") for rank, text in enumerate(texts)]


async def test_two_messages_are_two_paragraphs(provider: Provider, model: ResponsesModel) -> None:
    """What the model says before its answer does not run into it."""
    first, second = _texts("Je regarde.", "Voilà.")
    begun = [added({**item, "content": []}, rank) for rank, item in enumerate((first, second))]
    provider.reply(
        raw(
            BEGUN,
            begun[0],
            {**delta("Je "), "item_id": "msg_0"},
            {**delta("regarde."), "item_id": "msg_0"},
            done(first),
            begun[1],
            {**delta("Voilà.", 1), "item_id": "msg_1"},
            done(second, 1),
            completed(first, second),
        )
    )
    answer = await answered(model)
    assert answer.blocks == (TextBlock(text="Je regarde.\n\nVoilà."),)


async def test_what_is_only_listed_at_the_end_is_read_in_its_order(
    provider: Provider, model: ResponsesModel
) -> None:
    """A server that streams nothing gives the same answer as another."""
    first, second = _texts("Je regarde.", "Voilà.")
    provider.reply(raw(BEGUN, completed(first, second, reasoned("Hm."), call())))
    kinds = [block.type for block in (await answered(model)).blocks]
    assert kinds == ["text", "reasoning", "tool_call"]


@pytest.mark.parametrize("index", [None, 0])
async def test_items_are_told_apart_without_their_place(
    provider: Provider, model: ResponsesModel, index: int | None
) -> None:
    """Their ids do when the place is not told, or is the same for all."""
    calls = [
        {**call('{"a": 1}'), "id": "fc_1", "call_id": "call_a"},
        {**call('{"b": 2}'), "id": "fc_2", "call_id": "call_b"},
    ]
    place = {} if index is None else {"output_index": index}
    pieces = [("fc_1", '{"a":'), ("fc_2", '{"b"'), ("fc_1", " 1}"), ("fc_2", ": 2}")]
    provider.reply(
        raw(
            BEGUN,
            *(
                event("response.output_item.added", item={**each, "arguments": ""}, **place)
                for each in calls
            ),
            *(event(f"{ARGUMENTS}.delta", item_id=i, delta=text, **place) for i, text in pieces),
            *(event("response.output_item.done", item=each, **place) for each in calls),
            completed(*calls),
        )
    )
    answer = await answered(model)
    assert [each.arguments for each in answer.message.calls] == [{"a": 1}, {"b": 2}]


async def test_items_are_told_apart_without_their_id(
    provider: Provider, model: ResponsesModel
) -> None:
    """Their place does when each event gives the item another id."""
    first, second = call('{"a": 1}'), {**call('{"b": 2}'), "call_id": "call_b"}
    changing = iter(range(100))

    def renamed(item: dict[str, Any]) -> dict[str, Any]:
        return {**item, "id": f"fc_x{next(changing)}"}

    provider.reply(
        raw(
            BEGUN,
            added(renamed({**first, "arguments": ""})),
            event(f"{ARGUMENTS}.delta", **at(0, f"fc_x{next(changing)}"), delta='{"a": 1}'),
            done(renamed(first)),
            added(renamed({**second, "arguments": ""}), 1),
            event(f"{ARGUMENTS}.delta", **at(1, f"fc_x{next(changing)}"), delta='{"b": 2}'),
            done(renamed(second), 1),
            completed(renamed(first), renamed(second)),
        )
    )
    answer = await answered(model)
    assert [each.arguments for each in answer.message.calls] == [{"a": 1}, {"b": 2}]


async def test_parts_without_a_rank_are_not_read_twice(
    provider: Provider, model: ResponsesModel
) -> None:
    """Pieces that do not say of which part they are make the whole together."""
    whole = message(spoken("Bonjour"), spoken(" toi"))
    pieces = [event("response.output_text.delta", **at(), delta=text) for text in ("Bonjour", " ")]
    last = event("response.output_text.delta", **at(), delta="toi")
    provider.reply(raw(BEGUN, added(message()), *pieces, last, done(whole), completed(whole)))
    assert (await hear(model, asking(model.spec))).text == "Bonjour toi"


async def test_what_the_end_spells_otherwise_is_not_said_again(
    provider: Provider, model: ResponsesModel
) -> None:
    """A text that was read is not corrected: the reader has seen it."""
    provider.reply(
        raw(BEGUN, *said("Bonjour toi"), completed(message(spoken("Bonjour, cher toi"))))
    )
    assert (await hear(model, asking(model.spec))).text == "Bonjour toi"


async def test_the_end_gives_what_the_pieces_did_not(
    provider: Provider, model: ResponsesModel
) -> None:
    """A piece that was lost on the way is found again in the whole."""
    whole = message(spoken("Bonjour toi"))
    provider.reply(raw(BEGUN, added(message()), delta("Bonjour"), done(whole), completed(whole)))
    assert (await hear(model, asking(model.spec))).text == "Bonjour toi"


async def test_a_message_that_the_end_names_otherwise_is_the_same(
    provider: Provider, model: ResponsesModel
) -> None:
    """A text is not said twice because its item has another id in the list."""
    last = completed(message(spoken("Bonjour toi"), id="msg_other"))
    provider.reply(raw(BEGUN, *said("Bonjour toi"), last))
    assert (await hear(model, asking(model.spec))).text == "Bonjour toi"


async def test_the_end_adds_what_was_not_streamed(
    provider: Provider, model: ResponsesModel
) -> None:
    """An item of the list is one that was streamed by its id, and else by what it calls."""
    one, two = ({**call(f'{{"n": {n}}}'), "id": f"fc_{n}"} for n in (1, 2))
    bare = [{key: each[key] for key in each if key != "call_id"} for each in (one, two)]
    provider.reply(
        raw(BEGUN, added({**bare[1], "arguments": ""}), done(bare[1]), completed(*bare)),
        raw(BEGUN, added(one), done(one), completed({**two, "call_id": "call_b"})),
    )
    for _ in range(2):
        calls = (await answered(model)).message.calls
        assert sorted(str(each.arguments) for each in calls) == ["{'n': 1}", "{'n': 2}"]


async def test_an_item_that_begins_twice_is_one(provider: Provider, model: ResponsesModel) -> None:
    """An event that is sent again adds nothing."""
    provider.reply(raw(BEGUN, added(call("")), added(call("")), done(call()), completed(call())))
    assert len((await answered(model)).message.calls) == 1


@pytest.mark.parametrize("between", [call(), reasoned()], ids=["a call", "a sealed thought"])
async def test_texts_that_something_separates_are_not_separated_again(
    provider: Provider, model: ResponsesModel, between: dict[str, Any]
) -> None:
    """Each is a block of its own."""
    first, second = _texts("Je regarde.", "Voilà.")
    items = (first, between, second)
    provider.reply(raw(BEGUN, *(done(item, rank) for rank, item in enumerate(items)), completed()))
    blocks = (await answered(model)).blocks
    assert (blocks[0], blocks[2]) == (TextBlock(text="Je regarde."), TextBlock(text="Voilà."))


# -- calls ----------------------------------------------------------------------------------------


def _ids(chunks: list[ModelChunk], kind: type[ToolCallStarted | ToolCallEnded]) -> list[str]:
    return [chunk.call_id for chunk in chunks if isinstance(chunk, kind)]


async def test_each_call_has_an_id_of_its_own(provider: Provider, model: ResponsesModel) -> None:
    """Ids that are missing are invented, those that are there twice are told apart."""
    given = ("", "call_a", "call_a", "")
    calls = [
        {**call(f'{{"a": {n}}}'), "id": f"fc_{n}", "call_id": each} for n, each in enumerate(given)
    ]
    begun = [added({**each, "arguments": ""}, rank) for rank, each in enumerate(calls)]
    ended = [done(each, rank) for rank, each in enumerate(calls)]
    provider.reply(raw(BEGUN, *begun, *ended, completed(*calls)))
    heard = await hear(model, asking(model.spec))
    found = {each.call_id: each.arguments for each in heard.answer.message.calls}
    assert found == {
        "call_a": {"a": 1},
        "call_a_2": {"a": 2},
        "call_3": {"a": 0},
        "call_4": {"a": 3},
    }
    assert set(_ids(heard.chunks, ToolCallEnded)) == set(found)


async def test_arguments_that_come_before_the_id_are_kept(
    provider: Provider, model: ResponsesModel
) -> None:
    """A call that is named late has all that was written of it."""
    unnamed = {**call(""), "call_id": ""}
    pieces = [
        event(f"{ARGUMENTS}.delta", **at(item="fc_1"), delta=text) for text in ('{"a"', ": 1}")
    ]
    provider.reply(raw(BEGUN, added(unnamed), *pieces, done(call()), completed(call())))
    (made,) = (await answered(model)).message.calls
    assert (made.call_id, made.arguments) == ("call_a", {"a": 1})


async def test_arguments_that_are_an_object_are_read(
    provider: Provider, model: ResponsesModel
) -> None:
    """A careless server gives the document in the place of its text."""
    careless = {**call(), "arguments": {"a": 1}}
    provider.reply(raw(BEGUN, added(call("")), done(careless), completed(careless)))
    assert (await answered(model)).message.calls[0].arguments == {"a": 1}


async def test_a_call_begins_before_its_arguments_are_whole(
    provider: Provider, model: ResponsesModel
) -> None:
    """Whoever watches sees the tool at once."""
    provider.reply(Says(calls=[Called("add", {"a": 1})], hang_after=1))
    stream = model.stream(asking(model.spec))
    async for chunk in stream:
        assert chunk == ToolCallStarted("call_0000x00", "add")
        break
    await stream.aclose()


def _incomplete(reason: str | None, *output: dict[str, Any]) -> dict[str, Any]:
    details = {"reason": reason}
    return event(
        "response.incomplete", response=response("incomplete", *output, incomplete_details=details)
    )


async def test_a_call_that_was_cut_does_not_pass_for_one(
    provider: Provider, model: ResponsesModel
) -> None:
    """At the limit of tokens it is not ended, and its arguments are not taken for none."""
    cut = {**call(""), "status": "incomplete"}
    provider.reply(
        raw(BEGUN, added(call("")), done(cut), _incomplete("max_output_tokens", cut)),
        raw(BEGUN, added(call("")), _incomplete("max_output_tokens")),
    )
    for _ in range(2):
        heard = await hear(model, asking(model.spec))
        assert heard.answer.stop_reason == "max_tokens"
        assert _ids(heard.chunks, ToolCallEnded) == []


async def test_a_call_that_nobody_ended_is_whole_when_the_answer_is(
    provider: Provider, model: ResponsesModel
) -> None:
    """The end of the answer ends its calls."""
    provider.reply(raw(BEGUN, added(call('{"a": 1}')), completed()))
    heard = await hear(model, asking(model.spec))
    assert heard.answer.message.calls[0].arguments == {"a": 1}
    assert _ids(heard.chunks, ToolCallEnded) == ["call_a"]


# -- the end --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "read"),
    [
        ("max_output_tokens", "max_tokens"),
        ("max_messages", "max_tokens"),
        ("content_filter", "refusal"),
        ("tired", "max_tokens"),
        (None, "max_tokens"),
    ],
)
async def test_an_answer_that_is_not_complete_does_not_pass_for_one(
    provider: Provider, model: ResponsesModel, reason: str | None, read: str
) -> None:
    """Whatever the reason, also one that is new, the answer was cut short."""
    provider.reply(raw(BEGUN, *said(), _incomplete(reason, message(spoken("Bonjour toi")))))
    assert (await hear(model, asking(model.spec))).answer.stop_reason == read


async def test_the_status_counts_more_than_the_name_of_the_event(
    provider: Provider, model: ResponsesModel
) -> None:
    """A server that always says `response.completed` tells in the answer that it is not."""
    details = {"reason": "max_output_tokens"}
    last = response("incomplete", message(spoken("Bon")), incomplete_details=details)
    provider.reply(raw(BEGUN, event("response.completed", response=last)))
    assert (await hear(model, asking(model.spec))).answer.stop_reason == "max_tokens"


@pytest.mark.parametrize("word", ["abort", "error", "network_error", "cancelled"])
@pytest.mark.parametrize("is_status", [True, False], ids=["the status", "the reason"])
async def test_an_answer_that_the_server_could_not_end_is_none(
    provider: Provider, model: ResponsesModel, word: str, is_status: bool
) -> None:
    """Its status, or the reason for which it is not complete, says so."""
    whole = message(spoken("Bonjour toi"))
    end = event("response.completed", response=response(word, whole))
    provider.reply(raw(BEGUN, *said(), end if is_status else _incomplete(word, whole)))
    heard = await hear(model, asking(model.spec))
    assert heard.text == "Bonjour toi"
    assert not any(isinstance(chunk, Stopped) for chunk in heard.chunks)


@pytest.mark.parametrize("status", ["in_progress", "queued", "cancelled"])
async def test_a_whole_answer_that_is_not_over_is_none(
    provider: Provider, model: ResponsesModel, status: str
) -> None:
    """A response that is still being made, or was given up, is not taken for an empty one."""
    provider.reply(
        Raw([json.dumps(response(status)).encode()], headers={"content-type": "application/json"})
    )
    heard = await hear(model, asking(model.spec))
    assert not any(isinstance(chunk, Stopped) for chunk in heard.chunks)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("server_error", "transient"),
        ("rate_limit_exceeded", "transient"),
        ("vector_store_timeout", "transient"),
        ("a_new_code", "transient"),
        ("insufficient_quota", "quota_exhausted"),
        ("context_length_exceeded", "context_overflow"),
        ("invalid_prompt", "content_filtered"),
        ("bio_policy", "content_filtered"),
        ("misalignment_policy_violation", "content_filtered"),
        ("image_content_policy_violation", "content_filtered"),
        ("invalid_image_format", "invalid_request"),
        ("image_too_large", "invalid_request"),
        ("unsupported_image_media_type", "invalid_request"),
        ("data_residency_mismatch", "invalid_request"),
        (None, "transient"),
    ],
)
@pytest.mark.parametrize("streams", [True, False])
async def test_an_answer_that_failed_has_a_kind(
    provider: Provider, model: ResponsesModel, code: str | None, kind: str, streams: bool
) -> None:
    """The code decides whether trying again, or elsewhere, can help; what was read is counted."""
    error = {"code": code, "message": "It broke"} if code else None
    failed = response("failed", error=error, usage=COUNTED)
    whole = Raw([json.dumps(failed).encode()], headers={"content-type": "application/json"})
    provider.reply(raw(BEGUN, event("response.failed", response=failed)) if streams else whole)
    heard = await hear(model, asking(model.spec))
    assert heard.error is not None
    assert heard.error.kind == kind
    assert ("It broke" if code else "does not say why") in str(heard.error)
    if streams:
        assert heard.usage == Usage(input_tokens=12, output_tokens=7)


# -- usage ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "usage",
    [
        None,
        {},
        {"input_tokens": 0, "output_tokens": 0},
        {"input_tokens": "douze", "output_tokens": None},
    ],
)
async def test_what_is_not_counted_is_not_told(
    provider: Provider, model: ResponsesModel, usage: Any
) -> None:
    """Zeros and what is no number hold the place of what the server does not know."""
    provider.reply(raw(BEGUN, *said(), completed(usage=usage)))
    assert (await hear(model, asking(model.spec))).answer.usage is None


async def test_a_cache_larger_than_the_prompt_leaves_nothing(
    provider: Provider, model: ResponsesModel
) -> None:
    """Counts that do not agree never give fewer tokens than none."""
    counted = {**COUNTED, "input_tokens_details": {"cached_tokens": 50}}
    provider.reply(raw(BEGUN, *said(), completed(usage=counted)))
    usage = (await hear(model, asking(model.spec))).answer.usage
    assert usage == Usage(output_tokens=7, cache_read_tokens=50)
