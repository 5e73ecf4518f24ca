"""The items of an answer while it comes in, and which of them an event is about.

Servers do not all number their items, nor name them twice alike. An item is found by its place and
its id, else by one of the two; in the list that ends an answer, by its id, else by its kind.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, cast

Object: TypeAlias = Mapping[str, Any]
Piece: TypeAlias = tuple[str, int]
"""A part of an item: what it is a part of, and its rank there."""

MESSAGE: Final = "message"
REASONING: Final = "reasoning"
CALL: Final = "function_call"

_NOWHERE: Final = -1


@dataclass(slots=True, eq=False)
class Item:
    """One item: what was said of it last, and what was read of each of its parts.

    `rank` is the order in which it came, `length` how much was read.
    """

    kind: str
    rank: int
    given: Object = field(default_factory=dict[str, Any])
    read: dict[Piece, list[str]] = field(default_factory=dict[Piece, list[str]])
    length: int = 0
    announced_as: str = ""
    is_done: bool = False

    def text_of(self, key: str) -> str:
        """Give a text that was said of it, empty when there is none."""
        return text(self.given.get(key))

    def take(self, part: Piece, piece: str) -> None:
        """Remember what was read."""
        self.read.setdefault(part, []).append(piece)
        self.length += len(piece)

    def has_read(self, wholes: Sequence[str]) -> bool:
        """Whether its parts are read already, however they were told apart."""
        if sum(map(len, wholes)) != self.length:
            return False
        return "".join(map("".join, self.read.values())) == "".join(wholes)

    def rest(self, part: Piece, whole: str) -> str:
        """Give what is not read yet of a part whose whole text is known.

        A whole that does not begin as what was read is another spelling of it.
        """
        known = 0
        for piece in self.read.get(part, ()):
            if not whole.startswith(piece, known):
                return ""
            known += len(piece)
        return whole[known:]


class Items:
    """The items of one answer."""

    def __init__(self) -> None:
        self._all: list[Item] = []
        self._by_place: dict[int, Item] = {}
        self._by_id: dict[str, Item] = {}

    def __iter__(self) -> Iterator[Item]:
        return iter(list(self._all))

    def begun(self, event: Object) -> Item:
        """Give the item that an event begins."""
        given = object_of(event.get("item"))
        kind, item_id = text(given.get("type")), text(given.get("id"))
        known = self._found(event, item_id, kind) if item_id else None
        if known is None or known.text_of("id") != item_id:
            known = self._new(kind, _place(event))
        return self._told(known, given)

    def of(self, event: Object, kind: str) -> Item:
        """Give the item that an event adds to."""
        known = self._found(event, text(event.get("item_id")), kind)
        return known or self._new(kind, _place(event))

    def ended(self, event: Object) -> Item:
        """Give the item that an event ends, with what it is in the end."""
        given = object_of(event.get("item"))
        kind = text(given.get("type"))
        known = self._found(event, text(given.get("id")), kind) or self._new(kind, _place(event))
        return self._told(known, given)

    def listed(self, output: list[Object]) -> Iterator[Item]:
        """Give the items of a whole answer, with what they are in the end."""
        left = _Left(self._all)
        found = [left.named(given) for given in output]
        for rank, given in enumerate(output):
            found[rank] = found[rank] or left.like(given)
        for item, given in zip(found, output, strict=True):
            yield self._told(item or self._new(text(given.get("type")), None), given)

    def _told(self, item: Item, given: Object) -> Item:
        """Note what was said of an item."""
        item.given = given
        item_id = item.text_of("id")
        if self._named(item_id) is None:
            self._by_id[item_id] = item
        return item

    def _found(self, event: Object, item_id: str, kind: str) -> Item | None:
        here = self._by_place.get(_place(event))
        if here is None or here.text_of("id") != item_id:
            here = self._named(item_id) or here
        return here if here is not None and here.kind == kind else None

    def _named(self, item_id: str) -> Item | None:
        known = self._by_id.get(item_id) if item_id else None
        return known if known is not None and known.text_of("id") == item_id else None

    def _new(self, kind: str, at: int | None) -> Item:
        item = Item(kind, len(self._all))
        self._all.append(item)
        if at is not None:
            self._by_place[at] = item
        return item


class _Left:
    """The items that none of a list was yet found to be; each is given once, in their order."""

    def __init__(self, items: Iterable[Item]) -> None:
        self._given: set[int] = set()
        self._by_sign: dict[tuple[str, ...], deque[Item]] = {}
        for item in items:
            for sign in _signs(item.kind, item.given):
                self._by_sign.setdefault(sign, deque()).append(item)
            self._by_sign.setdefault((item.kind,), deque()).append(item)
            if not item.text_of("call_id"):
                self._by_sign.setdefault((item.kind, "unnamed"), deque()).append(item)

    def named(self, given: Object) -> Item | None:
        """Give the first that has an id of `given`."""
        signs = _signs(text(given.get("type")), given)
        firsts = [first for sign in signs if (first := self._first(sign)) is not None]
        return self._take(min(firsts, key=lambda item: item.rank, default=None))

    def like(self, given: Object) -> Item | None:
        """Give the first that nothing tells apart from `given`, which no id names."""
        kind = text(given.get("type"))
        sign = (kind, "unnamed") if text(given.get("call_id")) else (kind,)
        return self._take(self._first(sign))

    def _first(self, sign: tuple[str, ...]) -> Item | None:
        queue = self._by_sign.get(sign, deque())
        while queue and queue[0].rank in self._given:
            queue.popleft()
        return queue[0] if queue else None

    def _take(self, item: Item | None) -> Item | None:
        if item is not None:
            self._given.add(item.rank)
        return item


def _signs(kind: str, given: Object) -> list[tuple[str, ...]]:
    """Give what names an item: its ids, which are those of its kind."""
    named = [(kind, key, text(given.get(key))) for key in ("id", "call_id")]
    return [sign for sign in named if sign[-1]]


def _place(event: Object) -> int:
    """Give the place of the item of an event; without one, it is that of the last such item."""
    return number(event.get("output_index"), _NOWHERE)


def number(value: object, default: int = 0) -> int:
    """Read a number that is not negative."""
    return value if isinstance(value, int) and value >= 0 else default


def text(value: object) -> str:
    """Read a text, empty when it is none."""
    return value if isinstance(value, str) else ""


def object_of(value: object) -> Object:
    """Read an object, empty when it is none."""
    return cast("Object", value) if isinstance(value, Mapping) else {}


def objects(value: object) -> list[Object]:
    """Read a list of objects."""
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [object_of(item) for item in items]
