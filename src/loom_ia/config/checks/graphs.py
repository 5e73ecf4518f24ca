"""A graph that is written holds together: its texts can be read, its steps lead somewhere."""

import difflib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from loom_ia.config.document import KeyPath
from loom_ia.config.project import Project, WrittenGraph
from loom_ia.core.errors import Problem
from loom_ia.core.json import JsonObject
from loom_ia.core.model.content import ToolOutput
from loom_ia.core.model.tooling import ToolSpec
from loom_ia.core.ports.tools import Tool, ToolContext
from loom_ia.graph.definition import GraphDefinition
from loom_ia.graph.spec import END_WORD, AgentStep
from loom_ia.graph.types import Step
from loom_ia.graph.validation import Problem as Fault
from loom_ia.graph.written import add_written, faults, is_end, leads


def check_graphs(project: Project) -> Iterator[Problem]:
    """Refuse a text that cannot be read, a wrong option, and a step that leads nowhere."""
    names = {agent.spec.name for agent in project.agents}
    for graph in project.graphs:
        if graph.spec.name in names and "name" not in graph.broken:
            template = "the name {name} is that of an agent (choose another)"
            yield graph.source.problem(("name",), template, name=graph.spec.name)
        yield from _agents(graph, names)
        yield from _targets(graph)
        found = list(faults(graph.spec))
        for path, problem in found:
            yield _placed(graph, path, problem)
        if not found:
            yield from _shape(graph)


def _placed(graph: WrittenGraph, path: KeyPath, problem: Problem) -> Problem:
    """Give the fault of a text its place; `problem` has the line in the text, if it knows it."""
    source, line = graph.source, problem.line
    place = source.line(path) if line is None else source.text_line(path, line)
    return replace(problem, file=source.file, line=place, path=source.text(path))


def _agents(graph: WrittenGraph, names: set[str]) -> Iterator[Problem]:
    for name, step in graph.spec.steps.items():
        if isinstance(step, AgentStep) and step.agent not in names:
            template = "there is no agent {agent} (agents: {agents})"
            known = ", ".join(sorted(names)) or "none"
            path = ("steps", name, "agent")
            yield graph.source.problem(path, template, agent=step.agent, agents=known)


def _targets(graph: WrittenGraph) -> Iterator[Problem]:
    """Refuse a step that leads to one that is not there, whatever else is wrong with it."""
    steps = graph.spec.steps
    for name, step in steps.items():
        for path, target in leads(step):
            if target in steps or is_end(target):
                continue
            place = ("steps", name, *path)
            if near := difflib.get_close_matches(target, [*steps, END_WORD], n=1):
                template = "there is no step {name} (did you mean {suggestion}?)"
                yield graph.source.problem(place, template, name=target, suggestion=near[0])
            else:
                template = "there is no step {name} (steps: {known}, END)"
                yield graph.source.problem(place, template, name=target, known=", ".join(steps))


def _shape(graph: WrittenGraph) -> Iterator[Problem]:
    """Build the graph on steps that do nothing, and tell what is wrong with its shape."""
    spec = graph.spec
    shape = GraphDefinition[Any](spec.name, spec.entry)
    is_whole = True
    for name, step in spec.steps.items():
        try:
            add_written(shape, name, step, _NOTHING)
        except ValueError as error:
            is_whole = False
            yield graph.source.problem(("steps", name), "{problem}", problem=str(error))
    if is_whole:
        for fault in shape.validate():
            if fault.severity == "error" and fault.code != "unknown_target":
                yield _told(graph, fault)


def check_shapes(project: Project) -> Iterator[Problem]:
    """Tell of a step that no way leads to, and of one that no way leads to the end from."""
    for graph in project.graphs:
        shape = GraphDefinition[Any](graph.spec.name, graph.spec.entry)
        for name, step in graph.spec.steps.items():
            add_written(shape, name, step, _NOTHING)
        for fault in shape.validate():
            yield _placed(graph, ("steps", fault.step or ""), warned(fault, shape))


def warned(fault: Fault, graph: GraphDefinition[Any]) -> Problem:
    """Say a warning about the shape of a graph, without its place."""
    if fault.code == "unreachable":
        template = "no way leads from {entry} to the step {step}"
        return Problem("", None, "", template, {"entry": graph.entry, "step": fault.step})
    template = "END cannot be reached from the step {step}"
    return Problem("", None, "", template, {"step": fault.step})


def _told(graph: WrittenGraph, fault: Fault) -> Problem:
    known = ", ".join(graph.spec.steps) or "none"
    match fault.code:
        case "missing_entry" if fault.target is None:
            return graph.source.problem(("steps",), "a graph has at least one step")
        case "missing_entry":
            template = "there is no step {name} (steps: {known})"
            return graph.source.problem(("entry",), template, name=fault.target, known=known)
        case _:
            template = "branches meet here: say after how many it runs (add join: all)"
            return graph.source.problem(("steps", fault.step or ""), template)


def _do_nothing(state: Any) -> None:
    del state


class _NoTool:
    """Stands for a tool that was not looked up."""

    spec = ToolSpec(name="tool", description="", input_schema={"type": "object"})

    async def check(self, arguments: JsonObject) -> str | None:
        """Find nothing."""
        del arguments

    async def call(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        """Do nothing."""
        del arguments, context
        return ToolOutput()


class _Nothing:
    """Stands for what names stand for, while only the shape is looked at."""

    def python(self, name: str) -> Step:
        """Give a step that does nothing."""
        del name
        return _do_nothing

    def graph(self, name: str) -> GraphDefinition[Any]:
        """Give a graph without steps."""
        return GraphDefinition(name)

    def tool(self, name: str) -> Tool:
        """Give a tool that does nothing."""
        del name
        return _NoTool()


_NOTHING: Final = _Nothing()
