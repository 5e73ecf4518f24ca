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
from loom_ia.core.model.artifacts import StoredArtifact
from loom_ia.core.model.budget import Budget
from loom_ia.core.model.content import ArtifactBlock, ToolOutput
from loom_ia.core.model.tooling import ToolSpec
from loom_ia.core.ports.tools import ToolContext
from loom_ia.core.prompts import prompt_text
from loom_ia.core.state.calls import Call
from loom_ia.core.state.run import Completed, Failed, RunState
from loom_ia.engine.opening import agent_opening
from loom_ia.engine.program import Caller, Program
from loom_ia.engine.references import resolved

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
    made. With a `share`, from 0 to 1, it may consume that part of what is then left of `limits`,
    those of the agent that calls it.
    """

    spec: ToolSpec
    find: Callable[[], Program]
    share: float | None = None
    limits: Budget = Budget()  # noqa: RUF009 -- frozen, so shared safely

    @classmethod
    def of(
        cls,
        name: str,
        description: str,
        find: Callable[[], Program],
        *,
        share: float | None = None,
        limits: Budget | None = None,
    ) -> Self:
        """Make a tool of an agent; raises `ValueError` for a name that no model can call."""
        spec = ToolSpec(
            name=name, description=description, input_schema=INPUT, kind="subagent", timeout=None
        )
        return cls(spec, find, share, limits or Budget())

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

    async def opening(self, call: Call, caller: Caller) -> tuple[RunStarted, tuple[Payload, ...]]:
        """Give the first facts of the run below; raises `ToolError` when nothing is left for it."""
        program, run = self.program, caller.run
        language = program.plan.language
        asked = await resolved(call.arguments, self.spec, run.past, caller.artifacts, language)
        started, others = agent_opening(program, str(asked["message"]))
        changes: dict[str, object] = {"context": run.header.context}
        if self.share is not None:
            budget = self._part(self.share, caller, program)
            changes |= {"budget": budget, "budget_share": self.share}
        return started.model_copy(update=changes), others

    def _part(self, share: float, caller: Caller, program: Program) -> Budget:
        """Give the part of what is left above that the run below may consume."""
        spent = caller.session.ledger(caller.run).spent
        tokens = spent.usage.total_tokens
        left = self.limits.left(cost=spent.cost, tokens=tokens, calls=spent.calls)
        if left is None:
            said = prompt_text(program.plan.language, "share_used_up", name=self.spec.name)
            raise ToolError(said)
        part, own = left.share(share), program.plan.binding
        return part if own is None else part.within(own)

    def output(self, child: RunState) -> ToolOutput:
        """Give what the model reads of a run that is over."""
        match child.outcome:
            case Completed(output=output):
                files = (_block(f) for f in child.artifacts if f.origin == "tool_output")
                said = ToolOutput.of_text(output.as_text())
                return said.model_copy(update={"blocks": (*said.blocks, *files)})
            case Failed() as failed:
                return ToolOutput.of_error(storable_text(failed.error))
            case _:
                return ToolOutput.of_error(f"the agent {child.header.agent} was cancelled")

    async def call(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        """Refuse: an agent is only run below another run."""
        del arguments, context
        raise ToolError(f"{self.spec.name} is an agent: only the run of an agent can call it")


def _block(file: StoredArtifact) -> ArtifactBlock:
    return ArtifactBlock(uri=file.uri, media_type=file.media_type, size=file.size, name=file.name)
