"""What each key of the configuration means, gathered from where it is said.

A field says it in its `description`, which the page, the schema and the editors share. Paths are
written as in the page: `storage.events.path`, with `[]` for the items of a list.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from loom_ia.agents import AgentSpec
from loom_ia.config.root import LoomConfig
from loom_ia.core.model import ModelSpec
from loom_ia.graph.spec import GraphSpec
from scripts.pages.fields import models_in

SECTIONS: Mapping[type[BaseModel], str] = MappingProxyType(
    {LoomConfig: "", ModelSpec: "models[].", AgentSpec: "agents[].", GraphSpec: "graphs[]."}
)
"""The classes that have a section of their own, with what their paths start with."""


def keys(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, FieldInfo]]:
    """Give each key with its path; what has a section of its own is not entered."""
    yield from _keys((model,), prefix)


def _keys(kinds: tuple[type[BaseModel], ...], prefix: str) -> Iterator[tuple[str, FieldInfo]]:
    """Give the keys of things of several kinds: what all have once, the rest with its kind."""
    named = [{field.alias or name for name, field in m.model_fields.items()} for m in kinds]
    shared = set[str].intersection(*named)
    seen: set[str] = set()
    for model in kinds:
        kind = str(getattr(model, "TAG", ""))
        for name, field in model.model_fields.items():
            key = field.alias or name
            own = key not in shared and kind != f"({key})"
            path = f"{prefix}{key} {kind}" if own else f"{prefix}{key}"
            if path in seen:
                continue
            seen.add(path)
            yield path, field
            below = tuple(m for m in models_in(field.annotation) if m not in SECTIONS)
            if below:
                yield from _keys(below, f"{prefix}{key}{_inside(field)}")


def _inside(field: FieldInfo) -> str:
    """Tell how one thing inside a field is written after its path."""
    origin = get_origin(field.annotation)
    return "[]." if origin is tuple else ".<name>." if origin is dict else "."


MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        path: field.description
        for model, prefix in SECTIONS.items()
        for path, field in keys(model, prefix)
        if field.description
    }
)
