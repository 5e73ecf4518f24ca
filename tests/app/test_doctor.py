"""What a checkup finds in servers that work, in servers that lack something, and in broken ones."""

import json
import struct
import zlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from loom_ia.app.doctor import checkup
from loom_ia.app.doctor_faults import Veil
from loom_ia.app.doctor_questions import PNG, picture
from loom_ia.config.load import prepare_config
from loom_ia.config.root import LoomConfig
from loom_ia.core.errors import CallerError
from loom_ia.core.model import ModelSpec
from loom_ia.core.model.artifacts import sniffed_type
from loom_ia.core.views.checkup import Checkup, Probe
from tests.app.patients import CALLS, NUMBERS, Patient, question_of
from tests.providers.replies import Called, Fails, Raw, Reply, Says, Silent, Tokens, sse
from tests.providers.rules import problems_of_chat, problems_of_messages, problems_of_responses
from tests.providers.server import Provider, unused_url

APIS = ("anthropic", "chat", "responses")
KEY = "sk-Zq8vXw3TnB5rLm7Y"
VARIABLE = "PROVIDER_KEY"
ALL = ("streaming", "tools", "forced_tool_choice", "native_json", "vision", "thinking")
RULES = {
    "anthropic": problems_of_messages,
    "chat": problems_of_chat,
    "responses": problems_of_responses,
}
every_api = pytest.mark.parametrize("api", APIS)


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    """A provider on the loopback, for the length of a test."""
    async with Provider() as serving:
        yield serving


def entry(url: str, api: str = "chat", **more: Any) -> ModelSpec:
    """Write a model, whose retries do not wait."""
    settings: dict[str, Any] = {"sdk": "anthropic", "base_url": url}
    if api != "anthropic":
        settings = {"sdk": "openai", "api": api, "base_url": f"{url}/v1"}
    given = {
        "id": "M",
        "model": "m-1",
        "api_key_env": VARIABLE,
        "retry": {"initial_delay": 0.0},
        **settings,
        **more,
    }
    return ModelSpec.model_validate(given)


async def examined(spec: ModelSpec, *, key: str = KEY) -> Checkup:
    """Check a model of a configuration that has no agent."""
    config = LoomConfig(version=1, models=(spec,))
    loaded = prepare_config(config, environ={VARIABLE: key})
    told: list[Probe] = []
    found = await checkup(loaded, spec.id, told=told.append)
    assert tuple(told) == found.probes
    return found


def outcomes(found: Checkup) -> dict[str, str]:
    """Give what came of each question."""
    return {probe.name: probe.outcome for probe in found.probes}


def probe_of(found: Checkup, name: str) -> Probe:
    """Find a question."""
    return next(probe for probe in found.probes if probe.name == name)


def detail_of(found: Checkup, name: str) -> str:
    """Give what is said of a question, its remedy included."""
    probe = probe_of(found, name)
    return " → ".join(said.text for said in (probe.detail, probe.remedy) if said)


@every_api
async def test_a_model_that_can_do_everything_is_found_to(provider: Provider, api: str) -> None:
    """Each question is answered, each request is one that its provider takes."""
    provider.default(Patient())
    found = await examined(entry(provider.url, api, pricing={"input": 1, "output": 2}))
    assert set(outcomes(found).values()) == {"yes"}
    assert found.answers
    assert found.found == dict.fromkeys(ALL, True)
    assert [RULES[api](request.body) for request in provider.requests] == [[]] * 8
    undeclared = {"native_json", "vision", "thinking"}
    assert {d.capability for d in found.differences if d.found and not d.declared} == undeclared
    assert len(found.differences) == len(undeclared)
    assert (found.calls, found.usage.total_tokens) == (8, 8 * 70)
    assert found.cost_usd == 0.00088


