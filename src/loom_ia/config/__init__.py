"""What an instance is, in `loom.yaml` or in Python, and how it is read and checked.

Law. Importing this package reads no file and loads no parser: YAML waits until a file is read.
"""

from loom_ia.config.env import EnvFile, load_env_file
from loom_ia.config.load import LoadedConfig, load_config, prepare_config
from loom_ia.config.overrides import Override
from loom_ia.config.profiles import ActiveProfile
from loom_ia.config.references import References
from loom_ia.config.root import (
    Attachments,
    EventsStorage,
    Execution,
    Logging,
    LoomConfig,
    Profiles,
    Storage,
    Telemetry,
    ToolExecution,
)

__all__ = [
    "ActiveProfile",
    "Attachments",
    "EnvFile",
    "EventsStorage",
    "Execution",
    "LoadedConfig",
    "Logging",
    "LoomConfig",
    "Override",
    "Profiles",
    "References",
    "Storage",
    "Telemetry",
    "ToolExecution",
    "load_config",
    "load_env_file",
    "prepare_config",
]
