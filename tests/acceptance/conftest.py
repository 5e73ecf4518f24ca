"""The common project, in a folder of its own."""

import os
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from tests.acceptance.project import Project
from tests.providers.rules import problems_of_chat, problems_of_messages, problems_of_responses
from tests.providers.server import Provider

RULES = {
    "/v1/messages": problems_of_messages,
    # No type of the SDK knows where other servers put what they think.
    "/v1/chat/completions": partial(problems_of_chat, extra=("reasoning_content",)),
    "/v1/responses": problems_of_responses,
}


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
    """A provider on the loopback, for the length of a test; it is strict about what it is sent."""
    async with Provider() as serving:
        yield serving
        for request in serving.requests:
            assert RULES[request.path](request.body) == []
