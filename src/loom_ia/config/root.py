"""The description of an instance, with the same classes for `loom.yaml` and for Python.

Law. These are values: no file is read here and nothing is looked up. What depends on several parts
of the configuration is checked in `config/checks`, one file for each check. The `description` of a
field is what the reference page and the schema say of it.
"""

from typing import Literal, TypeAlias

from pydantic import Field

from loom_ia.agents import AgentSpec, Budgets
from loom_ia.config.section import Section
from loom_ia.config.server import Notices, Security, Server, TriggerSpec
from loom_ia.config.sources import McpServerSpec, ToolSourceSpec
from loom_ia.core.json import JsonObject
from loom_ia.core.model import ModelSpec
from loom_ia.core.model.images import IMAGE_TYPES, ImageType
from loom_ia.core.model.session_state import (
    DEFAULT_TOTAL_BYTES,
    DEFAULT_VALUE_BYTES,
    MOST_STATE_BYTES,
)
from loom_ia.core.prompts import Language
from loom_ia.graph.spec import GraphSpec

ProfileName: TypeAlias = Literal["dev", "prod"]
EventsBackend: TypeAlias = Literal["memory", "jsonl", "sqlite"]
ArtifactsBackend: TypeAlias = Literal["local", "memory"]
IdempotencyBackend: TypeAlias = Literal["journal", "memory", "sqlite"]
LogLevel: TypeAlias = Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]
LogFormat: TypeAlias = Literal["console", "json"]


class EventsStorage(Section):
    """Where the journal is. `path` is a folder for jsonl, a file for sqlite, none for memory."""

    backend: EventsBackend = Field(
        default="memory",
        description=(
            "`memory` ends with the process; `jsonl` is a folder with one file for each session; "
            "`sqlite` is one file."
        ),
    )
    path: str | None = Field(
        default=None,
        min_length=1,
        description="The folder (`jsonl`) or the file (`sqlite`); none for `memory`.",
    )


class ArtifactsStorage(Section):
    """Where files are. By default they follow the journal: beside it, or in memory with it.

    `path` is a folder, for local only; without it, `.artifacts` in the folder of the journal.
    """

    backend: ArtifactsBackend | None = Field(
        default=None,
        description=(
            "`local` is a folder; `memory` ends with the process. `null` follows the journal."
        ),
    )
    path: str | None = Field(
        default=None,
        min_length=1,
        description="The folder (`local`); `null` is `.artifacts` in the folder of the journal.",
    )


class IdempotencyStorage(Section):
    """Where tools that remember keep what they did. `path` is a file, for sqlite only."""

    backend: IdempotencyBackend = Field(
        default="journal",
        description=(
            "`journal` remembers each call in its session; `sqlite` is one file, which a key that "
            "runs share needs; `memory` ends with the process."
        ),
    )
    path: str | None = Field(
        default=None, min_length=1, description="The file (`sqlite`); none for the others."
    )


class Storage(Section):
    """Where things are kept."""

    events: EventsStorage = Field(default=EventsStorage(), description="The journal.")
    artifacts: ArtifactsStorage = Field(
        default=ArtifactsStorage(),
        description=(
            "The files that come with requests or that tools make, and results too large to be "
            "shown whole."
        ),
    )
    idempotency: IdempotencyStorage = Field(
        default=IdempotencyStorage(), description="What tools under `@idempotent` remember."
    )


class ToolExecution(Section):
    """What holds for every tool that says nothing else.

    `timeout` in seconds, None for no limit. A result of more than `offload_over` characters is put
    away and only its beginning shown, None for never.
    """

    timeout: float | None = Field(
        default=30.0, gt=0, description="Seconds that a call may take; `null` for no limit."
    )
    offload_over: int | None = Field(
        default=50_000,
        gt=0,
        description=(
            "Characters above which a result is put away and only its beginning shown to the "
            "model; `null` for never."
        ),
    )


class Attachments(Section):
    """What may be attached to a request; `max_bytes` is of one file."""

    max_bytes: int = Field(default=5_242_880, gt=0, description="Bytes that a file may have.")
    types: tuple[ImageType, ...] = Field(
        default=IMAGE_TYPES,
        min_length=1,
        strict=False,
        description="The types that are accepted, told by the first bytes of a file.",
    )
    max_files: int = Field(
        default=10, ge=0, description="Files that a request may have; 0 refuses all of them."
    )


class Execution(Section):
    """Durations, in seconds: of a lease, and of what a stop waits for before it cuts."""

    tools: ToolExecution = Field(
        default=ToolExecution(), description="What holds for every tool that says nothing else."
    )
    attachments: Attachments = Field(
        default=Attachments(), description="The files that a request may bring."
    )
    lease: float = Field(
        default=60.0,
        gt=0,
        description="Seconds for which a driver owns a run without writing anything.",
    )
    shutdown_timeout: float = Field(
        default=30.0,
        ge=0,
        description="Seconds that leaving `async with Loom…` waits for runs and calls under way.",
    )


