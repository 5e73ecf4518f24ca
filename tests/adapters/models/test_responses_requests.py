"""What the Responses API is asked: every body is one that OpenAI takes."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loom_ia.adapters.artifacts.memory import MemoryArtifacts
from loom_ia.adapters.models.openai_responses.client import ResponsesModel
from loom_ia.core.errors import ConfigError
from loom_ia.core.model import (
    AnyBlock,
    ArtifactBlock,
    Capabilities,
    JsonBlock,
    Message,
    ModelRequest,
    ModelSpec,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolOutput,
    ToolResultBlock,
    ToolSpec,
)
from loom_ia.core.ports import ModelAccess
from tests.adapters.models.contract import ASKED, asking
from tests.providers.rules import problems_of_responses

SPEC = ModelSpec(id="GPT", sdk="openai", api="responses", model="gpt-m1")
THINKS = SPEC.model_copy(update={"capabilities": Capabilities(thinking=True)})
OPEN = {"type": "object", "properties": {"a": {"type": "integer"}}}
CLOSED = {**OPEN, "required": ["a"], "additionalProperties": False}
ADD = ToolSpec(name="add", description="Add.", input_schema=OPEN)
LIST = ToolSpec(name="list", description=" ", input_schema=CLOSED)
SEAL = "c2VhbGVk"


async def body_of(spec: ModelSpec, request: ModelRequest, access: Any = None) -> dict[str, Any]:
    """Write the body, which OpenAI takes."""
    body: dict[str, Any] = await ResponsesModel(spec, access).body(request)
    assert problems_of_responses(body) == []
    return body


def spoke(*blocks: AnyBlock) -> Message:
    """Write what the model said."""
    return Message(role="assistant", blocks=blocks)


def called(call_id: str = "call_1", name: str = "add", **arguments: Any) -> ToolCallBlock:
    """Write a call."""
    return ToolCallBlock(call_id=call_id, name=name, arguments=arguments or {"a": 1})


def gave(call_id: str = "call_1", *, output: ToolOutput | None = None) -> Message:
    """Write the result of a call."""
    block = ToolResultBlock(call_id=call_id, output=output or ToolOutput.of_text("3"))
    return Message(role="tool", blocks=(block,))


def thought(
    text: str = "Hm.", number: int = 1, *, seal: str = SEAL, by: str = "GPT"
) -> ReasoningBlock:
    """Write a thought of a model."""
    meta: Any = {"responses": {"id": f"rs_{number}", "encrypted_content": seal}} if seal else {}
    return ReasoningBlock(text=text, model=by, model_id="gpt-m1", provider_meta=meta)


def reasoning(text: str = "Hm.", number: int = 1) -> dict[str, Any]:
    """Write the item of a thought."""
    summary = [{"type": "summary_text", "text": text}] if text else []
    item = {"type": "reasoning", "id": f"rs_{number}", "summary": summary}
    return {**item, "encrypted_content": SEAL}


def said(text: str) -> dict[str, Any]:
    """Write the item of what the model said."""
    return {"type": "message", "role": "assistant", "content": text}


def asked(*texts: str) -> dict[str, Any]:
    """Write the item of what the user says."""
    content = [{"type": "input_text", "text": text} for text in texts]
    return {"type": "message", "role": "user", "content": content}


def call_item(call_id: str = "call_1", arguments: str = '{"a":1}') -> dict[str, Any]:
    """Write the item of a call."""
    named = {"call_id": call_id, "name": "add"}
    return {"type": "function_call", **named, "arguments": arguments}


def output_item(output: Any = "3", call_id: str = "call_1") -> dict[str, Any]:
    """Write the item of a result."""
    return {"type": "function_call_output", "call_id": call_id, "output": output}


# -- the settings ---------------------------------------------------------------------------------


async def test_the_smallest_request_has_nothing_more() -> None:
    """No system, no tools and no settings: the model, what the user says, and nothing is kept."""
    assert await body_of(SPEC, asking(SPEC)) == {
        "model": "gpt-m1",
        "store": False,
        "stream": True,
        "input": [asked("Bonjour")],
    }


async def test_a_model_that_does_not_stream_is_not_asked_to() -> None:
    """`capabilities.streaming: false` asks for the whole answer."""
    spec = SPEC.model_copy(update={"capabilities": Capabilities(streaming=False)})
    assert "stream" not in await body_of(spec, asking(spec))


async def test_sealed_thoughts_are_asked_of_a_model_that_thinks() -> None:
    """A model that does not is not asked for them: OpenAI would refuse the request."""
    body = await body_of(THINKS, asking(THINKS))
    assert body["include"] == ["reasoning.encrypted_content"]
    assert "include" not in await body_of(SPEC, asking(SPEC))


@pytest.mark.parametrize("blank", ["", " \n"])
async def test_blank_instructions_are_left_out(blank: str) -> None:
    """The API refuses empty ones."""
    assert "instructions" not in await body_of(SPEC, asking(SPEC, system=blank))


async def test_the_system_and_the_limit_have_their_names() -> None:
    """They are the instructions, and the tokens of the output."""
    body = await body_of(SPEC, asking(SPEC, system="Sois bref.", max_tokens=2000))
    assert body["instructions"] == "Sois bref."
    assert body["max_output_tokens"] == 2000


async def test_params_reach_the_body_as_they_are() -> None:
    """What is not the engine's goes to the provider."""
    params: Any = {"temperature": 0.3, "reasoning": {"effort": "low", "summary": "auto"}}
    spec = SPEC.model_copy(update={"params": params})
    body = await body_of(spec, asking(spec))
    assert {key: body[key] for key in params} == params


