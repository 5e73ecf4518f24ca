"""Where tools come from that are not known before they are asked for: servers, packages."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from loom_ia.core.ids import RunId, SessionId, TenantId
from loom_ia.core.model.mcp import ToolReview
from loom_ia.core.ports.tools import Tool
from loom_ia.core.prompts import Language


@dataclass(frozen=True, slots=True)
class SourceContext:
    """For whom tools are asked: a run that is about to be driven."""

    tenant_id: TenantId
    session_id: SessionId
    run_id: RunId
    language: Language = "en"


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool, and the name that its source gives it.

    `name` may be any text. The name in the spec of `tool` is a legal one, which whoever offers the
    tool to a model replaces.
    """

    name: str
    tool: Tool


class OpenTools(Protocol):
    """The tools of a source, for as long as a run is driven."""

    @property
    def tools(self) -> tuple[OfferedTool, ...]:
        """What may be called, in the order of the source."""
        ...

    @property
    def withheld(self) -> Mapping[str, str]:
        """What is not offered, by its own name, and why."""
        ...

    async def close(self) -> None:
        """Let go of what was opened for this run alone; closing twice does nothing.

        No call of these tools is under way any more, unless the instance itself gave up on it.
        """
        ...


class ToolSource(Protocol):
    """Gives tools to runs. One object serves every run of an instance, at once if need be.

    What one drive opens is closed by the same task that opened it; calls of the tools come from
    other tasks. Tools that are still the same objects as before cost nothing to offer again.
    """

    async def open(self, context: SourceContext) -> OpenTools:
        """Give the tools for a run; raises `SourceUnavailable` when it cannot be reached.

        Each drive of a run opens its sources once, and closes what it got. Opening is bounded in
        time by the source itself.
        """
        ...

    async def aclose(self) -> None:
        """Let go of everything; closing twice does nothing."""
        ...


@dataclass(frozen=True, slots=True)
class NamedTools:
    """The usual `OpenTools`: what is known, and nothing to close."""

    tools: tuple[OfferedTool, ...] = ()
    withheld: Mapping[str, str] = field(default_factory=dict[str, str])

    async def close(self) -> None:
        """Nothing was opened."""


class ReviewedSource(ToolSource, Protocol):
    """A source whose tools are accepted before they are offered."""

    async def review(self, tenant_id: TenantId) -> tuple[ToolReview, ...]:
        """Give each tool beside what was accepted of it; accepts nothing.

        Raises `SourceUnavailable`.
        """
        ...

    async def accept(self, tenant_id: TenantId, tools: Iterable[ToolReview]) -> None:
        """Accept tools exactly as they were reviewed; one that is gone is forgotten."""
        ...


@dataclass(frozen=True, slots=True)
class McpAccess:
    """What speaking to an MCP server needs besides its entry.

    `secret` gives the value of a variable, empty when it is not defined: those that the entry names
    are known to be there. `base_dir` is the folder of `loom.yaml`. `pins_file` keeps the digests of
    the tools that were seen first, None to keep them in memory.
    """

    secret: Callable[[str], str]
    base_dir: Path
    pins_file: Path | None = None
