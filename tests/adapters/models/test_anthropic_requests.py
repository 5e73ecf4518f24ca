"""What the Messages API is asked: every body is one that Anthropic takes."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loom_ia.adapters.artifacts.memory import MemoryArtifacts
from loom_ia.adapters.models.anthropic.client import AnthropicModel
from loom_ia.core.errors import ConfigError
from loom_ia.core.model import (
    AnyBlock,
    ArtifactBlock,
    Capabilities,
    JsonBlock,
    Message,
    ModelRequest,
    ModelSpec,
    PromptCache,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolOutput,
    ToolResultBlock,
    ToolSpec,
)
from loom_ia.core.ports import ModelAccess
from tests.adapters.models.contract import ASKED, asking
from tests.providers.rules import problems_of_messages

SPEC = ModelSpec(id="CLAUDE", sdk="anthropic", model="claude-m1", max_tokens=2000)
ADD = ToolSpec(
    name="add",
    description="Add.",
    input_schema={"type": "object", "properties": {"a": {"type": "integer"}}},
)
LIST = ToolSpec(name="list", description="", input_schema={"type": "object"})
BUDGET = {"type": "enabled", "budget_tokens": 1024}
SEAL = "c2VhbGVkLXRob3VnaHQ="


async def body_of(spec: ModelSpec, request: ModelRequest, access: Any = None) -> dict[str, Any]:
    """Write the body, which Anthropic takes."""
    body: dict[str, Any] = await AnthropicModel(spec, access).body(request)
    assert problems_of_messages(body, extra=("temperature", "top_p")) == []
    return body


def spoke(*blocks: AnyBlock) -> Message:
    """Give what the model said."""
    return Message(role="assistant", blocks=blocks)


def called(call_id: str = "toolu_1", name: str = "add") -> ToolCallBlock:
    """Give a call."""
    return ToolCallBlock(call_id=call_id, name=name, arguments={"a": 1})


def gave(call_id: str = "toolu_1", *, output: ToolOutput | None = None) -> Message:
    """Give the result of a call."""
    block = ToolResultBlock(call_id=call_id, output=output or ToolOutput.of_text("3"))
    return Message(role="tool", blocks=(block,))


def thought(text: str = "Hm.", *, seal: str = SEAL, by: str = "CLAUDE") -> ReasoningBlock:
    """Give a thought, of this model or of another."""
    meta: Any = {"anthropic": {"signature": seal}} if seal else {}
    return ReasoningBlock(text=text, model=by, model_id="claude-m1", provider_meta=meta)


def contents(body: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """Give the blocks of each message."""
    return [message["content"] for message in body["messages"]]


# -- the settings ---------------------------------------------------------------------------------


async def test_the_smallest_request_has_nothing_more() -> None:
    """No system, no tools and no settings: the model, the limit and what the user says."""
    assert await body_of(SPEC, asking(SPEC)) == {
        "model": "claude-m1",
        "max_tokens": 2000,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Bonjour"}]}],
        "stream": True,
    }


async def test_the_longest_answer_has_a_default() -> None:
    """The API wants a limit, and gets 4096 when the configuration has none."""
    body = await body_of(SPEC, asking(SPEC, max_tokens=None))
    assert body["max_tokens"] == 4096


async def test_a_model_that_does_not_stream_is_not_asked_to() -> None:
    """`capabilities.streaming: false` asks for the whole answer."""
    spec = SPEC.model_copy(update={"capabilities": Capabilities(streaming=False)})
    assert "stream" not in await body_of(spec, asking(spec))


@pytest.mark.parametrize("blank", ["", " \n"])
async def test_a_blank_system_is_left_out(blank: str) -> None:
    """The API refuses an empty system."""
    assert "system" not in await body_of(SPEC, asking(SPEC, system=blank))


async def test_params_reach_the_body_as_they_are() -> None:
    """Also those for which the SDK has no argument."""
    params: Any = {"temperature": 0.3, "top_p": 0.9, "stop_sequences": ["."]}
    spec = SPEC.model_copy(update={"params": params})
    body = await body_of(spec, asking(spec))
    assert {key: body[key] for key in params} == params


def test_params_cannot_write_what_the_engine_writes() -> None:
    """A key of the engine in `params` is a fault of the configuration, told with its place."""
    spec = SPEC.model_copy(update={"params": {"messages": [], "system": "x", "temperature": 1}})
    with pytest.raises(ConfigError) as caught:
        AnthropicModel(spec)
    paths = [problem.path for problem in caught.value.problems]
    assert paths == ["models[CLAUDE].params.messages", "models[CLAUDE].params.system"]


# -- tools ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choice", "written"), [("auto", "auto"), ("none", "none"), ("required", "any")]
)
async def test_tools_come_with_a_choice(choice: Any, written: str) -> None:
    """The choice is written in the words of the API, and a blank description is left out."""
    body = await body_of(SPEC, asking(SPEC, tools=(ADD, LIST), tool_choice=choice))
    assert body["tool_choice"] == {"type": written}
    assert body["tools"] == [
        {"name": "add", "description": "Add.", "input_schema": ADD.input_schema},
        {"name": "list", "input_schema": {"type": "object"}},
    ]


async def test_calls_of_the_past_have_tools() -> None:
    """A conversation that holds calls declares their tools, which cannot be called any more."""
    talk = (ASKED, spoke(called("a", "sub"), called("b"), called("c")), gave("a"))
    body = await body_of(SPEC, asking(SPEC, *talk, tool_choice="required"))
    assert [tool["name"] for tool in body["tools"]] == ["add", "sub"]
    assert body["tool_choice"] == {"type": "none"}


async def test_a_choice_without_tools_is_left_out() -> None:
    """With neither tools nor calls, nothing is said of them."""
    assert "tool_choice" not in await body_of(SPEC, asking(SPEC, tool_choice="required"))


# -- messages -------------------------------------------------------------------------------------


async def test_results_come_first_in_the_message_of_the_user() -> None:
    """What is said after the results stands in their message, behind them."""
    talk = (ASKED, spoke(TextBlock(text="Je calcule."), called("a"), called("b")), gave("b"))
    note = Message.text("user", "Conclude.")
    body = await body_of(SPEC, asking(SPEC, *talk, notes=(note,), tools=(ADD,)))
    assert contents(body)[1] == [
        {"type": "text", "text": "Je calcule."},
        {"type": "tool_use", "id": "a", "name": "add", "input": {"a": 1}},
        {"type": "tool_use", "id": "b", "name": "add", "input": {"a": 1}},
    ]
    cancelled = {"type": "text", "text": "The run was cancelled before this call ended."}
    assert contents(body)[2] == [
        {"type": "tool_result", "tool_use_id": "a", "content": [cancelled], "is_error": True},
        {"type": "tool_result", "tool_use_id": "b", "content": [{"type": "text", "text": "3"}]},
        {"type": "text", "text": "Conclude."},
    ]


async def test_calls_under_one_id_have_each_its_result() -> None:
    """A journal in which an id stands twice gives two calls, with the results in order."""
    results = [ToolResultBlock(call_id="a", output=ToolOutput.of_text(text)) for text in ("1", "2")]
    talk = (ASKED, spoke(called("a"), called("a")), Message(role="tool", blocks=tuple(results)))
    body = await body_of(SPEC, asking(SPEC, *talk, tools=(ADD,)))
    given = [(part["tool_use_id"], part["content"][0]["text"]) for part in contents(body)[2]]
    assert given == [("a", "1"), ("a_2", "2")]


async def test_a_thought_goes_back_only_to_who_had_it() -> None:
    """Another model's thought is left out, and so is one that bears no seal."""
    talk = spoke(thought("1"), thought("2", by="OTHER"), thought("3", seal=""), TextBlock(text="4"))
    body = await body_of(SPEC, asking(SPEC, ASKED, talk, ASKED))
    assert contents(body)[1] == [
        {"type": "thinking", "thinking": "1", "signature": SEAL},
        {"type": "text", "text": "4"},
    ]


