"""One life of a process, for a scenario that may be killed: its journal, its clock, its looms.

Law. A host dies whole: each task that was begun on it is stopped before anything survives. A Loom
made by a host takes being asked twice, as the server of a client that lost its answer must; so does
a graph that a host drives.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from loom_ia.access.api import Loom
from loom_ia.access.graph import Graph
from loom_ia.app.approvals import NO_ANSWER
from loom_ia.app.runs import Listener
from loom_ia.config.load import LoadedConfig
from loom_ia.config.root import LoomConfig
from loom_ia.core.errors import ApprovalStale, RunExists, UnknownApproval
from loom_ia.core.events.approval import ApprovalGranted, ApprovalRejected, ApprovalRequested
from loom_ia.core.ids import CallId, RunId, SessionId
from loom_ia.core.json import JsonObject
from loom_ia.core.model.caller import CallerContext
from loom_ia.core.model.messages import Message
from loom_ia.core.model.policy import JudgeMode
from loom_ia.core.model.tooling import ToolSpec
from loom_ia.core.plan import CallFacts
from loom_ia.core.ports.tools import Tool
from loom_ia.core.views.result import RunResult
from loom_ia.engine.attachments import AnyAttachment
from loom_ia.engine.program import Approver
from loom_ia.engine.values import JournalStore
from loom_ia.graph.types import Approver as GraphApprover
from loom_ia.graph.types import RunResult as GraphResult
from loom_ia.testing.clock import ManualClock
from loom_ia.testing.crash_graph import Answer, drive_graph, steps_of
from loom_ia.testing.crash_journal import Crash, CrashJournal

_PATIENCE_S: Final = 10.0
_NO_ID: Final = "a scenario is run again after a crash: give each run its run_id"


class RepeatableLoom(Loom):
    """A Loom that may be asked again what an earlier life was asked already.

    `run` and `submit` of a run that exists go on with it; one that is over stays as it is. A
    decision that was written already is accepted in silence. In a first life it is a plain Loom,
    save that each run needs an id. `stream` is not repeatable.
    """

    asked_before: bool = False

    async def run(  # noqa: PLR0913 -- the arguments of `Loom.run`
        self,
        agent: str,
        message: str | Message,
        *,
        session_id: SessionId | None = None,
        run_id: RunId | None = None,
        attachments: Sequence[AnyAttachment] = (),
        context: CallerContext | None = None,
        approver: Approver | None = None,
        state: Mapping[str, Any] | None = None,
        judges: JudgeMode = "auto",
        on_chunk: Listener | None = None,
    ) -> RunResult:
        """Run an agent, or go on with the run that bears this id already."""
        if run_id is None:
            raise ValueError(_NO_ID)
        try:
            return await super().run(
                agent,
                message,
                session_id=session_id,
                run_id=run_id,
                attachments=attachments,
                context=context,
                approver=approver,
                state=state,
                judges=judges,
                on_chunk=on_chunk,
            )
        except RunExists:
            if not self.asked_before:
                raise
        result = await self.result(run_id)
        if result.status.is_closed:
            return result
        return await self.resume(run_id, approver=approver, on_chunk=on_chunk)

    async def run_graph(
        self,
        name: str,
        input: Mapping[str, Any] | None = None,
        *,
        session_id: SessionId | None = None,
        run_id: RunId | None = None,
        approver: GraphApprover | None = None,
        raise_on_error: bool = True,
    ) -> GraphResult[Any]:
        """Run a graph, or go on with the run that bears this id already."""
        if run_id is None:
            raise ValueError(_NO_ID)
        try:
            return await super().run_graph(
                name,
                input,
                session_id=session_id,
                run_id=run_id,
                approver=approver,
                raise_on_error=raise_on_error,
            )
        except RunExists:
            if not self.asked_before:
                raise
        return await self.graphs.resume(run_id, approver=approver, raise_on_error=raise_on_error)

    async def submit(
        self,
        agent: str,
        message: str | Message,
        *,
        session_id: SessionId | None = None,
        run_id: RunId | None = None,
        attachments: Sequence[AnyAttachment] = (),
        context: CallerContext | None = None,
        state: Mapping[str, Any] | None = None,
        judges: JudgeMode = "auto",
    ) -> RunId:
        """Run an agent in the background, or go on there with the run that bears this id."""
        if run_id is None:
            raise ValueError(_NO_ID)
        try:
            return await super().submit(
                agent,
                message,
                session_id=session_id,
                run_id=run_id,
                attachments=attachments,
                context=context,
                state=state,
                judges=judges,
            )
        except RunExists:
            if not self.asked_before:
                raise
        self._go_on(run_id, (run_id,))
        return run_id

    async def approve(
        self,
        run_id: RunId,
        *,
        call_id: CallId | None = None,
        by: str = "python",
        reason: str = "",
        arguments: JsonObject | None = None,
        answer: object = NO_ANSWER,
        session_id: SessionId | None = None,
        resume: bool = True,
    ) -> tuple[CallId, ...]:
        """Grant a call that waits, unless an earlier life did."""
        try:
            return await super().approve(
                run_id,
                call_id=call_id,
                by=by,
                reason=reason,
                arguments=arguments,
                answer=answer,
                session_id=session_id,
                resume=resume,
            )
        except (ApprovalStale, UnknownApproval):
            if not await self._was_decided(run_id, call_id):
                raise
            return ()

    async def reject(
        self,
        run_id: RunId,
        *,
        call_id: CallId | None = None,
        by: str = "python",
        reason: str = "",
        session_id: SessionId | None = None,
        resume: bool = True,
    ) -> tuple[CallId, ...]:
        """Refuse a call that waits, unless an earlier life did."""
        try:
            return await super().reject(
                run_id,
                call_id=call_id,
                by=by,
                reason=reason,
                session_id=session_id,
                resume=resume,
            )
        except (ApprovalStale, UnknownApproval):
            if not await self._was_decided(run_id, call_id):
                raise
            return ()

    async def aclose(self) -> None:
        """Wait for what is under way, then let go of everything, on a dead host too."""
        try:
            await super().aclose()
        except Crash:
            await self._host.close()

    @property
    def tool_specs(self) -> Mapping[str, ToolSpec]:
        """The declarations of every tool of every agent."""
        programs = self._host.programs().values()
        return {name: spec for program in programs for name, spec in program.plan.offered.items()}

    async def _was_decided(self, run_id: RunId, call_id: CallId | None) -> bool:
        if not self.asked_before:
            return False
        events = await self.events(run_id)
        decisions = [
            (event.run_id, event.payload)
            for event in events
            if isinstance(event.payload, ApprovalGranted | ApprovalRejected)
        ]
        if call_id is None:
            return bool(decisions)
        if any(payload.question == call_id for _, payload in decisions):
            return True
        for event in events:
            if event.event_id == call_id and isinstance(event.payload, ApprovalRequested):
                asked = event.run_id, event.payload.call_id
                return any((run, payload.call_id) == asked for run, payload in decisions)
        call, _, number = call_id.partition("@")
        return [payload.call_id for _, payload in decisions].count(call) >= int(number or 1)


class Host:
    """Where a scenario runs: `loom` makes instances on `journal`, at the time of `clock`.

    Graphs run on it by `drive`, or with `store=host.store`. `life` is 1 until the first crash, 2
    until the second, and so on. Time stands still except when the scenario moves it, and between
    two lives, where it passes the leases of the dead.
    """

    def __init__(self, journal: CrashJournal, clock: ManualClock, life: int = 1) -> None:
        self.journal = journal
        self.clock = clock
        self.life = life
        self.looms: list[RepeatableLoom] = []
        self.store = JournalStore(journal, name="the store of a host", clock=clock)
        """The store to give to a run of a graph; it holds the journal of this host."""
        self._graphs: list[Graph[Any]] = []

    async def drive(
        self,
        graph: Graph[Any],
        input: Any = None,
        *,
        run_id: RunId = "run",
        answer: Answer | None = None,
    ) -> GraphResult[Any]:
        """Run a graph, or go on with the run that an earlier life began under this id.

        `answer` is told each question, an `Interrupt`, and gives what answers it; without it, the
        run is given as it waits. A failure is in the result, and is not tried again.
        """
        if graph not in self._graphs:
            self._graphs.append(graph)
        return await drive_graph(
            graph,
            input,
            store=self.store,
            run_id=run_id,
            answer=answer,
            asked_before=self.life > 1,
        )

    def loom(
        self,
        config: LoomConfig | LoadedConfig | str | Path,
        *,
        tools: Iterable[Tool] = (),
        **more: Any,
    ) -> RepeatableLoom:
        """Make a Loom on this host, from a configuration or from the path of its file.

        Each of `tools` is registered under its own name. `more` goes to `Loom`.
        """
        if isinstance(config, str | Path):
            loom = RepeatableLoom.from_config(config, store=self.journal, clock=self.clock, **more)
        else:
            loom = RepeatableLoom(config, store=self.journal, clock=self.clock, **more)
        for tool in tools:
            loom.register(tool.spec.name, tool)
        loom.asked_before = self.life > 1
        self.looms.append(loom)
        return loom

    @property
    def longest_lease(self) -> timedelta:
        """How long a dead host of this kind keeps others away."""
        leases = [loom.config.execution.lease for loom in self.looms]
        leases += [graph.lease for graph in self._graphs]
        return timedelta(seconds=max(leases, default=60.0))

    @property
    def tool_specs(self) -> Mapping[str, CallFacts]:
        """The declarations of every tool that was ready on this host, and of every step."""
        tools: dict[str, CallFacts] = {}
        for graph in self._graphs:
            tools |= steps_of(graph)
        for loom in self.looms:
            tools |= loom.tool_specs
        return tools

    async def close(self) -> None:
        """Let go of the looms, the dead ones included."""
        for loom in self.looms:
            await loom.aclose()


async def stop_all(tasks: Iterable["asyncio.Task[Any]"], others: set["asyncio.Task[Any]"]) -> None:
    """Stop `tasks`, and those that they begin meanwhile: all but `others` and the caller's."""
    left = set(tasks)
    me = asyncio.current_task()
    deadline = asyncio.get_running_loop().time() + _PATIENCE_S
    while left:
        for task in left:
            task.cancel()
        done, _ = await asyncio.wait(left, timeout=_PATIENCE_S / 2)
        for task in done:
            if not task.cancelled():
                task.exception()  # it was told: nobody else will ask
        if asyncio.get_running_loop().time() > deadline:
            raise RuntimeError(f"a task of a dead host does not stop: {left}")
        left = {task for task in asyncio.all_tasks() if task is not me} - others
