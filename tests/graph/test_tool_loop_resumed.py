"""A tool loop that crashed, failed or waits for a human: where it goes on."""

from typing import Any

import pytest

from loom_ia.core.errors import ToolError
from loom_ia.core.model.messages import Message
from loom_ia.core.model.usage import Usage
from loom_ia.graph.compaction import Compaction
from loom_ia.graph.errors import (
    BudgetExhausted,
)
from loom_ia.graph.permissions import permissions
from loom_ia.graph.tool_loop import tool_loop
from loom_ia.graph.tool_step import tool_step
from loom_ia.graph.tools import ToolCall, ToolHook, ToolResult
from loom_ia.tools import tool
from tests.graph.fake_context import FakeContext, Journal, run_to_end
from tests.graph.scripted import Desk, Model, asks, look, pause, said, send


async def test_w04_a_loop_goes_on_inside() -> None:
    """A letter was sent, then the model was out of reach: neither is done again."""
    desk, journal = Desk(), Journal()
    model = Model(asks(send()), ConnectionError("503"), "Done")
    step = tool_loop(model, desk.tools(approval=False))
    with pytest.raises(ConnectionError):
        await step({}, FakeContext(journal))
    delta = await step({}, FakeContext(journal))
    assert delta["output"] == "Done"
    assert desk.sent == ["Ada"]
    assert len(model.requests) == 3
    assert journal.declared["tool:1:s1"] == ("irreversible", False)


async def test_a_tool_gets_the_key_of_its_effect() -> None:
    """The same whenever the call is launched again."""
    desk = Desk()
    await tool_loop(Model(asks(send()), "ok"), desk.tools(approval=False))({}, FakeContext())
    assert desk.keys == ["run-1:chat:1:tool:1:s1"]


def scenario(desk: Desk, log: list[str]) -> tuple[Any, Model]:
    """Make a loop that has some of everything, and its model."""

    def pre(call: ToolCall) -> ToolCall | None:
        log.append(f"pre {call.id}")
        if call.arguments.get("topic") == "secret":
            raise PermissionError("no")
        return None

    def post(call: ToolCall, result: ToolResult) -> None:
        log.append(f"post {call.id}")

    def compact(messages: list[Message]) -> list[Message]:
        log.append("compact")
        return messages[-1:]

    def archive(messages: list[Message]) -> None:
        log.append("archive")

    model = Model(
        asks(look(None, "a"), look(None, "b"), send("s1"), look("secret", "secret")),
        asks(send("s2", "Bob"), look("c", "c" * 400), ToolCall("n", "nope", {})),
        "Done",
    )
    step = tool_loop(
        model,
        desk.tools(approval=False),
        hooks=[ToolHook(pre=pre, post=post)],
        compaction=Compaction(200, compact, archive),
    )
    return step, model


async def test_w04_a_crash_anywhere_changes_nothing() -> None:
    """After each recorded effect in turn: the same delta, and everything done once."""
    state = {"messages": [Message("user", "Hi" * 40)]}
    desk, log, journal = Desk(), list[str](), Journal()
    step, model = scenario(desk, log)
    expected = await run_to_end(step, state, journal)
    assert "archive" in log
    assert len(journal.results) > 10
    for crash_after in range(1, len(journal.results) + 1):
        again, new_log, new = Desk(), list[str](), Journal(crash_after=crash_after)
        step, new_model = scenario(again, new_log)
        assert await run_to_end(step, state, new) == expected
        assert (sorted(again.looked), again.sent) == (sorted(desk.looked), desk.sent)
        assert sorted(new_log) == sorted(log)
        assert len(new_model.requests) == len(model.requests)
        assert new.order == journal.order


# A human


async def test_lp01_a_call_that_needs_a_human_is_a_question() -> None:
    """The others of its batch are made first, wherever they stand, and it is not."""
    desk, journal = Desk(), Journal()
    model = Model(asks(send("s1"), look("a"), send("s2", "Bob")), "Done")
    await pause(tool_loop(model, desk.tools()), journal)
    assert journal.questions == {
        "s1": {"tool": "send", "arguments": {"to": "Ada"}},
        "s2": {"tool": "send", "arguments": {"to": "Bob"}},
    }
    assert (desk.looked, desk.sent) == (["loom"], [])
    assert len(model.requests) == 1


async def test_lp03_approved_calls_are_made_once() -> None:
    """The model is not asked again for the same turn, and each call has its one result."""
    desk, journal = Desk(), Journal()
    model = Model(asks(send("s1"), look("a"), send("s2", "Bob")), "Done")
    step = tool_loop(model, desk.tools())
    await pause(step, journal)
    journal.answers["s1"] = {"approved": True}
    await pause(step, journal)
    assert desk.sent == []
    journal.answers["s2"] = {"approved": True}
    delta = await step({}, FakeContext(journal))
    assert desk.sent == ["Ada", "Bob"]
    assert desk.looked == ["loom"]
    assert len(model.requests) == 2
    results = [m for m in model.read[1] if m.role == "tool"]
    assert [(m.tool_call_id, m.text) for m in results] == [
        ("s1", "sent to Ada"),
        ("a", "about loom"),
        ("s2", "sent to Bob"),
    ]
    assert delta["output"] == "Done"


