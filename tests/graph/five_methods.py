"""A store of somebody else's: five methods over a dict, and nothing more."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from loom_ia.graph import KeyNotFound, NestedTransaction


class Five:
    """Keep values in `values`; `trouble` is told each call first, and may raise."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, str], bytes] = {}
        self.trouble: Callable[[str, str, str], None] = lambda what, ns, key: None

    async def get(self, ns: str, key: str) -> bytes:
        self.trouble("get", ns, key)
        try:
            return self.values[ns, key]
        except KeyError:
            raise KeyNotFound("nothing under {key} in {ns}", key=key, ns=ns) from None

    async def put(self, ns: str, key: str, value: bytes) -> None:
        self.trouble("put", ns, key)
        self.values[ns, key] = bytes(value)

    async def delete(self, ns: str, key: str) -> None:
        self.trouble("delete", ns, key)
        self.values.pop((ns, key), None)

    async def list(self, ns: str, prefix: str = "") -> Sequence[str]:
        self.trouble("list", ns, prefix)
        return sorted(key for there, key in self.values if there == ns and key.startswith(prefix))

    @asynccontextmanager
    async def tx(self) -> AsyncIterator[Any]:
        self.trouble("tx", "", "")
        inner = _Inside()
        inner.values, inner.trouble = dict(self.values), self.trouble
        before = dict(self.values)
        yield inner
        for place in inner.values.keys() | before.keys():
            if inner.values.get(place) != before.get(place):
                if place in inner.values:
                    self.values[place] = inner.values[place]
                else:
                    self.values.pop(place, None)


class _Inside(Five):
    def tx(self) -> Any:
        raise NestedTransaction("a transaction has none of its own")
