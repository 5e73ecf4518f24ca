"""Conversations that grew too long: what is kept, what stays together."""

from collections.abc import Callable

import pytest

from loom_ia.core.model.messages import Message
from loom_ia.graph.compaction import Compaction, whole
from loom_ia.graph.tool_loop import tool_loop
from loom_ia.tools import tool
from tests.graph.fake_context import FakeContext
from tests.graph.scripted import Desk, Model, asks, look, said, talk


async def test_tl10_a_long_conversation_is_compacted() -> None:
    """The model reads what the compactor kept; the prompt is not given to it, nor lost."""
    given: list[list[Message]] = []

    async def compact(messages: list[Message]) -> list[Message]:
        given.append(messages)
        return [messages[0], Message("user", "A summary.")]

    model = Model("ok")
    step = tool_loop(model, system="Be brief.", compaction=Compaction(100, compact))
    delta = await step({"messages": talk(50)}, FakeContext())
    assert given == [talk(50)]
    assert model.read[0] == [talk(1)[0], Message("user", "A summary.")]
    assert model.requests[0].system == "Be brief."
    assert said(delta) == (Message("assistant", "ok"),)


async def test_tl11_a_short_conversation_is_left_alone() -> None:
    """Under the limit nothing is asked."""
    step = tool_loop(Model("ok"), compaction=Compaction(1000, lambda messages: []))
    await step({"messages": talk(3)}, FakeContext())


async def test_w42_arguments_of_calls_count() -> None:
    """They are most of what a model writes."""
    calls: list[int] = []

    def compact(messages: list[Message]) -> list[Message]:
        calls.append(len(messages))
        return [Message("user", "short")]

    model = Model(asks(look("a", "x" * 4000)), "ok")

    @tool(name="look")
    async def quiet(topic: str) -> None:
        """Look."""

    await tool_loop(model, [quiet], compaction=Compaction(500, compact))({}, FakeContext())
    assert calls == [2]


@pytest.mark.parametrize(
    "compact",
    [
        lambda messages: messages,
        lambda messages: [],
        lambda messages: [*messages, *messages],
    ],
    ids=["same", "nothing", "more"],
)
async def test_w42_no_gain_is_no_further_attempt(
    compact: Callable[[list[Message]], list[Message]],
) -> None:
    """The conversation stays as it was, and nothing is archived."""
    attempts: list[int] = []
    archived: list[int] = []

    def counted(messages: list[Message]) -> list[Message]:
        attempts.append(len(messages))
        return compact(messages)

    policy = Compaction(10, counted, lambda messages: archived.append(len(messages)))
    model = Model(asks(look("a", "1")), asks(look("b", "2")), "ok")
    step = tool_loop(model, Desk().tools(), compaction=policy)
    await step({"messages": talk(4)}, FakeContext())
    assert (attempts, archived) == ([4], [])
    assert model.read[0] == talk(4)


async def test_w42_the_archive_gets_what_was_replaced() -> None:
    """What it raises is not hidden."""

    def archive(messages: list[Message]) -> None:
        raise OSError(f"disk full at {len(messages)}")

    policy = Compaction(10, lambda messages: messages[-1:], archive)
    with pytest.raises(OSError, match="disk full at 4"):
        await tool_loop(Model("ok"), compaction=policy)({"messages": talk(4)}, FakeContext())


CONVERSATION = [
    Message("user", "Hi"),
    Message("assistant", "", [look("a"), look("b")]),
    Message("tool", "A", (), "a"),
    Message("tool", "B", (), "b"),
    Message("assistant", "", [look("c")]),
    Message("tool", "C", (), "c"),
    Message("assistant", "Bye"),
]


@pytest.mark.parametrize("start", range(len(CONVERSATION) + 1))
@pytest.mark.parametrize("end", range(len(CONVERSATION) + 1))
def test_w42_a_call_and_its_result_are_never_parted(start: int, end: int) -> None:
    """Wherever a compactor cuts, each call stands right before its results."""
    found = whole(CONVERSATION, CONVERSATION[start:end])
    told = list(found)
    for message in CONVERSATION[start:end]:
        assert message in told
    while told:
        first = told.pop(0)
        assert first.role != "tool"
        for asked in first.calls:
            assert told.pop(0).tool_call_id == asked.call_id


def test_w42_what_a_compactor_rewrote_stays_so() -> None:
    """A result may be shortened; one that answers nothing is left out."""
    kept = [Message("tool", "short", (), "a"), Message("tool", "?", (), "unknown")]
    found = whole(CONVERSATION, kept)
    assert [message.text for message in found] == ["", "short", "B"]


def test_w42_a_call_without_a_result_anywhere_is_left_out() -> None:
    """No provider takes a conversation that has one."""
    kept = [Message("assistant", "Well.", [look("new")]), Message("assistant", "", [look("z")])]
    assert list(whole(CONVERSATION, kept)) == [Message("assistant", "Well.")]


def test_w42_ids_that_repeat_do_not_mix_turns_up() -> None:
    """Authors write conversations whose turns have the same ids."""
    turns = [
        Message("assistant", "one", [look("1")]),
        Message("tool", "first", (), "1"),
        Message("assistant", "two", [look("1")]),
        Message("tool", "second", (), "1"),
    ]
    assert list(whole(turns, turns)) == turns
    assert list(whole(turns, [turns[1], turns[2]])) == turns
