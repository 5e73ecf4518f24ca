"""From `loom.yaml`, or from Python, to a configuration that is known to be sound.

Law. Everything that is wrong, in every file, is said in one `ConfigError`, sorted by place. What
comes out needs no second look: models and tools are declared, prompts are read.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final, Generic, TypeAlias, TypeVar

from pydantic import BaseModel, JsonValue

from loom_ia.agents import AgentSpec
from loom_ia.config.availability import AGENT, GRAPH, Pattern
from loom_ia.config.checks import (
    CHECKS,
    CHECKS_OF_TOOLS,
    DOUBTS,
    HARDENED,
    check_durability,
    check_open,
    check_secrets,
)
from loom_ia.config.document import Document, KeyPath, read_document
from loom_ia.config.files import read_bytes
from loom_ia.config.overrides import Override, check_profiles, override_document, override_values
from loom_ia.config.places import FILE_NAME, IN_PYTHON, Show, Source, reason, shown_from
from loom_ia.config.profiles import ActiveProfile, choose_profile, written_profile
from loom_ia.config.project import Project, WrittenAgent, WrittenGraph
from loom_ia.config.prompts import read_prompts
from loom_ia.config.references import References
from loom_ia.config.root import LoomConfig
from loom_ia.config.schemas import IN_ROOT, read_schemas
from loom_ia.config.validation import Validated, not_a_mapping, validate
from loom_ia.core.errors import ConfigError, Problem
from loom_ia.core.json import JsonObject
from loom_ia.core.model.models import ModelSpec
from loom_ia.core.model.pricing import Pricing
from loom_ia.core.prompts import Language
from loom_ia.core.template import Template
from loom_ia.graph.spec import GraphSpec

PriceList: TypeAlias = Callable[[ModelSpec], Pricing | None]
"""Gives the prices of a model, None when it does not know it."""

_NO_FILE: Final = "there is no such file (create a project with `loom init`, or give --config)"
_NO_FOLDERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "agents": (
            "there is no folder {folder} (create it with a file for each agent, or list them under "
            "agents)"
        ),
        "graphs": "there is no folder {folder} (create it with a file for each graph)",
    }
)
_SUFFIXES: Final = frozenset({".yaml", ".yml"})


def spoken_by(agent: AgentSpec, role: str = "") -> str:
    """Give the name under which the prompt and the schema of an agent, or of a role, are kept."""
    return f"{agent.name}/{role}" if role else agent.name


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """A sound configuration, and what was learnt while it was loaded.

    `prompts` gives system prompts, by the name of the agent, or `agent/role` for one of its roles;
    so does `schemas` for the shapes of answers, those of the root under an empty name. `references`
    turns the names of Python objects into objects; its modules are imported when it is first asked.
    `environ` is where secrets are, None for the process's own. `overrides` are what the profile
    changed. `warnings` are what another profile would refuse.
    """

    config: LoomConfig
    base_dir: Path
    profile: ActiveProfile
    prompts: Mapping[str, Template]
    references: References
    project: Project
    durable: bool
    schemas: Mapping[tuple[str, KeyPath], JsonObject]
    environ: Mapping[str, str] | None = None
    overrides: tuple[Override, ...] = ()
    warnings: tuple[Problem, ...] = ()

    def path(self, written: str) -> Path:
        """Make a path of the configuration absolute."""
        return self.base_dir / written

    def secret(self, name: str) -> str:
        """Give the value of a variable, empty when it is not defined."""
        environ = os.environ if self.environ is None else self.environ
        return environ.get(name, "")

    def language(self, agent: AgentSpec) -> Language:
        """Give the language of the texts that the engine puts before the model of `agent`."""
        return agent.language or self.config.language

    def problem(self, path: KeyPath, template: str, /, **params: object) -> Problem:
        """Say that something is wrong at `path` of `config`, in the file where it was written."""
        match path:
            case ("agents", int(position), *rest) if position < len(self.project.agents):
                return self.project.agents[position].source.problem(tuple(rest), template, **params)
            case ("graphs", int(position), *rest) if position < len(self.project.graphs):
                return self.project.graphs[position].source.problem(tuple(rest), template, **params)
            case _:
                return self.project.source.problem(path, template, **params)

    def check_references(self) -> tuple[Problem, ...]:
        """Import the user's modules and give the warnings, now that the tools are known.

        Raises `ConfigError` if a reference stands for no tool.
        """
        problems = [fault for check in CHECKS_OF_TOOLS for fault in check(self.project)]
        lost = () if self.durable else tuple(check_durability(self.project, resolved=True))
        if self.profile.name != "dev":
            problems += lost
        _raise_if_any(problems)
        checks = (*HARDENED, *DOUBTS)
        return (*lost, *(fault for check in checks for fault in check(self.project)))

    def check_serving(self, *, is_keyed: bool = False) -> tuple[Problem, ...]:
        """Check what only matters to who serves, and give the warnings.

        Raises `ConfigError` for a secret that is not there and, in prod, for a server that asks
        nobody for a key; `is_keyed` when something else than the configuration asks for one.
        """
        missing = tuple(check_secrets(self.project, self.secret))
        is_open = () if is_keyed else tuple(check_open(self.project))
        _raise_if_any((*missing, *(is_open if self.profile.name == "prod" else ())))
        return is_open


def load_config(
    path: str | os.PathLike[str],
    *,
    profile: str | None = None,
    environ: Mapping[str, str] | None = None,
    references: bool = False,
    durable: bool | None = None,
    prices: PriceList | None = None,
) -> LoadedConfig:
    """Read `loom.yaml` (or the folder that holds one) and the files that it names.

    `profile` wins over `LOOM_PROFILE` in `environ` (that of the process by default), which wins
    over the file; what `profiles` says for it is merged first. With `references`, the user's
    modules are imported and checked too; leave it out when some tools are registered later.
    `durable` tells what a journal that replaces the configured one is. `prices` gives those of a
    model that has no `pricing`. Raises `ConfigError` with
    every problem.
    """
    file = Path(os.path.abspath(path))  # noqa: PTH100 (links stay as they are written)
    file = file / FILE_NAME if file.is_dir() else file
    show = shown_from(file.parent)
    written = _read_file(file, show, _NO_FILE)
    problems = [*written.problems]
    problems += check_profiles(written.value, Source(show(file), written.value, written))
    active, refused = choose_profile(profile, environ, written_profile(written.value))
    document, overrides = override_document(written, active.name, show(file))
    source = Source(show(file), document.value, document)
    root, agents, graphs = _root(document, source)
    agents += _of_folder(AGENTS, root, source, file.parent, show, alone=not agents)
    written_graphs_dir = "graphs_dir" in document.value
    graphs += _of_folder(GRAPHS, root, source, file.parent, show, alone=written_graphs_dir)
    problems += [*refused, *root.problems]
    problems += [fault for item in (*agents, *graphs) for fault in item.problems]
    project = _Written(
        root=root,
        source=source,
        base_dir=file.parent,
        show=show,
        agents=tuple(WrittenAgent(*part) for item in agents for part in item.parts()),
        graphs=tuple(WrittenGraph(*part) for item in graphs for part in item.parts()),
        model_ids=_model_ids(document.value),
        profile=active,
        overrides=overrides,
        environ=environ,
        prices=prices,
    )
    return _prepare(project, problems, references=references, durable=durable)


def prepare_config(
    config: LoomConfig,
    *,
    base_dir: str | os.PathLike[str] = ".",
    profile: str | None = None,
    environ: Mapping[str, str] | None = None,
    references: bool = False,
    durable: bool | None = None,
    prices: PriceList | None = None,
) -> LoadedConfig:
    """Check a configuration built in Python, as `load_config` does one that is read.

    Its paths are relative to `base_dir`; its agents are the ones it holds, no folder is read.
    """
    folder = Path(os.path.abspath(base_dir))  # noqa: PTH100 (links stay as they are written)
    active, refused = choose_profile(profile, environ, config.profile)
    value = config.model_dump(mode="json")
    problems = [*refused, *check_profiles(value, Source(IN_PYTHON, value))]
    value, overrides = override_values(value, active.name, IN_PYTHON)
    source = Source(IN_PYTHON, value if overrides else config)
    root = validate(LoomConfig, value, source) if overrides else Validated(config)
    agents = [
        WrittenAgent(agent, source.inside("agents", position))
        for position, agent in enumerate(root.spec.agents if root.spec else ())
    ]
    graphs = [
        WrittenGraph(graph, source.inside("graphs", position))
        for position, graph in enumerate(root.spec.graphs if root.spec else ())
    ]
    project = _Written(
        root=root,
        source=source,
        base_dir=folder,
        show=shown_from(folder),
        agents=tuple(agents),
        graphs=tuple(graphs),
        model_ids=_model_ids(value),
        profile=active,
        overrides=overrides,
        environ=environ,
        prices=prices,
    )
    problems += root.problems
    return _prepare(project, problems, references=references, durable=durable)


Spec = TypeVar("Spec", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class _Kind(Generic[Spec]):
    """What is written one file for each: the key of its list, that of its folder, its class."""

    key: str
    folder: str
    model: type[Spec]
    pattern: Pattern


AGENTS: Final = _Kind("agents", "agents_dir", AgentSpec, AGENT)
GRAPHS: Final = _Kind("graphs", "graphs_dir", GraphSpec, GRAPH)


@dataclass(frozen=True, slots=True)
class _Item(Generic[Spec]):
    """One of them as it was read; without a source, nothing of it was."""

    found: Validated[Spec]
    source: Source | None = None

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with it."""
        return self.found.problems

    def parts(self) -> Iterator[tuple[Spec, Source, frozenset[str]]]:
        """Give what is sound of it, where it stands, and what is not; nothing if nothing is."""
        if self.found.spec is not None and self.source is not None:
            yield self.found.spec, self.source, self.found.broken


