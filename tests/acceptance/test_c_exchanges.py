"""C. What goes over the wire to a provider, when a project asks for it to be kept."""

from base64 import b64encode
from hashlib import sha256
from typing import Any

import pytest

from loom_ia.core.events import Event, ModelExchanged, ModelRetried
from loom_ia.core.model import TextDelta
from loom_ia.core.state.run import Status
from tests.acceptance.project import Project
from tests.acceptance.provided import (
    ANSWER,
    APIS,
    CALL,
    KEY,
    Api,
    entry,
    loom_of,
    of,
    provided,
)
from tests.providers.server import Called, Fails, Provider, Raw, Says, Silent

every_api = pytest.mark.parametrize("api", APIS)
LONG = "un deux trois quatre cinq six sept huit"
PIXEL = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
DRAW = """
from loom_ia.tools import File


@tool
def dessiner() -> File:
    \"\"\"Dessine.\"\"\"
    return File(bytes.fromhex("{data}"), "plan.png", "image/png")
"""


def watched(project: Project, **capture: Any) -> Project:
    """Ask for raw exchanges."""
    project.root = {"telemetry": {"capture": {"raw_exchanges": True, **capture}}}
    return project


def journal(project: Project) -> str:
    """Read all that is written on the disk."""
    files = [path for path in project.data.rglob("*") if path.is_file()]
    return "".join(path.read_bytes().decode("utf-8", "replace") for path in files)


@every_api
async def test_each_attempt_has_its_exchange(
    project: Project, provider: Provider, api: Api
) -> None:
    """An error, a cut and the answer: each is told before what it led to."""
    provided(watched(project), entry(api, provider))
    provider.reply(Fails(500), Says(LONG, cut_after=2), CALL, ANSWER)
    async with loom_of(project) as loom:
        result = await loom.run("devis", "Calcule.")
        events = await loom.events(result.run_id)
    assert result.text == ANSWER.text
    told = of(events, ModelExchanged)
    assert [(each.attempt, each.status_code, each.error) for each in told] == [
        (1, 500, ""),
        (2, 200, "RemoteProtocolError"),
        (3, 200, ""),
        (1, 200, ""),
    ]
    kinds = [e.type for e in events if e.category == "model"]
    assert kinds == [
        *("model.exchanged", "model.retried", "model.exchanged", "model.retried"),
        *("model.exchanged", "model.responded", "model.exchanged", "model.responded"),
    ]
    assert [each.request_body for each in told] == [r.raw.decode() for r in provider.requests]
    assert {(each.model, each.model_id) for each in told} == {("M", "m-1")}
    statuses = [e.status for e in events if isinstance(e.payload, ModelExchanged)]
    assert statuses == ["warning", "warning", "ok", "ok"]


@every_api
async def test_nothing_is_kept_unless_it_is_asked_for(
    project: Project, provider: Provider, api: Api
) -> None:
    """The journal has what a run needs, and no more."""
    provided(project, entry(api, provider))
    provider.reply(Fails(500), ANSWER)
    async with loom_of(project) as loom:
        result = await loom.run("devis", "Calcule.")
        assert of(await loom.events(result.run_id), ModelExchanged) == []


@every_api
async def test_the_key_is_nowhere(project: Project, provider: Provider, api: Api) -> None:
    """Neither in what was sent, nor in an error or an answer of a provider that sends it back."""
    provided(watched(project), entry(api, provider))
    error = {"error": {"type": "server_error", "message": f"bad key {KEY}"}, "key": KEY}
    provider.reply(Fails(500, error, headers={"x-echo": KEY}))
    provider.reply(Raw([f"<p>{KEY}</p>".encode()], headers={"content-type": "text/html"}))
    provider.reply(Fails(401, error))
    async with loom_of(project) as loom:
        result = await loom.run("devis", "Calcule.")
        events = await loom.events(result.run_id)
    assert (result.status, result.error_type) == (Status.FAILED, "model.auth")
    assert KEY in str(provider.requests[0].headers), "it is how the provider knows who asks"
    assert "bad key ***" in str(result.error)
    assert all("***" in each.response_body for each in of(events, ModelExchanged))
    assert "bad key ***" in journal(project)
    assert KEY not in journal(project)