async def test_lp04_a_refusal_is_an_error_with_the_reason() -> None:
    """The model reads it and closes; the tool is not called."""
    desk, journal = Desk(), Journal(answers={"s1": {"approved": False, "reason": "too early"}})
    model = Model(asks(send("s1")), "Understood")
    delta = await tool_loop(model, desk.tools())({}, FakeContext(journal))
    result = said(delta)[1]
    assert result.is_error
    assert "too early" in result.text
    assert desk.sent == []
    assert delta["output"] == "Understood"


async def test_a_human_may_change_the_arguments() -> None:
    """The tool gets his, the conversation has them, and the model is told."""
    answer = {"approved": True, "arguments": {"to": "Grace"}}
    desk, journal = Desk(), Journal(answers={"s1": answer})
    model = Model(asks(send("s1")), "Done")
    delta = await tool_loop(model, desk.tools())({}, FakeContext(journal))
    assert desk.sent == ["Grace"]
    assert said(delta)[0].calls[0].arguments == {"to": "Grace"}
    assert [m.role for m in said(delta)] == ["assistant", "tool", "assistant"]
    assert "to" in model.read[1][-1].text


@pytest.mark.parametrize("arguments", [{"to": 3}, {"to": "Mallory"}])
async def test_changed_arguments_are_judged_again(arguments: dict[str, Any]) -> None:
    """A human cannot allow what the rules deny, nor what the tool does not take."""
    answer = {"approved": True, "arguments": arguments}
    desk, journal = Desk(), Journal(answers={"s1": answer})
    tools = permissions(desk.tools(), deny=["send(Mallory)"])
    delta = await tool_loop(Model(asks(send("s1")), "Done"), tools)({}, FakeContext(journal))
    assert desk.sent == []
    assert said(delta)[1].is_error


async def test_w92_what_permissions_ask_is_a_question() -> None:
    """Of a tool that declares nothing itself."""
    journal = Journal()
    tools = permissions(Desk().tools(), ask=["look"])
    await pause(tool_loop(Model(asks(look("a"))), tools), journal)
    assert journal.questions == {"a": {"tool": "look", "arguments": {"topic": "loom"}}}


async def test_a_question_shows_the_call_that_would_be_made() -> None:
    """After the hooks, and not for a call that cannot run."""
    journal = Journal()
    hook = ToolHook("send", pre=lambda c: ToolCall(c.id, c.name, {**c.arguments, "to": "Eve"}))
    calls = asks(send("s1"), ToolCall("s2", "send", {"too": 1}))

    def unknown(call: ToolCall) -> ToolCall:
        return ToolCall(call.id, call.name, {"nobody": 1}) if call.id == "s2" else call

    step = tool_loop(Model(calls), Desk().tools(), hooks=[hook, ToolHook(pre=unknown)])
    await pause(step, journal)
    assert journal.questions == {"s1": {"tool": "send", "arguments": {"to": "Eve"}}}


async def test_a_check_is_not_asked_again_after_a_question() -> None:
    """What was approved is made, whatever a validator would say of it now."""
    valid = [True, True]

    def still_valid(call: ToolCall) -> None:
        if not valid.pop():
            raise ValueError("too late")

    desk, journal = Desk(), Journal()
    step = tool_loop(
        Model(asks(send("s1")), "Done"), desk.tools(), hooks=[ToolHook(pre=still_valid)]
    )
    await pause(step, journal)
    valid[:] = [False]
    journal.answers["s1"] = {"approved": True}
    await step({}, FakeContext(journal))
    assert desk.sent == ["Ada"]


# Budgets


async def test_w39_budgets_are_checked_before_each_model_call() -> None:
    """With what the loop itself has used so far; the call that would follow is not made."""

    class Limited(FakeContext):
        seen: list[Usage] = []  # noqa: RUF012 (one test, one class)

        def check_budgets(self, spent: Usage) -> None:
            self.seen.append(spent)
            if spent.total_tokens > 100:
                raise BudgetExhausted("over")

    replies = [asks(look(None, str(n)), usage=Usage(60, 0)) for n in range(5)]
    model = Model(*replies)
    with pytest.raises(BudgetExhausted):
        await tool_loop(model, Desk().tools())({}, Limited())
    assert len(model.requests) == 2
    assert [usage.total_tokens for usage in Limited.seen] == [0, 60, 120]


async def test_tool_step_keeps_what_the_tool_gave() -> None:
    """Its value, or its text, under one key."""

    @tool
    async def double(n: int) -> int:
        """Double."""
        return 2 * n

    step = tool_step(double, args=lambda state: {"n": state["n"]}, into="twice")
    assert await step({"n": 4}, FakeContext()) == {"twice": 8}
    look_step = tool_step(Desk().tools()[0], args=lambda state: {"topic": "x"}, into="found")
    assert await look_step({}, FakeContext()) == {"found": "about x"}


async def test_tool_step_fails_on_an_error() -> None:
    """With what the tool, or the check, said."""
    step = tool_step(Desk().tools()[0], args=lambda state: {}, into="found")
    with pytest.raises(ToolError, match="topic"):
        await step({}, FakeContext())


async def test_tool_step_makes_the_call_that_was_approved() -> None:
    """Not the one that the state would give by now."""
    desk, journal, to = Desk(), Journal(), ["Ada"]
    step = tool_step(desk.tools()[1], args=lambda state: {"to": to[-1]}, into="sent")
    await pause(step, journal)
    assert journal.questions == {"send": {"tool": "send", "arguments": {"to": "Ada"}}}
    to.append("Bob")
    journal.answers["send"] = {"approved": True}
    assert await step({}, FakeContext(journal)) == {"sent": "sent to Ada"}
