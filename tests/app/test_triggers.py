"""A trigger begins one run for each delivery, on what was posted and nothing more."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from loom_ia.access import Loom
from loom_ia.agents import AgentSpec, MainRole
from loom_ia.app.triggers import LONGEST_MESSAGE, run_id_of
from loom_ia.config.root import EventsStorage, LoomConfig, Storage
from loom_ia.config.server import TriggerSpec
from loom_ia.core.errors import (
    DeliveryMissing,
    DeliveryRefused,
    RunExists,
    UnknownTrigger,
    UnstorableValue,
    UnusableId,
)
from loom_ia.core.events.query import EventQuery
from loom_ia.core.ids import is_safe_id
from loom_ia.core.model import ModelSpec

SIGNED = TriggerSpec(
    name="devis-signe",
    agent="relance",
    message="Le devis {{ payload.devis.numero }} de {{ payload.client.nom }} est signé.",
    session="devis-{{ payload.devis.numero }}",
    delivery_header="X-Delivery-Id",
)
PLAIN = TriggerSpec(name="tournee", agent="relance", message="{{ trigger }}: {{ payload }}")
BARE = TriggerSpec(name="nu", agent="relance", message="{{ payload.texte }}")
DOCUMENT = {"devis": {"numero": "D-12"}, "client": {"nom": "Durand"}}


def _config(*triggers: TriggerSpec, path: Path | None = None) -> LoomConfig:
    events = EventsStorage(backend="sqlite", path=str(path)) if path else EventsStorage()
    return LoomConfig(
        version=1,
        models=(ModelSpec(id="FAUX", sdk="fake", model="fake-1"),),
        agents=(AgentSpec(name="relance", main=MainRole(model="FAUX", system="Relance.")),),
        storage=Storage(events=events),
        triggers=triggers or (SIGNED, PLAIN, BARE),
    )


async def _started(loom: Loom) -> int:
    return len(await loom.query(EventQuery("default", types=("run.started",))))


async def _asked(loom: Loom, run_id: str) -> str:
    events = await loom.events(run_id)
    message = next(e.payload for e in events if e.type == "message.user")
    return str(message.message.as_text())  # type: ignore[attr-defined]


async def test_what_is_posted_fills_the_message_and_the_session() -> None:
    """The run is in the background, in the session that is named, and says which trigger began."""
    async with Loom(_config()) as loom:
        assert list(loom.triggers) == ["devis-signe", "tournee", "nu"]
        done = await loom.trigger("devis-signe", DOCUMENT, delivery_id="d1")
        assert (done.trigger, done.repeated) == ("devis-signe", False)
        assert done.session_id == "devis-D-12"
        assert await _asked(loom, done.run_id) == "Le devis D-12 de Durand est signé."
        await loom.drain()
        assert (await loom.result(done.run_id)).ok
        (started,) = await loom.query(EventQuery("default", types=("run.started",)))
        assert started.facets["trigger"] == "devis-signe"
        assert (await loom.state(done.run_id)).header.trigger == "devis-signe"


async def test_h5_a_delivery_is_taken_once() -> None:
    """The same id gives the same run again, whatever is posted with it; another id another run."""
    async with Loom(_config()) as loom:
        first = await loom.trigger("devis-signe", DOCUMENT, delivery_id="d1")
        refused = {"devis": {"numero": "../x"}}  # if it were the first
        for again in (DOCUMENT, {"devis": {"numero": "D-99"}}, {}, None, refused, float("nan")):
            repeated = await loom.trigger("devis-signe", again, delivery_id=" d1 ")
            assert repeated.repeated
            assert (repeated.run_id, repeated.session_id) == (first.run_id, first.session_id)
        other = await loom.trigger("devis-signe", DOCUMENT, delivery_id="d2")
        assert other.run_id != first.run_id
        assert await _started(loom) == 2


async def test_pub55_deliveries_at_once_begin_one_run(tmp_path: Path) -> None:
    """Ten calls on two instances of one journal, some with another payload: one run for all."""
    config = _config(path=tmp_path / "j.db")
    async with Loom(config) as one, Loom(config) as two:
        calls = [
            loom.trigger("devis-signe", {"devis": {"numero": f"D-{i % 3}"}}, delivery_id="d1")
            for i in range(5)
            for loom in (one, two)
        ]
        done = await asyncio.gather(*calls)
        assert {each.run_id for each in done} == {done[0].run_id}
        assert {each.session_id for each in done} == {done[0].session_id}
        assert [each.repeated for each in done].count(False) == 1
        assert await _started(one) == 1


async def test_a_call_that_identifies_nothing_begins_a_run_each_time() -> None:
    """Without an id there is nothing to tell two calls apart by."""
    async with Loom(_config()) as loom:
        runs = {(await loom.trigger("tournee", {"jour": 1})).run_id for _ in range(3)}
        assert len(runs) == 3


@pytest.mark.parametrize("delivery", [None, "", "  "])
async def test_a_trigger_that_identifies_deliveries_needs_one(delivery: str | None) -> None:
    """A call without it is refused, and nothing is written."""
    async with Loom(_config()) as loom:
        with pytest.raises(DeliveryMissing, match="'devis-signe' needs the id of the delivery"):
            await loom.trigger("devis-signe", DOCUMENT, delivery_id=delivery)
        assert await _started(loom) == 0


@pytest.mark.parametrize("delivery", ["é/../…\n", "a" * 1_024, "\ud800", '{"id": 1}', "'; --"])
def test_any_text_identifies_a_delivery(delivery: str) -> None:
    """The id of a run is safe whatever the id of the delivery, and differs by client and door."""
    ids = {
        run_id_of("a", delivery),
        run_id_of("b", delivery),
        run_id_of("a", delivery, "dupont"),
        run_id_of("a", delivery + "x"),
    }
    assert len(ids) == 4
    assert all(map(is_safe_id, ids))
    assert run_id_of("a", delivery) == run_id_of("a", delivery, "default")


async def test_the_id_of_a_delivery_is_bounded() -> None:
    """More than 1,024 characters are refused."""
    async with Loom(_config()) as loom:
        with pytest.raises(DeliveryRefused, match="at most 1024 characters, not 1025"):
            await loom.trigger("nu", {"texte": "x"}, delivery_id="a" * 1_025)


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (None, "tournee: {}"),
        ([1, 2], "tournee: [1, 2]"),
        ("{{ trigger }} {{ payload }}", "tournee: {{ trigger }} {{ payload }}"),
        (3.5, "tournee: 3.5"),
        ({"a": "\ud800"}, 'tournee: {"a": "�"}'),
    ],
)
async def test_any_json_is_a_payload_and_never_a_template(payload: object, message: str) -> None:
    """What is posted is put in as it is; braces in it are text."""
    async with Loom(_config()) as loom:
        done = await loom.trigger("tournee", payload)
        assert await _asked(loom, done.run_id) == message


def _deep(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("name", "payload", "error", "said"),
    [
        ("autre", {}, UnknownTrigger, "there is no trigger 'autre'"),
        ("nu", {"autre": 1}, DeliveryRefused, "the message of the trigger 'nu' is empty"),
        ("nu", {"texte": " \n"}, DeliveryRefused, "is empty"),
        ("nu", {"texte": "x" * (LONGEST_MESSAGE + 1)}, DeliveryRefused, "100001 characters"),
        ("nu", {"texte": _deep(65)}, UnstorableValue, "payload"),
        ("nu", {"texte": float("nan")}, UnstorableValue, r"payload\.texte"),
        ("devis-signe", {"devis": {"numero": "../x"}}, UnusableId, "session id"),
        ("devis-signe", {"devis": {"numero": "x" * 200}}, UnusableId, "session id"),
    ],
)
async def test_what_begins_no_run_is_refused(
    name: str, payload: object, error: type[Exception], said: str
) -> None:
    """The refusal says why, and nothing is written."""
    async with Loom(_config()) as loom:
        with pytest.raises(error, match=said):
            await loom.trigger(name, payload, delivery_id="d")
        assert await _started(loom) == 0


async def test_a_run_that_took_the_id_of_a_delivery_is_not_its_run() -> None:
    """Who may choose ids of runs cannot pass for a webhook."""
    async with Loom(_config()) as loom:
        await loom.run("relance", "Bonjour", run_id=run_id_of("devis-signe", "d1"))
        with pytest.raises(RunExists):
            await loom.trigger("devis-signe", DOCUMENT, delivery_id="d1")
        assert await _started(loom) == 1
