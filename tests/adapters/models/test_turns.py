"""Whatever a conversation holds, every provider accepts what is made of it."""

from collections.abc import Iterable
from typing import Any

import pytest

from loom_ia.adapters.models.turns import (
    AssistantTurn,
    File,
    Result,
    ResultsTurn,
    Text,
    Thought,
    Turn,
    UserTurn,
    turns_of,
)
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
from tests.adapters.models.law import faults

SPEC = ModelSpec(id="M", sdk="openai", model="model-1")
SEES = SPEC.model_copy(update={"capabilities": Capabilities(vision=True, documents=True)})


def turns(*messages: Message, spec: ModelSpec = SPEC, **more: Any) -> list[Turn]:
    """Give the turns of these messages, which follow the law."""
    made = turns_of(request_of(*messages, **more), spec, "chat")
    assert list(faults(made)) == []
    return made


def request_of(*messages: Message, **more: Any) -> ModelRequest:
    """Make a request of these messages."""
    return ModelRequest(model="M", system="", history=(), messages=messages, **more)


def user(*said: str | AnyBlock) -> Message:
    """Let the user say something."""
    return Message(role="user", blocks=blocks_of(said))


def spoke(*said: str | AnyBlock) -> Message:
    """Let the model say something."""
    return Message(role="assistant", blocks=blocks_of(said))


def blocks_of(said: Iterable[str | AnyBlock]) -> tuple[AnyBlock, ...]:
    """Make blocks of what is only text."""
    return tuple(TextBlock(text=each) if isinstance(each, str) else each for each in said)


def call(call_id: str = "c", name: str = "act") -> ToolCallBlock:
    """Write a call."""
    return ToolCallBlock(call_id=call_id, name=name, arguments={"a": 1})


def gave(**results: str | ToolOutput) -> Message:
    """Write results by the ids of their calls."""
    given = [
        ToolResultBlock(call_id=i, output=ToolOutput.of_text(o) if isinstance(o, str) else o)
        for i, o in results.items()
    ]
    return Message(role="tool", blocks=tuple(given))


def image(name: str = "x.png", kind: str = "image/png") -> ArtifactBlock:
    """Refer to a file."""
    return ArtifactBlock(uri="artifact://acme/s/x.png", media_type=kind, size=9, name=name)


# -- results --------------------------------------------------------------------------------------


def results(made: list[Turn]) -> list[tuple[str, str, bool]]:
    """Give the results: the id, the text, and whether the call failed."""
    return [
        (
            result.call_id,
            " ".join(part.text for part in result.parts if isinstance(part, Text)),
            result.is_error,
        )
        for turn in made
        if isinstance(turn, ResultsTurn)
        for result in turn.results
    ]


CANCELLED = "The run was cancelled before this call ended."


def test_results_come_in_the_order_of_the_calls() -> None:
    """Whatever the order in which the tools ended."""
    made = turns(user("go"), spoke(call("a"), call("b")), gave(b="2", a="1"))
    assert results(made) == [("a", "1", False), ("b", "2", False)]


@pytest.mark.parametrize(
    "after", [(), (gave(b="2"),), (user("well?"),), (spoke("hm"),), (gave(b="2"), gave(a="late"))]
)
def test_a_call_without_a_result_was_cancelled(after: tuple[Message, ...]) -> None:
    """It has the result that says so, marked as an error, where its own would stand."""
    made = turns(user("go"), spoke(call("a")), *after)
    assert results(made) == [("a", CANCELLED, True)]


def test_a_result_without_a_call_is_left_out() -> None:
    """Before any call, after another one, and a second time."""
    made = turns(gave(a="0"), user("go"), spoke(call("a")), gave(a="1", z="2"), gave(a="3"))
    assert results(made) == [("a", "1", False)]


def test_calls_that_bear_one_id_have_each_its_result() -> None:
    """In one answer and over the whole conversation, ids are made unique."""
    twice = Message(role="tool", blocks=(*gave(a="1").blocks, *gave(a="2").blocks))
    made = turns(user("go"), spoke(call("a"), call("a")), twice, spoke(call("a")), gave(a="3"))
    assert results(made) == [("a", "1", False), ("a_2", "2", False), ("a_3", "3", False)]


def test_a_result_of_nothing_says_so() -> None:
    """No block, and blank ones: there is always something to read."""
    blank = ToolOutput(blocks=(TextBlock(text=" "),))
    made = turns(user("go"), spoke(call("a"), call("b")), gave(a=ToolOutput(), b=blank))
    assert results(made) == [("a", "(no result)", False), ("b", "(no result)", False)]


