"""What OpenAI would refuse of a chat: a whole one keeps every rule, and each is broken alone."""

from typing import Any

import pytest

from tests.providers.edits import BARE, GONE, OBJECT, PIXEL, STRICT, Edit, edited, table, text
from tests.providers.rules import problems_of_chat


def called(id: str, name: str = "add", arguments: str = '{"a": 1}') -> dict[str, Any]:
    """Write a call of a chat completion."""
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


CHAT: dict[str, Any] = {
    "model": "gpt",
    "stream": True,
    "stream_options": {"include_usage": True},
    "max_completion_tokens": 100,
    "temperature": 1,
    "tools": [
        {"type": "function", "function": {"name": "add", "parameters": OBJECT}},
        {
            "type": "function",
            "function": {"name": "find", "parameters": STRICT, "strict": True},
        },
    ],
    "tool_choice": {"type": "function", "function": {"name": "add"}},
    "parallel_tool_calls": True,
    "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": STRICT, "strict": True},
    },
    "messages": [
        {"role": "system", "content": "Sois bref."},
        {
            "role": "user",
            "content": [
                text("Bonjour 😀"),
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
            ],
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [called("call_a"), called("call_b", "find")],
        },
        {"role": "tool", "tool_call_id": "call_a", "content": "3"},
        {"role": "tool", "tool_call_id": "call_b", "content": [text("rien")]},
        {"role": "user", "content": "Alors ?"},
        {"role": "assistant", "content": "Rien."},
        {"role": "user", "content": "Merci."},
    ],
}


@pytest.mark.parametrize("body", [CHAT, edited(BARE, ("max_tokens", 5))], ids=["whole", "bare"])
def test_a_chat_that_openai_takes_has_no_problem(body: dict[str, Any]) -> None:
    """A conversation with tools, images and a schema keeps every rule."""
    assert problems_of_chat(body) == []


FUNCTION = "tools[1].function.parameters"