@every_api
async def test_what_is_declared_right_makes_no_difference(provider: Provider, api: str) -> None:
    """What else the configuration says of the model is kept in what it should say."""
    provider.default(Patient())
    capabilities = {"native_json": True, "vision": True, "thinking": True, "context_window": 9000}
    found = await examined(entry(provider.url, api, capabilities=capabilities))
    assert found.differences == ()
    assert found.capabilities == {**dict.fromkeys(ALL, True), "context_window": 9000}
    assert found.calls == 7
    assert found.cost_usd is None


@every_api
async def test_what_a_server_refuses_is_a_finding(provider: Provider, api: str) -> None:
    """A server that refuses everything but a plain request answers: nothing has failed."""
    refused = ["tools", "native_json", "vision"]
    provider.default(Patient(lacks=frozenset(refused)))
    found = await examined(entry(provider.url, api))
    assert found.answers
    assert "failed" not in outcomes(found).values()
    for name in refused:
        assert (probe_of(found, name).outcome, probe_of(found, name).http_status) == ("no", 400)
        assert f"no {name}" in detail_of(found, name)
    assert outcomes(found)["tool_result"] == outcomes(found)["parallel_calls"] == "skipped"
    assert "takes no tools" in detail_of(found, "forced_tool_choice")
    lost = [d.capability for d in found.differences if d.declared and not d.found]
    assert lost == ["tools", "forced_tool_choice"]


@pytest.mark.parametrize("status", [403, 404, 422, 500, 501])
async def test_servers_refuse_in_many_ways(provider: Provider, status: int) -> None:
    """Once a server answers, these statuses say of a request that it cannot be done."""
    provider.default(Patient(replies={"vision": Fails(status)}))
    found = await examined(entry(provider.url))
    assert outcomes(found)["vision"] == "no"
    assert outcomes(found)["thinking"] == "yes"


@every_api
async def test_a_server_without_keys_is_called_without(provider: Provider, api: str) -> None:
    """No variable is named: nothing that is a key leaves."""
    provider.default(Patient())
    found = await examined(entry(provider.url, api, api_key_env=None))
    assert found.answers
    assert all(KEY not in str(request.headers) for request in provider.requests)


LEAKS = (
    f"Incorrect API key provided: {KEY}.",
    f"Incorrect API key provided: {KEY[:7]}*********{KEY[-4:]}. See your account.",
    f"invalid key …{KEY[-5:]}",
    f"the key {KEY[:2]}...{KEY[-2:]}, or sk-****{KEY[-3:]}.",
    f'{{"key":"{KEY.upper()}","in":["{KEY[3:]}"]}}',
)


@every_api
@pytest.mark.parametrize("status", [401, 400])
async def test_no_part_of_a_key_is_told(provider: Provider, api: str, status: int) -> None:
    """Whatever the provider echoes of it: whole, masked, or at the end of a word."""
    provider.default(Fails(status, {"error": {"message": " ".join(LEAKS)}}))
    found = await examined(entry(provider.url, api))
    assert not found.answers
    shown = found.model_dump_json().casefold()
    parts = [KEY[start : start + 4].casefold() for start in range(len(KEY) - 3)]
    assert [part for part in parts if part in shown] == []
    if status == 401:
        assert found.probes[0].error == "auth"
        assert f"the variable {VARIABLE} (api_key_env)" in detail_of(found, "reach")
        assert len(provider.requests) == 1


async def test_an_answer_does_not_tell_the_key_either(provider: Provider) -> None:
    """What a model says is shown through the same veil."""
    echo = Says(calls=[Called(KEY, {"article": KEY})])
    replies = {"tools": echo, "vision": Says(KEY), "native_json": Says(f'{{"name": "{KEY}"}}')}
    provider.default(Patient(replies=replies))
    found = await examined(entry(provider.url))
    assert KEY not in found.model_dump_json()
    assert "***" in detail_of(found, "vision")


@pytest.mark.parametrize(
    ("key", "text", "shown"),
    [
        ("", "a  plain\ntext...", "a plain text..."),
        ("abc", "abc abcd", "*** ***d"),
        ("sk-abcdef", "the key <b>SK-ABCDEF</b>, of m-1", "the key <b>***</b>, of m-1"),
        ("sk-abcdef", "it ends in …ef, or in s*****f.", "it ends in ***, or in ***"),
        ("sk-abcdef", "wait... for xxxx model-x", "wait... for xxxx model-x"),
    ],
)
def test_a_veil_hides_the_key_alone(key: str, text: str, shown: str) -> None:
    """Whole, in part, or masked; what has nothing of it stays."""
    assert Veil(key).over(text) == shown


