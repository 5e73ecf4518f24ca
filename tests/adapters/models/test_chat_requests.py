"""What Chat Completions is asked: every body is one that OpenAI takes."""

from typing import Any

import pytest

from loom_ia.adapters.models.openai_chat.client import ChatModel
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
)
from loom_ia.tools import PythonTool, tool
from tests.adapters.models.contract import ASKED, asking
from tests.providers.rules import problems_of_chat

SPEC = ModelSpec(id="CHAT", sdk="openai", model="chat-m1")
AT_HOME = "http://127.0.0.1:8080/v1"


async def body_of(spec: ModelSpec, request: ModelRequest) -> dict[str, Any]:
    """Write the body, which OpenAI takes; others also take the thoughts of their models back."""
    body: dict[str, Any] = await ChatModel(spec).body(request)
    extra = ("reasoning_content",) if spec.capabilities.thinking else ()
    assert problems_of_chat(body, extra=extra) == []
    return body


def able(**can: Any) -> ModelSpec:
    """Give a model that can do more, or less."""
    return SPEC.model_copy(update={"capabilities": Capabilities(**can)})


def spoke(*blocks: AnyBlock) -> Message:
    """Write what the model said."""
    return Message(role="assistant", blocks=blocks)


def called(call_id: str = "call_1", **arguments: Any) -> ToolCallBlock:
    """Write a call."""
    return ToolCallBlock(call_id=call_id, name="add", arguments=arguments or {"a": 1})


def gave(call_id: str = "call_1", *, output: ToolOutput | None = None) -> Message:
    """Write the result of a call."""
    block = ToolResultBlock(call_id=call_id, output=output or ToolOutput.of_text("3"))
    return Message(role="tool", blocks=(block,))


def thought(text: str, *, by: str = "CHAT") -> ReasoningBlock:
    """Write a thought of a model."""
    return ReasoningBlock(text=text, model=by, model_id="chat-m1")


# -- the settings ---------------------------------------------------------------------------------