def test_data_and_documents_are_read_as_text() -> None:
    """What a tool gave back for code is shown when it gave nothing else."""
    shown = ToolOutput(blocks=(JsonBlock(data={"é": [1]}),))
    made = turns(user("go"), spoke(call("a"), call("b")), gave(a=ToolOutput(data=[1]), b=shown))
    assert results(made) == [("a", "[1]", False), ("b", '{"é": [1]}', False)]


# -- ids and names --------------------------------------------------------------------------------


@pytest.mark.parametrize("odd", ["", "call 1", "é", "a" * 41, "functions.act:0", "\ud83d", "a\n"])
def test_an_odd_id_is_made_plain_and_stays_different(odd: str) -> None:
    """The call and its result agree, and two odd ids never become one."""
    other = odd + "?"
    both = Message(
        role="tool",
        blocks=tuple(
            ToolResultBlock(call_id=i, output=ToolOutput.of_text(t))
            for i, t in ((odd, "1"), (other, "2"))
        ),
    )
    made = turns(user("go"), spoke(call(odd), call(other)), both)
    assert [text for _, text, _ in results(made)] == ["1", "2"]


def test_a_plain_id_stays_as_it_is() -> None:
    """What a provider gave, up to forty characters, is what it reads again."""
    for plain in ("call_1", "toolu_01A-b", "a" * 40):
        assert results(turns(user("go"), spoke(call(plain))))[0][0] == plain


def test_many_calls_under_one_long_id_are_told_apart() -> None:
    """An id that is as long as it may be is shortened, never lengthened."""
    long = "a" * 40
    made = turns(user("go"), *(spoke(call(long)) for _ in range(120)))
    ids = [call_id for call_id, *_ in results(made)]
    assert ids[:2] == [long, "a" * 38 + "_2"]
    assert len(set(ids)) == 120


@pytest.mark.parametrize(
    ("name", "safe"),
    [("act", "act"), ("", "unknown"), ("a.b c", "a_b_c"), ("é", "_"), ("a" * 70, "a" * 64)],
)
def test_a_name_is_made_safe(name: str, safe: str) -> None:
    """A model may call a tool that cannot be."""
    made = turns(user("go"), spoke(call("a", name)))
    assert isinstance(made[1], AssistantTurn)
    assert [each.name for each in made[1].calls] == [safe]


# -- who speaks -----------------------------------------------------------------------------------


def said(made: list[Turn]) -> list[str]:
    """Give who speaks, and what is read of it."""
    found = []
    for turn in made:
        match turn:
            case UserTurn():
                texts = [part.text for part in turn.parts if isinstance(part, Text)]
                found.append("user: " + "|".join(texts))
            case AssistantTurn():
                found.append("assistant: " + turn.text.replace("\n\n", "|"))
            case ResultsTurn():
                found.append("results")
    return found


@pytest.mark.parametrize(
    ("messages", "turns_said"),
    [
        pytest.param((), ["user: (empty message)"], id="nothing"),
        pytest.param((user("a"), user("b", "c")), ["user: a|b|c"], id="the user twice"),
        pytest.param(
            (user("a"), spoke("b"), spoke("c"), user("d")),
            ["user: a", "assistant: b|c", "user: d"],
            id="the model twice",
        ),
        pytest.param(
            (spoke("a"),),
            ["user: (empty message)", "assistant: a", "user: Go on."],
            id="the model alone",
        ),
        pytest.param((user(" "),), ["user: (empty message)"], id="a blank"),
        pytest.param((user("a"), user(" ")), ["user: a"], id="a blank after a text"),
        pytest.param((user("a"), spoke(" ", "\n")), ["user: a"], id="a model that says nothing"),
        pytest.param(
            (user("a"), spoke(ReasoningBlock(text="hm", model="M", model_id="model-1"))),
            ["user: a"],
            id="a model that only thinks",
        ),
        pytest.param(
            (user("a"), spoke(call()), gave(c="1"), user("b")),
            ["user: a", "assistant: ", "results", "user: b"],
            id="the user after results",
        ),
    ],
)
def test_everybody_speaks_in_turn(messages: tuple[Message, ...], turns_said: list[str]) -> None:
    """What one says twice is joined, what is blank is left out, the user begins and ends."""
    assert said(turns(*messages)) == turns_said


def test_history_messages_and_notes_are_one_conversation() -> None:
    """A note of the engine closes it, and asks nothing."""
    request = ModelRequest(
        model="M",
        system="",
        history=(user("before"), spoke("yes")),
        messages=(user("now"), spoke(call()), gave(c="1")),
        notes=(user("conclude"),),
        language="fr",
    )
    made = turns_of(request, SPEC, "chat")
    assert said(made)[-1] == "user: conclude"
    assert [turn.asks for turn in made if isinstance(turn, UserTurn)] == [True, True, False]


