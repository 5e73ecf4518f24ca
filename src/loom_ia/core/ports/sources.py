"""Where tools come from that are not known before they are asked for: servers, packages."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from loom_ia.core.ids import RunId, SessionId, TenantId
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
        """Let go of what was opened for this run alone; closing twice does nothing."""
        ...


class ToolSource(Protocol):
    """Gives tools to runs. One object serves every run of an instance, at once if need be."""

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
