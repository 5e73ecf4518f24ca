"""Where tools come from besides Python: MCP servers, and packages that provide some.

Law. As in `config/root.py`. An agent names a server (`mcp: NAME`) or a source (`source: NAME`) and
sees its tools under `NAME__tool`.
"""

from collections.abc import Mapping
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field

from loom_ia.agents.checks import Contract
from loom_ia.config.section import Section
from loom_ia.config.server import VariableName
from loom_ia.core.json import JsonObject
from loom_ia.core.model.models import CircuitBreaker
from loom_ia.core.model.tooling import ApprovalMode, SideEffects

SourceName: TypeAlias = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9-]+(_[A-Za-z0-9-]+)*$", max_length=40)
]
ServerScope: TypeAlias = Literal["shared", "tenant", "run"]

_KEPT: Final = "Replaces what the tool declares."


class ToolOverrides(Section):
    """What is said of a tool instead of what it declares itself; None keeps that."""

    description: str | None = Field(default=None, min_length=1, description=_KEPT)
    side_effects: SideEffects | None = Field(default=None, description=_KEPT)
    approval: ApprovalMode | None = Field(default=None, description=_KEPT)
    idempotent: bool | None = Field(default=None, description=_KEPT)
    timeout: float | None = Field(default=None, gt=0, description=_KEPT)
    offload_over: int | None = Field(default=None, gt=0, description=_KEPT)
    output: Contract | None = Field(
        default=None, description="What it must give; else the model reads why it was refused."
    )


class McpServerSpec(Section):
    """A server of tools that speaks MCP: a program (`stdio`) or an address (`http`)."""

    name: SourceName = Field(description="Its name, and the prefix of its tools; each once.")
    transport: Literal["stdio", "http"] = Field(description="How it is reached.")
    command: str | None = Field(default=None, min_length=1, description="The program (`stdio`).")
    args: tuple[str, ...] = Field(default=(), strict=False, description="Its arguments (`stdio`).")
    env: Mapping[str, str] = Field(
        default_factory=dict[str, str],
        description="Variables that it is given (`stdio`); it sees no other but the harmless ones.",
    )
    env_from: Mapping[str, VariableName] = Field(
        default_factory=dict[str, str],
        description="Variables that it is given, each from one of ours (`stdio`).",
    )
    cwd: str | None = Field(
        default=None,
        min_length=1,
        description="The folder that it runs in (`stdio`); that of `loom.yaml` without it.",
    )
    url: str | None = Field(
        default=None, pattern=r"^https?://", description="Its address (`http`)."
    )
    headers_env: Mapping[str, VariableName] = Field(
        default_factory=dict[str, str],
        description="Headers that it is sent, each from the variable that is named (`http`).",
    )
    scope: ServerScope = Field(
        default="shared",
        description=(
            "One connection for the process (`shared`), for each `tenant`, or for each `run`."
        ),
    )
    connect_timeout: float = Field(
        default=10.0, gt=0, description="Seconds that connecting may take."
    )
    idle_timeout: float | None = Field(
        default=300.0,
        gt=0,
        description="Seconds without a call after which a connection is closed; `null` for never.",
    )
    tools: Mapping[str, ToolOverrides] = Field(
        default_factory=dict[str, ToolOverrides],
        description="What holds for each of its tools, by the name that it gives them.",
    )
    pins: Mapping[str, str] = Field(
        default_factory=dict[str, str],
        description=(
            "The digest of each tool that is trusted, by its name: one that differs is not "
            "offered. Without it, what is seen first is kept, and a change waits for "
            "`loom mcp accept`."
        ),
    )
    circuit_breaker: CircuitBreaker | None = Field(
        default=CircuitBreaker(),
        description="When a server that fails is left alone for a while; `null` for never.",
    )


class ToolSourceSpec(Section):
    """Tools of an installed package, found by an entry point of the group `loom_ia.tools`."""

    name: SourceName = Field(description="Its name, and the prefix of its tools; each once.")
    entry_point: str = Field(min_length=1, description="The name of the entry point.")
    params: JsonObject = Field(
        default_factory=dict, description="What is given to the package, as it is."
    )
    tools: Mapping[str, ToolOverrides] = Field(
        default_factory=dict[str, ToolOverrides],
        description="What holds for each of its tools, by the name that it gives them.",
    )
