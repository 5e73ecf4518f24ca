"""The roles of an agent: named once, told something, and written with what they are told."""

from collections.abc import Iterator
from typing import Final, cast

from loom_ia.agents import RoleSpec
from loom_ia.config.document import KeyPath
from loom_ia.config.places import Source
from loom_ia.config.project import Project, WrittenAgent
from loom_ia.config.tool_kinds import may_come_from_source, names_of_tools
from loom_ia.core.errors import ConfigError, Problem
from loom_ia.core.json import JsonObject
from loom_ia.core.model.context import ContextItem, ToolResults, names_of
from loom_ia.core.template import Template, Variable

RESERVED: Final = frozenset({"main"})
_UNKNOWN: Final = "unknown variable {variable} (available: {known})"


def check_roles(project: Project) -> Iterator[Problem]:
    """Refuse a name used twice, a role that is told nothing, and a template that cannot be."""
    seeing = {model.id for model in project.root.models if model.capabilities.vision}
    known = {model.id for model in project.root.models}
    for agent in project.agents:
        yield from _names(agent)
        for position, role in enumerate(agent.spec.roles):
            source = agent.source.inside("roles", position)
            yield from _of_schema(source, role)
            yield from _of_context(source, role)
            yield from _of_template(source, role)
            for path, model in _chain(role):
                if "attachments" in role.context and model in known - seeing:
                    template = (
                        "{role} is given attachments, and {model} sees no image (add "
                        "capabilities: {{vision: true}} to the model, or choose another)"
                    )
                    yield source.problem(path, template, role=role.name, model=model)


def check_tool_results(project: Project) -> Iterator[Problem]:
    """Refuse the results of what is no tool of the agent. Needs the tools to be imported."""
    for agent in project.agents:
        names = names_of_tools(project, agent)
        if names is None:
            continue  # one of them is not known, which is told already
        for place, context, own in _contexts(agent):
            others = [name for name in names if name != own]
            for index, item in enumerate(context):
                if not isinstance(item, ToolResults):
                    continue
                for rank, tool in enumerate(item.tool_results):
                    if tool not in others and not may_come_from_source(agent.spec, tool):
                        path = (*place, "context", index, "tool_results", rank)
                        template = "{agent} has no tool {tool} (tools: {known})"
                        known = ", ".join(others) or "none"
                        params = {"agent": agent.spec.name, "tool": tool, "known": known}
                        yield agent.source.problem(path, template, **params)


def _contexts(agent: WrittenAgent) -> Iterator[tuple[KeyPath, tuple[ContextItem, ...], str]]:
    """Give what each role and each judge is given, where, and the role that it is about."""
    for position, role in enumerate(agent.spec.roles):
        yield ("roles", position), role.context, role.name
    for place, judge, speaker in agent.judges:
        yield place, judge.context, getattr(speaker, "name", "")


def _names(agent: WrittenAgent) -> Iterator[Problem]:
    """Refuse a name that is used twice among roles and agents below, and those that are ours."""
    first: dict[str, KeyPath] = {}
    written: list[tuple[KeyPath, str]] = [
        (("roles", position, "name"), role.name) for position, role in enumerate(agent.spec.roles)
    ]
    written += [
        (("subagents", position, "name" if below.name else "agent"), below.called)
        for position, below in enumerate(agent.spec.subagents)
    ]
    for path, name in written:
        known = first.setdefault(name, path)
        if known != path:
            template = "{name} is already defined at {place}"
            yield agent.source.problem(path, template, name=name, place=agent.source.place(known))
        elif name in RESERVED and path[0] == "roles":
            template = "the name {name} is reserved (choose another)"
            yield agent.source.problem(path, template, name=name)


def _chain(role: RoleSpec) -> Iterator[tuple[KeyPath, str]]:
    yield ("model",), role.model
    yield from ((("fallbacks", rank), model) for rank, model in enumerate(role.fallbacks))


def _of_schema(source: Source, role: RoleSpec) -> Iterator[Problem]:
    if not role.input_schema:
        return
    from jsonschema import Draft202012Validator, SchemaError

    try:
        Draft202012Validator.check_schema(role.input_schema)
    except SchemaError as error:
        where = error.json_path.removeprefix("$").removeprefix(".") or "$"
        template = "this is not a JSON Schema: {where}: {problem}"
        params = {"where": where, "problem": error.message}
        yield source.problem(("input_schema",), template, **params)
        return
    if role.input_schema.get("type", "object") != "object":
        template = "the schema of arguments must be of type object"
        yield source.problem(("input_schema",), template)


def _of_context(source: Source, role: RoleSpec) -> Iterator[Problem]:
    seen: dict[str, None] = {}
    for position, item in enumerate(role.context):
        for name in names_of(item):
            if name in seen:
                template = "{name} is already given to the role {role} (name each once)"
                path = ("context", position)
                yield source.problem(path, template, name=name, role=role.name)
            seen[name] = None
    if not role.context and not _arguments(role):
        template = (
            "the role {role} would read nothing (add properties to input_schema, or a context)"
        )
        yield source.problem((), template, role=role.name)


def _of_template(source: Source, role: RoleSpec) -> Iterator[Problem]:
    if role.input_template is None:
        return
    path: KeyPath = ("input_template",)
    try:
        template = Template.parse(role.input_template)
    except ConfigError as error:
        for problem in error.problems:
            line = source.text_line(path, problem.line or 1)
            yield Problem(source.file, line, source.text(path), problem.template, problem.params)
        return
    given = [name for item in role.context for name in names_of(item)]
    known = [*(f"args.{name}" for name in _arguments(role)), *(f"context.{n}" for n in given)]
    for variable in template.variables:
        if not any(_is_of(variable, name) for name in known):
            line = source.text_line(path, variable.line)
            shown = ", ".join(known) or "none"
            params: dict[str, object] = {"variable": variable.name, "known": shown}
            yield Problem(source.file, line, source.text(path), _UNKNOWN, params)
    for name in given:
        used = any(_is_of(variable, f"context.{name}") for variable in template.variables)
        if name != "attachments" and not used:
            unused = "the role receives {name}, and its template does not use it (write {shown})"
            shown = f"{{{{ context.{name} }}}}"
            yield source.problem(path, unused, name=name, shown=shown)


def _is_of(variable: Variable, name: str) -> bool:
    """Whether a variable is what a name stands for, or a part of it."""
    return variable.name == name or variable.name.startswith(f"{name}.")


def _arguments(role: RoleSpec) -> tuple[str, ...]:
    properties = role.input_schema.get("properties")
    return tuple(cast("JsonObject", properties)) if isinstance(properties, dict) else ()
