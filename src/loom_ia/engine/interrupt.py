"""Stopping the effect that a driver is performing, without ending the driver.

The effect runs in the driver's own task, which costs nothing. An interruption cancels that task
once; the driver recognises its own interruption, takes the cancellation back, and decides again.
A cancellation that comes from outside is left alone.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Literal, TypeAlias

Reason: TypeAlias = Literal["closed", "lost", "deadline", "halted"]


def is_cancelled() -> bool:
    """Whether the current task was told to stop; else what it caught is not about itself."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class Halt:
    """Whether a drive was asked to stop where it stands, once what is under way has ended.

    `cut` tells that what is under way is not waited for any more.
    """

    asked = False
    cut = False


class Interrupt:
    """The means to stop what one driver is doing now."""

    def __init__(self) -> None:
        self._task: asyncio.Task[object] | None = None
        self._reason: Reason | None = None

    def now(self, reason: Reason) -> None:
        """Stop the effect under way, if there is one; the first reason stays."""
        if self._task is not None and self._reason is None:
            self._reason = reason
            self._task.cancel()

    async def run(
        self, effect: Callable[[], Awaitable[None]], *, deadline: float | None = None
    ) -> Reason | None:
        """Perform `effect`, and tell why it was stopped; None when it ended by itself.

        `deadline` is in seconds from now.
        """
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        timer = None
        if deadline is not None:
            timer = loop.call_later(max(deadline, 0), self.now, "deadline")
        self._task, self._reason = task, None
        try:
            await effect()
        except asyncio.CancelledError:
            if self._reason is None or task is None or task.uncancel() > 0:
                raise
            return self._reason
        except Exception:
            await self._take_back(task)
            raise
        finally:
            self._task = None
            if timer is not None:
                timer.cancel()
        await self._take_back(task)
        return self._reason

    async def _take_back(self, task: asyncio.Task[object] | None) -> None:
        """Take back an interruption that the effect did not let through, or that came too late."""
        if self._reason is None or task is None:
            return
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            if task.uncancel() > 0:
                raise
        else:
            task.uncancel()
