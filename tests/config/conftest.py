"""A project on disk for each test."""

from pathlib import Path

import pytest

from tests.config.projects import Folder


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """A sound project with one model, HAIKU, and one agent, devis."""
    return Folder(tmp_path)