@every_api
async def test_a_body_is_cut_where_the_project_says(
    project: Project, provider: Provider, api: Api
) -> None:
    """`raw_max_bytes` bounds both bodies; the answer is read whole all the same."""
    provided(watched(project, raw_max_bytes=100), entry(api, provider))
    provider.reply(Says(LONG))
    async with loom_of(project) as loom:
        result = await loom.run("devis", "Calcule.")
        (told,) = of(await loom.events(result.run_id), ModelExchanged)
    assert result.text == LONG
    assert (told.request_truncated, told.response_truncated) == (True, True)
    assert len(told.request_body.encode()) == len(told.response_body.encode()) == 100
    assert told.request_bytes == len(provider.requests[0].raw)
    assert told.response_bytes > 100


@every_api
async def test_a_file_is_told_by_its_size_and_its_digest(
    project: Project, provider: Provider, api: Api
) -> None:
    """The image that a tool made goes to the model, and not to the journal."""
    project.more_tools = DRAW.format(data=PIXEL.hex())
    project.tools = ["dessiner"]
    provided(watched(project), entry(api, provider, capabilities={"vision": True}))
    provider.reply(Says("", calls=[Called("dessiner")]), ANSWER)
    async with loom_of(project) as loom:
        result = await loom.run("devis", "Dessine.")
        told = of(await loom.events(result.run_id), ModelExchanged)
    encoded = b64encode(PIXEL).decode()
    assert result.text == ANSWER.text
    assert encoded in provider.requests[1].raw.decode()
    digest = sha256(PIXEL).hexdigest()
    assert f"[{len(PIXEL)} bytes, sha256 {digest}]" in told[1].request_body
    assert encoded[:100] not in told[1].request_body
    assert encoded[:100] not in journal(project)


@every_api
@pytest.mark.parametrize("waits", ["for the answer", "in the answer"])
async def test_a_cancelled_call_has_its_exchange(
    project: Project, provider: Provider, api: Api, waits: str
) -> None:
    """What was sent is kept, and what came of the answer."""
    provided(watched(project), entry(api, provider))
    provider.reply(Says(LONG, hang_after=3) if waits == "in the answer" else Silent())
    async with loom_of(project) as loom:
        run_id = await loom.submit("devis", "Calcule.")
        request = await provider.received(1)
        await request.held.wait()
        await loom.cancel(run_id)
        await request.disconnected.wait(1.0)
        await loom.drain()
        events = await loom.events(run_id)
    (told,) = of(events, ModelExchanged)
    assert told.request_body == request.raw.decode()
    assert told.error
    assert ("deux" in told.response_body) is (waits == "in the answer")


@every_api
async def test_a_run_with_exchanges_is_the_same_run(
    project: Project, provider: Provider, api: Api
) -> None:
    """They change neither what is answered, nor what is counted, nor what the next run reads."""
    call = Called("prix_ttc", {"montant_ht": 1250}, "call_1")
    seen: list[tuple[Any, ...]] = []
    for capture in ({}, {"raw_exchanges": True}):
        project.root = {"telemetry": {"capture": capture}}
        provided(project, entry(api, provider))
        provider.reply(Says("", calls=[call]), ANSWER, ANSWER)
        async with loom_of(project) as loom:
            first = await loom.run("devis", "Calcule.")
            second = await loom.run("devis", "Encore.", session_id=first.session_id)
        seen.append((first.text, first.usage, second.text, second.usage))
    assert seen[0] == seen[1]
    bodies = [request.body for request in provider.requests]
    assert bodies[:3] == bodies[3:]


@every_api
async def test_a_stream_has_its_exchange_too(
    project: Project, provider: Provider, api: Api
) -> None:
    """Text comes piece by piece while the exchange is watched."""
    provided(watched(project), entry(api, provider))
    provider.reply(Says(LONG))
    async with loom_of(project) as loom:
        items = [item async for item in loom.stream("devis", "Calcule.")]
    assert len([item for item in items if isinstance(item, TextDelta)]) > 1
    events = [item for item in items if isinstance(item, Event)]
    assert len(of(events, ModelExchanged)) == 1
    assert of(events, ModelRetried) == []
