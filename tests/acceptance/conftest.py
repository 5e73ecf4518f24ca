"""The common project, in a folder of its own."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.acceptance.project import Project
from tests.providers.server import Provider


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """The project P, written; change it and `save` it again.

    The tests stand in its folder, for its tools write their effects where they are.
    """
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("LOOM_")]:
        monkeypatch.delenv(name)
    return Project(tmp_path).save()


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    """A provider on the loopback, for the length of a test."""
    async with Provider() as serving:
        yield serving
