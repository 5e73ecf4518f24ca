"""An agent that may pause has a journal that outlives the process."""

from collections.abc import Iterator
from typing import Final

from loom_ia.agents import PythonTool
from loom_ia.config.project import Project
from loom_ia.config.references import References, is_tool
from loom_ia.core.errors import ConfigError, Problem

_LOST: Final = (
    "{tool} may wait for a human, and the memory backend forgets the run when the process ends "
    "(use jsonl or sqlite under storage.events; only the dev profile accepts it)"
)


def check_durability(project: Project, *, resolved: bool) -> Iterator[Problem]:
    """Refuse a tool that may wait for a human, the journal being in memory.

    What the tools themselves declare is known once references are `resolved`.
    """
    for agent in project.agents:
        for position, tool in enumerate(agent.spec.tools):
            if tool.approval == "always":
                path = ("tools", position, "approval")
            elif resolved and _may_wait(project.references, tool):
                path = ("tools", position, "python")
            else:
                continue
            yield agent.source.problem(path, _LOST, tool=tool.python)


def _may_wait(references: References, tool: PythonTool) -> bool:
    try:
        value = references.find(tool.python)
    except ConfigError:
        return False
    if not is_tool(value):
        return False
    spec = value.spec.model_copy(update=tool.overrides)
    asks_after = spec.on_unknown == "pause" and not spec.may_run_again
    return spec.approval == "always" or asks_after
