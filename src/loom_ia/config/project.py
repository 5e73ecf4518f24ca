"""A configuration while it is checked: what was written, where, and which parts are sound."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from loom_ia.agents import AgentSpec, JudgeSpec, Speaker
from loom_ia.config.document import KeyPath
from loom_ia.config.places import Source
from loom_ia.config.references import References
from loom_ia.config.root import LoomConfig
from loom_ia.core.errors import Problem
from loom_ia.core.json import JsonObject
from loom_ia.core.template import Template
from loom_ia.graph.spec import GraphSpec

Spoken: TypeAlias = tuple[int, str]
"""The position of an agent and the name of one of its roles, empty for the orchestrator."""


@dataclass(frozen=True, slots=True)
class WrittenAgent:
    """An agent and where it was written; the parts in `broken` have their default instead."""

    spec: AgentSpec
    source: Source
    broken: frozenset[str] = frozenset()

    @property
    def chains(self) -> "Iterator[WrittenChain]":
        """Those of the agent who speak and are sound: the orchestrator, then each role."""
        if "main" not in self.broken:
            yield WrittenChain("", self.spec.main, ("main",))
        for position, role in enumerate(self.spec.roles):
            yield WrittenChain(role.name, role, ("roles", position))

    @property
    def judges(self) -> "Iterator[tuple[KeyPath, JudgeSpec, Speaker]]":
        """The judges of the agent that are sound, each with who wrote what it judges."""
        for path, judge, speaker in self.spec.judges:
            if path[0] not in self.broken:
                yield path, judge, speaker

    @property
    def judging(self) -> Iterator[tuple[KeyPath, str]]:
        """Each model of a judge, and where it is named."""
        for path, judge, _ in self.judges:
            yield from judge_models(path, judge)


def judge_models(path: KeyPath, judge: JudgeSpec) -> Iterator[tuple[KeyPath, str]]:
    """Give each model of a judge that stands at `path`, and where it is named."""
    yield (*path, "model"), judge.model
    for position, model in enumerate(judge.fallbacks):
        yield (*path, "fallbacks", position), model


@dataclass(frozen=True, slots=True)
class WrittenChain:
    """Somebody of an agent who speaks, and where that is written; `role` is empty for `main`."""

    role: str
    speaker: Speaker
    path: KeyPath

    @property
    def models(self) -> Iterator[tuple[KeyPath, str]]:
        """Each model of the chain, the one that leads first, and where it is named."""
        yield (*self.path, "model"), self.speaker.model
        for position, model in enumerate(self.speaker.fallbacks):
            yield (*self.path, "fallbacks", position), model


@dataclass(frozen=True, slots=True)
class WrittenGraph:
    """A graph and where it was written; the parts in `broken` have their default instead."""

    spec: GraphSpec
    source: Source
    broken: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Prompt:
    """The system prompt of an agent, or of one of its roles.

    `template` is None when it has faults, told by `problems`.

    `file` is the prompt's own file as it is shown, empty when the text stands at `path` of
    `source`.
    """

    source: Source
    path: KeyPath
    file: str = ""
    template: Template | None = None
    problems: tuple[Problem, ...] = ()

    def problem(self, line: int, template: str, /, **params: object) -> Problem:
        """Say that something is wrong at that line of the text."""
        if self.file:
            return Problem(self.file, line, "", template, params)
        place = self.source.text_line(self.path, line)
        return Problem(self.source.file, place, self.source.text(self.path), template, params)


@dataclass(frozen=True, slots=True)
class AnswerSchema:
    """The schema of a contract; None when it has faults, told by `problems`."""

    schema: JsonObject | None = None
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Project:
    """All that a check may look at.

    The sections named in `broken` were refused already: they hold their defaults here, and a
    check says nothing about them. `model_ids` are those that were written, sound or not.
    """

    root: LoomConfig
    source: Source
    base_dir: Path
    agents: tuple[WrittenAgent, ...]
    model_ids: tuple[str, ...]
    references: References
    graphs: tuple[WrittenGraph, ...] = ()
    broken: frozenset[str] = frozenset()
    prompts: Mapping[Spoken, Prompt] = field(default_factory=dict[Spoken, Prompt])
    schemas: Mapping[tuple[int, KeyPath], AnswerSchema] = field(
        default_factory=dict[tuple[int, KeyPath], AnswerSchema]
    )

    def graph(self, name: str) -> WrittenGraph | None:
        """Find a graph that is written, by its name."""
        return next((graph for graph in self.graphs if graph.spec.name == name), None)
