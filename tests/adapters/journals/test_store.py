"""What a journal over somebody else's store promises besides: its keys, its errors, its limits."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from loom_ia.adapters.journals.store import StoreJournal
from loom_ia.assembly.stores import MemoryStore
from loom_ia.core.errors import JournalCorrupted, KeyNotFound, RunExists, StoreError
from loom_ia.core.events import EventQuery, to_line
from loom_ia.core.ports import Journal, SequenceConflict
from tests.adapters.stores.foreign import ForeignStore
from tests.builders import events, started

NS = "journal:quotes"


@pytest.fixture
def store() -> ForeignStore:
    """An empty store of somebody else's."""
    return ForeignStore()


@pytest.fixture
def journal(store: ForeignStore) -> Journal:
    """The journal of the graph `quotes` in that store."""
    return StoreJournal(store, "quotes")


def opening(run_id: str = "run-1", many: int = 3) -> list[Any]:
    """Give the first events of a run in the session of its name."""
    rest = events(many - 1, after=1, run_id=run_id, session_id=run_id, tenant_id="default")
    return [started(run_id, tenant_id="default"), *rest]


async def test_one_event_is_one_key(journal: Journal, store: ForeignStore) -> None:
    """The key is the run and the place in twelve digits, the value is the stored line."""
    batch = opening()
    await journal.append(batch, expected=0, sync=True)
    assert store.kept == {
        (NS, "run-1/000000000001"): to_line(batch[0]),
        (NS, "run-1/000000000002"): to_line(batch[1]),
        (NS, "run-1/000000000003"): to_line(batch[2]),
    }
    await journal.append(
        events(1, after=3, session_id="run-1", tenant_id="default"), expected=3, sync=False
    )
    assert [len(written) for written in store.calls] == [3, 1]


async def test_nothing_is_written_over(journal: Journal, store: ForeignStore) -> None:
    """A key that is there stays as it is, whoever wrote it, and the writer gets the tail."""
    await journal.append(opening(), expected=0, sync=True)
    before = dict(store.kept)
    late = events(2, after=1, session_id="run-1", tenant_id="default")
    outcome = await StoreJournal(store, "quotes").append(late, expected=1, sync=True)
    assert isinstance(outcome, SequenceConflict)
    assert [event.seq for event in outcome.tail] == [2, 3]
    assert store.kept == before


async def test_graphs_and_tenants_have_their_own_keys(store: ForeignStore) -> None:
    """The same run id in two graphs, or two tenants, is two runs."""
    for graph, tenant in (("a", "default"), ("b", "default"), ("a", "acme")):
        journal = StoreJournal(store, graph)
        batch = [started("run-1", tenant_id=tenant)]
        assert await journal.append(batch, expected=0, sync=True) == 1
    assert sorted(ns for ns, _ in store.kept) == ["journal:a", "journal:b", "tenant:acme:journal:a"]
    assert len(await StoreJournal(store, "a").query(EventQuery("default"))) == 1


async def test_other_keys_of_the_namespace_are_left_alone(
    journal: Journal, store: ForeignStore
) -> None:
    """What is no event's key is neither read nor removed."""
    await journal.append(opening(), expected=0, sync=True)
    for key in ("run-1/note", "run-1/12", "run-1/" + "\u0661" * 12, "000000000001", "run-1"):
        store.kept[NS, key] = b"mine"
    assert len(await journal.read("default", "run-1")) == 3
    assert [e.last_seq for e in (await journal.sessions("default")).sessions] == [3]
    assert await journal.delete("default", "run-1") == 3
    assert len(store.kept) == 5


async def test_a_child_has_a_key_that_tells_its_root(journal: Journal, store: ForeignStore) -> None:
    """It is found by it, and without it where only the events were copied."""
    child = started("run-1/ask/1", after=3, session_id="run-1", tenant_id="default")
    await journal.append(opening(), expected=0, sync=True)
    await journal.append([child], expected=3, sync=True)
    assert store.kept["runs:quotes", "run-1/ask/1"] == b"run-1"
    assert await journal.locate("default", "run-1/ask/1") == "run-1"
    copied = ForeignStore({place: v for place, v in store.kept.items() if place[0] == NS})
    elsewhere = StoreJournal(copied, "quotes")
    assert await elsewhere.locate("default", "run-1/ask/1") == "run-1"
    assert await elsewhere.locate("default", "run-1/ask/2") is None
    assert await journal.delete("default", "run-1") == 4
    assert store.kept == {}


@pytest.mark.parametrize(
    "error", [ConnectionError("cut"), OSError("no"), RuntimeError(), StoreError("ours")]
)
async def test_w25_a_failed_read_is_a_store_error(
    journal: Journal, store: ForeignStore, error: Exception
) -> None:
    """An outage is told as one, with its cause, and never as something that is not there."""
    await journal.append(opening(), expected=0, sync=True)
    store.broken = error
    for asked in (
        journal.read("default", "run-1"),
        journal.locate("default", "run-1"),
        journal.locate("default", "run-1/ask/1"),
        journal.sessions("default"),
        journal.query(EventQuery("default")),
        journal.query(EventQuery("default", session_id="run-1")),
    ):
        with pytest.raises(StoreError) as failure:
            await asked
        assert not isinstance(failure.value, KeyNotFound)
        assert error in {failure.value, failure.value.__cause__}


