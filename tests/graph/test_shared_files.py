"""Stores of values that are opened on one file, in one process."""

import asyncio
import gc
import weakref
from pathlib import Path
from typing import Any

from loom_ia.graph import Ask, Graph, MemoryStore, SQLiteStore


def asking() -> Graph[dict[str, Any]]:
    """Give a graph that asks once."""
    graph: Graph[dict[str, Any]] = Graph("asking")

    @graph.step()
    def ask(state: dict[str, Any]) -> Ask:
        return Ask("Which day?", phase="after", into="day")

    return graph


async def test_a_run_goes_on_from_a_second_store_on_its_file(tmp_path: Path) -> None:
    """Two stores that are open at once on one file share its runs: either drives them."""
    file = tmp_path / "runs.db"
    async with SQLiteStore(file) as one, SQLiteStore(file) as two:
        graph = asking()
        paused = await graph.run(store=one)
        result = await graph.resume(
            paused.run_id, answers={paused.interrupts[0].id: "Monday"}, store=two
        )
        assert result.state == {"day": "Monday"}
        assert (await graph.run(store=one)).yielded


async def test_a_closed_store_leaves_no_lock(tmp_path: Path) -> None:
    """Closing a store lets go of the lock that its driver held."""
    async with SQLiteStore(tmp_path / "runs.db") as store:
        await asking().run(store=store)
        assert list((tmp_path / ".locks").iterdir()) != []
    assert list((tmp_path / ".locks").iterdir()) == []


async def test_a_store_is_let_go_of_after_its_runs() -> None:
    """What is known of the runs of a store does not keep it in memory."""
    store = MemoryStore()
    seen = weakref.ref(store)
    await asking().run(store=store)
    del store
    await asyncio.sleep(0)  # the loop lets go of what it woke us with
    gc.collect()
    assert seen() is None
