"""What a performer may use: the pen of its run, the program, and the live listener."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TypeAlias

from loom_ia.core.errors import InternalError
from loom_ia.core.events.envelope import Payload
from loom_ia.core.ids import CallId, RunId
from loom_ia.core.json import JsonValue
from loom_ia.core.model.chunks import ModelChunk, TextDelta
from loom_ia.core.model.messages import Message
from loom_ia.core.model.sizes import Sizes
from loom_ia.core.state.run import RunState
from loom_ia.engine.interrupt import Halt
from loom_ia.engine.log import Pen
from loom_ia.engine.program import AnyProgram, GraphProgram, Program

DriveBelow: TypeAlias = Callable[["EffectContext", RunId, AnyProgram], Awaitable[RunState]]


class Strays:
    """Calls that go on after their run was stopped; an instance waits for them when it closes."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[None], tuple[RunId, CallId]] = {}

    def keep(self, task: asyncio.Task[None], run_id: RunId, call_id: CallId) -> None:
        """Hold on to the task of a call until it ends; without `call_id`, to one of its sources."""
        self._tasks[task] = (run_id, call_id)
        task.add_done_callback(self._tasks.pop)

    def has(self, run_id: RunId, call_id: CallId) -> bool:
        """Whether a launch of this call may still be acting, in this process."""
        return (run_id, call_id) in self._tasks.values()

    def acting(self, run_id: RunId) -> bool:
        """Whether a call of the run may still be acting, in this process."""
        return any(run == run_id and call for run, call in self._tasks.values())

    async def ended(self, run_id: RunId) -> None:
        """Wait for the calls of the run that go on."""
        while tasks := {t for t, (run, call) in self._tasks.items() if run == run_id and call}:
            await asyncio.wait(tasks)

    async def join(self, timeout: float) -> None:
        """Wait for all of them, at most `timeout` seconds; those that remain are cancelled."""
        if self._tasks:
            _, late = await asyncio.wait(set(self._tasks), timeout=timeout)
            for task in late:
                task.cancel()


@dataclass(slots=True)
class SeenCalls:
    """The ids of the calls of a conversation, which grows at its end: each message is read once."""

    _ids: set[CallId] = field(default_factory=set[CallId])
    _read: int = 0

    def of(self, messages: Sequence[Message]) -> AbstractSet[CallId]:
        """Give the ids of the calls of `messages`."""
        for message in messages[self._read :]:
            self._ids.update(call.call_id for call in message.calls)
        self._read = len(messages)
        return self._ids


StepTask: TypeAlias = "asyncio.Task[tuple[Payload, ...]]"


@dataclass(frozen=True, slots=True)
class EffectContext:
    """The surroundings of one drive, by the worker `worker_id`.

    `flight` has the steps of a graph that run beside each other. `drive_below` drives a run that
    this one opened. `causes` keeps the exceptions behind failures, by run and step, for whoever
    drives; `chunk` is told what models stream, `token` is shown pieces of text of steps. Without
    `shows`, nobody is told what the models of the run stream. `state_writes` has what calls that
    ended write in the state of the session, though their ends may not be facts yet. `halt` asks
    this drive, and those below it, to begin nothing more.
    """

    pen: Pen
    program: AnyProgram
    worker_id: str
    chunk: Callable[[ModelChunk], None] | None = None
    token: Callable[[RunId, str, str], None] | None = None
    shows: bool = True
    flight: dict[CallId, StepTask] = field(default_factory=dict[CallId, StepTask])
    causes: dict[tuple[RunId, str], BaseException] = field(
        default_factory=dict[tuple[RunId, str], BaseException]
    )
    drive_below: "DriveBelow | None" = None
    strays: Strays = field(default_factory=Strays)
    seen_calls: SeenCalls = field(default_factory=SeenCalls)
    sizes: Sizes = field(default_factory=Sizes)
    state_writes: dict[CallId, Mapping[str, JsonValue]] = field(
        default_factory=dict[CallId, Mapping[str, JsonValue]]
    )
    halt: Halt = field(default_factory=Halt)

    @property
    def run(self) -> RunState:
        """The run as it is now."""
        return self.pen.run

    @property
    def agent(self) -> Program:
        """The program of an agent; only its own effects ask for it."""
        if not isinstance(self.program, Program):
            raise InternalError("run {run_id} is not that of an agent", run_id=self.pen.run_id)
        return self.program

    @property
    def graph(self) -> GraphProgram:
        """The program of a graph; only its own effects ask for it."""
        if not isinstance(self.program, GraphProgram):
            raise InternalError("run {run_id} is not that of a graph", run_id=self.pen.run_id)
        return self.program

    def tell(self, chunk: ModelChunk) -> None:
        """Tell what a model of the run streams to whoever drives, and to those who listen."""
        if self.chunk is not None:
            self.chunk(chunk)
        log = self.pen.log
        log.voices.piece(self.pen.run_id, chunk, log.state.last_seq)

    def tell_whole(self, text: str) -> None:
        """Tell a text that was held back until it passed its checks."""
        if self.chunk is not None:
            self.chunk(TextDelta(text))
        log = self.pen.log
        log.voices.whole(self.pen.run_id, text, log.state.last_seq)

    def stage(self, *facts: Payload) -> None:
        """Give facts that will be written before anything else happens."""
        self.pen.stage(*facts)

    async def emit(self, *facts: Payload) -> None:
        """Write facts now."""
        self.pen.stage(*facts)
        await self.pen.commit(sync=False)