@dataclass(frozen=True, slots=True)
class _Written:
    root: Validated[LoomConfig]
    source: Source
    base_dir: Path
    show: Show
    agents: tuple[WrittenAgent, ...]
    graphs: tuple[WrittenGraph, ...]
    model_ids: tuple[str, ...]
    profile: ActiveProfile
    overrides: tuple[Override, ...]
    environ: Mapping[str, str] | None
    prices: PriceList | None


def _prepare(
    written: _Written, problems: list[Problem], *, references: bool, durable: bool | None
) -> LoadedConfig:
    root = _priced(written.root.spec or LoomConfig(version=1), written.prices)
    broken = written.root.broken
    prompts_dir = None if "prompts_dir" in broken else root.prompts_dir
    project = Project(
        root=root,
        source=written.source,
        base_dir=written.base_dir,
        agents=written.agents,
        graphs=written.graphs,
        model_ids=written.model_ids,
        references=References(
            written.base_dir, root.imports, in_python=written.source.document is None
        ),
        broken=broken,
        prompts=read_prompts(written.agents, written.base_dir, prompts_dir, written.show),
        schemas=read_schemas(written.agents, root, written.source, written.base_dir, written.show),
    )
    for check in CHECKS:
        problems += check(project)
    resolved = references and "imports" not in broken
    if resolved:
        problems += (fault for check in CHECKS_OF_TOOLS for fault in check(project))
    if durable is None:
        durable = "storage" in broken or root.storage.events.backend != "memory"
    warnings = () if durable else tuple(check_durability(project, resolved=resolved))
    if written.profile.name != "dev":
        problems += warnings
    hardened = tuple(fault for check in HARDENED for fault in check(project))
    if written.profile.name == "prod":
        problems += hardened
    warnings = (*warnings, *hardened)
    if problems:
        project.references.close()
    _raise_if_any(problems)
    warnings = (*warnings, *(doubt for check in DOUBTS for doubt in check(project)))
    specs = tuple(agent.spec for agent in project.agents)
    return LoadedConfig(
        config=root.model_copy(
            update={"agents": specs, "graphs": tuple(graph.spec for graph in project.graphs)}
        ),
        base_dir=written.base_dir,
        profile=written.profile,
        prompts={
            spoken_by(specs[position], role): prompt.template
            for (position, role), prompt in project.prompts.items()
            if prompt.template
        },
        references=project.references,
        project=project,
        durable=durable,
        schemas={
            (specs[position].name if position != IN_ROOT else "", path): answer.schema
            for (position, path), answer in project.schemas.items()
            if answer.schema is not None
        },
        environ=written.environ,
        overrides=written.overrides,
        warnings=warnings,
    )


