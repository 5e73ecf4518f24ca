"""A model that calls tools until it answers: what it reads, what it gives, where it goes on."""

from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

import pytest
from pydantic import BaseModel

from loom_ia.core.errors import CallerError, ToolError
from loom_ia.core.model.messages import Message
from loom_ia.core.model.usage import Usage
from loom_ia.core.ports.tools import ToolContext
from loom_ia.graph.appended import Appended
from loom_ia.graph.compaction import Compaction, whole
from loom_ia.graph.errors import (
    BudgetExhausted,
    InvalidAnswer,
    MaxIterationsExceeded,
    StreamInterrupted,
)
from loom_ia.graph.models import ChatRequest, Reply, ReplyChunk
from loom_ia.graph.permissions import permissions
from loom_ia.graph.tool_loop import tool_loop
from loom_ia.graph.tool_step import tool_step
from loom_ia.graph.tools import ToolCall, ToolHook, ToolResult
from loom_ia.tools import tool
from tests.graph.fake_context import FakeContext, Journal, Paused, run_to_end


class Model:
    """A model that answers from a script, whose last answer it repeats; an error is raised."""

    def __init__(self, *script: Reply | str | Exception) -> None:
        self.script = list(script)
        self.requests: list[ChatRequest] = []
        self.read: list[list[Message]] = []

    async def __call__(self, request: ChatRequest) -> Reply | str:
        self.requests.append(request)
        self.read.append([m for m in request.messages if isinstance(m, Message)])
        answer = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def asks(*calls: ToolCall, text: str = "", usage: Usage | None = None) -> Reply:
    """Answer by calls."""
    return Reply(text=text, tool_calls=calls, usage=usage)


def look(call_id: str | None = "c1", topic: str = "loom") -> ToolCall:
    """Ask for a look-up."""
    return ToolCall(call_id, "look", {"topic": topic})


class Desk:
    """Tools that remember how often they acted, by what."""

    def __init__(self) -> None:
        self.looked: list[str] = []
        self.sent: list[str] = []
        self.keys: list[str] = []

    def tools(self, *, approval: bool = True) -> list[Any]:
        """Give the tools."""

        @tool
        async def look(topic: str) -> str:
            """Look a topic up."""
            self.looked.append(topic)
            return f"about {topic}"

        @tool(side_effects="irreversible", approval="always" if approval else "never")
        async def send(to: str, ctx: ToolContext) -> str:
            """Send a letter."""
            self.sent.append(to)
            self.keys.append(ctx.idempotency_key)
            return f"sent to {to}"

        return [look, send]


def send(call_id: str | None = "s1", to: str = "Ada") -> ToolCall:
    """Ask for a letter."""
    return ToolCall(call_id, "send", {"to": to})


def said(delta: dict[str, Any]) -> Sequence[Message]:
    """Give the new messages of a delta."""
    appended = delta["messages"]
    assert isinstance(appended, Appended)
    return appended.items


async def test_tl01_an_answer_at_once_is_the_output() -> None:
    """One request, and no question, block or other trace in the delta (LP-06)."""
    model = Model("Hello")
    state = {"messages": [{"role": "user", "content": "Hi"}]}
    delta = await tool_loop(model)(state, FakeContext())
    assert delta == {
        "output": "Hello",
        "usage": Usage(),
        "messages": Appended((Message("assistant", "Hello"),)),
    }
    assert model.read[0] == [Message("user", "Hi")]


async def test_the_results_of_tools_are_given_to_the_model() -> None:
    """The conversation has the calls, then one result each, in their order, then the answer."""
    model = Model(asks(look("a", "x"), look("b", "y"), text="Looking."), "Done")
    delta = await tool_loop(model, Desk().tools())({"messages": []}, FakeContext())
    assert said(delta) == (
        Message("assistant", "Looking.", [look("a", "x"), look("b", "y")]),
        Message("tool", "about x", (), "a"),
        Message("tool", "about y", (), "b"),
        Message("assistant", "Done"),
    )
    assert model.read[1] == list(said(delta)[:3])
    assert [spec.name for spec in model.requests[0].tools] == ["look", "send"]


async def test_w40_the_transcript_can_be_left_out() -> None:
    """The output stays."""
    step = tool_loop(Model("Hello"), transcript=False)
    assert await step({}, FakeContext()) == {"output": "Hello", "usage": Usage()}


