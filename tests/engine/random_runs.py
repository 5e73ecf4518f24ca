"""Random sessions, made by driving the real engine: models, tools, humans, crashes and cancels.

Everything is a function of the script: a tool acts, and a human decides, by the number in the
arguments of the call, so that a run that is driven again from any point goes the same way.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from loom_ia.adapters.journals.memory import MemoryJournal
from loom_ia.app.approvals import Ruling, approve, reject
from loom_ia.app.cancel import cancel
from loom_ia.app.instance import Instance
from loom_ia.app.runs import resume
from loom_ia.core.errors import ApprovalStale, LoomError, ModelError, UnknownRun
from loom_ia.core.events import Event
from loom_ia.core.json import JsonObject, canonical
from loom_ia.core.model import (
    ModelChunk,
    ModelRequest,
    ModelSpec,
    ReasoningDelta,
    Retry,
    Stopped,
    TextDelta,
    ToolArgsDelta,
    ToolCallEnded,
    ToolCallStarted,
    ToolOutput,
    ToolSpec,
)
from loom_ia.core.plan import agent_plan
from loom_ia.core.ports.journal import SequenceConflict
from loom_ia.core.ports.tools import ToolContext
from loom_ia.core.state import Call, RunState
from loom_ia.engine.program import Program
from tests.engine.world import World, run, running

EXPIRY = 3600.0


@dataclass(frozen=True)
class Reply:
    """One answer of a model: words and calls, or a failure the first time that it is asked."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    fails: bool = False


@dataclass(frozen=True)
class Script:
    """A session: the tools, what the model answers in each run, and what goes wrong."""

    tools: tuple[ToolSpec, ...]
    runs: tuple[tuple[Reply, ...], ...]
    max_iterations: int
    timeout: float | None
    together: bool
    dies_at: int | None
    lands: bool
    attempts: int

    @property
    def may_repeat(self) -> bool:
        """Whether every call can be started again and always ends the same."""
        plain = all(spec.may_run_again for spec in self.tools)
        return plain and self.timeout is None and not self.together


