"""What Anthropic would refuse: a whole conversation keeps every rule, and each is broken alone."""

from typing import Any

import pytest

from tests.providers.edits import BARE, GONE, OBJECT, PIXEL, Edit, edited, table, text
from tests.providers.rules import problems_of_messages

SHORT = {"type": "ephemeral"}
LONG = {"type": "ephemeral", "ttl": "1h"}
MESSAGES: dict[str, Any] = {
    "model": "claude",
    "max_tokens": 4096,
    "stream": True,
    "system": [text("Sois bref.", cache_control=LONG)],
    "thinking": {"type": "enabled", "budget_tokens": 2048},
    "tools": [
        {"name": "add", "description": "Adds.", "input_schema": OBJECT},
        {"name": "now", "input_schema": {"type": "object"}, "cache_control": LONG},
    ],
    "tool_choice": {"type": "auto"},
    "messages": [
        {
            "role": "user",
            "content": [
                text("Bonjour 😀"),
                {
                    "type": "image",
                    "source": {"type": "base64", "media_type": "image/png", "data": PIXEL},
                },
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hum.", "signature": "s"},
                {"type": "redacted_thinking", "data": "d"},
                text("Je calcule.\n"),
                {"type": "tool_use", "id": "toolu_a", "name": "add", "input": {"a": 1}},
                {"type": "tool_use", "id": "toolu_b", "name": "now", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_a", "content": "3"},
                {"type": "tool_result", "tool_use_id": "toolu_b", "content": [text("midi")]},
                text("Alors ?", cache_control=SHORT),
            ],
        },
        {"role": "assistant", "content": "Il est midi, et cela fait 3. "},
        {"role": "user", "content": [text("Merci.", cache_control=SHORT)]},
    ],
}
# The turn is not over: its tools have just run.
RUNNING = edited(
    MESSAGES,
    ("messages.4", GONE),
    ("messages.3", GONE),
    ("messages.2.content.2", GONE),
)


@pytest.mark.parametrize("body", [MESSAGES, RUNNING, BARE], ids=["whole", "running", "bare"])
def test_a_message_that_anthropic_takes_has_no_problem(body: dict[str, Any]) -> None:
    """A conversation with tools, images, thoughts and marks keeps every rule."""
    assert problems_of_messages(body) == []


@table(
    ("no message", [("messages", [])], "messages: there is none"),
    (
        "the assistant first",
        [("messages", [{"role": "assistant", "content": "A"}, {"role": "user", "content": "B"}])],
        "messages[0]: the first message is the user's",
    ),
    (
        "the same role twice",
        [("messages.+", {"role": "user", "content": "B"})],
        "messages[5]: two messages of the user follow each other",
    ),
    (
        "a system message",
        [("messages.+", {"role": "system", "content": "B"})],
        "messages[5]: only some models take the role 'system' here",
    ),
    (
        "the assistant last",
        [("messages.+", {"role": "assistant", "content": "B"})],
        "messages: the last message is the assistant's",
    ),
    ("empty text", [("messages.3.content", "")], "messages[3].content: is empty"),
    ("blank text", [("messages.3.content", " \n")], "messages[3].content: is empty"),
    ("no block", [("messages.4.content", [])], "messages[4].content: is empty"),
    (
        "empty block",
        [("messages.4.content.+", text(""))],
        "messages[4].content[1]: the text is empty",
    ),
    (
        "blank block",
        [("messages.4.content.+", text(" \n"))],
        "messages[4].content[1]: the text is empty",
    ),
    (
        "empty block in a result",
        [("messages.2.content.1.content.+", text(""))],
        "messages[2].content[1].content[1]: the text is empty",
    ),
    ("empty system", [("system", "")], "system: is empty; leave it out"),
    ("no block in the system", [("system", [])], "system: is empty; leave it out"),
    ("blank system", [("system", "\n")], "system: is empty; leave it out"),
    ("empty block in the system", [("system.+", text(""))], "system[1]: the text is empty"),
    (
        "no result",
        [("messages.2.content.1", GONE)],
        "messages[2]: the result of toolu_b is missing",
    ),
    (
        "a result without its call",
        [("messages.1.content.4", GONE)],
        "messages[2]: no call before has the id toolu_b",
    ),
    (
        "two results of a call",
        [
            (
                "messages.2.content.1",
                {"type": "tool_result", "tool_use_id": "toolu_b", "content": "x"},
            ),
            (
                "messages.2.content.2",
                {"type": "tool_result", "tool_use_id": "toolu_b", "content": "y"},
            ),
        ],
        "messages[2]: toolu_b has two results",
    ),
    (
        "a text before the results",
        [("messages.2.content.0", text("Voici.")), ("messages.1.content.3", GONE)],
        "messages[2]: the results come first",
    ),
    (
        "empty result",
        [("messages.2.content.0.content", "")],
        "messages[2].content[0]: the result is empty",
    ),
    (
        "no block in a result",
        [("messages.2.content.0.content", [])],
        "messages[2].content[0]: the result is empty",
    ),
    (
        "result without content",
        [("messages.2.content.0.content", GONE)],
        "messages[2].content[0]: the result is empty",
    ),
    (
        "a call that is not answered at all",
        [
            (
                "messages.3.content",
                [{"type": "tool_use", "id": "toolu_c", "name": "now", "input": {}}],
            )
        ],
        "messages[4]: the result of toolu_c is missing",
    ),
    (
        "the user calls",
        [
            ("messages.+", {"role": "assistant", "content": "A"}),
            (
                "messages.+",
                {
                    "role": "user",
                    "content": [{"type": "tool_use", "id": "toolu_c", "name": "now", "input": {}}],
                },
            ),
            (
                "messages.+",
                {
                    "role": "assistant",
                    "content": [{"type": "tool_result", "tool_use_id": "toolu_c", "content": "x"}],
                },
            ),
            ("messages.+", {"role": "user", "content": "B"}),
        ],
        "messages[6]: the user asks for a call|messages[7]: the assistant gives a result",
    ),
    (
        "an id twice",
        [
            (
                "messages.3.content",
                [{"type": "tool_use", "id": "toolu_a", "name": "now", "input": {}}],
            ),
            (
                "messages.4.content",
                [{"type": "tool_result", "tool_use_id": "toolu_a", "content": "x"}],
            ),
        ],
        "messages: two calls have the id toolu_a",
    ),
    (
        "an id with a point",
        [("messages.1.content.3.id", "a.b"), ("messages.2.content.0.tool_use_id", "a.b")],
        "messages[1].content[3]: 'a.b' is no id of a call",
    ),
    (
        "a name with a point",
        [("tools.0.name", "a.b")],
        "tools[0]: 'a.b' is no name of a tool",
    ),
    (
        "a name of 65 characters",
        [("tools.0.name", "a" * 65)],
        f"tools[0]: {'a' * 65!r} is no name of a tool",
    ),
    (
        "a name with a point in a call",
        [("messages.1.content.3.name", "a.b")],
        "messages[1].content[3]: 'a.b' is no name of a tool",
    ),
    ("a name twice", [("tools.0.name", "now")], "tools: 'now' is declared twice"),
    (
        "arguments that are no object",
        [("tools.0.input_schema", {"type": "string"})],
        "tools[0].input_schema: the arguments of a tool are an object",
    ),
    (
        "calls without tools",
        [("tools", GONE), ("tool_choice", GONE)],
        "tools: are missing, and the messages use some",
    ),
    (
        "a choice of an unknown tool",
        [("tool_choice", {"type": "tool", "name": "x"}), ("thinking", {"type": "disabled"})],
        "tool_choice: 'x' is no tool",
    ),
    (
        "a forced choice of who thinks",
        [("tool_choice", {"type": "any"})],
        "tool_choice: a model that thinks cannot be forced to call",
    ),
    (
        "a forced choice of who may think",
        [("tool_choice", {"type": "tool", "name": "add"}), ("thinking", {"type": "adaptive"})],
        "tool_choice: a model that thinks cannot be forced to call",
    ),
    (
        "a text before the thoughts",
        [("messages.1.content.0", text("A"))],
        "messages[1]: the thoughts come first",
    ),
    (
        "a thought last",
        [("messages.3.content", [{"type": "thinking", "thinking": "A", "signature": "s"}])],
        "messages[3]: a thought comes last",
    ),
    (
        "a thought of the user",
        [
            (
                "messages.4.content",
                [{"type": "thinking", "thinking": "A", "signature": "s"}, text("B")],
            )
        ],
        "messages[4]: only the assistant thinks",
    ),
    (
        "a thought without a signature",
        [("messages.1.content.0.signature", "")],
        "messages[1].content[0]: the thought has no signature",
    ),
    (
        "a hidden thought without data",
        [("messages.1.content.1.data", "")],
        "messages[1].content[1]: the hidden thought has no data",
    ),
    ("no token", [("max_tokens", 0), ("thinking", GONE)], "max_tokens: is at least 1"),
    (
        "as many tokens as thoughts",
        [("max_tokens", 2048)],
        "max_tokens: is greater than the budget of the thoughts",
    ),
    (
        "too small a budget",
        [("thinking.budget_tokens", 1000)],
        "thinking.budget_tokens: is at least 1024",
    ),
    (
        "five marks",
        [("messages.0.content.1.cache_control", LONG)],
        "cache_control: 5 marks, and 4 are allowed",
    ),
    (
        "a long mark after a short one",
        [("messages.4.content.0.cache_control", LONG)],
        "messages[4].content[0].cache_control: a mark of 1h comes after one of 5m",
    ),
    (
        "an image that is no base64",
        [("messages.0.content.1.source.data", "é!")],
        "messages[0].content[1].source.data: is no base64",
    ),
    (
        "an empty image",
        [("messages.0.content.1.source.data", "")],
        "messages[0].content[1].source.data: is empty",
    ),
    (
        "half a character",
        [("messages.3.content", "A \ud83d")],
        "messages[3].content: holds half a character",
    ),
    (
        "half a character in a key",
        [("messages.1.content.3.input", {"\ud83d": 1})],
        "messages[1].content[3].input.(a key): holds half a character",
    ),
)
def test_each_rule_of_anthropic_is_broken_alone(edits: list[Edit], problem: str) -> None:
    """What is wrong is told once, with its place, and nothing else is."""
    assert problems_of_messages(edited(MESSAGES, *edits)) == problem.split("|")


@table(
    ("no max_tokens", [("max_tokens", GONE), ("thinking", GONE)], "max_tokens: Field required"),
    (
        "an unknown key",
        [("temperature", 0.5)],
        "temperature: Extra inputs are not permitted",
    ),
    (
        "an unknown key inside",
        [("messages.4.content.0.mood", 1)],
        "messages[4].content[0].mood: Extra inputs are not permitted",
    ),
    (
        "a mark on a thought",
        [("messages.1.content.0.cache_control", SHORT), ("system", GONE)],
        "messages[1].content[0].cache_control: Extra inputs are not permitted",
    ),
    (
        "arguments as a text",
        [("messages.1.content.3.input", "{}")],
        "messages[1].content[3].input: Input should be a valid dictionary",
    ),
    (
        "an image of another type",
        [("messages.0.content.1.source.media_type", "image/bmp")],
        (
            "messages[0].content[1].source.media_type: Input should be 'image/jpeg', 'image/png',"
            " 'image/gif' or 'image/webp'"
        ),
    ),
    (
        "a thought without the key of its signature",
        [("messages.1.content.0.signature", GONE)],
        "messages[1].content[0].signature: Field required",
    ),
    (
        "an unknown block",
        [("messages.4.content.+", {"type": "mood"})],
        "messages[4].content[1]: Input is of no kind that may stand here",
    ),
    (
        "a number as a text",
        [("messages.4.content.0.text", 3)],
        "messages[4].content[0].text: Input should be a valid string",
    ),
)
def test_the_shape_is_the_one_of_the_sdk_of_anthropic(edits: list[Edit], problem: str) -> None:
    """Keys that are missing, unknown or of another type are told with their place."""
    assert problem in problems_of_messages(edited(MESSAGES, *edits))


@table(
    (
        "no thought",
        [("messages.1.content.1", GONE), ("messages.1.content.0", GONE)],
        "messages[1]: the turn whose tools run begins with a thought",
    ),
    (
        "no thought at the beginning of a longer turn",
        [
            ("messages.1.content", [{"type": "tool_use", "id": "x", "name": "now", "input": {}}]),
            ("messages.2.content", [{"type": "tool_result", "tool_use_id": "x", "content": "1"}]),
            (
                "messages.+",
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "A", "signature": "s"},
                        {"type": "tool_use", "id": "y", "name": "now", "input": {}},
                    ],
                },
            ),
            (
                "messages.+",
                {
                    "role": "user",
                    "content": [{"type": "tool_result", "tool_use_id": "y", "content": "1"}],
                },
            ),
        ],
        "messages[1]: the turn whose tools run begins with a thought",
    ),
)
def test_a_turn_whose_tools_run_begins_with_a_thought(edits: list[Edit], problem: str) -> None:
    """It is so of a model that thinks on a budget, and of no other."""
    body = edited(RUNNING, *edits)
    assert problems_of_messages(body) == [problem]
    assert problems_of_messages({**body, "thinking": {"type": "adaptive"}}) == []
    assert problems_of_messages({**body, "thinking": {"type": "disabled"}}) == []


def test_the_answer_may_be_begun_for_a_model_that_allows_it() -> None:
    """With `prefill` the last message is the assistant's, and its text ends with a word."""
    begun = edited(MESSAGES, ("messages.+", {"role": "assistant", "content": "Voici :"}))
    assert problems_of_messages(begun, prefill=True) == []
    spaced = edited(begun, ("messages.5.content", "Voici : "))
    assert problems_of_messages(BARE, prefill=True) == []
    assert problems_of_messages(spaced, prefill=True) == [
        "messages: the last text of the assistant ends with whitespace"
    ]


def test_a_call_that_comes_last_has_no_result() -> None:
    """Even where the answer may be begun, a call is no beginning of it."""
    call = {"type": "tool_use", "id": "x", "name": "now", "input": {}}
    body = edited(MESSAGES, ("messages.+", {"role": "assistant", "content": [call]}))
    assert problems_of_messages(body, prefill=True) == ["messages: the result of x is missing"]


def test_a_choice_without_tools_is_told() -> None:
    """Nothing can be chosen where there is nothing."""
    assert problems_of_messages({**BARE, "tool_choice": {"type": "auto"}}) == [
        "tool_choice: stands without tools"
    ]
