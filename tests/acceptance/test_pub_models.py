"""What users of other engines hit with models of providers, messages and costs."""

import asyncio
import json
from contextlib import aclosing
from typing import Any

import pytest

from loom_ia.core.errors import ConfigError
from loom_ia.core.events import (
    BudgetExceeded,
    Event,
    ModelFellBack,
    ModelResponded,
    ModelRetried,
    RunCancelled,
)
from loom_ia.core.model import Reset, TextDelta
from loom_ia.core.state.run import Status
from tests.acceptance.project import Project
from tests.acceptance.provided import ANSWER, APIS, CALL, Api, entry, loom_of, of, provided
from tests.providers.server import Called, Fails, Provider, Raw, Says, Tokens

every_api = pytest.mark.parametrize("api", APIS)

OVERLOADED: dict[Api, dict[str, Any]] = {
    "anthropic": {"type": "overloaded_error", "message": "Overloaded"},
    "chat": {"type": "overloaded_error", "code": "server_overloaded", "message": "Overloaded"},
    "responses": {"type": "server_error", "code": "server_overloaded", "message": "Overloaded"},
}
LONG = "un deux trois quatre cinq six sept huit neuf dix " * 5


@every_api
@pytest.mark.parametrize("after", [0, 20])
async def test_pub_34_overload_inside_an_open_stream(
    project: Project, provider: Provider, api: Api, after: int
) -> None:
    """It is retried, then the fallback answers; nothing is shown twice, what was paid counts."""
    once_more = {"max_attempts": 2, "initial_delay": 0}
    pricing = {"input": 1, "output": 1}
    provided(
        project,
        entry(api, provider, retry=once_more, pricing=pricing),
        entry("chat", provider, "HAIKU", pricing=pricing),
    )
    for _ in range(2):
        provider.reply(Says(LONG, error_after=(after, OVERLOADED[api])))
    provider.reply(ANSWER)
    async with loom_of(project) as loom:
        items = [item async for item in loom.stream("devis", "Calcule.")]
        run_id = next(item.run_id for item in items if isinstance(item, Event))
        report = await loom.report(run_id)
    last = max((i for i, item in enumerate(items) if isinstance(item, Reset)), default=0)
    shown = "".join(item.text for item in items[last:] if isinstance(item, TextDelta))
    assert shown == ANSWER.text
    assert [r.error_kind for r in of(items, ModelRetried)] == ["overloaded"] * (
        2 if after else 1 + (api == "anthropic")
    )
    assert [f.reason for f in of(items, ModelFellBack)] == ["overloaded"]
    if after:
        assert all(r.usage.estimated for r in of(items, ModelRetried))
        spent = sum(r.usage.total_tokens for r in of(items, ModelRetried))
        assert report.total.usage.total_tokens == spent + 160


@every_api
async def test_pub_35_an_empty_answer_is_no_answer(
    project: Project, provider: Provider, api: Api
) -> None:
    """It is asked for again, then the fallback answers; without one the run fails, and says why."""
    pricing = {"input": 1, "output": 1}
    retry = {"max_attempts": 2, "initial_delay": 0}
    provided(project, entry(api, provider, retry=retry, pricing=pricing))
    provider.default(Says("  ", usage=Tokens(10, 1)))
    async with loom_of(project) as loom:
        result = await loom.run("devis", "Calcule.")
        assert (result.error_type, len(provider.requests)) == ("model.transient", 2)
        assert result.error is not None
        assert "empty" in result.error
        assert result.usage.total_tokens == 22, "both were paid"
        streamed = [item async for item in loom.stream("devis", "Calcule.")]
    assert [r.final for r in of(streamed, ModelRetried)] == [False, True]


