"""Where tools come from besides Python: MCP servers, and packages that provide some.

Law. As in `config/root.py`. An agent names a server (`mcp: NAME`) or a source (`source: NAME`) and
sees its tools under `NAME__tool`.
"""

from collections.abc import Mapping

from pydantic import Field

from loom_ia.agents.overrides import ToolOverrides
from loom_ia.config.section import Section
from loom_ia.core.json import JsonObject
from loom_ia.core.model.mcp import McpServer, SourceName


class McpServerSpec(McpServer):
    """A server of tools that speaks MCP: a program (`stdio`) or an address (`http`)."""

    tools: Mapping[str, ToolOverrides] = Field(
        default_factory=dict[str, ToolOverrides],
        description="What holds for each of its tools, by the name that it gives them.",
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
