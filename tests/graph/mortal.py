"""Stores over one journal in memory, which die of a fact that somebody names."""

from collections.abc import Callable, Sequence
from typing import Any, cast

from loom_ia.adapters.journals.memory import MemoryJournal
from loom_ia.core.events.envelope import Event
from loom_ia.engine.values import JournalStore
from loom_ia.testing import Crash

Fatal = Callable[[Event], bool]


class Mortal:
    """A journal that survives, and the stores of the processes that come and go over it."""

    def __init__(self) -> None:
        self.journal = MemoryJournal()

    def store(self, dies: Fatal | None = None, *, lands: bool = False) -> JournalStore:
        """Give the store of a new process, which dies of the first fact that `dies` tells.

        The batch with that fact is written only if it `lands`.
        """
        journal = cast("Any", _Dying(self.journal, dies, lands=lands))
        return JournalStore(journal, name="the store of a process")


class _Dying:
    """Pass everything on until the fatal fact; from then on, raise `Crash`."""

    def __init__(self, journal: MemoryJournal, dies: Fatal | None, *, lands: bool) -> None:
        self._journal = journal
        self._dies = dies
        self._lands = lands
        self._dead = False

    async def append(self, batch: Sequence[Event], *, expected: int, sync: bool) -> Any:
        self._live()
        if self._dies is not None and any(map(self._dies, batch)):
            self._dead = True
            if self._lands:
                await self._journal.append(batch, expected=expected, sync=sync)
            self._live()
        return await self._journal.append(batch, expected=expected, sync=sync)

    def __getattr__(self, name: str) -> Any:
        if name not in ("durable", "locks"):
            self._live()
        return getattr(self._journal, name)

    def _live(self) -> None:
        if self._dead:
            raise Crash("the process is dead")


def ends(step: str) -> Fatal:
    """Tell the end of a step, or of one call of it by its whole id."""
    return lambda event: (
        event.type == "tool.completed"
        and step in (getattr(event.payload, "tool_name", ""), getattr(event.payload, "call_id", ""))
    )


def is_type(name: str) -> Fatal:
    """Tell the facts of one type."""
    return lambda event: event.type == name