async def test_the_smallest_request_has_nothing_more() -> None:
    """No system, no tools and no settings: the model, what the user says, and a stream."""
    assert await body_of(SPEC, asking(SPEC)) == {
        "model": "chat-m1",
        "messages": [{"role": "user", "content": "Bonjour"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


async def test_a_model_that_does_not_stream_is_not_asked_to() -> None:
    """Without a stream its options may not stand either."""
    spec = able(streaming=False)
    body = await body_of(spec, asking(spec))
    assert body.keys() == {"model", "messages"}


@pytest.mark.parametrize(
    ("base_url", "name"),
    [
        (None, "max_completion_tokens"),
        ("https://api.openai.com/v1", "max_completion_tokens"),
        ("https://eu.api.openai.com/v1", "max_completion_tokens"),
        ("https://api.deepseek.com", "max_tokens"),
        (AT_HOME, "max_tokens"),
    ],
)
async def test_the_limit_has_the_name_that_the_server_knows(
    base_url: str | None, name: str
) -> None:
    """OpenAI gave it another name, which the servers that imitate it may not know."""
    spec = SPEC.model_copy(update={"base_url": base_url, "max_tokens": 500})
    body = await body_of(spec, asking(spec))
    assert {key: value for key, value in body.items() if "tokens" in key} == {name: 500}


async def test_the_system_is_the_first_message() -> None:
    """It comes without what surrounds it."""
    body = await body_of(SPEC, asking(SPEC, system=" Sois bref.\n"))
    assert body["messages"][0] == {"role": "system", "content": "Sois bref."}


@pytest.mark.parametrize("blank", ["", " \n"])
async def test_a_blank_system_is_left_out(blank: str) -> None:
    """There is nothing to read in it."""
    body = await body_of(SPEC, asking(SPEC, system=blank))
    assert [message["role"] for message in body["messages"]] == ["user"]


async def test_params_reach_the_body_as_they_are() -> None:
    """Also those that only the server at hand knows."""
    params: Any = {"temperature": 0, "seed": 7, "reasoning_effort": "low", "stop": ["."]}
    spec = SPEC.model_copy(update={"params": {**params, "top_k": 40}})
    body: Any = await ChatModel(spec).body(asking(spec))
    assert problems_of_chat(body, extra=("top_k",)) == []
    assert {key: body[key] for key in spec.params} == spec.params


@pytest.mark.parametrize(
    "key",
    [
        *("max_completion_tokens", "max_tokens", "messages", "model", "n", "response_format"),
        *("stream", "tool_choice", "tools"),
    ],
)
def test_params_cannot_write_what_the_engine_writes(key: str) -> None:
    """A key of the engine in `params` is a fault of the configuration, told with its place."""
    spec = SPEC.model_copy(update={"params": {key: 1, "temperature": 1}})
    with pytest.raises(ConfigError) as caught:
        ChatModel(spec)
    (problem,) = caught.value.problems
    assert problem.path == f"models[CHAT].params.{key}"
    assert key in problem.message


# -- tools ----------------------------------------------------------------------------------------


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def price(amount: float, rate: float = 20.0) -> float:
    """Work out a price."""
    return amount * rate


@tool
def keep(fields: dict[str, Any]) -> str:
    """Keep anything."""
    return str(fields)


@tool
def now() -> str:
    """Say what time it is."""
    return "noon"


@pytest.mark.parametrize(
    ("function", "strict"),
    [
        pytest.param(add, True, id="all required"),
        pytest.param(now, True, id="no parameter"),
        pytest.param(price, False, id="an optional parameter"),
        pytest.param(keep, False, id="an object of any keys"),
    ],
)
async def test_a_tool_is_strict_when_its_schema_can_be(
    function: PythonTool[..., Any], strict: bool
) -> None:
    """Nothing is said of one that cannot: OpenAI would refuse the whole request."""
    spec = function.spec
    body = await body_of(SPEC, asking(SPEC, tools=(spec,)))
    (told,) = body["tools"]
    assert told["function"].pop("strict", None) is (True if strict else None)
    assert told == {
        "type": "function",
        "function": {
            "name": spec.name,
            "description": spec.description,
            "parameters": spec.input_schema,
        },
    }


@pytest.mark.parametrize("choice", ["auto", "none", "required"])
async def test_tools_come_with_a_choice(choice: Any) -> None:
    """The engine's words for it are OpenAI's."""
    body = await body_of(SPEC, asking(SPEC, tools=(add.spec, price.spec), tool_choice=choice))
    assert body["tool_choice"] == choice


async def test_a_choice_without_tools_is_left_out() -> None:
    """OpenAI refuses it."""
    assert "tool_choice" not in await body_of(SPEC, asking(SPEC, tool_choice="required"))


# -- the shape of an answer -----------------------------------------------------------------------

OPEN: Any = {"type": "object", "properties": {"total": {"type": "number"}}}
CLOSED: Any = {**OPEN, "required": ["total"], "additionalProperties": False}


@pytest.mark.parametrize(("schema", "strict"), [(OPEN, False), (CLOSED, True)])
async def test_the_shape_of_an_answer_is_strict_when_it_can_be(schema: Any, strict: bool) -> None:
    """What is not is followed as well as the model can."""
    body = await body_of(SPEC, asking(SPEC, output_schema=schema))
    assert body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": schema, "strict": strict},
    }


# -- the conversation -----------------------------------------------------------------------------


async def test_calls_and_their_results_follow_each_other() -> None:
    """Each result is a message, in the order of the calls; arguments keep that of their keys."""
    both = Message(role="tool", blocks=(*gave("b").blocks, *gave("a").blocks))
    talk = (ASKED, spoke(TextBlock(text="Je calcule."), called("a", z="é", a=1), called("b")), both)
    body = await body_of(SPEC, asking(SPEC, *talk, tools=(add.spec,)))
    assert body["messages"][1:] == [
        {
            "role": "assistant",
            "content": "Je calcule.",
            "tool_calls": [
                {
                    "id": "a",
                    "type": "function",
                    "function": {"name": "add", "arguments": '{"z":"é","a":1}'},
                },
                {
                    "id": "b",
                    "type": "function",
                    "function": {"name": "add", "arguments": '{"a":1}'},
                },
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "3"},
        {"role": "tool", "tool_call_id": "b", "content": "3"},
    ]


async def test_a_call_without_a_word_has_no_content() -> None:
    """An empty text is refused, null is not."""
    body = await body_of(SPEC, asking(SPEC, ASKED, spoke(called()), gave(), tools=(add.spec,)))
    assert body["messages"][1]["content"] is None


@pytest.mark.parametrize(
    ("language", "text"), [("en", "[error] Panne."), ("fr", "[erreur] Panne.")]
)
async def test_a_failed_result_says_so_in_the_language_of_the_agent(
    language: Any, text: str
) -> None:
    """The API has no mark of failure: the text begins with it."""
    talk = (ASKED, spoke(called()), gave(output=ToolOutput.of_error("Panne.")))
    body = await body_of(SPEC, asking(SPEC, *talk, tools=(add.spec,), language=language))
    assert body["messages"][-1] == {"role": "tool", "tool_call_id": "call_1", "content": text}


async def test_what_is_only_text_is_one_text() -> None:
    """Many servers that speak as OpenAI does read no list of parts."""
    message = Message(role="user", blocks=(TextBlock(text="Lis."), JsonBlock(data={"é": 1})))
    body = await body_of(SPEC, asking(SPEC, message))
    assert body["messages"] == [{"role": "user", "content": 'Lis.\n\n{"é": 1}'}]


# -- thoughts -------------------------------------------------------------------------------------

BEFORE = (ASKED, spoke(thought("Avant."), TextBlock(text="Oui ?")))
LOOP = (
    ASKED,
    spoke(thought("Un."), thought("Deux."), called("a")),
    gave("a"),
    spoke(called("b")),
    gave("b"),
)


def thoughts(body: dict[str, Any]) -> list[str | None]:
    """Give what each message of the assistant thought."""
    spoken = [message for message in body["messages"] if message["role"] == "assistant"]
    return [message.get("reasoning_content") for message in spoken]


async def test_a_model_reads_its_thoughts_while_it_calls_tools() -> None:
    """Those of the running turn, joined; not those of a turn that is over."""
    spec = able(thinking=True)
    body = await body_of(spec, asking(spec, *BEFORE, *LOOP, tools=(add.spec,)))
    assert thoughts(body) == [None, "Un.\n\nDeux.", ""]
    over = (*LOOP, spoke(TextBlock(text="Voilà.")), ASKED)
    body = await body_of(spec, asking(spec, *over, tools=(add.spec,)))
    assert thoughts(body) == ["", "", None]


@pytest.mark.parametrize(
    ("base_url", "shown", "expected"),
    [
        pytest.param(AT_HOME, True, ["", None, "Un.\n\nDeux.", ""], id="a server that thinks"),
        pytest.param(AT_HOME, False, [None, None, None, None], id="nothing is known of it"),
        pytest.param("https://api.deepseek.com/v1", False, ["", None, "", ""], id="DeepSeek"),
    ],
)
async def test_a_server_that_gives_thoughts_wants_their_key_with_each_call(
    base_url: str, shown: bool, expected: list[str | None]
) -> None:
    """Empty where there is none to give back; a server that does not know the key never sees it."""
    spec = able(thinking=True).model_copy(update={"base_url": base_url})
    first, *rest = LOOP[1:] if shown else (spoke(called("a")), *LOOP[2:])
    past = (ASKED, spoke(called("a")), gave("a"), spoke(TextBlock(text="Voilà.")))
    body = await body_of(spec, asking(spec, *past, ASKED, first, *rest, tools=(add.spec,)))
    assert thoughts(body) == expected


async def test_a_thought_goes_back_under_the_key_that_it_came_under() -> None:
    """Groq and OpenRouter say `reasoning`, and may refuse the other one."""
    spec = able(thinking=True).model_copy(update={"base_url": AT_HOME})
    block = thought("Hm.").model_copy(update={"provider_meta": {"chat": {"key": "reasoning"}}})
    talk = (ASKED, spoke(block, called("a")), gave("a"), spoke(called("b")), gave("b"))
    body: Any = await ChatModel(spec).body(asking(spec, *talk, tools=(add.spec,)))
    assert problems_of_chat(body, extra=("reasoning",)) == []
    spoken = [message for message in body["messages"] if message["role"] == "assistant"]
    assert [message.get("reasoning") for message in spoken] == ["Hm.", None]


async def test_thoughts_are_for_a_model_that_says_it_thinks() -> None:
    """A server that does not know the key may refuse it."""
    body = await body_of(SPEC, asking(SPEC, *LOOP, tools=(add.spec,)))
    assert thoughts(body) == [None, None]


async def test_what_the_engine_adds_does_not_end_the_turn() -> None:
    """Neither the order to conclude nor the files of a result are a question of the user."""
    spec = able(thinking=True, vision=True)
    image = ArtifactBlock(uri="artifact://acme/s1/x", media_type="image/png", size=9, name="x.png")
    first, ask, _, *rest = LOOP
    shown = gave("a", output=ToolOutput(blocks=(image,)))
    note = Message.text("user", "Conclude.")
    for talk in (LOOP, (first, ask, shown, *rest)):
        body = await body_of(spec, asking(spec, *talk, notes=(note,), tools=(add.spec,)))
        assert thoughts(body) == ["Un.\n\nDeux.", ""]
        assert body["messages"][-1] == {"role": "user", "content": "Conclude."}


async def test_a_thought_goes_back_only_to_who_had_it() -> None:
    """Another model of the chain never reads it, nor does a thought of nothing stand anywhere."""
    spec = able(thinking=True)
    talk = (ASKED, spoke(thought("Le sien.", by="OTHER"), thought(""), called()), gave())
    body = await body_of(spec, asking(spec, *talk, tools=(add.spec,)))
    assert thoughts(body) == [None]
