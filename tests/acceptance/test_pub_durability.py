"""PUB-13 to PUB-18: what users of other systems hit when processes die or race."""

import asyncio
import json
import sqlite3
from collections import Counter
from collections.abc import Sequence

import pytest

from loom_ia.adapters.journals.sqlite import SqliteJournal
from loom_ia.core.errors import JournalBusy
from loom_ia.core.events.envelope import Event
from loom_ia.core.ids import SessionId, TenantId
from loom_ia.core.ports.journal import SequenceConflict
from loom_ia.core.state.run import Status
from loom_ia.testing import JournalSpy
from tests.acceptance.project import Project, call, calling, wait_for
from tests.acceptance.recording import Recorder


class _Blip(JournalSpy):
    """A journal that cannot be written for one session, until it is mended."""

    ill: SessionId | None = None
    refusals = 0

    async def append(
        self, batch: Sequence[Event], *, expected: int, sync: bool
    ) -> int | SequenceConflict:
        self._refuse(batch[0].session_id)
        return await super().append(batch, expected=expected, sync=sync)

    async def read(
        self, tenant_id: TenantId, session_id: SessionId, *, after: int = 0
    ) -> list[Event]:
        self._refuse(session_id)
        return await super().read(tenant_id, session_id, after=after)

    def _refuse(self, session_id: SessionId) -> None:
        if session_id == self.ill:
            self.refusals += 1
            raise JournalBusy("the journal blinks")


async def test_pub13_a_blip_while_recovering(project: Project) -> None:
    """A journal that fails for one of fifty runs loses none: it is taken up the next time."""
    runs = [f"r{n:02}" for n in range(50)]
    with project.drive(2, *runs) as driver:
        for _ in runs:
            wait_for(driver, "model 2")
        driver.kill()
    journal = _Blip(project.loom().store)
    journal.ill = runs[9]
    async with project.loom(store=journal) as loom:
        first = await loom.recover()
        assert len(first) == 49
        assert [failure.run_id for failure in first.failures] == [runs[9]]
        assert journal.refusals > 1
        journal.ill = None
        second = await loom.recover()
        assert [result.run_id for result in second] == [runs[9]]
        assert not second.failures
        assert len(await loom.recover()) == 0
        assert {(await loom.result(run)).status for run in runs} == {Status.COMPLETED}
    assert Counter(project.effects()) == {"prix_ttc": 50}


async def test_pub14_a_living_worker_takes_the_run_of_a_dead_one(project: Project) -> None:
    """A worker that lived before another died takes its run up, without a restart or a command."""
    project.script = [{"text": "Pris."}]
    project.save()
    done = asyncio.Event()

    class Telling(Recorder):
        async def stream(self, request):
            async for chunk in super().stream(request):
                yield chunk
            done.set()

    model = Telling(*project.script)
    async with project.loom(models={"SIMULE": model}) as living:
        watching = asyncio.create_task(living.watch(interval=0.05))
        with project.drive(1, "r1") as driver:
            await asyncio.to_thread(wait_for, driver, "model 1")
            driver.kill()
        await asyncio.wait_for(done.wait(), timeout=20)  # the lease is of a minute
        assert (await living.resume("r1")).text == "Pris."
        watching.cancel()
        await asyncio.wait((watching,))


@pytest.mark.parametrize("backend", ["jsonl", "sqlite"])
async def test_pub15_two_processes_in_one_session(project: Project, backend: str) -> None:
    """Two processes that run in one session at once leave two whole turns and one order."""
    project.backend, project.tools = backend, ["lire"]
    project.script = [*[calling(call("lire", cle=str(n))) for n in range(5)], {"text": "Fini."}]
    project.save()
    with project.drive(0, "r1@s", "r2@s") as one, project.drive(0, "r3@s", "r4@s") as two:
        assert (one.wait(timeout=60), two.wait(timeout=60)) == (0, 0)
    model = Recorder({"text": "Lu."})
    async with project.loom(models={"SIMULE": model}) as loom:
        for run in ("r1", "r2", "r3", "r4"):
            result = await loom.result(run)
            assert (result.status, result.text) == (Status.COMPLETED, "Fini.")
        events = await loom.store.read("default", "s")
        await loom.run("devis", "Relis", session_id="s")
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    said = [message.role for message in model.requests[0].conversation()]
    turn = ["user", *["assistant", "tool"] * 5, "assistant"]
    assert said == [*turn * 4, "user"]
    assert Counter(project.effects()) == {f"lire:{n}": 4 for n in range(5)}


