"""DBOS Transact: the loop as a durable workflow whose model and tool calls are recorded steps.

It keeps no conversation of its own: the messages travel as the input of each workflow.
"""

from typing import Any, TypeAlias

from bench.peers.dbos_engine import configured_dbos
from bench.script import ANSWER, QUESTION, TOOL
from bench.systems import Setup

Message: TypeAlias = dict[str, Any]


class Measured:
    """The workflow, and the conversations that its caller has to keep."""

    def __init__(self, dbos: Any, workflow: Any) -> None:
        self._dbos = dbos
        self._workflow = workflow
        self._conversations: dict[str, list[Message]] = {}

    async def run(self, conversation: str | None) -> str:
        earlier = self._conversations.get(conversation, []) if conversation else []
        question: Message = {"role": "user", "text": QUESTION}
        handle = await self._dbos.start_workflow_async(self._workflow, [*earlier, question])
        messages = await handle.get_result()
        if conversation:
            self._conversations[conversation] = messages
        return messages[-1]["text"]

    async def close(self) -> None:
        self._dbos.destroy()


async def open_system(setup: Setup) -> Measured:
    """Make the workflow, on a SQLite file."""
    script = setup.script
    dbos = configured_dbos(setup.folder)

    @dbos.step(name="model")
    async def model(last: Message) -> Message:
        turn = await script.next(last["text"] if last["role"] == "tool" else None)
        if turn is None:
            return {"role": "assistant", "text": ANSWER}
        return {"role": "assistant", "id": f"c{turn}", "call": {"a": turn, "b": 1}}

    @dbos.step(name=TOOL)
    async def add(a: int, b: int) -> str:
        return str(a + b)

    @dbos.workflow(name="agent")
    async def agent(messages: list[Message]) -> list[Message]:
        while True:
            said = await model(messages[-1])
            messages.append(said)
            if "call" not in said:
                return messages
            text = await add(**said["call"])
            messages.append({"role": "tool", "id": said["id"], "text": text})

    dbos.launch()
    return Measured(dbos, agent)
