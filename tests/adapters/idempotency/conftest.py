"""Every store of keys there is. A new one is one line in `STORES`."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from loom_ia.adapters.idempotency.memory import MemoryIdempotency
from loom_ia.adapters.idempotency.sqlite import SqliteIdempotency
from loom_ia.core.ports import IdempotencyStore

STORES: dict[str, Callable[[Path], IdempotencyStore]] = {
    "memory": lambda folder: MemoryIdempotency(),
    "sqlite": lambda folder: SqliteIdempotency(folder / "keys" / "keys.db"),
}


@pytest.fixture(params=list(STORES))
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[IdempotencyStore]:
    """An empty store of each kind."""
    opened = STORES[request.param](tmp_path)
    yield opened
    await opened.close()