def _priced(root: LoomConfig, prices: PriceList | None) -> LoomConfig:
    """Give each model without `pricing` the prices that the list knows."""
    if prices is None:
        return root
    models = tuple(
        model if model.pricing is not None else model.model_copy(update={"pricing": prices(model)})
        for model in root.models
    )
    return root.model_copy(update={"models": models})


def _raise_if_any(problems: Iterable[Problem]) -> None:
    if found := tuple(problems):
        raise ConfigError(found)


def _root(
    document: Document, source: Source
) -> tuple[Validated[LoomConfig], list[_Item[AgentSpec]], list[_Item[GraphSpec]]]:
    if not document.is_read:
        every = frozenset(LoomConfig.model_fields)
        return Validated(LoomConfig(version=1), broken=every), [], []
    value = dict(document.value)
    agents, graphs = _inline(AGENTS, value, source), _inline(GRAPHS, value, source)
    return validate(LoomConfig, value, source), agents, graphs


def _inline(kind: _Kind[Spec], value: dict[str, JsonValue], source: Source) -> list[_Item[Spec]]:
    """Take those that are written in the root out of it, if they are a list."""
    items = value.get(kind.key)
    if not isinstance(items, list):
        return []
    del value[kind.key]
    return [_item(kind, item, source.inside(kind.key, i)) for i, item in enumerate(items)]


