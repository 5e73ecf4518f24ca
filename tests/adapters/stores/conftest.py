"""Every store of values there is. A new one is one line in `STORES`."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from loom_ia.adapters.journals.jsonl import JsonlJournal
from loom_ia.adapters.journals.memory import MemoryJournal
from loom_ia.assembly.stores import MemoryStore, SQLiteStore
from loom_ia.core.ports.store import Store
from loom_ia.engine.values import JournalStore
from tests.adapters.stores.foreign import ForeignStore

Opener: TypeAlias = Callable[[], JournalStore]


def _shared_memory() -> Opener:
    journal = MemoryJournal()
    return lambda: JournalStore(journal)


OPENERS: dict[str, Callable[[Path], Opener]] = {
    "memory": lambda folder: _shared_memory(),
    "sqlite": lambda folder: lambda: SQLiteStore(folder / "values.db"),
    "jsonl": lambda folder: lambda: JournalStore(JsonlJournal(folder / "journal")),
}
STORES = ("one in memory", "foreign", *OPENERS)


@pytest.fixture(params=STORES)
async def any_store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """An empty store of each kind, that of somebody else included."""
    match request.param:
        case "foreign":
            yield ForeignStore()
        case "one in memory":
            yield MemoryStore()
        case kind:
            opened = OPENERS[kind](tmp_path)()
            yield opened
            await opened.aclose()


@pytest.fixture(params=list(OPENERS))
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    """Open a store of each kind of this package; all that it opens share their values."""
    return OPENERS[request.param](tmp_path)


@pytest.fixture
async def store(opener: Opener) -> AsyncIterator[JournalStore]:
    """An empty store of each kind of this package."""
    opened = opener()
    yield opened
    await opened.aclose()


@pytest.fixture
async def other(opener: Opener) -> AsyncIterator[JournalStore]:
    """A second one, on the values of `store`."""
    opened = opener()
    yield opened
    await opened.aclose()