def test_the_engine_speaks_the_language_of_the_agent() -> None:
    """What stands in the place of what is missing is for the model to read."""
    made = turns(spoke(call()), language="fr")
    assert results(made)[0][1] == "Le run a été annulé avant la fin de cet appel."


def test_nothing_that_is_sent_has_a_nul() -> None:
    """Many servers refuse the whole request for one; a thought goes back as it came."""
    asked = ToolCallBlock(call_id="c", name="act", arguments={"a\0": ["b\0", {"c": "\0"}, 1]})
    thought = ReasoningBlock(text="a\0", model="M", model_id="model-1")
    talk = (user("a\0b"), spoke(thought, "\0", asked), gave(c="x\0"))
    made = turns(*talk)
    assert list(faults(made)) == []
    assert "\\x00" not in repr(made).replace(repr(thought.text), "")
    (spoken,) = (turn for turn in made if isinstance(turn, AssistantTurn))
    assert spoken.calls[0].arguments == {"a\ufffd": ["b\ufffd", {"c": "\ufffd"}, 1]}


def test_half_a_character_is_mended() -> None:
    """A text that UTF-8 cannot hold can still be sent."""
    assert said(turns(user("a\ud83d"), spoke("b\udc00"))) == [
        "user: a\ufffd",
        "assistant: b\ufffd",
        "user: Go on.",
    ]


# -- thoughts -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("block", "is_given"),
    [
        pytest.param(ReasoningBlock(text="hm", model="M", model_id="model-1"), True, id="its own"),
        pytest.param(ReasoningBlock(text="hm", model_id="model-1"), True, id="nobody's"),
        pytest.param(
            ReasoningBlock(text="hm", model="N", model_id="model-1"), False, id="another entry"
        ),
        pytest.param(
            ReasoningBlock(text="hm", model="M", model_id="model-2"), False, id="another model"
        ),
        pytest.param(ReasoningBlock(text="", model="M", model_id="model-1"), False, id="nothing"),
        pytest.param(
            ReasoningBlock(
                text="",
                model="M",
                model_id="model-1",
                provider_meta={"chat": {"seal": "s"}, "other": {"seal": "t"}},
            ),
            True,
            id="a sealed one",
        ),
    ],
)
def test_a_thought_goes_to_the_model_that_had_it(block: ReasoningBlock, is_given: bool) -> None:
    """With what its API wants back, and nothing of another API."""
    made = turns(user("go"), spoke(block, "done"), user("and?"))
    assert isinstance(made[1], AssistantTurn)
    meta = block.provider_meta.get("chat", {})
    assert made[1].thoughts == ((Thought(block.text, meta),) if is_given else ())


# -- files ----------------------------------------------------------------------------------------


def test_the_files_of_results_follow_all_of_them() -> None:
    """Each under the id of its call; the result says that there is a file."""
    film = image("film", "video/mp4")
    outputs = {"a": ToolOutput(blocks=(image(), film)), "b": ToolOutput(blocks=(image("y.png"),))}
    made = turns(user("go"), spoke(call("a"), call("b")), gave(**outputs), spec=SEES)
    assert made[-1] == UserTurn(
        (
            Text("Files given by the call a:"),
            File(image()),
            Text("Files given by the call b:"),
            File(image("y.png")),
        ),
        asks=False,
    )
    mention = "(file film, video/mp4, 9 bytes: this model cannot read it)"
    assert results(made) == [
        ("a", f"x.png (image/png) {mention}", False),
        ("b", "y.png (image/png)", False),
    ]


def test_the_files_of_results_stay_where_the_model_takes_them() -> None:
    """`tool_result_media` leaves them in the result."""
    can = Capabilities(vision=True, tool_result_media=True)
    spec = SPEC.model_copy(update={"capabilities": can})
    output = ToolOutput(blocks=(image(),))
    made = turns(user("go"), spoke(call("a")), gave(a=output), spec=spec)
    assert made[-1] == ResultsTurn((Result("a", (File(image()),)),))


def test_a_file_of_the_model_is_named() -> None:
    """No provider takes a file of the assistant back."""
    made = turns(user("go"), spoke(image()), user("and?"), spec=SEES)
    mention = "(file x.png, image/png, 9 bytes: this model cannot read it)"
    assert said(made)[1] == f"assistant: {mention}"
