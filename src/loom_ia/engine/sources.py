"""The tools that an agent is given from outside, for as long as one drive of its run lasts.

Law. A source that fails takes its own tools away and nothing else: whatever it raises is contained
here, and told by a fact. Each source is opened and closed by one task of its own, since what it
opens may belong to the task that opened it. What did not change is told once.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from loom_ia.core.decide.closing import failed
from loom_ia.core.errors import SourceUnavailable, text_of, told
from loom_ia.core.events.envelope import Payload
from loom_ia.core.events.model import CircuitOpened
from loom_ia.core.events.tool import SourceOpened, ToolWithheld
from loom_ia.core.events.tool import SourceUnavailable as SourceUnavailableFact
from loom_ia.core.json import storable_text
from loom_ia.core.ports.sources import OpenTools, SourceContext
from loom_ia.core.ports.tools import Tool
from loom_ia.core.state.run import RunState
from loom_ia.engine.interrupt import is_cancelled
from loom_ia.engine.perform.context import Strays
from loom_ia.engine.program import Fitted, Program, SourceBinding

_log = logging.getLogger("loom_ia.engine.sources")

_LONGEST_ERROR: Final = 2000
_CLOSING: Final = 10.0
"""Seconds that a drive waits for its sources to be closed; they go on by themselves."""

FAILURE: Final = "tool.source_unavailable"
"""The error type of a run that cannot go on without a source."""


@dataclass(frozen=True, slots=True)
class _Lost:
    """Why a source gave nothing, and whether it is left alone from now on."""

    reason: str
    circuit: tuple[int, float] | None = None


@dataclass(frozen=True, slots=True)
class Equipment:
    """A program with the tools of its sources, and why those that are missing are."""

    program: Program
    fitted: Mapping[str, Fitted] = field(default_factory=dict[str, Fitted])
    lost: Mapping[str, str] = field(default_factory=dict[str, str])
    circuits: Mapping[str, tuple[int, float]] = field(default_factory=dict[str, tuple[int, float]])

    def reason(self, tool: str) -> str:
        """Say which source a tool is missing of, and why; empty when none is to blame."""
        for binding in self.program.sources:
            prefixes = tuple(f"{prefix}__" for prefix in binding.prefixes)
            if binding.name in self.lost and tool.startswith(prefixes):
                return f"{binding.name}: {self.lost[binding.name]}"
        return ""

    def facts(self, run: RunState) -> tuple[Payload, ...]:
        """Give what the run is to be told: what changed, and its end if it cannot go on."""
        facts: list[Payload] = []
        missing: list[str] = []
        known = run.sources
        for binding in self.program.sources:
            name = binding.name
            if (fitted := self.fitted.get(name)) is not None:
                if known.digests.get(name) != fitted.digest:
                    tools = tuple(fitted.tools)
                    facts.append(SourceOpened(source=name, digest=fitted.digest, tools=tools))
                facts += (
                    ToolWithheld(source=name, tool=tool, reason=reason)
                    for tool, reason in fitted.withheld.items()
                    if known.withheld.get((name, tool)) != reason
                )
            elif name in self.lost:
                error = self.lost[name]
                if name in self.circuits:
                    facts.append(_left_alone(name, error, self.circuits[name]))
                if binding.required:
                    missing.append(f"{name}: {error}")
                if binding.required or known.digests.get(name) != "":
                    facts.append(
                        SourceUnavailableFact(source=name, error=error, required=binding.required)
                    )
        if missing:
            facts.append(failed(run, FAILURE, "; ".join(missing)))
        return tuple(facts)


def asking_for(run: RunState, program: Program) -> SourceContext:
    """Say for whom the sources of a program are asked."""
    header = run.header
    return SourceContext(header.tenant_id, header.session_id, header.run_id, program.plan.language)


@asynccontextmanager
async def equipped(
    program: Program, context: SourceContext, strays: Strays
) -> AsyncGenerator[Equipment]:
    """Open the sources of a program, at once, and close them afterwards; never fails by itself.

    Calls of the run that go on after it was stopped are waited for before its sources are closed,
    without keeping whoever leaves.
    """
    keepers = [_Keeper(binding, context, strays) for binding in program.sources]
    tasks = [asyncio.create_task(keeper.keep()) for keeper in keepers]
    for task in tasks:
        strays.keep(task, context.run_id, "")
    try:
        given = await asyncio.gather(*(asyncio.shield(keeper.given) for keeper in keepers))
        yield _equipment(program, given)
    finally:
        for keeper in keepers:
            keeper.over.set()
            if not keeper.given.done():
                keeper.stop()
        if tasks and not strays.acting(context.run_id):
            await asyncio.wait(tasks, timeout=_CLOSING)


def _equipment(program: Program, given: Sequence[Fitted | _Lost]) -> Equipment:
    fitted: dict[str, Fitted] = {}
    circuits: dict[str, tuple[int, float]] = {}
    lost: dict[str, str] = {}
    tools: dict[str, Tool] = {}
    for binding, each in zip(program.sources, given, strict=True):
        if isinstance(each, _Lost):
            lost[binding.name] = each.reason
            if each.circuit is not None:
                circuits[binding.name] = each.circuit
            continue
        mine = {name: tool for name, tool in each.tools.items() if name not in program.tools}
        fitted[binding.name] = each
        tools.update(mine)
    gone = frozenset(
        prefix for binding in program.sources if binding.name in lost for prefix in binding.prefixes
    )
    key = " ".join(each.digest for each in fitted.values())
    plan = program.plan.with_tools((tool.spec for tool in tools.values()), key, gone)
    ready = replace(program, plan=plan, tools={**program.tools, **tools})
    return Equipment(ready, fitted, lost, circuits)


def _left_alone(source: str, error: str, circuit: tuple[int, float]) -> CircuitOpened:
    failures, cooldown = circuit
    return CircuitOpened(
        target_kind="mcp", target=source, failures=failures, cooldown_s=cooldown, error=error
    )


class _Keeper:
    """The task that opens a source, holds what it gives, and closes it."""

    def __init__(self, binding: SourceBinding, context: SourceContext, strays: Strays) -> None:
        self.given: asyncio.Future[Fitted | _Lost] = asyncio.get_running_loop().create_future()
        self.over = asyncio.Event()
        self._binding = binding
        self._context = context
        self._strays = strays
        self._task: asyncio.Task[object] | None = None

    def stop(self) -> None:
        """Give up on opening."""
        if self._task is not None:
            self._task.cancel()

    async def keep(self) -> None:
        """Open, hold, close; gives what the source gave, or why it gave nothing."""
        self._task = asyncio.current_task()
        opened: OpenTools | None = None
        try:
            try:
                opened = await self._opened()
                self._give(self._binding.fit(tuple(opened.tools), dict(opened.withheld)))
            except BaseException as error:
                if is_cancelled() or not isinstance(error, Exception | asyncio.CancelledError):
                    raise
                self._give(_reason(error))
            await self.over.wait()
            await self._strays.ended(self._context.run_id)
        finally:
            if not self.given.done():
                self.given.cancel()
            if opened is not None:
                await self._close(opened)

    async def _opened(self) -> OpenTools:
        seconds = self._binding.open_timeout
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                return await self._binding.source.open(self._context)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise SourceUnavailable(
                "it did not open within {seconds:g} s", seconds=seconds
            ) from error

    def _give(self, found: Fitted | _Lost) -> None:
        if not self.given.done():
            self.given.set_result(found)

    async def _close(self, opened: OpenTools) -> None:
        try:
            await opened.close()
        except (Exception, asyncio.CancelledError) as error:
            if is_cancelled():
                raise
            _log.warning(
                "source %s failed when it was closed: %s", self._binding.name, type(error).__name__
            )


def _reason(error: BaseException) -> _Lost:
    known = isinstance(error, SourceUnavailable)
    text = text_of(error) if known else ""
    reason = storable_text(text or told(error))[:_LONGEST_ERROR]
    return _Lost(reason, error.circuit if known else None)
