"""A server of tools as the configuration describes it, apart from what is said of its tools."""

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

from pydantic import ConfigDict, Field

from loom_ia.core.json import JsonObject
from loom_ia.core.model.base import Value
from loom_ia.core.model.models import CircuitBreaker

SourceName: TypeAlias = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9-]+(_[A-Za-z0-9-]+)*$", max_length=40)
]
VariableName: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
ServerScope: TypeAlias = Literal["shared", "tenant", "run"]


ReviewState: TypeAlias = Literal["accepted", "changed", "new", "refused", "gone", "unusable"]


class ToolReview(Value):
    """A tool of a server beside what was accepted of it.

    `refused` is one that the configuration does not pin, or pins otherwise; `gone` one that was
    accepted and is not there; `unusable` one that no model can be offered, for that `reason`.
    `digest` and `document` are what the server says now, `accepted_digest` and `accepted` what was
    accepted of it: empty where there is none.
    """

    name: str
    state: ReviewState
    reason: str = ""
    digest: str = ""
    document: JsonObject = Field(default_factory=dict)
    accepted_digest: str = ""
    accepted: JsonObject = Field(default_factory=dict)


class McpServer(Value):
    """A server of tools that speaks MCP: a program (`stdio`) or an address (`http`).

    `idle_timeout` None keeps a connection for ever; `circuit_breaker` None never leaves it alone.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

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