@pytest.mark.parametrize("key", [f"{KEY}\n", f" {KEY}", f"{KEY}é", f"{KEY[:4]}\r\nx{KEY}"])
async def test_a_key_that_no_header_can_hold_is_not_sent(provider: Provider, key: str) -> None:
    """It is told by the name of its variable."""
    found = await examined(entry(provider.url), key=key)
    assert provider.requests == []
    assert found.probes[0].error == "setup"
    assert VARIABLE in detail_of(found, "reach")
    assert KEY[4:] not in found.model_dump_json()


async def test_a_missing_key_is_told_by_its_name(provider: Provider) -> None:
    """Nothing is called."""
    found = await examined(entry(provider.url), key="")
    assert (found.answers, found.calls, found.probes[0].error) == (False, 0, "setup")
    assert f"the variable {VARIABLE} is not defined" in detail_of(found, "reach")


PAGE = Raw([b"<html><body>Welcome</body></html>"], headers={"content-type": "text/html"})
OTHER = Raw([b'{"status": "ok"}'], headers={"content-type": "application/json"})
LIST = Raw([b"[1, 2]"], headers={"content-type": "application/json"})
GARBAGE = Raw([b"{]"], headers={"content-type": "application/json"})


@pytest.mark.parametrize(
    ("reply", "kind", "says"),
    [
        (PAGE, "not_an_answer", "text/html"),
        (OTHER, "not_an_answer", "application/json"),
        (LIST, "not_an_answer", "application/json"),
        (GARBAGE, "not_an_answer", "cannot be read as JSON"),
        (Fails(404), "not_found", "check"),
        (Fails(405, "<h1>no</h1>"), "not_found", "check"),
        (Fails(400), "invalid_request", "check model (m-1) and params"),
        (Fails(402), "quota_exhausted", "nothing left to spend"),
        (Fails(429), "rate_limited", "wait a moment"),
        (Fails(429, headers={"Retry-After": "60"}), "rate_limited", "wait 60 s"),
        (Fails(503), "overloaded", "try again later"),
        (Fails(500), "server_error", "look at its log"),
        (Says("a b c d", cut_after=2), "cut", "between it and here"),
        (Raw(), "cut", "between it and here"),
        (Says("a b", error_after=(1, {"message": "out of memory"})), "server_error", "memory"),
    ],
)
async def test_a_fault_has_its_name_and_its_remedy(
    provider: Provider, reply: Reply, kind: str, says: str
) -> None:
    """When the first question fails, nothing else is asked."""
    provider.default(reply)
    found = await examined(entry(provider.url))
    assert not found.answers
    (probe,) = found.probes
    assert (probe.outcome, probe.error) == ("failed", kind)
    assert says in detail_of(found, "reach")
    assert probe.remedy is not None
    assert found.found == {}


@every_api
@pytest.mark.parametrize("reply", [PAGE, OTHER])
async def test_something_else_answers(provider: Provider, api: str, reply: Reply) -> None:
    """A page, or a document of another API, is no answer in any format."""
    provider.default(reply)
    found = await examined(entry(provider.url, api))
    assert found.probes[0].error == "not_an_answer"
    assert f"check base_url ({provider.url}" in detail_of(found, "reach")


@every_api
async def test_nobody_listens(api: str) -> None:
    """The address is told, to be checked."""
    url = await unused_url()
    found = await examined(entry(url, api))
    assert (found.probes[0].error, found.calls) == ("unreachable", 1)
    assert f"is the server started? check base_url ({url}" in detail_of(found, "reach")