@pytest.mark.parametrize(
    "meta",
    [
        {"redacted_data": [1]},
        {"redacted_data": {"a": 1}, "signature": 7},
        {"signature": True},
        {"signature": None, "redacted_data": ""},
    ],
)
async def test_a_seal_that_is_no_text_is_not_sent(meta: Any) -> None:
    """A journal that was edited makes no request that is refused."""
    edited = thought().model_copy(update={"provider_meta": {"anthropic": meta}})
    body = await body_of(SPEC, asking(SPEC, ASKED, spoke(edited, TextBlock(text="Oui")), ASKED))
    assert contents(body)[1] == [{"type": "text", "text": "Oui"}]


async def test_thoughts_stand_where_the_api_takes_them() -> None:
    """None comes after a beginning that is no thought, and none ends a turn."""
    late = spoke(TextBlock(text="a"), thought(), called("a"))
    last = spoke(thought("1"), TextBlock(text="b"), thought("2"), thought("3"))
    talk = (ASKED, late, gave("a"), last, ASKED)
    body = await body_of(SPEC, asking(SPEC, *talk, tools=(ADD,)))
    kinds = [[block["type"] for block in content] for content in contents(body)]
    assert kinds[1] == ["text", "tool_use"]
    assert kinds[3] == ["thinking", "text"]


