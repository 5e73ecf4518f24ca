# pyright: reportMissingImports=false
"""LangGraph: the prebuilt agent, and a graph by hand; with no checkpointer, or the one for SQLite.

The checkpointer writes before the next step begins (`durability="sync"`), as a run that must be
resumable after a crash needs (https://docs.langchain.com/oss/python/langgraph/durable-execution).
"""

import warnings
from contextlib import AsyncExitStack
from typing import Any, TypedDict
from uuid import uuid4

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool
from langgraph.graph import END, START, StateGraph
from langgraph.prebuilt import create_react_agent

from bench.script import ANSWER, INSTRUCTIONS, QUESTION, TOOL, TOOL_DESCRIPTION, Script
from bench.systems import Setup


class ScriptedModel(BaseChatModel):
    """The script as a chat model."""

    script: Any

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **_options: Any) -> "ScriptedModel":
        return self

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **_: Any) -> Any:
        raise NotImplementedError

    async def _agenerate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **_: Any
    ) -> ChatResult:
        script: Script = self.script
        last = messages[-1]
        turn = await script.next(str(last.content) if isinstance(last, ToolMessage) else None)
        if turn is None:
            said = AIMessage(ANSWER)
        else:
            call = {"id": f"c{turn}", "name": TOOL, "args": {"a": turn, "b": 1}}
            said = AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=said)])


class Measured:
    """A compiled graph; a conversation is a thread of its checkpointer."""

    def __init__(self, graph: Any, stack: AsyncExitStack, *, durable: bool) -> None:
        self._graph = graph
        self._stack = stack
        self._options = {"durability": "sync"} if durable else {}
        self._conversations: dict[str, list[BaseMessage]] = {}
        self._durable = durable

    async def run(self, conversation: str | None) -> str:
        config: dict[str, Any] = {"recursion_limit": 1_000_000}
        messages: list[Any] = [("user", QUESTION)]
        if self._durable:
            config["configurable"] = {"thread_id": conversation or uuid4().hex}
        elif conversation:
            messages = [*self._conversations.get(conversation, []), *messages]
        state = await self._graph.ainvoke({"messages": messages}, config, **self._options)
        if conversation and not self._durable:
            self._conversations[conversation] = state["messages"]
        return state["messages"][-1].content

    async def close(self) -> None:
        await self._stack.aclose()


async def open_system(setup: Setup) -> Measured:
    """Make the agent; a conversation needs the store `sqlite`, or its caller keeps it."""
    warnings.simplefilter("ignore")
    stack = AsyncExitStack()
    saver = await _saver(setup, stack)
    names = {"name": TOOL, "description": TOOL_DESCRIPTION}
    if setup.tool == "async":
        tool = StructuredTool.from_function(coroutine=_add_async, **names)
    else:
        tool = StructuredTool.from_function(_add_sync, **names)
    model = ScriptedModel(script=setup.script)
    graph = create_react_agent(model, [tool], prompt=INSTRUCTIONS, checkpointer=saver)
    return Measured(graph, stack, durable=saver is not None)


class State(TypedDict):
    """What the graph made by hand counts."""

    n: int


class MeasuredGraph:
    """A compiled graph; each run is a thread of its checkpointer."""

    def __init__(self, graph: Any, stack: AsyncExitStack, *, durable: bool) -> None:
        self._graph = graph
        self._stack = stack
        self._durable = durable

    async def run(self, steps: int) -> int:
        config: dict[str, Any] = {"recursion_limit": 1_000_000}
        options: dict[str, Any] = {}
        if self._durable:
            config["configurable"] = {"thread_id": uuid4().hex}
            options["durability"] = "sync"
        state = await self._graph.ainvoke({"n": -steps}, config, **options)
        return state["n"]

    async def close(self) -> None:
        await self._stack.aclose()


async def open_graph(setup: Setup) -> MeasuredGraph:
    """Make the graph by hand."""
    stack = AsyncExitStack()
    saver = await _saver(setup, stack)
    graph = StateGraph(State)
    graph.add_node("count", _count)
    graph.add_edge(START, "count")
    graph.add_conditional_edges("count", lambda state: "count" if state["n"] < 0 else END)
    return MeasuredGraph(graph.compile(checkpointer=saver), stack, durable=saver is not None)


async def _saver(setup: Setup, stack: AsyncExitStack) -> Any:
    if setup.store != "sqlite":
        return None
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    path = str(setup.folder / "langgraph.db")
    return await stack.enter_async_context(AsyncSqliteSaver.from_conn_string(path))


async def _count(state: State) -> State:
    return {"n": state["n"] + 1}


async def _add_async(a: int, b: int) -> str:
    return str(a + b)


def _add_sync(a: int, b: int) -> str:
    return str(a + b)