def test_params_cannot_write_what_the_engine_writes() -> None:
    """A key of the engine in `params` is a fault of the configuration, told with its place."""
    params = {"store": True, "previous_response_id": "resp_1", "temperature": 1}
    with pytest.raises(ConfigError) as caught:
        ResponsesModel(SPEC.model_copy(update={"params": params}))
    paths = [problem.path for problem in caught.value.problems]
    assert paths == ["models[GPT].params.previous_response_id", "models[GPT].params.store"]


async def test_what_params_include_joins_the_thoughts() -> None:
    """Both are asked for, each once; without thoughts it is the user's list."""
    logs, sealed = "message.output_text.logprobs", "reasoning.encrypted_content"
    params: Any = {"include": [logs, sealed]}
    assert (await body_of(THINKS, asking(THINKS, params=params)))["include"] == [sealed, logs]
    assert (await body_of(SPEC, asking(SPEC, params=params)))["include"] == [logs, sealed]


async def test_a_list_that_is_none_does_not_lose_ours() -> None:
    """What `params` hold of another kind than ours does not replace it."""
    body = await ResponsesModel(THINKS).body(asking(THINKS, params={"include": None}))
    assert body["include"] == ["reasoning.encrypted_content"]


# -- tools ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("choice", ["auto", "none", "required"])
async def test_tools_come_with_a_choice(choice: Any) -> None:
    """Each says whether its schema is strict; a blank description is left out."""
    body = await body_of(SPEC, asking(SPEC, tools=(ADD, LIST), tool_choice=choice))
    assert body["tool_choice"] == choice
    add = {"type": "function", "name": "add", "description": "Add."}
    assert body["tools"] == [
        {**add, "parameters": OPEN, "strict": False},
        {"type": "function", "name": "list", "parameters": CLOSED, "strict": True},
    ]


async def test_a_choice_without_tools_is_left_out() -> None:
    """The API refuses it."""
    assert "tool_choice" not in await body_of(SPEC, asking(SPEC, tool_choice="required"))


# -- the conversation -----------------------------------------------------------------------------


async def test_calls_and_their_results_are_items() -> None:
    """They stand in their order, without the ids of items: nothing of them is kept there."""
    talk = (ASKED, spoke(TextBlock(text="Je calcule."), called("a", b="é", a=1), called("b")))
    note = Message.text("user", "Conclude.")
    request = asking(SPEC, *talk, gave("a"), notes=(note,), tools=(ADD,))
    cancelled = "[error] The run was cancelled before this call ended."
    assert (await body_of(SPEC, request))["input"] == [
        asked("Bonjour"),
        said("Je calcule."),
        call_item("a", '{"b":"é","a":1}'),
        call_item("b"),
        output_item("3", "a"),
        output_item(cancelled, "b"),
        asked("Conclude."),
    ]


async def test_a_failed_result_says_so_in_the_language_of_the_agent() -> None:
    """The API has no mark of failure: the text begins with it."""
    failed = ToolOutput.of_error("Panne.")
    talk = (ASKED, spoke(called()), gave(output=failed))
    body = await body_of(SPEC, asking(SPEC, *talk, tools=(ADD,), language="fr"))
    assert body["input"][-1] == output_item("[erreur] Panne.")


async def test_a_thought_goes_back_before_what_came_of_it() -> None:
    """Each stands before its call or its message, with its id, its summary and its seal."""
    first = spoke(thought("1", 1), called("a"), thought("", 2), called("b"))
    last = spoke(thought("3", 3), TextBlock(text="Voilà."))
    both = Message(role="tool", blocks=(*gave("a").blocks, *gave("b").blocks))
    body = await body_of(THINKS, asking(THINKS, ASKED, first, both, last, ASKED, tools=(ADD,)))
    assert body["input"] == [
        asked("Bonjour"),
        reasoning("1", 1),
        call_item("a"),
        reasoning("", 2),
        call_item("b"),
        output_item("3", "a"),
        output_item("3", "b"),
        reasoning("3", 3),
        said("Voilà."),
        asked("Bonjour"),
    ]