async def test_w41_an_error_stays_one_in_the_conversation() -> None:
    """The model and the state know that a call failed."""

    @tool
    async def bad() -> str:
        """Fail."""
        raise ToolError("no")

    model = Model(asks(ToolCall("1", "bad", {}), ToolCall("2", "nope", {})), "Done")
    delta = await tool_loop(model, [bad])({}, FakeContext())
    results = said(delta)[1:3]
    assert [message.is_error for message in results] == [True, True]
    assert results[0].text == "no"


async def test_w36_usage_is_the_sum_over_the_loop() -> None:
    """Tokens and dollars of every answer."""
    replies = [asks(look(None, str(n)), usage=Usage(100, 1, cost_usd=0.5)) for n in range(3)]
    model = Model(*replies, Reply(text="Done", usage=Usage(7, 1, cost_usd=0.25)))
    delta = await tool_loop(model, Desk().tools())({}, FakeContext())
    assert delta["usage"] == Usage(307, 4, cost_usd=1.75)


async def test_tl04_the_option_is_the_system_prompt() -> None:
    """The messages stay as they are."""
    model = Model("ok")
    await tool_loop(model, system="Be brief.")({"messages": [Message("user", "Hi")]}, FakeContext())
    assert model.requests[0].system == "Be brief."
    assert [message.role for message in model.read[0]] == ["user"]


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ({"system_prompt": "From the state."}, "From the state."),
        ({"system_prompt": ""}, "From the option."),
        ({"messages": [{"role": "system", "content": "Stale."}]}, "From the option."),
    ],
)
async def test_w43_the_state_replaces_the_system_prompt(
    state: dict[str, Any], expected: str
) -> None:
    """A system message that the conversation begins with is replaced, not kept beside."""
    model = Model("ok")
    await tool_loop(model, system="From the option.")(state, FakeContext())
    assert model.requests[0].system == expected
    assert model.read[0] == []


async def test_a_system_message_is_the_prompt_when_there_is_no_other() -> None:
    """What the author wrote is not lost."""
    model = Model("ok")
    await tool_loop(model)({"messages": [{"role": "system", "content": "Mine."}]}, FakeContext())
    assert model.requests[0].system == "Mine."


@pytest.mark.parametrize("wrong", ["Hi", ["Hi"], [{"role": "robot", "content": ""}], [{"who": 1}]])
async def test_what_is_no_conversation_is_refused(wrong: Any) -> None:
    """The error names the place."""
    with pytest.raises(CallerError, match="messages"):
        await tool_loop(Model("ok"))({"messages": wrong}, FakeContext())


async def test_the_settings_are_in_every_request() -> None:
    """As they were given."""
    model = Model(asks(look()), "ok")
    step = tool_loop(model, Desk().tools(), max_tokens=10, temperature=0.5, effort="high")
    await step({}, FakeContext())
    seen = {(r.max_tokens, r.temperature, r.effort) for r in model.requests}
    assert seen == {(10, 0.5, "high")}


async def test_a_name_is_a_model_of_the_host() -> None:
    """It is looked up when the step runs."""
    ctx = FakeContext(models={"HAIKU": Model("from the host")})
    assert (await tool_loop("HAIKU")({}, ctx))["output"] == "from the host"


async def test_tl03_a_model_that_never_concludes_fails_the_step() -> None:
    """It is asked a last time, without tools; what it had asked for was done."""
    desk = Desk()
    model = Model(*[asks(look(None, str(n))) for n in range(9)])
    with pytest.raises(MaxIterationsExceeded):
        await tool_loop(model, desk.tools(), max_iterations=3)({}, FakeContext())
    assert [bool(request.tools) for request in model.requests] == [True, True, True, False]
    assert desk.looked == ["0", "1", "2"]


async def test_the_last_answer_without_tools_is_the_output() -> None:
    """A model that concludes when it must is fine."""
    model = Model(asks(look("a", "1")), asks(look("b", "2")), "At last")
    delta = await tool_loop(model, Desk().tools(), max_iterations=2)({}, FakeContext())
    assert delta["output"] == "At last"
    assert said(delta)[-2].role == "tool"


async def test_identical_batches_end_the_loop() -> None:
    """Three in a row, by default, whatever their ids; others in between begin the count anew."""
    same = [asks(look("a")), asks(look("b"))]
    model = Model(*same, asks(look("c", "other")), *same, asks(look("d")), "Enough")
    delta = await tool_loop(model, Desk().tools())({}, FakeContext())
    assert delta["output"] == "Enough"
    assert [bool(request.tools) for request in model.requests] == [True] * 6 + [False]


