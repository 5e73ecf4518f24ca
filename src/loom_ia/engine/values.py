"""A store of values that is a fold of a journal: it holds what the changes in it add up to.

Laws. A change is one event of the reserved stream, written after the last one that its writer has
seen; who comes second sees the other's first, and decides again. A read takes first what others
wrote. A transaction is one event: it is there whole or not at all, and only if nothing that it read
has changed since it began. No lock is held while the user's code runs, so that nothing done inside
a transaction can wait for it.

All values are kept in memory: this is for what configures and resumes work, not for bulk.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from types import TracebackType
from typing import Self

from loom_ia.core.errors import StoreError, told
from loom_ia.core.events.envelope import Draft, Event
from loom_ia.core.events.store import StoreChange, StoreChanged
from loom_ia.core.ids import STORE_STREAM, TenantId
from loom_ia.core.ports.clock import Clock
from loom_ia.core.ports.journal import Journal, SequenceConflict
from loom_ia.core.ports.store import Store
from loom_ia.engine.clock import SystemClock
from loom_ia.engine.values_fold import Fold, Transaction, copied, not_found, require_text

Plan = Callable[[], Sequence[StoreChange]]
"""Asked for changes before each try to write them; gives none to write nothing, or raises."""


class JournalStore:
    """Keep values in `journal`, which may be shared with runs and with other stores.

    `name` is what errors call the store. A value is flushed when its write returns. Two stores on
    one journal, or on journals over the same file or database, share the values of `tenant_id`.
    A failure of the journal is a `StoreError`; so is any use of a store that was closed.
    """

    def __init__(
        self,
        journal: Journal,
        *,
        name: str = "the store",
        tenant_id: TenantId = "default",
        clock: Clock | None = None,
    ) -> None:
        self.journal = journal
        """Where runs write that are given this store; it closes with the store."""
        self._name = name
        self._tenant_id = tenant_id
        self.clock = clock or SystemClock()
        """The time of what is written here, runs included."""
        self._fold = Fold()
        self._gate: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None
        self._closed = False

    async def open(self) -> None:
        """Create what is missing and check that the backend answers; opening twice is fine."""
        await self._catch_up()

    async def aclose(self) -> None:
        """Close the journal; closing twice does nothing."""
        self._closed = True
        with self._telling():
            await self.journal.close()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def get(self, ns: str, key: str) -> bytes:
        """Read a value; raises `KeyNotFound`."""
        place = require_text(ns, key)
        await self._catch_up()
        value = self._fold.get(place)
        if value is None:
            raise not_found(place)
        return value

    async def put(self, ns: str, key: str, value: bytes) -> None:
        """Write a value, whether or not there was one."""
        require_text(ns, key)
        change = StoreChange.of(ns, key, copied(value))
        await self._write(lambda: [change])

    async def delete(self, ns: str, key: str) -> None:
        """Remove a key; one that is not there is fine."""
        place = require_text(ns, key)
        change = StoreChange.of(ns, key, None)
        await self._catch_up()
        await self._write(lambda: [] if self._fold.get(place) is None else [change])

    async def list(self, ns: str, prefix: str = "") -> Sequence[str]:
        """Give the keys that begin with `prefix`, literally, in the order of code points."""
        require_text(ns, prefix)
        await self._catch_up()
        return sorted(self._fold.keys(ns, prefix))

    async def compare_and_set(
        self, ns: str, key: str, expected: bytes | None, value: bytes
    ) -> bool:
        """Write `value` if the key holds `expected` (None: is absent); tell whether it did."""
        place = require_text(ns, key)
        before = None if expected is None else copied(expected)
        change = StoreChange.of(ns, key, copied(value))
        await self._catch_up()
        return await self._write(lambda: [change] if self._fold.get(place) == before else [])

    @asynccontextmanager
    async def tx(self) -> AsyncGenerator[Store]:
        """Begin a transaction: leaving it commits, an exception rolls it back and propagates.

        It sees the values as they are now and its own writes, others do not before the commit. Its
        own `tx` raises `NestedTransaction`. This store can be used inside, outside of the
        transaction. The commit raises `StoreError`, and writes nothing, when somebody changed what
        the transaction read, or the keys that it listed: begin again then. Writes that follow from
        no read never fail so.
        """
        await self._catch_up()
        transaction = Transaction(self._fold)
        try:
            yield transaction
            transaction.end()
            if transaction.has_written:
                await self._write(transaction.changes)
        finally:
            transaction.end()
            transaction.forget()

    async def _write(self, plan: Plan) -> bool:
        """Write what `plan` gives for the values as they are, and flush; False if it is nothing."""
        self._require_open()
        with self._telling():
            async with self._lock():
                while True:
                    changes = plan()
                    if not changes:
                        return False
                    if await self._append(changes):
                        break
            if self.journal.durable:
                await self.journal.flush()
        return True

    async def _append(self, changes: Sequence[StoreChange]) -> bool:
        last = self._fold.last
        event = self._event(changes, last + 1)
        outcome = await self.journal.append([event], expected=last, sync=False)
        if not isinstance(outcome, SequenceConflict):
            self._fold.take([event])
            return True
        if not outcome.tail:  # the whole stream was erased
            self._fold.clear()
        self._fold.take(outcome.tail)
        return False

    def _event(self, changes: Sequence[StoreChange], seq: int) -> Event:
        return Draft(
            event_id=self.clock.new_id(),
            ts=self.clock.now(),
            tenant_id=self._tenant_id,
            session_id=STORE_STREAM,
            run_id=STORE_STREAM,
            root_run_id=STORE_STREAM,
            span_id=STORE_STREAM,
            parent_span_id=None,
            agent="",
            role=None,
            payload=StoreChanged.trusted(changes=tuple(changes)),
        ).placed(seq)

    async def _catch_up(self) -> None:
        self._require_open()
        if self._fold.last:
            await self._read_tail()
            return
        async with self._lock():  # one reads the whole stream, the others what follows
            await self._read_tail()

    async def _read_tail(self) -> None:
        with self._telling():
            tail = await self.journal.read(self._tenant_id, STORE_STREAM, after=self._fold.last)
            self._fold.take(tail)

    def _lock(self) -> asyncio.Lock:
        """Give the lock that makes writers of one loop queue up rather than conflict."""
        loop = asyncio.get_running_loop()
        if self._gate is None or self._gate[0] is not loop:
            self._gate = loop, asyncio.Lock()
        return self._gate[1]

    def _require_open(self) -> None:
        if self._closed:
            raise StoreError("{store} was closed: make another one", store=self._name)

    @contextmanager
    def _telling(self) -> Generator[None]:
        """Turn whatever the journal raises into a `StoreError` that names the store."""
        try:
            yield
        except StoreError:
            raise
        except Exception as error:
            raise StoreError(
                "{store} does not answer: {reason}", store=self._name, reason=told(error)
            ) from error
