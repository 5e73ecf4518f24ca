"""How large a request is, counted once."""

import gc
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loom_ia.core.model import (
    ArtifactBlock,
    Message,
    ModelRequest,
    TextBlock,
    ToolOutput,
    ToolResultBlock,
    ToolSpec,
)
from loom_ia.core.model import sizes as module
from loom_ia.core.model.sizes import CHARACTERS_PER_TOKEN, TOKENS_PER_IMAGE, Sizes

ADD = ToolSpec(name="add", description="Add.", input_schema={"type": "object"})


def request(*messages: Message, **more: Any) -> ModelRequest:
    """Make a request of these messages."""
    parts: dict[str, Any] = {"system": "", "history": (), **more}
    return ModelRequest(model="M", messages=messages, **parts)


def said(text: str) -> Message:
    """Let the user say something."""
    return Message.text("user", text)


def image(kind: str = "image/png") -> ArtifactBlock:
    """Refer to a file."""
    return ArtifactBlock(uri="artifact://acme/s/x", media_type=kind, size=9)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The messages and tools whose size was really worked out."""
    found: list[object] = []

    def watch(name: str) -> None:
        count = getattr(module, name)

        def watched(part: object) -> int:
            found.append(part)
            return count(part)

        monkeypatch.setattr(module, name, watched)

    watch("_message")
    watch("_tool")
    return found


def test_a_message_is_as_long_as_its_json() -> None:
    """In characters, an accent being one."""
    message = said("é" * 100)
    assert Sizes().of(message) == len(message.model_dump_json())
    assert Sizes().of(message) - Sizes().of(said("e")) == 99


def test_a_tool_is_as_long_as_what_is_shown_of_it() -> None:
    """Its name, its description and its schema."""
    assert Sizes().of(ADD) == len("add") + len("Add.") + len('{"type":"object"}')


@pytest.mark.parametrize("characters", range(4001, 4009))
def test_four_characters_are_a_token(characters: int) -> None:
    """Of everything that is sent, rounded down."""
    message = said("")
    rest = Sizes().of(message) + Sizes().of(ADD)
    asked = request(message, system="s" * (characters - rest), tools=(ADD,))
    assert Sizes().prompt_tokens(asked) == characters // CHARACTERS_PER_TOKEN == characters // 4


def test_an_image_counts_for_what_it_is_once_shown() -> None:
    """In what the user says and in the result of a tool; other files are only named."""
    sizes = Sizes()
    block = ToolResultBlock(call_id="c", output=ToolOutput(blocks=(image(), image("image/webp"))))
    shown = [
        (Message(role="user", blocks=(image(),)), 1),
        (Message(role="user", blocks=(image(), TextBlock(text="x"), image("image/jpeg"))), 2),
        (Message(role="tool", blocks=(block,)), 2),
        (Message(role="user", blocks=(image("application/pdf"),)), 0),
        (said('"media_type":"image/png"'), 0),
    ]
    for message, count in shown:
        tokens = sizes.prompt_tokens(request(message))
        plain = len(message.model_dump_json()) // CHARACTERS_PER_TOKEN
        assert tokens == plain + count * TOKENS_PER_IMAGE


def test_each_part_of_a_request_counts() -> None:
    """What was said before, what is said now, what is only noted, the tools, the system."""
    one = said("x" * 400)
    sizes, alone = Sizes(), Sizes().of(one)
    whole = request(one, one, history=(one,), notes=(one,), system="s" * 40, tools=(ADD,))
    assert sizes.prompt_tokens(whole) == (4 * alone + 40 + Sizes().of(ADD)) // 4


def test_a_part_is_counted_once(counted: list[object]) -> None:
    """However often it is sent, and wherever it stands."""
    sizes, messages = Sizes(), [said(str(number)) for number in range(50)]
    for end in range(1, 51):
        sizes.prompt_tokens(request(*messages[:end], tools=(ADD,)))
    assert counted == [messages[0], ADD, *messages[1:]]
    sizes.prompt_tokens(request(said("new"), history=tuple(messages), tools=(ADD,)))
    assert len(counted) == 52


def test_a_note_is_counted_each_time_it_is_new(counted: list[object]) -> None:
    """It belongs to one call."""
    sizes, message = Sizes(), said("x" * 40)
    first = sizes.prompt_tokens(request(message))
    noted = request(message, notes=(said("n" * 40),))
    assert sizes.prompt_tokens(noted) > first
    assert sizes.prompt_tokens(request(message)) == first
    assert len(counted) == 2


def test_what_is_gone_is_forgotten() -> None:
    """A size is remembered as long as its message, and an address that serves again misleads."""
    sizes = Sizes()
    for number in range(200):
        message = said("x" * number)
        assert sizes.of(message) == len(message.model_dump_json())
        del message
    gc.collect()
    assert sizes._known == {}


_TEXTS = st.lists(st.integers(1, 200).map(lambda size: said("x" * size)), max_size=6).map(tuple)
_ACTS = st.lists(st.tuples(st.sampled_from(["grow", "cut", "change", "swap"]), _TEXTS), max_size=8)


@given(_TEXTS, _ACTS)
def test_what_is_remembered_never_differs_from_a_new_count(
    messages: tuple[Message, ...], acts: list[tuple[str, tuple[Message, ...]]]
) -> None:
    """A conversation that grows, is cut, ends in another way, is another one altogether."""
    sizes, history = Sizes(), ()
    for act, others in acts:
        match act:
            case "grow":
                messages = (*messages, *others)
            case "cut":
                messages = messages[: len(messages) // 2]
            case "change":
                messages = (*messages[:-1], *others)
            case _:
                history, messages = messages, others
        asked = request(*messages, history=history)
        assert sizes.prompt_tokens(asked) == Sizes().prompt_tokens(replace(asked))
