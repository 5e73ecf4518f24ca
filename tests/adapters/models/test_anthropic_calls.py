"""A call of the Messages API as HTTP: what goes wrong, what is told, and what must not leak."""

from collections.abc import AsyncIterator

import pytest

from loom_ia.adapters.models.anthropic.client import OFFICIAL, AnthropicModel
from loom_ia.core.model import HttpExchange, ModelSpec
from loom_ia.core.ports import ModelAccess
from tests.adapters.models.contract import asking, hear
from tests.providers.formats.anthropic import error
from tests.providers.replies import Fails, Says
from tests.providers.rules import problems_of_messages
from tests.providers.server import Provider

KEY = "sk-secret"


def made(url: str | None) -> AnthropicModel:
    """Make a model that is served there."""
    spec = ModelSpec(id="CLAUDE", sdk="anthropic", model="claude-m1", base_url=url)
    return AnthropicModel(spec, ModelAccess(api_key=KEY))


@pytest.fixture
async def model(provider: Provider) -> AsyncIterator[AnthropicModel]:
    """Serve a model for the length of a test."""
    client = made(provider.url)
    yield client
    await client.close()


# -- what goes wrong ------------------------------------------------------------------------------

TOO_LONG = error("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum")


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (Fails(400), "invalid_request"),
        (Fails(400, TOO_LONG), "context_overflow"),
        (Fails(401), "auth"),
        (Fails(402), "quota_exhausted"),
        (Fails(403), "auth"),
        (Fails(404), "invalid_request"),
        (Fails(413, error("request_too_large", "Request too large")), "invalid_request"),
        (Fails(429), "transient"),
        (Fails(500), "transient"),
        (Fails(504), "transient"),
        (Fails(529), "overloaded"),
        (Fails(400, error("billing_error", "Your credit balance is too low")), "quota_exhausted"),
        (Fails(502, "<html>Bad gateway</html>"), "transient"),
    ],
)
async def test_an_error_has_a_kind(
    provider: Provider, model: AnthropicModel, reply: Fails, kind: str
) -> None:
    """What the API answers decides whether trying again, or elsewhere, can help."""
    provider.reply(reply)
    heard = await hear(model, asking(model.spec))
    assert heard.error is not None
    assert (heard.error.kind, heard.error.http_status) == (kind, reply.status)
    assert len(provider.requests) == 1


async def test_an_error_inside_the_stream_ends_it(
    provider: Provider, model: AnthropicModel
) -> None:
    """What was said before is heard, and the error has the kind that its type says."""
    told = {"type": "overloaded_error", "message": "Overloaded"}
    provider.reply(Says("Bonjour toi", error_after=(1, told)))
    heard = await hear(model, asking(model.spec))
    assert heard.text == "Bonjour"
    assert heard.error is not None
    assert (heard.error.kind, heard.error.http_status) == ("overloaded", None)
    assert str(heard.error) == "CLAUDE: Overloaded"


# -- connections ----------------------------------------------------------------------------------


# -- what goes over the wire ----------------------------------------------------------------------

LEAKING = {
    "ANTHROPIC_API_KEY": "leaked-key",
    "ANTHROPIC_AUTH_TOKEN": "leaked-token",
    "ANTHROPIC_BASE_URL": "http://127.0.0.1:9/leaked",
    "ANTHROPIC_PROFILE": "leaked-profile",
    "ANTHROPIC_ORGANIZATION_ID": "leaked-organization",
    "ANTHROPIC_CUSTOM_HEADERS": "\n".join(
        f"{name}: leaked"
        for name in (
            "authorization",
            "X-Api-Key",
            "anthropic-beta",
            "anthropic-version",
            "user-agent",
            "x-stainless-lang",
            "x-leaked",
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
    model = made(provider.url)
    assert (await hear(model, asking(model.spec))).text == "Oui"
    await model.close()
    (request,) = provider.requests
    assert request.path == "/v1/messages"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert "leaked" not in str(request.headers)
    assert problems_of_messages(request.body) == []


async def test_the_official_address_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without `base_url` it is Anthropic that is called, whatever the environment says."""
    monkeypatch.setenv("ANTHROPIC_BASE_URL", LEAKING["ANTHROPIC_BASE_URL"])
    model = made(None)
    await model.prepare()
    assert str(model._sdk.base_url).rstrip("/") == OFFICIAL
    await model.close()


async def test_a_model_without_a_key_does_not_look_for_one(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that asks for no key gets none of the environment's."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "leaked")
    provider.reply(Says("Oui"))
    model = AnthropicModel(made(provider.url).spec)
    await hear(model, asking(model.spec))
    await model.close()
    assert "leaked" not in str(provider.requests[0].headers)


async def test_an_exchange_is_told_without_the_key(
    provider: Provider, model: AnthropicModel
) -> None:
    """What was sent and what came back are told once the answer is over."""
    provider.reply(Says("Oui", headers={"anthropic-ratelimit-tokens-remaining": "9"}))
    told: list[HttpExchange] = []
    async for _ in model.observed(asking(model.spec), told.append):
        pass
    (exchange,) = told
    assert (exchange.method, exchange.status_code) == ("POST", 200)
    assert exchange.url == f"{provider.url}/v1/messages"
    assert '"claude-m1"' in exchange.request_body
    assert "message_stop" in exchange.response_body
    assert exchange.response_headers["anthropic-ratelimit-tokens-remaining"] == "9"
    assert exchange.error == ""
    assert KEY not in exchange.model_dump_json()
