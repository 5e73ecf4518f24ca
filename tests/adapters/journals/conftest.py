"""Every journal there is. A new one is one line in `JOURNALS`."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from loom_ia.adapters.journals.jsonl import JsonlJournal
from loom_ia.adapters.journals.memory import MemoryJournal
from loom_ia.adapters.journals.sqlite import SqliteJournal
from loom_ia.adapters.journals.store import StoreJournal
from loom_ia.core.ports import Journal
from loom_ia.testing import JournalSpy, PowerLossJournal
from tests.adapters.stores.foreign import ForeignStore

JOURNALS: dict[str, Callable[[Path], Journal]] = {
    "memory": lambda folder: MemoryJournal(),
    "power-loss": lambda folder: PowerLossJournal(),
    "spy": lambda folder: JournalSpy(MemoryJournal(), measure=True),
    "sqlite": lambda folder: SqliteJournal(folder / "journal.db"),
    "store": lambda folder: StoreJournal(ForeignStore(), "quotes"),
    "jsonl": lambda folder: JsonlJournal(folder / "journal"),
}
ON_DISK = ("sqlite", "jsonl")


@pytest.fixture(params=list(JOURNALS))
def make(request: pytest.FixtureRequest) -> Callable[[Path], Journal]:
    """Open a journal in a folder; those on disk find there what was written before."""
    return JOURNALS[request.param]


@pytest.fixture(params=ON_DISK)
def make_on_disk(request: pytest.FixtureRequest) -> Callable[[Path], Journal]:
    """Open a journal that outlives the process."""
    return JOURNALS[request.param]


@pytest.fixture
async def journal(make: Callable[[Path], Journal], tmp_path: Path) -> AsyncIterator[Journal]:
    """An empty journal of each kind."""
    opened = make(tmp_path)
    yield opened
    await opened.close()


@pytest.fixture
def make_journal(tmp_path: Path) -> Callable[[str], Journal]:
    """Open the journal of a kind in the folder of the test, as often as asked."""
    return lambda kind: JOURNALS[kind](tmp_path)
