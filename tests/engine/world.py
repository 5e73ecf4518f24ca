"""A world for the tests of the engine: hand-made models and tools, one clock, one journal."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeAlias

from loom_ia.adapters.journals.memory import MemoryJournal
from loom_ia.app import runs
from loom_ia.app.instance import DEFAULT_TENANT, Instance
from loom_ia.app.runs import Order
from loom_ia.core.events import Event
from loom_ia.core.json import JsonObject, JsonValue, canonical
from loom_ia.core.model import (
    ModelChunk,
    ModelRequest,
    ModelSpec,
    Retry,
    Stopped,
    TextDelta,
    ToolArgsDelta,
    ToolCallEnded,
    ToolCallStarted,
    ToolOutput,
    ToolSpec,
    Usage,
    UsageReported,
)
from loom_ia.core.plan import agent_plan
from loom_ia.core.ports.journal import DriverLocks, Journal
from loom_ia.core.ports.tools import ToolContext
from loom_ia.core.state import RunState
from loom_ia.core.state.references import unmarked
from loom_ia.engine.log import SessionLog
from loom_ia.engine.program import Approver, Program
from loom_ia.testing.clock import ManualClock

LEASE = timedelta(seconds=60)


class Unsayable(Exception):
    """An error whose own text cannot be had."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


class Gate:
    """A place where something stops until the test opens it; what stopped there is counted."""

    def __init__(self) -> None:
        self._reached = asyncio.Event()
        self._open = asyncio.Event()
        self.reached_by = 0

    async def stop(self) -> None:
        """Stop here until the gate is open."""
        self.reached_by += 1
        self._reached.set()
        await self._open.wait()

    async def reached(self) -> None:
        """Wait until something stopped here."""
        await self._reached.wait()

    def open(self) -> None:
        """Let everything through."""
        self._open.set()


@dataclass(frozen=True)
class Ask:
    """A call that a model asks for; arguments as text are streamed as they are."""

    name: str = "act"
    arguments: JsonObject | str = field(default_factory=dict[str, JsonValue])
    call_id: str = ""


Reply: TypeAlias = (
    "str | Ask | Sequence[Ask] | BaseException | Gate | Callable[[ModelRequest], Reply]"
)


class Model:
    """Answers by rank: the reply of a request is the one after the answers that it holds."""

    def __init__(self, *replies: Reply, last: Reply = "done") -> None:
        self.spec = ModelSpec(id="M", sdk="fake", model="fake-1", retry=Retry(max_attempts=1))
        self.replies = list(replies)
        self.last = last
        self.requests: list[ModelRequest] = []

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
        self.requests.append(request)
        rank = sum(message.role == "assistant" for message in request.messages)
        reply = self.replies[rank] if rank < len(self.replies) else self.last
        if isinstance(reply, Gate):
            await reply.stop()
            reply = self.last
        if callable(reply):
            reply = reply(request)
        if isinstance(reply, BaseException):
            raise reply
        asked = () if isinstance(reply, str) else (reply,) if isinstance(reply, Ask) else reply
        for number, ask in enumerate(asked):  # type: ignore[arg-type]
            call_id = ask.call_id or f"c{rank}.{number}"
            text = ask.arguments if isinstance(ask.arguments, str) else canonical(ask.arguments)
            yield ToolCallStarted(call_id, ask.name)
            yield ToolArgsDelta(call_id, text)
            yield ToolCallEnded(call_id)
        if isinstance(reply, str):
            for start in range(0, len(reply), 3):
                yield TextDelta(reply[start : start + 3])
        yield UsageReported(Usage(input_tokens=10, output_tokens=2))
        yield Stopped("tool_use" if asked else "end")

    async def close(self) -> None:
        pass


Action: TypeAlias = Callable[[JsonObject, ToolContext], object]