@every_api
async def test_pub_36_cancelled_streams_are_counted_and_let_go(
    project: Project, provider: Provider, api: Api
) -> None:
    """Each run keeps what it consumed, flagged; no connection is left, and the next run works."""
    provided(project, entry(api, provider, pricing={"input": 1, "output": 1}))
    provider.default(Says(LONG, hang_after=4))
    count = 60
    async with loom_of(project) as loom:

        async def begun_then_cancelled() -> str:
            run_id = ""
            async for item in loom.stream("devis", "Calcule."):
                run_id = getattr(item, "run_id", run_id)
                if isinstance(item, TextDelta):
                    await loom.cancel(run_id)
            return run_id

        ids = await asyncio.gather(*(begun_then_cancelled() for _ in range(count)))
        for run_id in ids:
            events = await loom.events(run_id)
            (cut,) = of(events, ModelRetried)
            assert (cut.error_kind, cut.final, cut.usage.estimated) == ("interrupted", True, True)
            assert cut.usage.input_tokens > 0
            assert len(of(events, RunCancelled)) == 1
            assert (await loom.result(run_id)).usage.estimated
        await provider.idle()
        provider.default(ANSWER)
        assert (await loom.run("devis", "Calcule.")).ok


@every_api
async def test_pub_37_a_cancel_closes_the_connection(
    project: Project, provider: Provider, api: Api
) -> None:
    """The provider sees that nobody listens any more, within a second."""
    provided(project, entry(api, provider))
    provider.reply(Says(LONG, hang_after=3))
    async with loom_of(project) as loom:
        run_id = await loom.submit("devis", "Calcule.")
        request = await provider.received(1)
        await request.held.wait()
        await loom.cancel(run_id)
        await request.disconnected.wait(1.0)


@every_api
async def test_pub_38_streamed_or_not_costs_the_same(
    project: Project, provider: Provider, api: Api
) -> None:
    """To the last decimal, tokens of the cache included."""
    pricing = {
        "input": 3,
        "output": 15,
        "cache_read": 0.3,
        "cache_write": 3.75,
        "cache_write_1h": 6,
    }
    usage = Tokens(1001, 203, cache_read=57, cache_write_5m=31 if api == "anthropic" else 0)
    provider.default(Says("Bonjour.", usage=usage))
    costs: list[float] = []
    for streaming in (True, False):
        provided(
            project, entry(api, provider, pricing=pricing, capabilities={"streaming": streaming})
        )
        async with loom_of(project) as loom:
            result = await loom.run("devis", "Bonjour.")
        assert not result.usage.estimated
        costs.append(result.cost_usd)
    assert costs[0] == costs[1] > 0
    assert [request.body.get("stream", False) for request in provider.requests] == [True, False]


@every_api
async def test_pub_38_without_usage_a_budget_still_holds(
    project: Project, provider: Provider, api: Api
) -> None:
    """What nobody counted is estimated, flagged, and stops the run."""
    pricing = {"input": 1000, "output": 1000}
    project.root = {"budgets": {"run": {"max_cost": 0.01}}}
    provided(project, entry(api, provider, pricing=pricing))
    provider.reply(Says(CALL.text, calls=CALL.calls, usage=None))
    provider.reply(Says("Je conclus.", usage=None))
    async with loom_of(project) as loom:
        result = await loom.run("devis", "Calcule.")
        events = await loom.events(result.run_id)
        report = await loom.report(result.run_id)
    assert result.text == "Je conclus."
    assert [e.limit for e in of(events, BudgetExceeded)] == ["max_cost"]
    assert all(r.usage.estimated for r in of(events, ModelResponded))
    assert report.total.usage.estimated


async def test_pub_39_one_budget_for_every_api(project: Project, provider: Provider) -> None:
    """A run that goes from one API to the next adds up what all of them consumed."""
    pricing = {"input": 1, "output": 1}
    once = {"max_attempts": 1}
    provided(
        project,
        *(entry(api, provider, api.upper(), pricing=pricing, retry=once) for api in APIS),
    )
    for api in APIS:
        provider.reply(CALL, model=f"{api}-1")
        provider.reply(Fails(500), model=f"{api}-1")
    provider.reply(CALL, model="responses-1")
    provider.default(ANSWER)
    async with loom_of(project) as loom:
        result = await loom.run("devis", "Calcule.")
        report = await loom.report(result.run_id)
    assert [m.name for m in report.models] == ["ANTHROPIC", "CHAT", "RESPONSES"]
    assert sum(m.cost_usd for m in report.models) == pytest.approx(report.total.cost_usd, abs=1e-12)
    assert result.cost_usd == pytest.approx(report.total.cost_usd, abs=1e-12)


