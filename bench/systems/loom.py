"""This project, through the same door as any Python program that uses it."""

from collections.abc import AsyncGenerator
from typing import Any, TypeAlias

from bench.script import ANSWER, INSTRUCTIONS, QUESTION, TOOL, TOOL_DESCRIPTION, Script
from bench.systems import Setup
from loom_ia.access.api import Loom
from loom_ia.agents import AgentSpec, Contract, MainRole, PolicyReference, PythonTool
from loom_ia.config.root import EventsStorage, LoomConfig, Storage
from loom_ia.core.model.chunks import (
    ModelChunk,
    Stopped,
    TextDelta,
    ToolArgsDelta,
    ToolCallEnded,
    ToolCallStarted,
    UsageReported,
)
from loom_ia.core.model.content import ToolResultBlock
from loom_ia.core.model.messages import Message
from loom_ia.core.model.models import ModelSpec
from loom_ia.core.model.request import ModelRequest
from loom_ia.core.model.usage import Usage
from loom_ia.graph import END, Graph, SQLiteStore, condition
from loom_ia.policies import CONTINUE, BeforeTool, Decision, Deny, Fail, OnOutput, policy
from loom_ia.tools import tool

_SPEC = ModelSpec(id="scripted", sdk="fake", model="scripted-1")
_AGENT = "adder"

State: TypeAlias = dict[str, int]
# As a provider reports it; what one leaves out is counted from the texts, which takes longer.
_USAGE = UsageReported(Usage(input_tokens=100, output_tokens=10))


@policy(points=["before_tool"], decisions=["deny"])
async def pass_call(subject: BeforeTool) -> Decision:
    """Let every call of the script pass."""
    return CONTINUE if "a" in subject.arguments else Deny("no number")


@policy(points=["on_output"], decisions=["fail"])
async def pass_answer(subject: OnOutput) -> Decision:
    """Let every answer of the script pass."""
    return CONTINUE if subject.text else Fail("no answer")


_CHECKS: dict[str, Any] = {
    "policies": (PolicyReference(hook="pass_call"), PolicyReference(hook="pass_answer")),
    "output": Contract(must_match=".", max_chars=10_000),
}


class ScriptedModel:
    """The script as a model of this engine."""

    spec = _SPEC

    def __init__(self, script: Script) -> None:
        self._script = script

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
        turn = await self._script.next(_last_result(next(request.conversation_backwards())))
        if turn is None:
            yield TextDelta(ANSWER)
            yield _USAGE
            yield Stopped("end")
            return
        call_id = f"c{turn}"
        yield ToolCallStarted(call_id, TOOL)
        yield ToolArgsDelta(call_id, f'{{"a": {turn}, "b": 1}}')
        yield ToolCallEnded(call_id)
        yield _USAGE
        yield Stopped("tool_use")

    async def close(self) -> None:
        pass


class Measured:
    """An instance with one agent."""

    def __init__(self, loom: Loom) -> None:
        self._loom = loom

    async def run(self, conversation: str | None) -> str:
        result = await self._loom.run(_AGENT, QUESTION, session_id=conversation)
        return result.text if result.ok else repr(result)

    async def close(self) -> None:
        await self._loom.aclose()


async def open_system(setup: Setup) -> Measured:
    """Make an instance whose journal is where `setup` says.

    The tool is said to have effects that cannot be undone: each launch and each result must then
    be as safe as the floor's messages are.
    """
    names = {"jsonl": "events", "sqlite": "events.db"}
    path = str(setup.folder / names[setup.store]) if setup.store in names else None
    config = LoomConfig(
        version=1,
        models=(_SPEC,),
        storage=Storage(
            events=EventsStorage.model_validate({"backend": setup.store, "path": path})
        ),
        agents=(
            AgentSpec(
                name=_AGENT,
                main=MainRole(model=_SPEC.id, system=INSTRUCTIONS),
                max_iterations=1_000_000,
                tools=(PythonTool(python=TOOL, side_effects="irreversible"),),
                **(_CHECKS if setup.tool == "checked" else {}),
            ),
        ),
    )
    loom = Loom(config, models={_SPEC.id: ScriptedModel(setup.script)})
    loom.register(TOOL, _add_sync if setup.tool == "sync" else _add_async)
    loom.register("pass_call", pass_call)
    loom.register("pass_answer", pass_answer)
    loom.mount()
    return Measured(loom)


class MeasuredGraph:
    """A graph, and the store that its runs are given."""

    def __init__(self, graph: Graph[State], store: SQLiteStore | None) -> None:
        self._graph = graph
        self._store = store

    async def run(self, steps: int) -> int:
        result = await self._graph.run({"n": -steps}, store=self._store)
        return result.state["n"]

    async def close(self) -> None:
        if self._store is not None:
            await self._store.aclose()


async def open_graph(setup: Setup) -> MeasuredGraph:
    """Make a graph whose runs are kept in memory, or in a file at the default durability."""
    graph = Graph[State]("counter", max_iterations=1_000_000)
    graph.add_step("count", _count, then=condition(lambda state: state["n"] < 0, "count", END))
    store = SQLiteStore(setup.folder / "graph.db") if setup.store == "sqlite" else None
    return MeasuredGraph(graph, store)


async def _count(state: State) -> State:
    return {"n": state["n"] + 1}


@tool(name=TOOL, description=TOOL_DESCRIPTION)
async def _add_async(a: int, b: int) -> str:
    return str(a + b)


@tool(name=TOOL, description=TOOL_DESCRIPTION)
def _add_sync(a: int, b: int) -> str:
    return str(a + b)


def _last_result(message: Message) -> str | None:
    last = message.blocks[-1]
    return last.output.text if isinstance(last, ToolResultBlock) else None
