"""The description of a graph: the same classes for a YAML file and for Python.

Law. These are values: they name functions, agents, tools and other graphs, and hold none of them.
What a name stands for is checked in `loom_ia.config`; what an expression or a template says is
read by `loom_ia.graph.written`.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias, cast

from pydantic import ConfigDict, Discriminator, Field, Tag

from loom_ia.core.json import JsonObject, JsonValue
from loom_ia.core.model.base import Value
from loom_ia.core.model.tooling import OnUnknown, SideEffects

END_WORD: Final = "END"
"""What a graph written in YAML calls the end."""

MergeName: TypeAlias = Literal[
    "overwrite", "append", "add", "union", "maximum", "minimum", "merge_dict", "by_id"
]
_EXPRESSION: Final = "an expression over the state"


class _Spec(Value):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


# -- where a step leads ---------------------------------------------------------------------------


def _kind_of_target(value: Any) -> str:
    return "(steps)" if isinstance(value, list | tuple) else "(step)"


TargetSpec: TypeAlias = Annotated[
    Annotated[str, Tag("(step)")] | Annotated[tuple[str, ...], Field(strict=False), Tag("(steps)")],
    Discriminator(_kind_of_target),
]


class BranchSpec(_Spec):
    """Choose by the value of a key of the state."""

    TAG: ClassVar = "(branch)"

    branch: str = Field(min_length=1, description="The key of the state to choose by.")
    routes: dict[str, TargetSpec] = Field(
        description="Where each value leads: a step, several (they run beside each other), or END."
    )
    default: TargetSpec | None = Field(
        default=None, description="Where any other value leads; without it, that is an error."
    )


class ConditionSpec(_Spec):
    """Choose by whether an expression holds."""

    TAG: ClassVar = "(condition)"

    condition: str = Field(min_length=1, description=f"What is looked at: {_EXPRESSION}.")
    if_true: TargetSpec = Field(description="Where it leads when that holds.")
    if_false: TargetSpec = Field(description="Where it leads otherwise.")


class FanOutSpec(_Spec):
    """Run a step once for each item of a list, and collect what they give."""

    TAG: ClassVar = "(fan_out)"

    fan_out: str = Field(min_length=1, description="The step that is run for each item.")
    over: str = Field(min_length=1, description="The key of the list.")
    as_: str = Field(alias="as", min_length=1, description="The key of the item, for its step.")
    collect: str = Field(min_length=1, description="The key of the list of what they give.")
    limit: int = Field(default=8, gt=0, description="How many items are run at once.")
    take: str | None = Field(
        default=None, min_length=1, description="The key to keep of what each gives; else all."
    )
    on_error: Literal["fail", "collect"] = Field(
        default="fail", description="An item that fails ends the run, or is told in the list."
    )

    model_config = ConfigDict(serialize_by_alias=True, populate_by_name=True)


def _kind_of_then(value: Any) -> str:
    if isinstance(value, BranchSpec | ConditionSpec | FanOutSpec):
        return value.TAG
    if isinstance(value, Mapping):
        keys = cast("Mapping[str, Any]", value)
        for kind in (FanOutSpec, ConditionSpec):
            if kind.TAG[1:-1] in keys:
                return kind.TAG
        return BranchSpec.TAG
    return _kind_of_target(value)


ThenSpec: TypeAlias = Annotated[
    Annotated[str, Tag("(step)")]
    | Annotated[tuple[str, ...], Field(strict=False), Tag("(steps)")]
    | Annotated[BranchSpec, Tag(BranchSpec.TAG)]
    | Annotated[ConditionSpec, Tag(ConditionSpec.TAG)]
    | Annotated[FanOutSpec, Tag(FanOutSpec.TAG)],
    Discriminator(_kind_of_then),
]


# -- steps ----------------------------------------------------------------------------------------


class RetrySpec(_Spec):
    """How a step that fails is tried again."""

    attempts: int = Field(default=3, ge=1, description="Attempts in all.")
    delay: float = Field(default=1.0, ge=0, description="Seconds before the second one.")
    backoff: float = Field(default=2.0, ge=1, description="What each wait is multiplied by.")
    max_delay: float = Field(default=60.0, ge=0, description="Seconds that no wait is longer than.")


class CacheSpec(_Spec):
    """How long what a step gave serves again."""

    key: str = Field(min_length=1, description=f"What it is kept under: {_EXPRESSION}.")
    ttl: float | None = Field(
        default=None, gt=0, description="Seconds that it is kept; `null` for ever."
    )


def _kind_of_join(value: Any) -> str:
    return "(word)" if isinstance(value, str) else "(count)"


JoinSpec: TypeAlias = Annotated[
    Annotated[Literal["all", "any"], Tag("(word)")] | Annotated[int, Field(ge=1), Tag("(count)")],
    Discriminator(_kind_of_join),
]


class _StepSpec(_Spec):
    TAG: ClassVar[str]

    then: ThenSpec | None = Field(
        default=None,
        description="Where it leads: a step, a list of steps, a choice; END without it.",
    )
    join: JoinSpec | None = Field(
        default=None,
        description="Branches end here: it runs once `all`, `any` or that many have arrived.",
    )
    timeout: float | None = Field(default=None, gt=0, description="Seconds that it may take.")
    retry: RetrySpec | None = Field(default=None, description="How a failure is tried again.")
    fallback: str | None = Field(
        default=None, min_length=1, description="The step that runs instead when it fails."
    )
    cache: CacheSpec | None = Field(default=None, description="How long what it gave serves.")
    side_effects: SideEffects = Field(
        default="none", description="What it does outside: `none`, `reversible`, `irreversible`."
    )
    idempotent: bool = Field(
        default=False, description="Whether doing it twice is the same as doing it once."
    )
    on_unknown: OnUnknown = Field(
        default="error",
        description="When nobody saw its end and it may not be repeated: `error`, or `pause`.",
    )
    version: str | None = Field(default=None, description="Part of the graph's fingerprint.")
    detail: str = Field(default="", description="What a drawing says of it.")


class PythonStep(_StepSpec):
    """A function of the state, or of the state and a context."""

    TAG = "(python)"

    python: str = Field(
        min_length=1,
        description="The function: a registered name, or `module:attribute`.",
    )


class AgentStep(_StepSpec):
    """An agent, as a run below the graph's."""

    TAG = "(agent)"

    agent: str = Field(min_length=1, description="The name of the agent.")
    ask: str = Field(min_length=1, description="What it is asked; `{{ key }}` is one of the state.")
    into: str = Field(min_length=1, description="The key that its answer goes under.")


