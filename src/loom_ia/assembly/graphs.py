"""The graphs of an instance: those that are written, and those that were built in Python."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from loom_ia.config.checks.graphs import warned
from loom_ia.config.load import LoadedConfig
from loom_ia.config.root import ToolExecution
from loom_ia.core.errors import ConfigError, Problem
from loom_ia.core.ports.tools import Tool
from loom_ia.graph.children import ChildAgent, ChildGraph
from loom_ia.graph.definition import GraphDefinition
from loom_ia.graph.errors import InvalidGraph, StepNotFound
from loom_ia.graph.types import Step
from loom_ia.graph.written import definition_of

AnyGraph = GraphDefinition[Any]


class Graphs:
    """Builds each graph that is written once, when it is first asked for; finds the others.

    What they name was found sound when the configuration was checked.
    """

    def __init__(self, loaded: LoadedConfig) -> None:
        self._loaded = loaded
        self._built: dict[str, AnyGraph] = {}

    def all(self) -> Mapping[str, AnyGraph]:
        """Give every graph by its name: the written ones first, then those built in Python.

        Raises `ConfigError` for a name that two of them bear, or that is an agent's.
        """
        found = {spec.name: self.graph(spec.name) for spec in self._loaded.config.graphs}
        agents = {agent.name for agent in self._loaded.config.agents}
        problems: list[Problem] = []
        for built in map(_as_graph, (*self._loaded.references.graphs, *self._named())):
            if found.get(built.name) is built:
                continue
            if built.name in found:
                template = "two graphs are called {name} (name each once)"
            elif built.name in agents:
                template = "the name {name} is that of an agent (choose another)"
            else:
                found[built.name] = built
                problems += self._faults(built, agents)
                continue
            problems.append(self._problem(built.name, template, name=built.name))
        if problems:
            raise ConfigError(problems)
        return found

    def warnings(self) -> list[Problem]:
        """Tell what probably was not meant in the graphs that were built in Python."""
        written = {spec.name for spec in self._loaded.config.graphs}
        return [
            replace(warned(fault, graph), file=f"graph {graph.name}")
            for graph in self.all().values()
            if graph.name not in written
            for fault in graph.validate()
        ]

    def graph(self, name: str) -> AnyGraph:
        """Give a graph by the name that something refers to it by."""
        if name in self._built:
            return self._built[name]
        spec = next((spec for spec in self._loaded.config.graphs if spec.name == name), None)
        if spec is None:
            return _as_graph(self._loaded.references.find(name))
        built = self._built[name] = definition_of(spec, self)
        return built

    def python(self, name: str) -> Step:
        """Give the function of a step."""
        return cast("Step", self._loaded.references.find(name))

    def tool(self, name: str) -> Tool:
        """Give a tool, under what the configuration says of all tools."""
        from loom_ia.assembly.tools import with_defaults

        tool = cast("Tool", self._loaded.references.find(name))
        return with_defaults(tool, self._defaults)

    @property
    def _defaults(self) -> ToolExecution:
        return self._loaded.config.execution.tools

    def _named(self) -> list[object]:
        """Give what references name that no module of the imports holds."""
        config = self._loaded.config
        names = [tool.target for agent in config.agents for tool in agent.tools]
        graphs = [n for n in names if ":" in n]
        steps = (step for spec in config.graphs for step in spec.steps.values())
        graphs += [name for step in steps if ":" in (name := getattr(step, "graph", ""))]
        values = [self._loaded.references.find(name) for name in dict.fromkeys(graphs)]
        return [value for value in values if isinstance(value, GraphDefinition)]

    def _faults(self, graph: AnyGraph, agents: set[str]) -> list[Problem]:
        """Say what keeps a graph built in Python from running here."""
        try:
            graph.require_valid()
        except (InvalidGraph, StepNotFound) as error:
            return [self._problem(graph.name, "{problem}", problem=error)]
        template = "step {step} of the graph {graph} runs the agent {agent}, which is not declared"
        return [
            self._problem(graph.name, template, step=step, graph=graph.name, agent=agent)
            for step, agent in _agents(graph, set())
            if agent not in agents
        ]

    def _problem(self, name: str, template: str, /, **params: object) -> Problem:
        return Problem(f"graph {name}", None, "", template, params)


def _as_graph(value: object) -> AnyGraph:
    return cast("AnyGraph", value)


def _agents(graph: AnyGraph, seen: set[int]) -> list[tuple[str, str]]:
    """Give the agents that steps run, of the graph and of those below it."""
    if id(graph) in seen:
        return []
    seen.add(id(graph))
    found: list[tuple[str, str]] = []
    for step in graph.steps.values():
        if isinstance(step.child, ChildAgent):
            found.append((step.name, step.child.agent))
        elif isinstance(step.child, ChildGraph):
            found += _agents(step.child.graph, seen)
    return found
