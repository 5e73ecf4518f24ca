"""The model that plays a script: which reply, in which pieces, and what it refuses."""

import asyncio
import gc
from typing import Any

import pytest

from loom_ia.adapters.models.fake import FakeModel, FakeScriptError
from loom_ia.core.errors import ConfigError, ModelError
from loom_ia.core.json import canonical
from loom_ia.core.model import (
    INVALID_ARGUMENTS,
    Answer,
    Assembler,
    Message,
    ModelRequest,
    ModelSpec,
    ReasoningBlock,
    Stopped,
    TextBlock,
    TextDelta,
    ToolCallBlock,
    ToolChoice,
    ToolOutput,
    ToolResultBlock,
    ToolSpec,
    UsageReported,
)
from loom_ia.core.ports import ModelClient

ADD = ToolSpec(name="add", description="Add.", input_schema={"type": "object", "properties": {}})
USER = Message.text("user", "Combien font 1 et 2 ?")
SAID = Message.text("assistant", "ok")
NOTE = Message.text("user", "Answer in JSON.")


def model(script: Any = None, **params: Any) -> FakeModel:
    """Make a model of this script."""
    if script is not None:
        params["script"] = script
    return FakeModel(ModelSpec(id="FAKE", sdk="fake", model="fake-1", params=params))


def request(
    *messages: Message,
    history: tuple[Message, ...] = (),
    notes: tuple[Message, ...] = (),
    tools: tuple[ToolSpec, ...] = (),
    choice: ToolChoice = "auto",
) -> ModelRequest:
    """Make a request of these messages."""
    return ModelRequest(
        "fake-1", "", history, messages or (USER,), notes, tools=tools, tool_choice=choice
    )


async def answer(client: ModelClient, asked: ModelRequest) -> Answer:
    """Take the whole answer."""
    assembler = Assembler("fake-1")
    async for chunk in client.stream(asked):
        assembler.feed(chunk)
    assert assembler.answer is not None
    return assembler.answer


async def test_without_a_script_the_user_is_echoed() -> None:
    """A model without a script says what the user last said, notes left aside."""
    said = await answer(model(), request(USER, notes=(NOTE,)))
    assert said.message.as_text() == "Combien font 1 et 2 ?"
    assert said.stop_reason == "end"


async def test_a_reply_gives_its_reasoning_text_and_calls() -> None:
    """A reply comes as blocks, with call ids made of the turn and of the rank."""
    calls = [{"name": "add", "arguments": {"b": 2, "a": "é"}}, {"name": "add"}]
    script = [{"text": "skipped"}, {"reasoning": "I add.", "text": "Wait.", "tool_calls": calls}]
    said = await answer(model(script), request(USER, SAID))
    assert said.blocks == (
        ReasoningBlock(text="I add.", model_id="fake-1"),
        TextBlock(text="Wait."),
        ToolCallBlock(call_id="fake_1_0", name="add", arguments={"b": 2, "a": "é"}),
        ToolCallBlock(call_id="fake_1_1", name="add", arguments={}),
    )
    assert said.stop_reason == "tool_use"


async def test_arguments_as_text_are_streamed_as_they_are() -> None:
    """A script can play a model that writes no JSON."""
    script = [{"tool_calls": [{"name": "add", "arguments": "{a: 1"}]}]
    said = await answer(model(script), request())
    (call,) = said.message.calls
    assert call.arguments == {INVALID_ARGUMENTS: "{a: 1"}


RESULT = Message(
    role="tool", blocks=(ToolResultBlock(call_id="x", output=ToolOutput.of_text("3")),)
)
TURNS = {
    "the first": ((USER,), (), (), 0),
    "after a call": ((USER, SAID, RESULT), (), (), 1),
    "after two": ((USER, SAID, RESULT, SAID, RESULT), (), (), 2),
    "a new run": ((USER,), (USER, SAID, RESULT, SAID), (), 0),
    "a run without its own message": ((SAID,), (USER, SAID), (), 2),
    "a note of the engine": ((USER, SAID), (), (NOTE,), 1),
    "a refused answer among the notes": ((USER,), (), (SAID, NOTE), 1),
}


