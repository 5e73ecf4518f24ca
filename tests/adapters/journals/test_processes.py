"""Journals of a host that several processes use, and that survive a killed one."""

import asyncio
import json
import random
import sqlite3
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

import pytest

from loom_ia.core.events import Event, UserMessage
from loom_ia.core.ports import Journal
from tests.builders import events

ROOT = Path(__file__).parents[3]


async def run_writer(*arguments: object) -> Process:
    """Start `writer.py` as another process."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.adapters.journals.writer",
        *map(str, arguments),
        cwd=ROOT,
        stdout=PIPE,
        stderr=PIPE,
        start_new_session=True,
    )


async def finished(*processes: Process) -> list[str]:
    """Wait for writers that must succeed; give what they printed."""
    outputs = await asyncio.gather(*(process.communicate() for process in processes))
    for process, (_, complaint) in zip(processes, outputs, strict=True):
        assert process.returncode == 0, complaint.decode()
        assert b"locked" not in complaint
    return [output.decode() for output, _ in outputs]


def said_by(event: Event) -> list[str]:
    """Give the parts of what an event of `writer.py` says."""
    assert isinstance(event.payload, UserMessage)
    return event.payload.message.as_text().split("/")


@pytest.mark.parametrize(("where", "batches"), [("own", 10), ("shared", 10)])
@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
async def test_two_processes_of_twenty_tasks(
    kind: str, where: str, batches: int, make_journal: Callable[[str], Journal], tmp_path: Path
) -> None:
    """Two processes with twenty tasks each append 2,000 events: no error, no loss, no mixing."""
    arguments = (kind, tmp_path)
    await finished(
        await run_writer("append", *arguments, "a", 20, batches, 5, where),
        await run_writer("append", *arguments, "b", 20, batches, 5, where),
    )
    journal = make_journal(kind)
    page = await journal.sessions("acme")
    assert sum(entry.last_seq for entry in page.sessions) == 2_000
    for entry in page.sessions:
        found = await journal.read("acme", entry.session_id)
        assert [event.seq for event in found] == list(range(1, len(found) + 1))
        parts = [said_by(event) for event in found]
        for _, group in groupby(parts, key=lambda part: (part[0], part[1])):
            assert [part[2] for part in group] == ["0", "1", "2", "3", "4"]
    await journal.close()
    if kind == "sqlite":
        with sqlite3.connect(tmp_path / "journal.db") as connection:
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        connection.close()


@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
async def test_twenty_processes_worth_of_first_uses(
    kind: str, make_journal: Callable[[str], Journal]
) -> None:
    """Journals that open the same empty place at once all find it ready."""
    journals = [make_journal(kind) for _ in range(20)]
    outcomes = await asyncio.gather(
        *(
            journal.append(events(1, session_id=f"s-{n:02}"), expected=0, sync=True)
            for n, journal in enumerate(journals)
        )
    )
    assert outcomes == [1] * 20
    assert len((await journals[0].sessions("acme")).sessions) == 20
    await asyncio.gather(*(journal.close() for journal in journals))


@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
async def test_killed_writers_lose_nothing_they_promised(
    kind: str, make_journal: Callable[[str], Journal], tmp_path: Path
) -> None:
    """After fifty killed writers each batch is whole or absent, and each promised one is there."""
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")  # noqa: T201 - to make a failure happen again
    (output,) = await finished(await run_writer("killed", kind, tmp_path, 50, seed))
    promised = {tuple(told) for told in json.loads(output)}
    journal = make_journal(kind)
    found = await journal.read("acme", "session-1")
    assert [event.seq for event in found] == list(range(1, len(found) + 1))
    there: set[tuple[int, int]] = set()
    for at in range(0, len(found), 3):
        parts = [said_by(event) for event in found[at : at + 3]]
        number = parts[0][0]
        assert [part[:3] for part in parts] == [[number, str(at), str(n)] for n in range(3)]
        there.add((int(number), at))
    assert promised <= there
    last = len(found)
    assert await journal.append(events(2, after=last), expected=last, sync=True) == last + 2
    await journal.close()
