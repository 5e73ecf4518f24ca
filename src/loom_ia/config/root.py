"""The description of an instance, with the same classes for `loom.yaml` and for Python.

Law. These are values: no file is read here and nothing is looked up. What depends on several parts
of the configuration is checked in `config/checks`, one file for each check.
"""

from typing import Literal, TypeAlias

from pydantic import ConfigDict, Field

from loom_ia.agents import AgentSpec
from loom_ia.core.model import ModelSpec
from loom_ia.core.model.base import Value
from loom_ia.core.prompts import Language

ProfileName: TypeAlias = Literal["dev", "prod"]
EventsBackend: TypeAlias = Literal["memory", "jsonl", "sqlite"]
ArtifactsBackend: TypeAlias = Literal["local", "memory"]
LogLevel: TypeAlias = Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]
LogFormat: TypeAlias = Literal["console", "json"]


class _Section(Value):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class EventsStorage(_Section):
    """Where the journal is. `path` is a folder for jsonl, a file for sqlite, none for memory."""

    backend: EventsBackend = "memory"
    path: str | None = Field(default=None, min_length=1)


class ArtifactsStorage(_Section):
    """Where files are. By default they follow the journal: beside it, or in memory with it.

    `path` is a folder, for local only; without it, `.artifacts` in the folder of the journal.
    """

    backend: ArtifactsBackend | None = None
    path: str | None = Field(default=None, min_length=1)


class Storage(_Section):
    """Where things are kept."""

    events: EventsStorage = EventsStorage()
    artifacts: ArtifactsStorage = ArtifactsStorage()


class ToolExecution(_Section):
    """What holds for every tool that says nothing else.

    `timeout` in seconds, None for no limit. A result of more than `offload_over` characters is put
    away and only its beginning shown, None for never.
    """

    timeout: float | None = Field(default=30.0, gt=0)
    offload_over: int | None = Field(default=50_000, gt=0)


class Execution(_Section):
    """Durations, in seconds: of a lease, and of what a stop waits for before it cuts."""

    tools: ToolExecution = ToolExecution()
    lease: float = Field(default=60.0, gt=0)
    shutdown_timeout: float = Field(default=30.0, ge=0)


class Logging(_Section):
    """The log of this package, which is set up only when asked."""

    level: LogLevel = "INFO"
    format: LogFormat = "console"


class Telemetry(_Section):
    """What is shown of the inside."""

    logging: Logging = Logging()


class LoomConfig(_Section):
    """A whole configuration. Paths are relative to the folder of the file, or of the process."""

    version: Literal[1]
    profile: ProfileName | None = None
    imports: tuple[str, ...] = ()
    agents_dir: str = Field(default="agents", min_length=1)
    prompts_dir: str = Field(default="prompts", min_length=1)
    language: Language = "en"
    models: tuple[ModelSpec, ...] = ()
    storage: Storage = Storage()
    execution: Execution = Execution()
    telemetry: Telemetry = Telemetry()
    agents: tuple[AgentSpec, ...] = ()
