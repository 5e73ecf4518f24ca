"""From `loom.yaml`, or from Python, to a configuration that is known to be sound.

Law. Everything that is wrong, in every file, is said in one `ConfigError`, sorted by place. What
comes out needs no second look: models and tools are declared, prompts are read.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from pydantic import JsonValue

from loom_ia.agents import AgentSpec
from loom_ia.config.availability import AGENT
from loom_ia.config.checks import CHECKS, check_durability, check_references
from loom_ia.config.document import Document, KeyPath, read_document
from loom_ia.config.places import IN_PYTHON, Source
from loom_ia.config.profiles import ActiveProfile, choose_profile
from loom_ia.config.project import Project, WrittenAgent
from loom_ia.config.prompts import read_prompts
from loom_ia.config.references import References
from loom_ia.config.root import LoomConfig
from loom_ia.config.validation import Validated, not_a_mapping, validate
from loom_ia.core.errors import ConfigError, Problem
from loom_ia.core.prompts import Language
from loom_ia.core.template import Template

FILE_NAME: Final = "loom.yaml"
_NO_FILE: Final = "there is no such file (create a project with `loom init`, or give --config)"
_NO_FOLDER: Final = (
    "there is no folder {folder} (create it with a file for each agent, or list them under agents)"
)
_SUFFIXES: Final = frozenset({".yaml", ".yml"})


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """A sound configuration, and what was learnt while it was loaded.

    `prompts` gives the system prompt of each agent by its name. `references` turns the names of
    Python objects into objects; its modules are imported when it is first asked. `warnings` are
    what another profile would refuse.
    """

    config: LoomConfig
    base_dir: Path
    profile: ActiveProfile
    prompts: Mapping[str, Template]
    references: References
    project: Project
    durable: bool
    warnings: tuple[Problem, ...] = ()

    def path(self, written: str) -> Path:
        """Make a path of the configuration absolute."""
        return self.base_dir / written

    def language(self, agent: AgentSpec) -> Language:
        """Give the language of the texts that the engine puts before the model of `agent`."""
        return agent.language or self.config.language

    def problem(self, path: KeyPath, template: str, /, **params: object) -> Problem:
        """Say that something is wrong at `path` of `config`, in the file where it was written."""
        match path:
            case ("agents", int(position), *rest) if position < len(self.project.agents):
                return self.project.agents[position].source.problem(tuple(rest), template, **params)
            case _:
                return self.project.source.problem(path, template, **params)

    def check_references(self) -> tuple[Problem, ...]:
        """Import the user's modules and give the warnings, now that the tools are known.

        Raises `ConfigError` if a reference stands for no tool.
        """
        problems = list(check_references(self.project))
        lost = () if self.durable else tuple(check_durability(self.project, resolved=True))
        if self.profile.name != "dev":
            problems += lost
        _raise_if_any(problems)
        return lost


def load_config(
    path: str | os.PathLike[str],
    *,
    profile: str | None = None,
    environ: Mapping[str, str] | None = None,
    references: bool = False,
    durable: bool | None = None,
) -> LoadedConfig:
    """Read `loom.yaml` (or the folder that holds one) and the files that it names.

    `profile` wins over `LOOM_PROFILE` in `environ` (that of the process by default), which wins
    over the file. With `references`, the user's modules are imported and checked too; leave it
    out when some tools are registered later. `durable` tells what a journal that replaces the
    configured one is. Raises `ConfigError` with every problem.
    """
    file = Path(os.path.abspath(path))  # noqa: PTH100 (links stay as they are written)
    file = file / FILE_NAME if file.is_dir() else file
    show = _shown_from(file.parent)
    document = _read(file, show, _NO_FILE)
    source = Source(show(file), document.value, document)
    root, agents = _root(document, source)
    agents += _agents_of_folder(root, source, file.parent, show, alone=not agents)
    written = _Written(
        root=root,
        source=source,
        base_dir=file.parent,
        show=show,
        agents=tuple(agent for agent, _ in agents if agent),
        model_ids=_model_ids(document.value),
    )
    problems = [*document.problems, *root.problems]
    problems += (problem for _, found in agents for problem in found)
    return _prepare(written, problems, _Choice(profile, environ, references, durable))


def prepare_config(
    config: LoomConfig,
    *,
    base_dir: str | os.PathLike[str] = ".",
    profile: str | None = None,
    environ: Mapping[str, str] | None = None,
    references: bool = False,
    durable: bool | None = None,
) -> LoadedConfig:
    """Check a configuration built in Python, as `load_config` does one that is read.

    Its paths are relative to `base_dir`; its agents are the ones it holds, no folder is read.
    """
    folder = Path(os.path.abspath(base_dir))  # noqa: PTH100 (links stay as they are written)
    source = Source(IN_PYTHON, config)
    agents = [
        WrittenAgent(agent, source.inside("agents", position))
        for position, agent in enumerate(config.agents)
    ]
    written = _Written(
        root=Validated(config),
        source=source,
        base_dir=folder,
        show=_shown_from(folder),
        agents=tuple(agents),
        model_ids=tuple(model.id for model in config.models),
    )
    return _prepare(written, [], _Choice(profile, environ, references, durable))


_Agent: TypeAlias = tuple[WrittenAgent | None, tuple[Problem, ...]]
_Show: TypeAlias = Callable[[Path], str]


@dataclass(frozen=True, slots=True)
class _Written:
    root: Validated[LoomConfig]
    source: Source
    base_dir: Path
    show: _Show
    agents: tuple[WrittenAgent, ...]
    model_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Choice:
    profile: str | None
    environ: Mapping[str, str] | None
    references: bool
    durable: bool | None


def _prepare(written: _Written, problems: list[Problem], choice: _Choice) -> LoadedConfig:
    root = written.root.spec or LoomConfig(version=1)
    broken = written.root.broken
    prompts_dir = None if "prompts_dir" in broken else root.prompts_dir
    project = Project(
        root=root,
        source=written.source,
        base_dir=written.base_dir,
        agents=written.agents,
        model_ids=written.model_ids,
        references=References(written.base_dir, root.imports),
        broken=broken,
        prompts=read_prompts(written.agents, written.base_dir, prompts_dir, written.show),
    )
    environ = os.environ if choice.environ is None else choice.environ
    profile, refused = choose_profile(choice.profile, environ, root.profile)
    problems += refused
    for check in CHECKS:
        problems += check(project)
    resolved = choice.references and "imports" not in broken
    if resolved:
        problems += check_references(project)
    durable = choice.durable
    if durable is None:
        durable = "storage" in broken or root.storage.events.backend != "memory"
    warnings = () if durable else tuple(check_durability(project, resolved=resolved))
    if profile.name != "dev":
        problems += warnings
    if problems:
        project.references.close()
    _raise_if_any(problems)
    specs = tuple(agent.spec for agent in project.agents)
    return LoadedConfig(
        config=root.model_copy(update={"agents": specs}),
        base_dir=written.base_dir,
        profile=profile,
        prompts={
            specs[position].name: prompt.template
            for position, prompt in project.prompts.items()
            if prompt.template
        },
        references=project.references,
        project=project,
        durable=durable,
        warnings=warnings,
    )


def _raise_if_any(problems: Iterable[Problem]) -> None:
    if found := tuple(problems):
        raise ConfigError(found)


def _root(document: Document, source: Source) -> tuple[Validated[LoomConfig], list[_Agent]]:
    if not document.is_read:
        every = frozenset(LoomConfig.model_fields)
        return Validated(LoomConfig(version=1), broken=every), []
    value = dict(document.value)
    agents = value.get("agents")
    if not isinstance(agents, list):
        return validate(LoomConfig, value, source), []
    del value["agents"]
    inline = [
        _agent(agent, source.inside("agents", position)) for position, agent in enumerate(agents)
    ]
    return validate(LoomConfig, value, source), inline


def _agents_of_folder(
    root: Validated[LoomConfig], source: Source, base_dir: Path, show: _Show, *, alone: bool
) -> list[_Agent]:
    """Read the files of `agents_dir`; `alone` when they would be the only agents."""
    if root.spec is None or "agents_dir" in root.broken:
        return []
    folder = base_dir / root.spec.agents_dir
    try:
        files = sorted(folder.iterdir())
    except FileNotFoundError:
        if not alone or "agents" in root.broken:
            return []
        problem = source.problem(("agents_dir",), _NO_FOLDER, folder=show(folder))
        return [(None, (problem,))]
    except (OSError, ValueError) as error:
        template = "{folder} cannot be read: {reason}"
        params = {"folder": show(folder), "reason": _reason(error)}
        return [(None, (source.problem(("agents_dir",), template, **params),))]
    return [
        _agent_of_file(file, show)
        for file in files
        if file.suffix in _SUFFIXES and not file.name.startswith(".") and not file.is_dir()
    ]


def _agent_of_file(file: Path, show: _Show) -> _Agent:
    try:
        document = _read(file, show)
    except ConfigError as error:
        return None, error.problems
    if not document.is_read:
        return None, document.problems
    agent, problems = _agent(document.value, Source(show(file), document.value, document))
    return agent, (*document.problems, *problems)


def _agent(value: JsonValue, source: Source) -> _Agent:
    if not isinstance(value, dict):
        return None, (not_a_mapping(value, source),)
    found = validate(AgentSpec, value, source, AGENT)
    agent = WrittenAgent(found.spec, source, found.broken) if found.spec else None
    return agent, found.problems


def _model_ids(value: Mapping[str, JsonValue]) -> tuple[str, ...]:
    models = value.get("models")
    ids = [m.get("id") for m in models if isinstance(m, dict)] if isinstance(models, list) else []
    return tuple(dict.fromkeys(model_id for model_id in ids if isinstance(model_id, str)))


def _read(file: Path, show: _Show, missing: str = "there is no such file") -> Document:
    try:
        data = file.read_bytes()
    except FileNotFoundError as error:
        raise ConfigError([Problem(show(file), None, "", missing, {})]) from error
    except (OSError, ValueError) as error:
        params: dict[str, object] = {"reason": _reason(error)}
        template = "the file cannot be read: {reason}"
        raise ConfigError([Problem(show(file), None, "", template, params)]) from error
    return read_document(data, show(file))


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _shown_from(base_dir: Path) -> _Show:
    """Show files from the working directory when they are in it, else from `base_dir`."""
    here = Path.cwd()
    start = here if base_dir.is_relative_to(here) else base_dir

    def show(file: Path) -> str:
        return str(file.relative_to(start)) if file.is_relative_to(start) else str(file)

    return show
