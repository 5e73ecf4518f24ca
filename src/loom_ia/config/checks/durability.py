"""An agent that may pause has a journal that outlives the process."""

from collections.abc import Iterator
from typing import Final

from loom_ia.config.project import Project
from loom_ia.config.tool_kinds import graph_may_wait, may_wait
from loom_ia.core.errors import Problem

_LOST: Final = (
    "{tool} may wait for a human, and the memory backend forgets the run when the process ends "
    "(use jsonl or sqlite under storage.events; only the dev profile accepts it)"
)


def check_durability(project: Project, *, resolved: bool) -> Iterator[Problem]:
    """Refuse a tool or a graph that may wait for a human, the journal being in memory.

    What the tools themselves declare is known once references are `resolved`.
    """
    for agent in project.agents:
        for position, tool in enumerate(agent.spec.tools):
            if tool.approval == "always":
                path = ("tools", position, "approval")
            elif may_wait(project, tool, resolved=resolved):
                path = ("tools", position, tool.KEY)
            else:
                continue
            yield agent.source.problem(path, _LOST, tool=tool.target)
    for graph in project.graphs:
        if graph_may_wait(project, graph.spec):
            yield graph.source.problem(("name",), _LOST, tool=graph.spec.name)
