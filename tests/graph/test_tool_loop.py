"""A model that calls tools until it answers: what it reads and what it gives."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from pydantic import BaseModel

from loom_ia.core.errors import CallerError, ToolError
from loom_ia.core.model.messages import Message
from loom_ia.core.model.usage import Usage
from loom_ia.graph.appended import Appended
from loom_ia.graph.errors import (
    InvalidAnswer,
    MaxIterationsExceeded,
    StreamInterrupted,
)
from loom_ia.graph.models import ChatRequest, Reply, ReplyChunk
from loom_ia.graph.tool_loop import tool_loop
from loom_ia.graph.tools import ToolCall
from loom_ia.tools import tool
from tests.graph.fake_context import FakeContext, Journal
from tests.graph.scripted import Desk, Model, asks, look, said


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