@pytest.mark.parametrize("case", TURNS)
async def test_the_rank_is_the_number_of_answers_since_the_user_spoke(case: str) -> None:
    """The request alone decides, so that another process plays the same reply."""
    messages, history, notes, turn = TURNS[case]
    client = model([{"text": "reply 0"}, {"text": "reply 1"}, {"text": "reply 2"}])
    asked = request(*messages, history=history, notes=notes)
    for _ in range(2):
        assert (await answer(client, asked)).message.as_text() == f"reply {turn}"


FITTING = [
    ({"with_tool": "add"}, (ADD,), "yes"),
    ({"with_tool": "add"}, (), "no"),
    ({"without_tool": "add"}, (ADD,), "no"),
    ({"without_tool": "add"}, (), "yes"),
    ({"with_text": "Combien"}, (), "yes"),
    ({"with_text": "combien"}, (), "no"),
    ({"without_text": "Combien"}, (), "no"),
    ({"without_text": "JSON"}, (), "yes"),
    ({"with_text": "font", "with_tool": "add"}, (), "no"),
]


@pytest.mark.parametrize(("condition", "tools", "text"), FITTING, ids=range(len(FITTING)))
async def test_a_reply_that_does_not_fit_is_passed_over(
    condition: Any, tools: Any, text: str
) -> None:
    """Conditions look at the tools on offer and at what the user said, not at notes."""
    client = model([{"text": "yes", **condition}, {"text": "no"}])
    said = await answer(client, request(notes=(NOTE,), tools=tools))
    assert said.message.as_text() == text


async def test_ranks_are_counted_among_the_replies_that_fit() -> None:
    """A reply that is passed over takes no turn."""
    client = model([{"text": "0", "with_tool": "gone"}, {"text": "1"}, {"text": "2"}])
    assert (await answer(client, request(USER, SAID))).message.as_text() == "2"


async def test_forced_text_replaces_the_reply_when_no_call_is_allowed() -> None:
    """`forced` answers a request without calls, and that one only."""
    script = [{"text": "a", "forced": "b", "tool_calls": [{"name": "add"}]}]
    client = model(script)
    assert (await answer(client, request(choice="none"))).blocks == (TextBlock(text="b"),)
    assert (await answer(client, request())).message.calls


async def test_without_forced_text_the_reply_is_played_as_it_is() -> None:
    """A model may ask for a call that is not allowed: it is for the engine to drop it."""
    client = model([{"tool_calls": [{"name": "add"}]}])
    assert (await answer(client, request(choice="none"))).message.calls


FAILING = [
    ([{"error": "overloaded"}], "auto", "overloaded", "the script of FAKE fails here, as it says"),
    (
        [{"text": "a", "with_tool": "add"}],
        "auto",
        "invalid_request",
        (
            "the script of FAKE is over: 0 of its 1 replies fit, and this is call 1 since the user"
            " spoke; add a reply to models[FAKE].params.script"
        ),
    ),
    ([], "auto", "invalid_request", "the script of FAKE is over"),
    (
        [{"text": "a"}],
        "required",
        "invalid_request",
        "a call is required, and reply 0 of FAKE has no tool_calls: add some",
    ),
    (None, "required", "invalid_request", "a call is required"),
]


@pytest.mark.parametrize(("script", "choice", "kind", "message"), FAILING, ids=range(len(FAILING)))
async def test_what_cannot_be_played_is_an_error_of_the_model(
    script: Any, choice: ToolChoice, kind: str, message: str
) -> None:
    """The error has the kind that the engine acts on, and says what to add to the script."""
    with pytest.raises(ModelError) as caught:
        await answer(model(script), request(choice=choice))
    assert caught.value.kind == kind
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["abc", "Pour 1 250 € HT, 1 375 € TTC.", "x" * 5000])
async def test_text_comes_in_pieces_while_others_work(text: str) -> None:
    """At least three pieces are seen before the end, and the event loop runs between two."""
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    beside = asyncio.ensure_future(tick())
    chunks = [(ticks, chunk) async for chunk in model().stream(request(Message.text("user", text)))]
    beside.cancel()
    pieces = [(at, chunk.text) for at, chunk in chunks if isinstance(chunk, TextDelta)]
    assert "".join(piece for _, piece in pieces) == text
    assert 3 <= len(pieces) <= 32
    assert len({at for at, _ in pieces}) == len(pieces)
    assert isinstance(chunks[-1][1], Stopped)
    assert isinstance(chunks[-2][1], UsageReported)