# -- thinking -------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [BUDGET, {"type": "adaptive"}])
async def test_a_forced_call_is_made_without_thinking(how: Any) -> None:
    """The API takes no thinking when a tool must be called: only that call goes without."""
    request = asking(SPEC, tools=(ADD,), params={"thinking": how})
    assert (await body_of(SPEC, request))["thinking"] == how
    assert "thinking" not in await body_of(SPEC, replace(request, tool_choice="required"))


async def test_thinking_that_is_disabled_stays_so() -> None:
    """What turns thinking off goes with a call that is forced."""
    request = asking(SPEC, tools=(ADD,), params={"thinking": {"type": "disabled"}})
    body = await body_of(SPEC, replace(request, tool_choice="required"))
    assert body["thinking"] == {"type": "disabled"}


FOREIGN = spoke(thought(by="OTHER"), called("a"))
OWN = spoke(thought(), called("a"))


@pytest.mark.parametrize(
    ("talk", "thinks"),
    [
        pytest.param((ASKED,), True, id="no tool runs"),
        pytest.param((ASKED, OWN, gave("a")), True, id="its own turn"),
        pytest.param((ASKED, FOREIGN, gave("a")), False, id="the turn of another model"),
        pytest.param((ASKED, FOREIGN, gave("a"), OWN, gave("a")), False, id="begun by another"),
        pytest.param(
            (ASKED, OWN, gave("a"), spoke(called("b")), gave("b")), True, id="one thought is enough"
        ),
        pytest.param((ASKED, FOREIGN, gave("a"), spoke(called("b"))), False, id="cancelled"),
        pytest.param(
            (ASKED, FOREIGN, gave("a"), spoke(TextBlock(text="3")), ASKED), True, id="it is over"
        ),
    ],
)
async def test_a_budget_of_thoughts_wants_a_beginning(
    talk: tuple[Message, ...], thinks: bool
) -> None:
    """While tools run whose turn another model began, this one is called without thinking."""
    request = asking(SPEC, *talk, tools=(ADD,))
    body = await body_of(SPEC, replace(request, params={"thinking": BUDGET}))
    assert ("thinking" in body) is thinks
    adaptive = await body_of(SPEC, replace(request, params={"thinking": {"type": "adaptive"}}))
    assert "thinking" in adaptive


# -- the prompt cache -----------------------------------------------------------------------------


def marks(body: dict[str, Any]) -> dict[str, Any]:
    """Give the marks by their place."""
    places = {f"tools.{rank}": tool for rank, tool in enumerate(body.get("tools", ()))}
    places |= {f"system.{rank}": part for rank, part in enumerate(body.get("system", ()))}
    for number, content in enumerate(contents(body)):
        places |= {f"messages.{number}.{rank}": block for rank, block in enumerate(content)}
    return {at: part["cache_control"] for at, part in places.items() if "cache_control" in part}


TALK = (ASKED, spoke(thought(), TextBlock(text="Oui ?")), ASKED, OWN, gave("a"))
EVERYTHING = {"tools.1": None, "system.0": None, "messages.2.0": None, "messages.4.0": None}


