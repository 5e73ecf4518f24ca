"""An agent names each of its tools once."""

from collections.abc import Iterator

from loom_ia.agents import SourcedTools
from loom_ia.config.project import Project
from loom_ia.core.errors import Problem


def check_tools(project: Project) -> Iterator[Problem]:
    """Refuse a tool that the same agent names twice."""
    for agent in project.agents:
        first: dict[tuple[str, str], int] = {}
        for position, tool in enumerate(agent.spec.tools):
            if isinstance(tool, SourcedTools):
                continue  # named again under another prefix, it is something else
            known = first.setdefault((tool.KEY, tool.target), position)
            if known != position:
                place = agent.source.place(("tools", known, tool.KEY))
                template = "the tool {name} is already named at {place}"
                path = ("tools", position, tool.KEY)
                yield agent.source.problem(path, template, name=tool.target, place=place)