@table(
    ("no message", [("messages", [])], "messages: there is none"),
    (
        "the assistant first",
        [
            ("messages.1", GONE),
            ("messages.0", {"role": "assistant", "content": "A"}),
            ("messages.1", {"role": "user", "content": "B"}),
            ("messages.3", GONE),
            ("messages.2", GONE),
        ],
        "messages[0]: the first message is the user's, or the system's",
    ),
    (
        "the assistant after the system",
        [("messages.1", GONE)],
        "messages[1]: the first message is the user's",
    ),
    (
        "the system later",
        [("messages.5.role", "system")],
        "messages[5]: only the first message may be the system's",
    ),
    (
        "two messages of the assistant",
        [("messages.7", {"role": "assistant", "content": "A"})],
        "messages[7]: two messages of the assistant follow each other",
    ),
    ("empty text", [("messages.7.content", "")], "messages[7]: the content is empty"),
    ("blank text", [("messages.0.content", " ")], "messages[0]: the content is empty"),
    ("no content", [("messages.6.content", None)], "messages[6]: the content is empty"),
    ("blank result", [("messages.3.content", " ")], "messages[3]: the content is empty"),
    (
        "empty part",
        [("messages.1.content.0.text", "")],
        "messages[1].content[0]: the text is empty",
    ),
    (
        "no call in the calls",
        [("messages.6.tool_calls", [])],
        "messages[6].tool_calls: is empty; leave it out",
    ),
    ("no result", [("messages.4", GONE)], "messages[4]: the result of call_b is missing"),
    (
        "a result later",
        [("messages.4", {"role": "user", "content": "A"}), ("messages.5", GONE)],
        "messages[4]: the result of call_b is missing",
    ),
    (
        "no result at the end",
        [
            ("messages.7", GONE),
            ("messages.6", {"role": "assistant", "tool_calls": [called("call_c")]}),
        ],
        "messages: the result of call_c is missing",
    ),
    (
        "a result without its call",
        [("messages.2.tool_calls.1", GONE)],
        "messages[4]: no call right before has the id call_b",
    ),
    (
        "two results of a call",
        [("messages.5", {"role": "tool", "tool_call_id": "call_b", "content": "A"})],
        "messages[5]: no call right before has the id call_b",
    ),
    (
        "results in another order",
        [("messages.3.tool_call_id", "call_b"), ("messages.4.tool_call_id", "call_a")],
        "messages[3]: the results come in the order of the calls",
    ),
    (
        "an id twice",
        [
            ("messages.6", {"role": "assistant", "tool_calls": [called("call_a")]}),
            ("messages.7", {"role": "tool", "tool_call_id": "call_a", "content": "A"}),
        ],
        "messages: two calls have the id call_a",
    ),
    (
        "an empty id",
        [("messages.2.tool_calls.0.id", ""), ("messages.3.tool_call_id", "")],
        "messages[2].tool_calls[0].id: has 1 to 40 characters",
    ),
    (
        "an id of 41 characters",
        [("messages.2.tool_calls.0.id", "a" * 41), ("messages.3.tool_call_id", "a" * 41)],
        "messages[2].tool_calls[0].id: has 1 to 40 characters",
    ),
    (
        "a name with a point",
        [("tools.1.function.name", "a.b")],
        "tools[1]: 'a.b' is no name of a tool",
    ),
    (
        "a name with a point in a call",
        [("messages.2.tool_calls.0.function.name", "a.b")],
        "messages[2].tool_calls[0]: 'a.b' is no name of a tool",
    ),
    ("a name twice", [("tools.1.function.name", "add")], "tools: 'add' is declared twice"),
    (
        "arguments that are no JSON",
        [("messages.2.tool_calls.0.function.arguments", "{")],
        "messages[2].tool_calls[0].function.arguments: are no JSON object",
    ),
    (
        "arguments that are no object",
        [("messages.2.tool_calls.0.function.arguments", "[]")],
        "messages[2].tool_calls[0].function.arguments: are no JSON object",
    ),
    (
        "a choice without tools",
        [("tools", GONE), ("parallel_tool_calls", GONE)],
        "tool_choice: stands without tools",
    ),
    (
        "parallel calls without tools",
        [("tools", GONE), ("tool_choice", GONE)],
        "parallel_tool_calls: stands without tools",
    ),
    (
        "empty tools",
        [("tools", []), ("tool_choice", GONE), ("parallel_tool_calls", GONE)],
        "tools: are empty; leave them out",
    ),
    (
        "a choice of an unknown tool",
        [("tool_choice.function.name", "x")],
        "tool_choice: 'x' is no tool",
    ),
    ("options without stream", [("stream", GONE)], "stream_options: stands without stream"),
    (
        "two limits",
        [("max_tokens", 5)],
        "max_tokens: stands beside max_completion_tokens",
    ),
    ("no token", [("max_completion_tokens", 0)], "max_completion_tokens: is at least 1"),
    (
        "an image that is no base64",
        [("messages.1.content.1.image_url.url", "data:image/png;base64,é!")],
        "messages[1].content[1]: is no base64",
    ),
    (
        "an image elsewhere",
        [("messages.1.content.1.image_url.url", "https://example.com/a.png")],
        "messages[1].content[1]: is no data URL in base64",
    ),
    (
        "an image of another type",
        [("messages.1.content.1.image_url.url", f"data:image/bmp;base64,{PIXEL}")],
        "messages[1].content[1]: no provider reads image/bmp",
    ),
    (
        "half a character",
        [("messages.7.content", "\ud83d")],
        "messages[7].content: holds half a character",
    ),
    (
        "the name of a schema",
        [("response_format.json_schema.name", "a b")],
        "response_format.json_schema.name: 'a b' is no name of a schema",
    ),
    (
        "a schema that is not strict",
        [("response_format.json_schema.schema.required.4", GONE)],
        "response_format.json_schema.schema: 'size' is not required",
    ),
    (
        "arguments of another type",
        [("tools.0.function.parameters.type", "string")],
        "tools[0].function.parameters: the arguments of a tool are an object",
    ),
    (
        "strict without a schema",
        [("tools.1.function.parameters", GONE)],
        f"{FUNCTION}: are missing, and the tool is strict",
    ),
)
def test_each_rule_of_a_chat_is_broken_alone(edits: list[Edit], problem: str) -> None:
    """What is wrong is told once, with its place, and nothing else is."""
    assert problems_of_chat(edited(CHAT, *edits)) == problem.split("|")


@table(
    (
        "an unknown key",
        [("messages.6.reasoning_content", "A")],
        "messages[6].reasoning_content: Extra inputs are not permitted",
    ),
    (
        "arguments as an object",
        [("messages.2.tool_calls.0.function.arguments", {})],
        "messages[2].tool_calls[0].function.arguments: Input should be a valid string",
    ),
    (
        "an image of the assistant",
        [("messages.6.content", [{"type": "image_url", "image_url": {"url": "data:"}}])],
        "messages[6].content[0]: Input is of no kind that may stand here",
    ),
    (
        "a result without its id",
        [("messages.3.tool_call_id", GONE)],
        "messages[3].tool_call_id: Field required",
    ),
    (
        "an unknown choice",
        [("tool_choice", "any")],
        "tool_choice: Input should be 'none', 'auto' or 'required'",
    ),
    (
        "an unknown role",
        [("messages.5.role", "bot")],
        "messages[5]: Input is of no kind that may stand here",
    ),
)
def test_the_shape_is_the_one_of_the_sdk_for_chats(edits: list[Edit], problem: str) -> None:
    """Keys that are missing, unknown or of another type are told with their place."""
    assert problem in problems_of_chat(edited(CHAT, *edits))
