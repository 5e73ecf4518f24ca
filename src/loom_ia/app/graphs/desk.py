"""Where the runs of a graph are kept when no host is there: a journal, and who drives on it.

A call that drives has a name of its own, so that two calls of one process never take each other's
run for theirs. What drives in this process is known by journal, so that a cancel is felt at once.
"""

from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import count
from secrets import token_hex
from typing import Any, Final
from weakref import WeakKeyDictionary

from loom_ia.adapters.journals.memory import MemoryJournal
from loom_ia.adapters.journals.store import StoreJournal
from loom_ia.app.graphs.keeping import Keeping
from loom_ia.app.instance import Driven, Instance
from loom_ia.core.ids import RunId
from loom_ia.core.ports.journal import HeldLock, Journal
from loom_ia.core.ports.store import Store
from loom_ia.engine.clock import SystemClock
from loom_ia.engine.lease import Pilot
from loom_ia.engine.values import JournalStore
from loom_ia.graph.types import Durability

_PROCESS: Final = f"graph-{token_hex(6)}"
_CALLS: Final = count(1)
_METHODS: Final = ("get", "put", "delete", "list", "tx")


@dataclass(frozen=True, slots=True)
class Desk:
    """A journal, the store that it belongs to if there is one, and what drives on it here.

    That of a host, which `is_hosted`, has its journal alone: no checkpoint is kept beside it, and
    its instance goes on when a run is over.
    """

    journal: Journal
    store: Store | None
    driven: dict[RunId, Driven] = field(default_factory=dict[RunId, Driven])
    locks: list[HeldLock] = field(default_factory=list[HeldLock])
    is_hosted: bool = False

    def instance(self, lease: float, durability: Durability) -> Instance:
        """Give somebody who drives one run; `lease` is in seconds."""
        worker = f"{_PROCESS}-{next(_CALLS)}"
        clock = self.store.clock if isinstance(self.store, JournalStore) else SystemClock()
        instance = Instance(
            journal=Keeping(self.journal, durability),
            clock=clock,
            worker_id=worker,
            lease=timedelta(seconds=lease),
            programs=dict,
            alone=self.store is None,
        )
        locks = self.journal.locks
        if locks is not None and not self.locks:
            self.locks.append(locks.hold(worker))
        name = self.locks[0].name if self.locks else ""
        instance.steer(Pilot(worker, instance.lease, locks, name))
        return instance


_DESKS: Final[WeakKeyDictionary[Any, Desk]] = WeakKeyDictionary()


def desk_of(store: Store | None, graph: str) -> Desk:
    """Give the desk of a store; a private one in memory without a store.

    Raises `ValueError` for what is no store.
    """
    if store is None:
        return Desk(MemoryJournal(), None)
    if not all(callable(getattr(store, name, None)) for name in _METHODS):
        raise ValueError(
            f"store={store!r}: it is a store, such as MemoryStore(), SQLiteStore(path),"
            f" or any object with {', '.join(_METHODS)}"
        )
    journal = getattr(store, "journal", None)
    if journal is None:
        return _foreign(store, graph)
    return _shared(store, journal)


def _shared(store: Any, journal: Journal) -> Desk:
    try:
        desk = _DESKS.get(store)
        if desk is None:  # kept without the store, which it would hold alive
            desk = _DESKS[store] = Desk(journal, None)
    except TypeError:  # an object that cannot be remembered is only forgotten
        return Desk(journal, store)
    return replace(desk, store=store)


def _foreign(store: Any, graph: str) -> Desk:
    try:
        known = _FOREIGN.setdefault(store, {})
    except TypeError:
        return Desk(StoreJournal(store, graph), store)
    return Desk(StoreJournal(store, graph), store, known.setdefault(graph, {}))


_FOREIGN: Final[WeakKeyDictionary[Any, dict[str, dict[RunId, Driven]]]] = WeakKeyDictionary()
