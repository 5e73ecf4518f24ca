"""A role as a tool: a specialist that is asked once, in a run of its own below the caller's.

It has its own model and words, no tool and no history: it reads what it declares, and its answer is
the result of the call.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from loom_ia.core.errors import ToolError
from loom_ia.core.events.envelope import Payload
from loom_ia.core.events.message import UserMessage
from loom_ia.core.events.run import RunStarted
from loom_ia.core.json import JsonObject, storable_text
from loom_ia.core.model.content import TextBlock, ToolOutput
from loom_ia.core.model.context import ContextItem, names_of
from loom_ia.core.model.messages import Message
from loom_ia.core.model.tooling import ToolSpec
from loom_ia.core.ports.tools import ToolContext
from loom_ia.core.prompts import Language, prompt_text
from loom_ia.core.schema import misfit
from loom_ia.core.state.calls import Call
from loom_ia.core.state.run import Completed, Failed, RunState
from loom_ia.core.template import Template
from loom_ia.engine.material import Section, gather, written
from loom_ia.engine.program import Caller, Program
from loom_ia.engine.references import resolved
from loom_ia.engine.sections import filled, tagged


@dataclass(frozen=True, slots=True)
class RoleTool:
    """What a model calls to ask a specialist; it reads the answer as the result.

    `program` answers once, without tools. `context` is what the specialist is given of the run,
    `template` how it reads it; without one it reads sections between tags.
    """

    spec: ToolSpec
    program: Program
    context: tuple[ContextItem, ...] = ()
    template: Template | None = None

    @classmethod
    def of(
        cls,
        name: str,
        description: str,
        program: Program,
        *,
        input_schema: JsonObject | None = None,
        context: Sequence[ContextItem] = (),
        template: Template | None = None,
        terminal: bool = False,
    ) -> Self:
        """Make a tool of a specialist; raises `ValueError` for a name that no model can call.

        What the main model reads of it also says what the specialist receives anyway.
        """
        schema = {"type": "object", "properties": {}, **(input_schema or {})}
        schema.setdefault("additionalProperties", False)
        spec = ToolSpec(
            name=name,
            description=_described(description, context, program.plan.language, alone=terminal),
            input_schema=schema,
            kind="role",
            timeout=None,
            offload_over=None,
            terminal=terminal,
            sees="attachments" in context,
        )
        return cls(spec, program, tuple(context), template)

    @property
    def delegate(self) -> Self:
        """What a call of it opens."""
        return self

    async def check(self, arguments: JsonObject) -> str | None:
        """Tell why `arguments` do not fit its schema."""
        return misfit(arguments, self.spec.input_schema) or None

    async def opening(self, call: Call, caller: Caller) -> tuple[RunStarted, tuple[Payload, ...]]:
        """Give the first facts of its run; raises `ToolError` when it lacks what it needs."""
        plan, role = self.program.plan, self.spec.name
        files, past = caller.artifacts, caller.run.past
        arguments = await resolved(call.arguments, self.spec, past, files, plan.language)
        found = await gather(self.context, role, caller, plan.language)
        if self.template is not None:
            text = filled(self.template, arguments, found)
        else:
            body = "\n".join(f"{name}: {written(value)}" for name, value in arguments.items())
            own = (Section("arguments", body),) if body else ()
            text = tagged((*found.sections, *own))
        blocks = (TextBlock(text=storable_text(text)), *found.files)
        started = RunStarted(
            language=plan.language,
            plan=plan.digest,
            role=role,
            model=_leading(role, caller),
        )
        return started, (UserMessage(message=Message(role="user", blocks=blocks)),)

    def output(self, child: RunState) -> ToolOutput:
        """Give what the model reads of a run that is over."""
        match child.outcome:
            case Completed(output=output) as end if output.as_text().strip():
                return ToolOutput(
                    blocks=(TextBlock(text=output.as_text()),),
                    data=end.data,
                    unverified=end.unverified,
                    fallback=end.fallback,
                )
            case Failed() as failed:
                return ToolOutput.of_error(storable_text(failed.error))
            case _:
                language = self.program.plan.language
                said = prompt_text(language, "nothing_given", role=self.spec.name)
                return ToolOutput.of_error(said)

    async def call(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        """Refuse: a role is only asked below the run of an agent."""
        del arguments, context
        raise ToolError(f"{self.spec.name} is a role: only the run of its agent can call it")


def _leading(role: str, caller: Caller) -> str:
    """Give the model that took over when the role was asked before in the run, if one did."""
    earlier = [
        run.model_of("main")
        for run in caller.session.children(caller.run.run_id)
        if run.header.role == role
    ]
    return (earlier[-1] if earlier else None) or ""


def _described(
    description: str, context: Sequence[ContextItem], language: Language, *, alone: bool
) -> str:
    parts = [description]
    if names := [name for item in context for name in names_of(item)]:
        parts.append(prompt_text(language, "receives", parts=", ".join(names)))
    if alone:
        parts.append(prompt_text(language, "call_alone"))
    return " ".join(parts)
