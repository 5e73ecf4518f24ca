"""What steps call models by, on the adapters as they are, with a server on the loopback."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import pytest

from loom_ia.adapters.models.anthropic.client import AnthropicModel
from loom_ia.adapters.models.openai_chat.client import ChatModel as ChatClient
from loom_ia.adapters.models.openai_responses.client import ResponsesModel
from loom_ia.assembly.chat import chat_model
from loom_ia.core.errors import CallerError, LoomError
from loom_ia.core.model import (
    INVALID_ARGUMENTS,
    Capabilities,
    CircuitBreaker,
    Message,
    ModelSpec,
    Pricing,
    Retry,
    Stopped,
    TextDelta,
    Timeouts,
    ToolSpec,
    Usage,
)
from loom_ia.core.ports import ModelAccess
from loom_ia.core.prompts import prompt_text
from loom_ia.engine.breaker import Circuits
from loom_ia.graph.errors import ModelError, StreamInterrupted
from loom_ia.graph.models import (
    ChatModel,
    ChatRequest,
    ClientChat,
    Reply,
    ReplyChunk,
    as_chat,
)
from loom_ia.graph.tool_call import ToolCall
from tests.engine.chain import Talker, down
from tests.engine.leaping import leaping
from tests.providers.chunks import call, calls, chunk, said, stream
from tests.providers.server import Called, Fails, Provider, Raw, Says, Silent, Tokens, sse

Make = Callable[..., ClientChat]

ADD = ToolSpec(
    name="add",
    description="Add two numbers.",
    input_schema={"type": "object", "properties": {"a": {"type": "integer"}}},
)
HELLO = ChatRequest([Message("user", "Bonjour")])
AT_ONCE = Retry(initial_delay=0)


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    """Serve on the loopback for the length of a test."""
    async with Provider() as serving:
        yield serving


@pytest.fixture
async def make(provider: Provider) -> AsyncIterator[Make]:
    """Give what makes models of the server, in the format of an API; they are closed at the end."""
    made: list[ClientChat] = []

    def making(api: str = "chat", *, circuits: Circuits | None = None, **more: Any) -> ClientChat:
        more = {"retry": AT_ONCE, **more}
        access = ModelAccess(api_key="sk-secret-key")
        client: Any
        if api == "anthropic":
            spec = ModelSpec(id="M", sdk="anthropic", model="m1", base_url=provider.url, **more)
            client = AnthropicModel(spec, access)
        else:
            kind = ResponsesModel if api == "responses" else ChatClient
            url = f"{provider.url}/v1"
            spec = ModelSpec(id="M", sdk="openai", model="m1", base_url=url, **more)
            client = kind(spec, access)
        made.append(ClientChat(client, circuits=circuits))
        return made[-1]

    yield making
    for model in made:
        await model.close()


async def pieces(model: ChatModel, request: ChatRequest = HELLO) -> list[ReplyChunk]:
    """Take the whole of a stream."""
    async with aclosing(model.stream(request)) as chunks:
        return [each async for each in chunks]


def body_of(provider: Provider, rank: int = -1) -> Any:
    """Give what the server was asked."""
    return provider.requests[rank].body


# -- what a provider gives --------------------------------------------------------------------


async def test_pv01_a_simple_request_has_an_answer(provider: Provider, make: Make) -> None:
    """The text, what it consumed, and why it ended."""
    provider.reply(Says("Bonjour à vous.", usage=Tokens(7, 3)))
    reply = await make()(HELLO)
    assert reply == Reply("Bonjour à vous.", (), Usage(7, 3), "end")


async def test_pv03_a_model_calls_a_tool_and_reads_its_result(
    provider: Provider, make: Make
) -> None:
    """A loop that is written by hand: the calls, then the answer."""
    provider.reply(Says(calls=[Called("add", {"a": 1}, "c1")]), Says("3"))
    model, said_so_far = make(), [Message("user", "1 + 2 ?")]
    reply = await model(ChatRequest(said_so_far, tools=[ADD]))
    assert reply.tool_calls == (ToolCall("c1", "add", {"a": 1}),)
    assert reply.stop_reason == "tool_use"
    said_so_far += [
        Message("assistant", reply.text, reply.tool_calls),
        Message("tool", "3", tool_call_id="c1"),
    ]
    assert (await model(ChatRequest(said_so_far, tools=[ADD]))).text == "3"
    assert [message["role"] for message in body_of(provider)["messages"]] == [
        *("user", "assistant", "tool"),
    ]


async def test_pv04_a_stream_gives_pieces_then_one_that_is_done(
    provider: Provider, make: Make
) -> None:
    """Text comes as it is said; the rest comes once, at the end."""
    provider.reply(Says("un deux trois", usage=Tokens(7, 3)))
    *texts, last = await pieces(make())
    assert [each.text for each in texts] == ["un", " deux", " trois"]
    assert not any(each.done for each in texts)
    assert last == ReplyChunk("", (), Usage(7, 3), done=True, stop_reason="end")


async def test_pv06_many_conversations_share_a_model(provider: Provider, make: Make) -> None:
    """Thirty at once, each with a call of its own, and none mixed up with another."""
    model = make()

    def answer(request: Any) -> Says:
        asked, *more = [m["content"] for m in request.body["messages"] if m["role"] != "assistant"]
        return Says(f"{asked} {more[0]}") if more else Says(calls=[Called("add", {}, asked)])

    provider.default(answer)

    async def session(number: int) -> str:
        asked = Message("user", f"s{number}")
        reply = await model(ChatRequest([asked], tools=[ADD]))
        (made,) = reply.tool_calls
        result = Message("tool", f"r{number}", tool_call_id=made.id)
        again = ChatRequest([asked, Message("assistant", "", [made]), result], tools=[ADD])
        return (await model(again)).text

    said_by_each = await asyncio.gather(*map(session, range(30)))
    assert said_by_each == [f"s{number} r{number}" for number in range(30)]


async def test_pv07_the_path_is_the_usual_one(provider: Provider) -> None:
    """The address, without its slash, then `/v1/chat/completions`."""
    provider.reply(Says("Bonjour."))
    await chat_model("m1", base_url=f"{provider.url}/", api_key="k")(HELLO)
    assert provider.requests[0].path == "/v1/chat/completions"


# -- messages ---------------------------------------------------------------------------------


def test_w17_calls_survive_json() -> None:
    """A message with calls is the same after a trip through JSON."""
    said_by_it = Message("assistant", "voyons", [ToolCall("c1", "add", {"a": [1, {"b": "é"}]})])
    again = Message.model_validate_json(said_by_it.model_dump_json())
    assert again == said_by_it
    assert again.tool_calls[0].arguments == {"a": [1, {"b": "é"}]}


@pytest.mark.parametrize("api", ["chat", "responses", "anthropic"])
async def test_w41_an_error_of_a_tool_stays_one(provider: Provider, make: Make, api: str) -> None:
    """It survives JSON, and each provider is told of it in its own way."""
    result = Message("tool", "no such file", tool_call_id="c1", is_error=True)
    result = Message.model_validate_json(result.model_dump_json())
    assert (result.is_error, result.text, result.tool_call_id) == (True, "no such file", "c1")
    provider.reply(Says("Tant pis."))
    asked = [Message("user", "?"), Message("assistant", "", [ToolCall("c1", "add", {})]), result]
    await make(api)(ChatRequest(asked, tools=[ADD]))
    body = body_of(provider)
    told = prompt_text("en", "failed_result", text="no such file")
    assert told != "no such file"
    match api:
        case "anthropic":
            (block,) = body["messages"][-1]["content"]
            assert block["is_error"] is True
        case "responses":
            assert body["input"][-1]["output"] == told
        case _:
            assert body["messages"][-1]["content"] == told


async def test_results_that_follow_each_other_answer_the_same_message(
    provider: Provider, make: Make
) -> None:
    """Each call finds its own result, whatever their order."""
    provider.reply(Says("Bien."))
    both = [ToolCall("c1", "add", {}), ToolCall("c2", "add", {})]
    await make()(
        ChatRequest(
            [
                Message("user", "?"),
                Message("assistant", "", both),
                Message("tool", "two", tool_call_id="c2"),
                Message("tool", "one", tool_call_id="c1"),
            ]
        )
    )
    results = [m for m in body_of(provider)["messages"] if m["role"] == "tool"]
    assert [(m["tool_call_id"], m["content"]) for m in results] == [("c1", "one"), ("c2", "two")]


async def test_messages_may_be_plain_objects(provider: Provider, make: Make) -> None:
    """With a role and a content; what the system says goes where the system speaks."""
    provider.reply(Says("Oui."))
    plain = [{"role": "system", "content": "Sois bref."}, {"role": "user", "content": "Ça va ?"}]
    await make()(ChatRequest(plain))
    assert body_of(provider)["messages"] == plain


# -- streams ----------------------------------------------------------------------------------


async def test_w74_a_stream_that_is_cut_is_no_answer(provider: Provider, make: Make) -> None:
    """What was seen of it stays, and the caller is told; nothing is asked again."""
    provider.reply(stream(*said("la moitié"), done=False))
    chunks = make().stream(HELLO)
    assert await anext(chunks) == ReplyChunk("la moitié")
    with pytest.raises(StreamInterrupted) as caught:
        await anext(chunks)
    assert caught.value.kind == "transient"
    assert len(provider.requests) == 1


@pytest.mark.parametrize("cut", ["close", "reset", "end"])
async def test_w74_a_whole_answer_that_is_cut_is_asked_again(
    provider: Provider, make: Make, cut: Any
) -> None:
    """Nobody saw a piece of it, however the connection ended."""
    provider.reply(Says("un deux trois", cut_after=2, cut=cut), Says("un deux trois"))
    assert (await make()(HELLO)).text == "un deux trois"


async def test_w74_a_stream_that_is_cut_before_its_text_is_asked_again(
    provider: Provider, make: Make
) -> None:
    """Pieces of a call are not shown before the end, so that nobody has any."""
    provider.reply(
        Says(calls=[Called("add", {"a": 123456789}, "c1")], cut_after=2),
        Says("Bonjour.", usage=Tokens(7, 3)),
    )
    assert [each.text for each in await pieces(make())] == ["Bonjour.", ""]
    assert len(provider.requests) == 2


async def test_w74_what_is_always_cut_is_given_up(provider: Provider, make: Make) -> None:
    """After as many attempts as the rule has, with the error of the last one."""
    provider.default(Says("un deux", cut_after=1))
    with pytest.raises(StreamInterrupted):
        await make(retry=Retry(max_attempts=2, initial_delay=0))(HELLO)
    assert len(provider.requests) == 2


async def test_w75_a_line_may_be_of_any_length(provider: Provider, make: Make) -> None:
    """A piece of half a megabyte is read, and what follows it too."""
    long = "mot " * 125_000
    provider.reply(stream(*said(long, "fin"), chunk({}, "stop")))
    assert (await make()(HELLO)).text == f"{long}fin"


@pytest.mark.parametrize("indexes", [(1, 2), (0, 5), (7, 3)])
async def test_w76_calls_may_begin_at_any_index(
    provider: Provider, make: Make, indexes: tuple[int, int]
) -> None:
    """None is lost, and they are in the order of their indices."""
    first, second = indexes
    provider.reply(
        stream(
            calls(call('{"a":', index=first, id="c1", name="add")),
            calls(call('{"a":2}', index=second, id="c2", name="sub")),
            calls(call("1}", index=first)),
            chunk({}, "tool_calls"),
        )
    )
    (*_, last) = await pieces(make())
    add, sub = ToolCall("c1", "add", {"a": 1}), ToolCall("c2", "sub", {"a": 2})
    assert last.tool_calls == ((add, sub) if first <= second else (sub, add))


async def test_w77_the_parts_of_a_call_may_come_late(provider: Provider, make: Make) -> None:
    """Its id and its name are put with it, field by field."""
    provider.reply(
        stream(
            calls(call(index=0, id="c1")),
            calls(call(index=0, name="add")),
            calls(call('{"a":1}', index=0)),
            chunk({}, "tool_calls"),
        )
    )
    assert (await make()(HELLO)).tool_calls == (ToolCall("c1", "add", {"a": 1}),)


async def test_w77_a_call_without_an_id_is_given_one(provider: Provider, make: Make) -> None:
    """Two of them are told apart."""
    provider.reply(
        stream(
            calls(call("{}", index=0, name="add"), call("{}", index=1, name="add")),
            chunk({}, "tool_calls"),
        )
    )
    first, second = (await make()(HELLO)).tool_calls
    assert first.id
    assert second.id
    assert first.id != second.id


@pytest.mark.parametrize("api", ["chat", "responses", "anthropic"])
async def test_w78_an_error_inside_a_stream_is_raised(
    provider: Provider, make: Make, api: str
) -> None:
    """It is an error of the model, and not a stream that was cut."""
    error = {"type": "invalid_request_error", "code": "invalid_value", "message": "no such voice"}
    provider.reply(Says("un deux", error_after=(1, error)))
    with pytest.raises(ModelError, match="no such voice") as caught:
        await make(api)(HELLO)
    assert not isinstance(caught.value, StreamInterrupted)


@pytest.mark.parametrize("space", ["", " "])
async def test_w79_events_follow_their_standard(provider: Provider, make: Make, space: str) -> None:
    """A space after `data:` is not needed, an event may have many lines, a comment is nothing."""
    lines = [json.dumps(each) for each in (*said("Bon", "jour"), chunk({}, "stop"))]
    events = [
        "".join([": keep-alive\n\n", *(f"data:{space}{part}\n" for part in line.split(" ")), "\n"])
        for line in lines
    ]
    provider.reply(Raw([event.encode() for event in events]))
    assert (await make()(HELLO)).text == "Bonjour"


# -- failures ---------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_w80_a_passing_error_is_tried_again(
    provider: Provider, make: Make, status: int
) -> None:
    """As often as the rule says, in a call and in a stream."""
    provider.reply(Fails(status), Fails(status), Says("Enfin."))
    assert (await make()(HELLO)).text == "Enfin."
    provider.reply(Fails(status), Says("Enfin."))
    assert [each.text for each in await pieces(make())] == ["Enfin.", ""]


async def test_w80_a_provider_says_how_long_to_wait(provider: Provider, make: Make) -> None:
    """It is read from the answer; more than the longest wait gives the model up."""
    provider.reply(Fails(429, headers={"retry-after": "0"}), Says("Enfin."))
    model = make(retry=Retry(initial_delay=3600, max_delay=3600))
    assert (await model(HELLO)).text == "Enfin."
    provider.reply(Fails(429, headers={"retry-after": "7200"}))
    with pytest.raises(ModelError) as caught:
        await model(HELLO)
    assert (caught.value.http_status, caught.value.retry_after) == (429, 7200.0)


@leaping
async def test_w80_the_wait_is_the_one_of_the_engine() -> None:
    """What is asked for, or what the rule gives, to the instant."""
    model = Talker(down(retry_after=7), down(retry_after=0), "done")
    assert (await ClientChat(model)(HELLO)).text == "done"
    assert model.times == [0, 7, 7]


@pytest.mark.parametrize(
    ("limits", "reply", "named"),
    [
        ({"first_token": 0.05}, Silent(), "first_token"),
        ({"idle": 0.05}, Says("un deux", hang_after=1), "idle"),
        ({"total": 0.05, "idle": None}, Says("un deux", hang_after=1), "total"),
    ],
)
async def test_w80_each_clock_ends_an_attempt(
    provider: Provider, make: Make, limits: Mapping[str, Any], reply: Any, named: str
) -> None:
    """The error names the clock, and the request is given up."""
    provider.reply(reply)
    model = make(timeouts=Timeouts(**limits), retry=Retry(max_attempts=1))
    with pytest.raises(ModelError, match=named) as caught:
        await model(HELLO)
    assert caught.value.kind == "transient"
    await provider.requests[0].disconnected.wait()


async def test_w80_what_cannot_pass_is_not_tried_again(provider: Provider, make: Make) -> None:
    """A key that is refused stays refused."""
    provider.reply(Fails(401))
    with pytest.raises(ModelError) as caught:
        await make()(HELLO)
    assert caught.value.kind == "auth"
    assert len(provider.requests) == 1


async def test_w80_a_model_that_fails_is_left_alone(provider: Provider, make: Make) -> None:
    """By whoever shares its circuits, as agents do."""
    circuits = Circuits()
    ill = {"retry": Retry(max_attempts=1), "circuit_breaker": CircuitBreaker(failures=2)}
    one, other = make(circuits=circuits, **ill), make(circuits=circuits, **ill)
    provider.default(Fails(500))
    for model in (one, other):
        with pytest.raises(ModelError, match="500"):
            await model(HELLO)
    with pytest.raises(ModelError) as caught:
        await one(HELLO)
    assert caught.value.kind == "unavailable"
    assert len(provider.requests) == 2


@leaping
async def test_w80_a_caller_that_is_slow_does_not_make_an_answer_late() -> None:
    """The clocks are those of the provider: the code of the caller is not timed."""
    spoken = [TextDelta("un"), 1, TextDelta(" deux"), 1, TextDelta(" trois"), Stopped("end")]
    model = Talker(spoken, timeouts=Timeouts(idle=2, total=5))
    seen: list[str] = []
    async for piece in ClientChat(model).stream(HELLO):
        seen.append(piece.text)
        await asyncio.sleep(100)
    assert "".join(seen) == "un deux trois"


# -- requests ---------------------------------------------------------------------------------


async def test_w81_an_empty_result_is_an_empty_text(provider: Provider, make: Make) -> None:
    """The content is there, and says nothing."""
    provider.reply(Says("Bien."))
    asked = [
        Message("user", "?"),
        Message("assistant", "", [ToolCall("c1", "add", {})]),
        Message("tool", "", tool_call_id="c1"),
    ]
    await make()(ChatRequest(asked, tools=[ADD]))
    assert body_of(provider)["messages"][-1]["content"] == ""


@dataclass
class Bare:
    """A tool that says nothing of its arguments."""

    name: str = "ping"
    description: str = ""
    input_schema: Any = None


@pytest.mark.parametrize("schema", [None, {}])
async def test_w81_a_tool_without_a_schema_takes_an_object(
    provider: Provider, make: Make, schema: Any
) -> None:
    """An object without properties, and never nothing."""
    provider.reply(Says("Bien."))
    await make()(ChatRequest([Message("user", "?")], tools=[Bare(input_schema=schema)]))
    (tool,) = body_of(provider)["tools"]
    assert tool["function"]["parameters"] == {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    ("api", "place"),
    [
        ("chat", ("reasoning_effort",)),
        ("responses", ("reasoning", "effort")),
        ("anthropic", ("output_config", "effort")),
    ],
)
async def test_w82_effort_and_temperature_are_carried(
    provider: Provider, make: Make, api: str, place: tuple[str, ...]
) -> None:
    """Each provider is told of the effort in its own words, over what the settings say."""
    params: dict[str, Any] = {place[0]: {"effort": "medium"} if place[1:] else "medium"}
    provider.reply(Says("Bien."))
    asked = ChatRequest([Message("user", "?")], temperature=0.25, effort="high", max_tokens=77)
    await make(api, params=params)(asked)
    told = body = body_of(provider)
    for key in place:
        told = told[key]
    assert told == "high"
    assert body["temperature"] == 0.25
    limits = {key: value for key, value in body.items() if key.startswith("max_")}
    assert list(limits.values()) == [77]


async def test_w82_the_usual_effort_is_left_to_the_provider(provider: Provider, make: Make) -> None:
    """Most models refuse to be told of an effort, and none needs to hear of the usual one."""
    provider.reply(Says("Bien."))
    await make()(HELLO)
    assert body_of(provider).keys() == {"model", "messages", "stream", "stream_options"}


@pytest.mark.parametrize("api", ["chat", "responses", "anthropic"])
@pytest.mark.parametrize("stop", ["max_tokens", "refusal"])
async def test_w82_why_an_answer_stopped_short_is_told(
    provider: Provider, make: Make, api: str, stop: Any
) -> None:
    """It is an answer all the same, in a call and in a stream."""
    provider.reply(Says("un deux", stop=stop), Says("un deux", stop=stop))
    model = make(api)
    reply = await model(HELLO)
    assert (reply.text, reply.stop_reason) == ("un deux", stop)
    assert (await pieces(model))[-1].stop_reason == stop


async def test_w82_cached_tokens_are_counted(provider: Provider, make: Make) -> None:
    """Apart from those that were read anew, and priced as such."""
    provider.reply(Says("Bien.", usage=Tokens(10, 5, cache_read=90)))
    pricing = Pricing(input=1.0, output=2.0, cache_read=0.1)
    reply = await make(pricing=pricing)(HELLO)
    assert reply.usage is not None
    assert (reply.usage.input_tokens, reply.usage.cache_read_tokens) == (10, 90)
    assert reply.usage.cost_usd == pytest.approx((10 * 1.0 + 90 * 0.1 + 5 * 2.0) / 1e6)


async def test_what_a_provider_does_not_count_is_estimated(provider: Provider, make: Make) -> None:
    """As for agents: limits would never be reached otherwise."""
    provider.reply(Says("12345678", usage=None))
    reply = await make()(HELLO)
    assert reply.usage is not None
    assert reply.usage.estimated
    assert reply.usage.output_tokens == 2


async def test_w83_closing_a_stream_cancels_its_request(provider: Provider, make: Make) -> None:
    """The server sees it at once, and no connection is left."""
    provider.reply(Says("un deux trois", hang_after=2))
    async with aclosing(make().stream(HELLO)) as chunks:
        assert (await anext(chunks)).text == "un"
    await provider.requests[0].disconnected.wait(1.0)
    await provider.idle()


async def test_w83_a_cancelled_caller_cancels_its_request(provider: Provider, make: Make) -> None:
    """Also while it waits for the next piece."""
    provider.reply(Says("un deux trois", hang_after=1))
    task = asyncio.create_task(pieces(make()))
    await (await provider.received()).held.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await provider.requests[0].disconnected.wait(1.0)


async def test_w84_an_error_is_short_and_keeps_no_secret(provider: Provider, make: Make) -> None:
    """The body of a refusal may repeat the prompt and the key."""
    body = {"error": {"message": f"bad key sk-secret-key {'the whole prompt ' * 500}"}}
    provider.reply(Fails(400, body))
    with pytest.raises(ModelError) as caught:
        await make()(HELLO)
    told = f"{caught.value} {caught.value.params}"
    assert "sk-secret-key" not in told
    assert len(str(caught.value)) < 700


# -- shapes -----------------------------------------------------------------------------------

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


async def test_a_schema_goes_to_a_model_that_follows_it(provider: Provider, make: Make) -> None:
    """With the request, and not in its words."""
    provider.reply(Says('{"n": 1}'))
    can = Capabilities(native_json=True)
    await make(capabilities=can)(ChatRequest([Message("user", "?")], output_schema=SCHEMA))
    body = body_of(provider)
    assert body["response_format"]["json_schema"]["schema"] == SCHEMA
    assert [message["role"] for message in body["messages"]] == ["user"]


async def test_a_model_that_follows_no_schema_reads_it(provider: Provider, make: Make) -> None:
    """In its prompt, after what the system says."""
    provider.reply(Says('{"n": 1}'))
    asked = ChatRequest([Message("user", "?")], system="Sois bref.", output_schema=SCHEMA)
    await make()(asked)
    body = body_of(provider)
    assert "response_format" not in body
    system = body["messages"][0]
    assert system["role"] == "system"
    assert system["content"].startswith("Sois bref.\n\n")
    assert '"integer"' in system["content"]


async def test_arguments_that_are_no_json_are_kept_as_text(provider: Provider, make: Make) -> None:
    """Whoever checks them tells the model what it wrote."""
    provider.reply(Says(calls=[Called("add", "{a: 1", "c1")]))
    (made,) = (await make()(HELLO)).tool_calls
    assert made.arguments == {INVALID_ARGUMENTS: "{a: 1"}


@pytest.mark.parametrize(
    ("settings", "named"), [({"effort": "most"}, "effort"), ({"max_tokens": 0}, "max_tokens")]
)
def test_a_request_that_makes_no_sense_is_refused(settings: Any, named: str) -> None:
    """Where it is written, by the name of the option."""
    with pytest.raises(ValueError, match=named):
        ChatRequest([Message("user", "?")], **settings)


# -- whatever a model is given as -------------------------------------------------------------


async def test_a_function_is_a_model() -> None:
    """What it gives may be a reply or a text, and it can be listened to."""

    async def echo(request: ChatRequest) -> str:
        return request.messages[-1].text if isinstance(request.messages[-1], Message) else ""

    model = as_chat(echo)
    assert await model(HELLO) == Reply("Bonjour")
    assert await pieces(model) == [
        ReplyChunk("Bonjour"),
        ReplyChunk(done=True, stop_reason="end"),
    ]
    assert as_chat(model) is model


async def test_a_function_that_gives_no_reply_is_told_so() -> None:
    """By the type of what it gave."""

    async def wrong(request: ChatRequest) -> Any:
        return 42

    with pytest.raises(CallerError, match="gave a int"):
        await as_chat(wrong)(HELLO)


class Parrot:
    """A callable of a user, which also streams."""

    async def __call__(self, request: ChatRequest) -> Reply:
        return Reply("coco")

    async def stream(self, request: ChatRequest) -> AsyncIterator[ReplyChunk]:
        yield ReplyChunk("co")
        yield ReplyChunk("co")
        yield ReplyChunk(done=True)


async def test_a_callable_that_streams_is_listened_to() -> None:
    """By its own stream."""
    model = as_chat(Parrot())
    assert (await model(HELLO)).text == "coco"
    assert [each.text for each in await pieces(model)] == ["co", "co", ""]


async def test_a_client_of_the_engine_is_a_model(provider: Provider) -> None:
    """As agents have it."""
    spec = ModelSpec(id="M", sdk="openai", model="m1", base_url=f"{provider.url}/v1")
    client = ChatClient(spec)
    provider.reply(Says("Bonjour."))
    assert (await as_chat(client)(HELLO)).text == "Bonjour."
    await client.close()


@pytest.mark.parametrize("wrong", ["gpt", 42, None, Reply])
def test_what_is_no_model_is_refused(wrong: Any) -> None:
    """At once, with what to give instead."""
    with pytest.raises(LoomError, match="chat_model"):
        as_chat(wrong)


def test_a_model_shows_its_name_alone() -> None:
    """What is written in a log has no key in it."""
    access = ModelAccess(api_key="sk-secret-key")
    spec = ModelSpec(id="M", sdk="openai", model="m1")
    assert repr(ClientChat(ChatClient(spec, access))) == "<ClientChat M>"
    assert "sk-secret-key" not in repr(access)


async def test_an_event_that_is_cut_is_a_stream_that_is_cut(provider: Provider, make: Make) -> None:
    """Also in the middle of its line."""
    whole = [sse(json.dumps(each)) for each in said("la moitié", " et plus")]
    provider.reply(Raw([*whole[:-1], whole[-1][:40]]))
    with pytest.raises(StreamInterrupted):
        await pieces(make())
