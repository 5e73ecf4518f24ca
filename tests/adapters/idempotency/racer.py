"""A program that asks for thirty keys and prints those that it was given: `racer.py FILE NAME`."""

import asyncio
import sys

from loom_ia.adapters.idempotency.sqlite import SqliteIdempotency
from tests.adapters.idempotency.test_contract import NOW, reservation


async def main(path: str, name: str) -> None:
    """Ask for each key."""
    store = SqliteIdempotency(path)
    for n in range(30):
        if await store.reserve(reservation(str(n), name), NOW) is None:
            sys.stdout.write(f"{n}\n")
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
