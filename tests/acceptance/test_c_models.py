"""C. Models of providers: retries, fallbacks, circuits, limits of time, prices."""

import time

import pytest

from loom_ia.core.events import (
    CircuitOpened,
    ModelFellBack,
    ModelResponded,
    ModelRetried,
    RunFailed,
)
from loom_ia.core.model import Reset, TextDelta
from loom_ia.core.state.run import Status
from loom_ia.testing.clock import ManualClock
from tests.acceptance.project import Project
from tests.acceptance.provided import ANSWER, APIS, CALL, Api, entry, loom_of, of, provided
from tests.providers.server import Fails, Provider, Says, Silent, Tokens

every_api = pytest.mark.parametrize("api", APIS)


@every_api
async def test_c1_a_limited_call_is_made_again_when_asked(
    project: Project, provider: Provider, api: Api
) -> None:
    """The wait is what the provider asks for, and the retry is a fact."""
    provided(project, entry(api, provider))
    provider.reply(Fails(429, headers={"Retry-After": "1"}))
    provider.reply(ANSWER)
    started = time.monotonic()
    async with loom_of(project) as loom:
        result = await loom.run("devis", "Calcule.")
        events = await loom.events(result.run_id)
    assert result.status is Status.COMPLETED
    assert time.monotonic() - started >= 1
    (retried,) = of(events, ModelRetried)
    assert (retried.attempt, retried.error_kind, retried.http_status) == (1, "transient", 429)
    assert (retried.delay_s, retried.usage, retried.final) == (1.0, None, False)
    (responded,) = of(events, ModelResponded)
    assert responded.attempts == 2


@every_api
async def test_c2_a_fallback_leads_until_the_run_is_over(
    project: Project, provider: Provider, api: Api
) -> None:
    """After three failures HAIKU answers, and keeps answering; the history is not lost."""
    provided(project, entry(api, provider), entry("chat", provider, "HAIKU"))
    for _ in range(3):
        provider.reply(Fails(500))
    provider.reply(CALL, model="haiku-1")
    provider.reply(ANSWER, model="haiku-1")
    async with loom_of(project) as loom:
        result = await loom.run("devis", "Calcule.")
        events = await loom.events(result.run_id)
    assert result.text == ANSWER.text
    assert [request.body["model"] for request in provider.requests] == [
        *["m-1"] * 3,
        *["haiku-1"] * 2,
    ]
    (fell_back,) = of(events, ModelFellBack)
    assert (fell_back.from_model, fell_back.to_model, fell_back.reason) == (
        "M",
        "HAIKU",
        "transient",
    )
    assert [r.attempt for r in of(events, ModelRetried)] == [1, 2]
    assert [r.model for r in of(events, ModelResponded)] == ["HAIKU", "HAIKU"]


@every_api
async def test_c3_a_used_up_quota_falls_back_at_once(
    project: Project, provider: Provider, api: Api
) -> None:
    """Trying again would not help."""
    provided(project, entry(api, provider), entry(api, provider, "HAIKU"))
    error = {"error": {"type": "insufficient_quota", "message": "no money left"}}
    provider.reply(Fails(429, body=error))
    provider.reply(ANSWER)
    async with loom_of(project) as loom:
        result = await loom.run("devis", "Calcule.")
        events = await loom.events(result.run_id)
    assert result.ok
    assert of(events, ModelRetried) == []
    assert [f.reason for f in of(events, ModelFellBack)] == ["quota_exhausted"]


@every_api
async def test_c4_a_refused_key_fails_the_run(
    project: Project, provider: Provider, api: Api
) -> None:
    """Neither a retry nor a fallback; the run says that the key is wrong, and never shows it."""
    provided(project, entry(api, provider), entry(api, provider, "HAIKU"))
    provider.reply(Fails(401))
    async with loom_of(project) as loom:
        result = await loom.run("devis", "Calcule.")
        events = await loom.events(result.run_id)
    assert (result.status, result.error_type) == (Status.FAILED, "model.auth")
    assert len(provider.requests) == 1
    assert of(events, ModelRetried) == of(events, ModelFellBack) == []


@every_api
async def test_c5_an_open_circuit_makes_no_call(
    project: Project, provider: Provider, api: Api
) -> None:
    """Five failures open it; the sixth run makes no request; after the cooldown one is tried."""
    breaker = {"failures": 5, "cooldown": 60}
    retry = {"max_attempts": 1}
    provided(project, entry(api, provider, retry=retry, circuit_breaker=breaker))
    provider.default(Fails(500))
    clock = ManualClock()
    async with loom_of(project, clock=clock) as loom:
        ids = [(await loom.run("devis", "Calcule.")).run_id for _ in range(5)]
        assert len(provider.requests) == 5
        opened = [len(of(await loom.events(run_id), CircuitOpened)) for run_id in ids]
        assert opened == [0, 0, 0, 0, 1]
        sixth = await loom.run("devis", "Calcule.")
        assert sixth.error_type == "model.unavailable"
        assert len(provider.requests) == 5
        clock.advance(61)
        await loom.run("devis", "Calcule.")
        assert len(provider.requests) == 6, "one trial, which fails"
        await loom.run("devis", "Calcule.")
        assert len(provider.requests) == 6
        clock.advance(61)
        provider.default(ANSWER)
        assert (await loom.run("devis", "Calcule.")).ok
        assert (await loom.run("devis", "Calcule.")).ok


