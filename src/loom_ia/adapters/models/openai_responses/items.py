"""The items of an answer while it comes in, and which of them an event is about.

Servers do not all number their items, nor name them twice alike. An item is found by its place and
its id, else by one of the two; in the list that ends an answer, by its id, else by its kind.
"""

from collections.abc import Iterator, Mapping, Sequence
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

    `rank` is the order in which it came.
    """

    kind: str
    rank: int
    given: Object = field(default_factory=dict[str, Any])
    read: dict[Piece, list[str]] = field(default_factory=dict[Piece, list[str]])
    announced_as: str = ""
    is_done: bool = False

    def text_of(self, key: str) -> str:
        """Give a text that was said of it, empty when there is none."""
        return text(self.given.get(key))

    def take(self, part: Piece, piece: str) -> None:
        """Remember what was read."""
        self.read.setdefault(part, []).append(piece)

    def has_read(self, wholes: Sequence[str]) -> bool:
        """Whether its parts are read already, however they were told apart."""
        return "".join(map("".join, self.read.values())) == "".join(wholes)

    def rest(self, part: Piece, whole: str) -> str:
        """Give what is not read yet of a part whose whole text is known.

        A whole that does not begin as what was read is another spelling of it.
        """
        known = "".join(self.read.get(part, ()))
        return whole[len(known) :] if whole.startswith(known) else ""


class Items:
    """The items of one answer."""

    def __init__(self) -> None:
        self._all: list[Item] = []
        self._by_place: dict[int, Item] = {}

    def __iter__(self) -> Iterator[Item]:
        return iter(list(self._all))

    def begun(self, event: Object) -> Item:
        """Give the item that an event begins."""
        given = object_of(event.get("item"))
        kind, item_id = text(given.get("type")), text(given.get("id"))
        known = self._found(event, item_id, kind) if item_id else None
        if known is None or known.text_of("id") != item_id:
            known = self._new(kind, _place(event))
        known.given = given
        return known

    def of(self, event: Object, kind: str) -> Item:
        """Give the item that an event adds to."""
        known = self._found(event, text(event.get("item_id")), kind)
        return known or self._new(kind, _place(event))

    def ended(self, event: Object) -> Item:
        """Give the item that an event ends, with what it is in the end."""
        given = object_of(event.get("item"))
        kind = text(given.get("type"))
        known = self._found(event, text(given.get("id")), kind) or self._new(kind, _place(event))
        known.given = given
        return known

    def listed(self, output: list[Object]) -> Iterator[Item]:
        """Give the items of a whole answer, with what they are in the end."""
        left = list(self._all)
        found: dict[int, Item] = {}
        for matches in (_has_same_name, _may_be_same):
            for rank, given in enumerate(output):
                known = next((each for each in left if matches(each, given)), None)
                if rank not in found and known is not None:
                    found[rank] = known
                    left.remove(known)
        for rank, given in enumerate(output):
            item = found.get(rank) or self._new(text(given.get("type")), None)
            item.given = given
            yield item

    def _found(self, event: Object, item_id: str, kind: str) -> Item | None:
        here = self._by_place.get(_place(event))
        if here is None or here.text_of("id") != item_id:
            here = self._named(item_id) or here
        return here if here is not None and here.kind == kind else None

    def _named(self, item_id: str) -> Item | None:
        return next((i for i in self._all if item_id and i.text_of("id") == item_id), None)

    def _new(self, kind: str, at: int | None) -> Item:
        item = Item(kind, len(self._all))
        self._all.append(item)
        if at is not None:
            self._by_place[at] = item
        return item


def _has_same_name(item: Item, given: Object) -> bool:
    names = [(item.text_of(key), text(given.get(key))) for key in ("id", "call_id")]
    return item.kind == given.get("type") and any(one and one == other for one, other in names)


def _may_be_same(item: Item, given: Object) -> bool:
    calls = item.text_of("call_id"), text(given.get("call_id"))
    return item.kind == given.get("type") and not (all(calls) and calls[0] != calls[1])


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
