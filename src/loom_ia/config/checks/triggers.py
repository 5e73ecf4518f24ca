"""Triggers have a name each, an agent that exists, and templates over what they are given."""

from collections.abc import Iterator
from typing import Final

from loom_ia.config.checks.names import unique
from loom_ia.config.document import KeyPath
from loom_ia.config.places import Source
from loom_ia.config.project import Project
from loom_ia.core.errors import ConfigError, Problem
from loom_ia.core.model.triggers import TRIGGER_NAMES
from loom_ia.core.template import Template

_UNKNOWN: Final = (
    "unknown variable {variable} (a trigger knows {names}; write \\{{{{ for a literal {{{{)"
)
_TEXT: Final = "{name} is a text, and {variable} asks for a part of it (write {{{{ {name} }}}})"


def check_triggers(project: Project) -> Iterator[Problem]:
    """Refuse a name used twice, an agent that is not declared, and a template nobody can fill."""
    if "triggers" in project.broken:
        return
    source = project.source.inside("triggers")
    triggers = project.root.triggers
    yield from unique((source.inside(i), each.name, "name") for i, each in enumerate(triggers))
    agents = {agent.spec.name for agent in project.agents}
    for position, trigger in enumerate(triggers):
        here = source.inside(position)
        if trigger.agent not in agents:
            template = "there is no agent {agent} (agents: {agents})"
            known = ", ".join(sorted(agents)) or "none"
            yield here.problem(("agent",), template, agent=trigger.agent, agents=known)
        yield from _of_template(here, ("message",), trigger.message)
        if trigger.session is not None:
            yield from _of_template(here, ("session",), trigger.session)


def _of_template(source: Source, path: KeyPath, written: str) -> Iterator[Problem]:
    try:
        parsed = Template.parse(written)
    except ConfigError as error:
        for fault in error.problems:
            place = source.text_line(path, fault.line or 1)
            yield Problem(source.file, place, source.text(path), fault.template, fault.params)
        return
    for variable in parsed.variables:
        root, *below = variable.path
        params: dict[str, object] = {"variable": variable.name}
        file, line, text = source.file, source.text_line(path, variable.line), source.text(path)
        if root not in TRIGGER_NAMES:
            params["names"] = ", ".join(TRIGGER_NAMES)
            yield Problem(file, line, text, _UNKNOWN, params)
        elif below and root != "payload":
            yield Problem(file, line, text, _TEXT, {**params, "name": root})
