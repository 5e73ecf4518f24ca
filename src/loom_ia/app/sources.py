"""What the sources of tools of agents give, for who looks at a configuration."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from loom_ia.app.instance import DEFAULT_TENANT
from loom_ia.core.model.tooling import ToolSpec
from loom_ia.core.ports.sources import SourceContext
from loom_ia.engine.perform.context import Strays
from loom_ia.engine.program import Program
from loom_ia.engine.sources import equipped


@dataclass(frozen=True, slots=True)
class SourceListing:
    """What one agent is offered by one source.

    `tools` has the source's own name and the spec of each tool, in order. `error` is why the source
    cannot be reached, empty when it can; `withheld` has reasons by own name.
    """

    agent: str
    source: str
    required: bool
    tools: tuple[tuple[str, ToolSpec], ...] = ()
    withheld: Mapping[str, str] = field(default_factory=dict[str, str])
    error: str = ""


async def listings(
    programs: Mapping[str, Program], wanted: Callable[[str], bool]
) -> tuple[SourceListing, ...]:
    """Open the sources that are `wanted`, by name, for each agent, and list their tools."""
    found: list[SourceListing] = []
    for agent, program in programs.items():
        sources = tuple(binding for binding in program.sources if wanted(binding.name))
        if not sources:
            continue
        context = SourceContext(DEFAULT_TENANT, "validate", "validate", program.plan.language)
        asked = replace(program, sources=sources)
        async with equipped(asked, context, Strays()) as equipment:
            for binding in sources:
                fitted = equipment.fitted.get(binding.name)
                found.append(
                    SourceListing(
                        agent,
                        binding.name,
                        binding.required,
                        tools=tuple(
                            (fitted.own.get(name, name), tool.spec)
                            for name, tool in fitted.tools.items()
                        )
                        if fitted
                        else (),
                        withheld=fitted.withheld if fitted else {},
                        error=equipment.lost.get(binding.name, ""),
                    )
                )
    return tuple(found)
