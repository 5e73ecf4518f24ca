"""A program that adds to a number of a store, to run as another process: `adder.py FILE NAME MANY`.

It adds one MANY times in a transaction, which marks it as done too, and MANY times by comparing.
"""

import asyncio
import sys

from loom_ia.assembly.stores import SQLiteStore
from loom_ia.core.errors import StoreError


async def add(store: SQLiteStore, mark: str) -> bool:
    """Add one in a transaction; tell whether it was not refused."""
    try:
        async with store.tx() as tx:
            before = int(await tx.get("ns", "n"))
            await tx.put("ns", "n", b"%d" % (before + 1))
            await tx.put("done", mark, b"")
    except StoreError as error:
        if "try again" not in str(error):
            raise
        return False
    return True


async def main(path: str, name: str, many: str) -> None:
    """Add until it is done."""
    async with SQLiteStore(path) as store:
        for n in range(int(many)):
            while not await add(store, f"{name}/{n}"):
                pass
            while True:
                before = await store.get("ns", "n")
                if await store.compare_and_set("ns", "n", before, b"%d" % (int(before) + 1)):
                    break


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
