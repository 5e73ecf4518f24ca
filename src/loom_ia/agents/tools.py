"""The tools that an agent names: one class for each kind of reference.

Law. Values, as in `agents/spec.py`. To add a kind, write its class here and name it in `AnyTool`
and `ToolSpecs`; `config/tool_kinds.py` says what it stands for.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Self, TypeAlias, cast

from pydantic import ConfigDict, Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from loom_ia.agents.checks import Contract, Grounded
from loom_ia.agents.overrides import ToolOverrides
from loom_ia.core.model.base import Value
from loom_ia.core.model.mcp import SourceName
from loom_ia.core.model.naming import shown_name
from loom_ia.core.model.tooling import ApprovalMode, OnUnknown, SideEffects

_OVERRIDES: Final = "Overrides what the tool declares."
_NOTICE: Final = (
    "The sentence that is told to whoever must let a call go, with `{{ argument }}`; overrides "
    "what the tool declares."
)


class ToolReference(Value):
    """A tool that an agent may call: what all kinds of references have.

    `KEY` is the key that tells the kind; its value, `target`, names the tool. The fields that a
    kind has besides replace what the tool itself declares; None keeps it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    KEY: ClassVar[str]
    TAG: ClassVar[str]

    @property
    def target(self) -> str:
        """What the tool is found by."""
        return str(getattr(self, self.KEY))

    @property
    def overrides(self) -> dict[str, Any]:
        """The declarations that this reference replaces, by the names of `ToolSpec`."""
        return self.model_dump(exclude={self.KEY, "output", "grounded"}, exclude_none=True)


class PythonTool(ToolReference):
    """A reference to a tool written in Python: a registered name, or `module:attribute`.

    Each other field replaces what the tool itself declares; None keeps it.
    """

    KEY = "python"
    TAG = "(python)"

    python: str = Field(
        min_length=1,
        description=(
            "The name of a tool of the `imports`, a registered name, or `module:attribute`."
        ),
    )
    timeout: float | None = Field(default=None, gt=0, description=_OVERRIDES)
    side_effects: SideEffects | None = Field(default=None, description=_OVERRIDES)
    approval: ApprovalMode | None = Field(default=None, description=_OVERRIDES)
    idempotent: bool | None = Field(default=None, description=_OVERRIDES)
    on_unknown: OnUnknown | None = Field(default=None, description=_OVERRIDES)
    offload_over: int | None = Field(default=None, gt=0, description=_OVERRIDES)
    notice: str | None = Field(default=None, min_length=1, description=_NOTICE)
    output: Contract | None = Field(
        default=None, description="What it must give; else the model reads why it was refused."
    )
    grounded: bool | Grounded | None = Field(
        default=None,
        description=(
            "Refuse a call whose arguments hold amounts, dates, references… that no source holds."
        ),
    )


class GraphTool(ToolReference):
    """A graph that the agent may call: its arguments are the input of a run below the agent's.

    Each other field replaces what is known of the graph; None keeps it.
    """

    KEY = "graph"
    TAG = "(graph)"

    graph: str = Field(
        min_length=1,
        description=(
            "The name of a graph of `graphs_dir` or of the `imports`, a registered name, or "
            "`module:attribute`."
        ),
    )
    name: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9_-]{1,64}$",
        description="The name under which the model calls it; that of the graph without it.",
    )
    description: str | None = Field(
        default=None, description="What the model reads of it; that of the graph without it."
    )
    side_effects: SideEffects | None = Field(default=None, description=_OVERRIDES)
    approval: ApprovalMode | None = Field(default=None, description=_OVERRIDES)
    notice: str | None = Field(default=None, min_length=1, description=_NOTICE)


class SourcedTools(ToolReference):
    """The tools of a source, which are not known before it is asked: what its kinds have.

    Models see each of them under `PREFIX__NAME`.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        json_schema_extra={"not": {"required": ["include", "exclude"]}},
    )

    alias: SourceName | None = Field(
        default=None, description="The prefix of its tools; its own name without it."
    )
    include: tuple[str, ...] | None = Field(
        default=None,
        strict=False,
        description="The only tools that are taken, by the names that the source gives them.",
    )
    exclude: tuple[str, ...] | None = Field(
        default=None, strict=False, description="The tools that are left out; not with `include`."
    )
    required: bool = Field(
        default=False,
        description="Whether a run fails when it cannot be reached, instead of going on without.",
    )
    tools: dict[str, ToolOverrides] = Field(
        default_factory=dict[str, ToolOverrides],
        description="What holds for each tool, by the name that the source gives it.",
    )

    @property
    def prefix(self) -> str:
        """What the names of its tools begin with."""
        return self.alias or self.target

    def named(self, own: str) -> str:
        """Give the name under which models see a tool."""
        return shown_name(self.prefix, own)

    def takes(self, own: str) -> bool:
        """Whether a tool is among those that are taken."""
        if self.include is not None:
            return own in self.include
        return own not in (self.exclude or ())

    @model_validator(mode="after")
    def _one_choice(self) -> Self:
        if self.include is not None and self.exclude is not None:
            raise PydanticCustomError("one_choice", "give either include or exclude, not both")
        return self


class McpTool(SourcedTools):
    """The tools of an MCP server that `mcp_servers` declares."""

    KEY = "mcp"
    TAG = "(mcp)"

    mcp: str = Field(min_length=1, description="The name of the server.")


class SourceTool(SourcedTools):
    """The tools of an installed package that `tool_sources` declares."""

    KEY = "source"
    TAG = "(source)"

    source: str = Field(min_length=1, description="The name of the source.")


AnyTool: TypeAlias = PythonTool | GraphTool | McpTool | SourceTool
_KINDS: Final[tuple[type[ToolReference], ...]] = (GraphTool, McpTool, SourceTool)


def _kind_of_tool(value: Any) -> str:
    if isinstance(value, ToolReference):
        return value.TAG
    if isinstance(value, Mapping):
        written = cast("Mapping[str, Any]", value)
        return next((kind.TAG for kind in _KINDS if kind.KEY in written), PythonTool.TAG)
    return PythonTool.TAG


ToolSpecs: TypeAlias = Annotated[
    Annotated[PythonTool, Tag(PythonTool.TAG)]
    | Annotated[GraphTool, Tag(GraphTool.TAG)]
    | Annotated[McpTool, Tag(McpTool.TAG)]
    | Annotated[SourceTool, Tag(SourceTool.TAG)],
    Discriminator(_kind_of_tool),
]
