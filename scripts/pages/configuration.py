"""The page of the configuration: each key, its type, its default and its meaning."""

from collections.abc import Iterator
from typing import get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from loom_ia.agents import AgentSpec
from loom_ia.config.root import LoomConfig
from loom_ia.core.model import ModelSpec
from loom_ia.graph.spec import GraphSpec
from scripts.pages.fields import bounds_text, default_text, models_in, type_text
from scripts.pages.markdown import block, code, page, table
from scripts.pages.meanings import MEANINGS, SECTIONS, keys

_GRAPH = (
    "One file of `graphs_dir`, or `GraphSpec` of `loom_ia.graph.spec` in Python. A key that only "
    "steps of one kind have is followed by the kind. An expression has keys of the state (`state` "
    "is the whole of it), literals, comparisons, `and`, `or`, `not`, `in`, `+ - * / %`, subscripts "
    "by a constant and `len(…)`; a key that is missing is an error. A graph that is built in "
    "Python is one of the instance once a module of `imports` has it, or it is registered."
)
_WORDS = {
    LoomConfig: ("The root", "`loom.yaml`, or `LoomConfig` in Python."),
    ModelSpec: ("A model", "One item of `models`, or `ModelSpec` in Python."),
    AgentSpec: ("An agent", "One file of `agents_dir`, or `AgentSpec` in Python."),
    GraphSpec: ("A graph", _GRAPH),
}

_PROFILES = (
    "## Profiles",
    (
        "Two profiles exist, `dev` and `prod`. The active one is chosen by `--profile`, else by "
        "the variable `LOOM_PROFILE`, else by the key `profile`; without any, nothing is "
        "changed, hardened or softened. What `profiles` holds for the active one is merged over "
        "the rest before anything is checked: mappings key by key; a list, a text or a number is "
        "replaced, and so is a whole block named `params` or `llm`. A profile may hold any key "
        "of the root but `profile`, `profiles` and `env_file`. `loom validate` lists each key "
        "that it changes."
    ),
    block(
        """
storage:
  events: {backend: jsonl, path: data}

profiles:
  prod:
    storage:
      events: {backend: sqlite, path: /var/lib/agents/journal.db}
""",
        "yaml",
    ),
)
_VARIABLES = (
    "## Environment variables",
    (
        "The command `loom` reads a file of variables before the configuration: the one of "
        "`--env-file`, else the one of the key `env_file`, else a `.env` next to `loom.yaml`. "
        "`--no-env-file` reads none. A file that was named and is missing is refused. A variable "
        "that is already defined keeps its value, even an empty one. `LOOM_LANG` and "
        "`LOOM_DEBUG` have no effect there: they are read first. The library reads no such file "
        'unless a program calls `load_env_file("loom.yaml")`, from `loom_ia.config`.'
    ),
    table(
        ("a line", "gives"),
        (
            ("`NAME=text # comment`", "`text`: blanks around it, and a comment, are dropped."),
            ("`NAME=a#b`", "`a#b`: a comment starts after a blank."),
            ("`NAME='text'`", "The text as it is, on several lines if need be."),
            (
                '`NAME="text"`',
                'The same, where `\\n`, `\\r`, `\\t`, `\\"`, `\\\\` and `\\$` are understood.',
            ),
            ("`NAME=`", "An empty value."),
            ("`export NAME=text`", "The same as without `export`."),
            ("`# comment`", "Nothing, like an empty line."),
        ),
    ),
    (
        "Nothing is replaced inside a value: `$OTHER` stays what it is. A name that is written "
        "twice has its last value. A file that cannot be understood is refused with its line; no "
        "message shows a value."
    ),
)
_EDITORS = (
    "## In an editor",
    (
        "`loom schema` prints the JSON Schema of `loom.yaml`, `loom schema --agent` the one of an "
        "agent's file, and `loom schema --graph` the one of a graph's. The first line of the "
        "project that `loom init` writes names it, for the editors that complete and check YAML; "
        "make the file once, and again after an "
        "upgrade:"
    ),
    block("$ loom schema > loom.schema.json", "console"),
    (
        "The schema knows keys, types and values. That a model is declared, or that a tool "
        "exists, is for `loom validate`."
    ),
)


def text() -> str:
    """Give the page. Raises `ValueError` when a key has no meaning."""
    sections = [part for model in SECTIONS for part in _section(model)]
    return page(
        "Configuration",
        "A project is `loom.yaml`, one file for each agent and each graph, and the prompts. The "
        "same classes describe it in Python. Reading is strict: an unknown key is an error, a "
        "value is not converted, and everything that is wrong is said at once, each with its "
        "file and its line. Paths are relative to the folder of `loom.yaml`.",
        *sections,
        *_PROFILES,
        *_VARIABLES,
        *_EDITORS,
    )


def _section(model: type[BaseModel]) -> Iterator[str]:
    (title, place), prefix = _WORDS[model], SECTIONS[model]
    yield f"## {title}"
    yield place
    yield table(
        ("key", "type", "default", "meaning"),
        (
            (
                code(path.removeprefix(prefix)),
                _type(field),
                default_text(field),
                _meaning(path),
            )
            for path, field in keys(model, prefix)
        ),
    )


def _type(field: FieldInfo) -> str:
    inner = next(models_in(field.annotation), None)
    text = type_text(field.annotation)
    if inner is not None:
        origin = get_origin(field.annotation)
        text = "list of mappings" if origin is tuple else "mapping"
        text = "mapping of mappings" if origin is dict else text
        text += " or `null`" if type(None) in getattr(field.annotation, "__args__", ()) else ""
    bounds = bounds_text(field)
    return f"{text}, {bounds}" if bounds else text


def _meaning(path: str) -> str:
    if path not in MEANINGS:
        raise ValueError(f"say what {path} means, in the description of its field")
    return MEANINGS[path]
