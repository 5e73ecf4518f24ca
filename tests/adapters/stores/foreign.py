"""A store of somebody else's: the five methods, errors of its own, one writer at a time."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager


class NothingThere(KeyError):
    """Raised for a key that is not there."""


class ForeignStore:
    """Keeps bytes in a dictionary. `broken` is raised by every method while it is set.

    `calls` lists what was written, a transaction as one list.
    """

    def __init__(self, kept: dict[tuple[str, str], bytes] | None = None) -> None:
        self.kept = {} if kept is None else kept
        self.broken: Exception | None = None
        self.calls: list[list[tuple[str, str]]] = []
        self._writing = asyncio.Lock()
        self._written: list[tuple[str, str]] = []

    async def get(self, ns: str, key: str) -> bytes:
        await self._answer()
        try:
            return self.kept[ns, key]
        except KeyError:
            raise NothingThere(ns, key) from None

    async def put(self, ns: str, key: str, value: bytes) -> None:
        await self._answer()
        self._written.append((ns, key))
        self.kept[ns, key] = value

    async def delete(self, ns: str, key: str) -> None:
        await self._answer()
        self.kept.pop((ns, key), None)

    async def list(self, ns: str, prefix: str = "") -> Sequence[str]:
        await self._answer()
        return [key for space, key in self.kept if space == ns and key.startswith(prefix)]

    @asynccontextmanager
    async def tx(self) -> AsyncGenerator["ForeignStore"]:
        async with self._writing:
            inner = ForeignStore(dict(self.kept))
            inner.broken = self.broken
            yield inner
            self.calls.append(inner._written)
            self.kept = inner.kept

    async def _answer(self) -> None:
        await asyncio.sleep(0)
        if self.broken is not None:
            raise self.broken
