"""The three clocks of a model call: its first piece, the silence between two, and the whole."""

import asyncio
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

    Tell `heard` of each piece.
    """

    def __init__(self, spec: ModelSpec) -> None:
        self._model = spec.id
        self._limits = spec.timeouts
        self._loop = asyncio.get_running_loop()
        total = spec.timeouts.total
        self._end = None if total is None else self._loop.time() + total
        self._limit: Limit = "first_token"
        self._timeout = asyncio.timeout_at(self._due("first_token"))

    async def __aenter__(self) -> Self:
        await self._timeout.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError as late:
            seconds = getattr(self._limits, self._limit)
            template = _TEXTS[self._limit]
            raise ModelError("transient", template, model=self._model, seconds=seconds) from late

    def heard(self) -> None:
        """Start the clock of silence again."""
        self._timeout.reschedule(self._due("idle"))

    def _due(self, limit: Literal["first_token", "idle"]) -> float | None:
        seconds = self._limits.first_token if limit == "first_token" else self._limits.idle
        due = None if seconds is None else self._loop.time() + seconds
        if self._end is not None and (due is None or self._end < due):
            self._limit = "total"
            return self._end
        self._limit = limit
        return due
