"""What a specialist may be given of the run that calls it."""

from typing import ClassVar, Literal, TypeAlias

from pydantic import ConfigDict, Field

from loom_ia.core.model.base import Value

NamedContext: TypeAlias = Literal[
    "user_input", "caller_context", "attachments", "session_summary", "session_state"
]


class _Item(Value):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class ToolResults(_Item):
    """The last results of some tools, in the run or, failing that, in the whole session."""

    TAG: ClassVar[str] = "(tool_results)"

    tool_results: tuple[str, ...] = Field(
        strict=False, min_length=1, description="The names of the tools, as the model sees them."
    )
    scope: Literal["run", "session"] = Field(
        default="run", description="`session`: also what earlier runs of the session got."
    )


class LastTurns(_Item):
    """The last exchanges of the session before the run."""

    TAG: ClassVar[str] = "(last_turns)"

    last_turns: int = Field(gt=0, description="How many.")


class StateKeys(_Item):
    """Some values of the state of the session."""

    TAG: ClassVar[str] = "(session_state)"

    session_state: tuple[str, ...] = Field(
        strict=False, min_length=1, description="The keys of the agent's `state`."
    )


ContextItem: TypeAlias = NamedContext | ToolResults | LastTurns | StateKeys


def names_of(item: ContextItem) -> tuple[str, ...]:
    """Give the names that an item has in templates, under `context`."""
    match item:
        case ToolResults():
            return tuple(f"tool_results.{tool}" for tool in item.tool_results)
        case LastTurns():
            return ("last_turns",)
        case StateKeys():
            return tuple(f"session_state.{key}" for key in item.session_state)
        case _:
            return (item,)