async def test_what_is_said_beside_calls_stands_before_them() -> None:
    """Results follow the calls that they are of; a thought stays with what came of it."""
    talk = spoke(thought("1", 1), called("a"), thought("2", 2), TextBlock(text="Je calcule."))
    body = await body_of(THINKS, asking(THINKS, ASKED, talk, gave("a"), tools=(ADD,)))
    assert body["input"][1:] == [
        reasoning("2", 2),
        said("Je calcule."),
        reasoning("1", 1),
        call_item("a"),
        output_item("3", "a"),
    ]


async def test_a_thought_that_nothing_came_of_is_left_out() -> None:
    """The API refuses one that nothing follows, and the same one twice."""
    talk = spoke(thought("1", 1), TextBlock(text="Oui."), thought("2", 2))
    again = spoke(thought("1", 1), TextBlock(text="Non."))
    body = await body_of(THINKS, asking(THINKS, ASKED, talk, ASKED, again, ASKED))
    assert [item for item in body["input"] if item["type"] == "reasoning"] == [reasoning("1", 1)]


async def test_a_thought_goes_back_only_to_who_had_it() -> None:
    """That of another model is left out, that of another API, and one that bears no seal."""
    other = ReasoningBlock(
        text="4", model="GPT", model_id="gpt-m1", provider_meta={"anthropic": {"signature": "x"}}
    )
    named: Any = {"responses": {"id": "rs_6"}}
    talk = spoke(
        thought("1", 1),
        thought("2", 2, by="CLAUDE"),
        thought("3", seal=""),
        other,
        thought("6").model_copy(update={"provider_meta": named}),
        TextBlock(text="5"),
    )
    body = await body_of(THINKS, asking(THINKS, ASKED, talk, ASKED))
    assert body["input"][1:3] == [reasoning("1", 1), said("5")]


# -- files ----------------------------------------------------------------------------------------

PNG = b"\x89PNG\r\n\x1a\n----"
PDF = b"%PDF-1.7 ----"
SEES = Capabilities(vision=True, documents=True)
IMAGE = {
    "type": "input_image",
    "image_url": "data:image/png;base64,iVBORw0KGgotLS0t",
    "detail": "auto",
}
PAPER = {
    "type": "input_file",
    "filename": "devis.pdf",
    "file_data": "data:application/pdf;base64,JVBERi0xLjcgLS0tLQ==",
}


def text(written: str) -> dict[str, Any]:
    """Write a part that is text."""
    return {"type": "input_text", "text": written}


async def stored(store: MemoryArtifacts, data: bytes, kind: str, name: str) -> ArtifactBlock:
    """Put a file where the adapter finds it."""
    uri = await store.put("acme", "s1", data, kind)
    return ArtifactBlock(uri=uri, media_type=kind, size=len(data), name=name)


async def test_files_are_given_as_the_api_takes_them() -> None:
    """Images and PDF in data URLs, texts as they are with their name."""
    store = MemoryArtifacts()
    files = (
        await stored(store, PNG, "image/png", "plan.png"),
        await stored(store, PDF, "application/pdf", "devis.pdf"),
        await stored(store, "été".encode(), "text/plain", "note.txt"),
        ArtifactBlock(uri="artifact://acme/s1/x", media_type="video/mp4", size=9, name="film.mp4"),
    )
    spec = SPEC.model_copy(update={"capabilities": SEES})
    message = Message(role="user", blocks=(TextBlock(text="Lis."), *files))
    body = await body_of(spec, asking(spec, message), ModelAccess(artifacts=store))
    film = "(file film.mp4, video/mp4, 9 bytes: this model cannot read it)"
    assert body["input"][0]["content"] == [
        text("Lis."),
        IMAGE,
        PAPER,
        text("note.txt:\nété"),
        text(film),
    ]


@pytest.mark.parametrize("failed", [False, True])
async def test_the_files_of_a_result_may_stand_in_it(failed: bool) -> None:
    """`tool_result_media` gives them inside the output, in their order."""
    store = MemoryArtifacts()
    image = await stored(store, PNG, "image/png", "plan.png")
    paper = await stored(store, PDF, "application/pdf", "devis.pdf")
    spec = SPEC.model_copy(
        update={"capabilities": SEES.model_copy(update={"tool_result_media": True})}
    )
    output = ToolOutput(blocks=(image, TextBlock(text="Voici."), paper), is_error=failed)
    talk = (ASKED, spoke(called()), gave(output=output))
    body = await body_of(spec, asking(spec, *talk, tools=(ADD,)), ModelAccess(artifacts=store))
    inside = [IMAGE, text("Voici."), PAPER]
    assert body["input"][-1] == output_item([text("[error]"), *inside] if failed else inside)


