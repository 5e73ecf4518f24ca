"""Values stand in the journal of the runs, and nobody who reads runs or sessions meets them."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from loom_ia.adapters.journals.jsonl import JsonlJournal
from loom_ia.adapters.journals.memory import MemoryJournal
from loom_ia.adapters.journals.sqlite import SqliteJournal
from loom_ia.app import sessions
from loom_ia.app.instance import Instance
from loom_ia.app.reading import events, report
from loom_ia.app.recovery import open_runs, recover
from loom_ia.app.sessions import RunFilter
from loom_ia.core.errors import UnknownRun, UnknownSession, UnusableId
from loom_ia.core.events import StoreChange, StoreChanged
from loom_ia.core.events.fold import apply, begin
from loom_ia.core.ids import STORE_STREAM, is_safe_id, require_safe_id
from loom_ia.core.ports import Journal
from loom_ia.core.state import Status
from loom_ia.engine.values import JournalStore
from tests.builders import placed, started
from tests.engine.world import Model, World, agent, run

KINDS: dict[str, Callable[[Path], Journal]] = {
    "memory": lambda folder: MemoryJournal(),
    "sqlite": lambda folder: SqliteJournal(folder / "journal.db"),
    "jsonl": lambda folder: JsonlJournal(folder / "journal"),
}


@pytest.fixture(params=list(KINDS))
async def instance(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Instance]:
    """A process whose journal holds values, then a run, then values again."""
    world = World(KINDS[request.param](tmp_path))
    store = JournalStore(world.journal)
    await store.put("ns", "first", b"1")
    process = world.instance(agent(Model("done")))
    state = await run(process)
    assert state.status is Status.COMPLETED
    async with store.tx() as tx:
        await tx.put("ns", "second", b"2")
    assert await store.list("ns") == ["first", "second"]
    yield process
    assert await store.get("ns", "second") == b"2"
    await world.journal.close()


async def test_sessions_and_runs_are_listed_without_it(instance: Instance) -> None:
    """There is one session, and one run."""
    assert [info.session_id for info in await sessions.sessions(instance)] == ["session-1"]
    page = await sessions.runs(instance, RunFilter())
    assert [listed.run_id for listed in page.runs] == ["run-1"]
    assert (page.scanned, page.truncated) == (1, False)


async def test_it_is_no_session_that_can_be_handled(instance: Instance) -> None:
    """It can be neither shown, nor exported, nor deleted as one."""
    for handle in (sessions.session, sessions.session_events, sessions.export, sessions.delete):
        with pytest.raises(UnknownSession):
            await handle(instance, STORE_STREAM)
    with pytest.raises(UnknownSession):
        await report(instance, session_id=STORE_STREAM)


async def test_it_holds_no_run(instance: Instance) -> None:
    """Nothing is found in it, by its id or in its place; a wrong hint of a session is only that."""
    for run_id in (STORE_STREAM, "nobody"):
        with pytest.raises(UnknownRun):
            await instance.find(run_id, STORE_STREAM)
    found = await events(instance, "run-1", session_id=STORE_STREAM)
    assert {event.session_id for event in found} == {"session-1"}
    (total,) = (await report(instance, period="day")).sessions
    assert total.session_id == "session-1"


async def test_recovery_passes_it_over(instance: Instance) -> None:
    """Nothing of it is open, and nothing fails because of it."""
    assert await open_runs(instance) == {}
    assert await open_runs(instance, session_id=STORE_STREAM) == {}
    done = await recover(instance)
    assert (done.results, done.failures, done.waiting, done.driven) == ((), (), 0, 0)


async def test_deleting_every_session_keeps_it(instance: Instance) -> None:
    """The fixture finds the values again once the session is gone."""
    await sessions.delete(instance, "session-1")
    assert await sessions.sessions(instance) == ()


def test_nobody_can_choose_its_id() -> None:
    """It is no id of a session, nor of a graph's run, which holds no slash."""
    assert "/" in STORE_STREAM
    assert not is_safe_id(STORE_STREAM)
    with pytest.raises(UnusableId):
        require_safe_id(STORE_STREAM, "session id")


def test_a_change_says_nothing_of_a_run() -> None:
    """Folded into a run it leaves it as it is, its lease included."""
    before = begin(started("run-1"))
    (change,) = placed([StoreChanged(changes=(StoreChange.of("ns", "k", b"v"),))], after=1)
    assert apply(before, change) == before


@pytest.mark.parametrize("value", [b"", b"\x00\xff", "é".encode(), None])
def test_a_change_is_written_without_loss(value: bytes | None) -> None:
    """An empty value is not a removal, in either direction."""
    change = StoreChange.of("ns", "é", value)
    again = StoreChange.model_validate_json(change.model_dump_json())
    assert again == change
    assert again.content() == value


def test_a_change_that_holds_no_bytes_is_refused() -> None:
    """What is no base64 is an error, not other bytes."""
    with pytest.raises(ValueError, match="base64"):
        StoreChange(ns="ns", key="k", value="no*base64").content()