@pytest.mark.parametrize("option", ["max_iterations", "max_repeats", "max_tokens", "effort"])
def test_a_wrong_option_is_refused(option: str) -> None:
    """Where the loop is built."""
    options: dict[str, Any] = {option: 0}
    with pytest.raises(ValueError, match=option):
        tool_loop(Model("ok"), **options)


async def test_ids_are_distinct_in_the_whole_conversation() -> None:
    """A model that names every call the same gets results that it can tell apart."""
    state = {"messages": [Message("assistant", "", [look("c1")]), Message("tool", "x", (), "c1")]}
    model = Model(asks(look("c1", "1"), look(None, "2")), asks(look("c1", "3")), "Done")
    delta = await tool_loop(model, Desk().tools())(state, FakeContext())
    ids = [message.tool_call_id for message in said(delta) if message.role == "tool"]
    assert len({"c1", *ids}) == 4
    assert [call.call_id for message in said(delta) for call in message.calls] == ids


# An answer of a given shape


class Town(BaseModel):
    name: str
    people: int


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.mark.parametrize(
    ("schema", "text", "output"),
    [
        (SCHEMA, '{"n": 3}', {"n": 3}),
        (SCHEMA, '```json\n{"n": 3}\n```', {"n": 3}),
        (Town, '{"name": "Dole", "people": 23000}', {"name": "Dole", "people": 23000}),
        (list[int], "[1, 2]", [1, 2]),
    ],
)
async def test_an_answer_is_parsed_by_its_schema(schema: Any, text: str, output: Any) -> None:
    """The state gets the document, the model the JSON Schema."""
    model = Model(text)
    delta = await tool_loop(model, output_schema=schema)({}, FakeContext())
    assert delta["output"] == output
    assert isinstance(model.requests[0].output_schema, dict)


@pytest.mark.parametrize("text", ["three", '{"n": "three"}', "{}", "NaN"])
async def test_an_answer_that_does_not_fit_fails_the_step(text: str) -> None:
    """Nothing half right enters the state."""
    with pytest.raises(InvalidAnswer):
        await tool_loop(Model(text), output_schema=SCHEMA)({}, FakeContext())


def test_a_schema_that_is_none_is_refused() -> None:
    """Where the loop is built."""
    with pytest.raises(ValueError, match="output_schema"):
        tool_loop(Model("ok"), output_schema={"type": "nonsense"})


# Pieces


class Streaming(Model):
    """A model that gives its text in pieces; `cut`, it never says that it is done."""

    def __init__(self, *script: Reply | str | Exception, cut: bool = False) -> None:
        super().__init__(*script)
        self.cut = cut

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ReplyChunk, None]:
        """Give the answer a letter at a time."""
        reply = await self(request)
        reply = Reply(reply) if isinstance(reply, str) else reply
        for letter in reply.text:
            yield ReplyChunk(letter)
        if not self.cut:
            yield ReplyChunk("", reply.tool_calls, reply.usage, done=True, stop_reason="end")


async def test_pieces_of_text_are_shown_as_they_come() -> None:
    """Once: a loop that is run again shows nothing of what was said."""
    journal = Journal()
    step = tool_loop(Streaming(asks(look(), text="Hm"), "ok"), Desk().tools())
    first, second = FakeContext(journal), FakeContext(journal)
    delta = await step({}, first)
    assert first.tokens == ["H", "m", "o", "k"]
    assert await step({}, second) == delta
    assert second.tokens == []


async def test_a_stream_without_its_end_fails_the_step() -> None:
    """Half an answer is none."""
    with pytest.raises(StreamInterrupted):
        await tool_loop(Streaming("ok", cut=True))({}, FakeContext())


async def test_nobody_follows_nothing_is_streamed() -> None:
    """The model is asked for the whole, which can be tried again."""

    class Alone(FakeContext):
        is_followed = False

    ctx = Alone()
    assert (await tool_loop(Streaming("ok", cut=True))({}, ctx))["output"] == "ok"
    assert ctx.tokens == []


# Going on


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


async def pause(step: Any, journal: Journal, state: Any = None) -> None:
    """Run a step that pauses."""
    with pytest.raises(Paused):
        await step(state or {}, FakeContext(journal))


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


# Compaction


def talk(count: int) -> list[Message]:
    """Make a long conversation."""
    return [Message("user" if n % 2 == 0 else "assistant", f"line {n}") for n in range(count)]


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


# One call as a step


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
