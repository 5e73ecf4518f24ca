"""A loop in which nothing takes time: when all wait, it leaps to the instant of the next alarm.

@leaping
async def test_an_hour_passes_at_once() -> None:
    await asyncio.sleep(3600)
    assert asyncio.get_running_loop().time() == 3600
"""

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec

P = ParamSpec("P")


class LeapingLoop(asyncio.SelectorEventLoop):
    """Its clock stands at 0 and moves only by leaps; it waits for no socket and no thread."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0

    def time(self) -> float:
        return self._now

    def _run_once(self) -> None:
        loop: Any = self
        due = [handle.when() for handle in loop._scheduled if not handle.cancelled()]
        if due and not loop._ready:
            self._now = max(self._now, min(due))
        run_once: Callable[[], None] = getattr(super(), "_run_once")  # noqa: B009 (no stub has it)
        run_once()


def leaping(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run a test in a loop that leaps."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        with asyncio.Runner(loop_factory=LeapingLoop) as runner:
            runner.run(test(*args, **kwargs))

    return run


def elapsed() -> float:
    """Give the seconds since the loop began."""
    return asyncio.get_running_loop().time()