@pytest.mark.parametrize("error", [ConnectionError("cut"), RuntimeError(), StoreError("ours")])
async def test_a_failed_write_goes_through_as_it_is(
    journal: Journal, store: ForeignStore, error: Exception
) -> None:
    """Who appends or deletes gets exactly what the store raised, and nothing was written."""
    await journal.append(opening(), expected=0, sync=True)
    before = dict(store.kept)
    store.broken = error
    more = events(2, after=3, session_id="run-1", tenant_id="default")
    with pytest.raises(type(error)) as failure:
        await journal.append(more, expected=3, sync=True)
    assert failure.value is error
    with pytest.raises(type(error)) as failure:
        await journal.delete("default", "run-1")
    assert failure.value is error
    assert store.kept == before


@pytest.mark.parametrize(
    "line", [b"", b"{", b"null", b"\xff\xfe", b'{"seq":2}', "text", None, 3, [b"x"]]
)
async def test_a_value_that_is_no_event_is_told_with_its_key(
    journal: Journal, store: ForeignStore, line: Any
) -> None:
    """Damage is refused where it is read; a listing and a deletion go on beside it."""
    await journal.append(opening("whole"), expected=0, sync=True)
    await journal.append(opening("broken"), expected=0, sync=True)
    store.kept[NS, "broken/000000000003"] = line
    with pytest.raises(JournalCorrupted, match=r"broken/000000000003.*journal:quotes"):
        await journal.read("default", "broken")
    assert len(await journal.read("default", "whole")) == 3
    listed = (await journal.sessions("default")).sessions
    assert [(e.session_id, e.last_seq) for e in listed] == [("broken", 3), ("whole", 3)]
    assert await journal.delete("default", "broken") == 3
    assert await journal.locate("default", "broken") is None


async def test_a_value_of_another_place_is_damage(journal: Journal, store: ForeignStore) -> None:
    """An event under the key of another one is refused."""
    await journal.append(opening(), expected=0, sync=True)
    store.kept[NS, "run-1/000000000002"] = store.kept[NS, "run-1/000000000003"]
    with pytest.raises(JournalCorrupted, match="event 2 is due, not 3"):
        await journal.read("default", "run-1")


async def test_a_hole_is_damage(journal: Journal, store: ForeignStore) -> None:
    """An event that is missing before others is told, not passed over."""
    await journal.append(opening(), expected=0, sync=True)
    del store.kept[NS, "run-1/000000000002"]
    with pytest.raises(JournalCorrupted, match=r"run-1/000000000002.*missing"):
        await journal.read("default", "run-1")


@pytest.mark.parametrize("kind", [bytearray, memoryview])
async def test_a_store_may_give_any_kind_of_bytes(
    journal: Journal, store: ForeignStore, kind: Any
) -> None:
    """Drivers give what they like: bytes are bytes."""
    batch = opening()
    await journal.append(batch, expected=0, sync=True)
    for place, line in store.kept.items():
        store.kept[place] = kind(line)
    assert await journal.read("default", "run-1") == batch


class _Torn(ForeignStore):
    """A store whose transactions fail at their commit."""

    @asynccontextmanager
    async def tx(self) -> AsyncGenerator[ForeignStore]:
        async with super().tx() as inner:
            yield inner
            raise ConnectionError("cut at the commit")


async def test_a_commit_that_fails_leaves_nothing() -> None:
    """A batch is there whole or not at all, and can be written again."""
    store = _Torn()
    with pytest.raises(ConnectionError, match="at the commit"):
        await StoreJournal(store, "quotes").append(opening(), expected=0, sync=True)
    assert store.kept == {}
    again = StoreJournal(ForeignStore(store.kept), "quotes")
    assert await again.append(opening(), expected=0, sync=True) == 3


async def test_fifty_writers_of_one_run_conflict(store: ForeignStore) -> None:
    """Of fifty journals on one store that write the same place, one wins."""
    batches = [opening(many=2) for _ in range(50)]
    outcomes = await asyncio.gather(
        *(StoreJournal(store, "quotes").append(b, expected=0, sync=True) for b in batches)
    )
    (winner,) = [n for n, outcome in enumerate(outcomes) if outcome == 2]
    assert await StoreJournal(store, "quotes").read("default", "run-1") == batches[winner]


async def test_our_own_stores_serve_too() -> None:
    """A store of this package has the five methods like any other, and its errors."""
    journal = StoreJournal(MemoryStore(), "quotes")
    batch = opening()
    assert await journal.append(batch, expected=0, sync=True) == 3
    assert await journal.read("default", "run-1") == batch
    again = [started("run-1", session_id="x", tenant_id="default")]
    with pytest.raises(RunExists):
        await journal.append(again, expected=0, sync=True)
    assert await journal.read("default", "x") == []
