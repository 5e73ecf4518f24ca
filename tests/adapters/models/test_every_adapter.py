"""A call over HTTP, for every adapter alike: what goes wrong, and what must not stay behind."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from loom_ia.adapters.models.client import WireModel
from loom_ia.core.errors import ModelError
from loom_ia.core.model import HttpExchange, TextDelta
from loom_ia.core.ports import ModelAccess
from tests.adapters.models.contract import asking, hear
from tests.adapters.models.encoders import FORMATS, Format
from tests.providers.replies import Fails, Says, Silent
from tests.providers.server import Provider, unused_url

KEY = "sk-secret"


@pytest.fixture(params=FORMATS, ids=[form.api for form in FORMATS])
def form(request: pytest.FixtureRequest) -> Format:
    """One format after the other."""
    found: Format = request.param
    return found


def made(form: Format, url: str) -> WireModel:
    """Make a model that is served there."""
    base_url = url if form.api == "anthropic" else f"{url}/v1"
    spec = form.spec("M", "m-1").model_copy(update={"base_url": base_url})
    return form.model(spec, ModelAccess(api_key=KEY))


@pytest.fixture
async def model(provider: Provider, form: Format) -> AsyncIterator[WireModel]:
    """Serve a model for the length of a test."""
    client = made(form, provider.url)
    yield client
    await client.close()


@pytest.mark.parametrize(
    ("headers", "wait"),
    [({"retry-after": "7"}, 7.0), ({"retry-after-ms": "1500"}, 1.5), ({}, None)],
)
async def test_the_wait_that_is_asked_for_is_told(
    provider: Provider, model: WireModel, headers: dict[str, str], wait: float | None
) -> None:
    """The engine waits as long as the provider says, and the adapter does not wait."""
    provider.reply(Fails(429, headers=headers))
    heard = await hear(model, asking(model.spec))
    assert heard.error is not None
    assert heard.error.retry_after == wait
    assert len(provider.requests) == 1


async def test_a_provider_that_is_away_is_a_passing_error(form: Format) -> None:
    """Nobody listens: another attempt may find somebody."""
    model = made(form, await unused_url())
    heard = await hear(model, asking(model.spec))
    await model.close()
    assert heard.error is not None
    assert heard.error.kind == "transient"


@pytest.mark.parametrize("cut", ["close", "reset"])
async def test_a_connection_that_breaks_is_a_passing_error(
    provider: Provider, model: WireModel, cut: Any
) -> None:
    """An answer that was cut does not pass for one."""
    provider.reply(Says("Bonjour toi", cut_after=1, cut=cut))
    heard = await hear(model, asking(model.spec))
    assert heard.text in {"", "Bonjour"}
    assert heard.error is not None
    assert heard.error.kind == "transient"


async def test_the_key_stands_in_no_error(provider: Provider, model: WireModel) -> None:
    """A provider that repeats the key does not have it shown."""
    provider.reply(Fails(401, {"error": {"message": f"invalid key {KEY}"}}))
    with pytest.raises(ModelError) as caught:
        async for _ in model.stream(asking(model.spec)):
            pass
    assert "***" in str(caught.value)
    assert KEY not in str(caught.value)


async def test_leaving_the_answer_closes_the_connection(
    provider: Provider, model: WireModel
) -> None:
    """A provider stops writing, and billing, as soon as nobody reads."""
    provider.reply(Says("Bonjour toi et moi", hang_after=2))
    stream = model.stream(asking(model.spec))
    async for chunk in stream:
        if isinstance(chunk, TextDelta):
            break
    await stream.aclose()
    await provider.requests[0].disconnected.wait(1)
    await provider.idle()


@pytest.mark.parametrize("reply", [Silent(), Silent(headers_first=True)])
async def test_cancelling_a_silent_call_closes_the_connection(
    provider: Provider, model: WireModel, reply: Silent
) -> None:
    """Whoever stops waiting leaves nothing behind, before the answer as within it."""
    provider.reply(reply)
    call = asyncio.ensure_future(hear(model, asking(model.spec)))
    await provider.received()
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    await provider.requests[0].disconnected.wait(1)
    await provider.idle()


async def test_a_connection_serves_again(provider: Provider, model: WireModel) -> None:
    """Answers that are whole, and errors, leave their connection to the next call."""
    provider.reply(Says("Un"), Says("Deux"), Fails(429), Says("Trois"))
    said = [(await hear(model, asking(model.spec))).text for _ in range(4)]
    assert said == ["Un", "Deux", "", "Trois"]
    assert provider.opened == 1


async def test_closing_lets_go_of_the_connections(provider: Provider, model: WireModel) -> None:
    """Nothing stays open, and a model that was closed can be called again."""
    provider.reply(Says("Un"), Says("Deux"))
    await hear(model, asking(model.spec))
    await model.close()
    await model.close()
    await provider.idle()
    assert (await hear(model, asking(model.spec))).text == "Deux"


async def test_an_exchange_that_failed_is_told_too(provider: Provider, model: WireModel) -> None:
    """The body of an error is what one looks for first; the key is not in it."""
    provider.reply(Fails(400, {"error": {"message": f"prompt is too long for {KEY}"}}))
    told: list[HttpExchange] = []
    with pytest.raises(ModelError):
        async for _ in model.observed(asking(model.spec), told.append):
            pass
    (exchange,) = told
    assert exchange.status_code == 400
    assert "prompt is too long" in exchange.response_body
    assert KEY not in exchange.model_dump_json()


async def test_a_fault_of_the_reader_is_logged_without_what_was_said(
    provider: Provider,
    model: WireModel,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The log says where the code failed; what a provider said stays out of it."""

    def broken(*_: Any) -> Any:
        raise KeyError("un secret du client")

    reader = type(model.reader())
    monkeypatch.setattr(reader, "event", broken)
    provider.reply(Says("Bonjour"))
    with caplog.at_level(logging.ERROR):
        heard = await hear(model, asking(model.spec))
    assert heard.error is not None
    assert heard.error.kind == "transient"
    assert "KeyError" in caplog.text
    assert "test_every_adapter.py" in caplog.text
    assert "secret" not in caplog.text
