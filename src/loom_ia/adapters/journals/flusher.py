"""Flushes that are shared: whoever asks while one is under way waits for the next, together.

A flush covers all that was written before it began, so one is enough for any number of writers.
It runs in a thread of its own, for the loop must not wait for a disk; one queue, for an executor
costs twice the hop. Those who ask in one turn of the loop are handed over together. Where a flush
costs less than a hop, as in files kept in memory, it runs in the caller while it stays that cheap.

After a failed flush the kernel may have dropped what it could not write, and a second one would
succeed wrongly (https://lwn.net/Articles/752063/). So the failure stays, until the journal is
opened anew.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Final, TypeAlias

from loom_ia.core.errors import JournalError

_Waiter: TypeAlias = "asyncio.Future[int]"

_CHEAP_S: Final = 50e-6  # what a hop to the thread and back costs, at least


class Flusher:
    """Turn `flush`, which blocks, into a flush that concurrent callers share."""

    def __init__(self, flush: Callable[[], None]) -> None:
        self._flush = flush
        self._asking: list[tuple[_Waiter, int]] = []
        self._handing_over: asyncio.AbstractEventLoop | None = None
        self._waiting: SimpleQueue[list[tuple[_Waiter, int]] | None] = SimpleQueue()
        self._thread: Thread | None = None
        self._lock = Lock()
        self._flushing = Lock()
        self._is_cheap = False
        self._closed = False
        self._failure: str | None = None

    def flush(self, result: int = 0) -> _Waiter:
        """Give a future of `result`, done once all that was written before is on the disk."""
        loop = asyncio.get_running_loop()
        waiter: _Waiter = loop.create_future()
        if self._closed:
            raise JournalError("the journal was closed before it could flush")
        if self._is_cheap and not self._asking and self._flushing.acquire(blocking=False):
            try:
                self._try()
            finally:
                self._flushing.release()
            _wake([(waiter, result)], self._failure)
            return waiter
        if self._handing_over is not loop:
            self._handing_over = loop
            loop.call_soon(self._hand_over)
        self._asking.append((waiter, result))
        return waiter

    def close(self) -> None:
        """Wait for the flush under way, and stop the thread."""
        with self._lock:
            self._closed = True
            self._waiting.put(None)
        if self._thread is not None:
            self._thread.join()

    def _hand_over(self) -> None:
        self._handing_over = None
        asking, self._asking = self._asking, []
        with self._lock:
            if self._closed:
                _wake(asking, "the journal was closed")
                return
            if self._thread is None:
                self._thread = Thread(target=self._run, name="loom-flush", daemon=True)
                self._thread.start()
            self._waiting.put(asking)

    def _run(self) -> None:
        while True:
            asked = [self._waiting.get()]
            while not self._waiting.empty():
                asked.append(self._waiting.get())
            waiters = [waiter for group in asked if group for waiter in group]
            if waiters:
                with self._flushing:
                    self._try()
                _settle(waiters, self._failure)
            if None in asked:
                return

    def _try(self) -> None:
        if self._failure is not None:
            return
        start = time.perf_counter()
        try:
            self._flush()
        except Exception as error:  # noqa: BLE001 - whatever it is, those who wait must hear of it
            self._failure = str(error)
        self._is_cheap = time.perf_counter() - start < _CHEAP_S


def done(result: int) -> _Waiter:
    """Give a future that is done already."""
    waiter: _Waiter = asyncio.get_running_loop().create_future()
    waiter.set_result(result)
    return waiter


def _settle(waiters: Sequence[tuple[_Waiter, int]], failure: str | None) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[_Waiter, int]]] = {}
    for waiter, result in waiters:
        by_loop.setdefault(waiter.get_loop(), []).append((waiter, result))
    for loop, its_waiters in by_loop.items():
        with suppress(RuntimeError):  # that loop was closed: nobody waits there any more
            loop.call_soon_threadsafe(_wake, its_waiters, failure)


def _wake(waiters: Sequence[tuple[_Waiter, int]], failure: str | None) -> None:
    for waiter, result in waiters:
        if waiter.done():
            continue
        if failure is None:
            waiter.set_result(result)
        else:
            waiter.set_exception(
                JournalError(
                    "the disk did not take what was written ({reason}): look at it, "
                    "then open the journal anew",
                    reason=failure,
                )
            )