class GraphStep(_StepSpec):
    """Another graph, as a run below this one."""

    TAG = "(graph)"

    graph: str = Field(min_length=1, description="The name of the graph.")
    inputs: tuple[str, ...] | None = Field(
        default=None, strict=False, description="The keys that it begins with; all without it."
    )
    outputs: tuple[str, ...] | None = Field(
        default=None,
        strict=False,
        description="The keys that come back; all that it changed without it.",
    )
    on_yield: Literal["bubble", "trap"] = Field(
        default="bubble", description="A pause of it is one of this graph, or fails the step."
    )


class ToolStep(_StepSpec):
    """One call of a tool."""

    TAG = "(tool)"

    tool: str = Field(
        min_length=1, description="The tool: a registered name, or `module:attribute`."
    )
    args: dict[str, JsonValue] = Field(
        default_factory=dict[str, JsonValue],
        description=f"Its arguments: a text is {_EXPRESSION}, any other value is itself.",
    )
    into: str = Field(min_length=1, description="The key that its result goes under.")


class HumanSpec(_Spec):
    """What a person is asked."""

    prompt: JsonValue = Field(
        default=None, description="What is shown; in a text, `{{ key }}` is one of the state."
    )
    response: str = Field(min_length=1, description="The key under which an answer may come in.")
    into: str = Field(min_length=1, description="The key that the answer goes under.")
    # `schema` is the name of a method of Pydantic's.
    json_schema: JsonObject | None = Field(
        default=None, alias="schema", description="The JSON Schema that an answer must fit."
    )
    expires_in: float | None = Field(
        default=None, gt=0, description="Seconds after which no answer is taken."
    )

    model_config = ConfigDict(serialize_by_alias=True, populate_by_name=True)


class HumanStep(_StepSpec):
    """A person who is asked; the run waits for the answer."""

    TAG = "(ask_human)"

    ask_human: HumanSpec = Field(description="What is asked, and where the answer goes.")


