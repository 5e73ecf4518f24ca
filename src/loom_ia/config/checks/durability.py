"""An agent that may pause has a journal that outlives the process."""

from collections.abc import Iterator
from typing import Final

from loom_ia.agents import PythonTool
from loom_ia.config.project import Project
from loom_ia.config.references import References, is_tool
from loom_ia.core.errors import ConfigError, Problem

_LOST: Final = (
    "{tool} waits for an approval, and the memory backend forgets the run when the process ends "
    "(use jsonl or sqlite under storage.events, or the dev profile)"
)


def check_durability(project: Project, *, resolved: bool) -> Iterator[Problem]:
    """Refuse a tool under approval on a journal in memory; the dev profile only warns.

    What the tools themselves declare is known once references are `resolved`.
    """
    if "storage" in project.broken or project.root.storage.events.backend != "memory":
        return
    for agent in project.agents:
        for position, tool in enumerate(agent.spec.tools):
            if tool.approval == "always":
                path = ("tools", position, "approval")
            elif tool.approval is None and resolved and _asks(project.references, tool):
                path = ("tools", position, "python")
            else:
                continue
            yield agent.source.problem(path, _LOST, tool=tool.python)


def _asks(references: References, tool: PythonTool) -> bool:
    try:
        value = references.find(tool.python)
    except ConfigError:
        return False
    return is_tool(value) and value.spec.approval == "always"
