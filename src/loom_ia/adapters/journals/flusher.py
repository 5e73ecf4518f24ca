"""Flushes that are shared: whoever asks while one is under way waits for the next, together.

A flush covers all that was written before it began, so one is enough for any number of writers.
It runs in a thread of its own, for the loop must not wait for a disk.

After a failed flush the kernel may have dropped what it could not write, and a second one would
succeed wrongly (https://lwn.net/Articles/752063/). So the failure stays, until the journal is
opened anew.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Lock

from loom_ia.core.errors import JournalError

_Waiter = asyncio.Future[None]


class Flusher:
    """Turn `flush`, which blocks, into a flush that concurrent callers share."""

    def __init__(self, flush: Callable[[], None]) -> None:
        self._flush = flush
        self._lock = Lock()
        self._waiting: list[_Waiter] = []
        self._running = False
        self._failure: str | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="loom-flush")

    async def flush(self) -> None:
        """Return once everything written before this call is on the disk."""
        waiter = asyncio.get_running_loop().create_future()
        with self._lock:
            self._waiting.append(waiter)
            if not self._running:
                self._thread.submit(self._run)
                self._running = True
        await waiter

    def close(self) -> None:
        """Wait for the flush under way, and stop the thread."""
        self._thread.shutdown()

    def _run(self) -> None:
        while True:
            with self._lock:
                waiters, self._waiting = self._waiting, []
                self._running = bool(waiters)
            if not waiters:
                return
            self._try()
            _settle(waiters, self._failure)

    def _try(self) -> None:
        if self._failure is not None:
            return
        try:
            self._flush()
        except Exception as error:  # noqa: BLE001 - whatever it is, those who wait must hear of it
            self._failure = str(error)


def _settle(waiters: Sequence[_Waiter], failure: str | None) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[_Waiter]] = {}
    for waiter in waiters:
        by_loop.setdefault(waiter.get_loop(), []).append(waiter)
    for loop, its_waiters in by_loop.items():
        with suppress(RuntimeError):  # that loop was closed: nobody waits there any more
            loop.call_soon_threadsafe(_wake, its_waiters, failure)


def _wake(waiters: Sequence[_Waiter], failure: str | None) -> None:
    for waiter in waiters:
        if waiter.done():
            continue
        if failure is None:
            waiter.set_result(None)
        else:
            waiter.set_exception(
                JournalError(
                    "the disk did not take what was written ({reason}): look at it, "
                    "then open the journal anew",
                    reason=failure,
                )
            )
