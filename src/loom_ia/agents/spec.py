"""The description of an agent: the same classes for a YAML file and for Python.

Law. These are values: they name models, prompts and tools, and hold none of them. What a name
stands for is checked in `loom_ia.config`, with all the rest that the configuration declares.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal, Self, TypeAlias

from pydantic import ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from loom_ia.agents.checks import Contract, JudgeSpec, PolicyReference
from loom_ia.agents.context import ContextSpecs
from loom_ia.agents.session_state import StateKeySpec
from loom_ia.agents.tools import ToolSpecs
from loom_ia.core.json import JsonObject
from loom_ia.core.model.base import Value
from loom_ia.core.model.budget import Budget, BudgetAction, SessionBudget
from loom_ia.core.model.session_state import STATE_KEY
from loom_ia.core.prompts import Language

OnExpiry: TypeAlias = Literal["deny", "fail"]
MainContext: TypeAlias = Literal["session_state"]
StateKeyName: TypeAlias = Annotated[str, Field(pattern=STATE_KEY)]

DEFAULT_MAX_ITERATIONS: Final = 10


_ONE_PROMPT: Final[JsonObject] = {
    "oneOf": [
        {"required": [key], "properties": {key: {"type": "string"}}}
        for key in ("system", "system_file")
    ]
}


class _Spec(Value):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class LlmSettings(_Spec):
    """What an agent asks of its model beyond the model's own entry, which it overrides.

    `params` goes to the provider as it is, merged over the model's.
    """

    max_tokens: int | None = Field(default=None, gt=0, description="Overrides the model's own.")
    params: JsonObject = Field(default_factory=dict, description="Merged over the model's own.")


class Speaker(_Spec):
    """Who speaks: its model, and its prompt as a text or as a file of `prompts_dir`."""

    model_config = ConfigDict(json_schema_extra=_ONE_PROMPT)

    model: str = Field(min_length=1, description="The `id` of its model.")
    fallbacks: tuple[str, ...] = Field(
        default=(),
        strict=False,
        description=(
            "The `id`s of the models that take over, in this order, when it fails; the one that "
            "did leads until the run is over."
        ),
    )
    system: str | None = Field(
        default=None, description="Its system prompt; give this or `system_file`."
    )
    system_file: str | None = Field(
        default=None,
        min_length=1,
        description="The file of its system prompt, relative to `prompts_dir`.",
    )
    llm: LlmSettings = Field(default=LlmSettings(), description="What it asks of its model.")

    @property
    def chain(self) -> tuple[str, ...]:
        """The model that leads, then those that take over."""
        return (self.model, *self.fallbacks)

    @model_validator(mode="after")
    def _one_prompt(self) -> Self:
        if (self.system is None) == (self.system_file is None):
            raise PydanticCustomError("one_prompt", "give either system or system_file")
        return self


class MainRole(Speaker):
    """The orchestrator: its model, and its prompt as a text or as a file of `prompts_dir`."""

    context: tuple[MainContext, ...] = Field(
        default=(),
        strict=False,
        description=(
            "What is put at the end of each of its requests: `session_state`, the keys of `state` "
            "that have a value."
        ),
    )

    @model_validator(mode="after")
    def _context_once(self) -> Self:
        if len(set(self.context)) < len(self.context):
            raise PydanticCustomError("context_twice", "an item of the context is written twice")
        return self


class ApprovalSpec(_Spec):
    """How long a request for approval stays open, in seconds (None: for ever), and what then."""

    expires_in: float | None = Field(
        default=86_400.0, gt=0, description="Seconds that it stays open; `null` for ever."
    )
    on_expiry: OnExpiry = Field(default="deny", description="`deny` the call, or `fail` the run.")


class Budgets(_Spec):
    """Limits, and what is done when one is reached."""

    run: Budget = Field(default=Budget(), description="What one run may consume.")
    session: SessionBudget = Field(
        default=SessionBudget(),
        description="What the runs of a session may consume together; a run below none of its own.",
    )
    on_exceed: BudgetAction | None = Field(
        default=None,
        description="`stop`: a last answer without tools (the default); `warn`: only say so.",
    )

    def over(self, general: "Budgets") -> "Budgets":
        """Give these limits, and those of `general` where nothing is said here."""
        return Budgets(
            run=self.run.over(general.run),
            session=self.session.over(general.session),
            on_exceed=self.on_exceed or general.on_exceed,
        )


class RoleSpec(Speaker):
    """A specialist that the orchestrator calls as a tool: one call of a model, without tools.

    It reads its arguments and the `context` that it declares, as `input_template` writes them or in
    sections between tags. `timeout` bounds its work in seconds.
    """

    name: str = Field(
        pattern=r"^[A-Za-z0-9_-]{1,64}$",
        description="The name under which the orchestrator calls it; each once in an agent.",
    )
    description: str = Field(
        pattern=r"\S", description="What it does, for the orchestrator to know when to call it."
    )
    input_schema: JsonObject = Field(
        default_factory=dict[str, Any],
        description=(
            "The JSON Schema of its arguments, of type object; others are refused unless it says "
            "`additionalProperties`."
        ),
    )
    input_template: str | None = Field(
        default=None,
        min_length=1,
        description="What it reads, with `{{ args.name }}` and `{{ context.user_input }}`.",
    )
    context: tuple[ContextSpecs, ...] = Field(
        default=(), strict=False, description="What it receives of the run that calls it."
    )
    terminal: bool = Field(
        default=False,
        description="Called alone, what it gives is the answer of the run, as it is.",
    )
    timeout: float | None = Field(default=None, gt=0, description="Seconds that it may take.")
    output: Contract | None = Field(default=None, description="What it must give.")
    judge: JudgeSpec | None = Field(
        default=None, description="A model that marks what it gives, once the contract is kept."
    )


class SubagentRef(_Spec):
    """An agent that the orchestrator calls as a tool, in a run below its own."""

    agent: str = Field(min_length=1, description="The name of the agent.")
    name: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9_-]{1,64}$",
        description="The name under which it is called; that of the agent without it.",
    )
    description: str | None = Field(
        default=None, description="What the orchestrator reads of it; the agent's own without it."
    )
    budget_share: float | None = Field(
        default=None,
        gt=0,
        le=1,
        description="The part of what is left of the run's budget that one call may consume.",
    )

    @property
    def called(self) -> str:
        """The name under which the orchestrator calls it."""
        return self.name or self.agent


class Expose(_Spec):
    """Through which doors an agent is offered."""

    rest: bool = Field(default=True, description="In the REST API.")
    mcp: bool = Field(default=True, description="As a tool of the MCP server.")


class AgentSpec(_Spec):
    """An agent. `timeout` bounds, in seconds, the time during which its runs are driven.

    `language` is the one of the texts that the engine itself puts before the model; None takes
    the language of the configuration.
    """

    name: str = Field(
        pattern=r"^[A-Za-z0-9_-]{1,64}$", description="The name by which it is run; each once."
    )
    description: str = Field(default="", description="What it does, for people.")
    expose: Expose = Field(default=Expose(), description="Through which doors it is offered.")
    main: MainRole = Field(description="The orchestrator.")
    max_iterations: int = Field(
        default=DEFAULT_MAX_ITERATIONS,
        gt=0,
        description="Calls of the model before it must conclude without tools.",
    )
    timeout: float | None = Field(
        default=None,
        gt=0,
        description="Seconds during which a run may be driven; waiting for a human does not count.",
    )
    approval: ApprovalSpec = Field(
        default=ApprovalSpec(), description="What becomes of a request that nobody answers."
    )
    budget: Budgets = Field(
        default=Budgets(), description="Overrides the root's `budgets`, key by key."
    )
    output: Contract | None = Field(default=None, description="What its answer must be.")
    judge: JudgeSpec | None = Field(
        default=None, description="A model that marks its answer, once the contract is kept."
    )
    policies: tuple[PolicyReference, ...] = Field(
        default=(), strict=False, description="Code that is asked at points of its runs, in order."
    )
    stream_output: Literal["live", "after_guards"] | None = Field(
        default=None,
        description=(
            "Whether pieces of an answer are shown as they come, or once it passed its checks; "
            "`null`: as they come when it has none."
        ),
    )
    language: Language | None = Field(default=None, description="Overrides the root's `language`.")
    tools: tuple[ToolSpecs, ...] = Field(
        default=(), strict=False, description="The tools that it may call, each once."
    )
    roles: tuple[RoleSpec, ...] = Field(
        default=(), strict=False, description="The specialists that it may call."
    )
    subagents: tuple[SubagentRef, ...] = Field(
        default=(), strict=False, description="The agents that it may call."
    )
    max_depth: int = Field(
        default=1,
        gt=0,
        description="It calls its `subagents` while fewer agents than this are above it.",
    )
    state: dict[StateKeyName, StateKeySpec] = Field(
        default_factory=dict[str, StateKeySpec],
        description="The values that it keeps for a session, by key.",
    )

    @property
    def judges(self) -> "Iterator[tuple[tuple[str | int, ...], JudgeSpec, Speaker]]":
        """Give each judge, its place, and who wrote what it judges."""
        if self.judge is not None:
            yield ("judge",), self.judge, self.main
        for position, role in enumerate(self.roles):
            if role.judge is not None:
                yield ("roles", position, "judge"), role.judge, role