class StateLimits(Section):
    """How large the state of a session may be, in bytes of JSON."""

    max_value_bytes: int = Field(
        default=DEFAULT_VALUE_BYTES,
        gt=0,
        le=MOST_STATE_BYTES,
        description="Bytes that one value may take as JSON.",
    )
    max_total_bytes: int = Field(
        default=DEFAULT_TOTAL_BYTES,
        gt=0,
        le=MOST_STATE_BYTES,
        description="Bytes that all the values that an agent reads may take as JSON.",
    )


class Sessions(Section):
    """What holds for every session."""

    state: StateLimits = Field(
        default=StateLimits(), description="How large the state of a session may be."
    )


class Logging(Section):
    """The log of this package, which is set up only when asked."""

    level: LogLevel = Field(default="INFO", description="The least serious line that is shown.")
    format: LogFormat = Field(
        default="console", description="`console` for people, `json` for machines."
    )


class Capture(Section):
    """What is kept beyond the facts that a run needs."""

    raw_exchanges: bool = Field(
        default=False,
        description=(
            "Write each HTTP exchange with a provider to the journal, without secrets and without "
            "the bytes of files."
        ),
    )
    raw_max_bytes: int = Field(
        default=262_144, gt=0, description="Bytes of a body above which it is cut."
    )


class Telemetry(Section):
    """What is shown of the inside."""

    logging: Logging = Field(
        default=Logging(), description="The technical log, apart from the journal."
    )
    capture: Capture = Field(
        default=Capture(), description="What is kept beyond the facts that a run needs."
    )


class Profiles(Section):
    """What each profile changes in the rest: a part of a configuration, merged when it is active.

    Its content is checked then, with what it is merged into.
    """

    dev: JsonObject = Field(default_factory=dict, description="What the profile `dev` changes.")
    prod: JsonObject = Field(default_factory=dict, description="What the profile `prod` changes.")


class LoomConfig(Section):
    """A whole configuration. Paths are relative to the folder of the file, or of the process."""

    version: Literal[1] = Field(description="The version of this language.")
    profile: ProfileName | None = Field(
        default=None,
        description=(
            "The profile when neither `--profile` nor `LOOM_PROFILE` chooses one. In `dev`, tools "
            "that may wait for a human are allowed on a journal in memory."
        ),
    )
    profiles: Profiles = Field(
        default=Profiles(),
        description=(
            "What a profile changes here: mappings are merged key by key; a list, a `params` or "
            "an `llm` is replaced whole."
        ),
    )
    env_file: str | None = Field(
        default=None,
        min_length=1,
        description=(
            "The file of environment variables that the command reads instead of a `.env` next to "
            "`loom.yaml`."
        ),
    )
    imports: tuple[str, ...] = Field(
        default=(),
        strict=False,
        description=(
            "Python modules that hold your tools and graphs; those next to `loom.yaml` are found."
        ),
    )
    agents_dir: str = Field(
        default="agents", min_length=1, description="The folder with one file for each agent."
    )
    graphs_dir: str = Field(
        default="graphs", min_length=1, description="The folder with one file for each graph."
    )
    prompts_dir: str = Field(
        default="prompts", min_length=1, description="The folder that `system_file` is relative to."
    )
    language: Language = Field(
        default="en",
        description="The language of the texts that the engine itself puts before a model.",
    )
    models: tuple[ModelSpec, ...] = Field(
        default=(), strict=False, description="The models that agents may use; each `id` once."
    )
    mcp_servers: tuple[McpServerSpec, ...] = Field(
        default=(), strict=False, description="The MCP servers whose tools agents may use."
    )
    tool_sources: tuple[ToolSourceSpec, ...] = Field(
        default=(), strict=False, description="The installed packages whose tools agents may use."
    )
    storage: Storage = Field(default=Storage(), description="Where things are kept.")
    security: Security = Field(default=Security(), description="Who may come in.")
    server: Server = Field(default=Server(), description="The doors of an instance.")
    triggers: tuple[TriggerSpec, ...] = Field(
        default=(), strict=False, description="The webhooks that begin runs; each name once."
    )
    notices: Notices = Field(
        default=Notices(), description="How people are told that something waits for them."
    )
    budgets: Budgets = Field(default=Budgets(), description="What a run of any agent may consume.")
    sessions: Sessions = Field(default=Sessions(), description="What holds for every session.")
    execution: Execution = Field(default=Execution(), description="Limits, most of them durations.")
    telemetry: Telemetry = Field(default=Telemetry(), description="What is shown of the inside.")
    agents: tuple[AgentSpec, ...] = Field(
        default=(), strict=False, description="Agents written here, besides those of `agents_dir`."
    )
    graphs: tuple[GraphSpec, ...] = Field(
        default=(), strict=False, description="Graphs written here, besides those of `graphs_dir`."
    )
