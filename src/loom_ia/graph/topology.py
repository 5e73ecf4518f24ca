"""A graph as something to look at: its edges as values, and drawn.

All is derived from the routers, so that a drawing cannot say anything else than what is run. Any
text may be the name of a step; the drawing stays valid, and the same graph is always drawn alike.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from loom_ia.graph.routers import Ends, Route
from loom_ia.graph.step_definition import Shape, StepDefinition
from loom_ia.graph.types import END

_DEEPEST: Final = 8
_PLAIN: Final = frozenset(" _-.,:/+=!?'()")
_STYLES: Final = {
    "visited": "stroke-width:3px",
    "paused": "fill:#ffe9a8,stroke:#b07d00,stroke-width:3px",
    "failed": "fill:#f8c8c4,stroke:#b3261e,stroke-width:3px",
}


@dataclass(frozen=True, slots=True)
class Edge:
    """One way out of a step: to the step `to`, or `END`. `label` is the route's key, or empty."""

    to: Ends
    label: str


@dataclass(frozen=True, slots=True)
class StepInfo:
    """One step and its ways out; `dynamic` tells that its router may answer what is not known."""

    name: str
    detail: str
    edges: tuple[Edge, ...]
    dynamic: bool


@dataclass(frozen=True, slots=True)
class Topology:
    """The steps of a graph in the order of declaration, and where it begins."""

    entry: str | None
    steps: tuple[StepInfo, ...]


@dataclass(frozen=True, slots=True)
class StepVisit:
    """What a run did in one step: how often, for how many seconds in all, whether it failed."""

    count: int
    seconds: float = 0.0
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Visits:
    """What a run did, to draw over its graph: steps, edges with their counts, where it waits."""

    steps: Mapping[str, StepVisit] = field(default_factory=dict[str, StepVisit])
    edges: Mapping[tuple[str, Ends], int] = field(default_factory=dict[tuple[str, Ends], int])
    paused: frozenset[str] = frozenset()


def topology_of(shape: Shape) -> Topology:
    """Derive the edges of a graph from its routers."""
    return Topology(shape.entry, tuple(_info(step) for step in shape.steps.values()))


def mermaid(definition: Shape, visits: Visits | None = None) -> str:
    """Draw a graph as a Mermaid flowchart; with `visits`, a run over it.

    Branches of a split are labelled, steps that join are hexagons, and a step that runs a graph is
    a box around it. A dotted edge is a fallback, or leads to "?" from a router that tells nothing.
    Edges that the run took are thick, with their counts.
    """
    level = _Level.of(definition, "s", visits or Visits(), ())
    return "\n".join(["flowchart TD", *level.lines(), *level.styles()])