@pytest.mark.parametrize(
    ("cache", "marked"),
    [
        (None, []),
        (PromptCache(), []),
        (PromptCache(system=True), ["system.0"]),
        (PromptCache(tools=True), ["tools.1"]),
        (PromptCache(messages=True), ["messages.2.0", "messages.4.0"]),
        (PromptCache(system=True, tools=True, messages=True), list(EVERYTHING)),
    ],
)
async def test_the_cache_is_marked_where_it_is_wanted(
    cache: PromptCache | None, marked: list[str]
) -> None:
    """The last tool, the system, and the last thing of the last two messages of the user."""
    spec = SPEC.model_copy(update={"cache": cache})
    body = await body_of(spec, asking(spec, *TALK, system="Sois bref.", tools=(LIST, ADD)))
    assert list(marks(body)) == marked
    assert all(mark == {"type": "ephemeral"} for mark in marks(body).values())


async def test_what_is_said_for_one_call_is_not_marked() -> None:
    """The next call goes on from the mark: it stands before the notes, on what will be there."""
    spec = SPEC.model_copy(update={"cache": PromptCache(messages=True)})
    notes = (Message.text("user", "[state] {}"), Message.text("user", "Conclude."))
    body = await body_of(spec, replace(asking(spec, *TALK), notes=notes))
    assert [block["type"] for block in contents(body)[4]] == ["tool_result", "text", "text"]
    assert list(marks(body)) == ["messages.2.0", "messages.4.0"]
    alone = await body_of(spec, replace(asking(spec), messages=(), notes=notes[:1]))
    assert list(marks(alone)) == []


async def test_a_mark_of_an_hour_says_so() -> None:
    """`ttl: 1h` is told in each mark."""
    spec = SPEC.model_copy(update={"cache": PromptCache(messages=True, ttl="1h")})
    body = await body_of(spec, asking(spec))
    assert marks(body) == {"messages.0.0": {"type": "ephemeral", "ttl": "1h"}}


async def test_a_mark_in_params_counts() -> None:
    """Anthropic takes four marks, the one that `params` may hold among them."""
    everything = PromptCache(system=True, tools=True, messages=True)
    params: Any = {"cache_control": {"type": "ephemeral"}}
    spec = SPEC.model_copy(update={"cache": everything, "params": params})
    body = await body_of(spec, asking(spec, *TALK, system="Sois bref.", tools=(LIST, ADD)))
    assert list(marks(body)) == ["tools.1", "system.0", "messages.4.0"]


async def test_nothing_is_marked_that_is_not_there() -> None:
    """Without system and without tools, the marks of the messages are the only ones."""
    spec = SPEC.model_copy(update={"cache": PromptCache(system=True, tools=True, messages=True)})
    assert list(marks(await body_of(spec, asking(spec)))) == ["messages.0.0"]


# -- files ----------------------------------------------------------------------------------------

PNG = b"\x89PNG\r\n\x1a\n----"
PDF = b"%PDF-1.7 ----"
SEES = Capabilities(vision=True, documents=True)


async def stored(store: MemoryArtifacts, data: bytes, kind: str, name: str) -> ArtifactBlock:
    """Keep a file, and refer to it."""
    uri = await store.put("acme", "s1", data, kind)
    return ArtifactBlock(uri=uri, media_type=kind, size=len(data), name=name)


async def test_files_are_given_as_the_api_takes_them() -> None:
    """Images and PDF in base64, texts as they are, each document with its name."""
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
    picture = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgotLS0t"}
    paper = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjcgLS0tLQ=="}
    text = {"type": "text", "media_type": "text/plain", "data": "été"}
    film = "(file film.mp4, video/mp4, 9 bytes: this model cannot read it)"
    assert contents(body)[0] == [
        {"type": "text", "text": "Lis."},
        {"type": "image", "source": picture},
        {"type": "document", "source": paper, "title": "devis.pdf"},
        {"type": "document", "source": text, "title": "note.txt"},
        {"type": "text", "text": film},
    ]