@every_api
async def test_pub_41_a_resumed_run_counts_all_its_calls(
    project: Project, provider: Provider, api: Api
) -> None:
    """What was spent before the failure is still there after it."""
    pricing = {"input": 1, "output": 1}
    provided(project, entry(api, provider, pricing=pricing, retry={"max_attempts": 1}))
    provider.reply(CALL)
    provider.reply(Fails(500))
    async with loom_of(project) as loom:
        failed = await loom.run("devis", "Calcule.")
    assert (failed.status, failed.usage.total_tokens) == (Status.FAILED, 120)
    provider.reply(ANSWER)
    async with loom_of(project) as loom:
        result = await loom.resume(failed.run_id)
        report = await loom.report(failed.run_id)
    assert result.ok
    assert report.total.calls == 2
    assert report.total.cost_usd == pytest.approx(280e-6)


@every_api
async def test_parallel_calls_are_answered_in_their_order(
    project: Project, provider: Provider, api: Api
) -> None:
    """Two calls in one answer, two results in the next request."""
    calls = [
        Called("prix_ttc", {"montant_ht": 100, "taux_tva": 10}),
        Called("prix_ttc", {"montant_ht": 200}),
    ]
    provided(project, entry(api, provider))
    provider.reply(Says("", calls=calls))
    provider.reply(ANSWER)
    async with loom_of(project) as loom:
        result = await loom.run("devis", "Calcule.")
    assert result.ok
    body = str(provider.requests[1].body)
    assert body.index("110.0") < body.index("240.0")


async def test_the_same_scenario_leaves_the_same_events(
    project: Project, provider: Provider
) -> None:
    """Whoever answers, the journal tells the same story."""
    told: list[list[str]] = []
    for api in APIS:
        provided(project, entry(api, provider), entry(api, provider, "HAIKU"))
        provider.reply(Fails(500))
        provider.reply(Says(CALL.text, reasoning="Calculons.", calls=CALL.calls))
        provider.reply(Says(LONG, cut_after=3))
        provider.reply(Fails(402))
        provider.reply(ANSWER)
        async with loom_of(project) as loom:
            result = await loom.run("devis", "Calcule.")
            told.append([event.type for event in await loom.events(result.run_id)])
        assert result.text == ANSWER.text
    assert told[0] == told[1] == told[2]
    assert {"model.retried", "model.fell_back", "tool.completed"} <= set(told[0])


@pytest.mark.parametrize("first", APIS)
@pytest.mark.parametrize("second", APIS)
async def test_a_conversation_changes_provider_in_mid_run(
    project: Project, provider: Provider, first: Api, second: Api
) -> None:
    """Calls and results go on, thoughts stay behind, and what is sent is valid for the other."""
    once = {"max_attempts": 1}
    project.tools = ["prix_ttc", "lire"]
    provided(
        project,
        entry(first, provider, retry=once, capabilities={"thinking": True}),
        entry(second, provider, "HAIKU", capabilities={"thinking": True}),
    )
    calls = [
        *CALL.calls,
        Called("inconnu.e", {"a": 1}, call_id="functions.x:0"),
        Called("lire", {}),
    ]
    provider.reply(Says("  ", reasoning="Je pense.", calls=calls))
    provider.reply(Fails(503))
    provider.reply(Says("", reasoning="Autrement.", calls=CALL.calls))
    provider.reply(ANSWER)
    provider.reply(ANSWER)
    async with loom_of(project) as loom:
        result = await loom.run("devis", "Calcule.", session_id="s")
        assert result.text == ANSWER.text
        assert (await loom.run("devis", "Et encore ?", session_id="s")).ok
    assert "Je pense." not in str(provider.requests[2].body)
    assert "1375.0" in str(provider.requests[2].body)
    assert "Autrement." not in str(provider.requests[4].body), "nor in the next run"


