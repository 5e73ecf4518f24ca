"""What is wrong with a graph, found from its shape alone: nothing of the author's is called.

An error is what cannot run; a warning is what probably was not meant. A router whose targets are
unknown may lead anywhere and may end, so that it never gives a warning.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from loom_ia.graph.step_definition import Shape, StepDefinition

Code: TypeAlias = Literal[
    "missing_entry", "unknown_target", "missing_join", "unreachable", "dead_end"
]
Severity: TypeAlias = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault of a graph: `step` is where it is, `target` the name that is not there.

    `step` is None when the entry is at fault. For `missing_join` it is the step that needs a join.
    """

    code: Code
    severity: Severity
    step: str | None
    target: str | None
    message: str


def problems_of(shape: Shape) -> list[Problem]:
    """Find all that is wrong: the errors first, each kind in the order of declaration."""
    return [
        *_missing_entry(shape),
        *_unknown_targets(shape.steps),
        *_missing_joins(shape.steps),
        *_unreachable(shape),
        *_dead_ends(shape.steps),
    ]


def _missing_entry(shape: Shape) -> Iterator[Problem]:
    if shape.entry is None:
        text = f'graph "{shape.name}" has no step: add one with add_step'
        yield Problem("missing_entry", "error", None, None, text)
    elif shape.entry not in shape.steps:
        text = f'graph "{shape.name}" begins at "{shape.entry}", which is no step of it'
        yield Problem("missing_entry", "error", None, shape.entry, text)


def _unknown_targets(steps: Mapping[str, StepDefinition]) -> Iterator[Problem]:
    for step in steps.values():
        for name in _leads_to(step):
            if name not in steps:
                text = f'step "{step.name}" leads to "{name}", which is no step of the graph'
                yield Problem("unknown_target", "error", step.name, name, text)


def _missing_joins(steps: Mapping[str, StepDefinition]) -> Iterator[Problem]:
    found: dict[str, str] = {}
    for step in steps.values():
        for names in _splits(step):
            for meeting in _meetings(steps, names):
                found.setdefault(meeting, step.name)
    for meeting in steps:
        if meeting in found:
            text = (
                f'branches of "{found[meeting]}" meet in step "{meeting}":'
                ' declare it with join="all", "any" or a number'
            )
            yield Problem("missing_join", "error", meeting, None, text)


def _unreachable(shape: Shape) -> Iterator[Problem]:
    steps, entry = shape.steps, shape.entry
    if entry is None or entry not in steps:
        return
    reached: set[str] = set()
    ahead = [entry]
    while ahead:
        name = ahead.pop()
        if name in reached or name not in steps:
            continue
        if steps[name].targets is None:
            return
        reached.add(name)
        ahead.extend(_leads_to(steps[name]))
    for name in steps:
        if name not in reached:
            text = f'no way leads from "{entry}" to step "{name}"'
            yield Problem("unreachable", "warning", name, None, text)


def _dead_ends(steps: Mapping[str, StepDefinition]) -> Iterator[Problem]:
    before: dict[str, list[str]] = {name: [] for name in steps}
    ahead: list[str] = []
    for step in steps.values():
        names = _leads_to(step)
        # A step that is not there is an error already: what leads to it is not told twice.
        if step.targets is None or step.targets.may_end or any(n not in steps for n in names):
            ahead.append(step.name)
        for name in names:
            before.setdefault(name, []).append(step.name)
    ending: set[str] = set()
    while ahead:
        name = ahead.pop()
        if name not in ending:
            ending.add(name)
            ahead.extend(before[name])
    for name in steps:
        if name not in ending:
            text = f'END cannot be reached from step "{name}"'
            yield Problem("dead_end", "warning", name, None, text)


def _leads_to(step: StepDefinition) -> tuple[str, ...]:
    """Give where a step may lead, as far as is known, its fallback included."""
    names = step.targets.names if step.targets is not None else ()
    if step.fallback is not None and step.fallback not in names:
        return (*names, step.fallback)
    return names


def _splits(step: StepDefinition) -> Iterator[tuple[str, ...]]:
    """Give the first steps of the branches of each split. Sends to one step share their way."""
    for route in step.targets.routes if step.targets is not None else ():
        if len(route.names) > 1:
            yield route.names


def _meetings(steps: Mapping[str, StepDefinition], first_steps: Iterable[str]) -> Iterator[str]:
    """Give the steps without join that several of the branches reach, the nearest ones only."""
    reached: dict[str, int] = {}
    starts = tuple(first_steps)
    for start in starts:
        for name in _walk(steps, start):
            reached[name] = reached.get(name, 0) + 1
    shared = {n for n, count in reached.items() if count > 1 and steps[n].join is None}
    came_from: dict[str, list[str]] = {}
    for name in reached:
        for to in _routed(steps[name]):
            came_from.setdefault(to, []).append(name)
    for name in shared:
        if name in starts or any(n not in shared for n in came_from.get(name, ())):
            yield name


def _walk(steps: Mapping[str, StepDefinition], start: str) -> set[str]:
    """Give the steps that a branch may run, up to the join that ends it.

    A split inside the branch has joins of its own: each one passed leads one split out.
    """
    deepest = len(steps)
    seen: set[tuple[str, int]] = set()
    ahead = [(start, 0)]
    reached: set[str] = set()
    while ahead:
        name, depth = ahead.pop()
        if name not in steps or (name, depth) in seen or depth > deepest:
            continue
        seen.add((name, depth))
        step = steps[name]
        if step.join is not None:
            if depth == 0:
                continue
            depth -= 1
        reached.add(name)
        for route in step.targets.routes if step.targets is not None else ():
            inside = depth + (len(route.names) > 1)
            ahead.extend((to, inside) for to in route.names)
    return reached


def _routed(step: StepDefinition) -> tuple[str, ...]:
    """Give where a router leads; a fallback stands in for its step and meets nobody."""
    return step.targets.names if step.targets is not None else ()
