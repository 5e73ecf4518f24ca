"""Probes: a process that lives, and one that may be sent requests."""

import asyncio

import pytest

from loom_ia.access.http import health
from loom_ia.core.errors import JournalBusy
from tests.access.http.doors import Door


async def test_it_lives_without_touching_anything(
    open_door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a journal that hangs the process lives, and is not ready within the bound."""

    async def hangs(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(health, "PATIENCE_S", 0.05)
    monkeypatch.setattr(open_door.loom.store, "locate", hangs)
    assert (await open_door.client.get("/healthz")).status_code == 200
    answer = await open_door.client.get("/readyz")
    assert answer.status_code == 503
    assert answer.headers["content-type"].startswith("application/problem+json")
    assert answer.headers["retry-after"] == "1"
    assert "journal" in answer.json()["detail"]


async def test_it_is_not_ready_on_a_journal_that_fails(
    open_door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A journal that fails is told without what it said."""

    async def fails(*_: object) -> None:
        raise JournalBusy("/secret/path is busy")

    monkeypatch.setattr(open_door.loom.store, "locate", fails)
    answer = await open_door.client.get("/readyz", headers={"Accept-Language": "en"})
    assert answer.status_code == 503
    assert "/secret/path" not in answer.text


async def test_it_is_not_ready_once_told_to_stop(open_door: Door) -> None:
    """A server that stops is sent no more requests, and lives."""
    open_door.app.state.stopping.set()
    assert (await open_door.client.get("/readyz")).json()["detail"] == "The server stops."
    assert (await open_door.client.get("/healthz")).status_code == 200


async def test_probes_are_in_the_description(open_door: Door) -> None:
    """OpenAPI tells of them."""
    paths = (await open_door.client.get("/openapi.json")).json()["paths"]
    assert {"/healthz", "/readyz", "/metrics"} <= paths.keys()