async def test_a_token_is_four_characters_of_json() -> None:
    """Usage counts what was read, tools and results included, and what was written, as JSON."""
    call = ToolCallBlock(call_id="c", name="add", arguments={"a": 1})
    asked = ModelRequest(
        "fake-1",
        "sys",
        (Message.text("user", "hi"),),
        (Message(role="assistant", blocks=(call,)), RESULT),
        tools=(ADD,),
    )
    script = [{"text": "no"}, {"reasoning": "abcd", "text": "cde", "tool_calls": [{"name": "add"}]}]
    said = await answer(model(script), asked)
    written = len(said.message.model_dump_json()) + 3 * 44
    assert said.usage is not None
    assert (said.usage.output_tokens, said.usage.reasoning_tokens) == (written // 4, 1)
    messages = (*asked.history, *asked.messages)
    read = sum(len(m.model_dump_json()) + 44 * len(m.blocks) for m in messages) + 203
    tool = 224 + len(ADD.name) + len(ADD.description) + len(canonical(ADD.input_schema))
    assert said.usage.input_tokens == (200 + len("sys") + read + tool) // 4


async def test_sizes_of_messages_that_are_gone_are_forgotten() -> None:
    """A model that lives as long as its process remembers nothing of ended runs."""
    client = model()
    await answer(client, request(Message.text("user", "bye")))
    gc.collect()
    known = [ref() for ref, _ in client._sizes._known.values()]
    assert None not in known
    assert not any(isinstance(part, Message) and part.as_text() == "bye" for part in known)


@pytest.mark.parametrize(
    ("params", "expected"),
    [({"delay": 5}, 5), ({"delay": 5, "script": [{"delay": 2}]}, 2), ({}, 0)],
    ids=range(3),
)
async def test_a_delay_passes_before_the_first_chunk(
    params: Any, expected: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The delay of the reply goes before that of the model; a call can be killed meanwhile."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    await answer(model(**params), request())
    assert sum(slept) == expected


SCRIPTS = [
    (
        {"scrip": []},
        {"models[FAKE].params.scrip": "unknown key; the known ones are script, delay"},
    ),
    (
        {"script": [{}, {"tool_cals": []}]},
        {"models[FAKE].params.script[1].tool_cals": "unknown key; the known ones are text, "},
    ),
    (
        {"script": [{"tool_calls": [{"nam": "a", "arguments": 3}]}], "delay": -1},
        {
            "models[FAKE].params.delay": "Input should be greater than or equal to 0",
            "models[FAKE].params.script[0].tool_calls[0].arguments": "arguments are a mapping",
            "models[FAKE].params.script[0].tool_calls[0].nam": "the known ones are name, arguments",
            "models[FAKE].params.script[0].tool_calls[0].name": "Field required",
        },
    ),
    ({"script": {"text": "a"}}, {"models[FAKE].params.script": "Input should be a valid list"}),
    ({"script": [{"text": 3}]}, {"models[FAKE].params.script[0].text": "valid string"}),
    ({"script": [{"error": "boom"}]}, {"models[FAKE].params.script[0].error": "'transient'"}),
]


@pytest.mark.parametrize(("params", "expected"), SCRIPTS, ids=range(len(SCRIPTS)))
def test_a_wrong_script_is_refused_when_the_model_is_built(params: Any, expected: Any) -> None:
    """Every fault is told at once, by the path that a reader of the configuration knows."""
    with pytest.raises(FakeScriptError) as caught:
        model(**params)
    assert isinstance(caught.value, ConfigError)
    assert isinstance(caught.value, ValueError)
    found = {problem.path: problem.message for problem in caught.value.problems}
    assert found.keys() == expected.keys()
    for path, message in expected.items():
        assert message in found[path]
        assert f"{path} — " in str(caught.value)


async def test_closing_twice_does_nothing() -> None:
    """A model without connection can be closed and closed again."""
    client = model()
    await client.close()
    await client.close()
    assert client.spec.id == "FAKE"
