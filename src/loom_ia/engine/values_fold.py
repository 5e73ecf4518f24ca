"""The values in memory: what the changes of a stream add up to, and a transaction's view of them.

Nothing here waits. A transaction sees the values as they were when it began: the fold tells each
open one what a key held before it changes it, which is also how it knows that a read is stale.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, NoReturn, cast

from loom_ia.core.errors import (
    JournalCorrupted,
    KeyNotFound,
    NestedTransaction,
    NewerJournal,
    StoreError,
)
from loom_ia.core.events.envelope import Event
from loom_ia.core.events.store import StoreChange, StoreChanged


class Place(NamedTuple):
    """Where a value stands."""

    ns: str
    key: str


def require_text(ns: object, key: object) -> Place:
    """Return the place, or raise `TypeError`, or `ValueError` for what is no Unicode text."""
    if not isinstance(ns, str) or not isinstance(key, str):
        raise TypeError(f"a namespace and a key are str, not {ns!r:.80} and {key!r:.80}")
    ns.encode()
    key.encode()
    return Place(ns, key)


def copied(value: object) -> bytes:
    """Give bytes of one's own; raises `TypeError` for anything else than bytes."""
    if not isinstance(value, bytes | bytearray | memoryview):
        raise TypeError(f"a value is bytes, not {type(value).__name__}: encode it first")
    return bytes(cast("bytes", value))


def not_found(place: Place) -> KeyNotFound:
    """Build the error of a key that is not there."""
    return KeyNotFound("nothing is kept under {key!r} in {ns!r}", key=place.key, ns=place.ns)


class Fold:
    """The values after the event `last` of their stream; 0 is before the first one."""

    def __init__(self) -> None:
        self.last = 0
        self.open: set[Transaction] = set()
        self._kept: dict[str, dict[str, bytes]] = {}

    def get(self, place: Place) -> bytes | None:
        """Give a value, or None."""
        return self._kept.get(place.ns, {}).get(place.key)

    def keys(self, ns: str, prefix: str) -> Iterable[str]:
        """Give the keys of `ns` that begin with `prefix`, in any order."""
        return [key for key in self._kept.get(ns, {}) if key.startswith(prefix)]

    def take(self, events: Iterable[Event]) -> None:
        """Apply the events that follow; those that were applied already are passed over."""
        for event in events:
            if event.seq <= self.last:
                continue
            if event.seq != self.last + 1:
                raise JournalCorrupted(
                    "the stream of the store goes from event {before} to event {seq}",
                    before=self.last,
                    seq=event.seq,
                )
            if not isinstance(event.payload, StoreChanged):
                raise NewerJournal(
                    "event {seq} of the store is {type}, which this version cannot read",
                    seq=event.seq,
                    type=event.type,
                )
            for change in event.payload.changes:
                self._set(Place(change.ns, change.key), change.content())
            self.last = event.seq

    def clear(self) -> None:
        """Go back before the first event."""
        for ns, values in list(self._kept.items()):
            for key in list(values):
                self._set(Place(ns, key), None)
        self.last = 0

    def _set(self, place: Place, value: bytes | None) -> None:
        before = self.get(place)
        for transaction in self.open:
            transaction.before.setdefault(place, before)
        if value is not None:
            self._kept.setdefault(place.ns, {})[place.key] = value
        elif before is not None:
            del self._kept[place.ns][place.key]
            if not self._kept[place.ns]:
                del self._kept[place.ns]


class Transaction:
    """What a transaction sees and has written; it is a `Store` until it ends."""

    def __init__(self, fold: Fold) -> None:
        self.before: dict[Place, bytes | None] = {}
        """What keys held when this began, for those that others have changed since."""
        self._fold = fold
        self._written: dict[Place, bytes | None] = {}
        self._read: set[Place] = set()
        self._listed: set[Place] = set()
        self._over = False
        fold.open.add(self)

    @property
    def has_written(self) -> bool:
        """Whether there is anything to commit."""
        return bool(self._written)

    def end(self) -> None:
        """Refuse any further use."""
        self._over = True

    def forget(self) -> None:
        """Stop following what others change."""
        self._fold.open.discard(self)

    async def get(self, ns: str, key: str) -> bytes:
        self._require_open()
        place = require_text(ns, key)
        if place in self._written:
            value = self._written[place]
        else:
            self._read.add(place)
            value = self._at_begin(place)
        if value is None:
            raise not_found(place)
        return value

    async def put(self, ns: str, key: str, value: bytes) -> None:
        self._require_open()
        self._written[require_text(ns, key)] = copied(value)

    async def delete(self, ns: str, key: str) -> None:
        self._require_open()
        self._written[require_text(ns, key)] = None

    async def list(self, ns: str, prefix: str = "") -> Sequence[str]:
        self._require_open()
        self._listed.add(require_text(ns, prefix))
        found = set(self._fold.keys(ns, prefix))
        for changes in (self.before, self._written):
            for place, value in changes.items():
                if place.ns == ns and place.key.startswith(prefix):
                    (found.discard if value is None else found.add)(place.key)
        return sorted(found)

    def tx(self) -> NoReturn:
        raise NestedTransaction(
            "a transaction cannot be begun inside another one: use the one that is open"
        )

    def changes(self) -> Sequence[StoreChange]:
        """Give what is to be written; raises `StoreError` when what was read is no longer so."""
        for place in self.before:
            if self._depends_on(place):
                raise StoreError(
                    "somebody changed {key!r} in {ns!r}, which this transaction read: "
                    "nothing was written, try again",
                    key=place.key,
                    ns=place.ns,
                )
        return [StoreChange.of(*place, value) for place, value in self._written.items()]

    def _depends_on(self, place: Place) -> bool:
        """Whether what was read of `place` is different now."""
        before, now = self.before[place], self._fold.get(place)
        if place in self._read and before != now:
            return True
        return (before is None) != (now is None) and any(
            place.ns == ns and place.key.startswith(prefix) for ns, prefix in self._listed
        )

    def _at_begin(self, place: Place) -> bytes | None:
        return self.before[place] if place in self.before else self._fold.get(place)

    def _require_open(self) -> None:
        if self._over:
            raise StoreError("this transaction is over: begin another one")