async def test_a_failed_run_is_resumed_at_the_head_of_its_chain(
    project: Project, provider: Provider
) -> None:
    """All of it had failed: the last one is not the only one that is asked again."""
    once = {"max_attempts": 1}
    provided(
        project,
        entry("chat", provider, retry=once),
        entry("anthropic", provider, "HAIKU", retry=once),
    )
    provider.reply(Fails(500))
    provider.reply(Fails(500))
    async with loom_of(project) as loom:
        failed = await loom.run("devis", "Calcule.")
        assert failed.error_type == "model.transient"
        provider.reply(ANSWER)
        assert (await loom.resume(failed.run_id)).ok
    assert [request.body["model"] for request in provider.requests] == ["m-1", "haiku-1", "m-1"]


@every_api
async def test_thoughts_that_are_no_longer_valid_are_left_out(
    project: Project, provider: Provider, api: Api
) -> None:
    """A provider that refuses its own thoughts is asked again without them, within the attempt."""
    said = {
        "anthropic": "messages.1.content.0: Invalid `signature` in `thinking` block",
        "chat": "reasoning content is not valid here",
        "responses": "The encrypted content could not be verified",
    }
    provided(project, entry(api, provider, capabilities={"thinking": True}))
    provider.reply(Says(CALL.text, reasoning="Hum.", calls=CALL.calls))
    error = {"type": "invalid_request_error", "message": said[api]}
    provider.reply(Fails(400, body={"error": error}))
    provider.reply(ANSWER)
    async with loom_of(project) as loom:
        result = await loom.run("devis", "Calcule.")
        events = await loom.events(result.run_id)
    assert result.text == ANSWER.text
    assert of(events, ModelRetried) == []
    assert "Hum." in str(provider.requests[1].body)
    assert "Hum." not in str(provider.requests[2].body)


@every_api
async def test_params_of_an_agent_do_not_replace_the_request(
    project: Project, provider: Provider, api: Api
) -> None:
    """What the engine writes is refused in `params`, in the model as in the agent."""
    provided(project, entry(api, provider, params={"stream": False}))
    with pytest.raises(ConfigError, match=r"models\[M\]\.params\.stream — stream is written"):
        async with loom_of(project):
            pass
    main = {"model": "M", "system_file": "devis.md", "llm": {"params": {"tools": []}}}
    project.agent = {"main": main}
    project.root["models"] = [entry(api, provider)]
    project.save()
    with pytest.raises(ConfigError, match=r"main\.llm\.params\.tools — tools is written"):
        async with loom_of(project):
            pass


@every_api
async def test_an_abandoned_stream_is_counted_and_can_be_resumed(
    project: Project, provider: Provider, api: Api
) -> None:
    """Who leaves the iteration closes the connection; what was consumed stays in the journal."""
    provided(project, entry(api, provider, pricing={"input": 1, "output": 1}))
    provider.reply(Says(LONG, hang_after=3))
    provider.reply(ANSWER)
    async with loom_of(project) as loom:
        run_id = ""
        stream = loom.stream("devis", "Calcule.")
        async with aclosing(stream):  # type: ignore[type-var]
            async for item in stream:
                run_id = item.run_id if isinstance(item, Event) else run_id
                if isinstance(item, TextDelta):
                    break
        request = await provider.received(1)
        await request.disconnected.wait(1.0)
        (cut,) = of(await loom.events(run_id), ModelRetried)
        assert (cut.error_kind, cut.usage.estimated) == ("interrupted", True)
        result = await loom.resume(run_id)
        report = await loom.report(run_id)
    assert result.text == ANSWER.text
    assert result.usage.total_tokens == cut.usage.total_tokens + 160
    assert report.total.usage == result.usage


