"""A call of the Responses API as HTTP: what goes wrong, what is told, and what must not leak."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from loom_ia.adapters.models.openai_responses.client import ResponsesModel
from loom_ia.adapters.models.openai_sdk import OFFICIAL
from loom_ia.core.errors import ModelError
from loom_ia.core.model import HttpExchange, ModelSpec
from loom_ia.core.ports import ModelAccess
from tests.adapters.models.contract import asking, hear
from tests.providers.formats.chat import error
from tests.providers.items import BEGUN, completed, event, raw, response, said
from tests.providers.replies import Fails, Raw, Says
from tests.providers.rules import problems_of_responses
from tests.providers.server import Provider

KEY = "sk-secret"


def made(url: str | None) -> ResponsesModel:
    """Make a model that is served there."""
    spec = ModelSpec(id="GPT", sdk="openai", api="responses", model="gpt-m1", base_url=url)
    return ResponsesModel(spec, ModelAccess(api_key=KEY))


@pytest.fixture
async def model(provider: Provider) -> AsyncIterator[ResponsesModel]:
    """Serve a model for the length of a test."""
    client = made(f"{provider.url}/v1")
    yield client
    await client.close()


# -- what goes wrong ------------------------------------------------------------------------------

INVALID = "invalid_request_error"
TOO_LONG = error(
    "Your input exceeds the context window of this model.",
    type=INVALID,
    code="context_length_exceeded",
)
NO_MONEY = error("You exceeded your current quota", type="insufficient_quota")
FLAGGED = error("Your prompt was flagged", type=INVALID, code="invalid_prompt")


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (Fails(400), "invalid_request"),
        (Fails(400, TOO_LONG), "context_overflow"),
        (Fails(400, FLAGGED), "content_filtered"),
        (Fails(401), "auth"),
        (Fails(403), "auth"),
        (Fails(404), "invalid_request"),
        (Fails(408), "transient"),
        (Fails(409), "transient"),
        (Fails(429), "transient"),
        (Fails(429, NO_MONEY), "quota_exhausted"),
        (Fails(500), "transient"),
        (Fails(503), "overloaded"),
        (Fails(502, "<html>Bad gateway</html>"), "transient"),
    ],
)
async def test_an_error_has_a_kind(
    provider: Provider, model: ResponsesModel, reply: Fails, kind: str
) -> None:
    """What the API answers decides whether trying again, or elsewhere, can help."""
    provider.reply(reply)
    heard = await hear(model, asking(model.spec))
    assert heard.error is not None
    assert (heard.error.kind, heard.error.http_status) == (kind, reply.status)
    assert len(provider.requests) == 1


async def test_an_error_inside_the_stream_ends_it(
    provider: Provider, model: ResponsesModel
) -> None:
    """What was said before is heard, and the error has the kind that its code says."""
    told = {"code": "rate_limit_exceeded", "message": "Too fast"}
    provider.reply(Says("Bonjour toi", error_after=(1, told)))
    heard = await hear(model, asking(model.spec))
    assert heard.text == "Bonjour"
    assert heard.error is not None
    assert (heard.error.kind, heard.error.http_status) == ("transient", None)
    assert str(heard.error) == "GPT: Too fast"


async def test_the_key_stands_in_no_error(provider: Provider, model: ResponsesModel) -> None:
    """A provider that repeats the key does not have it shown, in the answer as before it."""
    told = {"code": "server_error", "message": f"no {KEY}"}
    failed = event("response.failed", response=response("failed", error=told))
    provider.reply(Fails(401, error(f"Incorrect API key provided: {KEY}")), raw(BEGUN, failed))
    for _ in range(2):
        with pytest.raises(ModelError) as caught:
            async for _ in model.stream(asking(model.spec)):
                pass
        assert "***" in str(caught.value)
        assert KEY not in str(caught.value)


# -- connections ----------------------------------------------------------------------------------


async def test_an_error_inside_the_answer_closes_the_connection(
    provider: Provider, model: ResponsesModel
) -> None:
    """What may still come after an answer that failed is not waited for."""
    failed = event("response.failed", response=response("failed"))
    provider.reply(Raw([*raw(BEGUN, failed).chunks, b": and then nothing\n\n"] * 2, pause=0.5))
    heard = await hear(model, asking(model.spec))
    assert heard.error is not None
    await provider.requests[0].disconnected.wait(1)
    await provider.idle()


async def test_a_connection_serves_again(provider: Provider, model: ResponsesModel) -> None:
    """Answers that are whole, and errors, leave their connection to the next call."""
    marked = Raw([*raw(BEGUN, *said("Deux"), completed()).chunks, b"data: [DONE]\n\n"])
    provider.reply(Says("Un"), marked, Fails(429), Says("Trois"))
    heard = [(await hear(model, asking(model.spec))).text for _ in range(4)]
    assert heard == ["Un", "Deux", "", "Trois"]
    assert provider.opened == 1


async def test_calls_that_run_together_do_not_mix(
    provider: Provider, model: ResponsesModel
) -> None:
    """Each reads its own answer, and all their connections are let go of."""
    provider.default(lambda request: Says(f"Je réponds à {request.number}.", slow=0.001))
    calls = [hear(model, asking(model.spec)) for _ in range(20)]
    heard = await asyncio.gather(*calls)
    assert {each.answer.message.as_text() for each in heard} == {
        f"Je réponds à {number}." for number in range(20)
    }
    await model.close()
    await provider.idle()


# -- what goes over the wire ----------------------------------------------------------------------

LEAKING = {
    "OPENAI_API_KEY": "leaked-key",
    "OPENAI_ADMIN_KEY": "leaked-admin-key",
    "OPENAI_ORG_ID": "leaked-organization",
    "OPENAI_PROJECT_ID": "leaked-project",
    "OPENAI_WEBHOOK_SECRET": "leaked-secret",
    "OPENAI_BASE_URL": "http://127.0.0.1:9/leaked",
    "OPENAI_CUSTOM_HEADERS": "\n".join(
        f"{name}: leaked"
        for name in (
            "Authorization",
            "Host",
            "User-Agent",
            "X-Api-Key",
            "OpenAI-Organization",
            "X-Stainless-Lang",
            "X-Leaked",
        )
    ),
}


async def test_the_environment_changes_no_request(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the SDK reads from variables is set aside: the configuration says it all."""
    for name, value in LEAKING.items():
        monkeypatch.setenv(name, value)
    provider.reply(Says("Oui"))
    model = made(f"{provider.url}/v1")
    assert (await hear(model, asking(model.spec))).text == "Oui"
    await model.close()
    (request,) = provider.requests
    assert request.path == "/v1/responses"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert "leaked" not in str(request.headers)
    assert "leaked" not in str(request.query)
    assert problems_of_responses(request.body) == []


