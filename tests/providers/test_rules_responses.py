"""What OpenAI would refuse of a response: a whole one keeps every rule, each is broken alone."""

from typing import Any

import pytest

from tests.providers.edits import GONE, OBJECT, PIXEL, STRICT, Edit, edited, table, text
from tests.providers.rules import problems_of_responses


def function_call(call_id: str, name: str = "add", **more: Any) -> dict[str, Any]:
    """Write a call of a response."""
    call = {"type": "function_call", "call_id": call_id, "name": name, "arguments": "{}"}
    return {**call, **more}


def output(call_id: str, given: Any = "3") -> dict[str, Any]:
    """Write the output of a call."""
    return {"type": "function_call_output", "call_id": call_id, "output": given}


RESPONSES: dict[str, Any] = {
    "model": "gpt",
    "stream": True,
    "store": False,
    "include": ["reasoning.encrypted_content"],
    "instructions": "Sois bref.",
    "max_output_tokens": 100,
    "parallel_tool_calls": True,
    "reasoning": {"effort": "low", "summary": "auto"},
    "tools": [
        {"type": "function", "name": "add", "parameters": OBJECT, "strict": False},
        {"type": "function", "name": "find", "parameters": STRICT, "strict": True},
    ],
    "tool_choice": {"type": "function", "name": "add"},
    "text": {"format": {"type": "json_schema", "name": "answer", "schema": STRICT, "strict": True}},
    "input": [
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "Bonjour 😀"},
                {
                    "type": "input_image",
                    "detail": "auto",
                    "image_url": f"data:image/png;base64,{PIXEL}",
                },
            ],
        },
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "Hum."}],
            "encrypted_content": "x",
        },
        function_call("call_a", id="fc_1"),
        function_call("call_b", "find"),
        output("call_a"),
        output("call_b", [{"type": "input_text", "text": "rien"}]),
        {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "x"},
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Rien.", "annotations": []}],
        },
        {"role": "user", "content": "Merci."},
        {"role": "assistant", "content": "De rien."},
        {"role": "user", "content": "Encore ?"},
    ],
}


@pytest.mark.parametrize("body", [RESPONSES, {"model": "gpt", "input": "Bonjour"}])
def test_a_response_that_openai_takes_has_no_problem(body: dict[str, Any]) -> None:
    """A conversation with tools, images, sealed reasoning and a schema keeps every rule."""
    assert problems_of_responses(body) == []


