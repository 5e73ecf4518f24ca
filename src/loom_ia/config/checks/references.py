"""Every Python reference stands for a tool. This check imports the user's modules."""

from collections.abc import Iterator

from loom_ia.config.project import Project
from loom_ia.config.references import faults_of, is_tool
from loom_ia.core.errors import ConfigError, Problem


def check_references(project: Project) -> Iterator[Problem]:
    """Refuse a module that cannot be imported, and a reference to nothing or to no tool."""
    failures = project.references.load()
    for position, problems in failures.items():
        yield from project.source.situate(("imports", position), ConfigError(problems))
    for agent in project.agents:
        for position, tool in enumerate(agent.spec.tools):
            path = ("tools", position, "python")
            if failures and ":" not in tool.python and tool.python not in project.references.names:
                continue  # its module may be the one that could not be imported
            try:
                value = project.references.find(tool.python)
            except ConfigError as error:
                yield from agent.source.situate(path, error)
                continue
            if faults := faults_of(value):  # told already, unless its module is not imported
                told = [problem for group in failures.values() for problem in group]
                yield from (p for p in project.references.shown(faults) if p not in told)
            elif not is_tool(value):
                template = "{name} is of type {type}, not a tool (write @tool above the function)"
                kind = type(value).__name__
                yield agent.source.problem(path, template, name=tool.python, type=kind)