class Hand:
    """A tool whose action a test gives; `runs` has the arguments of each time that it began."""

    def __init__(
        self,
        name: str = "act",
        action: Action | None = None,
        *,
        needs: Sequence[str] = (),
        **declared: Any,
    ) -> None:
        self.spec = ToolSpec(
            name=name, description="acts", input_schema={"type": "object"}, **declared
        )
        self.needs = needs
        self.runs: list[JsonObject] = []
        self.contexts: list[ToolContext] = []
        self._action = action

    async def check(self, arguments: JsonObject) -> str | None:
        missing = [name for name in self.needs if name not in arguments]
        return f"{missing[0]}: is missing" if missing else None

    async def call(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        self.runs.append(arguments)
        self.contexts.append(context)
        given = self._action(arguments, context) if self._action else "ok"
        if isinstance(given, Awaitable):
            given = await given
        return given if isinstance(given, ToolOutput) else ToolOutput.of_text(str(given))


def stubborn(gate: Gate, text: str = "done after all") -> Action:
    """Make an action that goes on when it is cancelled, as a function in a thread does."""

    async def act(_: JsonObject, __: ToolContext) -> str:
        waiting = asyncio.ensure_future(gate.stop())
        while not waiting.done():
            try:
                await asyncio.shield(waiting)
            except asyncio.CancelledError:
                continue
        return text

    return act


class Locks:
    """Driver locks in memory: `dead` has the workers that were killed."""

    def __init__(self) -> None:
        self.dead: set[str] = set()

    def hold(self, worker_id: str) -> "Locks.Held":
        return Locks.Held(f"lock-of-{worker_id}")

    def is_free(self, name: str) -> bool:
        return name.removeprefix("lock-of-") in self.dead

    def leave_word(self, word: str) -> None:
        pass

    def words(self) -> tuple[str, ...]:
        return ()

    @dataclass
    class Held:
        name: str

        def release(self) -> None:
            pass


class LockedJournal(MemoryJournal):
    """A journal in memory whose drivers hold locks."""

    def __init__(self) -> None:
        super().__init__()
        self.held = Locks()

    @property
    def locks(self) -> DriverLocks | None:
        return self.held


class World:
    """One journal and one clock, for as many instances as a test wants."""

    def __init__(self, journal: Journal | None = None, *, lease: timedelta = LEASE) -> None:
        self.journal: Journal = journal if journal is not None else MemoryJournal()
        self.clock = ManualClock()
        self.lease = lease

    def instance(
        self, program: Program, worker: str = "worker-1", *, journal: Journal | None = None
    ) -> Instance:
        """Start a process that knows one agent, `clerk`."""
        return Instance(
            journal=journal if journal is not None else self.journal,
            clock=self.clock,
            worker_id=worker,
            lease=self.lease,
            programs=lambda: {"clerk": program},
            shutdown_timeout=1.0,
        )

    async def events(self, session_id: str) -> list[Event]:
        """Read a session."""
        return await self.journal.read(DEFAULT_TENANT, session_id)

    async def types(self, session_id: str) -> list[str]:
        """Read the types of the events of a session."""
        return [event.type for event in await self.events(session_id)]

    async def count(self, session_id: str) -> Counter[str]:
        """Count the events of a session by type."""
        return Counter(await self.types(session_id))


def agent(model: Model, *tools: Hand, **settings: Any) -> Program:
    """Bind an agent to its model and tools."""
    plan = agent_plan(
        name="clerk",
        model="M",
        system="Be brief.",
        tools=tuple(tool.spec for tool in tools),
        **settings,
    )
    return Program(plan, {"M": model}, {tool.spec.name: tool for tool in tools})


async def run(
    instance: Instance,
    message: str = "go",
    *,
    run_id: str | None = "run-1",
    session_id: str | None = "session-1",
    approver: Approver | None = None,
) -> RunState:
    """Open a run and drive it until it is over or waits."""
    opened = await runs.open_run(
        instance, Order("clerk", message, session_id, run_id, approver=approver)
    )
    return await runs.drive(instance, opened.pen, opened.program)


class Told:
    """A follower that can be waited on until an event of some type was written."""

    def __init__(self, log: SessionLog, event_type: str) -> None:
        self._type = event_type
        self._seen = asyncio.Event()
        log.followers.append(self)

    def written(self, events: Sequence[Event]) -> None:
        if any(event.type == self._type for event in events):
            self._seen.set()

    async def __call__(self) -> None:
        await self._seen.wait()


@asynccontextmanager
async def running(*coroutines: Any) -> AsyncIterator[Any]:
    """Run things beside the test; what is left at the end is cancelled."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        yield tasks[0] if len(tasks) == 1 else tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def text_of(state: RunState) -> str:
    """Give the answer of a run that is completed."""
    output = getattr(state.outcome, "output", None)
    return output.as_text() if output is not None else ""


def results(request: ModelRequest) -> list[tuple[str, str]]:
    """Give the results that a request shows, by call, without their ranks."""
    return [
        (block.call_id, unmarked(block.output).text)
        for message in request.messages
        for block in message.blocks
        if block.type == "tool_result"
    ]


async def settle() -> None:
    """Let everything that is ready run."""
    for _ in range(20):
        await asyncio.sleep(0)
