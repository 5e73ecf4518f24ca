"""The three clocks of a model call: its first piece, the silence between two, and the whole."""

import asyncio
import math
from types import TracebackType
from typing import Final, Literal, Self, TypeAlias

from loom_ia.core.errors import ModelError
from loom_ia.core.model.models import ModelSpec

Limit: TypeAlias = Literal["first_token", "idle", "total"]

_TEXTS: Final[dict[Limit, str]] = {
    "first_token": "{model} answered nothing within {seconds:g} s (timeouts.first_token)",
    "idle": "{model} fell silent for {seconds:g} s (timeouts.idle)",
    "total": "{model} did not end its answer within {seconds:g} s (timeouts.total)",
}


class Timers:
    """Bounds what is inside `async with`; raises `ModelError` of kind `transient` when it is late.

    Tell `heard` of each piece. Only one alarm is set: when it rings too early, for something was
    heard meanwhile, it is set again.
    """

    def __init__(self, spec: ModelSpec) -> None:
        self._model = spec.id
        self._limits = spec.timeouts
        self._loop = asyncio.get_running_loop()
        now = self._loop.time()
        self._end = math.inf if spec.timeouts.total is None else now + spec.timeouts.total
        self._idle = math.inf if spec.timeouts.idle is None else spec.timeouts.idle
        first = spec.timeouts.first_token
        self._due = math.inf if first is None else now + first
        self._waits_for: Limit = "first_token"
        self._timeout = asyncio.timeout(None)
        self._alarm: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> Self:
        await self._timeout.__aenter__()
        self._set_alarm()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError as late:
            limit: Limit = "total" if self._end <= self._due else self._waits_for
            seconds = getattr(self._limits, limit)
            raise ModelError(
                "transient", _TEXTS[limit], model=self._model, seconds=seconds
            ) from late

    def heard(self) -> None:
        """Start the clock of silence again."""
        self._waits_for = "idle"
        self._due = self._loop.time() + self._idle
        if self._alarm is None or self._alarm.when() > self._due:
            self._set_alarm()

    def _set_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        at = min(self._due, self._end)
        self._alarm = None if at == math.inf else self._loop.call_at(at, self._ring)

    def _ring(self) -> None:
        now = self._loop.time()
        if now < min(self._due, self._end):
            self._set_alarm()
        else:
            self._timeout.reschedule(now)