@dataclass
class Recorder(MemoryJournal):
    """A journal that remembers its batches, and that may die at one of them."""

    dies_at: int | None = None
    lands: bool = False
    batches: list[tuple[Event, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self.dead = asyncio.Event()

    async def append(
        self, batch: Sequence[Event], *, expected: int, sync: bool
    ) -> int | SequenceConflict:
        dies = self.dies_at is not None and len(self.batches) == self.dies_at
        if dies:
            self.dies_at = None
        if dies and not self.lands:
            await self._die()
        outcome = await super().append(batch, expected=expected, sync=sync)
        if not isinstance(outcome, SequenceConflict):
            self.batches.append(tuple(batch))
        if dies:
            await self._die()
        return outcome

    async def _die(self) -> None:
        self.dead.set()
        await asyncio.Event().wait()


class ScriptedModel:
    """Plays a script: which run it is comes from the request, which turn from its answers."""

    def __init__(self, script: Script) -> None:
        retry = Retry(max_attempts=script.attempts, initial_delay=0)
        self.spec = ModelSpec(id="M", sdk="fake", model="fake-1", retry=retry)
        self._script = script
        self._failed: set[tuple[int, int]] = set()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
        await asyncio.sleep(0)
        number = int(request.messages[0].as_text())
        rank = sum(message.role == "assistant" for message in request.messages)
        replies = self._script.runs[number]
        reply = replies[rank] if rank < len(replies) else Reply("the end")
        if reply.fails and (number, rank) not in self._failed:
            self._failed.add((number, rank))
            raise ModelError("transient", "down")
        if reply.reasoning:
            yield ReasoningDelta(reply.reasoning)
        if reply.text.strip() or not reply.calls:  # an answer of nothing is no answer
            yield TextDelta(reply.text if reply.text.strip() else "nothing to add")
        for place, (name, arguments) in enumerate(reply.calls):
            call_id = f"r{number}.{rank}.{place}"
            yield ToolCallStarted(call_id, name)
            yield ToolArgsDelta(call_id, arguments)
            yield ToolCallEnded(call_id)
        yield Stopped("tool_use" if reply.calls else "end")

    async def close(self) -> None:
        pass


class ScriptedTool:
    """Acts by the number that it is given."""

    def __init__(self, spec: ToolSpec, world: World) -> None:
        self.spec = spec
        self.instance: Instance | None = None
        self.acts: list[str] = []
        self._world = world

    async def check(self, arguments: JsonObject) -> str | None:
        return None if isinstance(arguments.get("n"), int) else "n: must be a number"

    async def call(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        self.acts.append(context.call_id)
        number = arguments["n"]
        assert isinstance(number, int)
        await asyncio.sleep(0)
        match number % 6:
            case 1:
                raise ValueError(f"failed on {number}")
            case 2:
                return ToolOutput()
            case 3:
                self._world.clock.advance(10)
            case 4 if self.spec.timeout is not None:
                await asyncio.Event().wait()
            case 5 if self.instance is not None and number > 20:
                await cancel(self.instance, context.run_id, by="tool")
            case _:
                pass
        return ToolOutput.of_text(f"result {number}")


class Scene:
    """A script that is played in a world."""

    def __init__(self, script: Script, journal: MemoryJournal) -> None:
        self.script = script
        self.world = World(journal)
        self.tools = [ScriptedTool(spec, self.world) for spec in script.tools]
        plan = agent_plan(
            name="clerk",
            model="M",
            system="Be brief.",
            tools=script.tools,
            max_iterations=script.max_iterations,
            timeout=script.timeout,
            expires_in=EXPIRY,
        )
        model = ScriptedModel(script)
        self.program = Program(plan, {"M": model}, {t.spec.name: t for t in self.tools})

    def instance(self, worker: str) -> Instance:
        """Start a process."""
        instance = self.world.instance(self.program, worker)
        for tool in self.tools:
            tool.instance = instance
        return instance

    async def play(self) -> None:
        """Play every run to its end, over a death if the script has one."""
        numbers = range(len(self.script.runs))
        if self.script.together:
            pair = [self.instance("worker-1"), self.instance("worker-2")]
            await asyncio.gather(*(self.live(number, pair[number % 2]) for number in numbers))
            return
        instance = self.instance("worker-1")
        for number in numbers:
            instance = await self.outlive(number, instance)

    async def live(self, number: int, instance: Instance) -> RunState:
        """Open one run and go on with it until it is over."""
        await run(instance, str(number), run_id=f"run-{number}")
        return await self.finish(instance, f"run-{number}")

    async def outlive(self, number: int, instance: Instance) -> Instance:
        """Live through one run; when the process dies, go on in another one, and give it."""
        journal = self.world.journal
        assert isinstance(journal, Recorder)
        async with running(self.live(number, instance), journal.dead.wait()) as tasks:
            living, dying = tasks
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if living.done():
                await living
                return instance
            await dying
            journal.dead = asyncio.Event()
            self.world.clock.advance(61)
            survivor = self.instance("worker-3")
            try:
                await survivor.find(f"run-{number}")
            except UnknownRun:
                await self.live(number, survivor)
            else:
                await self.finish(survivor, f"run-{number}")
            return survivor

    async def finish(self, instance: Instance, run_id: str) -> RunState:
        """Decide, resume and wait until the run is over for good."""
        for _ in range(60):
            _, state = await instance.find(run_id)
            if state.outcome is not None and not state.is_resumable:
                return state
            for call in state.pending:
                await self.decide(instance, run_id, call)
            await resume(instance, run_id)
        raise AssertionError(f"{run_id} does not end")

    async def decide(self, instance: Instance, run_id: str, call: Call) -> None:
        """Decide as a human would, by the number that is shown."""
        number = call.arguments["n"]
        assert isinstance(number, int)
        ruling = Ruling(run_id, "ada", call.address, reason=f"because of {number}")
        try:
            match number // 6 % 4:
                case _ if call.launches > 1:  # it was tried twice
                    await reject(instance, ruling)
                case 1:
                    await reject(instance, ruling)
                case 2:
                    await approve(instance, ruling, arguments={"n": number // 24 * 24})
                case 3:
                    self.world.clock.advance(EXPIRY)
                case _:
                    await approve(instance, ruling)
        except ApprovalStale:
            pass  # another one of these expired together


async def play(script: Script) -> tuple[Recorder, Scene]:
    """Play a script, and give the journal that it leaves."""
    dies_at = None if script.together else script.dies_at  # a death would take all with it
    journal = Recorder(dies_at=dies_at, lands=script.lands)
    scene = Scene(script, journal)
    try:
        await scene.play()
    except LoomError as error:
        raise AssertionError(f"{type(error).__name__}: {error}") from error
    return journal, scene


_numbers = st.integers(0, 47)
_arguments = st.one_of(
    _numbers.map(lambda n: canonical({"n": n})),
    st.sampled_from(['{"n": "x"}', "{", "", '{"n": 1, "deep": [null, 1.5, "\\u00e9"]}']),
)
_calls = st.lists(
    st.tuples(st.sampled_from(["t0", "t0", "t1", "none"]), _arguments), min_size=1, max_size=3
)
_replies = st.one_of(
    st.builds(lambda calls: Reply(calls=tuple(calls)), _calls),
    st.builds(lambda calls: Reply("let me see", "hm", tuple(calls)), _calls),
    st.sampled_from(
        [Reply("the end"), Reply(""), Reply("  "), Reply("", "hm"), Reply("up again", fails=True)]
    ),
)
_runs = st.lists(_replies, min_size=1, max_size=4).map(tuple)


@st.composite
def _tools(draw: st.DrawFn) -> tuple[ToolSpec, ...]:
    def spec(name: str) -> ToolSpec:
        return ToolSpec(
            name=name,
            description="acts",
            input_schema={"type": "object"},
            side_effects=draw(st.sampled_from(["none", "reversible", "irreversible"])),
            approval=draw(st.sampled_from(["never", "always"])),
            idempotent=draw(st.booleans()),
            on_unknown=draw(st.sampled_from(["error", "pause"])),
            timeout=draw(st.sampled_from([None, None, 0.001])),
        )

    return spec("t0"), spec("t1")


scripts = st.builds(
    Script,
    tools=_tools(),
    runs=st.lists(_runs, min_size=1, max_size=3).map(tuple),
    max_iterations=st.integers(1, 4),
    timeout=st.sampled_from([None, None, 15.0]),
    together=st.booleans(),
    dies_at=st.one_of(st.none(), st.integers(0, 12)),
    lands=st.booleans(),
    attempts=st.integers(1, 2),
)
"""Sessions of one to three runs."""
