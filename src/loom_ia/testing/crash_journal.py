"""A journal that kills whoever writes to it, at a chosen write and on a chosen side of it.

Law. Death is sudden and final: the write raises `Crash`, which nothing in this package catches, and
every later use of the journal by the dead host raises it again. What survives is asked of the
journal below, which never knew of the death.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar

from loom_ia.core.events.envelope import Event
from loom_ia.core.events.query import EventQuery
from loom_ia.core.ids import RunId, SessionId, TenantId
from loom_ia.core.ports.journal import (
    Damage,
    DriverLocks,
    SequenceConflict,
    SessionPage,
)
from loom_ia.testing.journals import CrashLevel, PowerLossJournal

T = TypeVar("T")

Side: TypeAlias = Literal["before", "after"]


class Crash(BaseException):
    """The host died. It is no `Exception`, so that no handler of failures goes on after it."""


@dataclass(frozen=True, slots=True)
class CrashPoint:
    """Where a host dies: at its write number `write`, from 1 on.

    `before`: the write does not land. `after`: it lands, and the writer does not learn it.
    """

    write: int
    side: Side

    def __str__(self) -> str:
        return f"{self.side} write {self.write}"


class CrashJournal:
    """Pass everything to `journal` until the point is reached; None is never reached.

    An append is a write. A flush is one too at the level `power`, where it makes a difference.
    `writes` names what each write held. At the death `crashed` is set and `watch` is called,
    before anything else can happen.
    """

    def __init__(
        self,
        journal: PowerLossJournal,
        level: CrashLevel,
        point: CrashPoint | None = None,
    ) -> None:
        self.journal = journal
        self.level: CrashLevel = level
        self.point = point
        self.writes: list[str] = []
        self.crashed = asyncio.Event()
        self.watch: Callable[[], None] = lambda: None

    @property
    def durable(self) -> bool:
        return True

    @property
    def locks(self) -> DriverLocks | None:
        return None

    async def append(
        self, batch: Sequence[Event], *, expected: int, sync: bool
    ) -> int | SequenceConflict:
        what = " ".join(event.type for event in batch)
        return await self._write(
            what, lambda: self.journal.append(batch, expected=expected, sync=sync)
        )

    async def flush(self) -> None:
        self._live()
        if self.level == "power":
            await self._write("flush", self.journal.flush)

    async def read(
        self, tenant_id: TenantId, session_id: SessionId, *, after: int = 0
    ) -> list[Event]:
        self._live()
        return await self.journal.read(tenant_id, session_id, after=after)

    async def locate(self, tenant_id: TenantId, run_id: RunId) -> SessionId | None:
        self._live()
        return await self.journal.locate(tenant_id, run_id)

    async def query(self, query: EventQuery) -> list[Event]:
        self._live()
        return await self.journal.query(query)

    async def sessions(
        self, tenant_id: TenantId, *, after: SessionId | None = None, limit: int = 100
    ) -> SessionPage:
        self._live()
        return await self.journal.sessions(tenant_id, after=after, limit=limit)

    async def delete(self, tenant_id: TenantId, session_id: SessionId) -> int:
        return await self._write("delete", lambda: self.journal.delete(tenant_id, session_id))

    def damages(self) -> tuple[Damage, ...]:
        return self.journal.damages()

    async def close(self) -> None:
        """Let go; a dead host flushes nothing on its way out."""
        if not self.crashed.is_set():
            await self.journal.close()

    async def _write(self, what: str, write: Callable[[], Awaitable[T]]) -> T:
        self._live()
        self.writes.append(what)
        point = self.point
        due = point is not None and point.write == len(self.writes)
        if due and point is not None and point.side == "before":
            self._die()
        outcome = await write()
        if due:
            self._die()
        return outcome

    def _die(self) -> None:
        self.crashed.set()
        self.watch()
        raise Crash(f"{self.point}: {self.writes[-1]}")

    def _live(self) -> None:
        if self.crashed.is_set():
            raise Crash("the host is dead")
