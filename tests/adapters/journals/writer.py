"""A program that writes to a journal, to run as another process.

writer.py append KIND FOLDER NAME TASKS BATCHES SIZE SESSION   each task appends its batches
writer.py killed KIND FOLDER ROUNDS SEED                       writers that are killed
writer.py hold FOLDER NAME [fork]                              hold a driver's lock
"""

import asyncio
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

from loom_ia.adapters.journals.driver_locks import FileDriverLocks
from loom_ia.adapters.journals.jsonl import JsonlJournal
from loom_ia.adapters.journals.sqlite import SqliteJournal
from loom_ia.core.ports import Journal
from tests.builders import placed, said


def open_journal(kind: str, folder: str) -> Journal:
    """Open the journal that the tests' own `conftest` opens in that folder."""
    if kind == "sqlite":
        return SqliteJournal(Path(folder) / "journal.db")
    return JsonlJournal(Path(folder) / "journal")


async def append_all(journal: Journal, session_id: str, name: str, batches: int, size: int) -> None:
    """Append whole batches, each event telling its batch, whoever else writes there."""
    last = 0
    for number in range(batches):
        while True:
            texts = [said(f"{name}/{number}/{n}") for n in range(size)]
            batch = placed(texts, after=last, session_id=session_id, run_id=name)
            outcome = await journal.append(batch, expected=last, sync=number % 5 == 0)
            if isinstance(outcome, int):
                last = outcome
                break
            last += len(outcome.tail)


async def append(kind: str, folder: str, name: str, *numbers: str) -> None:
    """Run as many tasks as asked; `SESSION` is `shared`, or `own` for one session per task."""
    *counts, where = numbers
    tasks, batches, size = map(int, counts)
    journal = open_journal(kind, folder)
    names = [f"{name}-{n}" for n in range(tasks)]
    await asyncio.gather(
        *(
            append_all(journal, "shared" if where == "shared" else task, task, batches, size)
            for task in names
        )
    )
    await journal.close()


async def write_until_killed(kind: str, folder: str, number: int, pipe: int) -> None:
    """Append batches of three, some of them long, and tell each place that was promised."""
    journal = open_journal(kind, folder)
    last = len(await journal.read("acme", "session-1"))
    filler = "x" * (100_000 if number % 3 == 0 else 30)
    while True:
        texts = [said(f"{number}/{last}/{n}/{filler}") for n in range(3)]
        batch = placed(texts, after=last)
        outcome = await journal.append(batch, expected=last, sync=last % 2 == 0)
        assert isinstance(outcome, int)
        os.write(pipe, f"{last}\n".encode())
        last = outcome


def killed(kind: str, folder: str, rounds: str, seed: str) -> None:
    """Kill a writer at each round, after it promised some batches; print what was promised."""
    chance = random.Random(int(seed))
    promised: list[list[int]] = []
    for number in range(int(rounds)):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            asyncio.run(write_until_killed(kind, folder, number, writer))
        os.close(writer)
        with os.fdopen(reader) as acknowledged:
            told = [int(acknowledged.readline()) for _ in range(chance.randint(1, 6))]
            spin = time.perf_counter() + chance.random() * 0.002
            while time.perf_counter() < spin:
                pass
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            told += [int(line) for line in acknowledged if line.endswith("\n")]
        promised += [[number, last] for last in told]
    sys.stdout.write(json.dumps(promised))


def hold(folder: str, name: str, *more: str) -> None:
    """Hold a lock until killed; with `fork`, die and leave a child behind."""
    FileDriverLocks(Path(folder)).hold(name)
    sys.stdout.write("held\n")
    sys.stdout.flush()
    if more:
        parent = os.getpid()
        if os.fork() > 0:
            os._exit(0)
        while os.getppid() == parent:
            os.sched_yield()
        sys.stdout.write("left behind\n")
        sys.stdout.flush()
    signal.pause()


if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    match command:
        case "append":
            asyncio.run(append(*arguments))
        case "killed":
            killed(*arguments)
        case _:
            hold(*arguments)
