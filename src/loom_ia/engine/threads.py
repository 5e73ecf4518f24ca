"""Threads of tools and steps: where code that may block runs, and nothing else.

They are apart from the event loop's own pool, so that slow tools starve nothing else, and they
are daemons, so that a tool that never returns does not keep the interpreter from ending. A thread
cannot be stopped: work that was given up goes on to its end, unless it had not begun; then it
never begins. `no_threads` is for tests whose every run must be the same one.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, Final, NamedTuple, TypeVar, cast

T = TypeVar("T")

MAX_THREADS: Final = 64

_in_place: ContextVar[bool] = ContextVar("loom_ia_in_place", default=False)


@contextmanager
def no_threads() -> Generator[None]:
    """Run functions where they are asked for, in this context and in the tasks it begins.

    Which of two threads ends first is chance; here the first one asked ends first. A function that
    waits for another one, or for the event loop, waits for ever.
    """
    before = _in_place.set(True)
    try:
        yield
    finally:
        _in_place.reset(before)


class _Outcome(NamedTuple):
    """How a function ended."""

    result: Any = None
    error: BaseException | None = None


@dataclass(slots=True)
class _Work:
    """One function to run. Whoever pops the `ticket` decides: the thread runs it, or nobody."""

    function: Callable[[], Any]
    context: Context
    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[None]"
    outcome: _Outcome | None = None
    ticket: list[None] = field(default_factory=lambda: [None])

    def take(self) -> bool:
        try:
            self.ticket.pop()
        except IndexError:
            return False
        return True

    def run(self) -> _Outcome:
        try:
            return _Outcome(result=self.context.run(self.function))
        except BaseException as error:  # noqa: BLE001 (it is raised again where the caller waits)
            return _Outcome(error=error)

    def tell(self, outcome: _Outcome) -> None:
        # A loop that is closed by now has nobody waiting.
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._settle, outcome)

    def _settle(self, outcome: _Outcome) -> None:
        self.outcome = outcome
        if not self.future.done():
            self.future.set_result(None)

    async def ended(self) -> None:
        """Wait for the outcome, again if a cancellation took the future away."""
        if self.outcome is None:
            self.future = self.loop.create_future()
            await self.future


class Threads:
    """A pool that grows up to `size` threads, by one each time none is free."""

    def __init__(self, size: int = MAX_THREADS) -> None:
        self._size = size
        self.reset()

    def reset(self) -> None:
        """Forget every thread, as a child process must: threads do not survive a fork."""
        self._lock = threading.Lock()
        self._queue: SimpleQueue[_Work] = SimpleQueue()
        self._count = 0
        self._free = 0  # threads that wait, less work that waits

    async def run(self, function: Callable[[], T], *, to_end: bool = False) -> T:
        """Run `function` in a thread, in a copy of the caller's context.

        What it raises is raised here, `BaseException` included. When the caller is cancelled, a
        function that has not begun never does. One that has begun is left alone; with `to_end`
        its result is awaited and returned all the same, until the caller is cancelled again.
        """
        if _in_place.get():
            return copy_context().run(function)
        loop = asyncio.get_running_loop()
        work = _Work(function, copy_context(), loop, loop.create_future())
        self._submit(work)
        try:
            await work.future
        except asyncio.CancelledError:
            if work.take() or not to_end or _was_cancelled_twice():
                raise
            await work.ended()
        result, error = work.outcome or _Outcome()
        if error is None:
            return cast("T", result)
        try:
            raise error
        finally:
            del error, work  # an error that its own traceback holds is a cycle

    def _submit(self, work: _Work) -> None:
        with self._lock:
            if self._free > 0 or self._count >= self._size or not self._grow():
                self._free -= 1
        self._queue.put(work)

    def _grow(self) -> bool:
        name = f"loom-tool-{self._count}"
        try:
            threading.Thread(target=self._serve, name=name, daemon=True).start()
        except RuntimeError:  # the machine gives no more threads: those there are will do
            if not self._count:
                raise
            return False
        self._count += 1
        return True

    def _serve(self) -> None:
        queue, lock = self._queue, self._lock
        while True:
            work = queue.get()
            outcome = work.run() if work.take() else None
            with lock:
                self._free += 1
            if outcome is not None:
                work.tell(outcome)
            del work, outcome


def _was_cancelled_twice() -> bool:
    # Two cancellations that come together raise only once.
    task = asyncio.current_task()
    return task is None or task.cancelling() > 1


tool_threads: Final = Threads()
"""The threads that every tool and step of the process shares."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=tool_threads.reset)