@pytest.mark.parametrize("inside", [True, False])
async def test_the_image_of_a_result_stands_where_the_model_takes_it(inside: bool) -> None:
    """Inside the result when `tool_result_media` says so, and else behind all the results."""
    store = MemoryArtifacts()
    image = await stored(store, PNG, "image/png", "plan.png")
    can = SEES.model_copy(update={"tool_result_media": inside})
    spec = SPEC.model_copy(update={"capabilities": can})
    output = ToolOutput(blocks=(TextBlock(text="Voici."), image))
    talk = (ASKED, spoke(called("a")), gave("a", output=output))
    body = await body_of(spec, asking(spec, *talk, tools=(ADD,)), ModelAccess(artifacts=store))
    result, *after = contents(body)[2]
    kinds = [part["type"] for part in result["content"]]
    assert kinds == ["text", "image" if inside else "text"]
    assert [part["type"] for part in after] == ([] if inside else ["text", "image"])


# -- the shape of an answer -----------------------------------------------------------------------

SHAPE: Any = {"type": "object", "properties": {"total": {"type": "number", "minimum": 0}}}


async def test_the_shape_of_an_answer_joins_what_params_say() -> None:
    """The engine's format and the user's effort go together under `output_config`."""
    params: Any = {"output_config": {"effort": "low"}}
    body = await body_of(SPEC, asking(SPEC, output_schema=SHAPE, params=params))
    assert body["output_config"]["effort"] == "low"
    assert body["output_config"]["format"] == {
        "type": "json_schema",
        "schema": {
            "type": "object",
            "properties": {"total": {"type": "number", "description": "{minimum: 0}"}},
            "additionalProperties": False,
        },
    }


async def test_what_params_say_of_the_output_stays_without_a_shape() -> None:
    """Without a schema of the engine, `output_config` is the user's."""
    params: Any = {"output_config": {"effort": "low"}}
    body = await body_of(SPEC, asking(SPEC, params=params))
    assert body["output_config"] == {"effort": "low"}


# -- any conversation -----------------------------------------------------------------------------

_TEXTS = st.sampled_from(["", " ", "Bonjour", "\ud83d", "a\x00b"])
_IDS = st.sampled_from(["toolu_1", "call 1", "", "é" * 80, "chatcmpl-tool-1"])
_NAMES = st.sampled_from(["add", "list", "an odd name", ""])
_SAID = st.one_of(
    st.builds(TextBlock, text=_TEXTS),
    st.builds(JsonBlock, data=st.just({"a": [1]})),
    st.just(ArtifactBlock(uri="artifact://acme/s/x.png", media_type="image/png", size=9)),
)
_UTTERED = st.one_of(
    _SAID,
    st.builds(
        thought, _TEXTS, seal=st.sampled_from(["", SEAL]), by=st.sampled_from(["CLAUDE", "OTHER"])
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
_SPECS = st.builds(
    lambda cache, can, thinking: SPEC.model_copy(
        update={
            "cache": cache,
            "capabilities": can,
            "params": {"thinking": thinking} if thinking else {},
        }
    ),
    st.sampled_from([None, PromptCache(system=True, tools=True, messages=True)]),
    st.sampled_from([Capabilities(), SEES.model_copy(update={"tool_result_media": True})]),
    st.sampled_from([None, BUDGET, {"type": "adaptive"}, {"type": "disabled"}]),
)


@settings(max_examples=150)
@given(
    spec=_SPECS,
    talk=_TALK,
    tools=st.sampled_from([(), (ADD,), (ADD, LIST)]),
    choice=st.sampled_from(["auto", "none", "required"]),
    system=_TEXTS,
    shape=st.sampled_from([None, SHAPE]),
)
async def test_any_conversation_gives_a_request_that_anthropic_takes(
    spec: ModelSpec, talk: list[Message], tools: Any, choice: Any, system: str, shape: Any
) -> None:
    """Whatever the journal holds, the body passes the rules of the API."""
    half = len(talk) // 2
    request = asking(spec, tools=tools, tool_choice=choice, system=system, output_schema=shape)
    await body_of(spec, replace(request, history=tuple(talk[:half]), messages=tuple(talk[half:])))