def text_drawing(definition: Shape) -> str:
    """Draw a graph for a terminal: one line for each step, `*` before the entry."""
    lines = [_one_line(definition.name)]
    width = max((len(_one_line(name)) for name in definition.steps), default=0)
    for name, step in definition.steps.items():
        mark = "*" if name == definition.entry else " "
        lines.append(f"{mark} {_one_line(name):<{width}}  {_ways_out(step)}")
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class _Level:
    """One graph of a drawing, the whole or one inside a step; `above` has those around it."""

    shape: Shape
    prefix: str
    visits: Visits
    above: tuple[int, ...]
    ids: Mapping[Ends, str]
    missing: tuple[str, ...]

    @classmethod
    def of(cls, shape: Shape, prefix: str, visits: Visits, above: tuple[int, ...]) -> "_Level":
        """Name the nodes, by nothing of the steps' names: those may be any text."""
        missing = _missing(shape, visits)
        ids: dict[Ends, str] = {END: f"{prefix}_stop"}
        ids.update((name, f"{prefix}_{i}") for i, name in enumerate(shape.steps))
        ids.update((name, f"{prefix}_m{i}") for i, name in enumerate(missing))
        return cls(shape, prefix, visits, (*above, id(shape)), ids, missing)

    def lines(self) -> list[str]:
        """Give the nodes, then the edges, indented."""
        return ["    " + line for line in (*self._nodes(), *self._edges())]

    def styles(self) -> Iterator[str]:
        """Give how what the run did is highlighted; nothing without a run."""
        steps, paused = self.visits.steps, self.visits.paused
        groups = {
            "visited": [name for name in self.shape.steps if name in steps],
            "paused": [name for name in self.shape.steps if name in paused],
            "failed": [n for n in self.shape.steps if n in steps and steps[n].failed],
        }
        for style, names in groups.items():
            if names:
                yield f"    classDef {style} {_STYLES[style]}"
                yield f"    class {','.join(self.ids[name] for name in names)} {style}"

    def _nodes(self) -> Iterator[str]:
        if self.shape.entry in self.shape.steps:
            yield f'{self.prefix}_go(("start"))'
        for name, step in self.shape.steps.items():
            yield from self._node(name, step)
        for name in self.missing:
            yield f'{self.ids[name]}["{_quoted(f"{name} (no such step)")}"]'
        if any(step.targets is None for step in self.shape.steps.values()):
            yield f'{self.prefix}_any(["?"])'
        if self._ends():
            yield f'{self.prefix}_stop(["END"])'

    def _node(self, name: str, step: StepDefinition) -> Iterator[str]:
        node, text = self.ids[name], _quoted("\n".join(self._told(name, step)))
        child = _child_of(step)
        if child is None:
            yield f'{node}{{{{"{text}"}}}}' if step.join is not None else f'{node}["{text}"]'
        elif not child.steps or id(child) in self.above or len(self.above) >= _DEEPEST:
            yield f'{node}[["{text}"]]'
        else:
            yield f'subgraph {node}["{text}"]'
            yield from _Level.of(child, node, Visits(), self.above).lines()
            yield "end"

    def _told(self, name: str, step: StepDefinition) -> Iterator[str]:
        """Give what stands in the node of a step, line by line."""
        yield name
        if step.detail:
            yield step.detail
        if step.join is not None:
            yield f"join {step.join}"
        visit = self.visits.steps.get(name)
        if visit is not None:
            yield f"×{visit.count} · {_duration(visit.seconds)}"
            if visit.failed:
                yield "failed"
        if name in self.visits.paused:
            yield "paused"

    def _edges(self) -> Iterator[str]:
        entry = self.shape.entry
        if entry is not None and entry in self.shape.steps:
            yield f"{self.prefix}_go --> {self.ids[entry]}"
        for name, step in self.shape.steps.items():
            drawn: dict[tuple[Ends, str], None] = {}
            for route in step.targets.routes if step.targets is not None else ():
                ends: tuple[Ends, ...] = route.names or (END,)
                drawn.update(((to, _road(route)), None) for to in ends)
            for to, text in drawn:
                yield self._edge(name, to, text)
            yield from self._unforeseen(name, {to for to, _ in drawn})
            if step.targets is None:
                yield f"{self.ids[name]} -.-> {self.prefix}_any"
            if step.fallback is not None:
                yield f'{self.ids[name]} -.->|"fallback"| {self.ids[step.fallback]}'

    def _edge(self, name: str, to: Ends, text: str) -> str:
        taken = self.visits.edges.get((name, to), 0)
        text = " ".join(part for part in (text, f"×{taken}" if taken else "") if part)
        label = f'|"{_quoted(text)}"|' if text else ""
        return f"{self.ids[name]} {'==>' if taken else '-->'}{label} {self.ids[to]}"

    def _unforeseen(self, name: str, drawn: set[Ends]) -> Iterator[str]:
        """Give the edges that the run took and that no router told."""
        for (source, to), taken in self.visits.edges.items():
            if source == name and taken and to not in drawn:
                yield self._edge(name, to, "")

    def _ends(self) -> bool:
        steps = self.shape.steps
        if any(step.targets is not None and step.targets.may_end for step in steps.values()):
            return True
        return any(
            n in steps and to is END for (n, to), taken in self.visits.edges.items() if taken
        )


def _missing(shape: Shape, visits: Visits) -> tuple[str, ...]:
    """Give the steps that are led to and that are not there."""
    named: dict[Ends, None] = {}
    for step in shape.steps.values():
        named.update((name, None) for name in (step.targets.names if step.targets else ()))
        if step.fallback is not None:
            named[step.fallback] = None
    named.update((to, None) for source, to in visits.edges if source in shape.steps)
    return tuple(name for name in named if isinstance(name, str) and name not in shape.steps)


def _info(step: StepDefinition) -> StepInfo:
    pairs = step.targets.edges() if step.targets is not None else ()
    edges = tuple(Edge(to, label) for to, label in pairs)
    return StepInfo(step.name, step.detail, edges, step.targets is None)


def _child_of(step: StepDefinition) -> Shape | None:
    """Give the graph that a step runs, if it runs one."""
    graph = getattr(step.child, "graph", None)
    return graph if isinstance(graph, Shape) else None


def _road(route: Route) -> str:
    """Say by what an edge is taken."""
    if route.over:
        return f"each of {route.over}"
    if len(route.to) > 1:
        return f"{route.label} (parallel)" if route.label else "parallel"
    return route.label


def _duration(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s"


def _quoted(text: str) -> str:
    """Write any text inside the quotes of Mermaid: what could mean something becomes a code."""
    lines = ("".join(map(_character, line)) for line in text.splitlines())
    return "<br/>".join(lines) or " "


def _character(char: str) -> str:
    if char in _PLAIN or (char.isalnum() and char.isascii()):
        return char
    if char.isprintable() and not char.isascii():
        return char
    return f"#{ord(char)};" if char >= " " and not "\ud800" <= char <= "\udfff" else "�"


def _one_line(text: str) -> str:
    return "".join(char if char.isprintable() else "�" for char in text)


def _ways_out(step: StepDefinition) -> str:
    ways = [f"join {step.join}"] if step.join is not None else []
    for route in step.targets.routes if step.targets is not None else ():
        to = " + ".join(map(_one_line, route.names)) or "END"
        road = _one_line(f"each of {route.over}" if route.over else route.label)
        ways.append(f"{road} → {to}" if road else f"→ {to}")
    if step.targets is None:
        ways.append("→ ?")
    if step.fallback is not None:
        ways.append(f"fallback → {_one_line(step.fallback)}")
    return " | ".join(ways)