async def test_the_official_address_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without `base_url` it is OpenAI that is called, whatever the environment says."""
    monkeypatch.setenv("OPENAI_BASE_URL", LEAKING["OPENAI_BASE_URL"])
    model = made(None)
    await model.prepare()
    assert str(model._sdk.base_url).rstrip("/") == OFFICIAL
    await model.close()


async def test_a_model_without_a_key_does_not_look_for_one(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that asks for no key gets none of the environment's."""
    monkeypatch.setenv("OPENAI_API_KEY", "leaked")
    provider.reply(Says("Oui"))
    model = ResponsesModel(made(f"{provider.url}/v1").spec)
    await hear(model, asking(model.spec))
    await model.close()
    assert "leaked" not in str(provider.requests[0].headers)


async def test_an_exchange_is_told_without_the_key(
    provider: Provider, model: ResponsesModel
) -> None:
    """What was sent and what came back are told once the answer is over."""
    provider.reply(Says("Oui", headers={"x-ratelimit-remaining-tokens": "9"}))
    told: list[HttpExchange] = []
    async for _ in model.observed(asking(model.spec), told.append):
        pass
    (exchange,) = told
    assert (exchange.method, exchange.status_code) == ("POST", 200)
    assert exchange.url == f"{provider.url}/v1/responses"
    assert '"gpt-m1"' in exchange.request_body
    assert "response.completed" in exchange.response_body
    assert exchange.response_headers["x-ratelimit-remaining-tokens"] == "9"
    assert exchange.error == ""
    assert KEY not in exchange.model_dump_json()