async def test_the_files_of_a_result_may_follow_it() -> None:
    """Without `tool_result_media` the user gives them, behind all the results."""
    store = MemoryArtifacts()
    image = await stored(store, PNG, "image/png", "plan.png")
    spec = SPEC.model_copy(update={"capabilities": SEES})
    output = ToolOutput(blocks=(TextBlock(text="Voici."), image))
    talk = (ASKED, spoke(called()), gave(output=output))
    body = await body_of(spec, asking(spec, *talk, tools=(ADD,)), ModelAccess(artifacts=store))
    assert body["input"][-2] == output_item("Voici.\nplan.png (image/png)")
    assert body["input"][-1]["content"] == [text("Files given by the call call_1:"), IMAGE]


# -- the shape of an answer -----------------------------------------------------------------------


@pytest.mark.parametrize(("schema", "strict"), [(OPEN, False), (CLOSED, True)])
async def test_the_shape_of_an_answer_is_strict_when_it_can_be(schema: Any, strict: bool) -> None:
    """What is not is followed as well as the model can."""
    body = await body_of(SPEC, asking(SPEC, output_schema=schema))
    shape = {"type": "json_schema", "name": "answer", "schema": schema, "strict": strict}
    assert body["text"] == {"format": shape}


async def test_the_shape_of_an_answer_joins_what_params_say() -> None:
    """The engine's format and the user's verbosity go together under `text`."""
    params: Any = {"text": {"verbosity": "low", "format": {"type": "text"}}}
    body = await body_of(SPEC, asking(SPEC, output_schema=OPEN, params=params))
    assert body["text"]["verbosity"] == "low"
    assert body["text"]["format"]["type"] == "json_schema"
    assert (await body_of(SPEC, asking(SPEC, params=params)))["text"] == params["text"]


# -- any conversation -----------------------------------------------------------------------------

_TEXTS = st.sampled_from(["", " ", "Bonjour", "\ud83d", "a\x00b"])
_IDS = st.sampled_from(["call_1", "call 1", "", "é" * 80, "chatcmpl-tool-1"])
_NAMES = st.sampled_from(["add", "list", "an odd name", ""])
_SAID = st.one_of(
    st.builds(TextBlock, text=_TEXTS),
    st.builds(JsonBlock, data=st.just({"a": [1]})),
    st.just(ArtifactBlock(uri="artifact://acme/s/x.png", media_type="image/png", size=9)),
)
_UTTERED = st.one_of(
    _SAID,
    st.builds(
        thought,
        _TEXTS,
        st.integers(1, 3),
        seal=st.sampled_from(["", SEAL]),
        by=st.sampled_from(["GPT", "OTHER"]),
    ),
    st.builds(ToolCallBlock, call_id=_IDS, name=_NAMES, arguments=st.just({"a": 1})),
)
_RESULT = st.builds(
    ToolResultBlock,
    call_id=_IDS,
    output=st.builds(
        ToolOutput, blocks=st.lists(_SAID, max_size=2).map(tuple), is_error=st.booleans()
    ),
)


def _messages(role: Any, blocks: st.SearchStrategy[Any]) -> st.SearchStrategy[Message]:
    some = st.lists(blocks, min_size=1, max_size=4).map(tuple)
    return st.builds(Message, role=st.just(role), blocks=some)


_TALK = st.lists(
    st.one_of(
        _messages("user", _SAID), _messages("assistant", _UTTERED), _messages("tool", _RESULT)
    ),
    max_size=8,
)
_CAN = st.builds(
    Capabilities,
    thinking=st.booleans(),
    streaming=st.booleans(),
    vision=st.booleans(),
    documents=st.booleans(),
    tool_result_media=st.booleans(),
)


@settings(max_examples=150)
@given(
    can=_CAN,
    talk=_TALK,
    tools=st.sampled_from([(), (ADD,), (ADD, LIST)]),
    choice=st.sampled_from(["auto", "none", "required"]),
    system=_TEXTS,
    shape=st.sampled_from([None, OPEN, CLOSED]),
)
async def test_any_conversation_gives_a_request_that_openai_takes(
    can: Capabilities, talk: list[Message], tools: Any, choice: Any, system: str, shape: Any
) -> None:
    """Whatever the journal holds, the body passes the rules of the API and can be sent."""
    spec = SPEC.model_copy(update={"capabilities": can})
    half = len(talk) // 2
    request = asking(spec, tools=tools, tool_choice=choice, system=system, output_schema=shape)
    talked = replace(request, history=tuple(talk[:half]), messages=tuple(talk[half:]))
    body = await body_of(spec, talked)
    json.dumps(body, ensure_ascii=False).encode()
