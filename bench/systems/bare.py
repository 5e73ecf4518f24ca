"""The floor: the loop that any agent is, with nothing around it.

Its store commits each message by itself, at full durability: one transaction of a SQLite log that
flushes at commit, or one appended line and one flush.
"""

import asyncio
import json
import os
import sqlite3
from collections.abc import Callable
from typing import TypeAlias
from uuid import uuid4

from bench.script import ANSWER, QUESTION
from bench.systems import Setup

Message: TypeAlias = dict[str, object]
Keep: TypeAlias = Callable[[str, int, Message], None]


class Bare:
    """The loop itself."""

    def __init__(self, setup: Setup) -> None:
        self._script = setup.script
        self._in_thread = setup.tool == "sync"
        self._keep, self._close = _store(setup)
        self._conversations: dict[str, list[Message]] = {}

    async def run(self, conversation: str | None) -> str:
        name = conversation or uuid4().hex
        messages = self._conversations.setdefault(name, []) if conversation else []
        self._add(name, messages, {"role": "user", "text": QUESTION})
        result: str | None = None
        while (turn := await self._script.next(result)) is not None:
            arguments = {"a": turn, "b": 1}
            self._add(name, messages, {"role": "assistant", "id": f"c{turn}", "call": arguments})
            if self._in_thread:
                result = await asyncio.to_thread(_add, turn, 1)
            else:
                result = _add(turn, 1)
            self._add(name, messages, {"role": "tool", "id": f"c{turn}", "text": result})
        self._add(name, messages, {"role": "assistant", "text": ANSWER})
        return ANSWER

    async def close(self) -> None:
        self._close()

    def _add(self, name: str, messages: list[Message], message: Message) -> None:
        messages.append(message)
        self._keep(name, len(messages), message)


async def open_system(setup: Setup) -> Bare:
    """Make the floor."""
    return Bare(setup)


class BareGraph:
    """A loop around an awaited step, whose state is kept after each."""

    def __init__(self, setup: Setup) -> None:
        self._keep, self._close = _store(setup)

    async def run(self, steps: int) -> int:
        name = uuid4().hex
        state = {"n": -steps}
        place = 0
        while state["n"] < 0:
            state |= await _count(state)
            place += 1
            self._keep(name, place, {**state})
        return state["n"]

    async def close(self) -> None:
        self._close()


async def open_graph(setup: Setup) -> BareGraph:
    """Make the floor of a graph."""
    return BareGraph(setup)


async def _count(state: dict[str, int]) -> dict[str, int]:
    return {"n": state["n"] + 1}


def _add(a: int, b: int) -> str:
    return str(a + b)


def _store(setup: Setup) -> tuple[Keep, Callable[[], None]]:
    if setup.store == "sqlite":
        return _sqlite(setup)
    if setup.store == "jsonl":
        return _lines(setup)
    return lambda *_: None, lambda: None


def _sqlite(setup: Setup) -> tuple[Keep, Callable[[], None]]:
    database = sqlite3.connect(setup.folder / "bare.db", isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.execute(
        "CREATE TABLE messages (conversation TEXT, place INTEGER, body TEXT,"
        " PRIMARY KEY (conversation, place)) WITHOUT ROWID"
    )

    def keep(name: str, place: int, message: Message) -> None:
        row = (name, place, json.dumps(message))
        database.execute("INSERT INTO messages VALUES (?, ?, ?)", row)

    return keep, database.close


def _lines(setup: Setup) -> tuple[Keep, Callable[[], None]]:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    descriptor = os.open(setup.folder / "bare.jsonl", flags)

    def keep(name: str, place: int, message: Message) -> None:
        line = json.dumps({"conversation": name, "place": place, **message})
        os.write(descriptor, line.encode() + b"\n")
        os.fdatasync(descriptor)

    return keep, lambda: os.close(descriptor)
