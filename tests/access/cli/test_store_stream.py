"""What the command shows of a journal that also holds values."""

import asyncio
import json

from loom_ia.adapters.journals.jsonl import JsonlJournal
from loom_ia.core.ids import STORE_STREAM
from loom_ia.engine.values import JournalStore
from tests.access.cli.conftest import Desk


async def _keep(loom: Desk) -> None:
    async with JournalStore(JsonlJournal(loom.folder / "data")) as store:
        await store.put("ns", "key", b"value")
        assert await store.list("ns") == ["key"]


def test_values_are_no_session_of_the_command(loom: Desk) -> None:
    """Listing, showing, exporting and deleting sessions leaves the values alone."""
    loom("run", "echo", "bonjour", "--session", "a", "--run-id", "r1")
    asyncio.run(_keep(loom))
    assert (loom.folder / "data" / "default" / "%2Fstore.jsonl").exists()
    listed = json.loads(loom("sessions", "list", "--json").out)
    assert "store" not in json.dumps(listed)
    assert "store" not in loom("sessions", "list").out
    assert "store.changed" not in loom("sessions", "export", "--all").out
    for words in (("show",), ("export",), ("delete", "--yes")):
        refused = loom("sessions", words[0], STORE_STREAM, *words[1:])
        assert refused.code == 2
        assert STORE_STREAM in refused.err
    assert loom("recover").code == 0
    assert loom("sessions", "delete", "a", "--yes").code == 0
    asyncio.run(_keep(loom))