@table(
    ("no input", [("input", [])], "input: is empty"),
    ("blank input", [("input", " ")], "input: is empty"),
    ("empty instructions", [("instructions", "")], "instructions: are empty; leave them out"),
    ("empty text", [("input.8.content", "")], "input[8].content: is empty"),
    (
        "empty part",
        [("input.0.content.0.text", " ")],
        "input[0].content[0]: the text is empty",
    ),
    (
        "empty part of the assistant",
        [("input.7.content.0.text", "")],
        "input[7].content[0]: the text is empty",
    ),
    ("empty output", [("input.4.output", "")], "input[4].output: is empty"),
    (
        "empty part of an output",
        [("input.5.output.0.text", "")],
        "input[5].output[0]: the text is empty",
    ),
    (
        "input of the assistant",
        [("input.9.content", [{"type": "input_text", "text": "A"}])],
        "input[9].content[0]: the assistant has no input_text",
    ),
    ("no output", [("input.5", GONE)], "input[5]: the output of call_b is missing"),
    (
        "an output after a message",
        [("input.4", {"role": "user", "content": "A"}), ("input.5", GONE)],
        "input[4]: the output of call_a is missing|input[4]: the output of call_b is missing",
    ),
    (
        "no output at the end",
        [("input.+", function_call("call_c"))],
        "input: the output of call_c is missing",
    ),
    (
        "an output without its call",
        [("input.3", GONE)],
        "input[4]: no call before has the id call_b",
    ),
    (
        "outputs in another order",
        [("input.4.call_id", "call_b"), ("input.5.call_id", "call_a")],
        "input[4]: the outputs come in the order of the calls",
    ),
    (
        "an id twice",
        [("input.+", function_call("call_a")), ("input.+", output("call_a"))],
        "input: two calls have the id call_a",
    ),
    (
        "an item twice",
        [("input.6.id", "rs_1")],
        "input: two items have the id rs_1",
    ),
    (
        "an id of 65 characters",
        [("input.2.call_id", "a" * 65), ("input.4.call_id", "a" * 65)],
        "input[2].call_id: has 1 to 64 characters",
    ),
    (
        "the id of an item of another kind",
        [("input.2.id", "call_a")],
        "input[2].id: begins with 'fc'",
    ),
    (
        "arguments that are no object",
        [("input.2.arguments", "[]")],
        "input[2].arguments: are no JSON object",
    ),
    (
        "reasoning that is not sealed",
        [("input.1.encrypted_content", GONE)],
        "input[1]: has no encrypted content, and nothing is stored",
    ),
    (
        "reasoning about nothing",
        [("input.7", GONE)],
        "input[6]: what was reasoned about does not follow",
    ),
    (
        "reasoning at the end",
        [("input.+", {"type": "reasoning", "id": "rs_3", "summary": [], "encrypted_content": "x"})],
        "input[11]: what was reasoned about does not follow",
    ),
    ("a name with a point", [("tools.1.name", "a.b")], "tools[1]: 'a.b' is no name of a tool"),
    (
        "a name with a point in a call",
        [("input.2.name", "a.b")],
        "input[2]: 'a.b' is no name of a tool",
    ),
    ("a name twice", [("tools.1.name", "add")], "tools: 'add' is declared twice"),
    ("a choice without tools", [("tools", GONE)], "tool_choice: stands without tools"),
    (
        "empty tools",
        [("tools", []), ("tool_choice", GONE)],
        "tools: are empty; leave them out",
    ),
    ("a choice of an unknown tool", [("tool_choice.name", "x")], "tool_choice: 'x' is no tool"),
    (
        "a tool that is not strict",
        [("tools.1.parameters.additionalProperties", True)],
        "tools[1].parameters: a strict object has additionalProperties: false",
    ),
    (
        "strict without a schema",
        [("tools.1.parameters", None)],
        "tools[1].parameters: are missing, and the tool is strict",
    ),
    (
        "an image that is no base64",
        [("input.0.content.1.image_url", "data:image/png;base64,é!")],
        "input[0][1]: is no base64",
    ),
    (
        "options without stream",
        [("stream", GONE), ("stream_options", {"include_obfuscation": False})],
        "stream_options: stands without stream",
    ),
    ("too few tokens", [("max_output_tokens", 5)], "max_output_tokens: is at least 16"),
    (
        "the name of a schema",
        [("text.format.name", "a b")],
        "text.format.name: 'a b' is no name of a schema",
    ),
    (
        "a schema that is not strict",
        [("text.format.schema.additionalProperties", True)],
        "text.format.schema: a strict object has additionalProperties: false",
    ),
    (
        "half a character",
        [("input.8.content", "\ud83d")],
        "input[8].content: holds half a character",
    ),
)
def test_each_rule_of_a_response_is_broken_alone(edits: list[Edit], problem: str) -> None:
    """What is wrong is told once, with its place, and nothing else is."""
    assert problems_of_responses(edited(RESPONSES, *edits)) == problem.split("|")


@table(
    ("a tool that does not say", [("tools.0.strict", GONE)], "tools[0].strict: Field required"),
    (
        "a tool of a chat",
        [("tools.0", {"type": "function", "function": {"name": "add"}})],
        "tools[0].function: Extra inputs are not permitted",
    ),
    (
        "a part of a chat",
        [("input.8.content", [text("A")])],
        "input[8].content[0]: Input is of no kind that may stand here",
    ),
    (
        "arguments as an object",
        [("input.2.arguments", {})],
        "input[2].arguments: Input should be a valid string",
    ),
    ("reasoning without an id", [("input.1.id", GONE)], "input[1].id: Field required"),
    (
        "a format without a schema",
        [("text.format.schema", GONE)],
        "text.format.schema: Field required",
    ),
    (
        "an unknown item",
        [("input.+", {"type": "mood"})],
        "input[11].type: Input should be 'item_reference'",
    ),
    ("an unknown key", [("top_k", 3)], "top_k: Extra inputs are not permitted"),
)
def test_the_shape_is_the_one_of_the_sdk_for_responses(edits: list[Edit], problem: str) -> None:
    """Keys that are missing, unknown or of another type are told with their place."""
    assert problem in problems_of_responses(edited(RESPONSES, *edits))