def _of_folder(
    kind: _Kind[Spec],
    root: Validated[LoomConfig],
    source: Source,
    base_dir: Path,
    show: Show,
    *,
    alone: bool,
) -> list[_Item[Spec]]:
    """Read the files of a folder; `alone` when it must be there."""
    if root.spec is None or kind.folder in root.broken:
        return []
    folder = base_dir / getattr(root.spec, kind.folder)
    try:
        files = sorted(folder.iterdir())
    except FileNotFoundError:
        if not alone or kind.key in root.broken:
            return []
        problem = source.problem((kind.folder,), _NO_FOLDERS[kind.key], folder=show(folder))
        return [_Item(Validated(None, (problem,)))]
    except (OSError, ValueError) as error:
        template = "{folder} cannot be read: {reason}"
        params = {"folder": show(folder), "reason": reason(error)}
        return [_Item(Validated(None, (source.problem((kind.folder,), template, **params),)))]
    return [
        _item_of_file(kind, file, show)
        for file in files
        if file.suffix in _SUFFIXES and not file.name.startswith(".") and not file.is_dir()
    ]


def _item_of_file(kind: _Kind[Spec], file: Path, show: Show) -> _Item[Spec]:
    try:
        document = _read_file(file, show)
    except ConfigError as error:
        return _Item(Validated(None, error.problems))
    if not document.is_read:
        return _Item(Validated(None, document.problems))
    item = _item(kind, document.value, Source(show(file), document.value, document))
    problems = (*document.problems, *item.problems)
    return replace(item, found=replace(item.found, problems=problems))


def _item(kind: _Kind[Spec], value: JsonValue, source: Source) -> _Item[Spec]:
    if not isinstance(value, dict):
        return _Item(Validated(None, (not_a_mapping(value, source),)))
    return _Item(validate(kind.model, value, source, kind.pattern), source)


def _model_ids(value: Mapping[str, JsonValue]) -> tuple[str, ...]:
    models = value.get("models")
    ids = [m.get("id") for m in models if isinstance(m, dict)] if isinstance(models, list) else []
    return tuple(dict.fromkeys(model_id for model_id in ids if isinstance(model_id, str)))


def _read_file(file: Path, show: Show, template: str = "there is no such file") -> Document:
    try:
        data = read_bytes(file)
    except FileNotFoundError as error:
        raise ConfigError([Problem(show(file), None, "", template, {})]) from error
    except (OSError, ValueError) as error:
        params: dict[str, object] = {"reason": reason(error)}
        unreadable = "the file cannot be read: {reason}"
        raise ConfigError([Problem(show(file), None, "", unreadable, params)]) from error
    return read_document(data, show(file))
