"""Flushes that are shared: whoever asks while one is under way waits for the next, together.

A flush covers all that was written before it began, so one is enough for any number of writers.
It runs in a thread of its own, for the loop must not wait for a disk; one queue, for an executor
costs twice the hop.

After a failed flush the kernel may have dropped what it could not write, and a second one would
succeed wrongly (https://lwn.net/Articles/752063/). So the failure stays, until the journal is
opened anew.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import SimpleQueue
from threading import Lock, Thread

from loom_ia.core.errors import JournalError

_Waiter = asyncio.Future[None]


class Flusher:
    """Turn `flush`, which blocks, into a flush that concurrent callers share."""

    def __init__(self, flush: Callable[[], None]) -> None:
        self._flush = flush
        self._waiting: SimpleQueue[_Waiter | None] = SimpleQueue()
        self._thread: Thread | None = None
        self._lock = Lock()
        self._closed = False
        self._failure: str | None = None

    async def flush(self) -> None:
        """Return once everything written before this call is on the disk."""
        waiter = asyncio.get_running_loop().create_future()
        with self._lock:
            if self._closed:
                raise JournalError("the journal was closed before it could flush")
            if self._thread is None:
                self._thread = Thread(target=self._run, name="loom-flush", daemon=True)
                self._thread.start()
            self._waiting.put(waiter)
        await waiter

    def close(self) -> None:
        """Wait for the flush under way, and stop the thread."""
        with self._lock:
            self._closed = True
            self._waiting.put(None)
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while True:
            asked = [self._waiting.get()]
            while not self._waiting.empty():
                asked.append(self._waiting.get())
            waiters = [waiter for waiter in asked if waiter is not None]
            if waiters:
                self._try()
                _settle(waiters, self._failure)
            if len(waiters) < len(asked):
                return

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
