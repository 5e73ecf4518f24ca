"""What the tests of the providers share."""

from collections.abc import AsyncIterator

import pytest

from tests.providers.server import Provider


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    """Serve on the loopback for the length of a test."""
    async with Provider() as serving:
        yield serving
