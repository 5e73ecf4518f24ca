"""The hooks of a run's beginning and end, around a call that drives it.

A run that another one opened has them as well: those of its own graph.
"""

import asyncio
import inspect
from collections.abc import Generator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from copy import deepcopy
from dataclasses import replace
from typing import Any

from loom_ia.core.errors import told
from loom_ia.core.ids import RunId
from loom_ia.engine.interrupt import is_cancelled
from loom_ia.graph.definition import GraphDefinition
from loom_ia.graph.errors import HookAborted
from loom_ia.graph.running import called
from loom_ia.graph.types import RunInfo, RunResult


class Surroundings:
    """The hooks of a run's beginning and end, around a call that drives."""

    def __init__(self, graph: GraphDefinition[Any], info: RunInfo) -> None:
        self._graph = graph
        self._info = info
        self._stack = AsyncExitStack()
        self.is_entered = False

    async def begin(self) -> None:
        """Tell that a run begins, unless it goes on, and enter its context."""
        if not self._info.resumed:
            await self.start()
        await self.enter()

    async def start(self) -> None:
        """Tell that a run begins; raises `HookAborted`."""
        with self._aborting():
            for hook in self._graph.hooks.run_started:
                await called(hook, self._told())

    async def enter(self) -> None:
        """Enter the context of the call that drives; raises `HookAborted`."""
        context = self._graph.hooks.run_context
        with self._aborting():
            if context is not None:
                manager = context(self._told())
                if inspect.isawaitable(manager):
                    manager = await manager
                if manager is None:
                    raise TypeError("run_context gave None: it gives an async context manager")
                await self._stack.enter_async_context(manager)
        self.is_entered = True

    @property
    def is_empty(self) -> bool:
        """Whether the graph has no such hook."""
        hooks = self._graph.hooks
        return hooks.run_context is None and not hooks.run_finished

    @contextmanager
    def _aborting(self) -> Generator[None, None, None]:
        try:
            yield
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and is_cancelled():
                raise
            raise self._aborted(error) from error

    def _told(self) -> RunInfo:
        return replace(self._info, input=deepcopy(dict(self._info.input)))

    async def end(self, result: Any) -> list[BaseException]:
        """Leave the context, tell how the call ended, and give what the hooks raised.

        Where it was not entered, nothing is told: the call drove nothing.
        """
        raised: list[BaseException] = []
        if not self.is_entered:
            return raised
        try:
            await self._stack.aclose()
        except Exception as error:  # noqa: BLE001 -- told with what else went wrong
            raised.append(error)
        for hook in self._graph.hooks.run_finished:
            try:
                await called(hook, result)
            except Exception as error:  # noqa: BLE001 -- told with what else went wrong
                raised.append(error)
        return raised

    async def leave(self, error: BaseException) -> None:
        """Leave the context through what cut the call."""
        await self._stack.__aexit__(type(error), error, error.__traceback__)

    def _aborted(self, error: BaseException) -> HookAborted:
        aborted = HookAborted(
            "a hook of graph {graph!r} refused the run: {reason}",
            graph=self._graph.name,
            reason=told(error),
        )
        aborted.run_id, aborted.graph = self._info.run_id, self._graph.name
        return aborted


def info_of(
    graph: GraphDefinition[Any],
    run_id: RunId,
    given: Mapping[str, Any],
    *,
    resumed: bool,
    parent: tuple[RunId, int] | None = None,
) -> RunInfo:
    """Give what the hooks of a run's beginning are told."""
    return RunInfo(run_id, graph.name, dict(given), parent, resumed)


def not_finished(result: RunResult[Any], raised: Sequence[BaseException]) -> HookAborted:
    """Give the exception of a call that ended well, save for what its last hooks raised."""
    error = HookAborted(
        "a hook at the end of run {run_id}: {reason}",
        run_id=result.run_id,
        reason=told(raised[0]),
    )
    error.__cause__ = raised[0]
    error.result, error.run_id, error.graph = result, result.run_id, result.graph
    return error