@pytest.mark.parametrize(
    ("api", "suffix", "says"),
    [
        ("chat", "", "most servers want it to end with /v1"),
        ("responses", "", "most servers want it to end with /v1"),
        ("chat", "/v1", "check model (m-1) and base_url"),
        ("anthropic", "/v1/", "with sdk: anthropic it goes without /v1"),
        ("anthropic", "", "check model (m-1) and base_url"),
    ],
)
async def test_an_address_that_leads_nowhere(
    provider: Provider, api: str, suffix: str, says: str
) -> None:
    """What is most often wrong with it is told."""
    provider.default(Fails(404, "<h1>Not Found</h1>"))
    found = await examined(entry(provider.url, api, base_url=f"{provider.url}{suffix}"))
    assert found.probes[0].error == "not_found"
    assert "Not Found" in detail_of(found, "reach")
    assert says in detail_of(found, "reach")


@pytest.mark.parametrize(
    ("reply", "limit"),
    [
        (Silent(), "first_token"),
        (Silent(headers_first=True), "first_token"),
        (Says(NUMBERS, hang_after=2), "idle"),
        (Says(NUMBERS, slow=0.1), "total"),
    ],
)
async def test_a_silent_server_is_not_waited_for(
    provider: Provider, reply: Reply, limit: str
) -> None:
    """The model's own timeouts bound each question, and a late one is not put again."""
    provider.default(reply)
    found = await examined(entry(provider.url, timeouts={limit: 0.3}))
    assert (found.probes[0].error, found.calls) == ("timeout", 1)
    assert f"timeouts.{limit}" in detail_of(found, "reach")


@every_api
async def test_a_passing_fault_is_tried_again_once(provider: Provider, api: str) -> None:
    """At once when nobody asks to wait; a second one is told."""
    provider.reply(Fails(503), Fails(429, headers={"Retry-After": "0"}))
    provider.default(Patient())
    found = await examined(entry(provider.url, api))
    assert (found.probes[0].error, found.calls) == ("rate_limited", 2)
    provider.reply(Fails(500))
    found = await examined(entry(provider.url, api))
    assert set(outcomes(found).values()) == {"yes"}


async def test_a_long_wait_is_not_waited(provider: Provider) -> None:
    """Nor is a call made again when the model is never retried."""
    provider.reply(Fails(503, headers={"Retry-After": "6"}))
    assert (await examined(entry(provider.url))).calls == 1
    provider.reply(Fails(503))
    assert (await examined(entry(provider.url, retry={"max_attempts": 1}))).calls == 1


@every_api
async def test_a_provider_that_does_not_count(provider: Provider, api: str) -> None:
    """It is told, and the sum stays empty."""
    provider.default(Patient(usage=None))
    found = await examined(entry(provider.url, api))
    assert outcomes(found)["usage"] == "no"
    assert found.usage.total_tokens == 0


def _delta(text: str) -> bytes:
    return sse(json.dumps({"choices": [{"index": 0, "delta": {"content": text}}]}))


STOP = sse(json.dumps({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}))
ONE_PIECE = Raw([_delta(NUMBERS), STOP, sse("[DONE]")])
SHORT = Raw([_delta("1-20"), STOP])
MESSAGE = {"choices": [{"index": 0, "message": {"content": NUMBERS}, "finish_reason": "stop"}]}
DOCUMENT = Raw([json.dumps(MESSAGE).encode()], headers={"content-type": "application/json"})


@pytest.mark.parametrize(
    ("reply", "outcome", "says"),
    [
        (ONE_PIECE, "no", "in one piece"),
        (DOCUMENT, "no", "one document"),
        (SHORT, "skipped", "too short to tell"),
    ],
)
async def test_an_answer_that_does_not_come_in_pieces(
    provider: Provider, reply: Reply, outcome: str, says: str
) -> None:
    """Held back, or not streamed at all: the rest is asked all the same."""
    provider.default(Patient(replies={"reach": reply}))
    found = await examined(entry(provider.url))
    assert outcomes(found)["streaming"] == outcome
    assert says in detail_of(found, "streaming")
    assert found.capabilities.get("streaming") is (None if outcome == "skipped" else False)
    assert outcomes(found)["tools"] == "yes"


