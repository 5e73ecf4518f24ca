# pyright: reportMissingImports=false
"""The OpenAI Agents SDK; its SQLite session keeps conversations, and resumes no run."""

from collections.abc import AsyncIterator
from itertools import count
from typing import Any
from uuid import uuid4

from agents import Agent, Runner, SQLiteSession, function_tool, set_tracing_disabled
from agents.items import ModelResponse
from agents.models.interface import Model
from agents.usage import Usage
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from bench.script import ANSWER, INSTRUCTIONS, QUESTION, TOOL, TOOL_DESCRIPTION, Script
from bench.systems import Setup

_NO_LIMIT = 1_000_000


class ScriptedModel(Model):
    """The script as a model of this SDK."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._numbers = count(1)

    async def get_response(
        self, system_instructions: str | None, input: Any, *_: Any, **__: Any
    ) -> ModelResponse:
        last = input[-1] if isinstance(input, list) else {}
        is_result = last.get("type") == "function_call_output"
        turn = await self._script.next(str(last["output"]) if is_result else None)
        number = next(self._numbers)
        said: Any
        if turn is None:
            text = ResponseOutputText(text=ANSWER, type="output_text", annotations=[])
            said = ResponseOutputMessage(
                id=f"m{number}",
                type="message",
                role="assistant",
                status="completed",
                content=[text],
            )
        else:
            said = ResponseFunctionToolCall(
                id=f"f{number}",
                type="function_call",
                call_id=f"c{number}",
                name=TOOL,
                arguments=f'{{"a": {turn}, "b": 1}}',
            )
        return ModelResponse(output=[said], usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


class Measured:
    """An agent; a conversation is a session of its file, or a list that its caller keeps."""

    def __init__(self, agent: Any, setup: Setup) -> None:
        self._agent = agent
        self._path = setup.folder / "sessions.db" if setup.store == "sqlite" else None
        self._sessions: dict[str, Any] = {}
        self._conversations: dict[str, list[Any]] = {}

    async def run(self, conversation: str | None) -> str:
        if self._path is not None:
            return await self._run_stored(conversation)
        question = {"role": "user", "content": QUESTION}
        earlier = self._conversations.get(conversation, []) if conversation else []
        result = await Runner.run(self._agent, [*earlier, question], max_turns=_NO_LIMIT)
        if conversation:
            self._conversations[conversation] = result.to_input_list()
        return result.final_output

    async def close(self) -> None:
        for session in self._sessions.values():
            session.close()

    async def _run_stored(self, conversation: str | None) -> str:
        session = self._sessions.get(conversation or "")
        if session is None:
            session = SQLiteSession(conversation or uuid4().hex, self._path)
        if conversation:
            self._sessions[conversation] = session
        result = await Runner.run(self._agent, QUESTION, session=session, max_turns=_NO_LIMIT)
        if not conversation:
            session.close()
        return result.final_output


async def open_system(setup: Setup) -> Measured:
    """Make the agent, without tracing."""
    set_tracing_disabled(disabled=True)
    add = _add_async if setup.tool == "async" else _add_sync
    tool = function_tool(add, name_override=TOOL, description_override=TOOL_DESCRIPTION)
    agent = Agent(
        name="adder", instructions=INSTRUCTIONS, tools=[tool], model=ScriptedModel(setup.script)
    )
    return Measured(agent, setup)


async def _add_async(a: int, b: int) -> str:
    return str(a + b)


def _add_sync(a: int, b: int) -> str:
    return str(a + b)