async def test_pub16_first_runs_race(project: Project) -> None:
    """Twenty first runs of one new session, on a store that does not exist yet, all complete."""
    project.backend = "sqlite"
    project.save()
    looms = [project.loom() for _ in range(4)]
    results = await asyncio.gather(
        *(loom.run("devis", "Quel prix ?", session_id="s") for loom in looms for _ in range(5))
    )
    assert all(result.ok for result in results)
    events = await looms[0].store.read("default", "s")
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert len({event.run_id for event in events}) == 20
    for loom in looms:
        await loom.aclose()


VALUES = '''

import dataclasses
import datetime
import decimal
import enum
import uuid

import pydantic


@dataclasses.dataclass
class Point:
    x: int


class Fiche(pydantic.BaseModel):
    nom: str


class Couleur(enum.Enum):
    ROUGE = "rouge"


VALEURS = {
    "dataclass": Point(1),
    "pydantic": Fiche(nom="a"),
    "decimal": decimal.Decimal("1.10"),
    "date": datetime.datetime(2026, 1, 2, 3, 4, tzinfo=datetime.UTC),
    "uuid": uuid.UUID(int=7),
    "enum": Couleur.ROUGE,
    "bytes": b"abc",
    "set": {1},
    "object": object(),
    "nested": {"a": [object()]},
}


@tool
def rendre(genre: str):
    """Rend une valeur."""
    return VALEURS[genre]
'''


async def test_pub17_values_survive_a_restart(project: Project) -> None:
    """What a tool gives is the same after a restart, or the call fails and names the place."""
    kinds = ("dataclass", "pydantic", "decimal", "date", "uuid", "enum", "bytes", "set", "object")
    project.tools, project.more_tools = ["rendre"], VALUES
    project.script = [
        calling(*[call("rendre", genre=k) for k in (*kinds, "nested")]),
        {"text": "."},
    ]
    project.save()
    before = Recorder(*project.script)
    async with project.loom(models={"SIMULE": before}) as loom:
        result = await loom.run("devis", "Rends", session_id="s", run_id="r1")
        assert result.ok
    after = Recorder({"text": "."})
    async with project.loom(models={"SIMULE": after}) as loom:
        await loom.run("devis", "Relis", session_id="s")
    assert after.results() == before.results()
    shown = dict(zip((*kinds, "nested"), before.results(), strict=True))
    assert json.loads(shown["dataclass"]) == {"x": 1}
    assert json.loads(shown["pydantic"]) == {"nom": "a"}
    assert "1.10" in shown["decimal"]
    assert "2026-01-02T03:04" in shown["date"]
    assert "00000000-0000-0000-0000-000000000007" in shown["uuid"]
    assert "rouge" in shown["enum"]
    assert "cannot be kept" in shown["object"]
    assert "cannot be kept" in shown["nested"]
    assert "a[0]" in shown["nested"]
    assert all(shown.values())


async def test_pub18_two_processes_write_one_file(project: Project) -> None:
    """Two processes of twenty runs each write two thousand events to one file, and lose none."""
    project.backend, project.tools = "sqlite", ["lire"]
    project.agent["max_iterations"] = 20
    project.script = [*[calling(call("lire", cle=str(n))) for n in range(12)], {"text": "Fini."}]
    project.save()
    first, second = ([f"{name}{n}" for n in range(20)] for name in "ab")
    with project.drive(0, *first) as one, project.drive(0, *second) as two:
        assert (one.wait(timeout=100), two.wait(timeout=100)) == (0, 0)
    journal = SqliteJournal(project.data)
    total = 0
    for run in (*first, *second):
        events = await journal.read("default", run)
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert events[-1].type == "run.completed"
        total += len(events)
    await journal.close()
    assert total >= 2000
    connection = sqlite3.connect(project.data)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()
