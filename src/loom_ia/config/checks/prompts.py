"""System prompts can be read, and use only variables that exist."""

from collections.abc import Iterator
from typing import Final

from loom_ia.config.project import Project
from loom_ia.core.errors import Problem

_UNKNOWN: Final = (
    "unknown variable {variable} in the system prompt of {agent} (no variable exists for prompts "
    "in this version; write \\{{{{ for a literal {{{{)"
)


def check_prompts(project: Project) -> Iterator[Problem]:
    """Refuse an unreadable prompt, and one that asks for a variable nobody gives."""
    for (position, _), prompt in project.prompts.items():
        yield from prompt.problems
        for variable in prompt.template.variables if prompt.template else ():
            agent = project.agents[position].spec.name
            yield prompt.problem(variable.line, _UNKNOWN, variable=variable.name, agent=agent)