@every_api
async def test_attempts_that_give_nothing_stop_at_the_budget(
    project: Project, provider: Provider, api: Api
) -> None:
    """Once they have used it up, there is neither another attempt nor another model."""
    project.root = {"budgets": {"run": {"max_cost": 0.02}}}
    pricing = {"input": 100, "output": 100}
    retry = {"max_attempts": 50, "initial_delay": 0}
    provided(
        project,
        entry(api, provider, pricing=pricing, retry=retry),
        entry("chat", provider, "HAIKU", pricing=pricing, retry=retry),
    )
    provider.default(Says("  ", usage=Tokens(90, 10)))
    async with loom_of(project) as loom:
        result = await loom.run("devis", "Calcule.")
        events = await loom.events(result.run_id)
    assert result.status is Status.FAILED
    assert len(provider.requests) == 2
    assert [r.final for r in of(events, ModelRetried)] == [False, True]
    assert of(events, ModelFellBack) == []
    assert [e.limit for e in of(events, BudgetExceeded)] == ["max_cost"]


@every_api
@pytest.mark.parametrize("counted", [Tokens(10**400, 5), Tokens(5, 10**400), Tokens(0, 5)])
async def test_an_absurd_count_is_not_believed(
    project: Project, provider: Provider, api: Api, counted: Tokens
) -> None:
    """The tokens are counted from the texts instead, and the journal can be read again."""
    provided(project, entry(api, provider, pricing={"input": 1, "output": 1}))
    provider.reply(Says("Bonjour.", usage=counted))
    async with loom_of(project) as loom:
        result = await loom.run("devis", "Bonjour.")
        report = await loom.report(period="day")
    assert result.ok
    assert result.usage.estimated
    assert result.usage.input_tokens > 0
    assert result.usage.output_tokens > 0
    assert report.total.cost_usd == result.cost_usd < 1


async def test_a_character_cut_between_two_fragments_is_one(
    project: Project, provider: Provider
) -> None:
    """Escapes of both halves stand in two pieces of the arguments."""
    halves = ['{"cle": "\\ud83d', '\\ude00"}']
    lines = [
        {"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "lire", "arguments": ""}}]},
        *({"tool_calls": [{"index": 0, "function": {"arguments": half}}]} for half in halves),
    ]
    chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in lines]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    raw = [f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks]
    project.tools = ["lire"]
    provided(project, entry("chat", provider))
    headers = {"content-type": "text/event-stream"}
    provider.reply(Raw(headers=headers, chunks=[*raw, b"data: [DONE]\n\n"]))
    provider.reply(ANSWER)
    async with loom_of(project) as loom:
        assert (await loom.run("devis", "Lis.")).ok
    assert project.effects() == ["lire:\N{GRINNING FACE}"]


async def test_a_model_that_runs_wild_is_not_obeyed(project: Project, provider: Provider) -> None:
    """Thousands of calls in one answer are no answer."""
    provided(project, entry("chat", provider, retry={"max_attempts": 1}))
    provider.reply(Says("", calls=[Called("prix_ttc", {"montant_ht": i}) for i in range(600)]))
    async with loom_of(project) as loom:
        result = await loom.run("devis", "Calcule.")
    assert result.error_type == "model.transient"
    assert "600 calls" in (result.error or "")
    assert project.effects() == []


async def test_a_price_that_is_not_known_is_not_zero(project: Project, provider: Provider) -> None:
    """The result says that its cost leaves calls out."""
    provided(project, entry("chat", provider))
    provider.reply(ANSWER)
    async with loom_of(project) as loom:
        result = await loom.run("devis", "Calcule.")
        trace = await loom.trace(result.run_id)
    assert (result.cost_usd, result.unpriced_calls) == (0.0, 1)
    assert str(trace).splitlines()[0].endswith("$?")
