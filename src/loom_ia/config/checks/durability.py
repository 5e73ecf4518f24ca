"""An agent that may pause has a journal that outlives the process."""

from collections.abc import Iterator
from typing import Final

from loom_ia.agents import SourcedTools
from loom_ia.config.project import Project, WrittenAgent
from loom_ia.config.tool_kinds import always_asked, graph_may_wait, may_wait
from loom_ia.core.errors import ConfigError, Problem
from loom_ia.core.model.policy import DecisionKind

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
            if isinstance(tool, SourcedTools):
                for name in always_asked(project.root, tool):
                    path = ("tools", position, tool.KEY)
                    yield agent.source.problem(path, _LOST, tool=name)
                continue
            if tool.approval == "always":
                path = ("tools", position, "approval")
            elif may_wait(project, tool, resolved=resolved):
                path = ("tools", position, tool.KEY)
            else:
                continue
            yield agent.source.problem(path, _LOST, tool=tool.target)
        for position in _pausing(project, agent) if resolved else ():
            hook = agent.spec.policies[position].hook
            yield agent.source.problem(("policies", position, "hook"), _LOST, tool=hook)
    for graph in project.graphs:
        if graph_may_wait(project, graph.spec):
            yield graph.source.problem(("name",), _LOST, tool=graph.spec.name)


def _pausing(project: Project, agent: WrittenAgent) -> Iterator[int]:
    """Give the places of the policies that may have a call wait for a human."""
    for position, reference in enumerate(agent.spec.policies):
        try:
            found = project.references.policy(reference.hook)
        except ConfigError:
            continue  # told by the check of policies
        if DecisionKind.PAUSE in getattr(found, "decisions", ()):
            yield position
