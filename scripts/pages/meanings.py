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
from scripts.pages.fields import models_in

SECTIONS: Mapping[type[BaseModel], str] = MappingProxyType(
    {LoomConfig: "", ModelSpec: "models[].", AgentSpec: "agents[]."}
)
"""The classes that have a section of their own, with what their paths start with."""


def keys(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, FieldInfo]]:
    """Give each key with its path; what has a section of its own is not entered."""
    for name, field in model.model_fields.items():
        path = f"{prefix}{field.alias or name}"
        yield path, field
        for inner in models_in(field.annotation):
            if inner not in SECTIONS:
                is_list = get_origin(field.annotation) is tuple
                yield from keys(inner, f"{path}[]." if is_list else f"{path}.")


MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        path: field.description
        for model, prefix in SECTIONS.items()
        for path, field in keys(model, prefix)
        if field.description
    }
)
