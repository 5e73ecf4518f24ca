"""An agent as a tool of another one: each call is a run below the caller's, with its own identity.

The caller pays for it, waits with it, is cancelled with it, and goes on with it after a crash.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from loom_ia.core.errors import ToolError
from loom_ia.core.events.envelope import Payload
from loom_ia.core.events.run import RunStarted
from loom_ia.core.json import JsonObject, storable_text
from loom_ia.core.model.content import ToolOutput
from loom_ia.core.model.tooling import ToolSpec
from loom_ia.core.ports.tools import ToolContext
from loom_ia.core.state.calls import Call
from loom_ia.core.state.run import Completed, Failed, RunState
from loom_ia.engine.opening import agent_opening
from loom_ia.engine.program import Program

INPUT: JsonObject = {
    "type": "object",
    "properties": {"message": {"type": "string", "description": "What the agent is asked."}},
    "required": ["message"],
    "additionalProperties": False,
}
"""What a model gives when it calls an agent."""


@dataclass(frozen=True, slots=True)
class SubagentTool:
    """What a model calls to ask another agent; it reads the answer as the result.

    `find` gives the agent ready to be driven, each time: it may not be there yet when the tool is
    made.
    """

    spec: ToolSpec
    find: Callable[[], Program]

    @classmethod
    def of(cls, name: str, description: str, find: Callable[[], Program]) -> Self:
        """Make a tool of an agent; raises `ValueError` for a name that no model can call."""
        spec = ToolSpec(
            name=name, description=description, input_schema=INPUT, kind="subagent", timeout=None
        )
        return cls(spec, find)

    @property
    def delegate(self) -> Self:
        """What a call of it opens."""
        return self

    @property
    def program(self) -> Program:
        """What drives the run that is opened."""
        return self.find()

    async def check(self, arguments: JsonObject) -> str | None:
        """Tell why `arguments` cannot be asked."""
        message = arguments.get("message")
        if not isinstance(message, str) or not message.strip():
            return "message: it is a text, not empty"
        unknown = sorted(arguments.keys() - {"message"})
        return f"{unknown[0]}: there is no such parameter" if unknown else None

    async def opening(self, call: Call, caller: RunState) -> tuple[RunStarted, tuple[Payload, ...]]:
        """Give the first facts of the run below."""
        del caller
        return agent_opening(self.program, str(call.arguments["message"]))

    def output(self, child: RunState) -> ToolOutput:
        """Give what the model reads of a run that is over."""
        match child.outcome:
            case Completed(output=output):
                return ToolOutput.of_text(output.as_text())
            case Failed() as failed:
                return ToolOutput.of_error(storable_text(failed.error))
            case _:
                return ToolOutput.of_error(f"the agent {child.header.agent} was cancelled")

    async def call(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        """Refuse: an agent is only run below another run."""
        del arguments, context
        raise ToolError(f"{self.spec.name} is an agent: only the run of an agent can call it")
