"""Messages in their short form, which the long one and the journal know nothing of."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import TypeAdapter

from loom_ia.core.model import (
    ArtifactBlock,
    Message,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolOutput,
    ToolResultBlock,
)

CALL = ToolCallBlock(call_id="c1", name="add", arguments={"a": 1})


@dataclass(frozen=True)
class Call:
    """A call of the graph library, or of anybody."""

    id: str | None = "c1"
    name: str = "add"
    arguments: Any = field(default_factory=lambda: {"a": 1})


@pytest.mark.parametrize("role", ["user", "assistant"])
def test_a_text_is_written_in_two_words(role: Any) -> None:
    """By place or by name, and without a text it is an empty one."""
    long = Message(role=role, blocks=(TextBlock(text="hi"),))
    assert Message(role, "hi") == Message(role=role, text="hi") == Message.text(role, "hi") == long
    assert Message(role) == Message(role=role, blocks=(TextBlock(text=""),))


@pytest.mark.parametrize(
    "call",
    [
        CALL,
        Call(),
        {"id": "c1", "name": "add", "arguments": {"a": 1}},
        {"call_id": "c1", "name": "add", "arguments": {"a": 1}},
    ],
)
def test_a_call_may_be_described_by_anybody(call: Any) -> None:
    """By a block, an object or a mapping; what is said stands before it, when there is any."""
    assert Message("assistant", "", [call]) == Message(role="assistant", blocks=(CALL,))
    said = (TextBlock(text="hm"), CALL)
    assert Message("assistant", "hm", tool_calls=(call,)) == Message(role="assistant", blocks=said)


@pytest.mark.parametrize("is_error", [True, False])
def test_a_tool_says_the_result_of_a_call(is_error: bool) -> None:
    """With its id, and whether it is an error; an empty one is a result too."""
    output = ToolOutput.of_text("42", is_error=is_error)
    long = Message(role="tool", blocks=(ToolResultBlock(call_id="c1", output=output),))
    assert Message("tool", "42", tool_call_id="c1", is_error=is_error) == long
    assert Message("tool", "42", (), "c1", is_error) == long
    assert Message("tool", tool_call_id="c1").results[0].output == ToolOutput()


def test_the_short_form_is_read_back() -> None:
    """By the names that it is written with."""
    said = Message("assistant", "hm", [Call()])
    assert (said.text, said.tool_calls, said.tool_call_id, said.is_error) == (
        *("hm", (CALL,)),
        *(None, False),
    )
    gave = Message("tool", "42", tool_call_id="c1", is_error=True)
    assert (gave.text, gave.tool_calls, gave.tool_call_id, gave.is_error) == ("42", (), "c1", True)
    again = Message("assistant", said.text, said.tool_calls)
    assert again == said


def test_a_text_is_what_a_person_reads() -> None:
    """Thoughts are left out, and a file is named."""
    file = ArtifactBlock(uri="artifact://t/s/0.png", media_type="image/png", size=1, name="a.png")
    blocks = (ReasoningBlock(text="so"), TextBlock(text="see "), file)
    assert Message(role="assistant", blocks=blocks).text == "see a.png"
    blocks = (TextBlock(text="see"), file, file, TextBlock(text="and"), TextBlock(text=" tell"))
    assert Message(role="user", blocks=blocks).text == "see\na.png\na.png\nand tell"


@pytest.mark.parametrize(
    "message",
    [
        Message("user", "é\n"),
        Message("assistant", "hm", [Call(arguments={"a": [1, {"b": None}]})]),
        Message("tool", "no", tool_call_id="c1", is_error=True),
    ],
)
def test_json_gives_the_same_message(message: Message) -> None:
    """The written form is the one of the journal, and the short names are not in it."""
    written = message.model_dump_json()
    assert Message.model_validate_json(written) == message
    assert set(message.model_dump()) == {"role", "blocks"}
    assert TypeAdapter(list[Message]).validate_json(f"[{written}]") == [message]


@pytest.mark.parametrize(
    ("args", "fields", "says"),
    [
        (("system", "x"), {}, "role"),
        (("user", 3), {}, "text"),
        (("user", "x", [Call()]), {}, "tool_call cannot stand in a user message"),
        (("tool", "x"), {}, "needs the id of its call"),
        (("tool", "x", [Call()], "c1"), {}, "tool_call cannot stand in a tool message"),
        (("user", "x"), {"tool_call_id": "c1"}, "are of the result of a call"),
        (("assistant", "x"), {"is_error": True}, "are of the result of a call"),
        (("assistant", "x", [Call(id=None)]), {}, "needs an id and a name"),
        (("assistant", "x", [{"id": "c1"}]), {}, "needs an id and a name"),
        (("assistant", "x", ["add"]), {}, "needs an id and a name"),
        (("assistant", "x", [Call(arguments="{}")]), {}, "not an object"),
    ],
)
def test_nonsense_is_refused(args: tuple[Any, ...], fields: dict[str, Any], says: str) -> None:
    """With what is wrong, as a ValueError."""
    with pytest.raises(ValueError, match=says):
        Message(*args, **fields)


@pytest.mark.parametrize(
    ("args", "fields"),
    [
        ((), {}),
        (("user", "x"), {"blocks": ()}),
        (("user", "x"), {"content": "y"}),
        (("user", "x", (), None, False, 1), {}),
    ],
)
def test_what_no_form_has_is_refused(args: tuple[Any, ...], fields: dict[str, Any]) -> None:
    """As Python does: by the name of the argument."""
    with pytest.raises(TypeError, match="argument"):
        Message(*args, **fields)


def test_what_is_read_and_what_is_trusted_makes_no_detour(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a call of the class looks for the short form."""

    def refuse(*_: object) -> None:
        raise AssertionError("the short form was looked for")

    text = Message("user", "x")
    with monkeypatch.context() as patched:
        patched.setattr(Message, "long_form", refuse)
        assert Message.model_validate(text.model_dump()) == text
        assert Message.trusted(role="user", blocks=text.blocks) == text
        assert text.model_copy() == text