class CheckSpec(_Spec):
    """A check, and what is said when it does not hold."""

    TAG: ClassVar = "(check)"

    check: str = Field(min_length=1, description=f"What must hold: {_EXPRESSION}.")
    reason: str = Field(default="", description="Why the run is refused otherwise.")


def _kind_of_check(value: Any) -> str:
    return CheckSpec.TAG if isinstance(value, Mapping | CheckSpec) else "(expression)"


GuardItem: TypeAlias = Annotated[
    Annotated[str, Field(min_length=1), Tag("(expression)")]
    | Annotated[CheckSpec, Tag(CheckSpec.TAG)],
    Discriminator(_kind_of_check),
]


class GuardStep(_StepSpec):
    """Checks that all must hold; the first that does not stops the run."""

    TAG = "(guard)"

    guard: tuple[GuardItem, ...] = Field(
        strict=False, min_length=1, description="What must hold, in order; see `check`."
    )
    into: str | None = Field(
        default="blocked", min_length=1, description="The key that the reason goes under."
    )


class SetStep(_StepSpec):
    """Values that are computed from the state."""

    TAG = "(set)"

    # `set` is a type.
    values: dict[str, JsonValue] = Field(
        alias="set",
        description=f"What each key becomes: a text is {_EXPRESSION}, another value is itself.",
    )

    model_config = ConfigDict(serialize_by_alias=True, populate_by_name=True)


KINDS: Final[Mapping[str, type[_StepSpec]]] = {
    kind.TAG[1:-1]: kind
    for kind in (
        PythonStep,
        AgentStep,
        GraphStep,
        ToolStep,
        HumanStep,
        GuardStep,
        SetStep,
    )
}
"""The kinds of steps, by the key that tells them."""


def _kind_of_step(value: Any) -> str | None:
    if isinstance(value, _StepSpec):
        return value.TAG
    if not isinstance(value, Mapping):
        return None
    keys = cast("Mapping[str, Any]", value)
    return next((kind.TAG for key, kind in KINDS.items() if key in keys), None)


StepSpec: TypeAlias = Annotated[
    Annotated[PythonStep, Tag(PythonStep.TAG)]
    | Annotated[AgentStep, Tag(AgentStep.TAG)]
    | Annotated[GraphStep, Tag(GraphStep.TAG)]
    | Annotated[ToolStep, Tag(ToolStep.TAG)]
    | Annotated[HumanStep, Tag(HumanStep.TAG)]
    | Annotated[GuardStep, Tag(GuardStep.TAG)]
    | Annotated[SetStep, Tag(SetStep.TAG)],
    Discriminator(
        _kind_of_step,
        custom_error_type="no_kind_of_step",
        custom_error_message="a step has one of python, agent, graph, tool, ask_human, guard, set",
    ),
]
AnyStep: TypeAlias = PythonStep | AgentStep | GraphStep | ToolStep | HumanStep | GuardStep | SetStep


class GraphLimits(_Spec):
    """What bounds a run of the graph."""

    max_iterations: int = Field(default=100, gt=0, description="Steps that a run may start.")
    iterations_per: Literal["run", "segment"] = Field(
        default="run", description="Counted over the `run`, or since it was last resumed."
    )
    step_budget: int | None = Field(
        default=None,
        gt=0,
        description="Steps that a run may start, those of graphs below it included.",
    )
    timeout: float | None = Field(
        default=None, gt=0, description="Seconds during which a run may be driven."
    )


class GraphSpec(_Spec):
    """A graph: its steps, where each leads, and how the state is merged."""

    name: str = Field(
        pattern=r"^[A-Za-z0-9_-]{1,64}$", description="The name by which it is run; each once."
    )
    description: str = Field(
        default="", description="What it does; an agent that calls it reads it."
    )
    entry: str | None = Field(
        default=None, min_length=1, description="Where a run begins; the first step without it."
    )
    version: str | None = Field(default=None, description="Part of its fingerprint.")
    merge: dict[str, MergeName] = Field(
        default_factory=dict[str, MergeName],
        description="How a key takes what a step gives; a key that is not named is overwritten.",
    )
    limits: GraphLimits = Field(default=GraphLimits(), description="What bounds a run.")
    steps: dict[str, StepSpec] = Field(description="The steps, by their names.")
