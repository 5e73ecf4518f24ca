# pyright: reportMissingImports=false, reportCallIssue=false
"""Pydantic AI, alone or as a durable workflow of DBOS (https://pydantic.dev/docs/ai/)."""

from collections.abc import Callable
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import UsageLimits

from bench.peers.dbos_engine import configured_dbos
from bench.script import ANSWER, INSTRUCTIONS, QUESTION, TOOL, TOOL_DESCRIPTION
from bench.systems import Setup

_NO_LIMIT = UsageLimits(request_limit=None)


class Measured:
    """An agent, and the conversations that its caller has to keep."""

    def __init__(self, agent: Any, close: Callable[[], None]) -> None:
        self._agent = agent
        self._close = close
        self._conversations: dict[str, list[ModelMessage]] = {}

    async def run(self, conversation: str | None) -> str:
        earlier = self._conversations.get(conversation) if conversation else None
        result = await self._agent.run(QUESTION, message_history=earlier, usage_limits=_NO_LIMIT)
        if conversation:
            self._conversations[conversation] = result.all_messages()
        return result.output

    async def close(self) -> None:
        self._close()


async def open_system(setup: Setup) -> Measured:
    """Make the agent; with the store `dbos`, on DBOS with a SQLite file."""
    script = setup.script

    async def model(messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        results = [p.content for p in messages[-1].parts if isinstance(p, ToolReturnPart)]
        turn = await script.next(str(results[-1]) if results else None)
        if turn is None:
            return ModelResponse(parts=[TextPart(ANSWER)])
        return ModelResponse(parts=[ToolCallPart(TOOL, {"a": turn, "b": 1}, f"c{turn}")])

    agent = Agent(FunctionModel(model), name="adder", instructions=INSTRUCTIONS)
    add = _add_async if setup.tool == "async" else _add_sync
    agent.tool_plain(name=TOOL, description=TOOL_DESCRIPTION)(add)
    if setup.store == "memory":
        return Measured(agent, lambda: None)
    return _durable(agent, setup)


def _durable(agent: Any, setup: Setup) -> Measured:
    dbos = configured_dbos(setup.folder)
    from pydantic_ai.durable_exec.dbos import DBOSAgent

    durable = DBOSAgent(agent)
    dbos.launch()
    return Measured(durable, dbos.destroy)


async def _add_async(a: int, b: int) -> str:
    return str(a + b)


def _add_sync(a: int, b: int) -> str:
    return str(a + b)
