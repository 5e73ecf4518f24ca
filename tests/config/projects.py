"""A project on disk, and what loading it says."""

import textwrap
from pathlib import Path

import pytest

from loom_ia.config import LoadedConfig, load_config
from loom_ia.core.errors import ConfigError

AGENT = "name: devis\nmain: {model: HAIKU, system: Bonjour.}\n"
ROOT = """\
version: 1
models:
  - id: HAIKU
    sdk: fake
    model: fake-1
"""


class Folder:
    """A folder that holds a project: sound as it is, each test writes what it is about."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.write("loom.yaml", ROOT)
        self.write("agents/devis.yaml", AGENT)

    def write(self, name: str, text: str | bytes) -> Path:
        """Write a file of the project, without the indentation of the test."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = text if isinstance(text, bytes) else textwrap.dedent(text).encode()
        path.write_bytes(data)
        return path

    def load(
        self,
        *,
        profile: str | None = None,
        environ: dict[str, str] | None = None,
        references: bool = False,
    ) -> LoadedConfig:
        """Load the project with an empty environment."""
        return load_config(self.path, profile=profile, environ=environ or {}, references=references)

    def problems(self, *, profile: str | None = None, references: bool = False) -> list[str]:
        """Give what loading the project says is wrong, one line for each problem."""
        with pytest.raises(ConfigError) as caught:
            self.load(profile=profile, references=references)
        return str(caught.value).splitlines()