@every_api
async def test_c6_a_silent_server_is_asked_again(
    project: Project, provider: Provider, api: Api
) -> None:
    """Nothing within `first_token` is a passing error."""
    provided(project, entry(api, provider, timeouts={"first_token": 0.2}))
    provider.reply(Silent())
    provider.reply(ANSWER)
    async with loom_of(project) as loom:
        result = await loom.run("devis", "Calcule.")
        events = await loom.events(result.run_id)
    assert result.ok
    (retried,) = of(events, ModelRetried)
    assert retried.error_kind == "transient"
    assert "first_token" in retried.error
    await provider.requests[0].disconnected.wait(1.0)


@every_api
@pytest.mark.parametrize(("limit", "says"), [("idle", "idle"), ("total", "total")])
async def test_c6_silence_and_length_are_bounded_too(
    project: Project, provider: Provider, api: Api, limit: str, says: str
) -> None:
    """A stream that stops in the middle, and one that never ends: what was shown is taken back."""
    provided(project, entry(api, provider, timeouts={limit: 0.3}))
    provider.reply(Says("un deux trois quatre", hang_after=2))
    provider.reply(ANSWER)
    async with loom_of(project) as loom:
        items = [item async for item in loom.stream("devis", "Calcule.")]
    (retried,) = of(items, ModelRetried)
    assert f"timeouts.{says}" in retried.error
    assert retried.usage is not None
    assert retried.usage.estimated
    resets = [i for i, item in enumerate(items) if isinstance(item, Reset)]
    shown = "".join(i.text for i in items[resets[0] :] if isinstance(i, TextDelta))
    assert len(resets) == 1
    assert shown == ANSWER.text


@every_api
async def test_c8_a_truncated_answer_is_an_error(
    project: Project, provider: Provider, api: Api
) -> None:
    """It is not retried, and what it consumed is counted."""
    pricing = {"input": 1, "output": 5}
    provided(project, entry(api, provider, max_tokens=20, pricing=pricing))
    provider.reply(Says("Pour 1 250 € HT", stop="max_tokens", usage=Tokens(1000, 200)))
    async with loom_of(project) as loom:
        result = await loom.run("devis", "Calcule.")
        events = await loom.events(result.run_id)
        report = await loom.report(result.run_id)
    assert result.error_type == "model.truncated"
    assert len(provider.requests) == 1
    (failed,) = of(events, RunFailed)
    assert failed.cost_usd == report.total.cost_usd == 0.002
    assert (report.total.calls, report.total.failed_attempts) == (0, 1)


@every_api
async def test_c9_the_cost_is_exact(project: Project, provider: Provider, api: Api) -> None:
    """A thousand tokens at one dollar a million and two hundred at five make 0.002 dollars."""
    provided(project, entry(api, provider, pricing={"input": 1, "output": 5}))
    provider.reply(Says("Bonjour.", usage=Tokens(1000, 200)))
    async with loom_of(project) as loom:
        result = await loom.run("devis", "Bonjour.")
        events = await loom.events(result.run_id)
    assert result.cost_usd == 0.002
    (responded,) = of(events, ModelResponded)
    assert (responded.prices.input, responded.prices.output) == (1, 5)
    assert responded.prices.source == "config"


@every_api
async def test_c10_a_fallback_costs_its_own_price(
    project: Project, provider: Provider, api: Api
) -> None:
    """The report tells each model with what it cost."""
    dear, cheap = {"input": 10, "output": 10}, {"input": 1, "output": 1}
    provided(
        project,
        entry(api, provider, pricing=dear, retry={"max_attempts": 1}),
        entry(api, provider, "HAIKU", pricing=cheap),
    )
    provider.reply(Fails(503))
    provider.reply(Says("Bonjour.", usage=Tokens(1000, 1000)))
    async with loom_of(project) as loom:
        result = await loom.run("devis", "Bonjour.")
        report = await loom.report(result.run_id)
    assert result.cost_usd == 0.002
    assert [(m.name, m.cost_usd) for m in report.models] == [("HAIKU", 0.002)]


@every_api
async def test_c12_a_schema_is_given_natively_without_tools_only(
    project: Project, provider: Provider, api: Api
) -> None:
    """With tools the prompt asks for it instead."""
    schema = {
        "type": "object",
        "properties": {"ttc": {"type": "number"}},
        "required": ["ttc"],
        "additionalProperties": False,
    }
    keys = {"anthropic": "output_config", "chat": "response_format", "responses": "text"}
    model = entry(api, provider, capabilities={"native_json": True})
    provider.default(Says('{"ttc": 1375}'))
    for tools in ([], ["prix_ttc"]):
        project.tools = tools
        provided(project, model, output={"schema": schema})
        async with loom_of(project) as loom:
            assert (await loom.run("devis", "Calcule.")).ok
    native, asked = (request.body for request in provider.requests)
    assert str(schema["required"]) in str(native[keys[api]])
    assert "ttc" not in str(native.get("system") or native.get("instructions") or "")
    assert keys[api] not in asked
    assert "JSON Schema" in str(asked)


async def test_an_hour_of_waiting_is_not_waited(project: Project, provider: Provider) -> None:
    """A wait that is longer than `max_delay` gives the model up instead."""
    provided(project, entry("chat", provider), entry("chat", provider, "HAIKU"))
    provider.reply(Fails(429, headers={"Retry-After": "3600"}))
    provider.reply(ANSWER)
    async with loom_of(project) as loom:
        result = await loom.run("devis", "Calcule.")
        events = await loom.events(result.run_id)
    assert result.ok
    assert of(events, ModelRetried) == []
    assert [f.to_model for f in of(events, ModelFellBack)] == ["HAIKU"]
