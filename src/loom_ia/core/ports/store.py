"""A store of values: bytes under a key, in namespaces."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, runtime_checkable


@runtime_checkable
class Store(Protocol):
    """Keeps bytes. Every store of this package passes the same contract suite.

    Values are copied both ways. A backend out of reach raises `StoreError`, never `KeyNotFound`.
    """

    async def get(self, ns: str, key: str) -> bytes:
        """Read a value; raises `KeyNotFound`."""
        ...

    async def put(self, ns: str, key: str, value: bytes) -> None:
        """Write a value, whether or not there was one."""
        ...

    async def delete(self, ns: str, key: str) -> None:
        """Remove a key; one that is not there is fine."""
        ...

    async def list(self, ns: str, prefix: str = "") -> Sequence[str]:
        """Give the keys that begin with `prefix`, literally, sorted."""
        ...

    def tx(self) -> AbstractAsyncContextManager["Store"]:
        """Begin a transaction: leaving it commits, an exception rolls it back and propagates.

        The store that it gives sees its own writes, others do not before the commit; its own `tx`
        raises `NestedTransaction`. The outer store can be used inside, outside of the transaction,
        or raises `StoreError` at once; it never blocks.
        """
        ...
