"""What identifies the shape of a graph, and what tells two shapes apart.

The parts cover name, entry, steps, known targets, joins and declared versions, and never code: a
function may be repaired while runs are paused. A step's part is JSON, so that the parts that a run
recorded can be read again under the names that steps have today.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from loom_ia.core.json import canonical, digest
from loom_ia.graph.routers import Route, step_of
from loom_ia.graph.step_definition import Shape, StepDefinition

_STEP: Final = "steps/"
_EACH: Final = "/each"
"""Marks a route over the items of a list; no step can be called so."""


def fingerprint_of(parts: Mapping[str, str]) -> str:
    """Give 16 hexadecimal digits for some parts."""
    return digest(dict(parts))[:16]


def parts_of(shape: Shape) -> dict[str, str]:
    """Give what the fingerprint of a graph covers, each step under `steps/<name>`."""
    parts = {"name": shape.name, "entry": shape.entry or ""}
    if shape.version is not None:
        parts["version"] = shape.version
    for name in sorted(shape.steps):
        parts[_STEP + name] = _step_part(shape.steps[name])
    return parts


def renamed(parts: Mapping[str, str], names: Mapping[str, str]) -> dict[str, str]:
    """Read parts under the new names of steps.

    Where a step takes the name of one that was there already, it is the latter that counts.
    """
    read: dict[str, str] = {}
    moved: dict[str, str] = {}
    for key, part in parts.items():
        if key == "entry":
            read[key] = names.get(part, part)
        elif key.startswith(_STEP):
            old = key.removeprefix(_STEP)
            chosen = moved if old in names else read
            chosen.setdefault(_STEP + names.get(old, old), _renamed_step(part, names))
        else:
            read[key] = part
    return {**moved, **read}


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """Tell what changed between two shapes, one short text each; nothing when they are the same."""
    return tuple(_differences(before, after))


def _differences(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    for key in sorted({*before, *after}):
        old, new = before.get(key), after.get(key)
        if old == new:
            continue
        step = key.removeprefix(_STEP) if key.startswith(_STEP) else None
        if step is None:
            yield f"{key}: {old!r} is now {new!r}"
        elif old is None:
            yield f'step "{step}" is new'
        elif new is None:
            yield f'step "{step}" is gone'
        else:
            facets = [f for f in ("to", "join", "version") if _facet(old, f) != _facet(new, f)]
            yield f'step "{step}" changed: {", ".join(facets) or "otherwise"}'


def _step_part(step: StepDefinition) -> str:
    known = step.targets
    to = None if known is None else _sorted([_route_part(route) for route in known.routes])
    return canonical({"to": to, "join": step.join, "version": step.version})


def _route_part(route: Route) -> list[str]:
    """Tell one route: its steps, in order, for the order of branches is that of their merge."""
    names = [step_of(target) for target in route.to]
    return [_EACH, *names] if route.over else names


def _sorted(routes: list[list[str]]) -> list[list[str]]:
    """Put routes in an order of their own, each once: neither order nor key is part of a shape."""
    return sorted({tuple(route): route for route in routes}.values())


def _renamed_step(part: str, names: Mapping[str, str]) -> str:
    fields = _fields(part)
    routes = fields.get("to")
    if not isinstance(routes, list):
        return part
    found = cast("list[list[str]]", routes)
    to = _sorted([[names.get(name, name) for name in route] for route in found])
    return canonical({**fields, "to": to})


def _facet(part: str, facet: str) -> Any:
    return _fields(part).get(facet)


def _fields(part: str) -> dict[str, Any]:
    """Read a step's part; nothing of one that another version wrote in another form."""
    try:
        found: object = json.loads(part)
    except ValueError:
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}