@every_api
@pytest.mark.parametrize("declared", [True, False])
async def test_a_server_that_refuses_to_stream(
    provider: Provider, api: str, declared: bool
) -> None:
    """It answers when it is not asked to, and is asked no more."""
    provider.default(Patient(lacks=frozenset({"streaming"})))
    found = await examined(entry(provider.url, api, capabilities={"streaming": declared}))
    assert {name for name, outcome in outcomes(found).items() if outcome != "yes"} == {"streaming"}
    assert [d.capability for d in found.differences if not d.found] == ["streaming"] * declared
    asked = [bool(request.body.get("stream")) for request in provider.requests]
    assert asked.count(True) == 1


@every_api
async def test_a_server_that_streams_and_was_not_asked_to(provider: Provider, api: str) -> None:
    """It is asked once more, and streams from then on."""
    provider.default(Patient())
    found = await examined(entry(provider.url, api, capabilities={"streaming": False}))
    assert set(outcomes(found).values()) == {"yes"}
    assert found.calls == 9
    assert found.capabilities["streaming"] is True


async def test_thoughts_that_are_declared_and_refused(provider: Provider) -> None:
    """The Responses API refuses to give what a model does not have: the rest is asked without."""

    def answer(request: Any) -> Reply:
        return Fails(400) if request.body.get("include") else Patient()(request)

    provider.default(answer)
    found = await examined(entry(provider.url, "responses", capabilities={"thinking": True}))
    assert {name for name, outcome in outcomes(found).items() if outcome != "yes"} == {"thinking"}
    assert found.capabilities["thinking"] is False


async def test_thoughts_that_a_server_does_not_take_back(provider: Provider) -> None:
    """They are seen, and declaring them would have every second call refused."""

    def answer(request: Any) -> Reply:
        thoughts = "reasoning_content" in str(request.body)
        return Fails(400) if thoughts else Patient(replies={"tools": thinking})(request)

    thinking = Says(reasoning="B-12, then.", calls=CALLS[:1])
    provider.default(answer)
    found = await examined(entry(provider.url))
    assert outcomes(found)["thinking"] == "no"
    assert outcomes(found)["tool_result"] == "yes"


async def test_thoughts_that_are_only_counted(provider: Provider) -> None:
    """A provider that hides them tells how long they were."""
    replies = {"reach": Says(NUMBERS, usage=Tokens(10, 60, reasoning=20))}
    provider.default(Patient(replies=replies))
    found = await examined(entry(provider.url))
    assert found.found["thinking"] is True


@pytest.mark.parametrize(
    ("name", "reply", "says"),
    [
        ("tools", Says("Look it up."), "without calling the tool"),
        ("tools", Says(calls=[Called("search", {"q": "B-12"})]), "search"),
        ("tools", Says(calls=[Called("shelf_of", {"id": 12})]), "do not fit the schema"),
        ("tools", Says(calls=[Called("shelf_of", "{article: B-12")]), "not a JSON object"),
        ("tool_result", Says("I cannot know."), "nothing of the result: I cannot know."),
        ("tool_result", Says(calls=CALLS[:1]), "calls again"),
        ("parallel_calls", Says(calls=CALLS[:1]), "one call at a time"),
        ("parallel_calls", Says("On K1."), "without calling the tool"),
        ("forced_tool_choice", Says("Hello!"), "answered without one"),
        ("native_json", Says("A steel screw."), "schema is ignored, the answer is: A steel screw."),
        ("native_json", Says('```json\n{"name": "x", "cents": 1}\n```'), "schema is ignored"),
        ("native_json", Says('{"name": "steel screw"}'), "does not fit the schema"),
        ("vision", Says("Blue."), "not seen, the answer is: Blue."),
    ],
)
async def test_a_wrong_answer_is_a_finding(
    provider: Provider, name: str, reply: Reply, says: str
) -> None:
    """What came instead is told, and the other questions are asked."""
    provider.default(Patient(replies={name: reply}))
    found = await examined(entry(provider.url))
    assert outcomes(found)[name] == "no"
    assert says in detail_of(found, name)
    others = {other for other, outcome in outcomes(found).items() if outcome != "yes"} - {name}
    assert others <= ({"tool_result", "parallel_calls"} if name == "tools" else set())


