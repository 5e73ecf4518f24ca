"""The page of the configuration: each key, its type, its default and its meaning."""

from collections.abc import Iterator
from typing import get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from loom_ia.agents import AgentSpec
from loom_ia.config.root import LoomConfig
from loom_ia.core.model import ModelSpec
from scripts.pages.fields import bounds_text, default_text, models_in, type_text
from scripts.pages.markdown import code, page, table
from scripts.pages.meanings import MEANINGS

_WORDS = {
    LoomConfig: ("The root", "`loom.yaml`, or `LoomConfig` in Python."),
    ModelSpec: ("A model", "One item of `models`, or `ModelSpec` in Python."),
    AgentSpec: ("An agent", "One file of `agents_dir`, or `AgentSpec` in Python."),
}


def text() -> str:
    """Give the page. Raises `ValueError` when a key has no meaning, or a meaning no key."""
    sections = [part for model in _WORDS for part in _section(model)]
    known = {path for model in _WORDS for path, _ in _keys(model, _prefix(model))}
    if lost := MEANINGS.keys() - known:
        raise ValueError(f"scripts/pages/meanings.py: these keys are no more: {sorted(lost)}")
    return page(
        "Configuration",
        "A project is `loom.yaml`, one file for each agent, and the prompts. The same classes "
        "describe it in Python. Reading is strict: an unknown key is an error, a value is not "
        "converted, and everything that is wrong is said at once, each with its file and its "
        "line. Paths are relative to the folder of `loom.yaml`.",
        *sections,
    )


def _section(model: type[BaseModel]) -> Iterator[str]:
    title, place = _WORDS[model]
    yield f"## {title}"
    yield place
    yield table(
        ("key", "type", "default", "meaning"),
        (
            (
                code(path.removeprefix(_prefix(model))),
                _type(field),
                default_text(field),
                field.description or _meaning(path),
            )
            for path, field in _keys(model, _prefix(model))
        ),
    )


def _prefix(model: type[BaseModel]) -> str:
    return {ModelSpec: "models[].", AgentSpec: "agents[]."}.get(model, "")


def _keys(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Give each key with its path; items of `models` and `agents` have sections of their own."""
    for name, field in model.model_fields.items():
        path = f"{prefix}{name}"
        yield path, field
        for inner in models_in(field.annotation):
            if inner not in _WORDS:
                is_list = get_origin(field.annotation) is tuple
                yield from _keys(inner, f"{path}[]." if is_list else f"{path}.")


def _type(field: FieldInfo) -> str:
    inner = next(models_in(field.annotation), None)
    text = type_text(field.annotation)
    if inner is not None:
        is_list = get_origin(field.annotation) is tuple
        text = "list of mappings" if is_list else "mapping"
        text += " or `null`" if type(None) in getattr(field.annotation, "__args__", ()) else ""
    bounds = bounds_text(field)
    return f"{text}, {bounds}" if bounds else text


def _meaning(path: str) -> str:
    if path not in MEANINGS:
        raise ValueError(f"scripts/pages/meanings.py: say what {path} means")
    return MEANINGS[path]