async def test_an_answer_that_was_cut_proves_nothing(provider: Provider) -> None:
    """The capability stays as it is declared."""
    cut = Says("Let me think about", stop="max_tokens")
    provider.default(Patient(replies={"tools": cut, "vision": cut}))
    found = await examined(entry(provider.url, max_tokens=50, capabilities={"vision": True}))
    assert outcomes(found)["tools"] == outcomes(found)["vision"] == "failed"
    assert "cut at 50 tokens (max_tokens) → give the model a larger" in detail_of(found, "vision")
    assert "vision" not in found.found
    assert found.capabilities["vision"] is True
    assert found.answers


@pytest.mark.parametrize(
    ("fault", "outcome"), [(Fails(402), "skipped"), (Fails(401), "skipped"), (Fails(503), "yes")]
)
async def test_a_fault_in_the_middle(provider: Provider, fault: Reply, outcome: str) -> None:
    """One that would be met again ends the questions; another one does not."""
    provider.default(Patient(replies={"parallel_calls": fault}))
    found = await examined(entry(provider.url))
    assert outcomes(found)["tool_result"] == "yes"
    assert outcomes(found)["parallel_calls"] == "failed"
    assert outcomes(found)["vision"] == outcomes(found)["native_json"] == outcome
    assert found.answers


@pytest.mark.parametrize(
    ("api", "written", "sent"),
    [("chat", None, 1024), ("chat", 300, 300), ("anthropic", None, 4096), ("anthropic", 300, 300)],
)
async def test_a_question_is_asked_as_runs_ask(
    provider: Provider, api: str, written: int | None, sent: int
) -> None:
    """With the model's own `params` and limit, and no temperature of ours."""
    provider.default(Patient())
    params = {"top_p": 0.5}
    await examined(entry(provider.url, api, max_tokens=written, params=params))
    for request in provider.requests:
        assert (request.body["max_tokens"], request.body["top_p"]) == (sent, 0.5)
        assert "temperature" not in request.body
    questions = [question_of(request.body) for request in provider.requests]
    assert len(questions) == len(set(questions)) + 1  # the thoughts go with the result again


async def test_a_key_of_params_that_is_ours_is_told(provider: Provider) -> None:
    """What the client refuses is a fault of the configuration, and nothing is sent."""
    found = await examined(entry(provider.url, params={"stream": False}))
    assert (found.probes[0].error, provider.requests) == ("setup", [])
    assert "cannot be given in params" in detail_of(found, "reach")


async def test_a_fake_model_can_be_asked() -> None:
    """It echoes: it answers, and can do nothing else."""
    found = await examined(ModelSpec(id="ECHO", sdk="fake", model="fake-1"))
    assert found.answers
    assert {name for name, is_there in found.found.items() if is_there} == {"streaming"}


async def test_a_model_that_is_not_declared() -> None:
    """Those that are declared are listed."""
    loaded = prepare_config(LoomConfig(version=1, models=(entry("http://127.0.0.1:1"),)))
    with pytest.raises(CallerError, match=r"unknown model X \(declared models: M\)"):
        await checkup(loaded, "X")
    with pytest.raises(CallerError, match="no model is declared"):
        await checkup(prepare_config(LoomConfig(version=1)), "X")


def test_the_picture_is_one_colour() -> None:
    """It is a PNG, each pixel of it the same."""
    data = picture()
    assert sniffed_type(data) == PNG
    assert len(data) < 300
    width, height = struct.unpack(">2I", data[16:24])
    size = struct.unpack(">I", data[33:37])[0]
    rows = zlib.decompress(data[41 : 41 + size])
    row = rows[: 1 + 3 * width]
    assert rows == row * height
    assert row[1:] == row[1:4] * width
